"""Writer of the tables in this folder, by the libraries of other schedulers.

Run by hand, in an environment of its own, for a new case or a new version of a library:

    pip install croniter==7.0.0 cronsim==2.8 apscheduler==3.11.3 tzdata==2026.6
    python make_tables.py

A line is one case, with tabs between its fields: the expression; the zone; the instant after which
fire times are computed, in seconds of Unix time; and the seconds from each to the next of up to
three fire times, with commas between them, or a dash if the library refuses the expression.
"""

import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice, pairwise, product
from pathlib import Path
from zoneinfo import ZoneInfo

FIRES = 3
MINUTES = ["*", "*/5", "*/7", "0", "59", "0,30", "10-20/3", "5/15"]
HOURS = ["*", "0", "2", "*/2", "*/24", "1-3", "22-23", "8-18/4", "0,12", "3/6"]
DAYS = ["1", "15", "29", "30", "31", "1,15", "1-7", "*/10", "28-31", "10/5"]
WEEKDAYS = [
    *("0", "7", "1", "6", "1-5", "0,6", "5-7", "MON", "sun", "mon-fri"),
    *("*/2", "1/2", "sat,sun", "FRI-SUN", "fri-mon", "6-2"),
]
MONTHS = ["1", "2", "12", "*/3", "JAN", "jan,jul", "Jun-Aug", "11-12", "2-12/5", "nov-feb"]
DATES = [
    *("1 * 1", "13 * 5", "13 * FRI", "1-7 * 1", "*/2 * 2", "1 1 0", "* 2 1", "29 2 *", "29 2 1"),
    *("30 2 *", "31 4,6 *", "31 */2 *", "? * 3", "1 * ?"),
]
WEEKDAY_RULES = ["1#1", "5#3", "0#5", "L5", "5L", "MON#2", "1#6", "6#4,0#4"]
DAY_RULES = ["15W", "1W", "LW", "L-3", "L", "31W", "W"]
ALIASES = [
    "@hourly",
    "@daily",
    "@midnight",
    "@weekly",
    "@monthly",
    "@yearly",
    "@annually",
    "@reboot",
]
MISTAKES = [
    *("60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8"),
    *("*/0 * * * *", "-1 * * * *", "5-1 * * * *", "a * * * *", "* * * *", "* * * * * * * *"),
    *("1,,2 * * * *", ", * * * *", "1- * * * *", "*/ * * * *", "*/61 * * * *"),
    *("0 25-26 * * *", "", "* * * foo *", "1.5 * * * *"),
]
EXPRESSIONS = [
    *(f"{minute} {hour} * * *" for minute, hour in product(MINUTES, HOURS)),
    *(f"0 9 {day} * *" for day in DAYS),
    *(f"0 9 L {month} *" for month in ("*", "2", "2,4")),
    *(f"30 2 * * {day}" for day in WEEKDAYS),
    *(f"0 0 1 {month} *" for month in MONTHS),
    *(f"15 14 {each}" for each in DATES),
    *(f"0 12 * * {rule}" for rule in WEEKDAY_RULES),
    *(f"0 12 {rule} * *" for rule in DAY_RULES),
    *ALIASES,
    *MISTAKES,
]
PLACES = [  # Nights in which clocks change, a leap day, the ends of months and years, and others.
    *[("UTC", "2024-02-28T23:58"), ("UTC", "2025-12-31T23:59"), ("UTC", "2026-01-01T00:00")],
    *[("UTC", "2026-06-15T08:30"), ("UTC", "2023-04-30T12:00"), ("UTC", "2099-12-25T18:45")],
    *[("Europe/Berlin", "2026-03-28T22:00"), ("Europe/Berlin", "2026-10-24T22:00")],
    *[("America/New_York", "2026-03-08T05:30"), ("America/New_York", "2026-11-01T04:30")],
    *[("America/Sao_Paulo", "2018-11-04T01:00"), ("Australia/Lord_Howe", "2026-04-04T10:00")],
    *[("Asia/Kolkata", "2026-07-01T18:29"), ("Pacific/Apia", "2011-12-29T10:00")],
    *[("Europe/London", "2027-03-27T23:30"), ("Asia/Tokyo", "2028-02-28T14:59")],
    *[("America/St_Johns", "2026-10-31T23:00"), ("Asia/Kathmandu", "2026-02-27T18:14")],
    ("Africa/Casablanca", "2026-02-14T22:00"),
]

Fires = Callable[[str, datetime], Iterator[datetime]]


def by_croniter(expression: str, after: datetime) -> Iterator[datetime]:
    """Yield the fire times of croniter."""
    fires = import_module("croniter").croniter(expression, after)
    while True:
        yield fires.get_next(datetime)


def by_cronsim(expression: str, after: datetime) -> Iterator[datetime]:
    """Yield the fire times of cronsim, the cron of Healthchecks."""
    yield from import_module("cronsim").CronSim(expression, after)


def by_apscheduler(expression: str, after: datetime) -> Iterator[datetime]:
    """Yield the fire times of APScheduler."""
    make = import_module("apscheduler.triggers.cron").CronTrigger.from_crontab
    trigger, fire = make(expression, timezone=after.tzinfo), after
    while True:
        now = datetime.fromtimestamp(fire.timestamp() + 1e-3, after.tzinfo)
        fire = trigger.get_next_fire_time(fire, now)
        if fire is None:
            return
        yield fire


def line_of(fires: Fires, expression: str, zone: str, at: str) -> str:
    """Return the line of one case."""
    after = datetime.fromisoformat(at).replace(tzinfo=UTC)
    began_at = int(after.timestamp())
    try:
        found = list(islice(fires(expression, after.astimezone(ZoneInfo(zone))), FIRES))
        instants = [began_at, *(int(each.timestamp()) for each in found)]
        distances = ",".join(str(later - earlier) for earlier, later in pairwise(instants))
    except Exception:  # Each library has several kinds of refusals, without a common class.
        distances = "-"
    return f"{expression}\t{zone}\t{began_at}\t{distances}\n"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for source in (by_croniter, by_cronsim, by_apscheduler):
        name = source.__name__.removeprefix("by_")
        lines = [line_of(source, each, *place) for each in EXPRESSIONS for place in PLACES]
        (Path(__file__).parent / f"{name}.tsv").write_text("".join(lines))
