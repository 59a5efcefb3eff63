"""No execution begins in a paused namespace; those that exist continue."""

import pytest

from rota.core.decide.dispatch import pending
from rota.core.errors import Refused
from rota.core.model.hook import Hook, HookEvent
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import JobSpec, Pause
from rota.core.timing.instants import MINUTE, SECOND, Duration
from rota.core.vocabulary.commands import PauseJob, ReceiveMessage, ResumeJob, RunIfMet, SaveJob
from rota.core.vocabulary.effects import PublishHook, SetTimer
from rota.core.vocabulary.facts import NO_FACTS, Facts
from unit.core.shard import ONE_TASK, Shard, at, every

TEAM = "team-a"
PAUSED = Facts(pauses={TEAM: Pause(at=at("11:59"), by="ann", reason="incident 7")})


def test_fires_in_a_paused_namespace_are_recorded_as_paused() -> None:
    shard = Shard(facts=PAUSED)
    shard.save(name="report", namespace=TEAM, schedules=every("@every 1m"))
    shard.save(name="other", schedules=every("@every 1m"))

    shard.pass_time(Duration(2 * MINUTE))
    shard.ring_timers()

    paused = [entry for entry in shard.ledger() if entry.outcome.value == "paused"]
    assert sum(entry.count for entry in paused) == 2
    assert {entry.reason for entry in paused} == {
        "namespace team-a paused since 2027-01-04T11:59:00Z by ann: incident 7"
    }
    assert {one.job_name for one in shard.executions()} == {"default/other"}


def test_a_fire_is_not_decided_ahead_while_its_namespace_is_paused() -> None:
    shard = Shard(facts=PAUSED, ahead=Duration(SECOND))
    shard.save(name="report", namespace=TEAM, schedules=every("@every 1m"))
    shard.pass_time(Duration(MINUTE - SECOND // 2))
    shard.ring_timers()
    decided_in_pause = list(shard.ledger())

    shard.facts = NO_FACTS
    shard.pass_time(Duration(SECOND))
    shard.ring_timers()

    assert decided_in_pause == []
    assert [entry.outcome.value for entry in shard.ledger()] == ["fired"]


def test_a_trigger_and_a_one_off_job_are_refused() -> None:
    shard = Shard(facts=PAUSED)
    job_id = shard.save(name="report", namespace=TEAM)
    one_off = JobSpec(name="once", namespace=TEAM, tasks=ONE_TASK, is_one_off=True)

    with pytest.raises(Refused, match=r"namespace_paused: .*by ann \(incident 7\)"):
        shard.trigger(job_id)
    with pytest.raises(Refused, match="namespace_paused"):
        shard.do(SaveJob(spec=one_off))

    assert shard.executions() == []


def test_an_execution_continues_in_a_paused_namespace() -> None:
    shard = Shard()
    running = shard.trigger(shard.save(name="report", namespace=TEAM))

    shard.facts = PAUSED
    shard.finish(running)

    assert shard.status(running) == "success"


def test_a_hook_does_not_trigger_a_job_of_a_paused_namespace() -> None:
    shard = Shard()
    shard.save(name="tell", namespace=TEAM)
    hooks = (Hook(event=HookEvent.SUCCESS, job=f"{TEAM}/tell"),)
    running = shard.trigger(shard.save(name="report", namespace=TEAM, hooks=hooks))

    shard.facts = PAUSED
    shard.finish(running)
    (message,) = shard.messages.values()
    shard.do(ReceiveMessage(message=message))

    (dropped,) = [each for each in shard.effects if isinstance(each, PublishHook)]
    assert dropped.outcome.value == "dropped"
    assert dropped.detail == "namespace team-a is paused"


def met_in_a_pause() -> tuple[Shard, JobId]:
    """Return a shard with a job whose only dependency was met while its namespace was paused."""
    shard = Shard()
    upstream = shard.save(name="a")
    job_id = shard.save(name="b", namespace=TEAM, dependencies=("default/a",))
    shard.deliver()
    shard.facts = PAUSED
    shard.finish(shard.trigger(upstream))
    shard.deliver()
    return shard, job_id


def begun(shard: Shard, job_id: JobId) -> list[ExecutionId]:
    return [one.id for one in shard.executions() if one.job_id == job_id]


def test_a_job_whose_dependencies_are_met_in_a_pause_runs_after_it_once() -> None:
    shard, job_id = met_in_a_pause()
    for _ in range(3):
        shard.pass_time(Duration(10 * SECOND))
        shard.ring_timers()
    in_pause = begun(shard, job_id)

    shard.facts = NO_FACTS
    for _ in range(3):
        shard.pass_time(Duration(10 * SECOND))
        shard.ring_timers()

    assert in_pause == []
    assert len(begun(shard, job_id)) == 1


def test_a_try_during_the_pause_changes_no_row() -> None:
    shard, job_id = met_in_a_pause()

    shard.do(RunIfMet(job_id=job_id))

    assert shard.change_count == 0


def test_the_next_primary_tries_such_a_job_too() -> None:
    shard, job_id = met_in_a_pause()

    timers = [each for each in pending(shard.state) if isinstance(each, SetTimer)]

    assert [each.command for each in timers] == [RunIfMet(job_id=job_id)]


def test_a_paused_job_is_not_tried() -> None:
    shard, job_id = met_in_a_pause()
    shard.do(PauseJob(job_id=job_id))
    shard.facts = NO_FACTS

    shard.do(RunIfMet(job_id=job_id))

    assert begun(shard, job_id) == []
    assert list(pending(shard.state)) == []
    shard.do(ResumeJob(job_id=job_id))
    assert len(begun(shard, job_id)) == 1
