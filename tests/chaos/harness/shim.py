"""Wall clock and disk of each host: orders to `shim.c`, which is preloaded into nodes."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("shim.c")
_FORM = struct.Struct("=qqq")
_US = 1_000_000


def lacking() -> str:
    """Return why the shim cannot be built; empty if it can."""
    return "" if shutil.which("cc") else "no C compiler: apt-get install gcc libc6-dev"


def build(folder: Path) -> Path:
    """Compile the shim into *folder*; return its path."""
    library = folder / "shim.so"
    argv = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(_SOURCE)]
    compiled = subprocess.run([*argv, "-ldl"], capture_output=True)
    assert compiled.returncode == 0, compiled.stderr.decode()
    return library


class Orders:
    """The faults of one host's wall clock and disk.

    Args:
        path: Of the file that all its processes map.
        library: The shim.
    """

    def __init__(self, path: Path, library: Path) -> None:
        self.environment = (f"LD_PRELOAD={library}", f"LD_CHAOS_ORDERS={path}")
        path.write_bytes(_FORM.pack(0, 0, 0))
        with path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _FORM.size)

    def give(
        self, *, ahead_s: float = 0.0, sync_takes_s: float = 0.0, sync_fails: bool = False
    ) -> None:
        """Set the wall clock ahead or back; let syncs take longer or fail; by default undo all."""
        times_us = round(ahead_s * _US), round(sync_takes_s * _US)
        self._mapped[:] = _FORM.pack(*times_us, sync_fails)
