"""Limits on connections to the peer port that have not yet been proven to be those of members.

Every connection is subject to these limits from its beginning, whatever its purpose. There are
limits of the number of connections, per address and in total; of the received bytes, per
connection, per address and in total; and of the time until a connection is admitted or ends. A
connection that exceeds a limit is aborted; its other end loses nothing else. An admitted connection
is that of a link, and is no longer counted or limited. A connection with TLS has no protocol before
its handshake is complete; until then it is a `Knock`, counted and limited in time like the others.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import cast

STRANGERS_MAX = 1_024
"""The most connections in total."""
STRANGERS_PER_ADDRESS_MAX = 64
"""The most connections of one address. A handshake takes milliseconds, so more connections at once
mean many nodes behind one address, or an attack."""
BYTES_MAX = 1 << 20
"""The most bytes of one connection: a proof of death with all attempts that a warden may report;
`Door.narrow` lowers the limit for other requests."""
BYTES_PER_ADDRESS_MAX = 4 << 20
"""The most bytes of one address: four proofs of death of the largest size; usual ones have about
10 kB."""
BYTES_IN_ALL_MAX = 16 << 20
"""The most bytes in total; one address can use a quarter of them."""
STRANGER_S = 8.0
"""The longest time until a connection is admitted or ends; a handshake with two slow messages is
shorter."""

Refused = Callable[[str, str], None]
"""Called with the limit that was exceeded, one of `LIMITS`, and the address."""
LIMITS = ("connections", "bytes", "time")
Serve = Callable[[bytes], asyncio.Protocol | None]
"""Makes the server's protocol for a connection from its first bytes; None if these are too few to
tell the server."""


class Door:
    """The entrance of a server, which accepts connections within the limits of this module.

    Args:
        refused: Called for each connection that is aborted.
    """

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._strangers: dict[asyncio.BaseTransport, _Stranger] = {}
        self._addresses: Counter[str] = Counter()
        self._received_from: Counter[str] = Counter()
        self._received = 0
        self._knocking: Counter[str] = Counter()

    def protocol(self, serve: Serve, knock: "Knock | None" = None) -> asyncio.Protocol:
        """Return the protocol of a new connection.

        Args:
            serve: Makes the protocol of the server.
            knock: The same connection before its handshake of TLS; None without TLS.
        """
        return _Stranger(self, serve, knock)

    def knock(self, address: str) -> "Knock | None":
        """Count a connection before its handshake of TLS.

        Returns:
            The connection, for the caller to end; None if there are too many connections.
        """
        return None if self._is_full(address) else Knock(self._knocking, address)

    @property
    def stranger_count(self) -> int:
        """The number of connections that are not admitted yet."""
        return len(self._strangers) + self._knocking.total()

    def narrow(self, transport: asyncio.BaseTransport | None, byte_count: int) -> None:
        """Limit a connection that is not admitted yet to *byte_count* further bytes."""
        if transport is not None and (stranger := self._strangers.get(transport)):
            stranger.bytes_max = min(stranger.bytes_max, stranger.received + byte_count)

    def admit(self, transport: asyncio.BaseTransport | None) -> None:
        """Stop counting and limiting a connection, whose other end is a member."""
        if transport is not None and (stranger := self._strangers.get(transport)):
            self.leave(stranger)
            if stranger.server is not None:
                stranger.transport.set_protocol(stranger.server)

    # -- for the connections --------------------------------------------------------------------

    def enter(self, stranger: "_Stranger") -> bool:
        """Count a new connection; return False if there are too many connections."""
        if self._is_full(stranger.address):
            return False
        self._strangers[stranger.transport] = stranger
        self._addresses[stranger.address] += 1
        return True

    def _is_full(self, address: str) -> bool:
        """Return True if there are too many connections, and count the refusal of one more."""
        of_address = self._addresses[address] + self._knocking[address]
        is_full = self.stranger_count >= STRANGERS_MAX
        if is_full or of_address >= STRANGERS_PER_ADDRESS_MAX:
            self._refused("connections", address)
            return True
        return False

    def receive(self, stranger: "_Stranger", byte_count: int) -> bool:
        """Count received bytes of a connection; return False if they exceed a limit."""
        stranger.received += byte_count
        self._received_from[stranger.address] += byte_count
        self._received += byte_count
        is_within = (
            stranger.received <= stranger.bytes_max
            and self._received_from[stranger.address] <= BYTES_PER_ADDRESS_MAX
            and self._received <= BYTES_IN_ALL_MAX
        )
        if is_within:
            return True
        self._refused("bytes", stranger.address)
        return False

    def expire(self, stranger: "_Stranger") -> None:
        """Abort a connection whose time is over."""
        self._refused("time", stranger.address)
        stranger.transport.abort()

    def leave(self, stranger: "_Stranger") -> None:
        """Stop counting a connection that has ended or is admitted."""
        if self._strangers.pop(stranger.transport, None) is None:
            return
        stranger.timer.cancel()
        self._received -= stranger.received
        self._received_from[stranger.address] -= stranger.received
        self._addresses[stranger.address] -= 1
        if not self._addresses[stranger.address]:
            del self._addresses[stranger.address], self._received_from[stranger.address]


class Knock:
    """A connection before its handshake of TLS, counted until it ends or has a protocol.

    Args:
        counts: The number of such connections of each address.
        address: The address of the other end.

    Attributes:
        until: The time of the loop at which the connection is admitted or ends.
    """

    def __init__(self, counts: Counter[str], address: str) -> None:
        self.until = asyncio.get_running_loop().time() + STRANGER_S
        self._counts = counts
        self._address = address
        self._is_counted = True
        counts[address] += 1

    def end(self) -> None:
        """Stop counting the connection here; a repetition has no effect."""
        if not self._is_counted:
            return
        self._is_counted = False
        self._counts[self._address] -= 1
        if not self._counts[self._address]:
            del self._counts[self._address]


class _Stranger(asyncio.Protocol):
    """A connection that is not admitted yet; its events are counted and passed to the server.

    Attributes:
        transport: The transport of the connection.
        timer: The timer of the time limit.
        server: The protocol of the server; None until the first bytes are received.
        address: The address of the other end.
        received: The number of bytes received so far.
        bytes_max: The most bytes that may be received.
    """

    transport: asyncio.Transport
    timer: asyncio.TimerHandle

    def __init__(self, door: Door, serve: Serve, knock: Knock | None) -> None:
        self._door = door
        self._serve = serve
        self._knock = knock
        self.server: asyncio.Protocol | None = None
        self._first = b""
        self.address = ""
        self.received = 0
        self.bytes_max = BYTES_MAX

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because asyncio declares the transport of any protocol, and this one is a stream.
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        loop = asyncio.get_running_loop()
        until = loop.time() + STRANGER_S
        if self._knock is not None:
            self._knock.end()  # From here on the connection is counted as this protocol.
            until = self._knock.until
        if self._door.enter(self):
            self.timer = loop.call_at(until, self._door.expire, self)
        else:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._door.receive(self, len(data)):
            self.transport.abort()
        elif self.server is not None:
            self.server.data_received(data)
        else:
            self._begin(self._first + data)

    def _begin(self, first: bytes) -> None:
        """Pass the connection to its server, if the first bytes tell which one it is."""
        self._first, self.server = first, self._serve(first)
        if self.server is not None:
            self._first = b""
            self.server.connection_made(self.transport)
            self.server.data_received(first)

    def eof_received(self) -> bool | None:
        return self.server.eof_received() if self.server else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.leave(self)
        if self.server:
            self.server.connection_lost(exc)

    def pause_writing(self) -> None:
        if self.server:
            self.server.pause_writing()

    def resume_writing(self) -> None:
        if self.server:
            self.server.resume_writing()
