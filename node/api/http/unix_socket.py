"""The unix socket on which the node serves its API to its own user.

A socket file that another process left is replaced: the lock on the data directory excludes a
second node on it.
"""

import asyncio
import logging
import os
import socket
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

NAME = "api.sock"
PATH_BYTES_MAX = 107
"""The longest path of a unix socket in Linux, without its final zero."""
MODE = 0o600


@asynccontextmanager
async def serving_on_socket(
    make: Callable[[], asyncio.Protocol], data_dir: Path
) -> AsyncGenerator[None]:
    """Serve the connections that *make* makes on ``api.sock`` while the body runs.

    Without a socket, the node works as usual, and its user cannot create the first key there.

    Raises:
        OSError: The socket cannot be created.
    """
    path = _path_in(data_dir)
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        log.warning(
            "no unix socket, because its path is too long",
            extra={"path": str(path), "limit": PATH_BYTES_MAX},
        )
        yield
        return
    listening = await asyncio.get_running_loop().create_unix_server(make, sock=_bound(path))
    try:
        yield
    finally:
        listening.close()
        _remove(path)


def _path_in(data_dir: Path) -> Path:
    return data_dir.absolute() / NAME


def _bound(path: Path) -> socket.socket:
    """Return a socket at *path*, which accepts connections only later, with its mode set."""
    _remove(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(path))
        path.chmod(MODE)
    except OSError:
        bound.close()
        raise
    return bound


def _remove(path: Path) -> None:
    """Remove the socket *path*; a file of another kind is left, and the node does not start."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
