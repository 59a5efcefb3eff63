"""The two ends of the socket between node and warden: framing, and the identity of the peer."""

import asyncio
import logging
import os
import select
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast

from rota.core.decoding import UNDECODABLE
from rota.executor.kernel.procfs import is_in_another_namespace
from rota.executor.warden.messages import (
    Held,
    Met,
    ToNode,
    ToWarden,
    encode,
    frames_of,
    node_reader,
    warden_reader,
)

log = logging.getLogger(__name__)

_CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group; see unix(7).


def peer_of(end: socket.socket) -> int:
    """Return the number of the process at the other end: the one that connected, or listens."""
    sent = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(sent)[0])


class Writer:
    """The sending half of a connection, at either end.

    Attributes:
        is_full: True if the other end reads too slowly; messages then have to wait.
    """

    def __init__(self) -> None:
        self.is_full = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection (called by asyncio)."""
        # asyncio and uvloop have the same interface here, but no common class.
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        """Record that the other end reads too slowly (called by asyncio)."""
        self.is_full = True

    def write(self, messages: Sequence[ToWarden] | Sequence[ToNode]) -> None:
        """Send messages; they are dropped after the end of the connection."""
        self.write_encoded(map(encode, messages))

    def write_encoded(self, messages: Iterable[bytes]) -> None:
        """Send encoded messages; they are dropped after the end of the connection."""
        if not self._transport.is_closing():
            for frame in frames_of(messages):
                self._transport.write(frame)

    def close(self) -> None:
        """End the connection after everything is sent."""
        self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        self._transport.abort()


class Warden(Protocol):
    """A receiver of the messages and of the ends of connections, in the warden."""

    def receive(self, connection: "FromNode", message: ToWarden) -> None:
        """Process one message."""
        ...

    def batch_received(self) -> None:
        """Continue after all messages received together have been processed."""
        ...

    def lost(self, connection: "FromNode") -> None:
        """Process the end of a connection."""
        ...

    def may_write(self) -> None:
        """Continue to send after the connection was full."""
        ...


class FromNode(Writer, asyncio.Protocol):
    """The warden's end of a connection.

    Attributes:
        pid: The number of the node's process.
    """

    def __init__(self, warden: Warden) -> None:
        super().__init__()
        self.pid = 0
        self._warden = warden
        self._reader = warden_reader()
        self._is_aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection (called by asyncio)."""
        super().connection_made(transport)
        self.pid = peer_of(transport.get_extra_info("socket"))
        if is_in_another_namespace(self.pid):
            log.error("connection of a task refused", extra={"pid": self.pid})
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Process received bytes (called by asyncio)."""
        try:
            for message in self._reader.feed(data):
                if self._is_aborted:
                    break
                self._warden.receive(self, message)
        except UNDECODABLE as error:
            log.error("message of the node undecodable", extra={"reason": str(error)})
            self.abort()
        self._warden.batch_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Process the end of the connection (called by asyncio)."""
        del exc
        self._warden.lost(self)

    def resume_writing(self) -> None:
        """Continue to write (called by asyncio)."""
        self.is_full = False
        self._warden.may_write()

    def abort(self) -> None:
        """End the connection now, and process no further message, even if already received."""
        self._is_aborted = True
        super().abort()


class Node(Protocol):
    """Receiver of events at the node's end."""

    def receive(self, message: ToNode) -> None:
        """Process a message that is not part of the greeting."""
        ...

    def may_write(self) -> None:
        """Continue to send after the connection was full."""
        ...


class ToTheWarden(Writer, asyncio.Protocol):
    """The node's end of a connection.

    Attributes:
        pid: The number of the warden's process.
        met: Set when the warden has answered the greeting, or the connection has ended.
        gone: Set when the connection has ended.
        held: The attempts that the warden held at the greeting.
        answer: The last message of the warden's greeting; an empty one before.
        silent_count: The heartbeats sent since the last data from the warden; the sender of
            heartbeats increases it.
    """

    def __init__(self, node: Node, pid: int) -> None:
        super().__init__()
        self.pid = pid
        self.met = asyncio.Event()
        self.gone = asyncio.Event()
        self.held: list[Held] = []
        self.answer = Met(0, "")
        self.silent_count = 0
        self._node = node
        self._reader = node_reader()

    def data_received(self, data: bytes) -> None:
        """Process received bytes (called by asyncio)."""
        self.silent_count = 0
        try:
            for message in self._reader.feed(data):
                match message:
                    case Held():
                        self.held.append(message)
                    case Met():
                        self.answer = message
                        self.met.set()
                    case _:
                        self._node.receive(message)
        except UNDECODABLE as error:
            log.error("message of the warden undecodable", extra={"reason": str(error)})
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Process the end of the connection (called by asyncio)."""
        del exc
        self.gone.set()
        self.met.set()

    def resume_writing(self) -> None:
        """Continue to write (called by asyncio)."""
        self.is_full = False
        self._node.may_write()


class NodeProcess:
    """A node's process, watched until `close`.

    The end of a connection proves nothing: a process may close it and continue. A readable pidfd
    proves the end of the process (PROTOCOL R16).

    Args:
        pid: The number of the process, which is at the other end of a connection now.
        loop: The loop that watches for its end.
        on_end: Called when the process ends; never if it ended before the construction.

    Attributes:
        pid: The number of the process.
        lives: True if the process has not ended.
    """

    def __init__(
        self, pid: int, loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]
    ) -> None:
        self.pid = pid
        self.lives = True
        self._loop = loop
        self._on_end = on_end
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1
            self.lives = False
            return
        loop.add_reader(self._pidfd, self._ended)

    def check(self) -> None:
        """Call *on_end* now, if the process has ended and that is not handled on the loop yet."""
        if self._pidfd >= 0:
            readable = select.poll()
            readable.register(self._pidfd, select.POLLIN)
            if readable.poll(0):
                self._ended()

    def close(self) -> None:
        """Stop watching."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _ended(self) -> None:
        self.lives = False
        log.info("node ended", extra={"pid": self.pid})
        self.close()
        self._on_end()
