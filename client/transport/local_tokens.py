"""Tokens of temporary nodes on this machine, which clients of the same user find by themselves.

``rota dev`` writes the token of each of its nodes to a file that is named after the port of the
node, and holds a lock on the file while it runs. A file without this lock is ignored, because the
node may have ended and a program of another user may listen on its port. For the same reason a
token is sent to 127.0.0.1 only: another user may listen on the same port of another address.
"""

import fcntl
import os
from pathlib import Path
from urllib.parse import urlsplit

from rota.wire.tokens import TOKEN_LENGTH

NODE_HOST = "127.0.0.1"
"""The address on which temporary nodes listen."""
NAMES = (NODE_HOST, "localhost")
OTHERS = 0o077
"""The permissions of other users."""


def folder() -> Path:
    """Return the folder of the files, which need not exist."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rota" / "dev"


def path_of(port: int) -> Path:
    """Return the file with the token of the node on *port*."""
    return folder() / f"{port}.token"


def local_token(url: str) -> str:
    """Return the token of the temporary node at *url*; empty if there is none."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in NAMES or parts.username is not None:
        return ""
    try:
        descriptor = os.open(path_of(parts.port or 80), os.O_RDONLY | os.O_NOFOLLOW)
    except (OSError, RuntimeError):  # RuntimeError: this user has no home.
        return ""
    with os.fdopen(descriptor) as file:
        there = os.fstat(descriptor)
        if there.st_uid != os.geteuid() or there.st_mode & OTHERS or not _is_locked(descriptor):
            return ""
        return file.read(TOKEN_LENGTH)


def local_url(url: str) -> str:
    """Return the address of the temporary node at *url*; ``localhost`` may have several."""
    return url.replace("://localhost", f"://{NODE_HOST}", 1)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # A file system without locks.
        return False
    return False
