"""Requests that other nodes forward: their connections, and the proof of their sender.

They arrive at the peer port. From the proof of its first request on, such a connection has the
limits and timeouts of one to the port of the API, where no request counts as forwarded.
"""

from hashlib import sha256

from aiohttp import web
from multidict import istr

from rota.core.errors import Kind, Refused
from rota.node.api.http.connection import Connection, Gate
from rota.node.api.requests.node_headers import OF_NODES
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import read_content
from rota.node.peers.forward_port import ForwardPort
from rota.node.peers.peer_apis import PEER, RequestHead

_OF_NODES = tuple(map(istr, OF_NODES))


class NotANode(Refused):
    """The request pretends to be from a node.

    Args:
        header: The header with which it does so.
    """

    def __init__(self, header: str) -> None:
        super().__init__(
            Kind.FORBIDDEN,
            "not_a_node",
            f"only nodes of the cluster send the header {header}, to the peer port of another "
            "node; remove the header, and send the request to the port of the API",
        )


class ForwardConnection(Connection):
    """A connection to the peer port, with requests that another node forwards.

    Args:
        server: The HTTP server of the API.
        gate: The limits of the API on connections.
        access_log: The value of the setting.
        port: The peer port.
    """

    __slots__ = ("_port",)

    def __init__(self, server: web.Server, gate: Gate, access_log: str, port: ForwardPort) -> None:
        super().__init__(server, gate, access_log)
        self._port = port

    def admit(self, request: web.BaseRequest) -> None:
        """Lift the limits of the peer port."""
        self._port.admit(request)

    def refuse(self, request: web.BaseRequest) -> None:
        """Count and log a request that is not proven to be from a node."""
        reason = "a forwarded request has no valid proof of its sender"
        self._port.refused("unproven", request.remote, reason)


def is_from_peer_port(http: web.BaseRequest) -> bool:
    """Return True if a request arrived at the peer port."""
    return isinstance(http.protocol, ForwardConnection)


async def identify_sender(request: RequestContext) -> None:
    """Set the node that has forwarded a request to the peer port.

    Raises:
        NotANode: The request does not prove that it is from a node; or it is a request to the port
            of the API, and has a header of nodes.
    """
    http, connection = request.http, request.http.protocol
    if not isinstance(connection, ForwardConnection):
        for name in _OF_NODES:
            if name in http.headers:
                raise NotANode(name)
        return
    others = request.node.others
    assert others is not None, "a node alone has no peer port"
    head = RequestHead(http.method, http.raw_path, http.headers)
    proven = others.proven(head, http.transport)
    if proven is None:
        connection.refuse(http)
        raise NotANode(PEER)
    connection.admit(http)
    # The proof covers the SHA-256 of the body, so that a body is not read for just anyone.
    # The share of the caller was counted at the node that forwards.
    content = await read_content(request, has_share=False)
    if sha256(content).hexdigest() != proven.digest:
        connection.refuse(http)
        raise NotANode(PEER)
    request.sender = proven.sender
