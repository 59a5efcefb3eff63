"""The lateness of fires: of jobs that fire once, and of repeated schedules, for minutes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bench.api import now
from bench.scenario import Outcome, Scenario, Stage
from bench.scenarios.throughput import NO_OP
from rota.client.slo.fire_load import FireLoad, Start
from rota.core.timing.instants import (
    SECOND,
    Duration,
    Instant,
    format_instant,
)
from rota.wire.documents import ExecutionView

AHEAD_S = 3.0
CREATED_PER_S = 300
"""A lower bound of the rate of creation, so that all timers are set before they are due."""
SUSTAINED_RATE = 100_000_000 / 86_400
"""Fires per second: a hundred million a day."""
SUSTAINED_S, SUSTAINED_MIN_S = 600, 10


async def timers(stage: Stage, count: int, spread_s: float, prefix: str) -> list[float]:
    """Schedule *count* one-shot no-ops evenly over *spread_s*; return their lateness in ms."""
    began_at = Instant(now() + round((AHEAD_S + count / CREATED_PER_S) * SECOND))
    dues = [Instant(began_at + round(k * spread_s * SECOND / count)) for k in range(count)]
    await stage.api.create(
        [
            {"name": f"{prefix}-{k}", "namespace": prefix, "schedule": f"@at {format_instant(due)}"}
            | NO_OP
            for k, due in enumerate(dues)
        ]
    )
    assert now() < began_at, "the first timers were due before all of them were set"
    await asyncio.sleep((dues[-1] - now()) / SECOND + 0.5)
    found = await _all_started(stage, prefix, count)
    return [each.lateness_ms for each in found if each.lateness_ms is not None]


async def _all_started(stage: Stage, namespace: str, count: int) -> Sequence[ExecutionView]:
    async with asyncio.timeout(60):
        while True:
            listed = stage.client.executions(namespace=namespace, limit=count)
            found = [each async for each in listed if each.lateness_ms is not None]
            if len(found) == count:
                return found
            await asyncio.sleep(1)


def _timers(count: int, spread_s: float) -> Callable[[Stage], Awaitable[Outcome]]:
    async def run(stage: Stage) -> Outcome:
        some = stage.sizes.some(count)
        found = await timers(stage, some, spread_s * some / count, "timers")
        figures = {} if spread_s else {"last_start_ms": max(found)}
        early = sum(each < 0 for each in found)
        return Outcome(figures=figures | {"early": early}, samples_ms=found)

    return run


async def _sustained(stage: Stage) -> Outcome:
    period = Duration(10 * SECOND)
    rate = SUSTAINED_RATE / stage.sizes.part
    load = FireLoad(stage.client, "sustained", rate, period=period, body=NO_OP)
    await load.create()
    window = load.window(
        now(), Duration(max(SUSTAINED_MIN_S, SUSTAINED_S // stage.sizes.part) * SECOND)
    )
    await asyncio.sleep((window.since - now()) / SECOND)

    async def waited() -> int:
        await asyncio.sleep((window.until - now()) / SECOND)
        return window.expected_count

    costs = await stage.costed(waited())
    await load.delete()  # Otherwise the jobs would still fire while 700,000 executions are listed.
    fires = await load.fires(window)
    return Outcome(
        figures={
            "per_s": load.rate,
            "missed": len(fires.missed),
            "doubled": fires.doubled_count,
        },
        samples_ms=fires.lateness_ms,
        timeline=timeline(fires.starts, window.since),
        costs=costs,
    )


def timeline(starts: Sequence[Start], since: Instant) -> list[tuple[float, float]]:
    """Return fire times, in seconds from *since*, each with its lateness in ms."""
    return [((each.fire_at - since) / SECOND, each.lateness_ms) for each in starts]


SCENARIOS = (
    Scenario(
        "timers-1k",
        "The lateness of 1,000 one-shot no-ops, 200 per second.",
        _timers(1_000, 5.0),
    ),
    Scenario(
        "timers-10k",
        "The lateness of 10,000 one-shot no-ops, 1,000 per second.",
        _timers(10_000, 10.0),
    ),
    Scenario(
        "timers-at-once",
        "The lateness of 500 one-shot no-ops that are due in the same microsecond.",
        _timers(500, 0.0),
    ),
    Scenario(
        "sustained",
        "11,574 no-op jobs, each every 10 s: 1,157 fires per second for 10 minutes.",
        _sustained,
    ),
)
