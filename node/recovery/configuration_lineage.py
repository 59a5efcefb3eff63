"""Which configuration's copies have every entry of a shard that may have been acknowledged.

The configurations of a shard are one line, as long as the coordinator has what it had. If it is set
back to configuration 8, and the nodes that saw 9 are away, the others go on from 8: there is a
second 9, perhaps a 10, and a second line of entries. Epochs of two lines cannot be compared, and
what is acknowledged of one line is not in the other. Entries can be compared: each has the hash of
the one before, so two journals that have one entry in common have all entries before that in
common.

A configuration is *sound* if all its copies that are there contain, of every other whole copy X,

1. what X knows to be committed; and
2. what may have been committed though X does not know (its rows, which tell a restarted node what
   is committed, are synced late). What is committed is on every copy of the configuration of its
   day, and of all later ones of its line. So an entry of X may be committed only if X counts in
   the newest configuration that its node has seen, and every copy of that one that is there has
   the entry. The first entry that X alone has decides: the later ones follow it.

So the suffix of a copy that was counted out closes nothing. A primary that ended has appended
entries alone, and another copy of its configuration, which went on without them, lacks them (2). A
node that followed its shard has seen that its copy counts no more (2). A node that was away so
long that the copies beside it were given up too, after their nodes had seen later configurations,
has a copy that others replaced: `_is_replaced`.

Where the journal of a copy begins after X's committed entries, entries cannot be compared. What is
dropped was committed, so X's are contained if a copy of X's configuration counts on, be it lost by
now, or if all that is replaced. Else the two may be two lines, and nothing is certain.

In one line the newest configuration is sound. In two, the sound one has everything, be its epoch
lower; if both lines have acknowledged entries of their own, none is sound.
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
    """Hashes of entries, and those that are wanted.

    Args:
        known: What nodes answered so far.

    Attributes:
        wanted: Entries whose hashes are needed and not known. Findings made without them do not
            count: ask, and look again. Each pair of copies needs about as many rounds as the
            number of entries in which they may differ has binary digits; most need one.
    """

    def __init__(self, known: Mapping[EntryOf, bytes]) -> None:
        self._known = known
        self.wanted: set[EntryOf] = set()

    def of(self, *entries: EntryOf) -> list[bytes]:
        """Return the hashes of *entries*.

        Raises:
            Unknown: Not all are known; those that are not are wanted now.
        """
        unknown = [each for each in entries if each not in self._known]
        if unknown:
            self.wanted.update(unknown)
            raise Unknown
        return [self._known[each] for each in entries]


class Unknown(Exception):
    """A hash is not known."""


class ConfigurationLineage:
    """The copies of a shard, compared.

    Args:
        shard: Which.
        held: What each node has of it that answered.
        hashes: Of entries of these copies.
        least: Copies without which nothing is committed (``min_sync``).
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
        """Return the copies of a configuration that are there, in order of node."""
        copies = configuration.sync if configuration else ()
        return tuple(copy for copy in copies if self._is_there(copy))

    def sound(self, known: Iterable[Configuration]) -> Configuration | None:
        """Return the sound configuration with the highest epoch; None if that is not certain.

        A configuration of which no copy is there may have had anything acknowledged: those below
        its epoch are not looked at. Two that are sound have the same acknowledged entries, so any
        will do where they have one epoch, too.
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
        """Return True if the copies of a configuration have all that may be acknowledged."""
        if all(self._held[each].seen == configuration for each in self._whole):
            return True  # One line: nothing has to be compared.
        holders = [copy.node_id for copy in self.holders(configuration)]
        # A list, so that the hashes that all pairs need are asked for together.
        contained = [
            self._contains(holder, other, configuration)
            for holder in holders
            for other in self._whole
            if holder != other
        ]
        return all(contained)

    def _contains(self, node_id: NodeId, other: NodeId, configuration: Configuration) -> bool:
        """Return True if a node's copy has all that may be acknowledged of another's.

        Args:
            node_id: Where the copy is.
            other: Where the other one is.
            configuration: In which the copy counts.
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
        # With fewer copies nothing is committed, as of a shard that was founded once more.
        counts = (
            its.seen is not None
            and its.seen.allocation_of(other) == its.allocation
            and len(its.seen.sync) >= self._least
        )
        if its.committed < own.before:
            return not counts or self._is_followed(other, configuration)
        if not self._is_common(node_id, other, its.committed):
            return False
        if not counts or self._is_replaced(its.seen):
            return True
        return self._is_lacked(Index(self._last_common(node_id, other) + 1), other)

    def _is_followed(self, other: NodeId, configuration: Configuration) -> bool:
        """Return True if *configuration* came of the one that a node has seen last.

        So it did if a copy beside the node's counts in both, be that copy lost by now.
        """
        seen = self._held[other].seen
        beside = {copy for copy in (seen.sync if seen else ()) if copy.node_id != other}
        return self._is_replaced(seen) or not beside.isdisjoint(configuration.sync)

    def _is_replaced(self, configuration: Configuration | None) -> bool:
        """Return True if a copy was given up after its node had seen a later configuration."""
        return configuration is not None and any(
            held.seen is not None
            and held.seen.epoch > configuration.epoch
            and held.allocation != copy.allocation
            for copy in configuration.sync
            if (held := self._held.get(copy.node_id))
        )

    def _is_lacked(self, index: Index, node_id: NodeId) -> bool:
        """Return True if a copy that counts beside a node's lacks the node's entry *index*."""
        beside = [copy.node_id for copy in self.holders(self._held[node_id].seen)]
        return any(
            not self._is_common(each, node_id, index)
            for each in beside
            # What a copy dropped it may have had.
            if each != node_id and self._held[each].before <= index
        )

    def _last_common(self, node_id: NodeId, other: NodeId) -> Index:
        """Return the last entry that two copies have in common.

        What the other one knows to be committed is common.
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
        """Return True if two copies keep the same entry *index*, and so have all before it."""
        both = (node_id, other)
        if not all(self._held[each].before <= index <= self._held[each].tip[1] for each in both):
            return False
        told = [self._held[each].tip_hash for each in both if self._held[each].tip[1] == index]
        asked = [
            EntryOf(each, self._shard, index) for each in both if self._held[each].tip[1] != index
        ]
        first, second = (*told, *self._hashes.of(*asked))
        return first == second

    def _is_there(self, copy: Copy) -> bool:
        held = self._held.get(copy.node_id)
        return held is not None and held.allocation == copy.allocation


def _order(configuration: Configuration) -> tuple[object, ...]:
    """Return what orders configurations of one epoch, in no way that means anything."""
    return (configuration.members, configuration.primary, configuration.primary_session)
