"""What one node does: throughput, start latency, timer lateness. ``make bench``.

A real ``rotad`` in a process of its own, with everything durable on disk (group commit, fsync), is
driven over HTTP from this process on the same machine. Nothing is timed that a user would not wait
for: throughput runs from the first submission to the last recorded end, latency from before the
request is sent to the start of the attempt, lateness from the fire time to the start.

    noop     the `scripted` executor: no process is started; what rota itself costs
    process  /bin/true as a process
    python   a function of the standard library, in warm workers
"""

import argparse
import asyncio
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from rota.core.instants import SECOND, Instant, parse_instant

BATCH = 500
JOBS = 50
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Json = Any  # Any: what the node answers, read by the scenario that asked.
Load = Callable[["Api", Sequence[str], int], Awaitable[None]]
"""Submits so many executions of these jobs, and waits for their ends."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything; smaller for a quick look."""

    bulk: int
    single: int
    processes: int
    functions: int
    latencies: int
    timers: int


FULL = Sizes(
    bulk=40_000, single=4_000, processes=4_000, functions=10_000, latencies=500, timers=1_000
)
QUICK = Sizes(bulk=5_000, single=500, processes=200, functions=1_000, latencies=100, timers=200)


class Node:
    """A ``rotad`` under measurement."""

    def __init__(self, data_dir: Path, program: Sequence[str] = ("-m", "rota.node")) -> None:
        self._data_dir = data_dir
        self._log = (data_dir.parent / "rotad.log").open("w+")
        self._process = subprocess.Popen(
            [
                *(sys.executable, *program),
                *("--data-dir", str(data_dir), "--listen", "127.0.0.1:0"),
                *("--on-stop", "end"),
            ],
            stderr=self._log,
        )
        self.url = ""

    async def ready(self) -> None:
        """Wait until it listens."""
        for _ in range(3_000):
            found = re.search(r'"listen": "([^"]+)"', self._said())
            if found:
                self.url = f"http://{found[1]}"
                return
            await asyncio.sleep(0.01)
        raise SystemExit(f"rotad does not start:\n{self._said()}")

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def cpu_s(self) -> float:
        """Return the processor time it has used, in seconds."""
        return sum(_cpu_times_s(self._process.pid)[:2])

    def tasks_cpu_s(self) -> float:
        """Return what its warden has used, and all the tasks that have ended."""
        guard = int((self._data_dir / "warden.lock").read_text())
        [warden] = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        return sum(_cpu_times_s(int(warden)))

    def rss_mib(self) -> float:
        """Return its resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Stop it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._log.close()


def _cpu_times_s(pid: int) -> list[float]:
    """Return what a process has used: user, system, and both of the children it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(each) / TICKS_PER_S for each in fields[11:15]]


class Api:
    """The few calls that the scenarios make."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url + "/api/v1"

    async def post(self, path: str, body: Json = None) -> Json:
        """Make a request that has to succeed."""
        async with self._session.post(self._url + path, json=body or {}) as answer:
            text = await answer.text()
            assert answer.status < 300, text
            return json.loads(text)

    async def get(self, path: str) -> Json:
        """Make a request that has to succeed."""
        async with self._session.get(self._url + path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def text(self, path: str) -> str:
        """Return a page outside the API."""
        async with self._session.get(self._url.removesuffix("/api/v1") + path) as answer:
            return await answer.text()

    async def ended(self, ids: Sequence[str]) -> list[Json]:
        """Wait for executions to succeed."""
        body = {"executionIds": list(ids), "timeout": 120}
        items = (await self.post("/executions:wait", body))["items"]
        assert all(each["status"] == "success" for each in items), items[0]
        return list(items)


async def bulk(api: Api, jobs: Sequence[str], count: int) -> None:
    """Submit *count* executions in batches, four at a time, and wait for all of them."""
    batches = list(range(0, count, BATCH))

    async def worker() -> None:
        while batches:
            start = batches.pop()
            size = min(BATCH, count - start)
            items = [{"job": jobs[(start + each) % len(jobs)]} for each in range(size)]
            made = await api.post("/executions:batch", {"items": items})
            await api.ended([each["executionId"] for each in made["items"]])

    await asyncio.gather(*(worker() for _ in range(4)))


async def one_by_one(api: Api, jobs: Sequence[str], count: int) -> None:
    """Submit *count* executions with a request for each, 32 at a time, and wait for all."""
    numbers = list(range(count))
    made: list[str] = []

    async def worker() -> None:
        while numbers:
            job = jobs[numbers.pop() % len(jobs)]
            made.append((await api.post(f"/jobs/{job}/trigger"))["executionId"])

    await asyncio.gather(*(worker() for _ in range(32)))
    for start in range(0, len(made), BATCH):
        await api.ended(made[start : start + BATCH])


async def latencies_ms(api: Api, job: str, count: int) -> list[float]:
    """Trigger a job on an idle node, again and again: request to start of the attempt."""
    found: list[float] = []
    for _ in range(count):
        asked = now()
        made = await api.post(f"/jobs/{job}/trigger")
        [execution] = await api.ended([made["executionId"]])
        found.append((parse_instant(execution["startedAt"]) - asked) / 1e3)
        await asyncio.sleep(0.005)
    return found


async def lateness_ms(api: Api, count: int, spread_s: float) -> list[float]:
    """Let *count* one-shot jobs come due over *spread_s*, all at once for 0."""
    at = now() + 3 * SECOND + count * 3_000
    names = [f"timer-{spread_s}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        due = Instant(int(at + number * spread_s * SECOND / count))
        body = {"name": name, "schedule": f"@at {_rfc3339(due)}", "type": "scripted"}
        await api.post("/jobs", body)
    left_s = (at - now()) / SECOND
    assert left_s > 0, "the timers came due before they were all set"
    await asyncio.sleep(left_s + spread_s + 0.5)
    found: list[float] = []
    cursor = ""
    while True:
        page = await api.get(f"/executions?limit=1000&from={_rfc3339(Instant(at))}{cursor}")
        found += [
            each["latenessMs"]
            for each in page["items"]
            if each["job"].startswith(f"default/timer-{spread_s}-")
        ]
        if not page["nextCursor"]:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert len(found) == count, f"{len(found)} of {count} timers fired"
    return found


async def run(sizes: Sizes, folder: Path) -> list[dict[str, Json]]:
    """Run every scenario on one node and return the figures."""
    node = Node(folder / "data")
    rows: list[dict[str, Json]] = []
    try:
        await node.ready()
        async with aiohttp.ClientSession() as session:
            api = Api(session, node.url)
            noops = [f"noop-{number}" for number in range(JOBS)]
            processes = [f"process-{number}" for number in range(JOBS)]
            for name in noops:
                await api.post("/jobs", {"name": name, "type": "scripted"})
            for name in processes:
                await api.post("/jobs", {"name": name, "command": ["/bin/true"]})
            functions = [f"function-{number}" for number in range(JOBS)]
            for name in functions:
                call = {"function": "operator:add", "args": [1, 2]}
                await api.post("/jobs", {"name": name, "python": call})
            await bulk(api, noops, sizes.bulk // 10)  # warm-up, not counted
            await bulk(api, functions, sizes.functions // 10)

            async def rate(name: str, count: int, load: Load, jobs: Sequence[str]) -> None:
                before, began = await counters(api), time.perf_counter()
                cpu, tasks_cpu = node.cpu_s(), node.tasks_cpu_s()
                await load(api, jobs, count)
                took_s = time.perf_counter() - began
                after = await counters(api)
                used_s, tasks_used_s = node.cpu_s() - cpu, node.tasks_cpu_s() - tasks_cpu
                rows.append(
                    {
                        "scenario": name,
                        "executions": count,
                        "per_s": round(count / took_s),
                        "node_cpu_ms_each": round(used_s * 1e3 / count, 3),
                        "tasks_cpu_ms_each": round(tasks_used_s * 1e3 / count, 3),
                        "syncs_each": round((after["syncs"] - before["syncs"]) / count, 3),
                        "entries_each": round((after["entries"] - before["entries"]) / count, 3),
                        "decisions_each": round(
                            (after["decisions"] - before["decisions"]) / count, 2
                        ),
                    }
                )

            await rate("noop, bulk", sizes.bulk, bulk, noops)
            await rate("noop, one POST each", sizes.single, one_by_one, noops)
            await rate("/bin/true, bulk", sizes.processes, bulk, processes)
            await rate("python function, bulk", sizes.functions, bulk, functions)
            idle = await latencies_ms(api, noops[0], sizes.latencies)
            rows.append({"scenario": "idle, request to start", **spread(idle)})
            spread_out = await lateness_ms(api, sizes.timers, sizes.timers / 200)
            rows.append({"scenario": "timers, 200 a second", **spread(spread_out)})
            at_once = await lateness_ms(api, sizes.timers // 2, 0)
            rows.append({"scenario": "timers, all in one instant", **spread(at_once)})
            rows.append({"scenario": "memory", "rss_mib": round(node.rss_mib())})
    finally:
        node.stop()
    return rows


async def counters(api: Api) -> dict[str, float]:
    """Return what the node has counted."""
    text = await api.text("/metrics")
    names = {
        "syncs": "rota_journal_syncs_total",
        "entries": "rota_journal_entries_total",
        "decisions": "rota_decisions_total",
    }
    found: dict[str, float] = {}
    for short, name in names.items():
        match = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        assert match, name
        found[short] = float(match[1])
    return found


def spread(values: Iterable[float]) -> dict[str, Json]:
    """Return the percentiles of *values*, in milliseconds."""
    ordered = sorted(values)
    at = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    count = len(ordered)
    return {"count": count} | {
        name: round(ordered[min(count - 1, int(count * share))], 2) for name, share in at.items()
    }


def fsync_ms(folder: Path) -> dict[str, Json]:
    """Measure the disk alone: an append of 512 bytes and fdatasync."""
    taken: list[float] = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(500):
            began = time.perf_counter()
            file.write(bytes(512))
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e3)
    return {"scenario": "this disk: append 512 B + fdatasync", **spread(taken)}


def now() -> Instant:
    """Return the wall clock."""
    return Instant(time.time_ns() // 1_000)


def _rfc3339(instant: Instant) -> str:
    moment = time.gmtime(instant // SECOND)
    return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{instant % SECOND:06d}Z"


def show(rows: Iterable[dict[str, Json]]) -> None:
    """Print the figures, a scenario a line."""
    for row in rows:
        figures = "  ".join(f"{key} {value}" for key, value in row.items() if key != "scenario")
        print(f"  {row['scenario']:<38} {figures}")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--json", type=Path, help="append the figures to this file, as JSON lines")
    chosen = parser.parse_args()
    print(
        f"one node, fsync on, {os.cpu_count()} cores shared with the load generator, "
        f"Python {platform.python_version()}, Linux {platform.release().split('-')[0]}"
    )
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        rows = [fsync_ms(Path(folder))]
        rows += asyncio.run(run(QUICK if chosen.quick else FULL, Path(folder)))
    show(rows)
    if chosen.json:
        with chosen.json.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
