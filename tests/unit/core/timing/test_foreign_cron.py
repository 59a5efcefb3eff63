"""Comparison of fire times with other schedulers: each difference has a reason and is counted.

The tables are made by `foreign_cron/make_tables.py`.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from rota.core.errors import Refused
from rota.core.timing.instants import SECOND, Instant
from rota.core.timing.schedule import Schedule, next_fire, parse_schedule

TABLES = Path(__file__).parent / "foreign_cron"
REFUSED = "-"
FIRES = 3
DAYS_FROM_MONDAY = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


class Reason(Enum):
    """Why a case differs; docs/reference/schedules.md has rota's rules."""

    MORE_FORMS = "a form that the other library does not have"
    NO_SUCH_DATE = "refused here, because no year has such a date"
    CLOCK_CHANGE = "a clock changes between the fires"
    LONG_STEP = "refused here, because the step is longer than the field"
    STARRED_DAY = "a day field that begins with a star is no condition by itself, as in Vixie cron"
    SHORT_MONTH = "31W is in months of 31 days only, as in Quartz"
    WEEKDAY_STEP = "a step through the weekdays ends on Saturday"
    OTHER_WEEKDAYS = "APScheduler counts weekdays from Monday, and demands both day fields"
    EVERY_WEEK = "APScheduler ignores the number after a weekday's name"


class Case(NamedTuple):
    """A line of a table."""

    expression: str
    zone: str
    after_s: int
    theirs: str


def cases(source: str) -> Iterator[Case]:
    for line in (TABLES / f"{source}.tsv").read_text().splitlines():
        expression, zone, after_s, theirs = line.split("\t")
        yield Case(expression, zone, int(after_s), theirs)


def fires_of(schedule: Schedule, after: Instant) -> Iterator[Instant]:
    fire = next_fire(schedule, after)
    while fire is not None:
        yield fire
        fire = next_fire(schedule, fire)


def ours(case: Case, *, day_or: bool = True) -> str:
    try:
        schedule = parse_schedule(case.expression, case.zone, day_or)
    except Refused:
        return REFUSED
    after = Instant(case.after_s * SECOND)
    instants = [after, *islice(fires_of(schedule, after), FIRES)]
    return ",".join(str((later - earlier) // SECOND) for earlier, later in pairwise(instants))


def reason_of(source: str, case: Case, found: str) -> Reason | None:
    """Return why a case differs; None if there is no known reason."""
    if found == REFUSED and not case.theirs:
        return Reason.NO_SUCH_DATE
    if case.theirs == REFUSED:
        return Reason.MORE_FORMS
    if rule := _rule_of(source, case.expression):
        reason, expression = rule
        there = case._replace(expression=expression)
        restated = ours(there, day_or=source != "apscheduler")
        if restated == case.theirs:
            return reason
        return Reason.CLOCK_CHANGE if _changes_clock(case, restated) else None
    return Reason.CLOCK_CHANGE if found != REFUSED and _changes_clock(case, found) else None


def _rule_of(source: str, expression: str) -> tuple[Reason, str] | None:
    """Return the other library's rule and the equivalent expression of rota, if any."""
    minute, hour, day, month, weekday = expression.split()
    if minute == "*/61":
        return Reason.LONG_STEP, f"0 {hour} {day} {month} {weekday}"
    if source == "apscheduler" and weekday == "MON#2":
        return Reason.EVERY_WEEK, f"{minute} {hour} {day} {month} MON"
    if source == "apscheduler" and weekday != "*":
        return Reason.OTHER_WEEKDAYS, f"{minute} {hour} {day} {month} {_from_monday(weekday)}"
    if day.startswith("*/") and weekday != "*":
        return Reason.STARRED_DAY, f"{minute} {hour} {day.replace('*', '1-31')} {month} {weekday}"
    if day == "31W":
        return Reason.SHORT_MONTH, f"{minute} {hour} LW {month} {weekday}"
    if weekday == "1/2":
        return Reason.WEEKDAY_STEP, f"{minute} {hour} {day} {month} 1-7/2"
    return None


def _from_monday(weekday: str) -> str:
    """Return a weekday field that counts from Monday with the names of the days."""
    field = {"*/2": "0,2,4,6", "1/2": "1,3,5"}.get(weekday, weekday)
    return field.translate({ord("0") + at: name for at, name in enumerate(DAYS_FROM_MONDAY)})


def _changes_clock(case: Case, found: str) -> bool:
    """Return True if the zone's offset changes before the last fire of either."""
    zone, at = ZoneInfo(case.zone), datetime.fromtimestamp(case.after_s, UTC)
    last = at + timedelta(
        seconds=max(sum(map(int, each.split(","))) for each in (case.theirs, found))
    )
    offset = at.astimezone(zone).utcoffset()
    while at < last:
        at += timedelta(hours=1)
        if at.astimezone(zone).utcoffset() != offset:
            return True
    return False


@pytest.mark.parametrize(
    ("source", "agreed", "different"),
    [
        (
            "croniter",
            3200,
            {
                Reason.CLOCK_CHANGE: 49,
                Reason.STARRED_DAY: 19,
                Reason.MORE_FORMS: 57,
                Reason.SHORT_MONTH: 19,
                Reason.LONG_STEP: 19,
            },
        ),
        (
            "cronsim",
            2935,
            {
                Reason.CLOCK_CHANGE: 30,
                Reason.WEEKDAY_STEP: 18,
                Reason.MORE_FORMS: 361,
                Reason.LONG_STEP: 19,
            },
        ),
        (
            "apscheduler",
            2201,
            {
                Reason.CLOCK_CHANGE: 114,
                Reason.MORE_FORMS: 722,
                Reason.OTHER_WEEKDAYS: 269,
                Reason.EVERY_WEEK: 19,
                Reason.NO_SUCH_DATE: 38,
            },
        ),
    ],
)
def test_each_case_of_another_scheduler_agrees_or_differs_for_a_known_reason(
    source: str, agreed: int, different: dict[Reason, int]
) -> None:
    reasons: Counter[Reason] = Counter()
    unexplained: list[tuple[Case, str]] = []
    count = 0
    for case in cases(source):
        found = ours(case)
        if found == case.theirs:
            count += 1
        elif reason := reason_of(source, case, found):
            reasons[reason] += 1
        else:
            unexplained.append((case, found))

    assert not unexplained, unexplained[:10]
    assert (count, dict(reasons)) == (agreed, different)
