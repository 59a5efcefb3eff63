"""Files of secrets: in memory, for this user alone; and values that no text of an object shows."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Order, Token
from rota.core.model.ids import Epoch, ExecutionId, Index
from rota.core.model.work import Bind, Call, SecretNames, Work
from rota.core.timing.instants import Instant
from rota.executor.launch import secret_files
from rota.executor.launch.binds import BindRefusedError, kept_from_binds, resolved
from rota.executor.launch.secret_files import SecretFiles, folder_of, remove_all
from rota.executor.python.environment import environment
from rota.executor.secret_values import SecretValues
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

    assert (folder / "pg.pass").read_bytes() == VALUE
    modes = [path.stat().st_mode & 0o777 for path in (files.root, folder, folder / "pg.pass")]
    assert modes == [0o700, 0o500, 0o400]
    files.remove(KEY)
    assert list(files.root.iterdir()) == []


def test_a_folder_that_another_user_could_enter_is_not_used(store_id: str) -> None:
    folder_of(store_id).mkdir(mode=0o755)
    folder_of(store_id).chmod(0o755)

    with pytest.raises(OSError, match="other users can enter"):
        SecretFiles(store_id, "process").make(KEY, {"pg.pass": VALUE})

    folder_of(store_id).chmod(0o700)


def test_a_link_in_the_place_of_the_folder_is_not_followed(store_id: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / "kept").touch()
    folder_of(store_id).symlink_to(target)

    with pytest.raises(OSError, match="belongs to another user, or other users can enter"):
        SecretFiles(store_id, "process").make(KEY, {"pg.pass": VALUE})
    remove_all(store_id)

    assert (target / "kept").exists()
    folder_of(store_id).unlink()


def test_a_folder_that_is_not_in_memory_is_not_used(
    store_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "MEMORY", tmp_path)

    with pytest.raises(OSError, match="not in memory"):
        SecretFiles(store_id, "process").make(KEY, {"pg.pass": VALUE})


@pytest.mark.parametrize("above", [False, True])
def test_no_task_can_bind_the_files_of_others(store_id: str, above: bool, tmp_path: Path) -> None:
    kept = kept_from_binds(tmp_path, {}, store_id)
    source = folder_of(store_id).parent if above else folder_of(store_id) / "x"

    with pytest.raises(BindRefusedError, match="secrets of other tasks"):
        resolved([Bind(str(source), "/x")], kept)


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


def test_a_worker_that_had_a_sealed_text_serves_no_calls_of_others() -> None:
    call = Call(function="a:b")
    parameters = ("ROTA_PARAMETERS", '{"a": "rota:sealed:v1:AAAA"}')

    def with_parameters(order: Order) -> Order:
        return replace(order, work=replace(order.work, env=(parameters,)))

    sealed, of_others, with_secrets = (
        environment(each, call)
        for each in (
            with_parameters(order_of("team-a", has_secrets=False)),
            with_parameters(order_of("team-b", has_secrets=False)),
            order_of("team-a", has_secrets=True),
        )
    )

    assert sealed == with_secrets
    assert sealed != of_others


def test_no_text_of_an_object_shows_a_value() -> None:
    values = SecretValues(env={"DB": VALUE}, files={"pg.pass": VALUE})
    message = Launch("g", order_of("team-a", has_secrets=True), values)

    assert "DB" in repr(message)
    assert "horse" not in repr(message)
    assert values.all == (VALUE,)
