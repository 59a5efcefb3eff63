"""What three nodes do, every step on three disks: ``make bench``.

A real etcd and three real ``rotad`` with three copies of everything (fsync), on this machine, are
driven over HTTP through all three. What is timed is as in `bench.one_node`; a no-op starts no
process. Needs ``etcd`` on the PATH.

    killed   one node with ``kill -9``: from then until a request about each shard is answered
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from bench.one_node import (
    JOBS,
    Api,
    Load,
    bulk,
    fsync_ms,
    latencies_ms,
    lateness_ms,
    one_by_one,
    show,
    spread,
)

from rota.client.local_cluster import LocalCluster

Json = Any  # Any: what the nodes answer, read by the scenario that asked.
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NODES = 3
ANSWER_S = 30.0
SETTLED_S = 60.0


class Spread(Api):
    """The same calls, each to the next node."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self._apis = apis
        self._next = 0

    def _turn(self) -> Api:
        self._next += 1
        return self._apis[self._next % len(self._apis)]

    async def post(self, path: str, body: Json = None) -> Json:
        """Make a request that has to succeed."""
        return await self._turn().post(path, body)

    async def get(self, path: str) -> Json:
        """Make a request that has to succeed."""
        return await self._turn().get(path)


def cpu_s(cluster: LocalCluster) -> float:
    """Return the processor time that all nodes have used, in seconds."""
    total = 0.0
    for node in cluster.nodes.values():
        assert node.process is not None
        fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(each) for each in fields[11:13]) / TICKS_PER_S
    return total


async def run(cluster: LocalCluster, *, is_quick: bool) -> list[dict[str, Json]]:
    """Run every scenario and return the figures."""
    rows: list[dict[str, Json]] = []
    part = 10 if is_quick else 1
    async with aiohttp.ClientSession() as session:
        api = Spread([Api(session, node.url) for node in cluster.nodes.values()])
        await settled(api)
        jobs = [f"noop-{number}" for number in range(JOBS)]
        for name in jobs:
            await api.post("/jobs", {"name": name, "type": "scripted"})
        await bulk(api, jobs, 4_000 // part)  # warm-up, not counted

        async def rate(name: str, count: int, load: Load) -> None:
            cpu, began = cpu_s(cluster), time.perf_counter()
            await load(api, jobs, count)
            took_s, used_s = time.perf_counter() - began, cpu_s(cluster) - cpu
            rows.append(
                {
                    "scenario": name,
                    "executions": count,
                    "per_s": round(count / took_s),
                    "nodes_cpu_ms_each": round(used_s * 1e3 / count, 3),
                }
            )

        await rate("noop, bulk", 20_000 // part, bulk)
        await rate("noop, one POST each", 4_000 // part, one_by_one)
        idle = await latencies_ms(api, jobs[0], 500 // part)
        rows.append({"scenario": "idle, request to start", **spread(idle)})
        timers = await lateness_ms(api, 1_000 // part, 5 / part)
        rows.append({"scenario": "timers, 200 a second", **spread(timers)})
        rows.append({"scenario": "killed", **spread(await outage_ms(cluster, session, jobs))})
    return rows


async def settled(api: Api) -> None:
    """Wait until every shard is where the ring wants it: just founded, they still move."""
    async with asyncio.timeout(SETTLED_S):
        while (await api.get("/cluster"))["moves"]:  # noqa: ASYNC110 - asked over HTTP
            await asyncio.sleep(0.1)


async def outage_ms(
    cluster: LocalCluster, session: aiohttp.ClientSession, jobs: Sequence[str]
) -> list[float]:
    """Kill the last node; return how long each job then took to be shown by the first."""
    first, *_, last = cluster.nodes.values()
    assert last.process is not None
    os.kill(last.process.pid, signal.SIGKILL)
    began = time.perf_counter()

    async def shown(job: str) -> float:
        while time.perf_counter() - began < ANSWER_S:
            async with session.get(f"{first.url}/api/v1/jobs/{job}") as answer:
                if answer.status == 200:
                    return (time.perf_counter() - began) * 1e3
        raise SystemExit(f"{job} is not shown {ANSWER_S:g} s after a node was killed")

    return list(await asyncio.gather(*map(shown, jobs)))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--json", type=Path, help="append the figures to this file, as JSON lines")
    chosen = parser.parse_args()
    print(
        f"three nodes, three copies, fsync on, {os.cpu_count()} cores shared with etcd and the "
        f"load generator, Python {platform.python_version()}, "
        f"Linux {platform.release().split('-')[0]}"
    )
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        rows = [fsync_ms(Path(folder))]
        cluster = LocalCluster(Path(folder), NODES, port=0, slots=None, log_level="warning")
        with cluster:
            rows += asyncio.run(run(cluster, is_quick=chosen.quick))
    show(rows)
    if chosen.json:
        with chosen.json.open("a") as file:
            file.writelines(json.dumps({"nodes": NODES, **row}) + "\n" for row in rows)


if __name__ == "__main__":
    main()
