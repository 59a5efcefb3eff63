"""Invariants of every moment of a run, checked from outside.

The invariants (I) are in docs/explanation/protocol.md, L1 in docs/explanation/proof.md.
"""

from collections import Counter
from collections.abc import Sequence

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId
from rota.core.replication.messages import (
    Appended,
    Message,
    Mismatch,
    PartTaken,
    QuietBeat,
    QuietMessage,
    QuietResponse,
)
from rota.core.replication.primary import Copies
from rota.core.vocabulary.journal import decode_entry
from rota.core.vocabulary.shard_configuration import (
    NO_SESSION,
    Configuration,
    Swap,
    first_epoch,
    generation_of,
)
from sim.protocol.disk import Image
from sim.protocol.node import Node, rows_of

CHANGES_MAX = 8
"""Limit of swaps with an unknown outcome, and of promises: more would be a leak."""


class Violation(Exception):
    """An invariant was broken."""


class Checks:
    """Checks the invariants of a cluster.

    Args:
        nodes: All nodes.
        copies: Wanted number of copies.

    Attributes:
        acknowledged: Entries acknowledged to clients, by index.
        last_acknowledged: The last index of these.
        lost: Copies whose disks were lost.
    """

    def __init__(self, nodes: Sequence[Node], copies: Copies) -> None:
        self.acknowledged: dict[Index, bytes] = {}
        self.last_acknowledged = Index(0)
        self.lost: set[AllocationId] = set()
        self._nodes = nodes
        self._by_id = {node.id: node for node in nodes}
        self._copies = copies
        self._committed: dict[Index, bytes] = {}
        self._entries: dict[tuple[Epoch, Index], bytes] = {}
        self._homes: dict[AllocationId, NodeId] = {}
        self._known: dict[NodeId, tuple[int, AllocationId | None, Epoch, Index]] = {}
        self._configurations: dict[Epoch, Configuration] = {}
        self._used_twice: set[Epoch] = set()

    # -- at each event --------------------------------------------------------------------------

    def saw_commit(self, node: Node, index: Index, value: bytes) -> None:
        """I3: all nodes commit the same entry at an index."""
        if self._committed.setdefault(index, value) != value:
            raise Violation(f"I3: {node.id} commits another entry {index} than was committed")

    def saw_acknowledgement(self, node: Node, index: Index, value: bytes) -> None:
        """I1: an acknowledged entry never changes; and it is on enough disks."""
        if self.acknowledged.setdefault(index, value) != value:
            raise Violation(f"I1: {node.id} acknowledges another entry {index} than was before")
        self.last_acknowledged = max(self.last_acknowledged, index)
        images = [each.disk.durable for each in self._nodes]
        have = sum(
            each.last >= index and each.entries.get(index, value) == value for each in images
        )
        # One copy may have been lost since it answered, and its node may have a new one.
        if have + bool(self.lost) < self._copies.least:
            raise Violation(f"R10: {node.id} acknowledges entry {index}, which {have} disks have")

    def saw_quiet_answer(self, node: Node, beat: QuietBeat, answer: QuietResponse) -> None:
        """R2, R9, R14, R44: a copy that is not refused is durable, and follows the sender."""
        image = node.disk.durable
        for copy in beat.copies:
            if copy.shard in answer.refused:
                continue
            if image.epoch < copy.epoch:
                raise Violation(f"R2: {node.id} follows {copy}, and may forget its promise")
            if image.allocation != copy.allocation or image.last < copy.index:
                raise Violation(f"R9: {node.id} follows {copy}, and may lose entries")
            if node.replica.primary is not None or node.replica.is_candidate:
                raise Violation(f"R17: {node.id} follows {copy}, and may be primary soon")

    def saw_answer(self, node: Node, message: Message | QuietMessage) -> None:
        """R2, R9: the content of an answer is already durable."""
        if not isinstance(message, Appended | Mismatch | PartTaken):
            return
        image = node.disk.durable
        if image.epoch < message.epoch:
            raise Violation(f"R2: {node.id} answers {message}, and may forget its promise")
        has = image.last if image.allocation == message.allocation else 0
        if isinstance(message, Appended) and has < message.match:
            raise Violation(f"R9: {node.id} answers {message}, and may lose entries")

    def forget_unseen(self, current: Configuration | None) -> None:
        """Forget configurations above *current*: a coordinator lost them before any node saw them.

        Their epochs may be used again, because no node acts by the first use.
        """
        last = current.epoch if current else 0
        for epoch in [each for each in self._configurations if each > last]:
            del self._configurations[epoch]

    def saw_swap(self, swap: Swap, *, is_lost: bool) -> None:
        """I6: configurations follow one another.

        A configuration that follows one of a coordinator that lost its state may name copies that
        lack entries; no node may act by it. It may also have an epoch that was used before, if
        only nodes that were down or cut off had that epoch (docs/explanation/guarantees.md).
        """
        before, fresh = swap.expected, swap.fresh
        if self._configurations.setdefault(fresh.epoch, fresh) != fresh:
            if not is_lost:
                raise Violation(f"I6: epoch {fresh.epoch} is used twice")
            self._used_twice.add(fresh.epoch)
        first = first_epoch(generation_of(fresh.epoch))
        if fresh.epoch != (before.epoch + 1 if before else first):
            raise Violation(f"I6: epoch {fresh.epoch} follows {before}")
        if fresh.allocation_of(fresh.primary) is None and fresh.primary_session != NO_SESSION:
            raise Violation(f"I6: the primary of {fresh} does not count")
        if before and len(before.sync) >= self._copies.least > len(fresh.sync):
            raise Violation(f"I6: {fresh} has too few copies")
        if len(set(fresh.members)) < len(fresh.sync):
            raise Violation(f"I6: {fresh} counts two copies on one node")
        for copy in fresh.sync:
            if self._homes.setdefault(copy.allocation, copy.node_id) != copy.node_id:
                raise Violation(f"I6: {copy} is on another node than it was")
        if not is_lost:
            self.see_copies(fresh)

    # -- on request -----------------------------------------------------------------------------

    def see_authority(self, *, is_lost: bool) -> None:
        """I2; and a node with authority has all acknowledged entries.

        After a loss of the coordinator's state a node may act without them that has seen no
        configuration under which they were acknowledged, and no evidence of the loss: all nodes
        that have are stopped, or cut off from it (docs/explanation/protocol.md).
        """
        acting = [
            node for node in self._nodes if node.is_up and node.replica.has_authority(node.clock())
        ]
        if len(acting) > 1:
            raise Violation(f"I2: {' and '.join(node.id for node in acting)} both have authority")
        for node in acting:
            is_unaware = is_lost and node.continuity.lost is None
            if node.replica.copy.committed < self.last_acknowledged and not is_unaware:
                raise Violation(f"I1: {node.id} acts without entry {self.last_acknowledged}")

    def see_copies(self, configuration: Configuration) -> None:
        """I7: each counted copy with its disk durably has all acknowledged entries.

        So they survive the loss of any one copy.
        """
        for copy in configuration.sync:
            image = self._by_id[copy.node_id].disk.durable
            if copy.allocation in self.lost:
                continue
            if image.allocation != copy.allocation:
                raise Violation(f"I7: {copy} counts, and is not there")
            if image.last < self.last_acknowledged:
                raise Violation(f"I7: {copy} counts, and ends at {image.last}")
            known = self.acknowledged.get(self.last_acknowledged)
            if image.entries.get(self.last_acknowledged, known) != known:
                raise Violation(f"I7: {copy} counts, and has another entry")

    def see_nodes(self) -> None:
        """R5, I4, I5: no lost copy and no older state returns; journals match; sizes are bounded.

        The sizes are those of the promises and of the changes under way.
        """
        for node in self._nodes:
            if not node.is_up:
                continue
            copy = node.replica.copy
            fresh = node.life, copy.allocation, copy.epoch, copy.committed
            if copy.allocation in self.lost:
                raise Violation(f"R5: {node.id} has {copy.allocation} again, which it lost")
            known = self._known.get(node.id, fresh)
            self._known[node.id] = fresh
            if known[:2] == fresh[:2] and (known[2] > fresh[2] or known[3] > fresh[3]):
                raise Violation(f"I4: {node.id} went back from {known} to {fresh}")
            for value in node.disk.now.entries.values():
                entry = decode_entry(value)
                if entry.epoch in self._used_twice:
                    continue  # The recovery keeps one of the two; I1 and I3 hold for both.
                if self._entries.setdefault((entry.epoch, entry.index), value) != value:
                    raise Violation(f"I5: {node.id} has another entry {entry.index}")
            self._see_growth(node)

    def _see_growth(self, node: Node) -> None:
        replica, primary = node.replica, node.replica.primary
        sizes = Counter(
            takeovers=len(replica._takeovers),  # pyright: ignore[reportPrivateUsage]
            promises=len(replica._promises._until),  # pyright: ignore[reportPrivateUsage]
            changes=len(primary.changes) if primary else 0,
        )
        what, size = sizes.most_common(1)[0]
        if size > CHANGES_MAX:
            raise Violation(f"{node.id} has {size} {what}")

    # -- at the end -----------------------------------------------------------------------------

    def see_rows(self, configuration: Configuration) -> None:
        """I1, I3: each counted copy has exactly the rows of all committed entries."""
        for index, value in self.acknowledged.items():
            if self._committed[index] != value:
                raise Violation(f"I1: acknowledged entry {index} was replaced")
        last = max(self._committed, default=Index(0))
        wanted: dict[bytes, bytes] = {}
        for number in range(1, last + 1):
            change_rows(wanted, self._committed[Index(number)])
        for copy in configuration.sync:
            image = self._by_id[copy.node_id].disk.now
            if image.applied != last:
                raise Violation(f"L1: {copy} has applied {image.applied} of {last} entries")
            if image.rows != wanted:
                raise Violation(f"I3: rows of {copy}: {different(image, wanted)}")


def change_rows(rows: dict[bytes, bytes], value: bytes) -> None:
    """Apply the changes of an entry to rows."""
    for key, row in rows_of(value):
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row


def different(image: Image, wanted: dict[bytes, bytes]) -> str:
    """Return the rows that differ."""
    keys = sorted(image.rows.keys() | wanted.keys())
    pairs = ((key, image.rows.get(key), wanted.get(key)) for key in keys)
    return str([pair for pair in pairs if pair[1] != pair[2]])
