"""A warden on a file system that stands still, as that of a hung volume does."""

import os
import shutil
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.executor.executor_host import EXECUTION_ID, elapsed, kill_leftovers, wait_until
from contract.executor.test_warden import KEY, life_of
from rota.core.model.attempt import AttemptKey, Work
from rota.core.timing.instants import SECOND, Duration, Instant
from support.rotad import end_warden

ALLOWED = Duration(3 * SECOND)
BEATS_S = 0.1
THAWED_AFTER_S = 15
"""By a process of its own, for this one may be held up by what is frozen."""


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """An ext4 file system of its own, from a loop device."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not shutil.which("fsfreeze"):
        pytest.skip("needs root, mkfs.ext4 and fsfreeze (apt-get install e2fsprogs util-linux)")
    image, mount = tmp_path / "image", tmp_path / "volume"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"needs loop devices (run as root on the host): {mounted.stderr.strip()}")
    try:
        yield mount
    finally:
        end_warden(mount / "data")
        kill_leftovers(mount / "data")
        subprocess.run(["umount", mount], check=True)


@contextmanager
def frozen(mount: Path) -> Generator[None]:
    """Have the file system take no writes while the body runs."""
    thaw = ["fsfreeze", "-u", str(mount)]
    subprocess.run(["fsfreeze", "-f", mount], check=True)
    guard = subprocess.Popen(["sh", "-c", f"sleep {THAWED_AFTER_S}; exec {' '.join(thaw)}"])
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
        subprocess.run(thaw, check=True)


def sizes(file: Path, *, after: Instant) -> tuple[int, int]:
    """Return the size of *file* after an instant, and once more five beats later.

    Blocks: what the node does on the loop meanwhile may wait for the file system.
    """
    while elapsed() < after:
        time.sleep(BEATS_S)
    first = file.stat().st_size
    time.sleep(5 * BEATS_S)
    return first, file.stat().st_size


@pytest.mark.parametrize("other", ["nothing", "another attempt ends"])
async def test_an_attempt_ends_in_time_though_the_file_system_stands_still(
    volume: Path, tmp_path: Path, other: str
) -> None:
    beats = tmp_path / "beats"
    async with life_of(volume / "data") as life:
        life.allow(ALLOWED)
        deadline = life.executor.until
        shell = f"while :; do echo >> {beats}; sleep {BEATS_S}; done"
        life.host.launch(Work(shell=shell), key=KEY)
        if other == "another attempt ends":  # Its outcome is written, and the loop waits for that.
            other_key = AttemptKey(EXECUTION_ID, "other", 1)
            life.host.launch(Work(shell="sleep 1"), key=other_key)
        await wait_until(beats.exists)

        with frozen(volume):
            written, written_later = sizes(beats, after=Instant(deadline + SECOND))

    assert written_later == written
