"""Free space on a node's disk, measured often enough to refuse load before writes fail."""

import os
from dataclasses import dataclass
from pathlib import Path

from rota.core.errors import Kind, Refused
from rota.core.vocabulary.disk_space import DiskSpace

SCARCE_PART = 2
"""Space is scarce below this part of the reserve."""


@dataclass(frozen=True, slots=True)
class FoundSpace:
    """A measurement.

    Attributes:
        space: The judgement of the free space.
        refusal: The response to requests that add load; None if space is ample.
    """

    space: DiskSpace
    refusal: Refused | None


AMPLE = FoundSpace(DiskSpace.AMPLE, None)


class DiskGuard:
    """The guard that measures the free space on the disk of a folder.

    Args:
        folder: The data directory.
        reserve_bytes: The number of bytes below which free space is low.
    """

    def __init__(self, folder: Path, reserve_bytes: int) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes

    def look(self) -> FoundSpace:
        """Return a measurement, which takes microseconds."""
        disk = os.statvfs(self._folder)
        return judge(disk.f_bavail * disk.f_frsize, self._reserve_bytes)


def judge(free_bytes: int, reserve_bytes: int) -> FoundSpace:
    """Return the judgement of *free_bytes* if *reserve_bytes* are to stay free."""
    if free_bytes >= reserve_bytes:
        return AMPLE
    space = DiskSpace.SCARCE if free_bytes * SCARCE_PART < reserve_bytes else DiskSpace.LOW
    detail = (
        f"the disk of this node's data directory has {free_bytes >> 20} MiB left, which is less "
        f"than the reserve of {reserve_bytes >> 20} MiB; free some space. Until then, only "
        "requests that reduce the load are accepted: cancel, pause, delete, drain"
    )
    return FoundSpace(space, Refused(Kind.UNAVAILABLE, "disk_full", detail, retry_after_s=5))
