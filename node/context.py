"""What a running node consists of, for those who look into it: the API and the housekeeping."""

from dataclasses import dataclass
from typing import Protocol

from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.primary import Copies
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.cluster.membership import Membership
from rota.node.coordination.coordinator import Coordinator
from rota.node.feeds.completion_waiters import CompletionWaiters
from rota.node.feeds.events import Events
from rota.node.peers.peer_apis import PeerApis
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.metrics import Metrics
from rota.storage.history import History


class Unready(Protocol):
    """Tells why a node is not ready to serve, or None if it is."""

    def __call__(self, *, exclude_cluster: bool = False) -> str | None:
        """Tell it; *exclude_cluster*: only what another node might do better."""
        ...


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The parts of a node.

    Attributes:
        membership: What it knows of the other nodes.
        continuity: What it knows of the coordinator's past.
        coordinator: What all nodes agree on.
        copies: How many there are to be of each shard.
        others: The APIs of the other nodes; None on a node that is alone.
        etcd: What is known of the space in etcd; None on a node that is alone.
        unready: Why the node is not ready to serve, or None if it is.
    """

    config: NodeConfig
    clock: Clock
    shards: Shards
    attempts: LocalAttempts
    history: History
    waiters: CompletionWaiters
    events: Events
    metrics: Metrics
    membership: Membership
    continuity: CoordinatorContinuity
    coordinator: Coordinator
    copies: Copies
    others: PeerApis | None
    etcd: EtcdGuard | None
    unready: Unready
