"""When a node stands in for the primary of a shard (docs/explanation/available.md).

Time in which nobody was heard who can commit is counted, and only such in which this node was at
work itself. Shortly before it is long enough the node tells the other copies that it wants to stand
in, and goes on telling them. Of those that hear each other one does:

    somebody hears a primary, and says so    nobody
    one stands in already                    that one; of several the first in their order
    all want to                              the first in their order

The order is a digest of shard and node: all know it without having to agree on members.
"""

from dataclasses import dataclass
from hashlib import blake2b

from rota.core.model.ids import NodeId, ShardId
from rota.core.timing.instants import SECOND, Duration, Instant

TOLD_BEFORE = Duration(2 * SECOND)
"""For how long the others are told before; several words may get lost."""
HEARD = Duration(2 * SECOND)
"""How long the word of another counts."""
STEP_MAX = Duration(SECOND)
"""What counts at most of the time between two ticks; in the rest this node stood still."""


@dataclass(frozen=True, slots=True)
class _Word:
    """What another copy told last: that it wants to stand in, or does."""

    is_standing: bool
    at: Instant


class FallbackEligibility:
    """Whether one node stands in for the primary of one shard.

    Args:
        shard: Which.
        node_id: This node.
        after: How long nobody has to be heard before.
        now: When it begins to listen.

    Attributes:
        wants: The others are to be told.
        is_standing: It stands in.
    """

    def __init__(self, shard: ShardId, node_id: NodeId, *, after: Duration, now: Instant) -> None:
        self.wants = False
        self.is_standing = False
        self._shard = shard
        self._node_id = node_id
        self._after = after
        self._ticked_at = now
        self._unserved = Duration(0)
        self._words: dict[NodeId, _Word] = {}
        self._served_at: Instant | None = None

    def heard(self, sender: NodeId, *, is_standing: bool, now: Instant) -> None:
        """Take the word of another copy that wants to stand in, or does."""
        self._words[sender] = _Word(is_standing, now)

    def told_served(self, now: Instant) -> None:
        """Take the word of another copy that it hears a primary."""
        self._served_at = now

    def is_silent(self, node_id: NodeId, now: Instant) -> bool:
        """Tell whether *node_id* has not said lately that it wants to stand in itself."""
        word = self._words.get(node_id)
        return word is None or now - word.at >= HEARD

    def tick(self, now: Instant, *, is_served: bool, is_able: bool) -> None:
        """Let time pass.

        Args:
            now: By the node's own clock.
            is_served: Whether this copy knows of a primary that can commit.
            is_able: Whether it counts, and has something to fire.
        """
        passed = min(now - self._ticked_at, STEP_MAX)
        self._ticked_at = now
        if is_served or self._is_told_served(now) or not is_able:
            self._unserved = Duration(0)
            self.wants = self.is_standing = False
            return
        self._unserved = Duration(self._unserved + passed)
        self.wants = self._unserved >= self._after - TOLD_BEFORE
        rivals = {node_id: word for node_id, word in self._words.items() if now - word.at < HEARD}
        if self.is_standing:
            self.is_standing = not any(
                word.is_standing and self._is_before(node_id) for node_id, word in rivals.items()
            )
        else:
            self.is_standing = self._unserved >= self._after and not any(
                word.is_standing or self._is_before(node_id) for node_id, word in rivals.items()
            )

    def _is_told_served(self, now: Instant) -> bool:
        return self._served_at is not None and now - self._served_at < HEARD

    def _is_before(self, node_id: NodeId) -> bool:
        return _rank(self._shard, node_id) < _rank(self._shard, self._node_id)


def _rank(shard: ShardId, node_id: NodeId) -> bytes:
    return blake2b(f"{shard}/{node_id}".encode(), digest_size=8).digest()
