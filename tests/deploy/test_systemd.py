"""The unit is one that systemd takes, and a node tells what Type=notify and a watchdog need."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.programs import DEPLOY, needs, run
from rotad import Rotad

TOLD = ("NOTIFY_SOCKET=", "WATCHDOG_USEC=", "INVOCATION_ID=")
UNIT = (DEPLOY / "systemd" / "rotad.service").read_text()


class Systemd:
    """The end of the socket that systemd holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[str] = []
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.bind(str(path))
        self._end.settimeout(60)

    def hear_until(self, assignment: str) -> None:
        """Wait until it is told *assignment*."""
        while assignment not in self.told:
            self.told += self._end.recv(4096).decode().splitlines()

    def close(self) -> None:
        """Listen no more."""
        self._end.close()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    """What a node finds in its environment that systemd has started."""
    systemd = Systemd(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(systemd.path))
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.setenv("INVOCATION_ID", "1" * 32)
    yield systemd
    systemd.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Rotad]:
    """A node; not started."""
    with Rotad(tmp_path / "data", "--drain", "0s") as rotad:
        yield rotad


@needs("systemd-analyze", "systemd")
def test_systemd_takes_the_unit_as_it_is(tmp_path: Path) -> None:
    unit = tmp_path / "rotad.service"
    program = Path(sys.executable).with_name("rotad")
    unit.write_text(UNIT.replace("/opt/rota/bin/rotad", str(program)))

    assert run("systemd-analyze", "verify", unit) == ""


def test_a_node_says_when_it_serves_that_it_turns_and_that_it_stops(
    systemd: Systemd, node: Rotad
) -> None:
    node.spawn()
    systemd.hear_until("READY=1")
    is_ready_when_told = node.is_ready()
    systemd.told.clear()
    systemd.hear_until("WATCHDOG=1")
    systemd.told.clear()
    systemd.hear_until("WATCHDOG=1")
    node.stop()
    systemd.hear_until("STOPPING=1")

    assert is_ready_when_told


@pytest.mark.usefixtures("systemd")
def test_a_task_is_not_told_what_systemd_told_the_node(node: Rotad) -> None:
    node.start()

    execution = node.run(name="environment", command="env")

    output = node.call("GET", f"/api/v1/executions/{execution['executionId']}/tasks/main/output")
    assert "ROTA_NODE_ID" in output
    assert [line for line in output.splitlines() if line.startswith(TOLD)] == []


def test_a_watchdog_of_another_process_is_not_fed(
    systemd: Systemd, node: Rotad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))

    node.spawn()
    systemd.hear_until("READY=1")
    node.stop()
    systemd.hear_until("STOPPING=1")

    assert "WATCHDOG=1" not in systemd.told
