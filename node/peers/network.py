"""Seam between nodes: messages about shards, and about the nodes themselves.

Messages may be lost, repeated, delayed and reordered, and a sender gets no notice of it. Messages
to one node in one turn of the loop are sent together.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from rota.core.model.ids import NodeId, ShardId
from rota.node.peers.messages import Sent

OnMessage = Callable[[ShardId | None, NodeId, Sent], None]
"""Called with shard, sender, message: `rota.node.runtime.message_router.MessageRouter.receive`."""


class Network(Protocol):
    """The network to the other nodes."""

    @property
    def peers(self) -> Collection[NodeId]:
        """The nodes to which there is a link now."""
        ...

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Send a message soon; never waits, and never fails.

        The message is about *shard*, or, if it is one of `NODE_KINDS`, about none.
        A message of more than 128 MiB when encoded is dropped, like any message that is lost.
        """
        ...


class NoNetwork:
    """The network of a single node: it has no peers, and no message can be sent, of any size."""

    peers: Collection[NodeId] = ()

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Refuse the message, whatever its size.

        Raises:
            AssertionError: Always: a single node has no other copies, so a message is a bug.
        """
        raise AssertionError(f"shard {shard} sent {message} to {receiver} from a single node")
