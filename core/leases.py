"""Until when an attempt may go on away from its shard's primary, and when it is lost.

Whoever runs an attempt stops first. Its time counts from before it asked for a lease and runs out
early; the primary counts from when it gave the lease, waits longer, and leaves time for the kill
(PROTOCOL R36, R37). So a task starts again only when its last attempt has ended, or was killed.
"""

from rota.core.instants import Duration, Instant, later
from rota.core.replication.timing import DRIFT_PERCENT, Timing

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
    stretched = timing.attempt_lease * (100 + 2 * DRIFT_PERCENT) // 100
    return Duration(max(timing.session, stretched) + timing.kill_grace)


def is_lost(
    timing: Timing, *, gone_since: Instant | None, trusted_at: Instant, now: Instant
) -> bool:
    """Tell whether no attempt of a session can still run.

    Args:
        timing: The cluster's.
        gone_since: Since when the session has been seen gone; None if it is not. It must have been
            for as long as it lives: a coordinator that loses sessions before their time takes
            nothing from nodes that count on theirs.
        trusted_at: When its node was last given a lease here, or, if that is later, when this node
            became primary: until then another may have given one.
        now: By the clock of both.
    """
    if gone_since is None or now - gone_since < timing.session:
        return False
    stretched = timing.attempt_lease * (100 + 2 * DRIFT_PERCENT) // 100
    return now - trusted_at > stretched + timing.kill_grace
