"""Binds of sandboxes and containers, and the paths that no bind may expose, even by links.

A path that is checked and then used again may lead elsewhere by then: tasks can exchange what is in
a folder that is bound writable. A sandbox therefore gets the descriptor that was checked
(`opened`). An engine of containers accepts paths only, so what such tasks could exchange is refused
(`check_paths`).
"""

import os
import stat
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from rota.core.model.permitted_binds import BY_POLICY, is_exchangeable, is_permitted
from rota.core.model.work import Bind
from rota.core.model.work_checks import normal_target, why_never_bound
from rota.executor.kernel.mount_table import Mount, as_bound, mount_under, mounts_of
from rota.executor.launch.secret_files import touches_secrets

_SOCKETS = ("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")
_LOCAL = "unix://"


class BindRefusedError(Exception):
    """A bind is not allowed; the message is for the owner of the job."""


class ProtectedPaths(NamedTuple):
    """Paths that no bind may expose, nor a folder above them, nor anything in them.

    Attributes:
        directory: The node's data directory, with links resolved.
        sockets: The sockets of container engines, with links resolved; they need not exist.
        files: The node's files with keys and passwords; links are resolved at each check, because
            the files may be replaced while the node runs.
    """

    directory: str
    sockets: tuple[str, ...]
    files: tuple[str, ...] = ()


class Opened(NamedTuple):
    """The source of a bind.

    Attributes:
        source: Its path without links, at the time of the check.
        descriptor: A descriptor (``O_PATH``) of the source.
        mounts: The mounts that its bind makes, to be compared with those of the sandbox.
    """

    source: str
    descriptor: int
    mounts: frozenset[Mount]


def kept_from_binds(
    directory: Path, environ: Mapping[str, str], files: tuple[str, ...] = ()
) -> ProtectedPaths:
    """Return the protected paths of a node.

    Args:
        directory: The data directory.
        environ: The environment, which may name the socket of an engine.
        files: The files with keys and passwords.
    """
    host = environ.get("DOCKER_HOST", "")
    named = (host.removeprefix(_LOCAL),) if host.startswith(_LOCAL) else ()
    sockets = tuple(map(os.path.realpath, (*_SOCKETS, *named)))
    return ProtectedPaths(os.path.realpath(directory), sockets, files)


def opened(
    binds: Collection[Bind],
    kept: ProtectedPaths,
    permitted: tuple[str, ...] | None,
    stack: ExitStack,
) -> list[Opened]:
    """Return the sources of *binds*, each opened once and checked by its descriptor.

    Args:
        binds: The binds of an attempt.
        kept: The protected paths of the node.
        permitted: The folders that the policy of the attempt permits; None for all. A link in one
            of them that leads elsewhere is refused, since tasks may be able to make links there.
            The folders themselves are taken without following links.
        stack: Closes the descriptors.

    Raises:
        BindRefusedError: A bind is not allowed, or its source cannot be opened.
    """
    sources: list[Opened] = []
    mounts = mounts_of() if binds else []
    for bind in binds:
        try:
            descriptor = os.open(bind.source, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise BindRefusedError(f"cannot bind {bind.source!r}: {error.strerror}") from error
        stack.callback(os.close, descriptor)
        source = os.readlink(f"/proc/self/fd/{descriptor}")
        mount = mount_under(descriptor, mounts)
        if mount is None:
            raise BindRefusedError(
                f"{bind.source!r} is never bound: it leads into the mounts of another process"
            )
        _check(bind, source, os.fstat(descriptor), kept)
        if permitted is not None:
            _check_policy(bind, source, permitted)
        bound = as_bound(source, mount, mounts, normal_target(bind.target))
        sources.append(Opened(source, descriptor, frozenset(bound)))
    return sources


def check_paths(
    binds: Collection[Bind], kept: ProtectedPaths, permitted: tuple[str, ...] | None = None
) -> None:
    """Check binds whose paths are resolved again after the check, by an engine of containers.

    Args:
        binds: The binds of an attempt; a source that does not exist is not an error here.
        kept: The protected paths of the node.
        permitted: As for `opened`.

    Raises:
        BindRefusedError: A bind is not allowed, or tasks could exchange its source.
    """
    for bind in binds:
        source = os.path.realpath(bind.source)
        found = None
        with suppress(OSError):
            found = os.stat(source)
        _check(bind, source, found, kept)
        if permitted is not None:
            _check_policy(bind, source, permitted)
            check_exchange(bind, source, permitted)


def check_exchange(bind: Bind, source: str, permitted: tuple[str, ...]) -> None:
    """Check that no task can exchange a source, which is *source* now, before its use by path.

    Raises:
        BindRefusedError: The source is in a folder that tasks may bind writable.
    """
    if is_exchangeable(bind.source, permitted) or is_exchangeable(source, permitted):
        raise BindRefusedError(
            f"{BY_POLICY}: {bind.source!r} is in a folder that tasks may write to, so it could be "
            "exchanged between its check and its use; bind that folder itself"
        )


def _check_policy(bind: Bind, source: str, permitted: tuple[str, ...]) -> None:
    if not is_permitted(Bind(source, bind.target, bind.is_writable), permitted):
        leads = "" if source == bind.source else f", which leads to {source!r},"
        raise BindRefusedError(
            f"{BY_POLICY}: a {'writable ' * bind.is_writable}bind of {bind.source!r}{leads} is "
            f"not allowed; allowed are folders in {', '.join(permitted) or 'no folder'}"
        )


def _check(bind: Bind, source: str, found: os.stat_result | None, kept: ProtectedPaths) -> None:
    why = why_never_bound(source)
    if _touches(source, kept.directory):
        why = f"{bind.source!r} is never bound: it shows the node's data directory"
    elif touches_secrets(source):
        why = f"{bind.source!r} is never bound: it shows the secrets of other tasks"
    elif any(_shows(source, found, each) for each in kept.files):
        why = f"{bind.source!r} is never bound: it shows a key or a password of the node"
    elif _is_socket_of(source, found, kept.sockets):
        why = (
            f"{bind.source!r} is never bound: it leads to a container engine, which has the rights "
            "of root on this node"
        )
    if why:
        raise BindRefusedError(why)


def _shows(source: str, found: os.stat_result | None, file: str) -> bool:
    # The file may have another name, too: a hard link.
    return _touches(source, os.path.realpath(file)) or _is_same(found, file)


def _touches(path: str, kept: str) -> bool:
    return _is_in(path, kept) or _is_in(kept, path)


def _is_in(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _is_socket_of(source: str, found: os.stat_result | None, sockets: tuple[str, ...]) -> bool:
    if any(_is_in(socket, source) for socket in sockets):
        return True
    is_socket = found is not None and stat.S_ISSOCK(found.st_mode)
    return is_socket and any(_is_same(found, each) for each in sockets)


def _is_same(found: os.stat_result | None, socket: str) -> bool:
    with suppress(OSError):
        return found is not None and os.path.samestat(found, os.stat(socket))
    return False
