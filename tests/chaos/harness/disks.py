"""Disks of nodes that can be full or frozen: file systems of their own, in the harness's namespace.

No signal ends a process that writes to a frozen file system. So a second process thaws a
`FrozenDisk` where the harness does not. Where both were killed, ``echo j > /proc/sysrq-trigger``
thaws all file systems of the machine.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PLENTY_BYTES = 8 << 30
"""More than a run writes; only used space costs anything."""
JOURNAL_MIB = 16
THAWED_AFTER_S = 90
"""Longer than any fault lasts."""
_PROGRAMS = ("mkfs.ext4", "fsfreeze", "mount", "umount")


def lacking() -> str:
    """Return why disks cannot be frozen here; empty if they can."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)}: apt-get install e2fsprogs util-linux"
    if os.geteuid() != 0:
        return "loop devices take root"
    with tempfile.TemporaryDirectory() as folder:
        try:
            FrozenDisk(Path(folder) / "trial", 8 << 20).unmount()
        except subprocess.CalledProcessError as error:
            return f"no loop devices: {error.stderr.decode().strip()}"
    return ""


class SmallDisk:
    """A file system, mounted until the harness ends.

    Args:
        path: Where; a folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir()
        options = ["-t", "tmpfs", "-o", f"mode=0700,size={PLENTY_BYTES}"]
        subprocess.run(["mount", *options, "rota-chaos", str(path)], check=True)

    def leave_room(self, room_bytes: int | None) -> None:
        """Limit the free space to *room_bytes*; None: plenty."""
        size = PLENTY_BYTES if room_bytes is None else self._used_bytes() + room_bytes
        options = ["-o", f"remount,size={size}"]
        subprocess.run(["mount", *options, str(self._path)], check=True)

    def unmount(self) -> None:
        """Unmount the disk; its data is lost."""
        _unmount(self._path)

    def _used_bytes(self) -> int:
        listed = subprocess.run(
            ["df", "--output=used", "-B1", str(self._path)], check=True, capture_output=True
        )
        return int(listed.stdout.split()[-1])


class FrozenDisk:
    """An ext4 file system on a loop device, mounted until the harness ends.

    Args:
        path: Where; a folder is made, and beside it the image.
        size: In bytes.

    Raises:
        subprocess.CalledProcessError: This machine has no loop device to give.
    """

    def __init__(self, path: Path, size: int = PLENTY_BYTES) -> None:
        self._path = path
        self._guard: subprocess.Popen[bytes] | None = None
        path.mkdir()
        image = path.with_suffix(".ext4")
        with image.open("wb") as file:
            file.truncate(size)
        journal = ["-J", f"size={JOURNAL_MIB}"] if size == PLENTY_BYTES else []
        _run("mkfs.ext4", "-q", "-m", "0", *journal, str(image))
        _run("mount", "-o", "loop", str(image), str(path))
        (path / "lost+found").rmdir()

    def freeze(self) -> None:
        """Let every write and sync wait, until `thaw`."""
        _run("fsfreeze", "-f", str(self._path))
        thaws = f"sleep {THAWED_AFTER_S}; exec fsfreeze -u {self._path}"
        self._guard = subprocess.Popen(["sh", "-c", thaws])

    def thaw(self) -> None:
        """Let writes continue, if the disk is frozen."""
        if self._guard is None:
            return
        subprocess.run(["fsfreeze", "-u", str(self._path)], capture_output=True)
        self._guard.kill()
        self._guard.wait()
        self._guard = None

    def unmount(self) -> None:
        """Unmount the disk; the image stays."""
        self.thaw()
        _unmount(self._path)


def _unmount(path: Path) -> None:
    """Unmount at once, whatever still runs there."""
    _run("umount", "--lazy", str(path))


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
