"""Paths that are never bound, whatever link leads to them, without a container engine.

The suites of the container and process executors test the binds that result.
"""

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.executor.executor_host import EXECUTION_ID, FIRE_AT, TOKEN
from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.ids import NodeId
from rota.core.model.work import Bind, Image, Work
from rota.executor.attempt_settings import USUAL
from rota.executor.container.creation import UnusableOrderError, creation
from rota.executor.launch.binds import (
    BindRefusedError,
    ProtectedPaths,
    check_paths,
    kept_from_binds,
    opened,
)

Json = Any  # Any: a request to the engine; each test reads the fields that it checks.


@pytest.fixture
def kept(tmp_path: Path) -> ProtectedPaths:
    """A data directory, and an engine that the environment names; both behind links."""
    (tmp_path / "real" / "data" / "output").mkdir(parents=True)
    (tmp_path / "run" / "engine").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "link-to-run").symlink_to(tmp_path / "run")
    environ = {"DOCKER_HOST": f"unix://{tmp_path}/link-to-run/engine/any-name"}
    (tmp_path / "etc" / "rota").mkdir(parents=True)
    (tmp_path / "etc" / "key-of-now").write_text("private")
    (tmp_path / "etc" / "rota" / "keyring").symlink_to(tmp_path / "etc" / "key-of-now")
    files = (f"{tmp_path}/etc/rota/keyring",)
    return kept_from_binds(tmp_path / "link" / "data", environ, files)


def mounts_of(
    bind: Bind, kept: ProtectedPaths, permitted: tuple[str, ...] | None = None
) -> list[Json]:
    """Return the mounts that an engine is asked for."""
    order = Order(
        key=AttemptKey(EXECUTION_ID, "main", 1),
        token=TOKEN,
        work=Work(executor="container", image=Image(name="busybox", binds=(bind,))),
        fire_at=FIRE_AT,
        permitted_binds=permitted,
    )
    body = creation(
        order,
        node_id=NodeId("node-a"),
        store_id="s",
        folder=None,
        secrets=None,
        kept=kept,
        settings=USUAL,
        has_log_driver=True,
    )
    host = msgspec.convert(body["HostConfig"], dict[str, Json])
    return list(host["Mounts"])


@pytest.mark.parametrize(
    "path",
    [
        *("real/data", "real/data/output", "real", "link", "link/data", "link/data/output"),
        *("real/data/output/..", "real/none/..", ""),
    ],
)
def test_no_container_gets_the_data_directory_or_what_it_lies_in(
    tmp_path: Path, kept: ProtectedPaths, path: str
) -> None:
    bind = Bind(f"{tmp_path}/{path}", "/bound")

    with pytest.raises(UnusableOrderError, match="it shows the node's data directory"):
        mounts_of(bind, kept)


@pytest.mark.parametrize(
    "path", ["run/engine/any-name", "run/engine", "run", "link-to-run", "link-to-run/engine"]
)
def test_no_container_gets_an_engine_or_what_it_lies_in(
    tmp_path: Path, kept: ProtectedPaths, path: str
) -> None:
    bind = Bind(f"{tmp_path}/{path}", "/bound")

    with pytest.raises(UnusableOrderError, match="it leads to a container engine"):
        mounts_of(bind, kept)


@pytest.mark.parametrize("path", ["etc/rota/keyring", "etc/key-of-now", "etc"])
def test_no_container_gets_a_key_of_the_node_or_what_it_lies_in(
    tmp_path: Path, kept: ProtectedPaths, path: str
) -> None:
    with pytest.raises(UnusableOrderError, match="it shows a key or a password of the node"):
        mounts_of(Bind(f"{tmp_path}/{path}", "/bound"), kept)


def test_no_container_gets_a_key_of_the_node_by_another_name(
    tmp_path: Path, kept: ProtectedPaths
) -> None:
    os.link(tmp_path / "etc" / "key-of-now", tmp_path / "alias")

    with pytest.raises(UnusableOrderError, match="it shows a key or a password of the node"):
        mounts_of(Bind(f"{tmp_path}/alias", "/bound"), kept)


@pytest.mark.parametrize("source", ["/", "//", "/proc", "/proc/1", "/sys/fs/cgroup", "/usr/.."])
def test_no_container_gets_what_shows_all_of_the_machine(kept: ProtectedPaths, source: str) -> None:
    with pytest.raises(UnusableOrderError, match="is never bound: "):
        mounts_of(Bind(source, "/bound"), kept)


def test_a_link_to_what_shows_all_of_the_machine_is_refused(
    tmp_path: Path, kept: ProtectedPaths
) -> None:
    (tmp_path / "innocent").symlink_to("/sys")

    with pytest.raises(BindRefusedError, match="is never bound: "):
        check_paths([Bind(str(tmp_path / "innocent"), "/bound")], kept)


def test_a_container_gets_what_lies_beside_them(tmp_path: Path, kept: ProtectedPaths) -> None:
    beside = tmp_path / "real" / "data-of-another"
    beside.mkdir()
    bind = Bind(str(beside), "/bound", is_writable=True)

    asked = {"Type": "bind", "Source": str(beside), "Target": "/bound", "ReadOnly": False}
    assert asked in mounts_of(bind, kept)


@pytest.mark.parametrize(
    "engine", ["docker.sock", "podman/podman.sock", "containerd/containerd.sock"]
)
def test_the_usual_sockets_of_engines_and_their_folders_are_kept(engine: str) -> None:
    kept = kept_from_binds(Path("/nonexistent"), {})

    sockets = {f"/run/{engine}", os.path.realpath(f"/var/run/{engine}")}
    assert sockets & set(kept.sockets)
    with pytest.raises(BindRefusedError):
        check_paths([Bind(f"/run/{engine}", "/bound")], kept)
    with pytest.raises(BindRefusedError):
        check_paths([Bind("/run", "/bound")], kept)


def test_a_socket_of_an_engine_is_known_by_any_path(tmp_path: Path, kept: ProtectedPaths) -> None:
    alias = tmp_path / "alias"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "run/engine/any-name"))
        os.link(tmp_path / "run/engine/any-name", alias)

        with pytest.raises(BindRefusedError, match="it leads to a container engine"):
            check_paths([Bind(str(alias), "/bound")], kept)


def test_the_source_of_a_bind_is_where_links_lead(tmp_path: Path, kept: ProtectedPaths) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "pictures")

    with ExitStack() as stack:
        [source] = opened([Bind(str(tmp_path / "alias"), "/bound")], kept, None, stack)

        assert source.source == os.path.realpath(tmp_path / "pictures")
        found = os.fstat(source.descriptor)
    assert os.path.samestat(found, os.stat(tmp_path / "pictures"))


def test_a_folder_that_is_exchanged_after_its_check_is_bound_as_it_was(
    tmp_path: Path, kept: ProtectedPaths
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "file").touch()
    permitted = (f"{tmp_path}:rw",)

    with ExitStack() as stack:
        [source] = opened([Bind(str(tmp_path / "x"), "/bound")], kept, permitted, stack)
        (tmp_path / "x").rename(tmp_path / "y")
        (tmp_path / "x").symlink_to(tmp_path / "real")

        assert os.listdir(f"/proc/self/fd/{source.descriptor}") == ["file"]


@pytest.mark.parametrize("name", ["x", "x/y", "link"])
def test_no_container_gets_what_a_task_could_exchange(
    tmp_path: Path, kept: ProtectedPaths, name: str
) -> None:
    (tmp_path / "srv/x/y").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "srv" / "link").symlink_to(tmp_path / "outside")
    permitted = (f"{tmp_path}/srv:rw", f"{tmp_path}/outside")

    with pytest.raises(UnusableOrderError, match="could be exchanged"):
        mounts_of(Bind(str(tmp_path / "srv" / name), "/bound"), kept, permitted)
    assert mounts_of(Bind(str(tmp_path / "srv"), "/bound"), kept, permitted)


@pytest.mark.parametrize("target", ["/", "/proc", "/proc/1", "/dev/shm", "/run", "/run/rota/x"])
def test_no_container_gets_a_bind_over_files_of_rota_or_of_the_kernel(
    tmp_path: Path, kept: ProtectedPaths, target: str
) -> None:
    with pytest.raises(UnusableOrderError, match="cannot be the target of a bind"):
        mounts_of(Bind(str(tmp_path / "a"), target), kept)


def test_a_link_in_a_permitted_folder_leads_to_permitted_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "out").symlink_to(tmp_path / "b")
    (tmp_path / "a" / "in").symlink_to(tmp_path / "a")
    permitted = (str(tmp_path / "a"),)
    kept = kept_from_binds(tmp_path / "data", {})

    check_paths([Bind(str(tmp_path / "a" / "in"), "/bound")], kept, permitted)
    for bind in (
        Bind(str(tmp_path / "a" / "out"), "/bound"),
        Bind(str(tmp_path / "b"), "/bound"),
        Bind(str(tmp_path / "a"), "/bound", is_writable=True),
    ):
        with pytest.raises(BindRefusedError, match=r"^policy of the namespace: .* not allowed"):
            check_paths([bind], kept, permitted)


def test_a_container_gets_permitted_binds_alone(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    kept = kept_from_binds(tmp_path / "data", {})

    with pytest.raises(UnusableOrderError, match=r"^policy of the namespace: "):
        mounts_of(Bind(str(tmp_path / "b"), "/bound"), kept, (str(tmp_path / "a"),))
