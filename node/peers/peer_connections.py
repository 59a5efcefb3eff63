"""Connections to the peer port of another node, for forwarded requests.

The peer port limits connections that are not proven to be those of members. Each connection here
therefore begins with a request without a body or an effect, whose proof makes it one of a member,
and only `OPENING_MAX` connections are at that stage at a time. No request is sent over a connection
that was not opened in this way, so a request that cannot be sent has certainly changed nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any  # Any: the certificate as `ssl` describes it.

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from rota.node.coordination.coordinator import Member
from rota.node.peers.forward_port import OPENING_PATH
from rota.node.peers.peer_tls import Dialling, PeerTls

OPENING_MAX = 8
"""The most connections that are opened at the same time: several nodes may share an address, of
which the peer port accepts 64 such connections."""
OPEN_S = 5.0
"""The longest time until a connection is open, with the wait for others."""
CONNECT_S = 2.0
IDLE_S = 30.0
"""How long a connection may be idle; less than the other node allows."""
IN_USE_MAX = 4_096
"""The most requests to one node at the same time."""


class NotOpened(Exception):
    """There is no connection for a request, and nothing was sent; ``str`` is the reason."""


class Gone(aiohttp.ClientConnectionError):
    """The connection has ended."""


class _Response(aiohttp.ClientResponse):
    """A response that has its connection even when it is complete."""

    transport: asyncio.Transport | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        self.transport = connection.transport
        return await super().start(connection)


class _OneConnection(aiohttp.TCPConnector):
    """A connector that makes one connection only.

    aiohttp itself repeats some requests over another connection if the first one ends.
    """

    transport: asyncio.Transport | None = None

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> Connection:
        if self.transport is not None and self.transport.is_closing():
            raise Gone("the connection has ended")
        return await super().connect(req, traces, timeout)


class OpenConnection:
    """A connection that the other node has accepted as that of a member.

    Attributes:
        session: Sends requests over it, one at a time.
        way: The way to the other node.
    """

    def __init__(self, way: Dialling) -> None:
        self.way = way
        self._connector = _OneConnection(limit=0, keepalive_timeout=IDLE_S)
        self.session = aiohttp.ClientSession(
            connector=self._connector,
            response_class=_Response,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            auto_decompress=False,
            # No headers are added to those of the client.
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent over the connection."""
        transport = self._connector.transport
        return transport is not None and not transport.is_closing()

    async def open(self, headers: dict[str, str]) -> Any:
        """Connect, and have the connection accepted; return the other node's certificate.

        Args:
            headers: The headers of the first request, with its proof.

        Raises:
            NotOpened: The other node does not accept the connection.
            ClientError, OSError: It cannot be reached.
            ValueError: Its address is malformed.
        """
        async with self.session.get(
            f"{self.way.origin}{OPENING_PATH}",
            headers=headers,
            ssl=self.way.ssl,
            server_hostname=self.way.server_hostname,
            allow_redirects=False,
        ) as answer:
            await answer.read()
            if answer.status != 204:
                raise NotOpened("it does not know this node, or is not ready")
            assert isinstance(answer, _Response), "as configured"
            transport = self._connector.transport = answer.transport
        return None if transport is None else transport.get_extra_info("peercert")


class MemberConnections:
    """The connections to one process of another node.

    Args:
        member: The record of the node.
        way: The way to it.
        tls: Checks its certificate; None without TLS.
        make_headers: Returns the headers of a request that opens a connection.
    """

    def __init__(
        self,
        member: Member,
        way: Dialling,
        tls: PeerTls | None,
        make_headers: Callable[[], dict[str, str]],
    ) -> None:
        self.member = member
        self._way = way
        self._tls = tls
        self._make_headers = make_headers
        self._opening = asyncio.Semaphore(OPENING_MAX)
        self._idle: deque[OpenConnection] = deque()
        self._in_use = 0
        self._is_closed = False

    async def close(self) -> None:
        """Close all connections; those in use when their requests end."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().session.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[OpenConnection]:
        """Yield a connection for one request.

        Raises:
            NotOpened: There is none.
        """
        if self._in_use >= IN_USE_MAX:
            raise NotOpened(f"{IN_USE_MAX} requests to it are in progress")
        self._in_use += 1
        try:
            found = self._newest_idle() or await self._opened()
            try:
                yield found
            finally:
                if self._is_closed or not found.is_open:
                    await found.session.close()
                else:
                    self._idle.append(found)
        finally:
            self._in_use -= 1
            await self._close_ended()

    def _newest_idle(self) -> OpenConnection | None:
        return self._idle.pop() if self._idle and self._idle[-1].is_open else None

    async def _close_ended(self) -> None:
        """Forget idle connections that have ended; the oldest of them end first."""
        while self._idle and not self._idle[0].is_open:
            await self._idle.popleft().session.close()

    async def _opened(self) -> OpenConnection:
        try:
            async with asyncio.timeout(OPEN_S), self._opening:
                return self._newest_idle() or await self._open()
        except TimeoutError as error:
            raise NotOpened(f"it accepted no connection within {OPEN_S:g} s") from error
        except ValueError as error:
            address = self.member.peer_address
            raise NotOpened(f"its address {address!r} cannot be used: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise NotOpened(str(error) or type(error).__name__) from error

    async def _open(self) -> OpenConnection:
        connection, is_accepted = OpenConnection(self._way), False
        try:
            certificate = await connection.open(self._make_headers())
            if self._way.server_hostname is not None:
                assert self._tls is not None, "it is dialled with TLS"
                if not self._tls.certifies(certificate, self.member.node_id):
                    raise NotOpened("its certificate names another cluster")
            is_accepted = True
            return connection
        finally:
            if not is_accepted:
                with suppress(Exception):
                    await connection.session.close()
