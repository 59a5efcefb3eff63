"""Movement caused by a change of the membership: the difference of two assignments.

A copy moves when a node should hold a shard that it did not hold. A new primary that held a copy
already needs a handover but no copying, so handovers are counted separately.
"""

from dataclasses import dataclass
from math import fsum

from rota.core.model.ids import ShardId
from rota.ring.assignment import Assignment


@dataclass(frozen=True, kw_only=True)
class Movement:
    """The difference between two assignments of the same shards.

    Attributes:
        shards: The shards of which a copy moves, ascending.
        copies: The number of copies that move.
        handovers: The number of shards that get another primary, whether or not it held a copy.
        least: The number of copies that must move for every node to have its fair share afterwards:
            the copies of removed nodes, or the growth of the shares, whichever is larger.
    """

    shards: tuple[ShardId, ...]
    copies: int
    handovers: int
    least: float

    @property
    def of_least(self) -> float:
        """The copies moved, as a multiple of `least`; 1 if nothing has to move and nothing does.

        It may be below 1, because a new node may get a little less than its share.
        """
        if not self.least:
            return 1.0 if not self.copies else float("inf")
        return self.copies / self.least


def movement(before: Assignment, after: Assignment) -> Movement:
    """Return the movement from *before* to *after*, which have the same number of shards."""
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
    # If there are fewer copies than before, not all copies of a removed node need replacement.
    dropped = len(before.replica_sets) * max(0, before.copies - after.copies)
    return max(growth, float(leaving - dropped))
