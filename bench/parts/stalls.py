"""The worst stall of a node's loop while its tasks are started: ``python -m bench.parts.stalls``.

A real node has 2 GiB of resident memory, so that a fork of its process would take a second. A probe
on its loop sleeps for a millisecond repeatedly; the delay of its wake-up is the stall. The stall is
reported twice: by the clock, which includes other work of the machine, and by the processor time
that the loop's thread has used in between, which does not.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import aiohttp
import uvloop

from bench.api import Api, Json
from bench.parts.figures import show
from bench.processes import rss_mib
from bench.scenarios.throughput import one_by_one
from rota.node.runtime.node import Node as RotaNode
from rota.node.system.config import load_config
from rota.node.system.logs import begin_logging

RESIDENT_BYTES = 2 << 30
PROBE_S = 0.001
START_S = STOP_S = 30.0
LOADS: dict[str, Json] = {
    "noop": {"type": "scripted"},
    "/bin/true": {"command": ["/bin/true"]},
    "shell with 64 KiB of output": {"command": "head -c 65536 /dev/zero"},
}


class Probe:
    """A probe of the loop's delays.

    Attributes:
        late_ms: The delay of each wake-up, in milliseconds.
        worked_ms: The processor time of the loop's thread in each sleep, in milliseconds.
    """

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self.worked_ms: list[float] = []

    def reset(self) -> None:
        """Reset the measurements."""
        self.late_ms, self.worked_ms = [], []

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began, began_cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(PROBE_S)
            self.late_ms.append((time.perf_counter() - began - PROBE_S) * 1e3)
            self.worked_ms.append((time.thread_time() - began_cpu) * 1e3)

    def show(self, path: Path) -> None:
        """Write the figures to the file *path*."""
        late, worked = sorted(self.late_ms), sorted(self.worked_ms)
        place = int(len(late) * 0.999)
        figures = {
            "late_ms_p999": round(late[place], 1),
            "late_ms_max": round(late[-1], 1),
            "worked_ms_p999": round(worked[place], 1),
            "worked_ms_max": round(worked[-1], 1),
        }
        path.with_suffix(".new").write_text(json.dumps(figures))
        path.with_suffix(".new").rename(path)


async def be_node(data_dir: Path, figures: Path) -> None:
    """Run a node with a probe; USR1 begins a measurement, USR2 ends it."""
    config = load_config(
        None,
        {},
        {
            "data_dir": data_dir,
            "listen": "127.0.0.1:0",
            "on_stop": "end",
            "testing_executors": "true",
            "auth": "open",
        },
    )
    node, probe, loop = RotaNode(config), Probe(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, node.stop)
    loop.add_signal_handler(signal.SIGUSR1, probe.reset)
    loop.add_signal_handler(signal.SIGUSR2, probe.show, figures)
    async with asyncio.TaskGroup() as group:
        probing = group.create_task(probe.run())
        await node.run()
        probing.cancel()


class _ProbedNode:
    """A process of a node with a probe, which runs during the body of its ``with`` statement."""

    def __init__(self, folder: Path, figures: Path) -> None:
        self._log_path = folder / "log"
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "bench.parts.stalls", "--node", str(figures)),
                    *("--data-dir", str(folder / "data")),
                ],
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(STOP_S)

    async def url(self) -> str:
        """Wait until the node listens, and return its URL."""
        async with asyncio.timeout(START_S):
            while True:
                found = re.search(r'"listen": "([^"]+)"', self._log_path.read_text())
                if found:
                    return f"http://{found[1]}"
                await asyncio.sleep(0.01)


async def measure(count: int, folder: Path) -> list[dict[str, Json]]:
    """Run every load on a node, one after the other, and return the figures."""
    figures = folder / "figures"
    rows: list[dict[str, Json]] = []
    with _ProbedNode(folder, figures) as node:
        async with aiohttp.ClientSession() as session:
            api = Api(session, [await node.url()])
            for name, job in LOADS.items():
                label = "".join(each for each in name if each.isalnum())
                await api.post("/jobs", {"name": label, **job})
                await one_by_one(api, [label], count // 10)  # warm-up, not counted
                node.process.send_signal(signal.SIGUSR1)
                began = time.perf_counter()
                await one_by_one(api, [label], count)
                took_s = time.perf_counter() - began
                node.process.send_signal(signal.SIGUSR2)
                while not figures.exists():  # noqa: ASYNC110 - another process makes it
                    await asyncio.sleep(0.01)
                found = json.loads(figures.read_text())
                figures.unlink()
                row = {"scenario": f"{name}, one POST each", "per_s": round(count / took_s)}
                rows.append({**row, **found, "rss_mib": round(rss_mib(node.process.pid))})
    return rows


def main() -> None:
    """Measure, and print the figures; or run the node that is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=2_000, help="executions of each load")
    parser.add_argument("--node", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--data-dir", type=Path, help=argparse.SUPPRESS)
    chosen, _ = parser.parse_known_args()
    if chosen.node:
        begin_logging("info")
        resident = bytearray(os.urandom(1 << 20)) * (RESIDENT_BYTES >> 20)
        uvloop.run(be_node(chosen.data_dir, chosen.node))
        del resident
        return
    print(
        f"stalls of a node's loop with {RESIDENT_BYTES >> 30} GiB resident, {os.cpu_count()} cores"
    )
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        show(asyncio.run(measure(chosen.count, Path(folder))))


if __name__ == "__main__":
    main()
