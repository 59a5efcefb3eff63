"""Quotas of namespaces: requests are refused, fires are skipped, and what exists continues."""

import pytest

from rota.core.errors import Refused
from rota.core.model.hook import Hook, HookEvent
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import JobSpec, Misfire, Overlap
from rota.core.timing.instants import MINUTE, SECOND, Duration
from rota.core.vocabulary.commands import DeleteJob, ReceiveMessage, RunIfMet, SaveJob
from rota.core.vocabulary.effects import PublishHook
from rota.core.vocabulary.facts import NO_FACTS, Facts
from rota.core.vocabulary.quotas import NO_USE, Quota, Use
from unit.core.decide.test_rerun_execution import failed_at_transform
from unit.core.shard import ONE_TASK, Shard, every

TEAM = "team-a"


def shard_with(quota: Quota, elsewhere: Use = NO_USE) -> Shard:
    return Shard(facts=Facts(quotas={TEAM: quota}), elsewhere=elsewhere)


def test_a_job_above_the_quota_is_refused_and_a_deletion_makes_room() -> None:
    shard = shard_with(Quota(jobs=2))
    first = shard.save(name="a", namespace=TEAM)
    shard.save(name="b", namespace=TEAM)
    replaced = JobSpec(name="b", namespace=TEAM, tasks=ONE_TASK, description="replaced")

    with pytest.raises(
        Refused, match=r"quota_exceeded: namespace 'team-a' has 2 of at most 2 jobs"
    ):
        shard.save(name="c", namespace=TEAM)
    shard.save(name="c")
    shard.do(SaveJob(spec=replaced, may_replace=True))
    shard.do(DeleteJob(job_id=first))
    shard.save(name="c", namespace=TEAM)

    assert shard.state.use_of(TEAM).jobs == 2


def test_jobs_and_executions_of_other_shards_count() -> None:
    shard = shard_with(Quota(jobs=3, executions=4), elsewhere=Use(jobs=2, executions=3))
    job_id = shard.save(name="a", namespace=TEAM)
    shard.trigger(job_id)

    with pytest.raises(Refused, match="has 3 of at most 3 jobs"):
        shard.save(name="b", namespace=TEAM)
    with pytest.raises(Refused, match="has 4 of at most 4 unfinished executions"):
        shard.trigger(job_id)


def test_a_quota_of_nothing_allows_nothing() -> None:
    shard = Shard()
    job_id = shard.save(name="a", namespace=TEAM)
    shard.facts = Facts(quotas={TEAM: Quota(jobs=0, executions=0)})

    with pytest.raises(Refused, match="quota_exceeded"):
        shard.save(name="b", namespace=TEAM)
    with pytest.raises(Refused, match="quota_exceeded"):
        shard.trigger(job_id)


def test_a_trigger_above_the_quota_is_refused_until_an_execution_has_finished() -> None:
    shard = shard_with(Quota(executions=1))
    job_id = shard.save(name="a", namespace=TEAM, overlap=Overlap.ALLOW)
    running = shard.trigger(job_id)

    with pytest.raises(Refused, match="quota_exceeded"):
        shard.trigger(job_id)
    shard.trigger(shard.save(name="other"))
    shard.finish(running)

    assert shard.status(running) == "success"
    shard.trigger(job_id)


def test_a_fire_above_the_quota_is_skipped_with_the_reason() -> None:
    shard = shard_with(Quota(executions=1))
    shard.save(name="a", namespace=TEAM, schedules=every("@every 1m"), overlap=Overlap.ALLOW)

    for _ in range(3):
        shard.pass_time(Duration(MINUTE))
    (first,) = shard.executions()
    shard.finish(first.id)
    shard.pass_time(Duration(MINUTE))

    assert [entry.outcome.value for entry in shard.ledger()] == [
        "fired", "skipped", "skipped", "fired",
    ]  # fmt: skip
    assert shard.ledger()[1].reason == (
        "quota_exceeded: namespace 'team-a' has 1 of at most 1 unfinished executions"
    )


def test_the_fires_of_one_decision_count() -> None:
    shard = shard_with(Quota(executions=2))
    shard.save(
        name="a",
        namespace=TEAM,
        schedules=every("@every 1m"),
        overlap=Overlap.ALLOW,
        misfire=Misfire.ALL,
    )

    shard.pass_time(Duration(5 * MINUTE))

    assert [entry.outcome.value for entry in shard.ledger()] == ["fired"] * 2 + ["skipped"] * 3


def test_a_fire_above_the_quota_is_not_decided_ahead() -> None:
    shard = shard_with(Quota(executions=1))
    shard.ahead = Duration(SECOND)
    running = shard.trigger(shard.save(name="other", namespace=TEAM))
    shard.save(name="a", namespace=TEAM, schedules=every("@every 1m"))
    shard.pass_time(Duration(MINUTE - SECOND // 2))
    decided_ahead = list(shard.ledger())

    shard.finish(running)
    shard.pass_time(Duration(SECOND))

    assert decided_ahead == []
    assert [entry.outcome.value for entry in shard.ledger()] == ["fired"]


def test_a_one_off_job_that_could_not_run_is_refused() -> None:
    shard = shard_with(Quota(executions=0))
    one_off = JobSpec(name="once", namespace=TEAM, tasks=ONE_TASK, is_one_off=True)

    with pytest.raises(Refused, match="quota_exceeded"):
        shard.do(SaveJob(spec=one_off))

    assert not shard.state.jobs


def test_a_rerun_above_the_quota_is_refused() -> None:
    shard = Shard()
    command = failed_at_transform(shard)
    shard.facts = Facts(quotas={"default": Quota(executions=0)})

    with pytest.raises(Refused, match="quota_exceeded"):
        shard.do(command)


def test_a_hook_does_not_trigger_a_job_above_the_quota() -> None:
    shard = shard_with(Quota(executions=0))
    shard.save(name="tell", namespace=TEAM)
    hooks = (Hook(event=HookEvent.SUCCESS, job=f"{TEAM}/tell"),)
    shard.finish(shard.trigger(shard.save(name="report", hooks=hooks)))

    (message,) = shard.messages.values()
    shard.do(ReceiveMessage(message=message))

    (dropped,) = [each for each in shard.effects if isinstance(each, PublishHook)]
    assert dropped.outcome.value == "dropped"
    assert dropped.detail == "namespace 'team-a' has 0 of at most 0 unfinished executions"


def begun(shard: Shard, job_id: JobId) -> list[ExecutionId]:
    return [one.id for one in shard.executions() if one.job_id == job_id]


def test_a_job_whose_dependencies_are_met_at_the_quota_runs_once_there_is_room() -> None:
    shard = shard_with(Quota(executions=0))
    upstream = shard.save(name="a")
    job_id = shard.save(name="b", namespace=TEAM, dependencies=("default/a",))
    shard.deliver()
    shard.finish(shard.trigger(upstream))
    shard.deliver()
    shard.pass_time(Duration(10 * SECOND))
    at_quota = begun(shard, job_id)
    shard.do(RunIfMet(job_id=job_id))
    changed = shard.change_count

    shard.facts = NO_FACTS
    for _ in range(3):
        shard.pass_time(Duration(10 * SECOND))

    assert (at_quota, changed) == ([], 0)
    assert len(begun(shard, job_id)) == 1
