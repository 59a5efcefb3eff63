"""Limits on connections to the peer port that have not yet proven to be a member's.

Every connection is counted from the moment it is made, whatever it is for: their number, for each
address and in all; what each may send, those of an address, and all of them together; and the time
until it is admitted or over. One that exceeds a limit is aborted, which costs its other end only
that connection. An admitted one is a link's, and is neither counted nor looked at any more.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import cast

STRANGERS_MAX = 1_024
"""In all."""
STRANGERS_PER_ADDRESS_MAX = 64
"""A handshake takes milliseconds; so many at once are of nodes behind one address, or an attack."""
BYTES_MAX = 1 << 20
"""From one: a death with all that a warden may report; `Door.narrow` allows others less."""
BYTES_PER_ADDRESS_MAX = 4 << 20
"""From one address: four deaths of the largest size; usual ones have some 10 kB."""
BYTES_IN_ALL_MAX = 16 << 20
"""From all together; one address can use up a quarter."""
STRANGER_S = 8.0
"""From the connection to its admission or its end; a handshake of two slow words is shorter."""

Refused = Callable[[str, str], None]
"""Called with the limit that was reached, one of `LIMITS`, and the address."""
LIMITS = ("connections", "bytes", "time")
Serve = Callable[[], asyncio.Protocol]
"""Makes the protocol of the server for a connection that is not refused at once."""


class Door:
    """Accepts connections for a server within the limits of this module.

    Args:
        refused: Called for each connection that is aborted.
    """

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._strangers: dict[asyncio.BaseTransport, _Stranger] = {}
        self._addresses: Counter[str] = Counter()
        self._received_from: Counter[str] = Counter()
        self._received = 0

    def protocol(self, serve: Serve) -> asyncio.Protocol:
        """Return the protocol of a new connection; *serve* makes that of the server itself."""
        return _Stranger(self, serve)

    @property
    def stranger_count(self) -> int:
        """Connections that are not admitted yet."""
        return len(self._strangers)

    def narrow(self, transport: asyncio.BaseTransport | None, byte_count: int) -> None:
        """Let a connection that is not admitted yet send only *byte_count* bytes more."""
        if transport is not None and (stranger := self._strangers.get(transport)):
            stranger.bytes_max = min(stranger.bytes_max, stranger.received + byte_count)

    def admit(self, transport: asyncio.BaseTransport | None) -> None:
        """Stop counting and limiting a connection: its other end is a member."""
        if transport is not None and (stranger := self._strangers.get(transport)):
            self.leave(stranger)
            if stranger.server is not None:
                stranger.transport.set_protocol(stranger.server)

    # -- for the connections --------------------------------------------------------------------

    def enter(self, stranger: "_Stranger") -> bool:
        """Count a new connection, or return False: there are too many."""
        is_full = len(self._strangers) >= STRANGERS_MAX
        if is_full or self._addresses[stranger.address] >= STRANGERS_PER_ADDRESS_MAX:
            self._refused("connections", stranger.address)
            return False
        self._strangers[stranger.transport] = stranger
        self._addresses[stranger.address] += 1
        return True

    def receive(self, stranger: "_Stranger", byte_count: int) -> bool:
        """Count bytes of a connection, or return False: they are too many."""
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
        """Stop counting a connection that is over, or admitted."""
        if self._strangers.pop(stranger.transport, None) is None:
            return
        stranger.timer.cancel()
        self._received -= stranger.received
        self._received_from[stranger.address] -= stranger.received
        self._addresses[stranger.address] -= 1
        if not self._addresses[stranger.address]:
            del self._addresses[stranger.address], self._received_from[stranger.address]


class _Stranger(asyncio.Protocol):
    """A connection that is not admitted yet: passes everything on to the server, and counts it.

    Attributes:
        server: The protocol of the server; there is none for a connection that is refused at once.
        received: Bytes so far.
        bytes_max: Bytes in all.
    """

    transport: asyncio.Transport
    timer: asyncio.TimerHandle

    def __init__(self, door: Door, serve: Serve) -> None:
        self._door = door
        self._serve = serve
        self.server: asyncio.Protocol | None = None
        self.address = ""
        self.received = 0
        self.bytes_max = BYTES_MAX

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because asyncio's type is that of any protocol, and this is a connection's.
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        if self._door.enter(self):
            self.timer = asyncio.get_running_loop().call_later(STRANGER_S, self._door.expire, self)
            self.server = self._serve()
            self.server.connection_made(transport)
        else:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.server is None or self.transport.is_closing():
            return
        if self._door.receive(self, len(data)):
            self.server.data_received(data)
        else:
            self.transport.abort()

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
