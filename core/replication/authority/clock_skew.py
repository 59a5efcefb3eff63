"""Clock skew: the comparison of this node's wall clock with those of other nodes (PROTOCOL R20).

Nodes exchange the readings of their clocks in `Beacon`, and return an estimate of the other's:

    a: wall 12:00:00.000, monotonic 500                                      ----->
       <-----  b: wall 12:00:00.050, monotonic 9000, yours is at least 500 + 30

When b's message arrives, a's monotonic clock shows 532. So at most 2 ms passed on the way, and b's
wall clock was read within that time; its difference from a's is known to within half of that.

A reading is stored relative to this node's monotonic clock, not to its wall clock. So if the wall
clock is set, the difference from all others changes at once, without any further message.
"""

from dataclasses import dataclass

from rota.core.model.ids import NodeId
from rota.core.replication.messages import Beacon
from rota.core.replication.timeouts import DRIFT_PERCENT
from rota.core.timing.instants import SECOND, Duration, Instant

READING_MAX_AGE = Duration(10 * SECOND)
"""The age above which a reading no longer counts: many heartbeats, and a takeover."""
ECHO_MAX_AGE = Duration(2 * SECOND)
"""The age above which another node's time is not returned: drift would make it inexact."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading of another node's wall clock.

    Attributes:
        ahead: The wall clock's difference from this node's monotonic clock, in microseconds.
        error: The largest error of that difference when it was read, in microseconds.
        at: When the wall clock was read.
    """

    ahead: int
    error: int
    at: Instant

    def error_at(self, now: Instant) -> int:
        """Return the largest error at *now*; it grows because clocks run at different rates."""
        return self.error + (now - self.at) * DRIFT_PERCENT // 100


@dataclass(frozen=True, slots=True)
class _Monotonic:
    """The last monotonic time that another node sent, and when it arrived."""

    theirs: Instant
    at: Instant


class ClockSkew:
    """One node's record of the wall clocks of the other nodes.

    Args:
        skew_max: The difference between wall clocks that is allowed.
    """

    def __init__(self, skew_max: Duration) -> None:
        self._skew_max = skew_max
        self._readings: dict[NodeId, _Reading] = {}
        self._monotonic: dict[NodeId, _Monotonic] = {}

    def echo(self, node_id: NodeId, now: Instant) -> Instant | None:
        """Return a lower bound of the monotonic time of *node_id*.

        It is never above the true value, however fast this node's clock runs. The result is None if
        *node_id* has not sent its time within `ECHO_MAX_AGE`.
        """
        last = self._monotonic.get(node_id)
        if last is None or now - last.at > ECHO_MAX_AGE:
            return None
        return Instant(last.theirs + (now - last.at) * (100 - DRIFT_PERCENT) // 100)

    def record(self, node_id: NodeId, beacon: Beacon, now: Instant) -> None:
        """Record a node's clocks; of two readings of its wall clock, the more exact one is kept."""
        self._monotonic[node_id] = _Monotonic(beacon.at, now)
        if beacon.echo is None:
            return
        round_trip = now - beacon.echo
        error = round_trip // 2
        # A negative value is an answer from before this machine's restart, or forged.
        if not 0 <= error <= self._skew_max:
            return
        known = self._readings.get(node_id)
        if known is None or error <= known.error_at(now):
            self._readings[node_id] = _Reading(beacon.wall + error - now, error, now)

    def is_wrong(self, wall: Instant, now: Instant) -> bool | None:
        """Return True if *wall*, this node's wall clock, is wrong; None if that is unknown.

        The clock is wrong if it differs from the median of all known wall clocks, itself included,
        by more than the allowed skew and the error of the readings; of two middle values, the
        nearer one counts. So it is not wrong if as many others agree as disagree, or if fewer than
        two others are known. It is right if at least half of the others agree with it.
        """
        ahead = behind = count = 0
        for reading in self._readings.values():
            if now - reading.at > READING_MAX_AGE:
                continue
            count += 1
            difference, error = reading.ahead + now - wall, reading.error_at(now)
            ahead += difference - error > self._skew_max
            behind += -difference - error > self._skew_max
        if 2 * max(ahead, behind) > count + 1:
            return True
        return False if count and 2 * (ahead + behind) <= count else None
