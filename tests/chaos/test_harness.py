"""Effects of the harness: wall clocks, syncs, frozen disks, builds, the sink, restarted nodes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from chaos.harness import disks, shim
from chaos.harness.builds import next_build
from chaos.harness.disks import FrozenDisk
from chaos.harness.histories import History
from chaos.harness.hosts import Node
from chaos.harness.network import Host, Loopback
from chaos.harness.sink import Sink

needs_compiler = pytest.mark.skipif(bool(shim.lacking()), reason=shim.lacking())
HOUR_S = 3_600.0
WRONG_SETTINGS = 64

LOOKS = """
import os, time
ahead = time.time() - float(os.environ["REALLY"])
began, error = time.monotonic(), ""
try:
    os.fdatasync(os.open(os.environ["FILE"], os.O_CREAT | os.O_WRONLY))
except OSError as failure:
    error = failure.strerror
print(round(ahead / 3600), round(time.monotonic() - began, 1) >= 0.3, error)
"""


@needs_compiler
@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, "0 False"),
        ({"ahead_s": 2 * HOUR_S}, "2 False"),
        ({"ahead_s": -2 * HOUR_S}, "-2 False"),
        ({"sync_takes_s": 0.35}, "0 True"),
        ({"sync_fails": True}, "0 False Input/output error"),
    ],
    ids=lambda value: str(value),
)
def test_orders_change_the_clock_and_the_syncs_of_a_process(
    given: dict[str, float], seen: str, tmp_path: Path
) -> None:
    orders = shim.Orders(tmp_path / "orders", shim.build(tmp_path))
    orders.give(ahead_s=24 * HOUR_S, sync_fails=True)

    orders.give(**given)  # type: ignore[arg-type]  # a bool among floats
    looks = subprocess.run(
        ["env", *orders.environment, sys.executable, "-c", LOOKS],
        env={**os.environ, "REALLY": str(_now()), "FILE": str(tmp_path / "file")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert looks.stdout.strip() == seen


@pytest.mark.skipif(bool(disks.lacking()), reason=f"no frozen disks: {disks.lacking()}")
def test_a_write_to_a_frozen_disk_waits_until_it_is_thawed(tmp_path: Path) -> None:
    disk = FrozenDisk(tmp_path / "disk")
    try:
        disk.freeze()
        with subprocess.Popen(["touch", str(tmp_path / "disk" / "file")]) as writer:
            while _state_of(writer.pid) != "D":
                assert writer.poll() is None
            disk.thaw()

            assert writer.wait(20) == 0
        assert (tmp_path / "disk" / "file").exists()
    finally:
        disk.unmount()


def _state_of(pid: int) -> str:
    """Return the code of a process's state, such as ``D``."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _now() -> float:
    return float(subprocess.run(["date", "+%s"], capture_output=True, check=True).stdout)


def test_the_next_build_is_another_version_and_speaks_the_next_protocol(tmp_path: Path) -> None:
    says = (
        "import rota; from rota.node.links.handshake_messages import SPOKEN; "
        "print(rota.__version__, *SPOKEN)"
    )

    build = next_build(Path(rota.__file__).parent, tmp_path / "next")
    versions = [
        subprocess.run(
            [sys.executable, "-P", "-c", says],
            env={**os.environ, "PYTHONPATH": str(path)}, capture_output=True, text=True, check=True,
        ).stdout.split()
        for path in (Path(rota.__file__).parent.parent, build)
    ]  # fmt: skip

    (version, oldest, newest), (next_version, next_oldest, next_newest) = versions
    assert next_version != version
    assert (int(next_oldest), int(next_newest)) == (int(oldest), int(newest) + 1)


def test_a_fenced_sink_refuses_older_tokens_of_each_job(tmp_path: Path) -> None:
    written = ["a e t 1 01", "a e t 2 02", "a e t 1 01", "b e t 1 01", "a e t 2 02"]

    with (
        History(tmp_path / "sink.jsonl") as history,
        Sink("127.0.0.1", history) as sink,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
    ):
        host, _, port = sink.address.rpartition(":")
        for each in written:
            sending.sendto(each.encode(), (host, int(port)))

    lines = [json.loads(line) for line in (tmp_path / "sink.jsonl").read_text().splitlines()]
    assert [line["accepted"] for line in lines] == [True, True, False, True, True]


def test_a_node_that_ends_by_itself_is_started_again_and_one_that_was_killed_is_not(
    tmp_path: Path,
) -> None:
    node = Node(Host("n1", "127.0.77.9"), Loopback(), tmp_path, "--no-such-flag")
    node.spawn()
    assert node.exit_status(60) == WRONG_SETTINGS
    first = node.process

    def is_another() -> bool:
        node.tend()
        return node.process is not first

    node.wait_for(is_another, 60)
    node.kill()
    killed = node.process
    node.tend()

    assert [(each["node"], each["status"]) for each in node.ends] == [("n1", WRONG_SETTINGS)]
    assert node.process is killed
