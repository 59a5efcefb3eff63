"""Users of programs: which are permitted, and the folders that they get."""

import os
from pathlib import Path

import pytest

from rota.core.model.work import Work
from rota.executor.launch import task_users
from rota.executor.launch.marked_folders import MARK
from rota.executor.launch.task_channel import RESULT, BadResultError, TaskChannel
from rota.executor.launch.task_users import PREFIX, TaskUsers, UserRefused

PLAIN = Work(shell="true")


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(task_users, "BASE", tmp_path)
    monkeypatch.setattr(task_users, "why_not_as_others", str)
    return tmp_path


def as_user(name: str) -> Work:
    return Work(executor="user", shell="true", user=name)


def test_a_program_without_a_user_runs_as_the_node() -> None:
    assert TaskUsers(("backup",), "s").of(PLAIN) is None


@pytest.mark.parametrize("name", ["", "daemon", "root"])
def test_a_user_that_is_not_permitted_is_refused(name: str) -> None:
    with pytest.raises(UserRefused, match="task_users"):
        TaskUsers(("backup",), "s").of(as_user(name))


def test_root_is_refused_even_if_it_is_permitted() -> None:
    with pytest.raises(UserRefused, match="is root"):
        TaskUsers(("root",), "s").of(as_user("root"))


@pytest.mark.skipif(os.getuid() != 0, reason="the folder of root belongs to root")
def test_folders_of_users_are_in_one_that_others_cannot_list(base: Path) -> None:
    users = TaskUsers(("backup",), "s")

    first, second = users.take(), users.take()

    assert first != second
    assert first.parent == second.parent
    assert first.parent.stat().st_mode & 0o777 == 0o711
    assert first.stat().st_mode & 0o777 == 0o700
    assert TaskUsers(("backup",), "s").left() == [first.parent]
    users.close()
    assert not first.parent.exists()
    assert TaskUsers(("backup",), "other").left() == []
    assert first.parent.parent == base


@pytest.mark.skipif(os.getuid() != 0, reason="the folder of root belongs to root")
@pytest.mark.parametrize("kind", ["theirs", "writable", "link", "file"])
def test_a_folder_that_another_user_could_have_made_is_not_used(base: Path, kind: str) -> None:
    place, elsewhere = base / f"{PREFIX}s", base / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / MARK).write_text("s")
    (elsewhere / "kept").touch()
    if kind == "link":
        elsewhere.chmod(0o711)
        place.symlink_to(elsewhere)
    elif kind == "file":
        place.touch()
    else:
        elsewhere.rename(place)
        place.chmod(0o777 if kind == "writable" else 0o711)
        os.chown(place, 34 if kind == "theirs" else 0, 34)
    users = TaskUsers(("backup",), "s")

    assert users.left() == []
    assert users.take().parent not in (place, elsewhere)


@pytest.mark.skipif(os.getuid() != 0, reason="the folder of root belongs to root")
def test_a_folder_that_was_replaced_by_a_link_is_not_handed_over(base: Path) -> None:
    (base / "of-root").mkdir()
    (base / "of-root" / "key").touch()
    users = TaskUsers(("backup",), "s")
    folder = users.take()
    folder.rmdir()
    folder.symlink_to(base / "of-root")

    with pytest.raises(NotADirectoryError):
        users.hand_over(folder, task_users.TaskUser("backup", 34, 34, (34,), "/"))
    assert (base / "of-root" / "key").stat().st_uid == 0


@pytest.mark.skipif(os.getuid() != 0, reason="the folder of root belongs to root")
def test_folders_are_not_made_where_others_could_replace_them(base: Path) -> None:
    base.chmod(0o777)

    with pytest.raises(OSError, match="others can write to"):
        TaskUsers(("backup",), "s").take()


def test_a_node_that_is_not_root_runs_no_program_of_another_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(UserRefused, match="only a node of root can"):
        TaskUsers(("backup",), "s").of(as_user("backup"))


def test_a_link_to_a_file_of_another_user_is_not_read(base: Path) -> None:
    (base / "private").write_text("[1]")
    (base / RESULT).hardlink_to(base / "private")

    with pytest.raises(BadResultError, match="it belongs to another user"):
        TaskChannel(base, owner=os.getuid() + 1).result()
    assert TaskChannel(base, owner=os.getuid()).result() == b"[1]"


def test_a_program_enters_its_folder_with_the_rights_of_its_user() -> None:
    user = task_users.TaskUser("a", 1, 1, (1,), "/home/a")

    assert user.entering("/x y", ("p", "-q"))[-3:] == ("/x y", "p", "-q")
