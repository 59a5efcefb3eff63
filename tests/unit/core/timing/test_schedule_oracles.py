"""Agreement of random schedules with two independent oracles: `cron_oracle` and cronsim."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from random import Random  # noqa: TID251 - seeded, so that a failure repeats
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError

from rota.core.errors import Refused
from rota.core.timing.instants import (
    DAY,
    LATEST_INSTANT,
    SECOND,
    Instant,
    format_instant,
    from_datetime,
    to_datetime,
)
from rota.core.timing.schedule import (
    Schedule,
    checked,
    fire_times,
    latest_fire,
    parse_schedule,
)
from unit.core.timing.cron_oracle import CHANGES, Expectation, Step, between, expect, walk

FAR = LATEST_INSTANT

SEEDS = range(10)
PAIRS_PER_SEED = 500


@pytest.mark.parametrize("seed", SEEDS)
def test_minutes_around_clock_changes_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(PAIRS_PER_SEED):
        expression = random_times(random) + random_days(random)
        zone, change = random.choice(CHANGES)
        steps = walk(zone, change - 2 * timedelta(days=1), timedelta(days=4), timedelta(minutes=1))
        # A second pass repeats local times of the last three hours at most.
        first = random.randrange(180, 3 * 1440)
        steps = steps[first - 180 : first + 1440]
        after, until = from_datetime(steps[180][0]), from_datetime(steps[-1][0])
        day_or = random.random() < 0.8

        found = fires_or_never(expression, zone, after, until, limit=12, day_or=day_or)

        due = [from_datetime(t) for t in expect(expression, day_or=day_or).fires(steps)]
        wanted = [t for t in due if t > after][:12]
        assert found == wanted, (expression, zone, format_instant(after), day_or)


@pytest.mark.parametrize("fold", ["first", "last", "both"])
@pytest.mark.parametrize("gap", ["shift", "skip"])
def test_minutes_with_a_gap_and_a_fold_agree_with_the_oracle(
    gap: Literal["shift", "skip"], fold: Literal["first", "last", "both"]
) -> None:
    random = Random(f"{gap} {fold}")
    for _ in range(PAIRS_PER_SEED // 2):
        minute = random.choice(["0", "30", "*/15", "*", "50-10/5"])
        hour = random.choice(["0", "1", "2", "1-3", "22-2", "0-23", "2,3"])
        expression = f"{minute} {hour} * * *"
        zone, change = random.choice(CHANGES)
        steps = walk(zone, change - timedelta(days=1), timedelta(days=2), timedelta(minutes=1))
        after = from_datetime(steps[random.randrange(180, 2_000)][0])
        until = from_datetime(steps[-181][0])

        schedule = checked(Schedule(text=expression, timezone=zone, gap=gap, fold=fold))
        found = fire_times(schedule, after, until, 10_000)

        due = map(from_datetime, asked_fires(expect(expression), steps, gap, fold))
        wanted = [t for t in due if after < t <= until]
        assert found == wanted, (expression, zone, format_instant(after))
        assert latest_fire(schedule, after, until) == (wanted[-1] if wanted else None)


def asked_fires(wanted: Expectation, steps: list[Step], gap: str, fold: str) -> Iterator[datetime]:
    """Yield the instants of *steps* at which an expression that names hours fires."""
    last = {wall: instant for instant, wall in steps}
    first = {wall: instant for instant, wall in reversed(steps)}
    minute = timedelta(minutes=1)
    reached = steps[0][1] - minute
    for instant, wall in steps:
        occurrences = {"first": [first[wall]], "last": [last[wall]], "both": [instant]}[fold]
        fires = instant in occurrences and wanted.matches(wall)
        skipped = between(reached, wall - minute, minute) if gap == "shift" else iter(())
        if fires or any(map(wanted.matches, skipped)):
            yield instant
        reached = max(reached, wall)


@pytest.mark.parametrize("seed", SEEDS)
def test_seconds_around_clock_changes_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(PAIRS_PER_SEED // 10):
        expression = f"{random_field(random, 0, 59)} {random_times(random)}* * *"
        zone, change = random.choice(CHANGES)
        steps = walk(
            zone, change - timedelta(minutes=70), timedelta(minutes=140), timedelta(seconds=1)
        )
        after = from_datetime(steps[random.randrange(len(steps))][0]) + random.randrange(-9, 1)
        until = from_datetime(steps[-1][0])

        found = fire_times(parse_schedule(expression, zone), Instant(after), until, 30)

        due = [from_datetime(t) for t in expect(expression).fires(steps)]
        wanted = [t for t in due if t > after][:30]
        assert found == wanted, (expression, zone, after)


@pytest.mark.parametrize("seed", SEEDS)
def test_days_of_a_year_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(PAIRS_PER_SEED // 10):
        expression = f"0 0 0 {random_days(random)} {random_field(random, 2019, 2035)}"
        day_or = random.random() < 0.8
        new_year = date(random.randrange(2019, 2036), 1, 1)
        days = [new_year + timedelta(days=count) for count in range(366)]

        found = {day for day in days if fires_on(expression, day, day_or=day_or)}

        is_day = expect(expression, day_or=day_or).is_day
        assert found == {day for day in days if is_day(day)}, (expression, new_year, day_or)


def fires_on(expression: str, day: date, *, day_or: bool) -> bool:
    midnight = from_datetime(datetime(day.year, day.month, day.day, tzinfo=UTC))
    before = Instant(midnight - 1)
    return fires_or_never(expression, "UTC", before, midnight, limit=1, day_or=day_or) != []


def fires_or_never(
    expression: str, zone: str, after: Instant, until: Instant, *, limit: int, day_or: bool = True
) -> list[Instant]:
    try:
        schedule = parse_schedule(expression, zone, day_or)
    except Refused as refused:
        assert "never fires" in refused.detail  # noqa: PT017 - random expressions may, at worst
        return []
    return fire_times(schedule, after, until, limit)


# Both agree on these expressions. Left out:
# - fixed hours with a minute field that begins with "*": cronsim follows elapsed time there, rota
#   considers the hour alone; likewise all expressions with seconds;
# - L-n, nW, Ln, ranges around the end of a field, a year: cronsim has none of them; n/step for
#   weekdays, which cronsim takes past Saturday to Sunday;
# - open hours in zones that change by half an hour or skip midnight: cronsim sets the minute, or
#   the hour, to zero in local time and so misses 02:00 there, or names a time that does not exist.
CRONSIM_DAYS = ["*", "*", "*/2", "1", "1,15", "10-20/3", "L", "LW", "31"]
CRONSIM_WEEKDAYS = ["*", "*", "MON-FRI", "0", "7", "1,3", "5L", "MON#2", "2#5", "*/2", "0-7/3"]
CRONSIM_MONTHS = ["*", "*", "*", "2", "JAN,JUL", "*/5", "3-11"]
HALF_HOUR_OR_MIDNIGHT = {
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "America/Havana",
    "Atlantic/Azores",
    "Pacific/Apia",
    "Asia/Kathmandu",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_five_fields_agree_with_cronsim(seed: int) -> None:
    random = Random(seed)
    for _ in range(PAIRS_PER_SEED):
        zone, change = random.choice(CHANGES)
        is_open = random.random() < 0.4 and zone not in HALF_HOUR_OR_MIDNIGHT
        minute = random.choice(["0", "30", "59", "10-50/20", "5,45"])
        if is_open:
            minute = random.choice([minute, "*", "*/7", "*/30"])
        hour = random.choice(["*", "*/2", "*/5"] if is_open else ["0", "1", "2", "3", "1-4", "23"])
        expression = (
            f"{minute} {hour} {random.choice(CRONSIM_DAYS)} "
            f"{random.choice(CRONSIM_MONTHS)} {random.choice(CRONSIM_WEEKDAYS)}"
        )
        distance = random.choice([DAY, 400 * DAY])
        after = Instant(from_datetime(change) + random.randrange(-distance, distance, SECOND))

        found = fires_or_never(expression, zone, after, FAR, limit=4)

        wanted = cronsim_fires(expression, zone, after, 4)
        assert found == wanted, (expression, zone, format_instant(after))


def cronsim_fires(expression: str, zone: str, after: Instant, count: int) -> list[Instant]:
    times: list[Instant] = []
    try:
        moments = CronSim(expression, to_datetime(after).astimezone(ZoneInfo(zone)))
    except CronSimError:
        return []  # some expressions that never fire
    for moment in moments:
        fire_at = from_datetime(moment)
        # cronsim returns an instant again for each time moved out of a gap, and for a start in the
        # second pass of a repeated hour, it returns the first pass.
        if fire_at > max([after, *times]):
            times.append(fire_at)
        if len(times) == count:
            break
    return times


# --- random expressions ------------------------------------------------------------------------

DAY_ITEMS = ["L", "LW", "L-2", "L-30", "1W", "15W", "30W", "31W", "31", "29-2", "28/1", "*/10"]
WEEKDAY_ITEMS = ["7", "0", "5L", "L1", "SUNL", "MON#1", "7#5", "FRI-MON", "5-7", "6-2/2", "TUE"]
WEEKDAY_STEPS = ["*/2", "3/2", "7-3", "7/2", "0-7/7"]


def random_times(random: Random) -> str:
    hours = [
        "*",
        "*/2",
        "*/3",
        "1",
        "2",
        "0",
        "23",
        "1-3",
        "22-2",
        "2,3",
        random_field(random, 0, 23),
    ]
    minutes = ["*", "0", "30", "*/15", "50-10/5", random_field(random, 0, 59)]
    return f"{random.choice(minutes)} {random.choice(hours)} "


def random_days(random: Random) -> str:
    days = "*"
    if random.random() < 0.4:
        items = [random.choice(DAY_ITEMS), random_field(random, 1, 31)]
        days = ",".join(random.sample(items, random.randint(1, 2)))
    weekdays = random.choice(["*", "*", "?"])
    if random.random() < 0.4:
        weekdays = ",".join(random.sample(WEEKDAY_ITEMS + WEEKDAY_STEPS, random.randint(1, 3)))
    months = random.choice(["*", "*", "*", "2", "FEB,NOV", "OCT-APR", random_field(random, 1, 12)])
    return f"{days} {months} {weekdays}"


def random_field(random: Random, first: int, last: int) -> str:
    low, high = sorted((random.randint(first, last), random.randint(first, last)))
    step = random.randint(1, max(1, (last - first) // 2))
    forms = ["*", f"*/{step}", f"{low}", f"{low},{high}", f"{low}-{high}", f"{low}-{high}/{step}"]
    return random.choice([*forms, f"{low}/{step}"])
