"""Measurement of lateness on a cluster, and search for the highest rate that meets a target.

A target has a rate in fires per second, a duration, and a lateness. A cluster meets the target if
99 % of the fires start within the lateness, no fire is missed, and no fire starts twice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from rota.core.timing.instants import SECOND, Duration, Instant

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.slo.fire_load import FireLoad

P99 = 0.99
STARTED_S = 1.0
"""How many seconds to wait after the last fire time before the first reading; most loads have
started by then."""
PRECISION = 0.1
"""A search ends when the highest met rate is at most this fraction below the lowest missed rate."""
RATE_MAX = 1_000_000.0
"""The upper limit of a search in fires per second, far above the rate of any cluster."""
RATE_MIN = 0.2
"""The lower limit of a search in fires per second: one job that fires once in a period."""

Trial = Callable[[float], Awaitable["Measured"]]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A target for lateness.

    Attributes:
        p99_lateness: The lateness that 99 of 100 fires must not exceed.
        rate: The number of fires per second.
        duration: The duration of the measurement.
    """

    p99_lateness: Duration
    rate: float
    duration: Duration


class Measured(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a measurement.

    Attributes:
        rate: The actual number of fires per second.
        seconds: The duration.
        expected: The number of fire times.
        missed: The number of fire times without a start within 10 s after the end.
        doubled: The number of executions beside the first of their fire time.
        p50_ms: The median lateness; infinite, in JSON null, if too many fires were missed.
        p99_ms: The 99th percentile of the lateness; infinite as for *p50_ms*.
        max_ms: The greatest lateness; infinite, in JSON null, if a fire was missed.
        is_held: Whether the target was met.
    """

    rate: float
    seconds: float
    expected: int
    missed: int
    doubled: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    is_held: bool


async def measure(load: "FireLoad", target: Target, *, now: Callable[[], Instant]) -> Measured:
    """Run the load of a target on a cluster, and return the result.

    The jobs are deleted at the end, also after an error, unless this process is killed; the history
    of their executions stays until it expires.
    """
    try:
        await load.create()
        window = load.window(now(), target.duration)
        await asyncio.sleep((window.until - now()) / SECOND + STARTED_S)
        fires = await load.fires(window)
    finally:
        await load.delete()
    p99_ms = fires.lateness_ms_at(P99)
    is_whole = not fires.missed and not fires.doubled_count
    return Measured(
        rate=load.rate,
        seconds=(window.until - window.since) / SECOND,
        expected=fires.expected_count,
        missed=len(fires.missed),
        doubled=fires.doubled_count,
        p50_ms=fires.lateness_ms_at(0.5),
        p99_ms=p99_ms,
        max_ms=fires.lateness_ms_at(1.0),
        is_held=is_whole and p99_ms <= target.p99_lateness / 1e3,
    )


async def find_rate(trial: Trial, begin: float) -> float:
    """Return the highest rate that meets the target, with `PRECISION`; 0.0 if no tried rate does.

    The search doubles the rate from *begin* while the target is met, or halves it while the target
    is missed, and then bisects. The limit of a cluster is not sharp: near it, results vary.

    Args:
        trial: Measures one rate.
        begin: The first rate.
    """
    held, broken = 0.0, float("inf")
    rate = begin
    while broken - held > PRECISION * broken or broken == float("inf"):
        if (await trial(rate)).is_held:
            held = rate
        else:
            broken = rate
        if held >= RATE_MAX or broken <= RATE_MIN:
            break
        if broken == float("inf"):
            rate = held * 2
        elif held == 0:
            rate = broken / 2
        else:
            rate = (held + broken) / 2
    return held
