"""Destinations of the export of changes: a file of JSON lines, and syslog (RFC 5424).

All of them work in a thread, with a limit of time: a network disk or a name server may hang, which
must not delay the end of the node.
"""

import fcntl
import os
import socket
import struct
import termios
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from rota.node.system.bounded_calls import BoundedCalls
from rota.node.system.config_values import SyslogTarget

WITHIN_S = 20.0
"""The most seconds for a delivery, after which its outcome is unknown."""
TIMEOUT_S = 5.0
"""The most seconds for a step of a delivery over the network."""
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


class BlockingSink(ABC):
    """A destination whose deliveries block a thread, one after the other.

    While a delivery hangs, no other one is begun.

    Args:
        name: The name of the destination in errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = BoundedCalls("rota-change-export", within_s=WITHIN_S, running_max=1)
        self._delivers = threading.Lock()

    async def send(self, lines: Sequence[ExportedLine]) -> None:
        """Deliver *lines*, all or with a repetition of some of them later.

        Raises:
            SinkAway: They were not delivered, or only some of them.
        """
        failure = await self._calls.result(lambda: self._failure(lines))
        if failure is None:
            failure = f"no response within {WITHIN_S:g} s"
        if failure:
            raise SinkAway(f"{self._name}: {failure}")

    def _failure(self, lines: Sequence[ExportedLine]) -> str:
        """Return why *lines* could not be delivered; empty if they were."""
        with self._delivers:
            try:
                self._deliver(lines)
            except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host.
                self._drop()
                return getattr(error, "strerror", None) or str(error)
        return ""

    def close(self) -> None:
        """Close the file or the connection, unless a delivery hangs."""
        if self._delivers.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._delivers.release()

    @abstractmethod
    def _deliver(self, lines: Sequence[ExportedLine]) -> None:
        """Deliver *lines*; raises OSError."""

    @abstractmethod
    def _drop(self) -> None:
        """Close the file or the connection."""


class ChangeFile(BlockingSink):
    """A file of JSON lines; after it was moved, a new one is made.

    Lines count as delivered when they are on the disk.

    Args:
        path: The path of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._file: int | None = None

    def _deliver(self, lines: Sequence[ExportedLine]) -> None:
        file = self._opened()
        size = os.fstat(file).st_size
        try:
            rest = memoryview(b"".join(each.document + b"\n" for each in lines))
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, size)  # So that no line is in the file by half.
            raise

    def _opened(self) -> int:
        """Return the descriptor of the file that now has the path."""
        if self._file is not None:
            try:
                is_same = os.path.samestat(self._path.stat(), os.fstat(self._file))
            except FileNotFoundError:
                is_same = False
            if is_same:
                return self._file
            self._drop()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = self._file = os.open(self._path, flags, 0o600)
        size = os.fstat(file).st_size
        if not size:
            _sync_folder(self._path.parent)  # A new file is lost with the power otherwise.
        elif os.pread(file, 1, size - 1) != b"\n":  # The machine ended in a write.
            os.write(file, b"\n")
        return file

    def _drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Syslog(BlockingSink):
    """A receiver of syslog.

    Over TCP, lines count as delivered when the receiver's kernel has acknowledged them; over UDP
    and to a socket of this machine, when they are sent.

    Args:
        target: The receiver.
        node: The name of this node, which is the PROCID of all messages.
    """

    def __init__(self, target: SyslogTarget, node: str) -> None:
        super().__init__(str(target))
        self._target = target
        self._node = node
        self._host = socket.gethostname()
        self._socket: socket.socket | None = None

    def _message(self, line: ExportedLine) -> bytes:
        head = f"<{PRIORITY}>1 {line.at} {self._host} rota {self._node} change - "
        return head.encode() + line.document

    def _deliver(self, lines: Sequence[ExportedLine]) -> None:
        messages = [self._message(each) for each in lines]
        connected = self._connected()
        if self._target.transport != "tcp":
            for each in messages:
                connected.send(each)
            return
        # Octet counting (RFC 6587): a frame that was sent by half is not read as a message.
        connected.sendall(b"".join(b"%d %s" % (len(each), each) for each in messages))
        _wait_acknowledged(connected)

    def _connected(self) -> socket.socket:
        if self._socket is not None and not self._is_ended(self._socket):
            return self._socket
        self._drop()
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

    def _drop(self) -> None:
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
