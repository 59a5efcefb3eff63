"""The calendars of other nodes, as this one has heard, and what they say of its own (PROTOCOL R20).

Nodes tell each other what their calendars show in `Beacon`, and give back what they heard:

    a: calendar 12:00:00.000, my time 500                                  ----->
       <-----  b: calendar 12:00:00.050, my time 9000, yours was 500 and then passed on for 30

When b's message arrives a's time is 532. So 2 ms were spent on the way, and b's calendar was told
within them: it differs from a's by no more than half of that from what their middle says.

A calendar is remembered by the time that passes here, not by the calendar here. So when that one
is set, it differs from all others at once, and no message is needed to notice.
"""

from dataclasses import dataclass

from rota.core.model.ids import NodeId
from rota.core.replication.messages import Beacon
from rota.core.replication.timeouts import DRIFT_PERCENT
from rota.core.timing.instants import SECOND, Duration, Instant

KEPT = Duration(10 * SECOND)
"""So long a calendar counts of which nothing more was heard: many beats, and a takeover."""
ECHOED = Duration(2 * SECOND)
"""So long what another told of its own time is given back; later, drift would make it vague."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Another node's calendar.

    Attributes:
        ahead: Of the time that passes here.
        error: By so much it may have been otherwise.
        at: When it was read.
    """

    ahead: int
    error: int
    at: Instant

    def error_at(self, now: Instant) -> int:
        """Return by how much it may be otherwise *now*: clocks run at different rates."""
        return self.error + (now - self.at) * DRIFT_PERCENT // 100


@dataclass(frozen=True, slots=True)
class _Told:
    """What a node told last of the time that passes there, and when that came."""

    theirs: Instant
    at: Instant


class ClockSkew:
    """What one node knows of the calendars of the others.

    Args:
        skew_max: A calendar may differ by this.
    """

    def __init__(self, skew_max: Duration) -> None:
        self._skew_max = skew_max
        self._readings: dict[NodeId, _Reading] = {}
        self._told: dict[NodeId, _Told] = {}

    def echo(self, node_id: NodeId, now: Instant) -> Instant | None:
        """Return the time that passes at *node_id*, by its own clock; None if too long ago.

        It is that or later there; never earlier, however fast this node's clock runs.
        """
        told = self._told.get(node_id)
        if told is None or now - told.at > ECHOED:
            return None
        return Instant(told.theirs + (now - told.at) * (100 - DRIFT_PERCENT) // 100)

    def hear(self, node_id: NodeId, beacon: Beacon, now: Instant) -> None:
        """Take note of what a node tells; the more exact of what is known of it stays."""
        self._told[node_id] = _Told(beacon.at, now)
        if beacon.echo is None:
            return
        round_trip = now - beacon.echo
        error = round_trip // 2
        # Below zero it is an answer to another life of this machine, or of nobody.
        if not 0 <= error <= self._skew_max:
            return
        known = self._readings.get(node_id)
        if known is None or error <= known.error_at(now):
            self._readings[node_id] = _Reading(beacon.wall + error - now, error, now)

    def is_wrong(self, wall: Instant, now: Instant) -> bool | None:
        """Tell whether *wall*, this node's calendar, is the one that is wrong; None: who knows.

        It is when it differs from the median of all calendars that are known, its own among them,
        by more than is allowed and can be put down to what is not known exactly; of two in the
        middle, the nearer counts. So where as many say the one as the other nobody is wrong, and
        where fewer than two others are heard neither. It is not when at least half of the others
        agree with it.
        """
        ahead = behind = count = 0
        for reading in self._readings.values():
            if now - reading.at > KEPT:
                continue
            count += 1
            difference, error = reading.ahead + now - wall, reading.error_at(now)
            ahead += difference - error > self._skew_max
            behind += -difference - error > self._skew_max
        if 2 * max(ahead, behind) > count + 1:
            return True
        return False if count and 2 * (ahead + behind) <= count else None
