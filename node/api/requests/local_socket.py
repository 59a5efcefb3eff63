"""The unix socket of the node: its path, and the user at its other end.

The socket file has the mode 0600. The kernel also names the user of the connected process, so that
a changed mode or a copied descriptor opens nothing.
"""

import os
import socket
import struct
from ipaddress import ip_address

from aiohttp import web

from rota.core.errors import Kind, Refused

_CREDENTIALS = struct.Struct("iII")
"""The C struct ``ucred``: process, user and group."""


class LocalOnly(Refused):
    """The request is allowed only on the unix socket, to the user of the node."""

    def __init__(self) -> None:
        super().__init__(
            Kind.FORBIDDEN,
            "local_only",
            "this request is accepted only on the unix socket DATA_DIR/api.sock of a node, from "
            "the user of the node or root; run the command on the machine of a node as that user",
        )


def is_local(http: web.BaseRequest) -> bool:
    """Return True if the request came over the unix socket, from the node's user or root.

    Raises:
        LocalOnly: The request came over the unix socket, from another user.
    """
    # Only a client on a unix socket has no address.
    if http.remote:
        return False
    connection = None if http.transport is None else http.transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return False
    if _user_of(connection) not in (0, os.geteuid()):
        raise LocalOnly
    return True


def _user_of(connection: socket.socket) -> int:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def is_from_here(http: web.BaseRequest) -> bool:
    """Return True if the request came from this machine."""
    try:
        return not http.remote or ip_address(http.remote).is_loopback
    except ValueError:
        return False
