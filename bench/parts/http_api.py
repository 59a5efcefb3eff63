"""Benchmark of the API: requests per second by kind, and CPU of its layer. ``make bench-parts``.

This process sends requests over HTTP to a real ``rotad``, which syncs to a disk, on the same
machine: with 32 connections for single requests, 4 for batches. The CPU of the HTTP layer is
measured in this process, without a node: decoding a batch of jobs, making their definitions and
encoding the response, but not deciding.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import aiohttp
import msgspec

from bench.api import Api, Json
from bench.fleet import Fleet
from bench.parts.figures import show
from bench.processes import cpu_s
from rota.node.api.forwarding.batch_splitting import Items
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.bodies.json_decoding import decode
from rota.wire.documents import CreatedItem, CreatedManyView, JobBody

BATCH = 100
ROUNDS = 200
Request = Callable[[Api, int], Awaitable[Json]]


@dataclass(frozen=True)
class Scenario:
    """One kind of request.

    Attributes:
        name: The name of the kind.
        ask: Makes one request; its second argument is the number of the request.
        requests: The number of requests.
        each: The number of jobs or executions that one request creates or lists.
        connections: The number of connections that make requests at the same time.
    """

    name: str
    ask: Request
    requests: int
    each: int = 1
    connections: int = 32


def job(number: int) -> dict[str, Json]:
    """Return a job with a unique name, and one of 1,440 schedules."""
    return {
        "name": f"job-{number}",
        "schedule": f"{number % 60} {number // 60 % 24} * * *",
        "timezone": "Europe/Berlin",
        "command": "python generate_report.py",
        "retries": 3,
        "timeout": "1h",
        "labels": {"team": "reports"},
    }


def jobs(batch: int) -> dict[str, Json]:
    """Return the body of a request that creates `BATCH` jobs; each *batch* has other names."""
    first = 1_000_000 + BATCH * batch
    return {"items": [job(first + number) for number in range(BATCH)]}


def scenarios(share: int) -> list[Scenario]:
    """Return the scenarios, with their numbers of requests divided by *share*."""
    triggers = {"items": [{"job": "noop"}] * BATCH}
    return [
        Scenario("create", lambda api, n: api.post("/jobs", job(n)), 4_000 // share),
        Scenario("get", lambda api, n: api.get(f"/jobs/job-{n}"), 4_000 // share),
        Scenario("trigger", lambda api, _: api.post("/jobs/noop/trigger"), 4_000 // share),
        Scenario(
            "create, batches of 100",
            lambda api, n: api.post("/jobs:batch", jobs(n)),
            200 // share,
            each=BATCH,
            connections=4,
        ),
        Scenario(
            "trigger, batches of 100",
            lambda api, _: api.post("/executions:batch", triggers),
            200 // share,
            each=BATCH,
            connections=4,
        ),
        Scenario("list, pages of 100", lambda api, _: api.get("/jobs"), 400 // share, each=100),
    ]


async def run(share: int, folder: Path) -> list[dict[str, Json]]:
    """Run every scenario on one node."""
    with Fleet(folder / "nodes", 1) as fleet:
        connector = aiohttp.TCPConnector(limit=64)
        async with aiohttp.ClientSession(connector=connector) as session:
            api = Api(session, fleet.urls)
            await api.post("/jobs", {"name": "noop", "type": "scripted"})
            return [await measure(api, fleet, scenario) for scenario in scenarios(share)]


async def measure(api: Api, fleet: Fleet, scenario: Scenario) -> dict[str, Json]:
    """Make the requests of a scenario, one after the other on each connection."""
    numbers = iter(range(scenario.requests))

    async def connection() -> None:
        for number in numbers:
            await scenario.ask(api, number)

    cpu, began = _node_cpu_s(fleet), time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(scenario.connections)))
    took_s = time.perf_counter() - began
    items = scenario.requests * scenario.each
    return {
        "scenario": scenario.name,
        "requests_per_s": round(scenario.requests / took_s),
        "items_per_s": round(items / took_s),
        "node_cpu_ms_each": round((_node_cpu_s(fleet) - cpu) * 1e3 / items, 3),
    }


def _node_cpu_s(fleet: Fleet) -> float:
    return sum(cpu_s(pid) for kind, pid in fleet.processes() if kind == "node")


def layer_ms(numbers: "count[int]") -> float:
    """Return the CPU time that the HTTP layer takes for one job of a batch, in milliseconds."""
    bodies = [msgspec.json.encode(jobs(next(numbers))) for _ in range(ROUNDS)]
    began = time.process_time()
    for body in bodies:
        specs = [job_spec(decode(raw, JobBody)) for raw in decode(body, Items).items]
        items = [
            CreatedItem(status=201, job_id="0" * 16, job=spec.full_name, version=1)
            for spec in specs
        ]
        msgspec.json.encode(CreatedManyView(items=items))
    return (time.process_time() - began) * 1e3 / (ROUNDS * BATCH)


def layer() -> dict[str, Json]:
    """Measure the HTTP layer with schedules that are new to it, then with the same schedules."""
    numbers = count()
    first, again = layer_ms(numbers), layer_ms(numbers)
    return {
        "scenario": "HTTP layer, a job of a batch of 100",
        "cpu_ms_each": round(again, 4),
        "with_1440_new_schedules": round(first, 4),
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    chosen = parser.parse_args()
    print("the API of one node, fsync on, cores shared with the load generator")
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        rows = [layer(), *asyncio.run(run(10 if chosen.quick else 1, Path(folder)))]
    show(rows)


if __name__ == "__main__":
    main()
