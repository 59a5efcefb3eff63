"""What a replica holds, for the plan of a recovery."""

from rota.core.replication.replica import Replica
from rota.node.recovering import Held


def held(replica: Replica) -> Held:
    """Return what a replica has, as its node's inventory tells it."""
    tip = replica.copy.tip
    return Held(
        seen=replica.seen,
        promised=replica.epoch,
        allocation=replica.copy.allocation,
        tip=(tip.epoch, tip.index),
        tip_at=tip.at,
    )
