"""Contract of every `Clock`: the machine's and the simulation's."""

from collections.abc import Callable
from random import Random  # noqa: TID251 - the simulation's world draws from one

import pytest

from rota.core.timing.instants import HOUR, SECOND, Duration, Instant, parse_instant
from rota.node.system.clock import Clock, SystemClock
from sim.cluster.chance import SkewedClock

READINGS = 1_000


def simulated_clock() -> Clock:
    """Return the clock of a simulated machine whose true time passes with each reading."""
    chance, true = Random(1), [0]

    def true_time() -> int:
        true[0] += chance.choice([0, 1, SECOND])
        return true[0]

    return SkewedClock(true_time, ahead=Duration(HOUR), drift_ppm=-20_000)


clocks = pytest.mark.parametrize("make_clock", [SystemClock, simulated_clock])


@clocks
def test_the_time_that_passes_never_goes_back(make_clock: Callable[[], Clock]) -> None:
    clock = make_clock()

    readings = [clock.elapsed() for _ in range(READINGS)]

    assert readings == sorted(readings)
    assert readings[0] >= 0


@clocks
def test_both_times_pass(make_clock: Callable[[], Clock]) -> None:
    clock = make_clock()
    now, elapsed = clock.now(), clock.elapsed()

    # Microseconds pass within a bounded number of readings, on a machine of any speed.
    assert any(clock.now() > now for _ in range(1_000_000))
    assert any(clock.elapsed() > elapsed for _ in range(1_000_000))


@clocks
def test_the_wall_clock_counts_microseconds_since_1970(make_clock: Callable[[], Clock]) -> None:
    now = make_clock().now()

    assert parse_instant("2024-01-01T00:00:00Z") < now < parse_instant("2200-01-01T00:00:00Z")


@clocks
def test_both_times_are_whole_numbers(make_clock: Callable[[], Clock]) -> None:
    clock = make_clock()

    assert [type(each) for each in (clock.now(), clock.elapsed())] == [int, int]


def test_a_change_of_the_wall_clock_leaves_elapsed_time_alone() -> None:
    clock = SkewedClock(lambda: 5 * SECOND, ahead=Duration(HOUR), drift_ppm=0)
    now, elapsed = clock.now(), clock.elapsed()

    clock.wall_clock_error = -HOUR

    assert (clock.now(), clock.elapsed()) == (Instant(now - HOUR), elapsed)
