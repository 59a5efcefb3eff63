"""The oracle of fire times, against examples and against the code under test."""

from datetime import UTC, datetime

import pytest

from rota.core.timing.instants import SECOND, Instant, from_datetime
from rota.core.timing.schedule import fire_times, parse_schedule
from sim.cluster.jobs import INTERVALS, SECOND_FIELDS
from sim.cluster.oracle import expected

NOON = from_datetime(datetime(2027, 3, 1, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("@every 20s", [20, 40, 60]),
        ("@every 25s phase 5s", [5, 30, 55]),
        ("*/20 * * * * *", [20, 40, 60]),
        ("10,40 * * * * *", [10, 40]),
        ("58-59 * * * * *", [58, 59]),
        ("50/7 * * * * *", [50, 57]),
        ("@manual", []),
    ],
)
def test_fire_times_of_a_minute(text: str, seconds: list[int]) -> None:
    times = expected(text, NOON, Instant(NOON + 60 * SECOND))

    assert [(at - NOON) / SECOND for at in times] == seconds


@pytest.mark.parametrize(
    "text",
    [*(f"@every {each}" for each in INTERVALS), *(f"{each} * * * * *" for each in SECOND_FIELDS)],
)
def test_the_code_under_test_agrees_with_the_oracle(text: str) -> None:
    after, until = Instant(NOON + 1), Instant(NOON + 300 * SECOND)

    assert fire_times(parse_schedule(text), after, until, 1_000) == expected(text, after, until)
