"""A warden on a file system that stands still, as that of a hung volume does."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.executor.executor_host import (
    EXECUTION_ID,
    elapsed,
    is_running,
    kill_leftovers,
    store_id_of,
    wait_until,
)
from contract.executor.test_warden import KEY, life_of
from rota.core.model.attempt import AttemptKey, Outcome
from rota.core.model.work import Work
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.attempt_settings import USUAL, settings_text
from rota.executor.warden.paths import LOCK, LOG
from rota.executor.warden.program import EX_LEFT
from support.rotad import end_warden

ALLOWED = Duration(3 * SECOND)
BEATS_S = 0.1
MAPPING_TASK = Path(__file__).with_name("mapping_task.py")
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
    """Freeze the file system during the block."""
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


def mapping(folder: Path) -> str:
    """Return a shell line of a task that cannot be read while the file system stands still."""
    return f"exec {sys.executable} {MAPPING_TASK} {folder / 'mapped'}"


@contextmanager
def stranger(volume: Path) -> Generator[int]:
    """Run such a process, which is no attempt, while the body runs."""
    process = subprocess.Popen(("/bin/sh", "-c", mapping(volume)))
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def run_warden(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a warden that is expected to end by itself."""
    argv = [sys.executable, "-P", "-m", "rota.executor.warden", "--directory", str(directory)]
    argv += ["--node-id", "a", "--store-id", store_id_of(directory), "--made-of", ""]
    argv += ["--settings", settings_text(USUAL)]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


async def wait_unreadable(pid: int) -> None:
    """Wait until a thread of *pid* hangs in a fork, with the memory locked."""
    tasks = Path(f"/proc/{pid}/task")
    await wait_until(
        lambda: all(
            (task / "stat").read_text().rpartition(")")[2].split()[0] == "D"
            for task in tasks.iterdir()
        )
    )


async def test_attempts_end_in_time_though_one_of_them_cannot_be_read(
    volume: Path, tmp_path: Path
) -> None:
    beats = tmp_path / "beats"
    async with life_of(volume / "data") as life:
        life.allow(Duration(6 * SECOND))
        deadline = life.executor.until
        shell = f"while :; do echo >> {beats}; sleep {BEATS_S}; done"
        life.host.launch(Work(shell=shell), key=KEY)
        pid_file = tmp_path / "pid"
        shell = f"echo $$ > {pid_file}; {mapping(volume)}"
        life.host.launch(Work(shell=shell), key=AttemptKey(EXECUTION_ID, "mapping", 1))
        # Its outcome is written, and the loop waits for that.
        shell = f"while [ ! -e {tmp_path}/frozen ]; do sleep {BEATS_S}; done"
        life.host.launch(Work(shell=shell), key=AttemptKey(EXECUTION_ID, "other", 1))
        await wait_until(beats.exists)
        await wait_until(lambda: (volume / "mapped").exists())

        with frozen(volume):
            (tmp_path / "frozen").touch()
            await wait_unreadable(int(pid_file.read_text()))
            written, written_later = sizes(beats, after=Instant(deadline + 2 * SECOND))

    assert written_later == written


GUARD = """
import subprocess
from rota.executor.kernel.orphan_sweep import Swept
from rota.executor.warden import program

def sweep(store_id, *, within_s):
    print(len(program._descendants()))
    return Swept((), (), True)

program.sweep_orphans = sweep
with subprocess.Popen(["sleep", "60"]):
    print(len(program._descendants()))
    program._end_all("store")
"""


def test_a_guard_kills_its_descendants_before_it_reads_any_process() -> None:
    argv = [sys.executable, "-P", "-c", GUARD]

    guard = subprocess.run(argv, check=True, capture_output=True, text=True)

    assert guard.stdout.split() == ["1", "0"]


async def test_a_warden_starts_beside_a_process_that_cannot_be_read(
    volume: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    async with life_of(directory):  # One whose guard ended in order.
        pass
    end_warden(directory)

    try:
        with stranger(volume) as pid:
            await wait_until(lambda: (volume / "mapped").exists())
            with frozen(volume):
                await wait_unreadable(pid)
                async with life_of(directory) as life:
                    life.allow(ALLOWED)
                    ending = await life.host.run(Work(shell="true"))
                is_hanging = is_running(pid)
    finally:
        end_warden(directory)

    assert ending.outcome is Outcome.SUCCEEDED
    assert is_hanging
    assert "processes cannot be examined" in (directory / LOG).read_text()


async def test_a_warden_of_a_killed_guard_does_not_start_beside_a_process_that_cannot_be_read(
    volume: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    # What a guard leaves that was killed: its number.
    (directory / LOCK).write_text("1\n")

    with stranger(volume) as pid:
        await wait_until(lambda: (volume / "mapped").exists())
        with frozen(volume):
            await wait_unreadable(pid)
            warden = run_warden(directory)

    assert warden.returncode == EX_LEFT, warden.stderr
    assert "an earlier guard was killed" in warden.stderr
