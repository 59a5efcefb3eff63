"""Interface of the network between nodes: messages about shards, and about the nodes themselves.

Messages may be lost, repeated, delayed and reordered without notice to the sender. Messages that
are sent to one node in one iteration of the event loop are sent together.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from rota.core.model.ids import NodeId, ShardId
from rota.node.peers.messages import Sent

OnMessage = Callable[[ShardId | None, NodeId, Sent], None]
"""Called with shard, sender and message.

The implementation is `rota.node.runtime.message_router.MessageRouter.receive`.
"""


class Network(Protocol):
    """The network to the other nodes."""

    @property
    def peers(self) -> Collection[NodeId]:
        """The nodes to which there is a link now."""
        ...

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Send a message soon, without waiting and without an error.

        The message is about *shard*, which is None for a message of `NODE_KINDS`. A message whose
        encoded form has more than 128 MiB is dropped, like a message that is lost.
        """
        ...


class NoNetwork:
    """The network of a single node, which has no peers, so that no message can be sent."""

    peers: Collection[NodeId] = ()

    def send(self, receiver: NodeId, shard: ShardId | None, message: Sent) -> None:
        """Refuse the message.

        Raises:
            AssertionError: Always, since a single node has no other copies, so a message is a bug.
        """
        raise AssertionError(f"shard {shard} sent {message} to {receiver} from a single node")
