"""Binds of sandboxes and containers, and the paths that no bind may expose, even by links."""

import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rota.core.model.permitted_binds import BY_POLICY, is_permitted
from rota.core.model.work import Bind
from rota.core.model.work_checks import why_never_bound
from rota.executor.launch.secret_files import folder_of

_SOCKETS = ("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")
_LOCAL = "unix://"


class BindRefusedError(Exception):
    """A bind is not allowed; the message is for the owner of the job."""


class ProtectedPaths(NamedTuple):
    """Paths that no bind may expose, nor a folder above them, nor anything in them.

    Attributes:
        directory: The node's data directory, with links resolved.
        sockets: The sockets of container engines, with links resolved; they need not exist.
        secrets: The folder with the files of secrets.
        files: The node's files with keys and passwords; links are resolved at each check, because
            the files may be replaced while the node runs.
    """

    directory: str
    sockets: tuple[str, ...]
    secrets: str
    files: tuple[str, ...] = ()


def kept_from_binds(
    directory: Path, environ: Mapping[str, str], store_id: str, files: tuple[str, ...] = ()
) -> ProtectedPaths:
    """Return the protected paths of a node.

    Args:
        directory: The data directory.
        environ: The environment, which may name the socket of an engine.
        store_id: The id of the data directory.
        files: The files with keys and passwords.
    """
    host = environ.get("DOCKER_HOST", "")
    named = (host.removeprefix(_LOCAL),) if host.startswith(_LOCAL) else ()
    return ProtectedPaths(
        os.path.realpath(directory),
        tuple(map(os.path.realpath, (*_SOCKETS, *named))),
        os.path.realpath(folder_of(store_id)),
        files,
    )


def resolved(
    binds: Collection[Bind], kept: ProtectedPaths, permitted: tuple[str, ...] | None = None
) -> tuple[Bind, ...]:
    """Return *binds* with the links in their sources resolved.

    Args:
        binds: The binds of an attempt.
        kept: The protected paths of the node.
        permitted: The folders that the policy of the attempt permits; None for all. A link in one
            of them that leads elsewhere is refused, since tasks may be able to make links there.
            The folders themselves are taken without following links.

    Raises:
        BindRefusedError: A bind is not allowed.
    """
    targets = tuple(_resolved(bind, kept) for bind in binds)
    for target, bind in zip(targets, binds, strict=True):
        if permitted is not None and not is_permitted(target, permitted):
            leads = "" if target.source == bind.source else f", which leads to {target.source!r},"
            raise BindRefusedError(
                f"{BY_POLICY}: a {'writable ' * bind.is_writable}bind of {bind.source!r}{leads} is "
                f"not allowed; allowed are folders in {', '.join(permitted) or 'no folder'}"
            )
    return targets


def _resolved(bind: Bind, kept: ProtectedPaths) -> Bind:
    source = os.path.realpath(bind.source)
    why = why_never_bound(source)
    if _touches(source, kept.directory):
        why = f"{bind.source!r} is never bound: it shows the node's data directory"
    elif _touches(source, kept.secrets):
        why = f"{bind.source!r} is never bound: it shows the secrets of other tasks"
    elif any(_touches(source, os.path.realpath(each)) for each in kept.files):
        why = f"{bind.source!r} is never bound: it shows a key or a password of the node"
    elif _is_socket_of(source, kept.sockets):
        why = (
            f"{bind.source!r} is never bound: it leads to a container engine, which has the rights "
            "of root on this node"
        )
    if why:
        raise BindRefusedError(why)
    return Bind(source, bind.target, bind.is_writable)


def _touches(path: str, kept: str) -> bool:
    return _is_in(path, kept) or _is_in(kept, path)


def _is_in(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _is_socket_of(source: str, sockets: tuple[str, ...]) -> bool:
    if any(_is_in(socket, source) for socket in sockets):
        return True
    with suppress(OSError):
        found = os.stat(source)
        return stat.S_ISSOCK(found.st_mode) and any(_is_same(found, each) for each in sockets)
    return False


def _is_same(found: os.stat_result, socket: str) -> bool:
    with suppress(OSError):
        return os.path.samestat(found, os.stat(socket))
    return False
