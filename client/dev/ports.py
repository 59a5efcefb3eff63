"""Distinct loopback ports for programs that this process starts."""

import os
import socket
from collections import deque
from secrets import randbelow

LOWEST, BEYOND = 20_000, 32_000
"""The range of ports. It is below the kernel's ephemeral ports (Linux: from 32768); otherwise, any
connection could take a port while its program is not running, as between stop and start."""
KEPT_MAX = 64

_kept: deque[int] = deque()
"""The descriptors of the sockets that reserve ports."""


def free_port() -> int:
    """Return a port without a listener, which no other call returns.

    The newest `KEPT_MAX` ports are reserved as long as this process runs.
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
    """Return a socket that reserves a port while it is open, or None if the port is in use.

    The socket is bound but does not listen. It prevents other reservations, but lets a server
    listen on the port, because both set the option to share the address.
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
    """Return True if no program listens on a port."""
    with socket.socket() as listener:
        # With this option, as for servers, neither ended connections nor the reservation count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
