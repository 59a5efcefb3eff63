"""A disk that can be full: a file system of its own, in the harness's namespace, in memory."""

import subprocess
from pathlib import Path

PLENTY_BYTES = 8 << 30
"""No run writes so much. It costs only what is on it."""


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
        """Let so much be free on it, and not more; None: plenty."""
        size = PLENTY_BYTES if room_bytes is None else self._used_bytes() + room_bytes
        options = ["-o", f"remount,size={size}"]
        subprocess.run(["mount", *options, str(self._path)], check=True)

    def _used_bytes(self) -> int:
        told = subprocess.run(
            ["df", "--output=used", "-B1", str(self._path)], check=True, capture_output=True
        )
        return int(told.stdout.split()[-1])
