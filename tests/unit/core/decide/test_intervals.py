"""Intervals of executions: from the fire time of the schedule before their own to their own."""

from msgspec.structs import replace

from rota.core.model.execution import Execution
from rota.core.model.job import Misfire, Overlap
from rota.core.model.work import Work
from rota.core.timing.calendars import Calendar, Window
from rota.core.timing.instants import MINUTE, SECOND, Instant
from rota.core.vocabulary.commands import Rerun, RerunScope, Trigger
from rota.core.vocabulary.effects import Launch
from rota.core.vocabulary.facts import Facts
from unit.core.shard import Shard, at, clock_of, every, task

LUNCH = Calendar(name="lunch", windows=(Window(start=721, end=723),))
"""From 12:01 to 12:03."""


def interval_of(execution: Execution) -> tuple[str, str] | None:
    """Return the interval of *execution* in UTC; None if it has none."""
    if not execution.interval_start:
        return None
    return clock_of(execution.interval_start), clock_of(execution.fire_at)


def intervals_of(shard: Shard) -> list[tuple[str, str] | None]:
    """Return the intervals of the executions of *shard*, oldest first."""
    return [interval_of(one) for one in shard.executions()]


def fired(facts: Facts, minutes: int = 3, **fields: object) -> Shard:
    """Return a shard whose job fired each minute from 12:00 on."""
    shard = Shard(facts=facts)
    shard.save(schedules=every("* * * * *"), overlap=Overlap.ALLOW, **fields)  # type: ignore[arg-type]
    for _ in range(minutes):
        shard.pass_time(MINUTE)
    return shard


def test_an_interval_goes_from_the_fire_time_before_to_that_of_the_execution() -> None:
    shard = fired(Facts(), minutes=2)

    assert intervals_of(shard) == [("12:00:00", "12:01:00"), ("12:01:00", "12:02:00")]
    assert [each.order.interval_start for each in shard.all_effects(Launch)] == [at("12:01")]


def test_an_interval_contains_the_fire_times_that_a_calendar_excludes() -> None:
    shard = fired(Facts(calendars={"lunch": LUNCH}), except_calendars=("lunch",))

    assert intervals_of(shard) == [("12:00:00", "12:03:00")]


def test_an_interval_begins_at_a_fire_time_that_a_blackout_stopped() -> None:
    shard = fired(Facts(calendars={"lunch": LUNCH}, blackouts={"*": ("lunch",)}))

    assert intervals_of(shard) == [("12:02:00", "12:03:00")]


def test_intervals_do_not_shift_when_fire_times_are_missed() -> None:
    shard = Shard()
    shard.save(schedules=every("* * * * *"), misfire=Misfire.LATEST)

    shard.set_clock(at("12:14:30"))
    shard.pass_time(SECOND)

    assert intervals_of(shard) == [("12:13:00", "12:14:00")]


def test_a_trigger_has_an_interval_only_with_a_fire_time_of_the_schedule() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("0 2 * * *"), overlap=Overlap.ALLOW)

    shard.trigger(job_id)
    for text in ("2026-11-27T02:00:00Z", "2026-11-27T02:00:01Z"):
        shard.do(Trigger(job_id=job_id, fire_at=at(text)))

    starts = {each.fire_at: each.interval_start for each in shard.executions()}
    assert starts.pop(at("2026-11-27T02:00:00Z")) == at("2026-11-26T02:00:00Z")
    assert list(starts.values()) == [0, 0]


def test_a_rerun_keeps_the_interval() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("0 2 * * *"))
    shard.do(Trigger(job_id=job_id, fire_at=at("2026-11-27T02:00:00Z")))
    (first,) = shard.live()
    shard.finish(first)

    past, tasks = shard.execution(first), (shard.task(first),)
    shard.do(Rerun(past=past, tasks=tasks, scope=RerunScope.ALL))

    assert [each.interval_start for each in shard.executions()] == [at("2026-11-26T02:00:00Z")] * 2


def test_a_template_with_the_interval_fails_if_there_is_none() -> None:
    shard = Shard()
    work = Work(argv=("load", "{{ execution.intervalStart }}", "{{ execution.intervalEnd }}"))
    job_id = shard.save(
        replace(task("main"), work=work, is_templated=True),
        schedules=every("0 2 * * *"),
        overlap=Overlap.ALLOW,
    )

    shard.do(Trigger(job_id=job_id, fire_at=at("2026-11-27T02:00:00Z")))
    (launch,) = shard.all_effects(Launch)
    failed = shard.trigger(job_id)

    assert launch.order.work.argv[1:] == (
        "2026-11-26T02:00:00.000000Z",
        "2026-11-27T02:00:00.000000Z",
    )
    assert "execution.intervalStart" in shard.task(failed).reason
    assert shard.status(failed) == "failed"


def test_a_schedule_without_an_earlier_fire_time_gives_no_interval() -> None:
    shard = Shard()
    shard.save(schedules=every("@at 2027-01-04T12:00:30Z"))

    shard.pass_time(MINUTE)

    assert [each.interval_start for each in shard.executions()] == [Instant(0)]
