"""End of a container after the end of its node, once the death notices are delivered."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from deploy.programs import DEPLOY
from support.cluster import Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Rotad

pytestmark = [
    needs_etcd,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None,
        reason="as root, with unshare of util-linux: a container's processes end with its first",
    ),
]

CONTAINER = (
    "unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
    str(DEPLOY / "docker" / "rota-container"),
)  # fmt: skip


def test_the_container_of_a_crashed_node_ends_after_its_death_notices_are_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named_rotad = tmp_path / "bin" / "rotad"
    named_rotad.parent.mkdir()
    named_rotad.write_text('#!/bin/sh\nexec "$@"\n')
    named_rotad.chmod(0o755)
    monkeypatch.setenv("PATH", f"{named_rotad.parent}:{os.environ['PATH']}")
    with EtcdCluster(tmp_path) as etcd, Cluster(tmp_path, etcd) as cluster:
        node = cluster.nodes[2]
        node.prefix = CONTAINER
        cluster.start()

        os.kill(pid_of(node), signal.SIGKILL)
        assert node.process is not None
        status = node.process.wait(30)

    lines = map(json.loads, (node.data_dir / "warden.log").read_text().splitlines())
    answers = [each["status"] for each in lines if each["event"] == "death notice posted"]
    assert status == 128 + signal.SIGKILL
    assert sorted(answers) == [200, 204, 204]  # Of etcd, and of the two other nodes.


def pid_of(node: Rotad) -> int:
    """Return the process id of a node in a container."""
    assert node.process is not None
    [first] = children_of(node.process.pid)
    there = {pid: cmdline_of(pid) for pid in (first, *children_of(first))}
    [pid] = [pid for pid, line in there.items() if b"rota.node" in line and b"bash" not in line]
    return pid


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cmdline_of(pid: int) -> bytes:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()
