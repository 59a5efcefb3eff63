"""The seam between a node and the executors of its attempts.

An executor uses callbacks, not coroutines, because a node has thousands of attempts and must not
have an asyncio task for each. Everything here is called on one event loop.

The rules, which the contract suite checks on every implementation:

- `Executor.launch` returns at once and never raises because of the order. An error in the order
  becomes an ending with the outcome ``failed`` and a reason.
- `Ended` is called exactly once for each launched attempt, on the loop, and never from inside
  `Executor.launch` or `Executor.stop`.
- The outcome shows what ended the attempt. A stopped attempt is ``cancelled`` even if it then exits
  with 0; an attempt that had ended before the stop keeps its outcome.
- `Reported` may be called any number of times between `Executor.launch` and `Ended`; the last
  progress and the last checkpoint count.
"""

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeAlias

from rota.core.model.attempt import AttemptKey, Ending, Order, Report
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.secret_values import NO_SECRETS, SecretValues

Ended: TypeAlias = Callable[[AttemptKey, Ending], None]
"""The function that an executor calls when an attempt has ended."""

Reported: TypeAlias = Callable[[AttemptKey, Report], None]
"""The function that an executor calls when an attempt reports progress or a checkpoint."""

READ_BYTES = 65_536
"""The number of bytes of an output that are read at once: the capacity of a pipe."""

CLOSE_GRACE = Duration(10 * SECOND)
"""The longest grace of attempts when an executor closes: the default grace of a task."""


def merged(before: Report | None, report: Report) -> Report:
    """Return two reports of an attempt as one; values of the later one take precedence."""
    if before is None:
        return report
    return Report(
        percent=before.percent if report.percent is None else report.percent,
        checkpoint=before.checkpoint if report.checkpoint is None else report.checkpoint,
    )


class Output(Protocol):
    """The kept output of one attempt, stdout and stderr together.

    Offsets count the kept bytes, including the truncation mark at the end.
    """

    @property
    def is_complete(self) -> bool:
        """Whether the attempt has ended, so that there will be no more output."""
        ...

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """Return up to *limit* bytes from *offset*; empty if there are none yet, or no more."""
        ...

    def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield the kept output from *offset* on, as it arrives, until the attempt has ended.

        A slow reader needs no buffer: parts are read on demand.
        """
        ...


class Executor(Protocol):
    """A runner of attempts, which reports the end of each attempt.

    The constructor of an executor takes an `Ended` and a clock, and also a `Reported` if attempts
    can send reports while they run.
    """

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Begin an attempt. Launching a key twice, or after `close`, is a bug of the caller.

        Args:
            order: The attempt.
            secrets: The values of the secrets that the order names; they are passed to the task,
                and neither written to a disk nor kept in its output.
        """
        ...

    def resume(self, order: Order) -> None:
        """Resume an attempt that this executor launched before a restart.

        This is like `launch`, but nothing is started: an attempt that no longer exists or cannot be
        resumed ends as ``lost``. Its remaining processes have been killed by then, so its task may
        restart.
        """
        ...

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Send TERM to an attempt, and KILL after *grace*.

        No effect on an attempt that is unknown or has ended. A further call can only shorten the
        grace; zero kills at once.

        Args:
            key: The attempt.
            grace: Replaces the grace in the attempt's work, as for a node that lost its lease.
        """
        ...

    async def output(self, key: AttemptKey) -> Output | None:
        """Return the output of a running attempt, or the kept output of one that ended.

        None if nothing is kept here: the attempt never ran here, its output has expired, or it
        has ended and its whole output is in `Ending.output`.
        """
        ...

    async def expire(self, before: Instant) -> int:
        """Remove kept outputs written before *before*, and the oldest above the size limit.

        One call removes a bounded number; a node calls it periodically.

        Returns:
            The number of removed outputs.
        """
        ...

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Stop every attempt and return when all have ended; each is reported as usual.

        Args:
            grace: The longest grace of an attempt, even if its work has a longer one.
        """
        ...
