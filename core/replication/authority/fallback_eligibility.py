"""Eligibility of a node to stand in for the primary of a shard (docs/explanation/available.md).

The node counts the time without a primary that can commit, except for time in which the node itself
was stalled. Shortly before that time is long enough, the node announces to the other copies that it
is ready to stand in, and repeats the announcement. Of the nodes that reach each other, one stands
in:

    a node reports a primary              none
    a node stands in already              that node; of several, the first in order
    several are ready to stand in         the first in order

The order is that of a digest of shard and node, so the nodes need not agree on the members.
"""

from dataclasses import dataclass
from hashlib import blake2b

from rota.core.model.ids import NodeId, ShardId
from rota.core.timing.instants import SECOND, Duration, Instant

ANNOUNCED_BEFORE = Duration(2 * SECOND)
"""The time for which readiness is announced before the node may stand in; several announcements may
get lost."""
ANNOUNCEMENT_TTL = Duration(2 * SECOND)
"""The time for which another node's announcement counts."""
STEP_MAX = Duration(SECOND)
"""The maximum time between two ticks that counts; beyond it, the node was stalled."""


@dataclass(frozen=True, slots=True)
class _Announcement:
    """The last announcement of another copy: it is ready to stand in, or stands in."""

    is_standing: bool
    at: Instant


class FallbackEligibility:
    """The eligibility of one node to stand in for the primary of one shard.

    Args:
        shard: The shard.
        node_id: This node.
        after: The time without a primary after which the node may stand in.
        now: The instant from which that time is counted, by the node's monotonic clock.

    Attributes:
        is_ready: Whether readiness is to be announced to the other copies.
        is_standing: Whether the node stands in.
    """

    def __init__(self, shard: ShardId, node_id: NodeId, *, after: Duration, now: Instant) -> None:
        self.is_ready = False
        self.is_standing = False
        self._shard = shard
        self._node_id = node_id
        self._after = after
        self._ticked_at = now
        self._unserved = Duration(0)
        self._announcements: dict[NodeId, _Announcement] = {}
        self._served_at: Instant | None = None

    def record_announcement(self, sender: NodeId, *, is_standing: bool, now: Instant) -> None:
        """Record that another copy is ready to stand in, or stands in."""
        self._announcements[sender] = _Announcement(is_standing, now)

    def record_served(self, now: Instant) -> None:
        """Record that another copy has contact with a primary."""
        self._served_at = now

    def is_silent(self, node_id: NodeId, now: Instant) -> bool:
        """Return True if *node_id* has made no recent announcement."""
        last = self._announcements.get(node_id)
        return last is None or now - last.at >= ANNOUNCEMENT_TTL

    def tick(self, now: Instant, *, is_served: bool, is_able: bool) -> None:
        """Count the time since the last tick and update the attributes.

        Args:
            now: The current instant, by the node's monotonic clock.
            is_served: Whether this copy has contact with a primary that can commit.
            is_able: Whether this copy counts and has jobs to fire.
        """
        passed = min(now - self._ticked_at, STEP_MAX)
        self._ticked_at = now
        if is_served or self._is_reported_served(now) or not is_able:
            self._unserved = Duration(0)
            self.is_ready = self.is_standing = False
            return
        self._unserved = Duration(self._unserved + passed)
        self.is_ready = self._unserved >= self._after - ANNOUNCED_BEFORE
        rivals = {
            node_id: last
            for node_id, last in self._announcements.items()
            if now - last.at < ANNOUNCEMENT_TTL
        }
        if self.is_standing:
            self.is_standing = not any(
                last.is_standing and self._is_before(node_id) for node_id, last in rivals.items()
            )
        else:
            self.is_standing = self._unserved >= self._after and not any(
                last.is_standing or self._is_before(node_id) for node_id, last in rivals.items()
            )

    def _is_reported_served(self, now: Instant) -> bool:
        return self._served_at is not None and now - self._served_at < ANNOUNCEMENT_TTL

    def _is_before(self, node_id: NodeId) -> bool:
        return _rank(self._shard, node_id) < _rank(self._shard, self._node_id)


def _rank(shard: ShardId, node_id: NodeId) -> bytes:
    return blake2b(f"{shard}/{node_id}".encode(), digest_size=8).digest()
