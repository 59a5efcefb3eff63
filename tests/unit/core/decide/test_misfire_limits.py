"""Limits of late fire times: the window, the most that run, the policies of schedules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.model.job import Misfire, Overlap, SchedulePolicy, problems_of
from rota.core.timing.calendars import Calendar, Window
from rota.core.timing.instants import MINUTE, SECOND, Duration, Instant
from rota.core.vocabulary.facts import Facts
from unit.core.shard import Shard, at, every, job

MINUTELY = every("* * * * *")
FIVE_MINUTES = Duration(5 * MINUTE)


def late_shard(facts: Facts | None = None, **fields: object) -> Shard:
    """Return a shard that has noticed the fires of 12:01 to 12:14 at 12:14:30."""
    shard = Shard(facts=facts or Facts())
    shard.save(**{"schedules": MINUTELY, "overlap": Overlap.ALLOW, **fields})  # type: ignore[arg-type]
    shard.set_clock(at("12:14:30"))
    shard.pass_time(SECOND)
    return shard


def test_fire_times_before_the_window_are_missed_and_the_rest_run() -> None:
    shard = late_shard(misfire=Misfire.ALL, misfire_window=FIVE_MINUTES)

    assert shard.outcomes()[0] == ("12:01:00", 9, "missed")
    assert shard.fired() == ["12:10:00", "12:11:00", "12:12:00", "12:13:00", "12:14:00"]
    assert shard.ledger()[0].reason == "noticed 811.0 s late; the misfire window is 5m"


def test_late_fire_times_before_the_window_are_not_coalesced() -> None:
    shard = late_shard(misfire=Misfire.LATEST, misfire_window=FIVE_MINUTES)

    assert shard.outcomes() == [
        ("12:01:00", 9, "missed"),
        ("12:10:00", 4, "coalesced"),
        ("12:14:00", 1, "fired"),
    ]


@pytest.mark.parametrize("misfire", [Misfire.ALL, Misfire.LATEST])
def test_nothing_runs_if_all_late_fire_times_are_before_the_window(misfire: Misfire) -> None:
    shard = Shard()
    shard.save(schedules=every("0 13 * * *"), misfire=misfire, misfire_window=FIVE_MINUTES)

    shard.set_clock(at("13:05:01"))
    shard.pass_time(SECOND)

    assert shard.outcomes() == [("13:00:00", 1, "missed")]
    assert shard.live() == []


def test_only_the_latest_late_fire_times_run() -> None:
    shard = late_shard(misfire=Misfire.ALL, misfire_max=3)

    assert shard.outcomes()[0] == ("12:01:00", 11, "missed")
    assert shard.fired() == ["12:12:00", "12:13:00", "12:14:00"]
    assert shard.ledger()[0].reason.endswith("the latest 3 late fire times run (misfireMax)")


def test_excluded_fire_times_are_not_among_the_latest() -> None:
    lunch = Calendar(name="lunch", windows=(Window(start=732, end=734),))
    facts = Facts(calendars={"lunch": lunch})

    shard = late_shard(facts, misfire=Misfire.ALL, misfire_max=3, except_calendars=("lunch",))

    assert shard.fired() == ["12:10:00", "12:11:00", "12:14:00"]


def test_a_schedule_has_its_own_policy() -> None:
    shard = late_shard(
        schedules=MINUTELY + MINUTELY,
        misfire=Misfire.LATEST,
        policies=(SchedulePolicy(misfire=Misfire.SKIP), SchedulePolicy()),
    )

    assert sorted(shard.outcomes()) == [
        ("12:01:00", 13, "coalesced"),
        ("12:01:00", 14, "missed"),
        ("12:14:00", 1, "fired"),
    ]


@given(
    minutes=st.integers(1, 300),
    window=st.integers(0, 40),
    most=st.integers(0, 12),
    misfire=st.sampled_from(Misfire),
)
def test_every_fire_time_has_one_outcome_whatever_the_limits(
    minutes: int, window: int, most: int, misfire: Misfire
) -> None:
    shard = Shard()
    shard.save(
        schedules=MINUTELY,
        overlap=Overlap.ALLOW,
        misfire=misfire,
        misfire_window=Duration(window * MINUTE),
        misfire_max=most,
    )
    shard.set_clock(Instant(at("12:00:30") + minutes * MINUTE))

    for _ in range(4):
        shard.pass_time(SECOND)

    times = [
        entry.fire_at + number * MINUTE for entry in shard.ledger() for number in range(entry.count)
    ]
    assert times == [at("12:01") + number * MINUTE for number in range(minutes)]
    begun = len(shard.executions())
    allowed = {Misfire.ALL: minutes, Misfire.LATEST: 1, Misfire.SKIP: 0}[misfire]
    if misfire is Misfire.ALL and most:
        allowed = min(allowed, most)
    if window:
        allowed = min(allowed, window)
    assert begun == allowed


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"misfire_window": SECOND}, "/misfireWindow"),
        ({"misfire_max": 2}, "/misfireMax"),
        ({"misfire_max": 2, "misfire": Misfire.ALL}, None),
        (
            {
                "misfire_max": 2,
                "schedules": MINUTELY,
                "policies": (SchedulePolicy(misfire=Misfire.ALL),),
            },
            None,
        ),
    ],
)
def test_limits_without_effect_are_refused(fields: dict[str, object], pointer: str | None) -> None:
    found = [each.pointer for each in problems_of(job(**fields))]  # type: ignore[arg-type]

    assert found == ([] if pointer is None else [pointer])
