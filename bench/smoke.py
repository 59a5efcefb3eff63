"""Test whether rota has become slower, in a minute and by ratios only: ``make bench-smoke``.

    python -m bench.smoke              measure, compare, exit with 1 if a ratio is above its bound
    python -m bench.smoke --rounds 10  longer, for setting bounds

rota on three nodes and `bench.skeleton` with three copies run in turns, so that other work of the
machine affects both. The figure of rota is divided by that of the skeleton, each the median of its
rounds. Processor time is compared where possible, because a busy machine affects it less than it
affects latency. The bounds are 1.5 times the measured ratio, or twice for latency.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import aiohttp

from bench.api import Api, Json, now
from bench.costs import Meter
from bench.fleet import Fleet
from bench.open_loop import open_loop
from bench.processes import end_on_term
from bench.report import figure
from bench.scenario import settled
from bench.scenarios.throughput import NO_OP, Load, bulk, create_jobs, one_by_one
from bench.skeleton import Client, Skeleton
from rota.client.async_client import AsyncClient
from rota.core.timing.instants import Instant, parse_instant

NODES = 3
ROUNDS = 4
BULK, POSTS, RECORDS, STARTS = 2_000, 300, 20_000, 100
GROUP = 128
"""The number of records sent to the skeleton together, like a batch of rota."""
START_RATE = 50.0


@dataclass(frozen=True)
class Bound:
    """The largest allowed ratio of rota's figure to that of the skeleton.

    Attributes:
        name: The name of the ratio.
        most: The ratio above which rota has become slower.
        why: The measurements from which the bound was set.
    """

    name: str
    most: float
    why: str


BOUNDS = (
    Bound(
        "bulk: CPU of an execution",
        100.0,
        "67 in ten rounds, 57 in four on another day; 1.5 times the first",
    ),
    Bound(
        "posts: CPU of an execution",
        350.0,
        "233 and 208 in the same rounds; 1.5 times the first",
    ),
    Bound(
        "start: latency",
        5.0,
        "2.45 and 2.36 in the same rounds; twice that, because disks differ",
    ),
)


@dataclass(frozen=True)
class Pair:
    """The same quantity of both systems.

    Attributes:
        rota: The figure of rota, in ms.
        skeleton: The figure of the skeleton, in ms.
    """

    rota: float
    skeleton: float


class Bench:
    """Both systems."""

    def __init__(self, fleet: Fleet, api: Api, jobs: Sequence[str], bare: Skeleton, client: Client):
        self._fleet, self._api, self._jobs = fleet, api, jobs
        self._bare, self._client = bare, client

    async def round(self) -> list[Pair]:
        """Measure the pairs for `BOUNDS`, in their order."""
        floor_cpu_ms = await self._skeleton_cpu_ms()
        return [
            Pair(await self._rota_cpu_ms(bulk, BULK), floor_cpu_ms),
            Pair(await self._rota_cpu_ms(one_by_one, POSTS), floor_cpu_ms),
            Pair(await _p50_ms(self._start_ms), await _p50_ms(self._commit_ms)),
        ]

    async def _rota_cpu_ms(self, load: Load, count: int) -> float:
        meter = await Meter.begin(self._fleet, self._api)
        await load(self._api, self._jobs, count)
        return (await meter.read(self._api, count)).cpu_ms["node"]

    async def _skeleton_cpu_ms(self) -> float:
        before = self._bare.cpu_s()
        for _ in range(RECORDS // GROUP):
            await self._client.commit(GROUP)
        return (self._bare.cpu_s() - before) * 1e3 / (RECORDS // GROUP * GROUP)

    async def _start_ms(self, due: Instant) -> float:
        made = await self._api.trigger(self._jobs[due % len(self._jobs)])
        execution: Json
        [execution] = await self._api.ended([made])
        return (parse_instant(execution["startedAt"]) - due) / 1e3

    async def _commit_ms(self, due: Instant) -> float:
        await self._client.commit(1)
        return (now() - due) / 1e3


async def _p50_ms(send: Callable[[Instant], Awaitable[float]]) -> float:
    return median(await open_loop(send, rate=START_RATE, count=STARTS))


async def measure(folder: Path, rounds: int) -> list[list[Pair]]:
    """Return the pairs of each round, after a warm-up round that is not counted."""
    async with AsyncExitStack() as undo:
        fleet = undo.enter_context(Fleet(folder / "rota", NODES))
        bare = undo.enter_context(Skeleton(folder / "skeleton", NODES))
        session = await undo.enter_async_context(aiohttp.ClientSession())
        async with AsyncClient(fleet.urls) as client:
            await settled(client)
        api = Api(session, fleet.urls)
        jobs = await create_jobs(api, NO_OP)
        bench = Bench(fleet, api, jobs, bare, await bare.client())
        await bench.round()
        return [await bench.round() for _ in range(rounds)]


def ratio(pairs: Sequence[Pair]) -> float:
    """Return the median of rota divided by the median of the skeleton."""
    return median(each.rota for each in pairs) / median(each.skeleton for each in pairs)


def regressed(measured: Sequence[Sequence[Pair]], bounds: Sequence[Bound] = BOUNDS) -> list[str]:
    """Print every ratio, and return the names of those above their bound.

    Args:
        measured: For each round, the pairs in the order of *bounds*.
        bounds: The bounds of the ratios.
    """
    found: list[str] = []
    for bound, pairs in zip(bounds, zip(*measured, strict=True), strict=True):
        seen = ratio(pairs)
        print(
            f"  {bound.name:<28} {figure(median(each.rota for each in pairs)):>6} ms over "
            f"{figure(median(each.skeleton for each in pairs)):>7} ms = {figure(seen):>5}, "
            f"at most {figure(bound.most)}: {bound.why}"
        )
        if seen > bound.most:
            found.append(bound.name)
    return found


def main() -> None:
    """Measure and compare."""
    end_on_term()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    print(f"rota on {NODES} nodes over a bare journal and link with as many copies:")
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        found = regressed(asyncio.run(measure(Path(folder), rounds)))
    if found:
        raise SystemExit(f"rota is slower than the bounds allow: {'; '.join(found)}")


if __name__ == "__main__":
    main()
