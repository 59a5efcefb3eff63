"""A paused job makes no executions by itself, and its ledger says why."""

import pytest

from rota.core.decide.dispatch import pending
from rota.core.errors import Refused
from rota.core.model.ids import JobId
from rota.core.model.job import Misfire
from rota.core.timing.instants import MINUTE, SECOND, Duration, Instant
from rota.core.vocabulary.commands import EndPause, PauseJob, ResumeJob, SaveJob
from rota.core.vocabulary.effects import SetTimer
from unit.core.shard import Shard, every, job


def test_fires_of_a_paused_job_are_recorded_as_paused() -> None:
    shard = Shard()
    job_id = shard.save(name="report", schedules=every("@every 1m"))

    shard.do(PauseJob(job_id=job_id, by="ann", reason="moving house"))
    shard.pass_time(Duration(3 * MINUTE))
    shard.ring_timers()

    entries = shard.ledger()
    assert {entry.outcome.value for entry in entries} == {"paused"}
    assert sum(entry.count for entry in entries) == 3
    assert entries[0].reason.endswith("by ann: moving house")
    assert shard.executions() == []


def test_a_resumed_job_continues_with_the_next_fire_time() -> None:
    shard = Shard()
    job_id = shard.save(name="report", schedules=every("@every 1m"))
    shard.do(PauseJob(job_id=job_id))
    shard.pass_time(Duration(2 * MINUTE))
    shard.ring_timers()

    shard.do(ResumeJob(job_id=job_id))
    shard.pass_time(Duration(1 * MINUTE))
    shard.ring_timers()

    assert [entry.outcome.value for entry in shard.ledger()][-1] == "fired"
    assert sum(entry.count for entry in shard.ledger()) == 3


def test_executions_of_a_paused_job_continue_and_triggers_are_allowed() -> None:
    shard = Shard()
    job_id = shard.save(name="report")
    running = shard.trigger(job_id)

    shard.do(PauseJob(job_id=job_id))
    asked_for = shard.trigger(job_id)
    shard.finish(running)

    assert shard.status(running) == "success"
    assert shard.status(asked_for) == "running"


def test_pausing_again_keeps_the_first_word() -> None:
    shard = Shard()
    job_id = shard.save(name="report")

    shard.do(PauseJob(job_id=job_id, by="ann"))
    shard.do(PauseJob(job_id=job_id, by="bob"))

    pause = shard.state.jobs[job_id].pause
    assert pause is not None
    assert pause.by == "ann"


def test_a_success_during_the_pause_is_used_when_the_job_is_resumed() -> None:
    shard = Shard()
    a = shard.save(name="a")
    b = shard.save(name="b", dependencies=("default/a",))
    shard.deliver()
    shard.do(PauseJob(job_id=b))
    shard.finish(shard.trigger(a))
    shard.deliver()
    while_paused = [one.job_id for one in shard.executions()].count(b)

    shard.do(ResumeJob(job_id=b))
    shard.do(ResumeJob(job_id=b))

    assert while_paused == 0
    assert [one.job_id for one in shard.executions()].count(b) == 1


def test_a_job_that_is_not_there_cannot_be_paused() -> None:
    shard = Shard()

    for command in (PauseJob(job_id=JobId("0" * 16)), ResumeJob(job_id=JobId("0" * 16))):
        with pytest.raises(Refused, match="job_not_found"):
            shard.do(command)


def test_a_pause_with_an_end_is_over_then_also_on_a_new_primary() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("* * * * *"))
    until = Instant(shard.clock + 90 * SECOND)
    shard.do(PauseJob(job_id=job_id, by="ann", until=until))
    shard.state = shard.reloaded()

    found = [each for each in pending(shard.state) if isinstance(each, SetTimer)]
    for _ in range(4):
        shard.pass_time(Duration(30 * SECOND))

    assert EndPause(job_id=job_id, until=until) in [each.command for each in found]
    assert [outcome for *_, outcome in shard.outcomes()] == ["paused", "fired"]
    assert shard.state.jobs[job_id].pause is None
    assert not shard.state.plans[job_id].paused_until


@pytest.mark.parametrize("misfire", Misfire)
def test_fire_times_after_the_end_of_a_pause_are_missed_and_not_paused(misfire: Misfire) -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("* * * * *"), misfire=misfire)
    shard.do(PauseJob(job_id=job_id, until=Instant(shard.clock + 150 * SECOND)))

    shard.clock = Instant(shard.clock + 270 * SECOND)
    for _ in range(3):
        shard.fire(job_id)

    late = {
        Misfire.ALL: [("12:03:00", 1, "fired"), ("12:04:00", 1, "fired")],
        Misfire.LATEST: [("12:03:00", 1, "coalesced"), ("12:04:00", 1, "fired")],
        Misfire.SKIP: [("12:03:00", 2, "missed")],
    }
    assert shard.outcomes() == [("12:01:00", 2, "paused"), *late[misfire]]


def test_the_end_of_an_earlier_pause_does_not_end_a_later_one() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.do(PauseJob(job_id=job_id, until=Instant(shard.clock + 90 * SECOND)))
    shard.do(ResumeJob(job_id=job_id))
    shard.do(PauseJob(job_id=job_id))

    shard.pass_time(Duration(120 * SECOND))

    assert shard.state.jobs[job_id].pause is not None


def test_a_job_that_is_replaced_during_its_pause_keeps_the_end() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.do(PauseJob(job_id=job_id, until=Instant(shard.clock + 90 * SECOND)))
    shard.do(SaveJob(spec=job(priority=1), may_replace=True))
    shard.state = shard.reloaded()

    found = [each.command for each in pending(shard.state) if isinstance(each, SetTimer)]

    assert [each for each in found if isinstance(each, EndPause)]


def test_a_pause_of_a_paused_job_may_give_it_an_end() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.do(PauseJob(job_id=job_id, by="ann", reason="first"))
    shard.do(PauseJob(job_id=job_id, by="bob"))
    unchanged = shard.state.jobs[job_id].pause

    shard.do(PauseJob(job_id=job_id, by="bob", until=Instant(shard.clock + 30 * SECOND)))
    changed = shard.state.jobs[job_id].pause
    shard.pass_time(Duration(30 * SECOND))

    assert unchanged is not None
    assert changed is not None
    assert (unchanged.by, changed.by) == ("ann", "bob")
    assert shard.state.jobs[job_id].pause is None
