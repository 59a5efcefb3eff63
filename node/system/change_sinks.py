"""Destinations of the export of changes: a file of JSON lines, and syslog (RFC 5424).

All of them work in a thread, with a limit of time for each step.
"""

import asyncio
import fcntl
import os
import socket
import struct
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from rota.node.system.config_values import SyslogTarget

TIMEOUT_S = 5.0
LOOK_S = 0.01
PRIORITY = 13 * 8 + 6
"""Facility 13, log audit, and severity 6, informational."""


class ExportedLine(NamedTuple):
    """A change to be exported.

    Attributes:
        at: Its instant, in the form of RFC 3339.
        document: Its document, as one line of JSON without the end of the line.
    """

    at: str
    document: bytes


class SinkAway(Exception):
    """Some changes could not be delivered, and have to be sent again; the text has the reason."""


class Sink(Protocol):
    """A destination of changes."""

    async def send(self, lines: Sequence[ExportedLine]) -> None:
        """Deliver *lines*, all or with a repetition of some of them later.

        Raises:
            SinkAway: They were not delivered, or only some of them.
        """
        ...

    def close(self) -> None:
        """Close the file or the connection, which the next delivery would open again."""
        ...


class ChangeFile:
    """A file of JSON lines; after it was moved, a new one is made.

    Args:
        path: The path of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    async def send(self, lines: Sequence[ExportedLine]) -> None:
        """Append *lines*, and wait until they are on the disk."""
        await asyncio.to_thread(self._append, b"".join(each.document + b"\n" for each in lines))

    def _append(self, content: bytes) -> None:
        try:
            file = self._opened()
            size = os.fstat(file).st_size
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(file, rest) :]
                os.fsync(file)
            except OSError:
                os.ftruncate(file, size)  # So that no line is in the file by half.
                raise
        except OSError as error:
            self.close()
            raise SinkAway(f"{self._path}: {error.strerror}") from error

    def _opened(self) -> int:
        """Return the descriptor of the file that now has the path."""
        if self._file is not None:
            try:
                is_same = os.path.samestat(self._path.stat(), os.fstat(self._file))
            except FileNotFoundError:
                is_same = False
            if is_same:
                return self._file
            self.close()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = self._file = os.open(self._path, flags, 0o600)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":  # The machine ended in a write.
            os.write(file, b"\n")
        return file

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Syslog:
    """A receiver of syslog.

    Over TCP, lines count as delivered when the receiver's kernel has acknowledged them; over UDP
    and to a socket of this machine, when they are sent.

    Args:
        target: The receiver.
        node: The name of this node, which is the PROCID of all messages.
    """

    def __init__(self, target: SyslogTarget, node: str) -> None:
        self._target = target
        self._node = node
        self._host = socket.gethostname()
        self._socket: socket.socket | None = None

    async def send(self, lines: Sequence[ExportedLine]) -> None:
        """Send each line as one message."""
        await asyncio.to_thread(self._send, [self._message(each) for each in lines])

    def _message(self, line: ExportedLine) -> bytes:
        head = f"<{PRIORITY}>1 {line.at} {self._host} rota {self._node} change - "
        return head.encode() + line.document

    def _send(self, messages: Sequence[bytes]) -> None:
        try:
            connected = self._connected()
            if self._target.transport != "tcp":
                for each in messages:
                    connected.send(each)
                return
            # Octet counting (RFC 6587): a frame that was sent by half is not read as a message.
            connected.sendall(b"".join(b"%d %s" % (len(each), each) for each in messages))
            _wait_acknowledged(connected)
        except OSError as error:
            self.close()
            reason = error.strerror or str(error)
            raise SinkAway(f"{self._target}: {reason}") from error

    def _connected(self) -> socket.socket:
        if self._socket is not None and not self._is_ended(self._socket):
            return self._socket
        self.close()
        target = self._target
        if target.transport == "tcp":
            address = (target.host, target.port)
            self._socket = socket.create_connection(address, timeout=TIMEOUT_S)
            return self._socket
        family, where = _datagram_address(target)
        fresh = self._socket = socket.socket(family, socket.SOCK_DGRAM)
        fresh.settimeout(TIMEOUT_S)
        fresh.connect(where)
        return fresh

    def _is_ended(self, connected: socket.socket) -> bool:
        """Return True if the receiver has closed the connection; a write would still succeed."""
        if self._target.transport != "tcp":
            return False
        try:
            return connected.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _datagram_address(
    target: SyslogTarget,
) -> tuple[socket.AddressFamily, str | tuple[str | int | bytes, ...]]:
    if target.transport == "unix":
        return socket.AF_UNIX, target.host
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_DGRAM)
    family, _, _, _, where = found[0]
    return family, where


def _wait_acknowledged(connected: socket.socket) -> None:
    """Wait until the other machine has acknowledged everything.

    Raises:
        TimeoutError: It has not in time.
    """
    for _ in range(round(TIMEOUT_S / LOOK_S)):
        queued = fcntl.ioctl(connected, termios.TIOCOUTQ, bytes(4))
        if struct.unpack("i", queued)[0] == 0:
            return
        time.sleep(LOOK_S)
    raise TimeoutError(f"what was sent was not acknowledged within {TIMEOUT_S:g} s")
