"""Messages of replicas to the copies of their shards on other nodes."""

from collections.abc import Iterable

from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.messages import Message, QuietMessage
from rota.node.cluster.health_gossip import HealthGossip
from rota.node.peers.network import Network


class ReplicaPeers:
    """The other copies of this node's shards (`rota.node.shards.interfaces.Peers`).

    Args:
        network: The network to the other nodes.
        gossip: Adds this node's health to messages.
    """

    def __init__(self, network: Network, gossip: HealthGossip) -> None:
        self._network = network
        self._gossip = gossip

    def send(self, shard: ShardId, messages: Iterable[tuple[NodeId, Message]]) -> None:
        """Queue messages to be sent to the replicas of a shard on other nodes."""
        for receiver, message in messages:
            self._network.send(receiver, shard, self._gossip.put_on(message, receiver))

    def send_quiet(self, messages: Iterable[tuple[NodeId, QuietMessage]]) -> None:
        """Queue messages about many shards to be sent to other nodes."""
        for receiver, message in messages:
            self._network.send(receiver, None, self._gossip.put_on(message, receiver))
