"""The seam between nodes: messages about their shards, carried from one to another.

Messages may be lost, doubled, delayed and overtaken by one another, and a sender is told of none
of it. What is sent in one turn of the loop to one node goes together.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from rota.core.model.ids import NodeId, ShardId
from rota.node.peers.messages import Sent

OnMessage = Callable[[ShardId, NodeId, Sent], None]
"""Called with shard, sender, message: `rota.node.runtime.message_router.MessageRouter.receive`."""


class Network(Protocol):
    """To the other nodes."""

    @property
    def peers(self) -> Collection[NodeId]:
        """The nodes to which there is a link now."""
        ...

    def send(self, receiver: NodeId, shard: ShardId, message: Sent) -> None:
        """Send a message soon; never waits, and never fails."""
        ...


class NoNetwork:
    """That of a node that is alone."""

    peers: Collection[NodeId] = ()

    def send(self, receiver: NodeId, shard: ShardId, message: Sent) -> None:
        """Refuse: there is nobody."""
        raise AssertionError(
            f"shard {shard} sent {message} to {receiver} from a node that is alone"
        )
