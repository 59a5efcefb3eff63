"""Record of the files that a test syncs."""

import os
from pathlib import Path
from typing import NamedTuple

import pytest


class Sync(NamedTuple):
    """A call of fsync.

    Attributes:
        path: The path of the file or folder at that time.
        content: The content of the file at that time; empty for a folder.
    """

    path: Path
    content: bytes


def record_syncs(monkeypatch: pytest.MonkeyPatch) -> list[Sync]:
    """Return a list that gets each sync of this process from now on, in order."""
    syncs: list[Sync] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        syncs.append(Sync(path, path.read_bytes() if path.is_file() else b""))

    monkeypatch.setattr(os, "fsync", record)
    return syncs
