"""Fire times that calendars and blackouts exclude."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.model.job import Misfire, Overlap
from rota.core.timing.calendars import Calendar, Window
from rota.core.timing.instants import MINUTE, SECOND, Duration, Instant
from rota.core.vocabulary.commands import PauseJob
from rota.core.vocabulary.facts import Facts
from unit.core.shard import Shard, at, every

ODD = Calendar(
    name="odd", version=3, windows=tuple(Window(start=n, end=n + 1) for n in range(1, 1440, 2))
)
"""The odd minutes of each day."""
NOON = Calendar(name="noon", windows=(Window(start=720, end=730),))
"""From 12:00 to 12:10."""
FACTS = Facts(calendars={"odd": ODD, "noon": NOON})


def shard_with(facts: Facts = FACTS, **fields: Any) -> Shard:
    """Return a shard at 12:00 with a job that fires each minute."""
    shard = Shard(facts=facts)
    shard.save(schedules=every("* * * * *"), **fields)
    return shard


def test_a_fire_time_in_a_calendar_is_excluded_and_the_others_fire() -> None:
    shard = shard_with(except_calendars=("odd",), overlap=Overlap.ALLOW)

    for _ in range(4):
        shard.pass_time(MINUTE)

    assert shard.outcomes() == [
        ("12:01:00", 1, "excluded"),
        ("12:02:00", 1, "fired"),
        ("12:03:00", 1, "excluded"),
        ("12:04:00", 1, "fired"),
    ]
    assert shard.ledger()[0].reason == "in calendar odd (version 3)"


def test_a_job_fires_only_in_its_calendars() -> None:
    shard = shard_with(only_calendars=("odd",), overlap=Overlap.ALLOW)

    for _ in range(2):
        shard.pass_time(MINUTE)

    assert shard.outcomes() == [("12:01:00", 1, "fired"), ("12:02:00", 1, "excluded")]
    assert shard.ledger()[1].reason == "not in calendar odd (version 3)"


@pytest.mark.parametrize("namespace", ["default", "*"])
def test_a_blackout_stops_the_clock_and_not_a_user(namespace: str) -> None:
    facts = Facts(calendars={"noon": NOON}, blackouts={namespace: ("noon",)})
    shard = shard_with(facts)

    shard.pass_time(MINUTE)
    begun = shard.trigger(next(iter(shard.state.jobs)))

    assert shard.outcomes() == [("12:01:00", 1, "excluded")]
    assert shard.ledger()[0].reason == "blackout: calendar noon (version 1)"
    assert shard.status(begun) == "running"


def test_a_blackout_of_another_namespace_stops_nothing() -> None:
    facts = Facts(calendars={"noon": NOON}, blackouts={"other": ("noon",)})
    shard = shard_with(facts)

    shard.pass_time(MINUTE)

    assert shard.outcomes() == [("12:01:00", 1, "fired")]


def test_a_change_of_a_calendar_applies_to_the_next_fire_time() -> None:
    shard = shard_with(except_calendars=("noon",))
    shard.pass_time(MINUTE)

    shard.facts = Facts()
    shard.pass_time(MINUTE)

    assert shard.outcomes() == [("12:01:00", 1, "excluded"), ("12:02:00", 1, "fired")]


def test_a_fire_that_is_decided_ahead_is_excluded_when_it_is_due() -> None:
    shard = Shard(facts=FACTS, ahead=Duration(2 * SECOND), clock=at("12:00"))
    shard.save(schedules=every("* * * * *"), except_calendars=("odd",))

    shard.pass_time(Duration(59 * SECOND))
    before = shard.outcomes()
    shard.pass_time(SECOND)

    assert (before, shard.outcomes()) == ([], [("12:01:00", 1, "excluded")])


def test_runs_of_excluded_fire_times_share_an_entry() -> None:
    shard = shard_with(except_calendars=("noon",), misfire=Misfire.SKIP)

    shard.set_clock(at("12:14:30"))
    shard.pass_time(SECOND)

    assert shard.outcomes() == [("12:01:00", 9, "excluded"), ("12:10:00", 5, "missed")]


@pytest.mark.parametrize(
    ("misfire", "outcome"), [(Misfire.SKIP, "missed"), (Misfire.LATEST, "coalesced")]
)
def test_late_fire_times_before_and_after_excluded_ones_have_entries_of_their_own(
    misfire: Misfire, outcome: str
) -> None:
    break_ = Calendar(name="break", windows=(Window(start=724, end=726),))
    facts = Facts(calendars={"break": break_})
    shard = shard_with(facts, except_calendars=("break",), misfire=misfire, grace=SECOND)

    shard.set_clock(at("12:08:30"))
    shard.pass_time(SECOND)

    assert shard.outcomes()[:3] == [
        ("12:01:00", 3, outcome),
        ("12:04:00", 2, "excluded"),
        ("12:06:00", 3 if misfire is Misfire.SKIP else 2, outcome),
    ]


def test_late_fires_are_covered_by_one_that_no_calendar_excludes() -> None:
    shard = shard_with(except_calendars=("odd",), misfire=Misfire.LATEST, grace=SECOND)

    shard.set_clock(at("12:05:30"))
    shard.pass_time(SECOND)

    assert [each for each in shard.outcomes() if each[2] != "excluded"] == [
        ("12:02:00", 1, "coalesced"),
        ("12:04:00", 1, "fired"),
    ]


def test_many_late_fires_are_covered_by_the_last_that_is_permitted() -> None:
    evening = Calendar(name="evening", windows=(Window(start=18 * 60, end=0),))
    facts = Facts(calendars={"evening": evening})
    shard = shard_with(facts, except_calendars=("evening",), misfire=Misfire.LATEST, grace=SECOND)

    shard.set_clock(at("23:00:30"))
    shard.pass_time(SECOND)

    assert shard.fired() == ["17:59:00"]
    assert sum(count for _, count, _ in shard.outcomes()) == 11 * 60


def test_a_job_whose_calendar_is_missing_says_so() -> None:
    shard = shard_with(Facts(), only_calendars=("gone",))

    shard.pass_time(MINUTE)

    assert shard.ledger()[0].reason == "not in calendar gone, which is missing"


@given(data=st.data())
def test_every_fire_time_has_one_outcome_with_any_calendar_pause_and_policy(
    data: st.DataObject,
) -> None:
    windows = st.builds(Window, start=st.integers(715, 760), end=st.integers(715, 760))
    calendar = Calendar(name="drawn", windows=tuple(data.draw(st.lists(windows, max_size=3))))
    field = data.draw(st.sampled_from(("only_calendars", "except_calendars")))
    fields: dict[str, Any] = {field: ("drawn",)}
    shard = shard_with(
        Facts(calendars={"drawn": calendar}),
        misfire=data.draw(st.sampled_from(Misfire)),
        overlap=data.draw(st.sampled_from(Overlap)),
        grace=data.draw(st.sampled_from((SECOND, Duration(5 * MINUTE)))),
        **fields,
    )
    for minutes in data.draw(st.lists(st.integers(1, 9), max_size=6)):
        if data.draw(st.booleans()):
            shard.set_clock(Instant(shard.clock + minutes * MINUTE))
        if data.draw(st.integers(0, 5)) == 0:
            shard.do(PauseJob(job_id=next(iter(shard.state.jobs))))
        shard.pass_time(Duration(minutes * MINUTE))

    entries = sorted(shard.ledger(), key=lambda entry: entry.fire_at)
    following = at("12:01")
    for entry in entries:
        assert entry.fire_at == following
        following = Instant(entry.until + MINUTE)
        is_covered = calendar_covers(calendar, entry.fire_at) == (field == "except_calendars")
        if entry.outcome.value == "excluded":
            assert is_covered
        elif entry.outcome.value != "paused":
            assert not is_covered
    assert following > shard.clock


def calendar_covers(calendar: Calendar, instant: int) -> bool:
    """Return True if a calendar of windows has an instant of the day of the tests."""
    minute = (instant - at("00:00")) // MINUTE
    return any(
        window.start <= minute < window.end
        if window.start < window.end
        else minute >= window.start or minute < window.end
        for window in calendar.windows
    )
