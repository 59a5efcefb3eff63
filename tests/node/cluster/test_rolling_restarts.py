"""Rolling restarts of nodes without effect on the users of the cluster."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import cycle, pairwise
from pathlib import Path

import pytest

from rota.client import Client
from rota.client.errors import RequestFailed
from support.cluster import Cluster, Json, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rota_program import Rota, until
from support.rotad import Rotad

pytestmark = needs_etcd

JOBS = 30
"""Each fires every second."""
CALLERS = 3
TASKS = 6
SLOTS = 65
"""A setting that is changed, which needs the same restarts."""
RESTARTED_WITHIN = "60s"
"""Lease of attempts without their node: longer than a restart on a slow machine."""


@pytest.fixture
def steady(tmp_path: Path, etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes with an attempt lease longer than a restart."""
    with Cluster(tmp_path, etcd, 3, "--attempt-lease", RESTARTED_WITHIN) as cluster:
        yield cluster.start()
    assert cluster.left_over() == []


class Callers:
    """Clients of all nodes that trigger a job, read jobs and create some until the body is over.

    Attributes:
        failures: Calls that failed after all their tries.
        triggered: Executions acknowledged to a client.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.failures: list[RequestFailed] = []
        self.calls: Counter[str] = Counter()
        self.triggered: list[str] = []
        self._urls = [node.url for node in cluster]
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._call, args=(number,)) for number in range(CALLERS)
        ]

    def __enter__(self) -> "Callers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _call(self, number: int) -> None:
        made = 0
        with Client(self._urls) as client:
            for what in cycle(("trigger", "read", "make")):
                if self._is_over.wait(0.02):
                    return
                try:
                    if what == "trigger":
                        self.triggered.append(client.trigger("called").execution_id)
                    elif what == "read":
                        client.job("called")
                    else:
                        made += 1
                        client.create_job({"name": f"made-{number}-{made}", "type": "scripted"})
                    self.calls[what] += 1
                except RequestFailed as failure:
                    self.failures.append(failure)


@pytest.mark.timeout(180)
def test_a_rolling_restart_under_load_fails_no_call_skips_no_fire_and_loses_no_attempt(
    steady: Cluster, rota_alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = steady
    monkeypatch.setenv("ROTA_URL", ",".join(node.url for node in steady))
    first.create(name="called", type="scripted")
    for number in range(JOBS):
        first.create(name=f"fires-{number}", type="scripted", schedule="@every 1s")
    tasks = [long_task(first, number, steady.folder) for number in range(TASKS)]

    with Callers(steady) as callers:
        for node in steady:
            node.stop()
            node.flags = (*node.flags, "--slots", str(SLOTS))
            node.start(60)
            # The condition that docs/how-to/operate.md gives to operators, and nothing else.
            until(lambda: rota_alone("cluster", "status").status == 0)
    members = rota_alone("cluster", "members", "-o", "json").json
    (steady.folder / "gate").touch()
    ends = [wait_ended(first, task) for task in tasks]
    ledgers = [pause_and_read(first, f"fires-{number}") for number in range(JOBS)]

    assert callers.failures == []
    assert [each["load"]["slots"] for each in members] == [SLOTS] * 3
    assert [(end["status"], attempts_of(end)) for end in ends] == [("success", [1])] * TASKS
    for ledger in ledgers:
        assert {entry["outcome"] for entry in ledger} == {"fired"}
        assert gaps_s(ledger) == {1.0}
    for execution in callers.triggered:
        assert wait_ended(first, execution)["status"] == "success"
    print_figures(callers, [late_ms(entry) for ledger in ledgers for entry in ledger])


def long_task(node: Rotad, number: int, folder: Path) -> str:
    """Start a task that ends when the gate file exists; return its execution."""
    gate = folder / "gate"
    job = node.create(
        name=f"long-{number}", command=f"until test -e {gate}; do sleep 0.1; done", retries=0
    )
    return node.trigger(job["jobId"])


def wait_ended(node: Rotad, execution: str) -> Json:
    """Return an execution when it has ended, from any node."""
    while True:
        found = answer(node, "GET", f"/api/v1/executions/{execution}/wait?timeout=10")
        if found["finishedAt"]:
            return found


def attempts_of(execution: Json) -> list[int]:
    """Return how many attempts each task of an execution took."""
    return [len(task["attempts"]) for task in execution["tasks"].values()]


def pause_and_read(node: Rotad, job: str) -> list[Json]:
    """Pause a job; return its ledger up to then."""
    answer(node, "POST", f"/api/v1/jobs/{job}/pause")
    return [entry for entry in node.ledger(job) if entry["outcome"] != "paused"]


def at(text: str) -> datetime:
    """Return an instant."""
    return datetime.fromisoformat(text)


def gaps_s(ledger: list[Json]) -> set[float]:
    """Return the seconds between fire times with an outcome; each entry is for one."""
    assert {entry["count"] for entry in ledger} == {1}
    fires = sorted(at(entry["fireTime"]) for entry in ledger)
    return {(later - earlier).total_seconds() for earlier, later in pairwise(fires)}


def late_ms(entry: Json) -> float:
    """Return the lateness of a fire in milliseconds."""
    return (at(entry["recordedAt"]) - at(entry["fireTime"])).total_seconds() * 1_000


def print_figures(callers: Callers, late: list[float]) -> None:
    """Print figures that are not asserted: they depend on the machine and its load."""
    late.sort()
    figures = {each: late[int(len(late) * each)] for each in (0.5, 0.99, 0.999)}
    worst = ", ".join(f"p{100 * each:g} {ms:.0f} ms" for each, ms in figures.items())
    calls = f"{sum(callers.calls.values())} calls"
    sys.stdout.write(f"{calls}; {len(late)} fires: {worst}, max {late[-1]:.0f} ms\n")
