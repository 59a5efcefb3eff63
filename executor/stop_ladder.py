"""The stop ladder of an attempt: TERM, a grace, KILL; for a stop on request and for a timeout."""

import asyncio
from collections.abc import Callable

from rota.core.model.attempt import Outcome
from rota.core.model.work import Work
from rota.core.timing.instants import SECOND, Duration, format_duration


class StopLadder:
    """The stop of one attempt, from the request or the timeout to the KILL.

    A stop that is requested before `start` takes effect in `start`. A further request can only
    shorten the grace. All methods are called on *loop*; attributes may be read in any thread.

    Args:
        loop: The loop that runs the timers.
        work: The work of the attempt, which has its timeout and its grace.
        has_ended: Returns True if the attempt has ended, even if its end is not handled on the
            loop yet: such an attempt keeps its own outcome.
        terminate: Sends TERM; called at most once, with `grace` set before.
        kill: Sends KILL; called once the grace has passed. Returns False if the attempt itself had
            ended, so that only its remaining processes were killed.
        stop_signal: The name of the first signal in `reason`.

    Attributes:
        outcome: ``cancelled`` or ``timed_out``; None if the attempt is not stopped.
        grace: The time between TERM and KILL.
        was_killed: Whether the attempt was killed, as it did not end within the grace.
    """

    __slots__ = (
        "_has_ended",
        "_is_over",
        "_is_running",
        "_kill",
        "_kill_timer",
        "_loop",
        "_stop_signal",
        "_terminate",
        "_timeout_timer",
        "_work",
        "grace",
        "outcome",
        "was_killed",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Work,
        *,
        has_ended: Callable[[], bool],
        terminate: Callable[[], None],
        kill: Callable[[], bool],
        stop_signal: str = "TERM",
    ) -> None:
        self.outcome: Outcome | None = None
        self.grace = Duration(0)
        self.was_killed = False
        self._loop = loop
        self._work = work
        self._has_ended = has_ended
        self._terminate = terminate
        self._kill = kill
        self._stop_signal = stop_signal
        self._is_running = False
        self._is_over = False
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._kill_timer: asyncio.TimerHandle | None = None

    def start(self, *, elapsed: Duration = Duration(0)) -> None:
        """Begin to enforce the timeout of an attempt that runs; carry out an earlier request.

        Args:
            elapsed: The time for which the attempt has run already.
        """
        self._is_running, self._is_over = True, False
        timeout = self._work.timeout
        if self.outcome is not None:
            self._climb(self.grace)
        elif timeout > 0:
            left_s = max(timeout - elapsed, 0) / SECOND
            self._timeout_timer = self._loop.call_later(left_s, self._timed_out)

    def stop(self, grace: Duration) -> None:
        """Stop the attempt on request, with *grace* between TERM and KILL.

        No effect on an attempt that has ended by itself, and none after `end`.
        """
        if self._is_over:
            return
        if not self._is_running:
            self.grace = grace if self.outcome is None else min(grace, self.grace)
            self.outcome = Outcome.CANCELLED
        elif self.outcome is not None or not self._has_ended():
            self.outcome = self.outcome or Outcome.CANCELLED
            self._climb(grace)

    def withdraw(self) -> None:
        """Forget a request that came before `start`, as the attempt had ended by then."""
        self.outcome = None

    def end(self) -> None:
        """Cancel the timers, as the attempt has ended; `start` may be called again."""
        self._is_over = True
        for timer in (self._timeout_timer, self._kill_timer):
            if timer is not None:
                timer.cancel()

    @property
    def is_in_grace(self) -> bool:
        """Whether TERM has been sent and KILL has not."""
        return self._kill_timer is not None and not self.was_killed

    @property
    def reason(self) -> str:
        """The cause and the way of the stop, in words; empty if the attempt was not stopped."""
        match self.outcome:
            case Outcome.CANCELLED:
                return f"stopped on request{self._killed}"
            case Outcome.TIMED_OUT:
                timeout = format_duration(self._work.timeout)
                return f"still running after its timeout of {timeout}{self._killed}"
            case _:
                return ""

    @property
    def _killed(self) -> str:
        if not self.was_killed:
            return ""
        if self.grace <= 0:
            return "; killed at once"
        grace = format_duration(self.grace)
        return f"; killed, as it had not ended {grace} after {self._stop_signal}"

    def _timed_out(self) -> None:
        if self.outcome is None and not self._has_ended():
            self.outcome = Outcome.TIMED_OUT
            self._climb(self._work.stop_grace)

    def _climb(self, grace: Duration) -> None:
        kill_at = self._loop.time() + grace / SECOND
        if self._kill_timer is None:
            self.grace = grace
            self._terminate()
        elif self.was_killed or kill_at >= self._kill_timer.when():
            return
        else:
            self._kill_timer.cancel()
            self.grace = grace
        self._kill_timer = self._loop.call_at(kill_at, self._grace_over)
        if grace <= 0:
            # Now, not in the next turn of the loop: a node that lost its lease has no time left.
            self._grace_over()

    def _grace_over(self) -> None:
        if not self.was_killed:
            self.was_killed = self._kill()


def may_have_result(outcome: Outcome, exit_code: int) -> bool:
    """Return True if the result of an attempt with this end may be needed.

    An attempt that is stopped with its node and ends with 0 counts as succeeded there.
    """
    return outcome is Outcome.SUCCEEDED or (outcome is Outcome.CANCELLED and exit_code == 0)
