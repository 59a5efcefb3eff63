"""Output that is followed over several connections, without repeating or losing a byte.

A node sends the output of an attempt from its beginning. If the output starts with exactly the
bytes that were passed on before the connection was lost, the rest is passed on. If the node no
longer stores the beginning, it sends only the end, and the part in between is lost.
"""

from hashlib import blake2b

from rota.client.errors import OutputBroken
from rota.client.transport.call import Call
from rota.wire.documents import ExecutionView

SILENCE_S = 60.0
"""The number of seconds without output after which a connection counts as lost."""


def latest_attempt(execution: ExecutionView, task: str) -> int | None:
    """Return the number of the latest attempt of *task*; None without an attempt or such a task."""
    found = (execution.tasks or {}).get(task)
    return len(found.attempts) or None if found else None


class FollowedOutput:
    """The part of an attempt's output that has been passed on.

    Args:
        call: The request for the output.

    Attributes:
        byte_count: The number of bytes that have been passed on.
    """

    def __init__(self, call: Call[bytes]) -> None:
        self._call = call
        self.byte_count = 0
        self._passed_on = blake2b()
        self._repeated = blake2b()
        self._repeated_count = 0

    @property
    def is_repeating(self) -> bool:
        """Whether the next received bytes have already been passed on."""
        return self._repeated_count < self.byte_count

    def next_call(self) -> Call[bytes]:
        """Return the request for the whole output, from its beginning."""
        self._repeated = blake2b()
        self._repeated_count = 0
        return self._call

    def new_of(self, part: bytes) -> bytes:
        """Return the bytes of *part* that have not been passed on yet.

        Raises:
            OutputBroken: The bytes that were passed on are not repeated identically.
        """
        repeated = part[: self.byte_count - self._repeated_count]
        if repeated:
            self._repeated.update(repeated)
            self._repeated_count += len(repeated)
            if not self.is_repeating and self._repeated.digest() != self._passed_on.digest():
                raise _broken(self.byte_count)
        new = part[len(repeated) :]
        self._passed_on.update(new)
        self.byte_count += len(new)
        self._repeated_count += len(new)
        return new

    def end(self) -> None:
        """Check that nothing is missing at the end.

        Raises:
            OutputBroken: Fewer bytes were repeated than had been passed on.
        """
        if self.is_repeating:
            raise _broken(self.byte_count)


def _broken(byte_count: int) -> OutputBroken:
    return OutputBroken(
        f"the connection was lost after {byte_count} bytes of output, and the node no longer "
        "stores the output from its beginning; read the stored output without following it"
    )
