"""The systemd unit, and a node's notifications for Type=notify and the watchdog."""

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
from support.peer_certificates import PeerAuthority
from support.rotad import Rotad

SYSTEMD_VARIABLES = ("NOTIFY_SOCKET=", "WATCHDOG_USEC=", "INVOCATION_ID=")
EXPOSURE_MAX = 3.0
"""Of 10, as `systemd-analyze security` counts; without the unit's restrictions it is 9.2."""
SURROUNDINGS = Path(__file__).with_name("unit_surroundings.sh")
UNIT = (DEPLOY / "systemd" / "rotad.service").read_text()


class Systemd:
    """Systemd's end of the notification socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.received: list[str] = []
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.bind(str(path))
        self._end.settimeout(60)

    def wait_for(self, assignment: str) -> None:
        """Wait until *assignment* has been received."""
        while assignment not in self.received:
            self.received += self._end.recv(4096).decode().splitlines()

    def wait_for_prefix(self, beginning: str) -> None:
        """Wait until an assignment that begins with *beginning* has been received."""
        while not any(each.startswith(beginning) for each in self.received):
            self.received += self._end.recv(4096).decode().splitlines()

    def close(self) -> None:
        """Close the socket."""
        self._end.close()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    """The environment and the notification socket that systemd gives to a node."""
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
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
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
    """A node in the environment that the unit describes; not started."""
    (tmp_path / "dev").mkdir()
    # Another user needs access, and pytest's folders are private to this user.
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
    reason="as root, with bubblewrap: a node is started in the environment of the unit",
)
def test_a_node_runs_sandboxed_tasks_in_the_environment_of_the_unit(restricted: Rotad) -> None:
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


@pytest.mark.skipif(
    os.geteuid() != 0, reason="as root: a node is started in the environment of the unit"
)
def test_a_node_of_the_unit_uses_a_renewed_certificate_of_root_without_a_restart(
    restricted: Rotad,
) -> None:
    authority = PeerAuthority(restricted.data_dir.parent / "certs")
    restricted.flags += authority.api_flags("n1")
    restricted.ca = authority.certificate
    authority.folder.chmod(0o750)
    for path in (authority.folder, authority.folder / "n1.key"):
        shutil.chown(path, 0, 65534)
    (authority.folder / "n1.key").chmod(0o640)
    restricted.start(60)

    authority.renew("n1")

    restricted.wait_logged("certificate replaced")
    assert restricted.is_ready()


def output(node: Rotad, execution: dict[str, object]) -> str:
    """Return the output of an execution's only task."""
    path = f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
    return str(node.call("GET", path))


def test_a_node_notifies_systemd_of_its_readiness_its_turns_and_its_stop(
    systemd: Systemd, node: Rotad
) -> None:
    (listen,) = free_ports(1)
    node.flags += ("--listen", f"127.0.0.1:{listen}")
    node.spawn()
    # Not from the log: another thread writes it, perhaps after the notification.
    node.url = f"http://127.0.0.1:{listen}"
    systemd.wait_for("READY=1")
    is_ready_when_notified = node.is_ready()
    systemd.received.clear()
    systemd.wait_for("WATCHDOG=1")
    systemd.received.clear()
    systemd.wait_for("WATCHDOG=1")
    node.stop()
    systemd.wait_for("STOPPING=1")

    assert is_ready_when_notified


def test_the_status_for_systemd_names_the_cause_of_a_wait(systemd: Systemd, tmp_path: Path) -> None:
    listen, peer_listen, unused = free_ports(3)
    flags = ("--listen", f"127.0.0.1:{listen}", "--peer-listen", f"127.0.0.1:{peer_listen}")
    with Rotad(tmp_path / "n1", *flags, "--etcd", f"http://127.0.0.1:{unused}") as node:
        node.spawn()

        systemd.wait_for_prefix("STATUS=waits for etcd: ")
        assert node.stop() == 0


@pytest.mark.usefixtures("systemd")
def test_a_task_does_not_get_the_variables_of_systemd(node: Rotad) -> None:
    node.start()

    execution = node.run(name="environment", command="env")

    output = node.call("GET", f"/api/v1/executions/{execution['executionId']}/tasks/main/output")
    assert "ROTA_NODE_ID" in output
    assert [line for line in output.splitlines() if line.startswith(SYSTEMD_VARIABLES)] == []


def test_a_watchdog_of_another_process_gets_no_notifications(
    systemd: Systemd, node: Rotad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))

    node.spawn()
    systemd.wait_for("READY=1")
    node.stop()
    systemd.wait_for("STOPPING=1")

    assert "WATCHDOG=1" not in systemd.received
