"""A disk filled by a task: accepted requests, recorded fires, and recovery."""

import os
import subprocess
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from rota.core.timing.instants import SECOND, parse_instant
from rota.node.system.clock import SystemClock
from support.rotad import Refusal, Rotad

DISK_MIB = 192
RESERVE_MIB = 64
FULL_BYTES = 64 << 10
"""Free space that a full file system may still report."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, ext4 with a journal, on a loop device."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    folder.mkdir()
    made = os.geteuid() == 0 and all(
        subprocess.run(argv, check=False, capture_output=True).returncode == 0
        for argv in (
            ("mkfs.ext4", "-q", "-m", "0", str(image)),
            ("mount", "-o", "loop", str(image), str(folder)),
        )
    )
    if not made:
        pytest.skip(
            "no loop mount: run as root with e2fsprogs and loop devices "
            "(docker run --privileged), then `mount -o loop IMAGE FOLDER` works"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def free_bytes(disk: Path) -> int:
    """Return the free bytes."""
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def space(node: Rotad) -> str:
    """Return the node's last logged state of its disk space."""
    lines = [line for line in node.log().splitlines() if '"disk space changed"' in line]
    return lines[-1] if lines else ""


def refused(node: Rotad, method: str, path: str, body: object = None) -> str:
    """Return the code with which a request is refused, or nothing."""
    try:
        node.call(method, f"/api/v1/{path}", body)
    except Refusal as refusal:
        return str(refusal.problem["code"])
    return ""


def fill(file: FileIO) -> None:
    """Write until the file system accepts no more bytes."""
    block = bytes(1 << 20)
    while block:
        try:
            file.write(block)
        except OSError:
            block = block[: len(block) // 2]


def test_a_task_that_fills_the_disk_can_be_stopped_and_no_fire_starts_another(disk: Path) -> None:
    with Rotad(disk / "data", "--disk-reserve-mb", str(RESERVE_MIB)) as node:
        node.start()
        kept = [node.create(name=f"kept-{number}", type="scripted") for number in range(5)]
        node.create(name="tick", schedule="@every 1s", type="scripted")
        node.create(name="restless", schedule="@every 1h", type="scripted")
        node.create(name="unwanted", schedule="@every 1h", type="scripted")
        lending = f"trap '' PIPE; cat /dev/zero > {disk}/filler; sleep 600"
        node.create(name="filler", command=lending, stopGrace="0.2s")
        filler = node.trigger("filler")
        node.wait_until(lambda: free_bytes(disk) < FULL_BYTES)
        node.wait_until(lambda: '"scarce"' in space(node))

        load = {
            refused(node, "POST", "jobs", {"name": "more", "type": "scripted"}),
            refused(node, "PUT", "jobs/default/tick", {"type": "scripted"}),
            refused(node, "POST", "jobs/tick/trigger"),
            refused(node, "POST", "executions:batch", {"items": [{"job": "tick"}]}),
        }
        node.call("POST", "/api/v1/jobs/restless/pause")
        node.call("DELETE", "/api/v1/jobs/unwanted")
        missed = missed_by(node, "tick")
        node.wait_until(lambda: missed_by(node, "tick") >= missed + 3)
        resumed = refused(node, "POST", "jobs/restless/resume")
        node.call("POST", f"/api/v1/executions/{filler}/cancel")
        ended = node.ended(filler)
        is_full = free_bytes(disk) < FULL_BYTES
        [shown] = node.call("GET", "/api/v1/cluster")["nodes"]
        (disk / "filler").unlink()
        node.wait_ready()
        fired = len(outcomes(node, "tick"))
        node.wait_until(lambda: outcomes(node, "tick")[fired + 1 :].count("fired") >= 2)

        assert is_full
        assert ["less than the reserve" in trouble for trouble in shown["troubles"]] == [True]
        assert load == {resumed} == {"disk_full"}
        assert ended["status"] == "cancelled"
        assert node.call("GET", "/api/v1/jobs/restless")["status"] == "paused"
        assert refused(node, "GET", "jobs/unwanted") == "job_not_found"
        for job in kept:
            assert node.call("GET", f"/api/v1/jobs/{job['jobId']}")["name"] == job["name"]
        node.create(name="after", type="scripted")
        assert_each_fire_once(node.ledger("tick"))
        reasons = {each["reason"] for each in node.ledger("tick") if each["outcome"] == "missed"}
        assert all(reason.startswith("disk_full: ") for reason in reasons)


def test_a_node_lives_on_a_disk_without_a_byte_and_loses_nothing_in_a_crash(disk: Path) -> None:
    with Rotad(disk / "data", "--disk-reserve-mb", str(RESERVE_MIB)) as node:
        node.start()
        jobs = [
            node.create(name=f"tick-{number}", schedule="@every 1s", type="scripted")
            for number in range(20)
        ]
        with (disk / "filler").open("wb", buffering=0) as file:
            fill(file)
        node.wait_until(lambda: '"scarce"' in space(node))
        # Far more than would fit without the space that was kept: more than 1 MB of entries.
        for _ in range(50):
            for job in jobs:
                node.call("POST", f"/api/v1/jobs/{job['jobId']}/pause", {"reason": "x" * 1_000})
        is_full = free_bytes(disk) < FULL_BYTES

        node.kill_all()
        (disk / "filler").unlink()
        node.start()

        assert is_full
        for job in jobs:
            assert node.call("GET", f"/api/v1/jobs/{job['jobId']}")["status"] == "paused"


def outcomes(node: Rotad, job: str) -> list[str]:
    """Return the outcome of each entry of a job's ledger."""
    return [each["outcome"] for each in node.ledger(job)]


def missed_by(node: Rotad, job: str) -> int:
    """Return how many fire times of a job were missed."""
    return sum(each["count"] for each in node.ledger(job) if each["outcome"] == "missed")


def assert_each_fire_once(ledger: list[dict[str, object]]) -> None:
    """Check that the entries of a job that fires every second leave no gap and no overlap."""
    expected = None
    for entry in ledger:
        first, count = parse_instant(str(entry["fireTime"])), entry["count"]
        assert expected is None or first == expected, entry
        assert isinstance(count, int)
        expected = first + count * SECOND
    assert expected is not None
    assert expected > SystemClock().now() - 5 * SECOND
