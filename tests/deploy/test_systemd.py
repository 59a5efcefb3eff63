"""The unit is one that systemd takes, and a node tells what Type=notify and a watchdog need."""

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.programs import DEPLOY, needs, run
from support.etcd import free_ports
from support.rotad import Rotad

TOLD = ("NOTIFY_SOCKET=", "WATCHDOG_USEC=", "INVOCATION_ID=")
EXPOSURE_MAX = 3.0
"""Of 10, as `systemd-analyze security` counts; without the unit's restrictions it is 9.2."""
SURROUNDINGS = Path(__file__).with_name("unit_surroundings.sh")
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

    def hear_of(self, beginning: str) -> None:
        """Wait until it is told something that begins so."""
        while not any(each.startswith(beginning) for each in self.told):
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


@needs("systemd-analyze", "systemd")
def test_the_unit_is_exposed_no_more_than_tasks_need() -> None:
    unit = DEPLOY / "systemd" / "rotad.service"

    printed = run("systemd-analyze", "security", "--offline=true", unit)

    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", printed)
    assert found is not None
    assert float(found[1]) <= EXPOSURE_MAX


@pytest.fixture
def restricted(tmp_path: Path) -> Iterator[Rotad]:
    """A node in the surroundings that the unit gives it; not started."""
    (tmp_path / "dev").mkdir()
    # Another user has to get there: pytest's folders are for this one alone.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o711)
        data = Path(folder) / "data"
        data.mkdir()
        shutil.chown(data, 65534, 65534)
        with Rotad(data, "--drain", "0s", "--on-stop", "end") as rotad:
            rotad.prefix = (
                *("unshare", "--mount", "--propagation", "private"),
                *("sh", str(SURROUNDINGS), str(tmp_path / "dev"), str(data)),
            )
            yield rotad
            rotad.stop()


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bwrap") is None,
    reason="as root, with bubblewrap: a node is put into the surroundings of the unit",
)
def test_a_node_runs_sandboxed_tasks_in_the_surroundings_of_the_unit(restricted: Rotad) -> None:
    restricted.start(60)

    outside = restricted.run(name="outside", command="touch /etc/x; cat /proc/self/status; id -u")
    inside = restricted.run(
        name="inside", command="id -u; ls /home /root; echo kept > f; cat f", sandbox="strict"
    )

    of_outside, of_inside = output(restricted, outside), output(restricted, inside)
    assert "Read-only file system" in of_outside
    assert "NoNewPrivs:\t1" in of_outside
    assert "CapBnd:\t0000000000000000" in of_outside
    assert of_outside.splitlines()[-1] == "65534"
    assert inside["status"] == "success", of_inside
    assert "kept" in of_inside


def output(node: Rotad, execution: dict[str, object]) -> str:
    """Return what the one task of an execution printed."""
    path = f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
    return str(node.call("GET", path))


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


def test_a_node_says_what_it_waits_for(systemd: Systemd, tmp_path: Path) -> None:
    listen, peer_listen, nobody = free_ports(3)
    flags = ("--listen", f"127.0.0.1:{listen}", "--peer-listen", f"127.0.0.1:{peer_listen}")
    with Rotad(tmp_path / "n1", *flags, "--etcd", f"http://127.0.0.1:{nobody}") as node:
        node.spawn()

        systemd.hear_of("STATUS=waits for etcd: ")
        assert node.stop() == 0


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
