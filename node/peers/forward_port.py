"""Interface of the peer port for requests that other nodes forward to the API of this node."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from aiohttp import web

OPENING_PATH = "/api/forward"
"""The path of the first request on each connection. It has no body and no effect; with its proof
the connection becomes that of a member, before anything that matters is sent."""
FORWARDED_PATHS = b"/api/"
"""The beginning of the paths of forwarded requests."""

MakeProtocol = Callable[[], asyncio.Protocol]


class ForwardPort(Protocol):
    """The peer port, as the API uses it (`rota.node.links.peer_server.PeerPort`)."""

    def forwarding_to(self, make: MakeProtocol) -> AbstractContextManager[None]:
        """Serve new connections with forwarded requests by *make* while the body runs."""
        ...

    def admit(self, request: web.BaseRequest) -> None:
        """Lift the limits on a connection, whose other end is a member."""
        ...

    def refused(self, kind: str, address: str | None, reason: str) -> None:
        """Count and log a refusal."""
        ...
