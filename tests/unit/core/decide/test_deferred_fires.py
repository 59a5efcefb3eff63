"""Fires that start later than their fire time: jitter, and calendars that defer them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.core.model.job import Misfire, OnExcluded, Overlap, SchedulePolicy, problems_of
from rota.core.timing.calendars import (
    STRETCH_DAYS_MAX,
    Calendar,
    Exclusion,
    Window,
    latest_permitted,
    next_permitted,
)
from rota.core.timing.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from rota.core.timing.schedule import fire_times
from rota.core.vocabulary.commands import PauseJob, SaveJob
from rota.core.vocabulary.facts import Facts
from unit.core.shard import Shard, at, clock_of, every, job

LUNCH = Calendar(name="lunch", windows=(Window(start=720, end=750),))
"""From 12:00 to 12:30."""
TODAY = Calendar(name="today", dates=frozenset({at("00:00") // DAY + 719_163}))
FACTS = Facts(calendars={"lunch": LUNCH, "today": TODAY})


def deferring(policy: OnExcluded, text: str, calendar: str = "lunch", **fields: Any) -> Shard:
    """Return a shard at 12:00 with a job that a calendar excludes now."""
    shard = Shard(facts=FACTS)
    shard.save(schedules=every(text), except_calendars=(calendar,), on_excluded=policy, **fields)
    return shard


def jittered(jitter: Duration, text: str = "0 * * * *", **fields: Any) -> Shard:
    """Return a shard at 12:00 with a job whose fires start later by up to *jitter*."""
    shard = Shard()
    shard.save(schedules=every(text), policies=(SchedulePolicy(jitter=jitter),), **fields)
    return shard


def starts(shard: Shard) -> list[tuple[str, str]]:
    """Return fire time and due time of each execution, as the clock shows them."""
    return [(clock_of(each.fire_at), clock_of(each.due_at)) for each in shard.executions()]


def test_an_excluded_fire_is_held_until_nothing_excludes_it() -> None:
    shard = deferring(OnExcluded.HOLD, "10 * * * *")

    shard.pass_time(Duration(15 * MINUTE))
    before = shard.outcomes()
    shard.pass_time(Duration(15 * MINUTE))

    assert before == []
    assert shard.outcomes() == [("12:10:00", 1, "fired")]
    assert starts(shard) == [("12:10:00", "12:30:00")]


def test_a_held_fire_is_skipped_if_the_next_one_comes_first() -> None:
    shard = deferring(OnExcluded.HOLD, "*/10 * * * *", overlap=Overlap.ALLOW)

    for _ in range(3):
        shard.pass_time(Duration(10 * MINUTE))

    # That of 12:20 could start at 12:30, which is when the next one fires.
    assert shard.outcomes() == [
        ("12:10:00", 1, "excluded"),
        ("12:20:00", 1, "excluded"),
        ("12:30:00", 1, "fired"),
    ]


def test_an_excluded_fire_starts_at_its_time_on_the_next_day_that_is_permitted() -> None:
    shard = deferring(OnExcluded.NEXT, "30 13 4 * *", "today")

    shard.pass_time(Duration(2 * HOUR))
    before = shard.outcomes()
    shard.pass_time(Duration(DAY))

    assert before == []
    (execution,) = shard.executions()
    assert (execution.fire_at, execution.due_at) == (
        at("2027-01-04T13:30:00Z"),
        at("2027-01-05T13:30:00Z"),
    )


def test_a_held_fire_is_decided_by_the_calendars_of_its_start() -> None:
    shard = deferring(OnExcluded.HOLD, "10 * * * *")
    shard.pass_time(Duration(15 * MINUTE))

    longer = replace(LUNCH, windows=(Window(start=720, end=780),))
    shard.facts = Facts(calendars={"lunch": longer})
    shard.pass_time(Duration(15 * MINUTE))
    held = shard.outcomes()
    shard.pass_time(Duration(30 * MINUTE))

    assert held == []
    assert starts(shard) == [("12:10:00", "13:00:00")]


def test_a_blackout_holds_fires_too() -> None:
    shard = Shard(facts=Facts(calendars={"lunch": LUNCH}, blackouts={"*": ("lunch",)}))
    shard.save(schedules=every("10 * * * *"), on_excluded=OnExcluded.HOLD)

    shard.pass_time(Duration(31 * MINUTE))

    assert starts(shard) == [("12:10:00", "12:30:00")]


def test_a_pause_at_its_start_stops_a_deferred_fire() -> None:
    shard = deferring(OnExcluded.HOLD, "10 * * * *")
    shard.pass_time(Duration(15 * MINUTE))
    shard.do(PauseJob(job_id=next(iter(shard.state.jobs))))

    shard.pass_time(Duration(15 * MINUTE))

    assert shard.outcomes() == [("12:10:00", 1, "paused")]


@pytest.mark.parametrize(
    ("text", "outcomes"),
    [
        ("10 * * * *", []),
        ("50 * * * *", [("12:10:00", 1, "excluded")]),
    ],
)
def test_a_deferred_fire_is_kept_by_a_new_version_with_its_schedule(
    text: str, outcomes: list[tuple[str, int, str]]
) -> None:
    shard = deferring(OnExcluded.HOLD, "10 * * * *")
    shard.pass_time(Duration(15 * MINUTE))
    spec = next(iter(shard.state.jobs.values())).spec

    changed = replace(spec, description="new", schedules=every(text))
    shard.do(SaveJob(spec=changed, may_replace=True))

    assert shard.outcomes() == outcomes
    shard.pass_time(Duration(40 * MINUTE))
    assert [outcome for _, _, outcome in shard.outcomes()].count("fired") == 1


def test_a_jittered_fire_that_a_new_version_drops_still_runs_once() -> None:
    shard = jittered(Duration(30 * MINUTE))
    shard.set_clock(at("13:00"))
    shard.pass_time(SECOND)
    assert shard.outcomes() == []
    spec = next(iter(shard.state.jobs.values())).spec

    shard.do(SaveJob(spec=replace(spec, schedules=every("50 * * * *")), may_replace=True))

    assert shard.outcomes() == [("13:00:00", 1, "fired")]


WEEKEND = Calendar(name="weekend", weekdays=0b110_0000)
SATURDAY = at("2027-01-09T12:00:00Z")
MONDAY = at("2027-01-11T00:00:00Z")


@pytest.mark.parametrize("policy", OnExcluded)
@pytest.mark.parametrize(
    ("text", "following"),
    [("* * * * * *", MONDAY), ("*/7 * * * *", MONDAY), ("0 9 1 2 *", at("2027-02-01T09:00:00Z"))],
)
def test_the_fire_after_a_long_stretch_is_found_however_dense_the_schedule(
    policy: OnExcluded, text: str, following: Instant
) -> None:
    (schedule,) = every(text)
    spec = job(schedules=(schedule,), except_calendars=("weekend",), on_excluded=policy)
    facts = Facts(calendars={"weekend": WEEKEND})

    found = next_permitted(schedule, facts.exclusion_of(spec, schedule), SATURDAY)

    # Only the last fire of a stretch can be made up for; here the next one is not later than that.
    assert found == following
    before = latest_permitted(
        schedule, facts.exclusion_of(spec, schedule), SATURDAY, Instant(MONDAY - 1)
    )
    assert before is None


@settings(max_examples=40)
@given(
    windows=st.lists(
        st.builds(
            Window,
            start=st.integers(0, 1439),
            end=st.integers(0, 1440),
            weekdays=st.sampled_from((0b111_1111, 0b110_0000, 0b001_0101)),
        ),
        min_size=1,
        max_size=3,
    ),
    text=st.sampled_from(
        ("*/7 * * * *", "0 9 * * *", "*/20 8-9 * * MON", "0 0 */3 * *", "@every 5h")
    ),
    policy=st.sampled_from((OnExcluded.NEXT, OnExcluded.HOLD)),
    minutes=st.integers(0, 10_000),
)
def test_a_search_finds_what_the_examination_of_each_fire_time_finds(
    windows: list[Window], text: str, policy: OnExcluded, minutes: int
) -> None:
    (schedule,) = every(text)
    spec = job(schedules=(schedule,), except_calendars=("drawn",), on_excluded=policy)
    facts = Facts(calendars={"drawn": Calendar(name="drawn", windows=tuple(windows))})
    after = Instant(SATURDAY + minutes * MINUTE)
    exclusion = facts.exclusion_of(spec, schedule)
    assert exclusion is not None

    found = next_permitted(schedule, exclusion, after)

    times = fire_times(schedule, after, Instant(after + 4 * DAY), 400)
    permitted = [each for each in times if not exclusion.why(each)]
    if permitted:
        assert found == permitted[0]
        last = latest_permitted(schedule, exclusion, after, times[-1])
        assert last == permitted[-1]
    else:
        assert found is None or not times or found > times[-1]


@pytest.mark.parametrize("policy", OnExcluded)
def test_a_schedule_that_calendars_always_exclude_costs_one_search(
    policy: OnExcluded, monkeypatch: pytest.MonkeyPatch
) -> None:
    (schedule,) = every("* * * * *")
    spec = job(schedules=(schedule,), only_calendars=("past",), on_excluded=policy)
    facts = Facts(calendars={"past": Calendar(name="past", dates=frozenset({700_000}))})
    count = 0
    reason = Exclusion.reason

    def counted(self: Exclusion, instant: Instant) -> str:
        nonlocal count
        count += 1
        return reason(self, instant)

    monkeypatch.setattr(Exclusion, "reason", counted)

    assert next_permitted(schedule, facts.exclusion_of(spec, schedule), SATURDAY) is None
    assert count <= STRETCH_DAYS_MAX + 10


def test_a_new_primary_starts_a_deferred_fire_at_the_same_time() -> None:
    shard = deferring(OnExcluded.HOLD, "10 * * * *")
    shard.pass_time(Duration(15 * MINUTE))

    (plan,) = shard.reloaded().plans.values()

    assert plan.starts == (at("12:30"),)


def test_jitter_spreads_the_starts_of_fires_and_keeps_their_times() -> None:
    shard = jittered(Duration(10 * MINUTE), overlap=Overlap.ALLOW)

    for _ in range(60 * 8):
        shard.pass_time(MINUTE)

    assert [clock_of(each.fire_at) for each in shard.executions()] == [
        f"{hour}:00:00" for hour in range(13, 20)
    ]
    delays = {each.deferred_by for each in shard.executions()}
    assert len(delays) == 7
    assert all(0 <= delay < 10 * MINUTE for delay in delays)
    for each in shard.executions():
        assert each.queued_at >= each.due_at
        assert each.queued_at < each.due_at + MINUTE


def test_a_start_that_jitter_deferred_is_not_late() -> None:
    shard = jittered(Duration(59 * MINUTE), misfire=Misfire.SKIP, grace=SECOND)

    for _ in range(60 * 60 * 2):
        shard.pass_time(SECOND)

    assert {outcome for _, _, outcome in shard.outcomes()} == {"fired"}


@given(
    jitter=st.integers(0, 90).map(lambda minutes: Duration(minutes * MINUTE)),
    calendar=st.sampled_from(("lunch", "today")),
    policy=st.sampled_from(OnExcluded),
    misfire=st.sampled_from(Misfire),
    steps=st.lists(st.integers(1, 100), min_size=1, max_size=30),
)
def test_every_fire_time_has_one_outcome_however_fires_are_deferred(
    jitter: Duration, calendar: str, policy: OnExcluded, misfire: Misfire, steps: list[int]
) -> None:
    shard = deferring(
        policy,
        "*/20 * * * *",
        calendar,
        policies=(SchedulePolicy(jitter=jitter),),
        misfire=misfire,
        overlap=Overlap.ALLOW,
    )

    for minutes in steps:
        shard.pass_time(Duration(minutes * MINUTE))

    times = [
        entry.fire_at + number * 20 * MINUTE
        for entry in shard.ledger()
        for number in range(entry.count)
    ]
    first = at("12:20")
    assert times == [first + number * 20 * MINUTE for number in range(len(times))]
    # At most the last one may wait for its start.
    due = (shard.situation.now - first) // (20 * MINUTE) + 1
    assert due - len(times) in (0, 1)


# -- the most executions --------------------------------------------------------------------------


def test_a_schedule_ends_after_the_most_executions() -> None:
    shard = Shard()
    policies = (SchedulePolicy(max_executions=2), SchedulePolicy())
    shard.save(
        schedules=every("* * * * *") + every("*/2 * * * *"),
        policies=policies,
        overlap=Overlap.ALLOW,
    )

    for _ in range(6):
        shard.pass_time(MINUTE)

    assert shard.fired() == ["12:01:00", "12:02:00", "12:02:00", "12:04:00", "12:06:00"]


def test_late_fires_count_too_and_those_beyond_the_end_have_no_outcome() -> None:
    shard = Shard()
    shard.save(
        schedules=every("* * * * *"),
        policies=(SchedulePolicy(max_executions=2),),
        misfire=Misfire.ALL,
        overlap=Overlap.ALLOW,
    )

    shard.set_clock(at("12:09"))
    shard.pass_time(SECOND)

    assert shard.fired() == ["12:01:00", "12:02:00"]
    assert len(shard.ledger()) == 2


def test_a_skipped_fire_does_not_count() -> None:
    shard = Shard()
    policies = (SchedulePolicy(max_executions=2),)
    shard.save(schedules=every("* * * * *"), policies=policies, overlap=Overlap.SKIP)
    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)
    shard.finish(shard.live()[0])

    shard.pass_time(MINUTE)
    shard.pass_time(MINUTE)

    assert [outcome for _, _, outcome in shard.outcomes()] == ["fired", "skipped", "fired"]


@pytest.mark.parametrize(("most", "begun"), [(2, (1,)), (3, ())])
def test_a_new_version_keeps_the_count_of_a_schedule_that_is_the_same(
    most: int, begun: tuple[int, ...]
) -> None:
    shard = Shard()
    policies = (SchedulePolicy(max_executions=2),)
    shard.save(schedules=every("* * * * *"), policies=policies, overlap=Overlap.ALLOW)
    shard.pass_time(MINUTE)
    spec = next(iter(shard.state.jobs.values())).spec

    changed = replace(spec, description="new", policies=(SchedulePolicy(max_executions=most),))
    shard.do(SaveJob(spec=changed, may_replace=True))

    (plan,) = shard.state.plans.values()
    assert plan.begun == begun


def test_a_schedule_that_has_ended_may_be_replaced_by_one_with_the_same_fire_times() -> None:
    shard = Shard()
    policies = (SchedulePolicy(max_executions=1),)
    shard.save(schedules=every("* * * * *"), policies=policies, overlap=Overlap.ALLOW)
    shard.pass_time(MINUTE)
    spec = next(iter(shard.state.jobs.values())).spec

    again = replace(spec, schedules=every("*/1 * * * *"), policies=())
    shard.do(SaveJob(spec=again, may_replace=True))
    shard.pass_time(MINUTE)

    assert shard.fired() == ["12:01:00", "12:02:00"]


@pytest.mark.parametrize("changed", [SchedulePolicy(max_executions=5), SchedulePolicy()])
def test_a_schedule_that_has_ended_fires_again_when_its_policy_is_changed(
    changed: SchedulePolicy,
) -> None:
    shard = Shard()
    policies = (SchedulePolicy(max_executions=1),)
    shard.save(schedules=every("* * * * *"), policies=policies, overlap=Overlap.ALLOW)
    for _ in range(3):
        shard.pass_time(MINUTE)
    spec = next(iter(shard.state.jobs.values())).spec

    unchanged = replace(spec, description="new")
    shard.do(SaveJob(spec=unchanged, may_replace=True))
    shard.pass_time(MINUTE)
    shard.do(SaveJob(spec=replace(unchanged, policies=(changed,)), may_replace=True))
    shard.pass_time(MINUTE)

    assert shard.fired() == ["12:01:00", "12:05:00"]


def test_a_held_fire_starts_earlier_when_the_calendar_changes() -> None:
    shard = deferring(OnExcluded.HOLD, "10 * * * *", misfire=Misfire.SKIP)
    shard.pass_time(Duration(15 * MINUTE))
    [job_id] = shard.state.deferred
    shorter = Calendar(name="lunch", windows=(Window(start=720, end=740),))

    shard.facts = Facts(calendars={"lunch": shorter})
    shard.fire(job_id)
    shard.pass_time(Duration(5 * MINUTE))

    assert starts(shard) == [("12:10:00", "12:20:00")]
    assert shard.state.deferred == set()


def test_the_lateness_of_a_deferred_fire_counts_from_its_start() -> None:
    shard = deferring(OnExcluded.HOLD, "10 * * * *", misfire=Misfire.SKIP, grace=SECOND)
    shard.pass_time(Duration(15 * MINUTE))

    shard.set_clock(at("12:31"))
    shard.fire(*shard.state.deferred)

    [entry] = shard.ledger()
    assert entry.reason == "noticed 60.0 s late; the misfire policy is skip"


def test_jitter_beyond_a_day_is_refused() -> None:
    policies = (SchedulePolicy(jitter=Duration(2 * DAY)),)

    (problem,) = problems_of(job(schedules=every("@daily"), policies=policies))

    assert problem.pointer == "/schedules/0/jitter"
