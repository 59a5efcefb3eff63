"""Search for the highest sustained rate, and the definition of late starts."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.client.slo.fire_load import Fires
from rota.client.slo.slo import PRECISION, Measured, find_rate
from rota.core.timing.instants import Instant


class Cluster:
    """Sustains rates up to a limit."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.tried: list[float] = []

    async def trial(self, rate: float) -> Measured:
        """Return the measurement of a trial at *rate*."""
        self.tried.append(rate)
        return Measured(
            rate=rate,
            seconds=5.0,
            expected=1,
            missed=0,
            doubled=0,
            p50_ms=1.0,
            p99_ms=1.0,
            max_ms=1.0,
            is_held=rate <= self.limit,
        )


@settings(deadline=None)  # Each example runs an event loop, which a busy machine holds up.
@given(limit=st.floats(1.0, 100_000.0), begin=st.floats(0.5, 10_000.0))
def test_the_rate_found_holds_and_little_more_would_not(limit: float, begin: float) -> None:
    cluster = Cluster(limit)

    found = asyncio.run(find_rate(cluster.trial, begin))

    assert (1 - PRECISION) * limit * 0.99 <= found <= limit


def test_where_nothing_holds_the_search_ends_and_says_so() -> None:
    cluster = Cluster(limit=0.0)

    found = asyncio.run(find_rate(cluster.trial, begin=100.0))

    assert found == 0
    assert len(cluster.tried) < 12


def test_where_everything_holds_the_search_ends() -> None:
    cluster = Cluster(limit=float("inf"))

    found = asyncio.run(find_rate(cluster.trial, begin=100.0))

    assert found == max(cluster.tried)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.4, 2.0), (0.5, 2.0), (0.75, 3.0), (0.76, float("inf")), (1.0, float("inf"))],
)
def test_what_was_missed_is_later_than_what_was_late(share: float, expected: float) -> None:
    fires = Fires(
        expected_count=4,
        missed=[("job", Instant(0))],
        doubled_count=0,
        starts=[],
        lateness_ms=[1.0, 2.0, 3.0],
    )

    assert fires.lateness_ms_at(share) == expected
