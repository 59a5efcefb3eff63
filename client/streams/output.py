"""Output that is followed over lost connections, without repeating or losing a byte.

A node sends what an attempt wrote from its beginning. Where that begins with exactly what was
passed on before the connection was lost, the rest goes on from there. It does not where the output
is no longer kept from its beginning: then only its end is, and what lies between is gone.
"""

from hashlib import blake2b

from rota.client.errors import OutputBroken
from rota.client.transport.call import Call
from rota.wire.documents import ExecutionView

SILENCE_S = 60.0
"""How long an attempt may write nothing until it is asked whether the connection still is one."""


def latest_attempt(execution: ExecutionView, task: str) -> int | None:
    """Return the number of the latest attempt of *task*; None if there is none, or no such task."""
    found = (execution.tasks or {}).get(task)
    return len(found.attempts) or None if found else None


class FollowedOutput:
    """What has been passed on of an attempt's output.

    Args:
        call: The request for it.

    Attributes:
        byte_count: How much.
    """

    def __init__(self, call: Call[bytes]) -> None:
        self._call = call
        self.byte_count = 0
        self._passed_on = blake2b()
        self._repeated = blake2b()
        self._repeated_count = 0

    @property
    def is_repeating(self) -> bool:
        """Whether what comes now has been passed on before."""
        return self._repeated_count < self.byte_count

    def next_call(self) -> Call[bytes]:
        """Return the request for everything, again from its beginning."""
        self._repeated = blake2b()
        self._repeated_count = 0
        return self._call

    def new_of(self, part: bytes) -> bytes:
        """Return what of *part* has not been passed on yet.

        Raises:
            OutputBroken: What was passed on does not come again as it was.
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
            OutputBroken: Less came again than was passed on.
        """
        if self.is_repeating:
            raise _broken(self.byte_count)


def _broken(byte_count: int) -> OutputBroken:
    return OutputBroken(
        f"the connection was lost after {byte_count} bytes of output, and the node keeps it no "
        "longer from its beginning; read what is kept without following it"
    )
