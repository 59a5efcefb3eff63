"""What a change of the membership moves: the difference of two assignments.

A copy moves when a node is to hold a shard that it did not hold. A new primary that held the shard
already costs a handover and no copying, so it is counted apart.
"""

from dataclasses import dataclass
from math import fsum

from rota.core.model.ids import ShardId
from rota.ring.assignment import Assignment


@dataclass(frozen=True, kw_only=True)
class Movement:
    """What comes between two assignments of the same shards.

    Attributes:
        shards: Those of which a copy moves, ascending.
        copies: How many copies move.
        handovers: How many shards get another primary, among the nodes that hold them or not.
        least: How many copies must move if every node has its fair share after it: those of
            nodes that are to hold nothing any more, or what shares grow by, whichever is more.
    """

    shards: tuple[ShardId, ...]
    copies: int
    handovers: int
    least: float

    @property
    def of_least(self) -> float:
        """How many times `least` moves; 1 if nothing has to move and nothing does.

        It may be below 1: a new node may get a little less than its share.
        """
        if not self.least:
            return 1.0 if not self.copies else float("inf")
        return self.copies / self.least


def movement(before: Assignment, after: Assignment) -> Movement:
    """Return what moves from *before* to *after*, which have the same number of shards."""
    gains = [
        len(set(new).difference(old))
        for old, new in zip(before.replica_sets, after.replica_sets, strict=True)
    ]
    return Movement(
        shards=tuple(ShardId(shard) for shard, gain in enumerate(gains) if gain),
        copies=sum(gains),
        handovers=sum(
            old[:1] != new[:1]
            for old, new in zip(before.replica_sets, after.replica_sets, strict=True)
        ),
        least=_least(before, after),
    )


def _least(before: Assignment, after: Assignment) -> float:
    growth = fsum(
        max(0.0, share - before.shares.get(node, 0.0)) for node, share in after.shares.items()
    )
    leaving = sum(load for node, load in before.loads().items() if node not in after.shares)
    # With fewer copies than before, those of a node that leaves need not all be made again.
    dropped = len(before.replica_sets) * max(0, before.copies - after.copies)
    return max(growth, float(leaving - dropped))
