"""A paused majority of nodes and a paused etcd: available jobs fire, strict ones wait."""

import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.cluster import Cluster, answer
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Rotad
from support.stopping import stop

pytestmark = needs_etcd

SOON = ("--stand-in-after", "4s")
RECORD = 'echo "$ROTA_IDEMPOTENCY_KEY $ROTA_NODE_ID $ROTA_ATTEMPT" | tee -a '


@dataclass(frozen=True)
class Run:
    """One attempt, as recorded by its own process."""

    key: str
    node_id: str
    attempt: int

    @property
    def is_beside(self) -> bool:
        """True if a stand-in ran the attempt."""
        return self.attempt > 1_000_000


@pytest.fixture
def lone_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """An etcd that this test may stop."""
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def loose(tmp_path: Path, lone_etcd: EtcdCluster) -> Iterator[Cluster]:
    """Three nodes with a short delay of stand-ins."""
    with Cluster(tmp_path, lone_etcd, 3, *SOON) as cluster:
        yield cluster.start()


def test_a_remaining_node_fires_available_jobs_and_reports_them_after_the_return_of_the_others(
    loose: Cluster, lone_etcd: EtcdCluster, tmp_path: Path
) -> None:
    first, second, third = loose
    for consistency in ("strict", "available"):
        command = RECORD + str(tmp_path / consistency)
        first.create(
            name=consistency, command=command, schedule="* * * * * *", consistency=consistency
        )
    loose.wait_until(lambda: len(runs(tmp_path, "available")) > 1, "nothing fires")

    with lone_etcd.members[0].paused(), paused(first), paused(second):
        loose.wait_until(lambda: len(beside(tmp_path, "available")) > 3, "no node stands in", 60)
    loose.wait_whole()
    loose.wait_until(
        lambda: "rota_fallback_shards 0.0" in third.call("GET", "/metrics"),
        "fallback shards are not reconciled",
        60,
    )

    assert beside(tmp_path, "strict") == []
    assert len({run.key for run in runs(tmp_path, "strict")}) == len(runs(tmp_path, "strict"))
    for run in beside(tmp_path, "available"):
        assert run.node_id == "n3"
        shown = answer(first, "GET", f"/api/v1/executions/{run.key}")
        others = [each["nodeId"] for each in shown["possibleDuplicates"]]
        is_double = any(
            each.key == run.key and not each.is_beside for each in runs(tmp_path, "available")
        )
        assert (shown["standIn"], others) == ((None, ["n3"]) if is_double else ("n3", []))
        [recorded] = shown["possibleDuplicates"] or [shown]
        assert [each["number"] for each in recorded["tasks"]["main"]["attempts"]] == [run.attempt]
        if not is_double:
            wrote = answer(first, "GET", f"/api/v1/executions/{run.key}/tasks/main/output")
            assert wrote.split() == [run.key, run.node_id, str(run.attempt)]


@contextmanager
def paused(node: Rotad) -> Generator[None]:
    """Pause a node's process."""
    assert node.process is not None
    stop(node.process.pid)
    try:
        yield
    finally:
        os.kill(node.process.pid, signal.SIGCONT)


def runs(folder: Path, consistency: str) -> list[Run]:
    """Return the attempts of a job, in order."""
    path = folder / consistency
    lines = path.read_text().splitlines() if path.exists() else []
    return [Run(key, node_id, int(attempt)) for key, node_id, attempt in map(str.split, lines)]


def beside(folder: Path, consistency: str) -> list[Run]:
    """Return the attempts of stand-ins."""
    return [run for run in runs(folder, consistency) if run.is_beside]
