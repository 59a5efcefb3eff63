"""Whether a cluster keeps a promise about lateness, and at which rate it still does.

A promise is: of all fires at this rate, over this time, 99 % start within so long after their fire
time, none is missed and none starts twice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from rota.core.timing.instants import SECOND, Duration, Instant

if TYPE_CHECKING:  # No cycle is dodged: help texts shall not load an HTTP library.
    from rota.client.slo.fire_load import FireLoad

P99 = 0.99
STARTED_S = 1.0
"""From the last fire time to the first look, in which most loads have started."""
PRECISION = 0.1
"""A search ends when what held and what did not are this near to each other."""
RATE_MAX = 1_000_000.0
"""Where a search upwards ends; no cluster has come near it."""
RATE_MIN = 0.2
"""One job, once in a period."""

Trial = Callable[[float], Awaitable["Measured"]]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """What is to hold.

    Attributes:
        p99_lateness: What 99 of 100 fires stay within.
        rate: Fires a second.
        duration: How long it is watched.
    """

    p99_lateness: Duration
    rate: float
    duration: Duration


class Measured(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was seen of a promise.

    Attributes:
        rate: Fires a second, as they were.
        seconds: How long.
        expected: Fire times in that.
        missed: Those for which nothing had started 10 s after the end.
        doubled: Executions beside the first of their fire time.
        p50_ms: Lateness at the median; infinite, in JSON null, where that many were missed.
        p99_ms: Of 99 in 100; likewise.
        max_ms: The latest; likewise.
        is_held: Whether all of the promise was kept.
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


async def measure(load: "FireLoad", promise: Promise, *, now: Callable[[], Instant]) -> Measured:
    """Put the load of a promise on its cluster, and return what came of it.

    The jobs are deleted at the end, whatever happens, unless this process is killed; the history of
    their executions stays until it expires.
    """
    try:
        await load.create()
        window = load.window(now(), promise.duration)
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
        is_held=is_whole and p99_ms <= promise.p99_lateness / 1e3,
    )


async def find_rate(trial: Trial, begin: float) -> float:
    """Return the highest rate that holds, to `PRECISION`; 0.0 if none from 0.2 a second does.

    Doubles from *begin* while it holds, or halves while it does not, and then halves what lies
    between. A cluster's limit is no sharp line: near it, one trial holds and the next does not.

    Args:
        trial: Measures one rate.
        begin: The first rate tried.
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
