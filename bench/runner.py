"""Runs scenarios, each on a fresh cluster, and returns their rows for the results."""

import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import aiohttp
import msgspec

from bench.api import Api, now
from bench.costs import Costs, memory_mib
from bench.fleet import Fleet
from bench.machine import busy
from bench.scenario import Outcome, Scenario, Sizes, Stage, settled
from bench.scenarios.throughput import NO_OP, bulk, create_jobs
from rota.client.async_client import AsyncClient
from rota.client.slo.percentiles import percentile
from rota.core.timing.instants import format_instant

CURVE = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0)
"""The shares at which the values of a distribution are kept."""
BINS = 400
"""The number of parts of a timeline; the worst value of each part is kept."""
WARM_UP = 2_000
REQUEST_S = 60.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The kept results of a scenario: a line of JSON.

    Attributes:
        scenario: The name of the scenario.
        nodes: The number of nodes of the cluster.
        at: The time at which the scenario ended.
        took_s: The time that it took in all, in seconds.
        busy: The share of the processors that others used right before it: above about 0.1, the
            figures are unreliable, because the machine did other work.
        part: The divisor of the scenario's usual size.
        figures: The figures by name, with units; those of samples are ``count``, ``p50_ms``,
            ``p99_ms``, ``p999_ms`` and ``max_ms``.
        curve: Shares, each with the milliseconds that this share of the samples does not exceed.
        timeline: Times in seconds, each with the worst milliseconds around it.
        marks: The times of events, in seconds, by name.
        costs: The costs of the executions, if they were measured.
        memory_mib: The resident memory of the largest process of each kind, at the end.
        durability: The condition under which a write was answered, in words.
    """

    scenario: str
    nodes: int
    at: str
    took_s: float
    busy: float
    part: int
    figures: dict[str, float]
    curve: list[tuple[float, float]] = []
    timeline: list[tuple[float, float]] = []
    marks: dict[str, float] = {}
    costs: Costs | None = None
    memory_mib: dict[str, float] = {}
    durability: str


async def run(
    scenario: Scenario, size: int, sizes: Sizes, folder: Path, *, is_secure: bool = False
) -> Row:
    """Run a scenario on *size* nodes that write to *folder*, and stop them.

    With *is_secure*, requests have a token, and links between nodes TLS.
    """
    before, began = busy(), time.perf_counter()
    fleet = Fleet(folder, size, is_secure=is_secure)
    with fleet:
        outcome = await _run_on(scenario, fleet, sizes)
        memory = memory_mib(fleet)
    shutil.rmtree(folder)
    return Row(
        scenario=scenario.name,
        nodes=size,
        at=format_instant(now()),
        took_s=time.perf_counter() - began,
        busy=before,
        part=sizes.part,
        figures=outcome.figures | spread(outcome.samples_ms),
        curve=_curve(outcome.samples_ms),
        timeline=worst(outcome.timeline),
        marks=outcome.marks,
        costs=outcome.costs,
        memory_mib=memory,
        durability=fleet.durability,
    )


async def _run_on(scenario: Scenario, fleet: Fleet, sizes: Sizes) -> Outcome:
    connector = aiohttp.TCPConnector(limit=0)  # An open loop must not wait for a connection.
    headers = {"Authorization": f"Bearer {fleet.token}"} if fleet.token else {}
    async with (
        aiohttp.ClientSession(connector=connector, headers=headers) as session,
        AsyncClient(fleet.urls, timeout_s=REQUEST_S, token=fleet.token) as client,
    ):
        api = Api(session, fleet.urls)
        await settled(client)
        jobs = await create_jobs(api, NO_OP, prefix="warm-up")
        await bulk(api, jobs, sizes.some(WARM_UP))
        outcome = await scenario.run(Stage(api=api, client=client, fleet=fleet, sizes=sizes))
        if not api.refused_count:
            return outcome
        figures = outcome.figures | {"refused_and_sent_again": api.refused_count}
        return msgspec.structs.replace(outcome, figures=figures)


def spread(samples_ms: Iterable[float]) -> dict[str, float]:
    """Return the number of samples, and each percentile that at least one sample exceeds."""
    ordered = sorted(samples_ms)
    if not ordered:
        return {}
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}
    return {"count": len(ordered)} | {
        name: percentile(ordered, share)
        for name, share in shares.items()
        if share == 1 or len(ordered) * (1 - share) >= 1
    }


def _curve(samples_ms: Sequence[float]) -> list[tuple[float, float]]:
    ordered = sorted(samples_ms)
    return [(share, percentile(ordered, share)) for share in CURVE] if ordered else []


def worst(timeline: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the worst value of each of `BINS` equal parts of a timeline; skip empty parts."""
    if not timeline:
        return []
    width = max(at for at, _ in timeline) / BINS or 1.0
    found: dict[int, float] = {}
    for at, late_ms in timeline:
        place = int(at / width)
        found[place] = max(found.get(place, 0.0), late_ms)
    return [(place * width, found[place]) for place in sorted(found)]
