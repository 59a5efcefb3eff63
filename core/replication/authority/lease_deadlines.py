"""Until when an attempt may go on away from its shard's primary, and when it is lost.

Whoever runs an attempt stops first. Its time counts from before it asked for a lease and runs out
early; the primary counts from when it gave the lease, waits longer, and leaves time for the kill
(PROTOCOL R36, R37). So a task starts again only when its last attempt has ended, or was killed.
"""

from rota.core.replication.timeouts import DRIFT_PERCENT, Timing
from rota.core.timing.instants import Duration, Instant, later

NEVER = Instant(0)
"""Before everything that a node's own clock shows."""


def lease_end(timing: Timing, asked_at: Instant) -> Instant:
    """Return until when a lease holds that was asked for at *asked_at*, for who asked."""
    return later(asked_at, Duration(timing.attempt_lease * (100 - DRIFT_PERCENT) // 100))


def deadline(session_end: Instant, leased_until: Instant) -> Instant:
    """Return when an attempt is to be killed.

    One reason to go on is enough, as the primary waits for both to be over.

    Args:
        session_end: Of the session under which its start was recorded; `NEVER` if unknown.
        leased_until: By the newest answer of its shard's primary; `NEVER` without any.
    """
    return max(session_end, leased_until)


def outlasting(timing: Timing) -> Duration:
    """Return for how long attempts may run after the process ended that asked for their leases."""
    return Duration(max(timing.session, _stretched(timing.attempt_lease)) + timing.kill_grace)


def is_lost(
    timing: Timing,
    *,
    gone_since: Instant | None,
    given_at: Instant,
    opened_at: Instant,
    now: Instant,
) -> bool:
    """Return True if no attempt of a session can still run.

    All instants are of the clock of the primary that asks.

    Args:
        timing: The cluster's.
        gone_since: Since when the session has been seen gone; None if it is not. It must have been
            for as long as it lives: a coordinator that loses sessions before their time takes
            nothing from nodes that count on theirs.
        given_at: When its node was last given a lease here; `NEVER` if it was not.
        opened_at: When this node became primary. The one before may count on a session that the
            coordinator ended before its time, and give leases for as long as a session lives.
        now: The present.
    """
    if gone_since is None or now - gone_since < timing.session:
        return False
    trusted_at = max(given_at, later(opened_at, _stretched(timing.session)))
    return now - trusted_at > _stretched(timing.attempt_lease) + timing.kill_grace


def _stretched(duration: Duration) -> Duration:
    """Return *duration* as the fastest clock may count it that the slowest has measured."""
    return Duration(duration * (100 + 2 * DRIFT_PERCENT) // 100)
