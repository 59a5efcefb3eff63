"""The seam between a node and whatever runs its attempts.

An executor is driven by callbacks, not by coroutines: a node keeps thousands of attempts and
must not keep an asyncio task for each. Everything here is called on one event loop.

The rules, which the contract suite checks on every implementation:

- `Executor.launch` returns at once and never raises for what the order says. Whatever is wrong
  with it becomes an ending with the outcome ``failed`` and a reason.
- `Ended` is called exactly once for each launched attempt, on the loop, and never from inside
  `Executor.launch` or `Executor.stop`.
- The outcome says who ended the attempt. One that was told to stop is ``cancelled`` even if it
  then exits with 0; one that had ended before is what it was.
- `Reported` may be called any number of times between the two; the last of each kind counts.
"""

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeAlias

from rota.core.model.attempt import AttemptKey, Ending, Order, Report
from rota.core.timing.instants import SECOND, Duration, Instant

Ended: TypeAlias = Callable[[AttemptKey, Ending], None]
"""What an executor calls when an attempt has ended."""

Reported: TypeAlias = Callable[[AttemptKey, Report], None]
"""What an executor calls when a running attempt tells of itself."""

READ_BYTES = 65_536
"""How much of an output is handed over at once: what a pipe holds."""

CLOSE_GRACE = Duration(10 * SECOND)
"""How long a closing executor lets attempts react to TERM: the default grace of a task."""


def merged(before: Report | None, report: Report) -> Report:
    """Return what counts of two reports of an attempt, the earlier first."""
    if before is None:
        return report
    return Report(
        percent=before.percent if report.percent is None else report.percent,
        checkpoint=before.checkpoint if report.checkpoint is None else report.checkpoint,
    )


class Output(Protocol):
    """What one attempt has written, stdout and stderr together, as far as it is kept.

    Offsets count bytes of what is kept, the truncation mark at its end included.
    """

    @property
    def is_complete(self) -> bool:
        """Whether the attempt has ended, so that no more will come."""
        ...

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """Return up to *limit* bytes from *offset*; empty where there are none yet, or no more."""
        ...

    def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield what is kept from *offset* on, as it comes, until the attempt has ended.

        A slow reader costs nothing: parts are read when they are asked for.
        """
        ...


class Executor(Protocol):
    """Runs attempts and tells how each ended.

    Constructed with an `Ended`, a clock and, where attempts can tell of themselves, a `Reported`.
    """

    def launch(self, order: Order) -> None:
        """Begin an attempt. Launching a key twice, or after `close`, is a bug of the caller."""
        ...

    def resume(self, order: Order) -> None:
        """Go on with an attempt that an earlier life of this executor launched.

        As `launch`, but nothing is begun: what is not there any more, or cannot be taken up, is
        ended as ``lost``. Its remains have been killed by then, so it may be started again.
        """
        ...

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Ask an attempt to end (TERM), and end it after *grace* (KILL).

        No effect on an attempt that is unknown or has ended. Asking again may only shorten the
        grace; zero kills at once.

        Args:
            key: Which attempt.
            grace: Instead of the grace in its work; for a node that has lost its lease.
        """
        ...

    async def output(self, key: AttemptKey) -> Output | None:
        """Return the output of a running attempt, or the kept output of one that ended.

        None when nothing is kept here: the attempt never was here, its output has expired, or it
        ended and all it wrote is in `Ending.output`.
        """
        ...

    async def expire(self, before: Instant) -> int:
        """Remove kept outputs written before *before*, and the oldest ones above the size limit.

        Returns:
            How many were removed. One call removes a bounded number; a node calls it now and then.
        """
        ...

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Stop every attempt and return when all have ended; each is reported as usual.

        Args:
            grace: The longest grace that an attempt gets, whatever its work says.
        """
        ...
