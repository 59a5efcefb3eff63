"""Content of a disk at a power cut: a file system of its own, copied while it is in use.

Writes without a sync are in the machine's memory alone, so the copy does not have them.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.storage.rocks import RocksStore
from rota.storage.store import Family

SIZE_BYTES = 256 << 20


class Disk:
    """A disk of this machine, and what is left of it after a power cut.

    Args:
        folder: For its image; nothing else is in there.

    Attributes:
        path: Where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mounted"
        self._image = folder / "image"
        self._left = folder / "left"
        self._mounted: list[Path] = []
        with self._image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self._image)], check=True)
        self._mount(self._image, self.path)

    def cut_power(self) -> Path:
        """Mount a copy of the disk's present content, and return the mount point."""
        image = self._image.with_suffix(".left")
        shutil.copyfile(self._image, image)
        self._mount(image, self._left)
        return self._left

    def close(self) -> None:
        """Unmount all."""
        for path in self._mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)

    def _mount(self, image: Path, path: Path) -> None:
        path.mkdir()
        subprocess.run(["mount", "-o", "loop", str(image), str(path)], check=True)
        self._mounted.append(path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("mounting a disk needs root and mkfs.ext4: run the tests in a container")
    try:
        disk = Disk(tmp_path)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    yield disk
    disk.close()


def test_what_a_store_has_synced_survives_a_power_cut(disk: Disk) -> None:
    store = RocksStore(disk.path / "db")
    batch = store.batch()
    batch.put(Family.JOURNAL, b"k", b"v")
    store.write(batch)

    store.sync()
    left = RocksStore(disk.cut_power() / "db")

    assert left.get(Family.JOURNAL, b"k") == b"v"
    left.close()
    store.close()
