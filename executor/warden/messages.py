"""Messages between a node and its warden; the table is in docs/explanation/warden.md.

A frame is four bytes of length, big-endian, then a MessagePack array of messages, to be processed
in order. The messages of one turn of a loop are one frame, unless it would be too long.

`Hello`, `Met` and `Retire` never change: two different versions use them to detect that they are
incompatible.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from rota.core.model.attempt import AttemptKey, Ending, Order, Report
from rota.core.timing.instants import Duration, Instant
from rota.executor.secret_values import NO_SECRETS, SecretValues

VERSION = 2
"""The protocol's version; raised with every change that another version may not decode."""

FRAME_BYTES = 1 << 20
"""The length at which a frame gets no more messages, so that its reader can handle other events."""

T = TypeVar("T")

# -- to the warden ---------------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The first message of a connection, with the version of the node."""

    version: int


class Launch(msgspec.Struct, frozen=True, array_like=True, tag="launch"):
    """Start an attempt that belongs to *group*; ignored if the warden holds it already.

    *secrets* are the values that the order names; they are not part of the order, which is written
    to the journal.
    """

    group: str
    order: Order
    secrets: SecretValues = NO_SECRETS


class Allow(msgspec.Struct, frozen=True, array_like=True, tag="allow"):
    """Extend the time of groups to these instants, by CLOCK_BOOTTIME; no time is shortened."""

    until: dict[str, Instant]


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """End an attempt; see `rota.executor.executor.Executor.stop`."""

    key: AttemptKey
    grace: Duration | None


class Forget(msgspec.Struct, frozen=True, array_like=True, tag="forget"):
    """The outcome of an attempt is recorded by its shard."""

    key: AttemptKey


class Read(msgspec.Struct, frozen=True, array_like=True, tag="read"):
    """A request for a part of an output.

    Attributes:
        number: The number of this request.
        executor: The name of the attempt's executor.
        key: The attempt.
        offset: The first byte; see `rota.executor.executor.Output.read`.
        limit: The largest number of bytes; 0 to request only whether there is an output.
        is_patient: True if the answer may wait a few seconds for further output.
    """

    number: int
    executor: str
    key: AttemptKey
    offset: int
    limit: int
    is_patient: bool


class Expire(msgspec.Struct, frozen=True, array_like=True, tag="expire"):
    """A request to remove outputs of one executor, see `rota.executor.executor.Executor.expire`."""

    number: int
    executor: str
    before: Instant


class CertificateFiles(msgspec.Struct, frozen=True, array_like=True):
    """The paths of PEM files for a connection with TLS.

    Attributes:
        authority: The CA of the other side's certificate; empty for the CAs that the system trusts.
        certificate: The certificate of this side; empty for none.
        key: The key of *certificate*.
    """

    authority: str = ""
    certificate: str = ""
    key: str = ""


class OnDeathRequest(msgspec.Struct, frozen=True, array_like=True):
    """A complete HTTP request that the warden sends after the end of the node's process.

    Attributes:
        urls: The alternative receivers; one answer is enough.
        body: The body.
        headers: Headers besides those of every request.
        includes_held: True if the body sent is a pair in MessagePack: *body*, and the keys of the
            attempts that the warden holds, or nil if there are more than `HELD_KEYS_MAX`.
        certificates: The files for URLs with https.
        server_name: The name that the receiver's certificate must have; empty for the host.
    """

    urls: tuple[str, ...]
    body: bytes
    headers: dict[str, str] = {}
    includes_held: bool = False
    certificates: CertificateFiles = CertificateFiles()
    server_name: str = ""


HELD_KEYS_MAX = 5_000
"""The largest number of keys in one request, which then has some hundred kilobytes."""


class OnDeath(msgspec.Struct, frozen=True, array_like=True, tag="will"):
    """The requests to be sent after the end of this node's process; the last message counts."""

    requests: tuple[OnDeathRequest, ...]


class Beat(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
    """A heartbeat, to be answered by `Beaten`."""


class Retire(msgspec.Struct, frozen=True, array_like=True, tag="retire"):
    """End all attempts within *grace* each, then the warden."""

    grace: Duration


ToWarden = Hello | Launch | Allow | Stop | Forget | Read | Expire | OnDeath | Beat | Retire

# -- to the node -----------------------------------------------------------------------------------


class Held(msgspec.Struct, frozen=True, array_like=True, tag="held"):
    """An attempt that the warden holds, as part of the answer to `Hello`.

    Attributes:
        order: The order of its launch.
        ending: Its ending; None while it runs.
        report: Its newest report; None without any.
    """

    order: Order
    ending: Ending | None
    report: Report | None


class Met(msgspec.Struct, frozen=True, array_like=True, tag="met"):
    """The end of the answer to `Hello`.

    Attributes:
        version: The version of the warden; without `Held` messages if it is not the node's.
        made_of: A digest, see `rota.executor.warden.hosted_executors.digest_of`.
    """

    version: int
    made_of: str


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """An attempt has ended."""

    key: AttemptKey
    ending: Ending


class Reported(msgspec.Struct, frozen=True, array_like=True, tag="reported"):
    """A report of a running attempt."""

    key: AttemptKey
    report: Report


class Data(msgspec.Struct, frozen=True, array_like=True, tag="data"):
    """The answer to `Read`.

    Attributes:
        number: The number of the request.
        is_kept: True if the output, or a part of it, is kept.
        is_complete: True if no more is written to it.
        part: The bytes from the requested offset.
        error: The error of the read; empty without one.
    """

    number: int
    is_kept: bool = False
    is_complete: bool = True
    part: bytes = b""
    error: str = ""


class Expired(msgspec.Struct, frozen=True, array_like=True, tag="expired"):
    """The answer to `Expire`."""

    number: int
    count: int


class Beaten(msgspec.Struct, frozen=True, array_like=True, tag="beaten"):
    """The answer to `Beat`."""


ToNode = Held | Met | Ended | Reported | Data | Expired | Beaten

# -- frames ----------------------------------------------------------------------------------------

UNENCODABLE = (TypeError, ValueError, OverflowError)
"""The errors of `encode`; a UnicodeEncodeError is a ValueError."""
_ENCODER = msgspec.msgpack.Encoder()
_ARRAY_32 = b"\xdd"  # In MessagePack, the first byte of an array whose length has four bytes.


def encode(message: ToWarden | ToNode) -> bytes:
    """Return the bytes of a message in a frame.

    Raises:
        OverflowError: A number has more than 64 bits.
        UnicodeEncodeError: A text cannot be encoded in UTF-8.
    """
    return _ENCODER.encode(message)


def frames(messages: "Iterable[ToWarden] | Iterable[ToNode]") -> Iterator[bytes]:
    """Yield *messages* in frames; a frame is complete once it has `FRAME_BYTES`."""
    return frames_of(map(encode, messages))


def frames_of(encoded: Iterable[bytes]) -> Iterator[bytes]:
    """Yield encoded messages in frames; a frame is complete once it has `FRAME_BYTES`."""
    parts: list[bytes] = []
    size = 0
    for part in encoded:
        parts.append(part)
        size += len(part)
        if size >= FRAME_BYTES:
            yield _frame(parts, size)
            parts, size = [], 0
    if parts:
        yield _frame(parts, size)


def _frame(parts: list[bytes], size: int) -> bytes:
    length = len(_ARRAY_32) + 4 + size
    return b"".join((length.to_bytes(4), _ARRAY_32, len(parts).to_bytes(4), *parts))


FRAME_BYTES_MAX = 256 << 20
"""The longest accepted frame: as long as all request bodies that a node accepts at once.

A longer frame does not belong to this protocol, and would only fill the memory.
"""


class Reader(Generic[T]):
    """Decoder of the messages in received bytes, which may be split anywhere.

    Args:
        decoder: The decoder of the array in a frame.
    """

    def __init__(self, decoder: "msgspec.msgpack.Decoder[list[T]]") -> None:
        self._decoder = decoder
        self._kept = bytearray()

    def feed(self, data: bytes) -> Iterator[T]:
        """Add *data*, and yield the messages of all complete frames.

        Raises:
            UNDECODABLE: The bytes are not of this protocol (`rota.core.decoding`).
        """
        self._kept += data
        start = 0
        while len(self._kept) >= start + 4:
            length = int.from_bytes(self._kept[start : start + 4])
            if length > FRAME_BYTES_MAX:
                raise msgspec.DecodeError(f"a frame of {length} bytes is too long")
            end = start + 4 + length
            if len(self._kept) < end:
                break
            yield from self._decoder.decode(memoryview(self._kept)[start + 4 : end])
            start = end
        del self._kept[:start]


def warden_reader() -> Reader[ToWarden]:
    """Return a reader of messages to the warden."""
    return Reader(msgspec.msgpack.Decoder(list[ToWarden]))


def node_reader() -> Reader[ToNode]:
    """Return a reader of messages to the node."""
    return Reader(msgspec.msgpack.Decoder(list[ToNode]))
