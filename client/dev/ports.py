"""Ports of the loopback for programs that this process starts: no two of them share one."""

import os
import socket
from collections import deque
from secrets import randbelow

LOWEST, BEYOND = 20_000, 32_000
"""Below what the kernel gives to whoever does not mind which (Linux: from 32768): any connection
could else take a port while its program is not there, as between stop and start."""
KEPT_MAX = 64

_kept: deque[int] = deque()
"""Descriptors of their sockets, which nobody else closes."""


def free_port() -> int:
    """Return a port that nobody listens on, and nobody else is given.

    The newest `KEPT_MAX` are kept for their programs as long as this process lives.
    """
    while True:
        port = LOWEST + randbelow(BEYOND - LOWEST)
        keeper = kept(port)
        if keeper is not None:
            _kept.append(keeper.detach())
            while len(_kept) > KEPT_MAX:
                os.close(_kept.popleft())
            return port


def kept(port: int) -> socket.socket | None:
    """Return a socket that keeps a port while it is open, or None if somebody has that.

    Bound, and not listening, it keeps others from binding in the same way and lets a server listen:
    both say then that they share the address, as every server does.
    """
    keeper = socket.socket()
    try:
        keeper.bind(("127.0.0.1", port))
    except OSError:
        keeper.close()
        return None
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return keeper


def is_free(port: int) -> bool:
    """Tell whether nobody listens on a port."""
    with socket.socket() as listener:
        # As servers do: connections that are over do not count, nor does who keeps it for us.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
