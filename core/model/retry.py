"""Retry policies: whether and when a failed task is tried again.

Only failures of the task itself count: an attempt lost with its node does not use up a retry
(PROTOCOL R36). The random part of the delay is drawn once, from the entropy of the decision, and
stored with the task, so neither a replay nor another primary draws it again.
"""

from collections.abc import Iterable

import msgspec

from rota.core.model.attempt import Ending, Outcome, Raised
from rota.core.timing.instants import MINUTE, SECOND, Duration, Instant

RETRIES_MAX = 1_000
DELAY_MAX = Duration(365 * 24 * 60 * MINUTE)
_JITTER_STEPS = 1 << 20


class Fixed(msgspec.Struct, frozen=True, kw_only=True, tag="fixed"):
    """The same delay before every retry."""

    delay: Duration


class Exponential(msgspec.Struct, frozen=True, kw_only=True, tag="exponential"):
    """A delay that grows by *factor* with every failure, up to *delay_max*."""

    first: Duration = SECOND
    factor: float = 2.0
    delay_max: Duration = Duration(5 * MINUTE)


class Linear(msgspec.Struct, frozen=True, kw_only=True, tag="linear"):
    """A delay that grows by *step* with every failure, up to *delay_max*."""

    step: Duration = SECOND
    delay_max: Duration = Duration(5 * MINUTE)


class Explicit(msgspec.Struct, frozen=True, kw_only=True, tag="explicit"):
    """A list of delays, one for each retry; the last one repeats when there are more retries."""

    delays: tuple[Duration, ...]


Backoff = Fixed | Linear | Exponential | Explicit


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often and when a failed task is tried again.

    Attributes:
        limit: Retries after the first attempt; 0 for none, at most `RETRIES_MAX`.
        backoff: The delay between the end of one attempt and the next.
        jitter: The largest share of the delay, 0 to 1, that is added to it at random.
        on_exit_codes: Retry only after these exit codes; empty for any failure.
        never_on_exit_codes: Never retry after these; takes precedence over other fields.
        on_exceptions: Retry only after these exceptions and subclasses; qualified names, or their
            last parts. With *on_exit_codes*: after either.
        never_on_exceptions: Never retry after these; takes precedence over other fields.
        on_causes: Retry only after these causes (`causes_of`); with the other lists: after any.
        never_on_causes: Never retry after these; takes precedence over other fields.
        elapsed_max: No retry begins later than this after the start of the first attempt; 0 for no
            limit.
    """

    limit: int = 0
    backoff: Backoff = msgspec.field(default_factory=Exponential)
    jitter: float = 0.0
    on_exit_codes: tuple[int, ...] = ()
    never_on_exit_codes: tuple[int, ...] = ()
    on_exceptions: tuple[str, ...] = ()
    never_on_exceptions: tuple[str, ...] = ()
    on_causes: tuple[str, ...] = ()
    never_on_causes: tuple[str, ...] = ()
    elapsed_max: Duration = Duration(0)


TIMEOUT = "timeout"
OUT_OF_MEMORY = "out_of_memory"
# fmt: off
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP",
    6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1",
    11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    16: "SIGSTKFLT", 17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP",
    21: "SIGTTIN", 22: "SIGTTOU", 23: "SIGURG", 24: "SIGXCPU", 25: "SIGXFSZ",
    26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO", 30: "SIGPWR",
    31: "SIGSYS",
}
# fmt: on
"""The names of Linux's signals by number, signal(7)."""
CAUSES = frozenset({TIMEOUT, OUT_OF_MEMORY, *SIGNALS.values()})
"""The causes of failures without an exit code."""


def causes_of(ending: Ending) -> frozenset[str]:
    """Return why an attempt ended without an exit code: a member of `CAUSES`, or nothing.

    The signal that ends an attempt at its time limit or its memory limit is not a cause.
    """
    if ending.is_out_of_memory:
        return frozenset({OUT_OF_MEMORY})
    if ending.outcome is Outcome.TIMED_OUT:
        return frozenset({TIMEOUT})
    return frozenset({SIGNALS[ending.signal]} if ending.signal in SIGNALS else ())


LOSSES_AT_ONCE = 2
"""The number of losses in a row up to which a task restarts at once."""
LOSS_DELAY = SECOND
LOSS_DELAY_MAX = MINUTE


def delay_after_losses(losses: int) -> Duration:
    """Return the delay of a task whose last *losses* attempts, at least one, were lost.

    Without a delay, a task that crashes its nodes or wardens would do so many times a second. The
    delay is 1 s after the third loss in a row, and doubles with each further loss, up to 60 s.
    """
    if losses <= LOSSES_AT_ONCE:
        return Duration(0)
    # The exponent is bounded first, so that a hundred losses make no number of 30 digits.
    doublings = min(losses - LOSSES_AT_ONCE - 1, 6)
    return Duration(min(LOSS_DELAY << doublings, LOSS_DELAY_MAX))


def next_attempt_at(
    policy: RetryPolicy,
    failures: int,
    *,
    exit_code: int,
    raised: Raised | None = None,
    causes: frozenset[str] = frozenset(),
    elapsed: Duration = Duration(0),
    ended_at: Instant,
    entropy: int,
) -> Instant | None:
    """Return the instant of the retry after *failures* failed attempts; None if there is no retry.

    Args:
        policy: The task's policy.
        failures: The number of failed attempts so far, including the one that just ended.
        exit_code: The exit code of the attempt that just ended; -1 if it had none.
        raised: The exception with which the attempt ended, if any.
        causes: The causes of the end of the attempt (`causes_of`).
        elapsed: The time from the start of the first attempt to *ended_at*.
        ended_at: When the attempt ended.
        entropy: At least 20 random bits for the jitter.
    """
    if failures > policy.limit or not _may_retry_after(policy, exit_code, raised, causes):
        return None
    delay = _delay(policy.backoff, failures)
    share = policy.jitter * (entropy % _JITTER_STEPS) / _JITTER_STEPS
    pause = delay + int(delay * share)
    if policy.elapsed_max and elapsed + pause > policy.elapsed_max:
        return None
    return Instant(ended_at + pause)


def _may_retry_after(
    policy: RetryPolicy, exit_code: int, raised: Raised | None, causes: frozenset[str]
) -> bool:
    if (
        exit_code in policy.never_on_exit_codes
        or _is_any(raised, policy.never_on_exceptions)
        or not causes.isdisjoint(policy.never_on_causes)
    ):
        return False
    if not policy.on_exit_codes and not policy.on_exceptions and not policy.on_causes:
        return True
    return (
        exit_code in policy.on_exit_codes
        or _is_any(raised, policy.on_exceptions)
        or not causes.isdisjoint(policy.on_causes)
    )


def _is_any(raised: Raised | None, names: Iterable[str]) -> bool:
    """Return True if the class of *raised*, or one of its base classes, is in *names*."""
    if raised is None:
        return False
    classes = {raised.type, *raised.bases}
    classes |= {name.rpartition(".")[2] for name in classes}
    return not classes.isdisjoint(names)


def _delay(backoff: Backoff, failures: int) -> Duration:
    match backoff:
        case Fixed():
            return backoff.delay
        case Linear():
            return Duration(min(backoff.step * failures, backoff.delay_max))
        case Exponential():
            # The exponent is bounded first: 2.0 ** 1024 does not fit in a float.
            grown = backoff.first * backoff.factor ** min(failures - 1, 64)
            return Duration(int(min(grown, backoff.delay_max)))
        case Explicit():
            return backoff.delays[min(failures, len(backoff.delays)) - 1]
