"""Files of secrets: in memory, for this user alone; and values that no text of an object shows."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.core.model.attempt import AttemptKey, Order, Token
from rota.core.model.ids import Epoch, ExecutionId, Index
from rota.core.model.work import Bind, Call, SecretNames, Work
from rota.core.timing.instants import Instant
from rota.executor.launch import secret_files
from rota.executor.launch.binds import BindRefusedError, check_paths, kept_from_binds
from rota.executor.launch.secret_files import MEMORY, PREFIX, SecretFiles, folders_of, remove_all
from rota.executor.python.environment import environment
from rota.executor.secret_values import SecretUnavailable, SecretValues
from rota.executor.warden.messages import Launch

KEY = AttemptKey(ExecutionId("3f2a9c0011223344-0647b1c2d3e4f5-0000"), "main", 1)
VALUE = b"correct horse battery staple"


@pytest.fixture
def store_id(tmp_path: Path) -> Iterator[str]:
    store_id = f"test-{os.getpid()}-{tmp_path.name}"
    yield store_id
    remove_all(store_id)


def test_only_this_user_can_reach_the_files_and_they_are_removed(store_id: str) -> None:
    files = SecretFiles(store_id, "process")

    folder = files.make(KEY, {"pg.pass": VALUE})

    [root] = folders_of(store_id)
    assert (folder / "pg.pass").read_bytes() == VALUE
    modes = [path.stat().st_mode & 0o777 for path in (root, folder, folder / "pg.pass")]
    assert modes == [0o700, 0o500, 0o400]
    files.remove(KEY)
    assert [each.name for each in root.iterdir()] == [".store"]
    files.close()
    assert folders_of(store_id) == []


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_folders_of_others_are_neither_used_nor_removed(store_id: str, mode: int) -> None:
    """A task of another user can make a folder for the same data directory first."""
    theirs = MEMORY / f"{PREFIX}{store_id}"
    theirs.mkdir()
    (theirs / ".store").write_text(store_id)
    theirs.chmod(mode)
    if mode == 0o700:
        os.chown(theirs, 34, 34)
    try:
        folder = SecretFiles(store_id, "process").make(KEY, {"pg.pass": VALUE})
        remove_all(store_id)

        assert folder.parent != theirs
        assert not folder.exists()
        assert (theirs / ".store").exists()
    finally:
        shutil.rmtree(theirs)


def test_a_link_in_the_place_of_a_folder_is_not_followed(store_id: str, tmp_path: Path) -> None:
    (tmp_path / ".store").write_text(store_id)
    tmp_path.chmod(0o700)
    link = MEMORY / f"{PREFIX}{store_id}"
    link.symlink_to(tmp_path)

    remove_all(store_id)

    assert (tmp_path / ".store").exists()
    link.unlink()


def test_a_folder_that_is_not_in_memory_is_not_used(
    store_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "MEMORY", tmp_path)

    with pytest.raises(SecretUnavailable, match="not in memory"):
        SecretFiles(store_id, "process").make(KEY, {"pg.pass": VALUE})


@pytest.mark.parametrize("above", [False, True])
def test_no_task_can_bind_the_files_of_others(store_id: str, above: bool, tmp_path: Path) -> None:
    kept = kept_from_binds(tmp_path, {})
    folder = SecretFiles(store_id, "process").make(KEY, {"pg.pass": VALUE})
    source = MEMORY if above else folder

    with pytest.raises(BindRefusedError, match="secrets of other tasks"):
        check_paths([Bind(str(source), "/x")], kept)


def order_of(namespace: str, *, has_secrets: bool) -> Order:
    secrets = SecretNames(env=(("DB", "db"),)) if has_secrets else None
    work = Work(executor="python", call=Call(function="a:b"), secrets=secrets)
    token = Token(Epoch(1), Index(1))
    return Order(key=KEY, token=token, work=work, fire_at=Instant(0), job=f"{namespace}/j")


def test_a_worker_that_had_a_secret_serves_no_calls_of_others() -> None:
    call = Call(function="a:b")

    with_secrets, of_others, without = (
        environment(order, call)
        for order in (
            order_of("team-a", has_secrets=True),
            order_of("team-b", has_secrets=True),
            order_of("team-a", has_secrets=False),
        )
    )

    assert len({with_secrets, of_others, without}) == 3
    assert environment(order_of("team-a", has_secrets=True), call) == with_secrets


def test_a_worker_serves_the_calls_of_one_namespace() -> None:
    call = Call(function="a:b")

    first, second = (environment(order_of(each, has_secrets=False), call) for each in ("a", "b"))

    assert first != second


def test_no_text_of_an_object_shows_a_value() -> None:
    values = SecretValues(env={"DB": VALUE}, files={"pg.pass": VALUE})
    message = Launch("g", order_of("team-a", has_secrets=True), values)

    assert "DB" in repr(message)
    assert "horse" not in repr(message)
    assert values.all == (VALUE,)
