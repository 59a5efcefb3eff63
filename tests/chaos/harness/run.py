"""One run: a cluster, load, faults, rest, and the records for the judge, in a folder."""

import asyncio
import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chaos.harness import shim
from chaos.harness.cluster import INSTALLED, Cluster, NeverHappened, wait_until
from chaos.harness.definitions import Definitions
from chaos.harness.histories import History, boottime
from chaos.harness.nemesis import Nemesis
from chaos.harness.network import Network
from chaos.harness.schedule import COMPILER, KINDS, ON_SMALL_DISK, ON_VOLUME, Fault
from chaos.harness.sink import Sink
from chaos.harness.stalls import Watch
from chaos.harness.workloads import Load, Rates
from chaos.judge.collect import collect, unfinished
from chaos.judge.disks import collect_replicas
from support.cluster import answer
from support.rotad import processes_of

Json = Any  # Any: answers of nodes.

QUIET_S = 15.0
"""Load without faults, before and after them: the figures to compare with."""
REST_S = 60.0
"""L1: limit after all faults until the cluster is whole and all executions have ended."""
LONGEST_S = 60.0
"""Further time for tasks that just began: 30 s of work, an attempt's lease."""
BEATS_S = 3.0
"""Several beats: a beat carries the committed index from a primary to its backups."""
STAND_IN_AFTER_S = 6
"""Longer than a takeover, and shorter than nodes are cut off."""
HIDDEN = ("faults", "package")
"""Fields of a plan without a place in run.json: the faults have a file; the package is no fact."""
LEFT_S = 40.0
"""Wardens without node or attempts end by themselves after 10 s, attempts by their lease."""


@dataclass(frozen=True)
class Plan:
    """The parameters of a run.

    Attributes:
        nodes: How many.
        members: Of etcd.
        faults: In order.
        attempt_lease_s: An attempt whose node is away for longer is ended, and lost.
        flags: Of each node.
        package: The rota that nodes run.
    """

    seed: int
    minutes: float
    nemesis: str
    nodes: int
    members: int
    rates: Rates
    faults: list[Fault]
    attempt_lease_s: int
    flags: tuple[str, ...] = ()
    package: Path = INSTALLED
    is_secure: bool = False


def run(plan: Plan, network: Network, folder: Path) -> None:
    """Carry out *plan*, and write its records into *folder*."""
    spare = 2 if any(fault.kind == "grow" for fault in plan.faults) else 0
    (folder / "said").touch()
    with (
        History(folder / "clients.jsonl") as clients,
        History(folder / "faults.jsonl") as faults,
        History(folder / "sink.jsonl") as written,
        Sink(network.address, written) as sink,
        Watch(folder) as watch,
        Cluster(
            folder, network, plan.nodes,
            f"--attempt-lease={plan.attempt_lease_s}s", f"--stand-in-after={STAND_IN_AFTER_S}s",
            *plan.flags,
            spare=spare, members=plan.members, package=plan.package,
            is_secure=plan.is_secure,
        ) as cluster,
    ):  # fmt: skip
        _prepare(cluster, plan, folder)
        cluster.start()
        definitions = Definitions(folder / "said", sink.address)
        load = Load(cluster.urls, plan.rates, plan.seed, definitions, clients)
        nemesis = Nemesis(cluster, plan.faults, faults)
        with _loading(load):
            time.sleep(QUIET_S)
            nemesis.run(plan.minutes)
            cluster.heal()
            time.sleep(QUIET_S)
        end = _rest(cluster, watch)
        _write_run(plan, folder, load.shed)
        _collect(cluster, folder)
        _quiet(cluster)
        end["ended"] = [each for node in cluster.all_nodes.values() for each in node.ends]
        end["processes"] = _stop(cluster)
        (folder / "end.json").write_text(json.dumps(end))
        databases = {
            name: node.data_dir / "db"
            for name, node in cluster.nodes.items()
            if node.data_dir.exists()
        }
        collect_replicas(databases, folder)


def _prepare(cluster: Cluster, plan: Plan, folder: Path) -> None:
    """Give nodes the wall clocks and the disks that the faults need."""
    kinds = {fault.kind: fault.hosts for fault in plan.faults}
    if any(KINDS[kind].needs == COMPILER for kind in kinds):
        library = shim.build(folder)
        for node in cluster.all_nodes.values():
            node.orders = shim.Orders(folder / f"{node.name}.orders", library)
    for name in kinds.get(ON_SMALL_DISK, ()):
        cluster.nodes[name].on_small_disk()
    for name in kinds.get(ON_VOLUME, ()):
        cluster.nodes[name].on_volume()


class _loading:  # noqa: N801 - reads as a phrase after `with`
    """Load on a thread of its own while the body runs; it ends when all calls are answered."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()
        self._is_ready.wait()

    def __exit__(self, *_: object) -> None:
        self._load.stop()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._load.run(self._is_ready.set))
        except BaseException as error:
            # Raised again on the main thread.
            self._failure = error
        finally:
            self._is_ready.set()


def _rest(cluster: Cluster, watch: Watch) -> Json:
    """Wait until the cluster is whole and all has ended; return the duration and the trouble."""
    trouble, whole_after_s = "", 0.0
    try:
        whole_after_s = _wait_whole(cluster, watch)
        left: list[str] = []

        def is_over() -> bool:
            left[:] = unfinished(cluster.urls)
            return not left

        wait_until(is_over, LONGEST_S, lambda: f"{len(left)} unfinished, such as {left[:3]}")
    except NeverHappened as error:
        trouble = str(error)
        print(f"NOT WELL {trouble}", flush=True)
    return {"trouble": trouble, "wholeAfterS": round(whole_after_s, 1)}


def _wait_whole(cluster: Cluster, watch: Watch) -> float:
    """Wait for a limited time, in which stalls of the machine do not count."""
    began, stalled_s = time.monotonic(), watch.stalled_s()
    try:
        cluster.wait_whole(REST_S)
    except NeverHappened:
        cluster.wait_whole(watch.stalled_s() - stalled_s)
    return time.monotonic() - began


def _write_run(plan: Plan, folder: Path, shed: int) -> None:
    ahead = time.time() - boottime()
    (folder / "run.json").write_text(
        json.dumps(
            {
                **{key: value for key, value in asdict(plan).items() if key not in HIDDEN},
                "wallClockAhead": ahead,
                "endedAt": boottime(),
                "minSync": 2,
                "attemptLeaseS": plan.attempt_lease_s,
                "standInAfterS": STAND_IN_AFTER_S,
                "shed": shed,
                "cores": os.cpu_count(),
            }
        )
    )


def _collect(cluster: Cluster, folder: Path) -> None:
    collect(cluster.urls, folder)
    cluster.etcd_history.keep()


def _quiet(cluster: Cluster) -> None:
    """Delete the jobs that fire, and wait until every copy has received all entries."""
    node = next(iter(cluster.nodes.values()))
    # They are paused, and the ledger also has rows for fire times of paused jobs.
    for name in ("tick-", "race-", "available-"):
        while jobs := answer(node, "GET", f"/api/v1/jobs?q={name}&limit=1000")["items"]:
            for job in jobs:
                answer(node, "DELETE", f"/api/v1/jobs/{job['jobId']}")
    time.sleep(BEATS_S)


def _stop(cluster: Cluster) -> list[str]:
    """Kill all nodes at once; return the processes that are left after `LEFT_S`."""
    for node in cluster.nodes.values():
        if node.process is not None:
            node.process.kill()
    for node in cluster.nodes.values():
        if node.process is not None:
            node.process.wait()
    left: list[str] = []

    def is_gone() -> bool:
        left[:] = _left(cluster)
        return not left

    with suppress(NeverHappened):
        wait_until(is_gone, LEFT_S, "")
    return left


def _left(cluster: Cluster) -> list[str]:
    """Return the processes of nodes, wardens and attempts, with their command lines."""
    marked = {
        pid
        for node in cluster.nodes.values()
        if (node.data_dir / "FORMAT").exists()
        for pid in processes_of(node.data_dir)
    }
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                name = (entry / "comm").read_text().strip()
                ours = any(str(node.data_dir) in line for node in cluster.nodes.values())
                if int(entry.name) in marked or (ours and name.startswith(("rota", "python"))):
                    found.append(f"{entry.name} {name}: {line[:200]}")
    return found
