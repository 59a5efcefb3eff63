"""Scenarios: a name, a description, and a function that measures something on a `Stage`."""

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
    """The results of a scenario.

    Attributes:
        figures: The figures by name, with the unit at the end of the name; a report shows them in
            this order.
        samples_ms: All latencies or latenesses, if the scenario measures them; their percentiles
            are added to the report.
        timeline: The same samples over time, if time matters: seconds since the beginning of the
            measurement, and milliseconds.
        marks: The times of events on the timeline, in seconds, by name.
        costs: The costs of the executions, if they are measured.
    """

    figures: dict[str, float] = {}
    samples_ms: Sequence[float] = ()
    timeline: Sequence[tuple[float, float]] = ()
    marks: dict[str, float] = {}
    costs: Costs | None = None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of scenarios.

    Attributes:
        part: The divisor of the usual number of executions of a scenario.
        history: The largest number of finished executions that are preloaded.
        jobs: The number of jobs in the scenario that measures many jobs.
    """

    part: int = 1
    history: int = 1_000_000
    jobs: int = 1_000_000

    def some(self, count: int) -> int:
        """Return *count* divided by *part*, but at least 10, or *count* if that is less."""
        return max(min(count, 10), count // self.part)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The cluster of one scenario, after a warm-up.

    Attributes:
        api: The calls for load.
        client: The client for occasional requests.
        fleet: The nodes, which a scenario may kill.
        sizes: The sizes of the scenario.
    """

    api: Api
    client: AsyncClient
    fleet: Fleet
    sizes: Sizes

    async def costed(self, load: Awaitable[int]) -> Costs:
        """Await *load*, which returns its number of executions; return their costs."""
        meter = await Meter.begin(self.fleet, self.api)
        return await meter.read(self.api, await load)


@dataclass(frozen=True)
class Scenario:
    """A measurement.

    Attributes:
        name: The name of the scenario, as in ``make bench SCENARIO=name``.
        about: A description of the measurement in a sentence or two, for the report.
        run: The function that measures.
    """

    name: str
    about: str
    run: Callable[[Stage], Awaitable[Outcome]]


async def settled(client: AsyncClient) -> None:
    """Wait until every shard is on the nodes that the ring assigns; in a new cluster, some move."""
    async with asyncio.timeout(SETTLED_S):
        while (await client.cluster()).moves:  # noqa: ASYNC110 - asked over HTTP
            await asyncio.sleep(0.1)
