"""Users of programs: which are permitted, and the folders that they get."""

import os
from pathlib import Path

import pytest

from rota.core.model.work import Work
from rota.executor.launch import task_users
from rota.executor.launch.task_channel import RESULT, TaskChannel
from rota.executor.launch.task_users import TaskUsers, UserRefused

PLAIN = Work(shell="true")


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(task_users, "BASE", tmp_path)
    monkeypatch.setattr(task_users, "lacks_effective", list[str])
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


def test_a_node_without_a_needed_capability_runs_no_program_of_a_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_users, "lacks_effective", lambda: ["CAP_SETUID"])

    with pytest.raises(UserRefused, match=r"needs root, or these capabilities too: CAP_SETUID"):
        TaskUsers(("backup",), "s").of(as_user("backup"))


@pytest.mark.skipif(os.getuid() != 0, reason="the folder of root belongs to root")
def test_folders_of_users_are_in_one_that_others_cannot_list(base: Path) -> None:
    users = TaskUsers(("backup",), "s")

    first, second = users.take(), users.take()

    assert first != second
    assert first.parent == base / "rota-users-s"
    assert first.parent.stat().st_mode & 0o777 == 0o711
    assert first.stat().st_mode & 0o777 == 0o700
    assert {*users.left()} == {first, second}
    assert [each.name for each in base.iterdir()] == ["rota-users-s"]


@pytest.mark.skipif(os.getuid() != 0, reason="the folder of root belongs to root")
@pytest.mark.parametrize("kind", ["writable", "link", "file"])
def test_a_folder_that_another_user_could_have_made_is_not_used(base: Path, kind: str) -> None:
    place = base / "rota-users-s"
    if kind == "writable":
        place.mkdir()
        place.chmod(0o777)
    elif kind == "link":
        (base / "elsewhere").mkdir(mode=0o711)
        place.symlink_to(base / "elsewhere")
    else:
        place.touch()
    users = TaskUsers(("backup",), "s")

    with pytest.raises(OSError, match="belongs to another user"):
        users.take()
    assert users.left() == []


def test_a_link_to_a_file_of_another_user_is_not_read(base: Path) -> None:
    (base / "private").write_text("[1]")
    (base / RESULT).hardlink_to(base / "private")

    assert TaskChannel(base, owner=os.getuid() + 1).result() == b""
    assert TaskChannel(base, owner=os.getuid()).result() == b"[1]"


def test_a_program_enters_its_folder_with_the_rights_of_its_user() -> None:
    user = task_users.TaskUser("a", 1, 1, (1,), "/home/a")

    assert user.entering("/x y", ("p", "-q"))[-3:] == ("/x y", "p", "-q")
