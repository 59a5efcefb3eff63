"""The data directory: creation, reuse, and refusal of an unsuitable one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from rota.core.timing.instants import SECOND, Instant
from rota.storage.directory import DataDirectory
from rota.storage.store import (
    StoreDamaged,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreMismatch,
    StoreTooNew,
)
from support.recorded_syncs import record_syncs

HOLDER = """
import pathlib, sys
from rota.core.timing.instants import SECOND, Instant
from rota.storage.directory import DataDirectory

DataDirectory.open(pathlib.Path(sys.argv[1]), store_id="s", shard_count=16, cluster="c")
print("held", flush=True)
sys.stdin.read()
"""


def open_directory(
    path: Path, *, store_id: str = "store-1", shard_count: int = 16, cluster: str = "cluster-1"
) -> DataDirectory:
    return DataDirectory.open(path, store_id=store_id, shard_count=shard_count, cluster=cluster)


def make(path: Path) -> Path:
    """Leave a formatted directory at *path*."""
    open_directory(path).close()
    return path


def format_in(path: Path) -> dict[str, object]:
    return cast("dict[str, object]", json.loads((path / "FORMAT").read_text()))  # what we wrote


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_directory_says_what_it_is_and_is_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"

    with open_directory(path) as directory:
        assert directory.store_path.is_dir()
        assert directory.output_path.is_dir()

    assert format_in(path) == {
        "format": 1,
        "storeId": "store-1",
        "shardCount": 16,
        "cluster": "cluster-1",
    }
    assert sorted(entry.name for entry in path.iterdir()) == ["FORMAT", "LOCK", "db", "output"]
    assert [mode_of(at) for at in (path, path / "db", path / "output")] == [0o700] * 3


def test_files_are_synced_whole_before_they_get_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = record_syncs(monkeypatch)

    with open_directory(tmp_path) as directory:
        directory.begin_incarnation(Instant(SECOND))

    assert syncs == [
        (tmp_path / "FORMAT.new", (tmp_path / "FORMAT").read_bytes()),
        (tmp_path, b""),
        (tmp_path / "INCARNATION.new", b"1\n"),
        (tmp_path, b""),
    ]


def test_an_existing_directory_keeps_its_identity(tmp_path: Path) -> None:
    make(tmp_path / "data")

    with open_directory(tmp_path / "data", store_id="other", cluster="other") as directory:
        assert directory.identity.store_id == "store-1"
        assert directory.identity.cluster == "cluster-1"


def test_a_lock_has_the_name_that_it_had_and_a_copys_lock_has_another(tmp_path: Path) -> None:
    with open_directory(tmp_path / "data") as directory:
        first = directory.lock_id
    shutil.copytree(tmp_path / "data", tmp_path / "copy", copy_function=shutil.copy2)

    with (
        open_directory(tmp_path / "data") as again,
        open_directory(tmp_path / "copy") as copied,
    ):
        assert again.lock_id == first
        assert copied.lock_id not in (first, "")


def test_a_lock_has_another_name_after_the_machine_has_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_directory(tmp_path / "data") as directory:
        before = directory.lock_id
    (tmp_path / "boot_id").write_text("5f0f1b8e-another\n")
    monkeypatch.setattr("rota.storage.directory._BOOT_ID", tmp_path / "boot_id")

    with open_directory(tmp_path / "data") as directory:
        assert directory.lock_id not in (before, "")


def test_a_lock_has_no_name_where_the_kernel_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.storage.directory._BOOT_ID", tmp_path / "missing")

    with open_directory(tmp_path / "data") as directory:
        assert directory.lock_id == ""


def test_an_empty_mount_point_becomes_a_data_directory(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    tmp_path.chmod(0o755)

    open_directory(tmp_path).close()

    assert format_in(tmp_path)["format"] == 1
    assert mode_of(tmp_path) == 0o700


def test_a_first_start_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "LOCK").touch()
    (tmp_path / "FORMAT.new").write_bytes(b'{"form')

    open_directory(tmp_path).close()

    assert format_in(tmp_path)["storeId"] == "store-1"


def test_relative_paths_and_links_name_the_same_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "data")
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path)

    with open_directory(Path("link")) as directory:
        assert directory.path.is_absolute()
        with pytest.raises(StoreLocked):
            open_directory(Path("data"))


def test_the_error_for_a_second_process_names_the_user_of_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "data"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(StoreLocked) as refusal:
                open_directory(path)
        finally:
            holder.kill()

    assert str(refusal.value) == (
        f"data directory {path} is in use by process {holder.pid}; stop it, or choose another "
        "with --data-dir"
    )
    open_directory(path).close()  # The lock goes with the process.


def test_each_start_has_a_higher_incarnation_also_when_the_clock_goes_back(tmp_path: Path) -> None:
    with open_directory(tmp_path) as directory:
        first = directory.begin_incarnation(Instant(1_000 * SECOND))
    with open_directory(tmp_path) as directory:
        second = directory.begin_incarnation(Instant(5 * SECOND))
    with open_directory(tmp_path) as directory:
        third = directory.begin_incarnation(Instant(2_000 * SECOND))

    assert (first, second, third) == (1_000, 1_001, 2_000)


def test_a_damaged_incarnation_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with open_directory(tmp_path) as directory:
        (tmp_path / "INCARNATION").write_text("soon")

        with pytest.raises(StoreDamaged, match="Remove the file"):
            directory.begin_incarnation(Instant(0))


def test_closing_releases_the_directory(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.close()
    directory.close()

    open_directory(tmp_path).close()


def test_a_refused_directory_is_not_left_locked(tmp_path: Path) -> None:
    make(tmp_path / "data")

    with pytest.raises(StoreMismatch):
        open_directory(tmp_path / "data", shard_count=32)

    open_directory(tmp_path / "data").close()


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "data")

    with pytest.raises(StoreMismatch, match="made for 16 shards, and 32 are configured"):
        open_directory(tmp_path / "data", shard_count=32)


def test_a_newer_format_is_refused_whatever_else_it_says(tmp_path: Path) -> None:
    path = make(tmp_path / "data")
    (path / "FORMAT").write_text('{"format": 2, "shards": {"count": 16}}')

    with pytest.raises(StoreTooNew, match=r"format 2; this version reads up to 1\)"):
        open_directory(path)


def cut(text: bytes) -> bytes:
    return text[:20]


def empty(_: bytes) -> bytes:
    return b""


def without_a_field(text: bytes) -> bytes:
    return text.replace(b"storeId", b"storeID")


def not_text(_: bytes) -> bytes:
    return b'{"format": 1, "storeId": "\xff"}'


@pytest.mark.parametrize("damage", [cut, empty, without_a_field, not_text])
def test_a_damaged_format_file_is_refused_and_named(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = make(tmp_path / "data")
    file = path / "FORMAT"
    file.write_bytes(damage(file.read_bytes()))

    with pytest.raises(StoreDamaged, match="FORMAT is damaged"):
        open_directory(path)


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")

    with pytest.raises(StoreMismatch, match=r"not a data directory.*thesis\.tex"):
        open_directory(tmp_path)

    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").touch()

    with pytest.raises(StoreFailed, match="cannot be used: File exists"):
        open_directory(tmp_path / "data")


def test_a_full_disk_leaves_a_directory_that_can_be_made_later(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small tmpfs: sudo make test")
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=3", "tmpfs", str(tmp_path)]
    if subprocess.run(mount).returncode:
        pytest.skip("cannot mount a tmpfs; in a container: docker run --cap-add SYS_ADMIN")
    try:
        with pytest.raises(StoreFull, match="no space left"):
            open_directory(tmp_path)
        subprocess.run(["mount", "-o", "remount,nr_inodes=100", tmp_path], check=True)

        open_directory(tmp_path).close()
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_what_an_earlier_version_left_open_is_closed(tmp_path: Path) -> None:
    path = make(tmp_path / "data")
    for folder in ("containers", "containers/output"):
        (path / folder).mkdir(mode=0o755)
    (path / "work").mkdir(mode=0o700)
    open_files = [path / name for name in ("warden.log", "db/000004.log", "containers/output/1")]
    for file in (*open_files, path / "work" / "of-a-task"):
        file.touch()
        file.chmod(0o644)
    (path / "link").symlink_to(tmp_path)
    tmp_path.chmod(0o755)

    open_directory(path).close()

    assert [mode_of(file) for file in open_files] == [0o600] * 3
    assert [mode_of(path / name) for name in ("containers", "containers/output")] == [0o700] * 2
    assert mode_of(path / "work" / "of-a-task") == 0o644  # A task that runs may want it so.
    assert mode_of(tmp_path) == 0o755
