"""How much a node moves at once (R23, R27); shared by all its replicas.

Reading, carrying and writing rows costs everyone else on the node, so a new copy waits until there
is a place for it at both ends. What fits into one part costs no more than an append, and needs
none: else a new cluster, whose shards are all empty, would wait for nothing.

A shard that is handed over takes no work meanwhile, and its heir has to open it. So of those that
only go where the ring would rather have them, some go at a time.

Nobody holds a place. Who sends, takes and hands over is counted whenever somebody wants to begin,
so no place can be lost with a learner, a primary or a peer.
"""

from typing import Protocol

from rota.core.timing.instants import Instant

SENDING_MAX = 2
TAKING_MAX = 2
HANDING_OVER_MAX = 4


class Transferring(Protocol):
    """A replica, as the others on its node see it."""

    @property
    def sending_count(self) -> int:
        """Snapshots of several parts that are on their way from here."""
        ...

    def is_taking(self, now: Instant) -> bool:
        """Tell whether one is being taken here."""
        ...

    @property
    def is_giving_away(self) -> bool:
        """Whether this primary hands over, and has not been told yet what came of it."""
        ...


class TransferLimits:
    """What a node's replicas send, take, and hand over."""

    def __init__(self) -> None:
        self._replicas: list[Transferring] = []
        self._giving: list[Transferring] = []
        """Those that began to hand over, and perhaps are done with it."""

    def add(self, replica: Transferring) -> None:
        """Count what *replica* sends and takes; for the life of the node."""
        self._replicas.append(replica)

    def may_send(self) -> bool:
        """Tell whether there is a place for one more to be sent; O(replicas)."""
        return sum(replica.sending_count for replica in self._replicas) < SENDING_MAX

    def may_take(self, now: Instant) -> bool:
        """Tell whether there is a place for one more to be taken; O(replicas)."""
        return sum(replica.is_taking(now) for replica in self._replicas) < TAKING_MAX

    def may_hand_over(self) -> bool:
        """Tell whether there is a place for one more shard to be handed over for balance."""
        self._giving = [replica for replica in self._giving if replica.is_giving_away]
        return len(self._giving) < HANDING_OVER_MAX

    def hands_over(self, replica: Transferring) -> None:
        """Count *replica* for as long as it hands its shard over for balance."""
        self._giving.append(replica)
