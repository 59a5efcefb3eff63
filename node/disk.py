"""Is there room on the disk? Asked often enough that the answer comes before the error."""

import os
from pathlib import Path

from rota.core.errors import Kind, Refused


class DiskGuard:
    """Refuses requests while the data directory's disk is nearly full.

    Args:
        folder: Where the data is.
        reserve_bytes: What has to stay free.
    """

    def __init__(self, folder: Path, reserve_bytes: int) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes

    def look(self) -> Refused | None:
        """Return why requests are to be refused, or None if there is room."""
        disk = os.statvfs(self._folder)
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes >= self._reserve_bytes:
            return None
        return Refused(
            Kind.UNAVAILABLE,
            "disk_full",
            f"the disk of this node's data directory has {free_bytes >> 20} MiB left and keeps "
            f"{self._reserve_bytes >> 20} MiB in reserve; free some space and it goes on by itself",
            retry_after_s=5,
        )
