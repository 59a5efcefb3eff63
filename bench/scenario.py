"""What a scenario is: a name, what it measures, and a function that does it on a `Stage`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from bench.api import Api
from bench.costs import Costs, Meter
from bench.fleet import Fleet
from rota.client.async_client import AsyncClient

SETTLED_S = 60.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario found.

    Attributes:
        figures: By name, with the unit at its end; a report shows them in this order.
        samples_ms: Every latency or lateness, if that is what it is about; percentiles of them
            come into the report by themselves.
        timeline: Of the same, if time matters: seconds since the scenario's beginning, and ms.
        marks: What happened when on the timeline: seconds by name.
        costs: What its executions cost, if counting them makes sense.
    """

    figures: dict[str, float] = {}
    samples_ms: Sequence[float] = ()
    timeline: Sequence[tuple[float, float]] = ()
    marks: dict[str, float] = {}
    costs: Costs | None = None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything.

    Attributes:
        part: One in so many of what a scenario usually does.
        history: Up to how many finished executions are preloaded.
        jobs: How many jobs are scheduled where it is about their number.
    """

    part: int = 1
    history: int = 1_000_000
    jobs: int = 1_000_000

    def some(self, count: int) -> int:
        """Return the share of *count* that is to be done, at least 10."""
        return max(min(count, 10), count // self.part)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where a scenario runs: a cluster of its own, that has been warmed up.

    Attributes:
        api: For load.
        client: For what is asked seldom.
        fleet: For killing.
        sizes: For how much.
    """

    api: Api
    client: AsyncClient
    fleet: Fleet
    sizes: Sizes

    async def costed(self, load: Awaitable[int]) -> Costs:
        """Wait for a load, which returns how many executions it was; return what they cost."""
        meter = await Meter.begin(self.fleet, self.api)
        return await meter.read(self.api, await load)


@dataclass(frozen=True)
class Scenario:
    """One thing to measure.

    Attributes:
        name: As it is asked for: ``make bench SCENARIO=name``.
        about: What is measured and how, in a sentence or two, for the report.
        run: Does it.
    """

    name: str
    about: str
    run: Callable[[Stage], Awaitable[Outcome]]


async def settled(client: AsyncClient) -> None:
    """Wait until every shard is where the ring wants it: just founded, they still move."""
    async with asyncio.timeout(SETTLED_S):
        while (await client.cluster()).moves:  # noqa: ASYNC110 - asked over HTTP
            await asyncio.sleep(0.1)
