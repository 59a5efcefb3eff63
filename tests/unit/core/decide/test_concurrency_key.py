"""Concurrency keys: the overlap policy applies among executions with the same key."""

import pytest

from rota.core.errors import Refused
from rota.core.model.execution import Hold
from rota.core.model.job import JobSpec, Overlap, SchedulePolicy, problems_of
from rota.core.timing.instants import MINUTE
from rota.core.vocabulary.commands import Rerun, RerunScope
from unit.core.decide.test_backfills import Filled
from unit.core.shard import Shard, every, job

KEY = "params.customer"
MINUTELY = every("* * * * *")


def params(customer: str) -> str:
    """Return parameters for a customer."""
    return f'{{"customer": "{customer}"}}'


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL])
def test_executions_with_other_keys_run_side_by_side(overlap: Overlap) -> None:
    shard = Shard()
    job_id = shard.save(overlap=overlap, concurrency_key=KEY)

    begun = [shard.trigger(job_id, params(each)) for each in ("a", "b", "c")]

    assert [shard.status(one) for one in begun] == ["running"] * 3


def test_an_execution_waits_for_one_with_its_key_alone() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ALL, concurrency_key=KEY)
    first, other = shard.trigger(job_id, params("a")), shard.trigger(job_id, params("b"))
    waiting = shard.trigger(job_id, params("a"))

    shard.finish(other)
    before = shard.execution(waiting).hold
    shard.finish(first)

    assert (before, shard.execution(waiting).hold) == (Hold.OVERLAP, Hold.NONE)


def test_each_key_may_have_as_many_executions_as_may_run() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.SKIP, concurrency_key=KEY, max_parallel=2)
    for each in ("a", "a", "b"):
        shard.trigger(job_id, params(each))

    with pytest.raises(Refused, match="overlap policy is skip"):
        shard.trigger(job_id, params("a"))
    shard.trigger(job_id, params("b"))

    assert len(shard.live()) == 4


def test_a_new_execution_cancels_those_with_its_key_alone() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.CANCEL_RUNNING, concurrency_key=KEY)
    first, other = shard.trigger(job_id, params("a")), shard.trigger(job_id, params("b"))

    shard.trigger(job_id, params("a"))

    assert shard.execution(first).cancelled_at
    assert not shard.execution(other).cancelled_at


def test_schedules_with_their_own_parameters_have_their_own_keys() -> None:
    shard = Shard()
    policies = (SchedulePolicy(parameters=params("a")), SchedulePolicy(parameters=params("b")))
    shard.save(
        schedules=MINUTELY + MINUTELY,
        policies=policies,
        overlap=Overlap.SKIP,
        concurrency_key=KEY,
    )

    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)

    assert [each.parameters for each in shard.executions()] == [params("a"), params("b")]
    assert [outcome for _, _, outcome in shard.outcomes()] == ["fired"] * 2 + ["skipped"] * 2


def test_a_trigger_whose_parameters_give_no_key_is_refused() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.SKIP, concurrency_key=KEY)

    for parameters in ("", "{}", '{"customer": null}', '{"customer": ""}', params("x" * 201)):
        with pytest.raises(Refused, match=r"concurrencyKey: params\.customer") as refused:
            shard.trigger(job_id, parameters)
        assert refused.value.code == "invalid_parameters"


def test_a_rerun_has_the_key_of_its_parameters() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.SKIP, concurrency_key=KEY)
    first = shard.trigger(job_id, params("a"))
    shard.finish(first)
    running = shard.trigger(job_id, params("a"))
    past, tasks = shard.execution(first), (shard.task(first),)

    with pytest.raises(Refused, match="overlap"):
        shard.do(Rerun(past=past, tasks=tasks, scope=RerunScope.ALL))
    shard.do(Rerun(past=past, tasks=tasks, scope=RerunScope.ALL, parameters=params("b")))

    rerun = next(one for one in shard.executions() if one.rerun_of)
    assert shard.status(running) == "running"
    assert rerun.concurrency_key == "b"


def test_a_new_primary_knows_the_keys() -> None:
    shard = Shard()
    job_id = shard.save(overlap=Overlap.QUEUE_ALL, concurrency_key=KEY)
    for each in ("a", "b", "a"):
        shard.trigger(job_id, params(each))

    assert shard.reloaded().live_by_key == shard.state.live_by_key
    assert len(shard.state.live_by_key[job_id, "a"]) == 2


def test_a_backfill_whose_parameters_give_no_key_is_refused() -> None:
    with pytest.raises(Refused, match="concurrencyKey"):
        Filled(overlap=Overlap.SKIP, concurrency_key=KEY)


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"overlap": Overlap.ALLOW}, "overlap policy allow"),
        ({"concurrency_key": "results.a"}, "names results, which does not exist"),
        ({"concurrency_key": "params.("}, "concurrencyKey"),
        ({"schedules": MINUTELY}, "with the parameters of schedule 0"),
        ({"schedules": MINUTELY, "parameters": '{"customer": []}'}, ""),
    ],
)
def test_a_key_is_checked_when_the_job_is_saved(fields: dict[str, object], detail: str) -> None:
    whole = {"overlap": Overlap.SKIP, "concurrency_key": KEY, **fields}
    spec: JobSpec = job(**whole)  # type: ignore[arg-type]

    problems = [f"{each.pointer} {each.detail}" for each in problems_of(spec)]

    assert [detail in each for each in problems] == ([True] if detail else [])
