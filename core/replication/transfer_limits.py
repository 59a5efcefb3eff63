"""Limits on a node's concurrent snapshots and handovers (R23, R27), shared by all its replicas.

Reading, sending and writing rows slows everything else on a node, so a snapshot waits until both
nodes are below their limit. A snapshot of a single part costs no more than an append and is not
limited; otherwise a new cluster, whose shards are all empty, would wait unnecessarily.

A shard accepts no work while it is handed over, and the new primary has to open it. So only a few
shards are handed over for balance at a time.

There are no permits that could be lost with a learner, a primary or a peer: the transfers in
progress are counted whenever another one is about to begin.
"""

from typing import Protocol

from rota.core.timing.instants import Instant

SENDING_MAX = 2
TAKING_MAX = 2
HANDING_OVER_MAX = 4


class Transferring(Protocol):
    """The transfers of one replica."""

    @property
    def sending_count(self) -> int:
        """The number of snapshots of several parts that this replica is sending."""
        ...

    def is_taking(self, now: Instant) -> bool:
        """Return True if this replica is receiving a snapshot of several parts."""
        ...

    @property
    def is_giving_away(self) -> bool:
        """Whether this primary is handing its shard over, and the outcome is not known yet."""
        ...


class TransferLimits:
    """The transfers of a node's replicas."""

    def __init__(self) -> None:
        self._replicas: list[Transferring] = []
        self._giving: list[Transferring] = []
        """Replicas that have begun a handover, which may have ended."""

    def add(self, replica: Transferring) -> None:
        """Count the transfers of *replica*; there is no way to remove a replica."""
        self._replicas.append(replica)

    def may_send(self) -> bool:
        """Return True if one more snapshot may be sent; costs O(replicas)."""
        return sum(replica.sending_count for replica in self._replicas) < SENDING_MAX

    def may_take(self, now: Instant) -> bool:
        """Return True if one more snapshot may be received; costs O(replicas)."""
        return sum(replica.is_taking(now) for replica in self._replicas) < TAKING_MAX

    def may_hand_over(self) -> bool:
        """Return True if one more shard may be handed over for balance."""
        self._giving = [replica for replica in self._giving if replica.is_giving_away]
        return len(self._giving) < HANDING_OVER_MAX

    def hands_over(self, replica: Transferring) -> None:
        """Count the handover for balance that *replica* begins, until it ends."""
        self._giving.append(replica)
