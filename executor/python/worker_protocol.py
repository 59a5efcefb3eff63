"""The protocol between the executor and a worker: its command line, and frames on a socket.

A frame is four bytes of length, big-endian, then JSON. The executor sends calls, one at a time. The
worker sends one `Ready`, then for each call any number of `TaskReport` and one `Ended`. A worker
ends when its socket is closed.

A worker runs users' code, which can write to its socket, so no message is trusted: malformed
messages raise `Garbled`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.attempt import CHECKPOINT_BYTES_MAX, RESULT_BYTES_MAX, Raised
from rota.core.model.checked_fields import Count

PROGRAM = str(Path(__file__).with_name("worker.py"))

FRAME_BYTES_MAX = 2 * RESULT_BYTES_MAX + (1 << 20)
"""Room for an exception and a result; the result is text in JSON, so each quote takes two bytes."""

_HEAD = 4


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a worker, passed at its start as JSON in its only argument.

    Attributes:
        control: The descriptor of its end of the socket.
        path: The first folders of its module search path.
        folder: The working directory of calls.
        is_private: True if *folder* is emptied after each call.
        reloads_code: Whether to restart before a call if loaded code has changed on disk.
        pending: The descriptor of the call with which a restarted worker begins; -1 without one.
    """

    control: int
    path: tuple[str, ...]
    folder: str
    is_private: bool
    reloads_code: bool
    pending: int = -1


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A function to be called.

    Attributes:
        function: The function, as ``module:function``.
        arguments: The arguments as JSON, or empty.
        variables: The environment variables for the time of the call.
        checkpoint: The last checkpoint as JSON, or empty.
        results: The results of needed tasks as a JSON object, or empty.
    """

    function: str
    arguments: str
    variables: dict[str, str]
    checkpoint: str
    results: str = ""


class Ready(msgspec.Struct, frozen=True, tag_field="type", tag="ready"):
    """The worker waits for its first call."""


class TaskReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="told"):
    """A report of the function: its progress or a checkpoint. Its name on the wire is ``told``.

    Attributes:
        percent: The progress in percent; None if the report has none.
        checkpoint: The checkpoint as JSON; None if the report has none.
    """

    percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        """Refuse a checkpoint above the limit of a report."""
        _check_size("checkpoint", self.checkpoint or "", CHECKPOINT_BYTES_MAX)


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ended"):
    """The call has ended, and all that it wrote is in the pipe.

    Attributes:
        exit_code: The equivalent exit code of a program; -1 if there was no function to call.
        reason: The reason of a failure; empty for a success.
        result: The result as JSON, or empty.
        raised: The exception that ended the call, or None.
        is_interrupted: True if the call ended because of TERM.
        cpu: The processor time of the call, in microseconds.
        memory_peak: The highest resident memory during the call, in bytes.
        resident: The worker's resident memory after the call, in bytes.
        is_spent: True if the worker should get no further call.
    """

    exit_code: Annotated[int, msgspec.Meta(ge=-1, le=255)] = 0
    reason: str = ""
    result: str = ""
    raised: Raised | None = None
    is_interrupted: bool = False
    cpu: Count = 0
    memory_peak: Count = 0
    resident: Count = 0
    is_spent: bool = False

    def __post_init__(self) -> None:
        """Refuse a result above the limit of an ending."""
        _check_size("result", self.result, RESULT_BYTES_MAX)


def _check_size(what: str, text: str, limit: int) -> None:
    if len(text.encode()) > limit:
        raise ValueError(f"a {what} of more than {limit} bytes")


Message = Ready | TaskReport | Ended


class Garbled(Exception):
    """Bytes received from a worker are not a valid message."""


def framed(call: Call) -> bytes:
    """Return the frame of *call*."""
    body = _ENCODER.encode(call)
    return len(body).to_bytes(_HEAD, "big") + body


class Frames:
    """Decoder of messages from the parts that a socket delivers."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def messages(self, part: bytes) -> Iterator[Message]:
        """Yield the messages that *part* completes.

        Raises:
            Garbled: A message is malformed, does not fit the record of an attempt, or is longer
                than `FRAME_BYTES_MAX`.
        """
        self._buffer += part
        while len(self._buffer) >= _HEAD:
            size = int.from_bytes(self._buffer[:_HEAD], "big")
            if size > FRAME_BYTES_MAX:
                raise Garbled(f"a message of {size} bytes")
            if len(self._buffer) < _HEAD + size:
                return
            body = bytes(self._buffer[_HEAD : _HEAD + size])
            del self._buffer[: _HEAD + size]
            try:
                yield _DECODER.decode(body)
            except UNDECODABLE as error:
                raise Garbled(str(error)) from error


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder[Message](Message)
