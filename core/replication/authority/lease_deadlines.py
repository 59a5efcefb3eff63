"""Lease deadlines of remote attempts, and when an attempt counts as lost.

The node that runs an attempt stops it first: it counts a lease from before its request and ends it
early. The primary counts from when it granted the lease, waits longer, and allows for the time of
the kill (PROTOCOL R36, R37). So a task restarts only after its last attempt ended or was killed.
"""

from rota.core.replication.timeouts import DRIFT_PERCENT, Timing
from rota.core.timing.instants import Duration, Instant, later

NEVER = Instant(0)
"""An instant before any time of a node's own clock."""


def lease_end(timing: Timing, asked_at: Instant) -> Instant:
    """Return when a lease that was requested at *asked_at* ends for the requesting node."""
    return later(asked_at, Duration(timing.attempt_lease * (100 - DRIFT_PERCENT) // 100))


def deadline(session_end: Instant, leased_until: Instant) -> Instant:
    """Return when an attempt is to be killed.

    The attempt may run until both its session and its lease have ended, because the primary waits
    for both ends.

    Args:
        session_end: The end of the session under which its start was recorded; `NEVER` if unknown.
        leased_until: The end of the lease in the newest answer of its shard's primary; `NEVER` if
            there was no answer.
    """
    return max(session_end, leased_until)


def outlasting(timing: Timing) -> Duration:
    """Return the time that attempts may run after the end of the process that requested leases."""
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

    All instants are of the primary's clock.

    Args:
        timing: The durations of the cluster.
        gone_since: When the session was first seen to be gone; None if it is alive. It must have
            been gone for its time to live, because a coordinator that loses sessions early does not
            invalidate those that nodes rely on.
        given_at: When this primary last granted a lease to the session's node; `NEVER` if it did
            not.
        opened_at: When this node became primary. The previous primary may rely on a session that
            the coordinator ended early, and grant leases for a session's time to live.
        now: The current instant.
    """
    if gone_since is None or now - gone_since < _stretched(timing.session + timing.kill_grace):
        return False
    trusted_at = max(given_at, later(opened_at, _stretched(timing.session)))
    return now - trusted_at > _stretched(timing.attempt_lease) + timing.kill_grace


def _stretched(duration: int) -> Duration:
    """Return *duration*, measured by the slowest clock, as the fastest clock may measure it."""
    return Duration(duration * (100 + 2 * DRIFT_PERCENT) // 100)
