"""How many snapshots a node sends and takes at once (R23); shared by all its replicas.

Reading, carrying and writing rows costs everyone else on the node, so a new copy waits until there
is a place for it at both ends. What fits into one part costs no more than an append, and needs
none: else a new cluster, whose shards are all empty, would wait for nothing.

Nobody holds a place. Who sends and who takes is counted whenever somebody wants to begin, so no
place can be lost with a learner, a primary or a peer.
"""

from typing import Protocol

from rota.core.instants import Instant

SENDING_MAX = 2
TAKING_MAX = 2


class Transferring(Protocol):
    """A replica, as the others on its node see it."""

    @property
    def sending_count(self) -> int:
        """Snapshots of several parts that are on their way from here."""
        ...

    def is_taking(self, now: Instant) -> bool:
        """Tell whether one is being taken here."""
        ...


class Transfers:
    """The snapshots that a node's replicas send and take."""

    def __init__(self) -> None:
        self._replicas: list[Transferring] = []

    def add(self, replica: Transferring) -> None:
        """Count what *replica* sends and takes; for the life of the node."""
        self._replicas.append(replica)

    def may_send(self) -> bool:
        """Tell whether there is a place for one more to be sent; O(replicas)."""
        return sum(replica.sending_count for replica in self._replicas) < SENDING_MAX

    def may_take(self, now: Instant) -> bool:
        """Tell whether there is a place for one more to be taken; O(replicas)."""
        return sum(replica.is_taking(now) for replica in self._replicas) < TAKING_MAX
