"""Connections with TLS, counted and limited from the moment they are accepted.

asyncio's own servers with TLS show a connection to its protocol only after the handshake, so
connections in a handshake would not be counted. Here each is counted when it is accepted. Where
connections without TLS are accepted, too, the first byte decides: a handshake of TLS begins with
22, and a request of HTTP with a letter.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Generic, Protocol, TypeVar

from rota.node.system.background import beside

log = logging.getLogger(__name__)

HANDSHAKE_RECORD = b"\x16"
"""The first byte of a connection with TLS (RFC 8446, section 5.1)."""
PAUSE_S = 0.5
"""The pause after an error of accept; the usual one is that the process has no free file."""
SHUTDOWN_S = 3.0
"""The time for the other end to end TLS when a connection is closed."""

Refused = Callable[[str, str | None, str], None]


class Knock(Protocol):
    """A connection before its handshake, counted until it ends or has a protocol."""

    @property
    def until(self) -> float:
        """The end of the time for the handshake, by the clock of the event loop."""
        ...

    def end(self) -> None:
        """Stop counting the connection here; a repetition has no effect."""
        ...


KnockT = TypeVar("KnockT", bound=Knock)


class TlsListener(Generic[KnockT]):
    """The acceptance of connections with TLS.

    Args:
        context: The context of TLS.
        knock: Counts a connection from an address; returns None if there are too many.
        protocol: Makes the protocol of a connection after its handshake.
        refused: Called with the kind, the address and the reason of a refusal.
        takes_plain: Whether connections without TLS are accepted, too.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        knock: Callable[[str], KnockT | None],
        protocol: Callable[[KnockT], asyncio.Protocol],
        refused: Refused,
        takes_plain: bool = False,
    ) -> None:
        self._context = context
        self._knock = knock
        self._protocol = protocol
        self._refused = refused
        self._takes_plain = takes_plain

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncGenerator[int]:
        """Listen on an address while the body runs; yield the port.

        Raises:
            OSError: The node cannot listen on the address.
        """
        with ExitStack() as stack:
            sockets = [stack.enter_context(each) for each in await _bound(host, port)]
            async with beside(self._accept_all(sockets)):
                yield int(sockets[0].getsockname()[1])

    async def _accept_all(self, sockets: list[socket.socket]) -> None:
        async with asyncio.TaskGroup() as group:
            for each in sockets:
                group.create_task(self._accept(each, group))

    async def _accept(self, listening: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                reason = {"reason": str(error), "port": listening.getsockname()[1]}
                log.warning("connections not accepted", extra=reason)
                await asyncio.sleep(PAUSE_S)
                continue
            # One connection in each turn of the loop, so that members among many are proven, and no
            # longer counted, before the limit is reached.
            group.create_task(self._welcome(connection, str(address[0])))

    async def _welcome(self, connection: socket.socket, address: str) -> None:
        knock = self._knock(address)
        if knock is None:
            connection.close()
            return
        try:
            async with asyncio.timeout_at(knock.until):
                await self._serve_on(connection, knock)
        except TimeoutError:
            self._refused("time", address, "the handshake of TLS was not complete in time")
        except OSError as error:  # ssl.SSLError is an OSError.
            self._refused("tls", address, f"the handshake of TLS failed: {_reason(error)}")
        finally:
            knock.end()

    async def _serve_on(self, connection: socket.socket, knock: KnockT) -> None:
        """Serve a connection that was accepted.

        Raises:
            OSError: The handshake failed, or the connection broke.
        """
        connection.setblocking(False)
        try:
            is_plain = self._takes_plain and await _first_byte(connection) != HANDSHAKE_RECORD
        except BaseException:
            connection.close()
            raise
        # From here on the loop closes the connection, also if the handshake fails.
        await asyncio.get_running_loop().connect_accepted_socket(
            partial(self._protocol, knock),
            connection,
            ssl=None if is_plain else self._context,
            ssl_shutdown_timeout=None if is_plain else SHUTDOWN_S,
        )


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason
    return str(error) or "the other end closed the connection"


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            each = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(each)
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(address)
            each.listen(1_024)
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


async def _first_byte(connection: socket.socket) -> bytes:
    """Return the first byte that arrives, and leave it there; empty if the other end hangs up."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            readable = loop.create_future()
            loop.add_reader(connection, _set, readable)
            try:
                await readable
            finally:
                loop.remove_reader(connection)


def _set(readable: "asyncio.Future[None]") -> None:
    if not readable.done():
        readable.set_result(None)
