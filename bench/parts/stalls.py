"""The worst stall of a node's loop while its tasks are started: ``python -m bench.parts.stalls``.

A real node with 2 GiB of resident memory, where a fork of its process would take a second, gets a
probe on its loop that asks to be called every millisecond; how late it is called is the stall. It
is given twice: by the clock, which counts what else the machine does, and by the processor time
that the loop's thread has used since, which does not.
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
    """How late the loop has called it, in milliseconds."""

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
        """Write what was found."""
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
    """A process that is a node and a probe, while the body of its ``with`` runs."""

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
        """Wait until it listens; return where."""
        async with asyncio.timeout(START_S):
            while True:
                found = re.search(r'"listen": "([^"]+)"', self._log_path.read_text())
                if found:
                    return f"http://{found[1]}"
                await asyncio.sleep(0.01)


async def measure(count: int, folder: Path) -> list[dict[str, Json]]:
    """Put every load on a node, one after the other."""
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
    """Measure and print; or be the node that is measured."""
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
