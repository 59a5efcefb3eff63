"""Fire times of the judge's oracle."""

import pytest

from chaos.judge.oracle import SECOND, fire_times


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("@every 2s", [2, 4, 6]),
        ("@every 3s phase 1s", [1, 4]),
        ("@every 500ms phase 250ms", [0.25, 0.75, 1.25, 1.75]),
        ("@at 1970-01-01T00:00:03.5Z", [3.5]),
        ("* * * * * *", [1, 2, 3, 4, 5, 6]),
        ("*/4,5 * * * * *", [4, 5]),
        ("1-2 0 0 * * *", [1, 2]),
        ("2 1 * * * *", []),
    ],
)
def test_the_oracle_finds_the_fire_times(schedule: str, expected: list[float]) -> None:
    until = expected[-1] if "ms" in schedule else 6

    times = fire_times(schedule, 0, round(until * SECOND))

    assert times == [round(each * SECOND) for each in expected]


def test_the_oracle_refuses_an_unsupported_schedule() -> None:
    with pytest.raises(ValueError, match="no oracle"):
        fire_times("0 0 13 * FRI *", 0, SECOND)
