"""Fire times computed again: after a clock that was ahead, and by new rules of time zones."""

from collections.abc import Iterator
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from rota.core.decide.recount_fires import has_new_rules, silent_until
from rota.core.model.ids import JobId
from rota.core.model.job import Misfire
from rota.core.timing import schedule as schedules
from rota.core.timing.instants import HOUR, MINUTE, SECOND, Duration, Instant
from rota.core.timing.schedule import parse_schedule
from rota.core.vocabulary.commands import PauseJob, RecountFires, ResumeJob, SaveJob, Trigger
from rota.core.vocabulary.effects import Launch, PostponedEffects
from unit.core.shard import Shard, at, every, job

EVERY_5_MINUTES = every("*/5 * * * *")


def shard_after_a_clock_ahead(misfire: Misfire = Misfire.LATEST) -> tuple[Shard, JobId]:
    """Return a shard at 12:01 whose clock was at 14:00 in between, and its job."""
    shard = Shard()
    job_id = shard.save(schedules=EVERY_5_MINUTES, misfire=misfire)
    shard.set_clock(at("14:00:00"))
    shard.ring_timers()
    shard.set_clock(at("12:01"))
    return shard, job_id


def replace(shard: Shard, **fields: Any) -> None:
    shard.do(SaveJob(spec=job(**fields), may_replace=True))


def next_fire_of(shard: Shard, job_id: JobId) -> Instant | None:
    return shard.state.plans[job_id].next_fires[0]


def test_resuming_counts_from_now_and_fires_at_each_time_again() -> None:
    shard, job_id = shard_after_a_clock_ahead()
    silent = next_fire_of(shard, job_id)

    shard.do(ResumeJob(job_id=job_id))
    resumed = next_fire_of(shard, job_id)
    for _ in range(10):
        shard.pass_time(MINUTE)

    assert (silent, resumed) == (at("14:05"), at("12:05"))
    assert shard.user_changes()[-1].detail == "the schedules count from now again"
    assert shard.fired() == ["12:05:00", "12:10:00", "14:00:00"]


def test_a_time_that_ran_early_runs_again_at_its_time_under_another_id() -> None:
    shard, job_id = shard_after_a_clock_ahead(Misfire.ALL)
    early = {execution.id for execution in shard.executions()}

    shard.do(ResumeJob(job_id=job_id))
    for _ in range(10):
        shard.pass_time(MINUTE)

    again = {execution.id for execution in shard.executions()} - early
    assert {execution.fire_at for execution in shard.executions()} >= {at("12:05"), at("12:10")}
    assert len(again) == 2


def test_a_changed_schedule_counts_from_now() -> None:
    shard, job_id = shard_after_a_clock_ahead()

    replace(shard, schedules=every("*/10 * * * *"))
    for _ in range(10):
        shard.pass_time(MINUTE)

    assert shard.fired() == ["12:10:00", "14:00:00"]
    assert shard.state.plans[job_id].round == 1


def test_an_unchanged_schedule_keeps_its_decided_times() -> None:
    shard, job_id = shard_after_a_clock_ahead()

    replace(shard, schedules=EVERY_5_MINUTES, grace=Duration(7 * SECOND))

    assert next_fire_of(shard, job_id) == at("14:05")


def test_a_new_job_counts_from_now() -> None:
    shard, _ = shard_after_a_clock_ahead()

    new = shard.save(name="new", schedules=EVERY_5_MINUTES)

    assert next_fire_of(shard, new) == at("12:05")
    assert shard.state.jobs[new].created_at == at("12:01")


def test_a_new_at_is_not_past_for_a_clock_that_was_ahead() -> None:
    shard, _ = shard_after_a_clock_ahead()

    new = shard.save(name="new", schedules=every("@at 2027-01-04T13:00:00Z"))

    assert next_fire_of(shard, new) == at("13:00")


def test_resuming_changes_nothing_within_the_difference_of_two_clocks() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("@every 500ms"))
    shard.pass_time(Duration(2 * SECOND))
    decided = next_fire_of(shard, job_id)
    shard.set_clock(Instant(shard.clock - SECOND))

    shard.do(ResumeJob(job_id=job_id))

    assert next_fire_of(shard, job_id) == decided


def test_a_paused_job_is_resumed_from_now() -> None:
    shard, job_id = shard_after_a_clock_ahead()
    shard.do(PauseJob(job_id=job_id))

    shard.do(ResumeJob(job_id=job_id))

    assert next_fire_of(shard, job_id) == at("12:05")


def test_the_silent_jobs_are_those_that_skip_fire_times() -> None:
    shard, job_id = shard_after_a_clock_ahead()
    new = shard.save(name="new", schedules=EVERY_5_MINUTES)
    found = {
        each: silent_until(shard.state.jobs[each], shard.state.plans[each], shard.clock)
        for each in (job_id, new)
    }

    assert found == {job_id: at("14:05"), new: None}


def test_a_triggered_execution_starts_at_once_though_the_shard_is_ahead() -> None:
    shard, job_id = shard_after_a_clock_ahead()

    shard.do(Trigger(job_id=job_id))

    assert len(shard.all_effects(Launch)) == 1


def test_what_is_decided_ahead_waits_for_its_time_though_the_shard_is_ahead() -> None:
    shard, job_id = shard_after_a_clock_ahead()
    shard.ahead = Duration(SECOND)
    shard.do(ResumeJob(job_id=job_id))

    shard.set_clock(Instant(at("12:05") - SECOND // 2))
    shard.ring_timers()

    [waiting] = shard.all_effects(PostponedEffects)
    assert waiting.at == at("12:05")
    assert shard.all_effects(Launch) == []


def test_an_execution_is_not_late_at_once_though_the_shard_is_ahead() -> None:
    shard, _ = shard_after_a_clock_ahead()
    shard.save(name="new", schedules=EVERY_5_MINUTES, late_after=Duration(HOUR))
    for _ in range(5):
        shard.pass_time(MINUTE)
    execution = shard.executions()[-1]

    assert execution.fire_at == at("12:05")
    assert execution.late_at - execution.queued_at == HOUR


# -- new rules of time zones -----------------------------------------------------------------------


class Rules:
    """The rules of the zone Europe/Istanbul on a node; a node that starts reads them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def become(self, hours: int) -> None:
        """Set the offset of the zone from UTC."""
        zone = timezone(timedelta(hours=hours))

        def load(name: str) -> Any:
            return zone if name == "Europe/Istanbul" else UTC

        self._patch.setattr(schedules, "load_zone", load)
        schedules._rule.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rules]:
    yield Rules(monkeypatch)
    monkeypatch.undo()
    schedules._rule.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("text", ["7 16 * * *", "@at 2027-01-04T16:07:00"])
def test_a_job_fires_once_by_the_new_rules(rules: Rules, text: str) -> None:
    rules.become(hours=3)
    shard = Shard()
    job_id = shard.save(schedules=(parse_schedule(text, "Europe/Istanbul"),))
    saved = next_fire_of(shard, job_id)

    rules.become(hours=2)
    differs = has_new_rules(shard.state.jobs[job_id], shard.state.plans[job_id], shard.clock)
    shard.do(RecountFires(job_id=job_id))
    for _ in range(4 * 60):
        shard.pass_time(MINUTE)

    assert (saved, differs) == (at("13:07"), True)
    assert shard.fired() == ["14:07:00"]


def test_a_due_time_is_decided_by_the_rules_under_which_it_was_computed(rules: Rules) -> None:
    rules.become(hours=3)
    shard = Shard()
    job_id = shard.save(schedules=(parse_schedule("7 16 * * *", "Europe/Istanbul"),))

    rules.become(hours=2)
    shard.set_clock(at("13:30"))
    shard.do(RecountFires(job_id=job_id))

    assert next_fire_of(shard, job_id) == at("13:07")


def test_new_rules_of_other_zones_change_nothing(rules: Rules) -> None:
    rules.become(hours=3)
    shard = Shard()
    job_id = shard.save(schedules=(parse_schedule("7 16 * * *", "UTC"), *every("@every 7m")))

    rules.become(hours=2)

    assert not has_new_rules(shard.state.jobs[job_id], shard.state.plans[job_id], shard.clock)


def test_no_time_is_decided_twice_by_new_rules_while_the_shard_is_ahead(rules: Rules) -> None:
    rules.become(hours=3)
    shard = Shard()
    job_id = shard.save(schedules=(parse_schedule("7 * * * *", "Europe/Istanbul"),))
    shard.set_clock(at("14:00"))
    shard.ring_timers()
    shard.set_clock(at("12:01"))
    decided = next_fire_of(shard, job_id)

    rules.become(hours=2)
    shard.do(RecountFires(job_id=job_id))

    assert next_fire_of(shard, job_id) == decided == at("14:07")
