"""Private folders: empty and private for each attempt, and used again only if nothing was done."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.executor.launch.private_folders import KEPT_MAX, Folders, remove


def _replace_by_link(folder: Path) -> None:
    elsewhere = folder.parent.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.rmdir()
    folder.symlink_to(elsewhere)


WAYS_TO_CHANGE: dict[str, Callable[[Path], object]] = {
    "file": lambda folder: (folder / "file").touch(),
    "hidden file": lambda folder: (folder / ".rota-result").touch(),
    "folder": lambda folder: (folder / "folder").mkdir(),
    "for all": lambda folder: folder.chmod(0o777),
    "without permissions": lambda folder: folder.chmod(0),
    "link": _replace_by_link,
    "removed": shutil.rmtree,
}


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "work")


def test_folder_is_empty_and_for_its_user_alone(folders: Folders) -> None:
    folder = folders.take()

    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_no_two_attempts_have_the_same_folder(folders: Folders) -> None:
    taken = [folders.take() for _ in range(3)]

    assert len(set(taken)) == 3


def test_folder_that_is_as_it_was_serves_again(folders: Folders) -> None:
    folder = folders.take()

    assert folders.give_back(folder)
    assert folders.take() == folder


@pytest.mark.parametrize("change", WAYS_TO_CHANGE.values(), ids=WAYS_TO_CHANGE.keys())
def test_folder_that_was_changed_does_not_serve_again(
    folders: Folders, change: Callable[[Path], object]
) -> None:
    folder = folders.take()
    change(folder)

    assert not folders.give_back(folder)
    assert folders.take() != folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_folder_that_was_given_to_another_user_does_not_serve_again(folders: Folders) -> None:
    folder = folders.take()
    os.chown(folder, 65534, -1)

    assert not folders.give_back(folder)


def test_folder_of_an_earlier_life_is_not_given_out(folders: Folders, tmp_path: Path) -> None:
    left = folders.take()
    (left / "file").touch()

    later = Folders(tmp_path / "work")

    assert later.left() == [left]
    assert later.take() != left


def test_only_so_many_folders_are_kept(folders: Folders, tmp_path: Path) -> None:
    taken = [folders.take() for _ in range(KEPT_MAX + 2)]

    for folder in taken:
        assert folders.give_back(folder)

    assert len(list((tmp_path / "work").iterdir())) == KEPT_MAX


def test_a_folder_with_thousands_of_folders_in_each_other_is_removed(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    nest = "import os\nfor _ in range(3_000):\n    os.mkdir('d')\n    os.chdir('d')"
    subprocess.run((sys.executable, "-c", nest), cwd=deep, check=True)

    remove(deep)

    assert not deep.exists()
