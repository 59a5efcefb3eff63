"""Durations as users give them."""

import pytest

from rota.core.model.given_durations import read_duration
from rota.core.timing.instants import MICROSECOND, SECOND


@pytest.mark.parametrize("given", [1e-9, 4.9e-7, -1e-9, "0.1us", "0.0001ms", "0.000000s0.4us"])
def test_a_duration_that_rounds_to_0_is_refused(given: float | str) -> None:
    with pytest.raises(ValueError, match="is too short; the shortest duration is 1us"):
        read_duration(given)


@pytest.mark.parametrize("given", [0, 0.0, "0s", "0.0s"])
def test_0_is_a_duration(given: float | str) -> None:
    assert read_duration(given) == 0


@pytest.mark.parametrize(
    ("given", "expected"), [(1e-6, MICROSECOND), ("1us", MICROSECOND), (1.5, 1.5 * SECOND)]
)
def test_longer_durations_are_read(given: float | str, expected: float) -> None:
    assert read_duration(given) == expected
