"""Lineage of configurations: the one whose copies have every entry that may be acknowledged.

The configurations of a shard form one line while the coordinator keeps its state. If the
coordinator is set back to configuration 8, and the nodes that saw 9 are absent, the other nodes
continue from 8: there is a second 9, perhaps a 10, and a second line of entries. Epochs of two
lines are not
comparable, and entries acknowledged in one line are missing in the other. Entries are comparable:
each contains the hash of the entry before it, so two journals with one entry in common have all
earlier entries in common.

A configuration is *sound* if each of its existing copies contains, of every other complete copy X,

1. the entries that X has recorded as committed; and
2. the entries that may be committed without X's knowledge. (The rows from which a restarted node
   learns what is committed are synced late.) A committed entry is on every copy of its
   configuration, and of all later configurations of its line. An entry of X may therefore be
   committed only if X counts in the newest configuration that its node has seen, and every existing
   copy of that configuration has the entry. The first entry that only X has decides, since the
   later ones follow it. A copy whose journal begins later had, at that place, the same
   entry as every copy with which it has a later entry in common.

The suffix of a copy that no longer counts therefore closes no shard. A primary that crashed may
have entries that another copy of its configuration, which continued without them, lacks (2). A node
that followed its shard has seen that its copy no longer counts (2). A node that was absent for so
long that the other copies of its configuration were removed too, after their nodes had seen later
configurations, has a replaced copy: `_is_replaced`.

If the journal of a copy begins after X's committed entries, they cannot be compared. Trimmed
entries were committed, so X's entries are contained if a copy of X's configuration still counts,
even if it is lost by now, or if X's configuration is replaced. They are contained, too, if a third
copy has them all as committed entries, and what the third has as committed is contained. Otherwise
there may be two lines, and nothing is certain.

With one line the newest configuration is sound. With two, the sound one has every acknowledged
entry, even if its epoch is lower. If both lines have acknowledged entries of their own, none is
sound.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rota.core.model.ids import Index, NodeId, ShardId
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.node.recovery.inventory import HeldCopy


class EntryOf(NamedTuple):
    """An entry of a node's copy of a shard."""

    node_id: NodeId
    shard: ShardId
    number: Index


class Hashes:
    """Known hashes of entries, and the entries whose hashes are still needed.

    Args:
        known: The hashes that nodes have sent so far.

    Attributes:
        wanted: Entries whose hashes are needed and unknown. Findings made without them are invalid
            and must be repeated with the hashes. The rounds for a pair of copies are logarithmic in
            the number of entries in which they may differ; most pairs need one.
    """

    def __init__(self, known: Mapping[EntryOf, bytes]) -> None:
        self._known = known
        self.wanted: set[EntryOf] = set()

    def of(self, *entries: EntryOf) -> list[bytes]:
        """Return the hashes of *entries*.

        Raises:
            Unknown: Some hashes are unknown; their entries are added to `wanted`.
        """
        unknown = [each for each in entries if each not in self._known]
        if unknown:
            self.wanted.update(unknown)
            raise Unknown
        return [self._known[each] for each in entries]


class Unknown(Exception):
    """A hash is not known."""


class ConfigurationLineage:
    """The comparison of the copies of a shard.

    Args:
        shard: The shard.
        held: The copy on each node that responded.
        hashes: Hashes of entries of these copies.
        least: The number of copies that a commit needs (``min_sync``).
    """

    def __init__(
        self, shard: ShardId, held: Mapping[NodeId, HeldCopy], hashes: Hashes, least: int = 1
    ) -> None:
        self._shard = shard
        self._held = held
        self._hashes = hashes
        self._least = least
        self._whole = sorted(node_id for node_id, each in held.items() if each.allocation)

    def holders(self, configuration: Configuration | None) -> tuple[Copy, ...]:
        """Return the existing copies of a configuration, ordered by node."""
        copies = configuration.sync if configuration else ()
        return tuple(copy for copy in copies if self._is_there(copy))

    def sound(self, known: Iterable[Configuration]) -> Configuration | None:
        """Return the sound configuration with the highest epoch; None if that is not certain.

        The lost copies of a configuration without an existing copy may have had any acknowledged
        entries, so configurations below its epoch are not considered. Sound configurations with the
        same epoch have the same acknowledged entries, so any of them can be returned.
        """
        by_epoch: dict[int, set[Configuration]] = {}
        for each in known:
            by_epoch.setdefault(each.epoch, set()).add(each)
        for _, twins in sorted(by_epoch.items(), reverse=True):
            if not all(map(self.holders, twins)):
                return None
            sound = [each for each in sorted(twins, key=_order) if self.is_sound(each)]
            if sound:
                return max(sound, key=lambda each: len(self.holders(each)))
        return None

    def is_sound(self, configuration: Configuration) -> bool:
        """Return True if a configuration's copies have every entry that may be acknowledged."""
        if all(self._held[each].seen == configuration for each in self._whole):
            return True  # One line: no comparison is needed.
        holders = [copy.node_id for copy in self.holders(configuration)]
        # A list, so that the hashes of all pairs are requested together.
        contained = [
            self._contains(holder, other, configuration)
            for holder in holders
            for other in self._whole
            if holder != other
        ]
        return all(contained)

    def _contains(self, node_id: NodeId, other: NodeId, configuration: Configuration) -> bool:
        """Return True if a node's copy has every entry of another copy that may be acknowledged.

        Args:
            node_id: The node with the copy.
            other: The node with the other copy.
            configuration: The configuration in which the copy counts.
        """
        try:
            return self._has_all(node_id, other, configuration)
        except Unknown:
            return False

    def _has_all(self, node_id: NodeId, other: NodeId, configuration: Configuration) -> bool:
        own, its = self._held[node_id], self._held[other]
        if self._is_common(node_id, other, its.tip[1]):
            return True
        if its.committed > own.tip[1]:
            return False
        counts = self._counts(other)
        if its.committed < own.before:
            return (
                not counts
                or self._is_followed(other, configuration)
                or self._is_committed_by_third(node_id, other, configuration)
            )
        if not self._is_common(node_id, other, its.committed):
            return False
        if not counts or self._is_replaced(its.seen):
            return True
        return self._is_lacked(node_id, other, Index(self._last_common(node_id, other) + 1))

    def _counts(self, node_id: NodeId) -> bool:
        """Return True if a copy counts, and may commit, in the configuration its node has seen.

        With too few copies nothing is committed, for example in a shard founded a second time.
        """
        held = self._held[node_id]
        return (
            held.seen is not None
            and held.seen.allocation_of(node_id) == held.allocation
            and len(held.seen.sync) >= self._least
        )

    def _is_committed_by_third(
        self, node_id: NodeId, other: NodeId, configuration: Configuration
    ) -> bool:
        """Return True if a third copy has committed all entries of *other*, and is contained.

        The third copy counts in the configuration that its node has seen, which *configuration*
        follows, so what it has committed is in the line of *configuration*.
        """
        tip = self._held[other].tip[1]
        return any(
            tip <= self._held[third].committed
            and self._counts(third)
            and self._is_followed(third, configuration)
            and self._is_common(third, other, tip)
            for third in self._whole
            if third not in (node_id, other)
        )

    def _is_followed(self, other: NodeId, configuration: Configuration) -> bool:
        """Return True if *configuration* follows the newest one that a node has seen.

        It follows if a copy on another node counts in both, even if that copy is lost by now.
        """
        seen = self._held[other].seen
        beside = {copy for copy in (seen.sync if seen else ()) if copy.node_id != other}
        return self._is_replaced(seen) or not beside.isdisjoint(configuration.sync)

    def _is_replaced(self, configuration: Configuration | None) -> bool:
        """Return True if a copy was removed after its node had seen a later configuration."""
        return configuration is not None and any(
            held.seen is not None
            and held.seen.epoch > configuration.epoch
            and held.allocation != copy.allocation
            for copy in configuration.sync
            if (held := self._held.get(copy.node_id))
        )

    def _is_lacked(self, node_id: NodeId, other: NodeId, index: Index) -> bool:
        """Return True if a copy in the configuration of *other* lacks the entry *index* of *other*.

        Args:
            node_id: A node whose copy lacks the entry.
            other: The node with the entry.
            index: The index of the entry.
        """
        beside = [copy.node_id for copy in self.holders(self._held[other].seen)]
        return any(
            not self._is_common(each, other, index)
            if self._held[each].before <= index
            else self._is_common(node_id, each, self._held[each].before)
            for each in beside
            if each != other
        )

    def _last_common(self, node_id: NodeId, other: NodeId) -> Index:
        """Return the last entry that two copies have in common.

        The entries that the other copy has recorded as committed are common.
        """
        low = self._held[other].committed
        high = min(self._held[each].tip[1] for each in (node_id, other))
        if self._is_common(node_id, other, high):
            return high
        while high - low > 1:
            middle = Index((low + high) // 2)
            if self._is_common(node_id, other, middle):
                low = middle
            else:
                high = middle
        return low

    def _is_common(self, node_id: NodeId, other: NodeId, index: Index) -> bool:
        """Return True if two copies have the same entry *index*, and so the same earlier ones."""
        both = (node_id, other)
        if not all(self._held[each].before <= index <= self._held[each].tip[1] for each in both):
            return False
        known = [self._held[each].tip_hash for each in both if self._held[each].tip[1] == index]
        needed = [
            EntryOf(each, self._shard, index) for each in both if self._held[each].tip[1] != index
        ]
        first, second = (*known, *self._hashes.of(*needed))
        return first == second

    def _is_there(self, copy: Copy) -> bool:
        held = self._held.get(copy.node_id)
        return held is not None and held.allocation == copy.allocation


def _order(configuration: Configuration) -> tuple[object, ...]:
    """Return an arbitrary but fixed order of configurations with the same epoch."""
    return (configuration.members, configuration.primary, configuration.primary_session)
