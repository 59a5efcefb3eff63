"""The second engine of fire times agrees with that of the nodes, or reports what it lacks."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.client.cli.audit.expected_fires import NotAudited, fires_from
from rota.core.errors import Refused
from rota.core.timing.instants import DAY, MICROSECOND, Instant, parse_instant
from rota.core.timing.schedule import Schedule, checked, fire_times
from rota.wire.documents import ScheduleView

ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"),
    *("America/St_Johns", "Africa/Casablanca", "Asia/Kathmandu"),
)
STARTS = (
    *("2026-03-07T22:00:00Z", "2026-03-28T22:30:00Z", "2026-10-24T23:30:00Z"),
    *("2026-11-01T04:30:00Z", "2026-04-04T10:00:00Z", "2011-12-29T10:00:00Z"),
    *("2027-02-27T23:59:59.5Z", "2027-12-31T22:00:00Z"),
)


def both(schedule: Schedule, since: Instant, count: int = 12) -> tuple[list[int], list[int]]:
    """Return fire times of a schedule by the engine of the audit and by that of the nodes."""
    view = ScheduleView(
        schedule=schedule.text,
        timezone=schedule.timezone,
        day_or=schedule.day_or,
        start_at=schedule.start_at or None,
        end_at=schedule.end_at or None,
    )
    until = Instant(since + 20_000 * DAY)
    theirs = fire_times(schedule, Instant(since - MICROSECOND), until, count)
    return list(islice(fires_from(view, since), count)), list(theirs)


def field(least: int, most: int) -> st.SearchStrategy[str]:
    """Return texts of a field of a cron expression."""
    value = st.integers(least, most)
    step = st.integers(1, most - least)
    item = st.one_of(
        value.map(str),
        st.tuples(value, value).map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(value, value, step).map(lambda of: f"{min(of[:2])}-{max(of[:2])}/{of[2]}"),
        st.tuples(value, step).map(lambda of: f"{of[0]}/{of[1]}"),
    )
    return st.one_of(
        st.just("*"),
        step.map(lambda number: f"*/{number}"),
        st.lists(item, min_size=1, max_size=3).map(",".join),
    )


DAYS = st.one_of(field(1, 31), st.sampled_from(["?", "L", "15W", "1W", "LW", "L-3", "31W"]))
WEEKDAYS = st.one_of(
    field(0, 7),
    st.sampled_from(["?", "MON-FRI", "friday", "5L", "L2", "FRIL", "FRI#L", "MON#2", "2#5", "sun"]),
)


@settings(max_examples=300, deadline=None)
@given(
    fields=st.tuples(field(0, 59), field(0, 59), field(0, 23), DAYS, field(1, 12), WEEKDAYS),
    zone=st.sampled_from(ZONES),
    since=st.sampled_from(STARTS),
    day_or=st.booleans(),
)
def test_cron_expressions_fire_at_the_same_times(
    fields: tuple[str, ...], zone: str, since: str, day_or: bool
) -> None:
    try:
        schedule = checked(Schedule(text=" ".join(fields), timezone=zone, day_or=day_or))
        ours, theirs = both(schedule, parse_instant(since))
    except (Refused, NotAudited):
        return

    assert ours[: len(theirs)] == theirs


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("since", STARTS)
@pytest.mark.parametrize(
    "text",
    [
        *("30 2 * * *", "30 1 * * *", "*/15 * * * *", "0 */2 * * *", "15 0-23 * * *", "0 0 * * *"),
        *("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly", "@minutely"),
        *("@every 90s", "@every 1h30m phase 10s", "@every 250ms", "@at 2027-12-31T23:30:00Z"),
        *("@at 2028-03-26T02:30", "0 0 13 * FRI", "0 12 30 12 *", "22-2 * * * *", "30 0 0 1 1 ? *"),
    ],
)
def test_schedules_fire_at_the_same_times_around_changes_of_the_clock(
    text: str, zone: str, since: str
) -> None:
    ours, theirs = both(checked(Schedule(text=text, timezone=zone)), parse_instant(since))

    assert ours == theirs


def test_limits_are_included() -> None:
    schedule = Schedule(
        text="0 9 * * *",
        timezone="Europe/Berlin",
        start_at="2027-03-01T09:00",
        end_at="2027-03-03T09:00",
    )

    ours, theirs = both(checked(schedule), parse_instant("2027-01-01T00:00:00Z"))

    assert (len(ours), ours) == (3, theirs)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"schedule": "H * * * *"}, "hashed fields"),
        ({"schedule": "@daily", "spread": True}, "hashed times"),
        ({"schedule": "0 0 * * MON", "every": "2 weeks"}, "every n-th period"),
        ({"schedule": "30 2 * * *", "gap": "skip"}, "gap: skip"),
        ({"schedule": "30 2 * * *", "fold": "both"}, "fold: both"),
        ({"schedule": "0 9 L-3W * *"}, "'L-3W' of a day"),
        ({"schedule": "0 9 LW * *"}, "'LW' of a day"),
        ({"schedule": "0 9 1,LW * *"}, "'1,LW' of a day"),
        ({"schedule": "0 9 * * *,1"}, "of a weekday"),
        ({"schedule": "@startup"}, "when a node starts"),
        ({"schedule": "@daily", "timezone": "Mars/Base"}, "no time zone Mars/Base"),
    ],
)
def test_what_cannot_be_computed_has_a_reason(fields: dict[str, str], reason: str) -> None:
    view = ScheduleView(**{"timezone": "UTC", **fields})  # type: ignore[arg-type] # of the table

    with pytest.raises(NotAudited, match=reason):
        fires_from(view, Instant(0))
