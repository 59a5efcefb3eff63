"""Replacement of a job: pending fire times stay, running executions keep their version."""

import pytest

from rota.core.errors import Kind, Refused
from rota.core.model.ids import JobId
from rota.core.model.job import JobSpec, Misfire
from rota.core.timing.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant, later
from rota.core.vocabulary.changes import Subscribe, Table, Unsubscribe
from rota.core.vocabulary.commands import DeleteJob, SaveJob
from rota.core.vocabulary.decision import JobSaved
from rota.core.vocabulary.effects import ClearTimer, Deliver
from unit.core.shard import Shard, at, every, job, task


def replace(shard: Shard, spec: JobSpec, if_version: int | None = None) -> JobId:
    reply = shard.do(SaveJob(spec=spec, may_replace=True, if_version=if_version))
    assert isinstance(reply, JobSaved)
    return reply.job_id


def test_a_replaced_job_keeps_its_id_and_counts_its_versions() -> None:
    shard = Shard()
    first = shard.save(name="report")

    second = replace(shard, job(task("other"), name="report"))

    assert second == first
    assert shard.state.jobs[first].version == 2
    assert shard.state.jobs[first].spec.tasks[0].name == "other"


def test_the_same_definition_makes_no_version() -> None:
    shard = Shard()
    job_id = shard.save(name="report")

    replace(shard, job(name="report"))

    assert shard.state.jobs[job_id].version == 1
    assert shard.effects == []


def test_replacing_what_is_not_there_creates_it() -> None:
    shard = Shard()

    job_id = replace(shard, job(name="report"))

    assert shard.state.jobs[job_id].version == 1


@pytest.mark.parametrize("asked", [1, 3])
def test_another_version_than_expected_is_refused(asked: int) -> None:
    shard = Shard()
    job_id = shard.save(name="report")
    replace(shard, job(task("second"), name="report"))

    with pytest.raises(Refused, match="is at version 2, not at version") as put:
        replace(shard, job(task("third"), name="report"), if_version=asked)
    with pytest.raises(Refused, match="version_mismatch"):
        shard.do(DeleteJob(job_id=job_id, if_version=asked))

    assert put.value.kind is Kind.PRECONDITION
    assert shard.state.jobs[job_id].version == 2


def test_a_version_is_expected_of_a_job_that_does_not_exist() -> None:
    shard = Shard()

    with pytest.raises(Refused, match="does not exist, so it is not at version 1"):
        replace(shard, job(name="report"), if_version=1)


def test_an_unfinished_execution_keeps_the_tasks_of_its_version() -> None:
    shard = Shard()
    old = shard.run(task("first"), task("then", "first"), name="report")

    replace(shard, job(task("only"), name="report"))
    shard.finish(old, "first")
    shard.finish(old, "then")

    assert shard.status(old) == "success"
    assert shard.keys(Table.VERSION) == []
    new = shard.trigger(shard.execution(old).job_id)
    assert list(shard.statuses(new)) == ["only"]


def test_a_replaced_version_stays_until_its_last_execution_has_ended() -> None:
    shard = Shard()
    job_id = shard.save(task("a"), name="report")
    one, two = shard.trigger(job_id), shard.trigger(job_id)
    replace(shard, job(task("b"), name="report"))

    shard.finish(one, "a")
    kept = shard.keys(Table.VERSION)
    shard.finish(two, "a")

    assert len(kept) == 1
    assert shard.keys(Table.VERSION) == []


def test_a_schedule_that_stays_keeps_its_next_fire_time() -> None:
    shard = Shard()
    job_id = shard.save(name="report", schedules=every("@every 10m"))
    before = shard.state.plans[job_id].next_fires
    shard.pass_time(Duration(3 * MINUTE))

    replace(
        shard,
        job(task("other"), name="report", schedules=(*every("@every 1h"), *every("@every 10m"))),
    )

    assert shard.state.plans[job_id].next_fires[1] == before[0]


def test_an_instant_that_has_fired_does_not_fire_again_in_the_next_version() -> None:
    shard = Shard(clock=at("2027-01-04T11:59:00Z"))
    once = every("@at 2027-01-04T12:00:00Z")
    job_id = shard.save(name="report", schedules=once)
    shard.pass_time(Duration(2 * MINUTE))
    shard.ring_timers()

    replace(shard, job(task("other"), name="report", schedules=once))
    next_fires = shard.state.plans[job_id].next_fires
    shard.pass_time(Duration(2 * MINUTE))
    shard.ring_timers()

    assert next_fires == (None,)
    assert sum(cause.startswith("fire ") for cause in shard.causes) == 1
    assert [entry.outcome.value for entry in shard.ledger()] == ["fired"]


def test_a_removed_schedule_fires_no_more() -> None:
    shard = Shard()
    job_id = shard.save(name="report", schedules=every("@every 10m"))

    replace(shard, job(name="report"))
    shard.pass_time(Duration(30 * MINUTE))

    assert shard.executions() == []
    assert shard.state.plans[job_id].next_fires == ()
    assert len(shard.all_effects(ClearTimer)) == 1


def test_fires_that_are_due_get_their_outcome_under_the_old_definition() -> None:
    shard = Shard()
    shard.save(
        name="report",
        schedules=every("@every 10s"),
        misfire=Misfire.SKIP,
        grace=Duration(15 * SECOND),
    )
    shard.set_clock(later(shard.clock, Duration(60 * SECOND)))

    replace(shard, job(name="report"))

    outcomes = {entry.outcome.value for entry in shard.ledger()}
    assert outcomes == {"missed", "fired"}
    assert sum(entry.count for entry in shard.ledger()) == 6


def test_dependencies_that_stay_keep_received_successes() -> None:
    shard = Shard()
    a, b = shard.save(name="a"), shard.save(name="b")
    c = shard.save(name="c", dependencies=("default/a", "default/b"))
    shard.deliver()
    shard.finish(shard.trigger(a))
    shard.deliver()

    replace(shard, job(task("other"), name="c", dependencies=("default/b", "default/a")))
    shard.deliver()
    shard.finish(shard.trigger(b))
    shard.deliver()

    assert [one.job_id for one in shard.executions()].count(c) == 1


def test_only_changed_dependencies_cause_messages() -> None:
    shard = Shard()
    shard.save(name="a")
    shard.save(name="b")
    shard.save(name="c", dependencies=("default/a",))
    shard.deliver()
    before = len(shard.all_effects(Deliver))

    replace(shard, job(name="c", dependencies=("default/b",)))

    messages = [effect.item.message for effect in shard.all_effects(Deliver)[before:]]
    assert messages == [
        Unsubscribe(upstream="default/a", dependent="default/c"),
        Subscribe(upstream="default/b", dependent="default/c"),
    ]


AHEAD = Duration(25 * MILLISECOND)


def decided_ahead(text: str) -> tuple[Shard, JobId]:
    """Return a shard that has just decided a job's fire at 12:01, ahead of that time."""
    shard = Shard(ahead=AHEAD)
    job_id = shard.save(schedules=every(text))
    shard.set_clock(Instant(at("12:01") - AHEAD))
    shard.fire(job_id)
    assert shard.fired() == ["12:01:00"]
    return shard, job_id


def test_what_was_decided_ahead_is_not_decided_again_under_another_schedule() -> None:
    shard, job_id = decided_ahead("* * * * *")

    replace(shard, job(schedules=every("@every 30s")))
    shard.set_clock(at("12:01:31"))
    shard.fire(job_id)

    assert shard.fired() == ["12:01:00", "12:01:30"]


def test_a_fire_time_that_only_the_new_schedule_has_is_not_lost() -> None:
    shard, job_id = decided_ahead("* * * * *")

    replace(shard, job(schedules=every("@every 1s phase 990ms")))
    shard.set_clock(at("12:01"))
    shard.fire(job_id)

    [first, second] = shard.ledger()
    assert sorted((first.fire_at, second.fire_at)) == [
        Instant(at("12:01") - 10 * MILLISECOND),
        at("12:01"),
    ]


def test_nor_is_an_instant_that_was_decided_ahead_and_has_no_fire_after_it() -> None:
    shard, job_id = decided_ahead("@at 2027-01-04T12:01:00Z")

    replace(shard, job(schedules=every("@every 30s")))
    shard.set_clock(at("12:01:31"))
    shard.fire(job_id)

    assert shard.fired() == ["12:01:00", "12:01:30"]


def test_an_instant_that_has_run_and_is_added_again_is_another_execution() -> None:
    shard = Shard()
    at_once = job(schedules=every("@at 2027-01-04T12:01:00Z"), misfire=Misfire.ALL)
    job_id = replace(shard, at_once)
    shard.pass_time(MINUTE)
    (first,) = shard.live()
    replace(shard, job(schedules=every("0 0 1 1 *"), misfire=Misfire.ALL))

    replace(shard, at_once)
    shard.ring_timers()

    assert len(shard.live()) == 2
    assert first in shard.live()
    assert shard.state.jobs[job_id].version == 3
