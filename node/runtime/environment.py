"""What a node is put into; all that differs between real nodes and those of a simulation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rota.core.model.ids import NodeId, Session
from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import Duration, Instant
from rota.executor.executor import Ended, Reported
from rota.executor.warden.node_link import WardenLink
from rota.executor.warden.proxies import RightOf
from rota.node.attempts.local_attempts import AttemptExecutors
from rota.node.cluster.etcd_guard import LookAtEtcd
from rota.node.cluster.known_members import Placement
from rota.node.coordination.coordinator import Coordinator, Member
from rota.node.peers.network import Network
from rota.node.peers.peer_apis import PeerApis
from rota.node.shards.copy_comparison import COMPARE_EVERY
from rota.node.shards.seams import Commit, Durable
from rota.node.system.disk_guard import AMPLE, FoundSpace
from rota.node.system.metrics import Metrics
from rota.storage.store import Store

MakeCommit = Callable[[Durable, Callable[[float], None]], Commit]
"""Makes the group commit of some shards; it calls the function with the seconds of each sync."""
MakeExecutors = Callable[[Ended, Reported, RightOf], AttemptExecutors]
"""Makes the executors; they report endings and progress, and get the deadline of a launch."""


@dataclass(frozen=True, kw_only=True)
class NodeEnvironment:
    """What a node is put into.

    Attributes:
        member: What it says of itself.
        lock: On its data directory (`rota.node.coordination.coordinator.Claim`).
        store_made_at: When its data directory was made, by the calendar.
        incarnation: Number of this process of the node: higher than that of every earlier one.
        store: Where its shards are; whoever made it closes it.
        shard_count: Of the cluster.
        commit: Makes what makes the store durable.
        coordinator: What all nodes agree on.
        cluster_id: Of the cluster's record there; None where that is not looked at.
        network: To the other nodes.
        placement: Where copies ought to be.
        copies: How many there are to be.
        timing: How long nodes trust each other.
        executors: Makes what runs attempts in this process, by name.
        warden: What runs the others; None where there are none.
        meet: Told of all members, again whenever one changes.
        begun: Told of each session that this node begins.
        metrics: Where everything is counted.
        others: The APIs of the other nodes; None on a node that is alone.
        look_for_space: Returns how much space is left on the disk.
        look_at_etcd: Returns how full etcd is; None on a node that is alone.
        compare_every: How long a node takes to compare the copies of all of its shards (R43).
    """

    member: Member
    lock: str
    incarnation: int
    store_made_at: Instant = Instant(0)
    store: Store
    shard_count: int
    commit: MakeCommit
    coordinator: Coordinator
    network: Network
    placement: Placement
    executors: MakeExecutors
    copies: Copies = field(default_factory=Copies)
    timing: Timing = field(default_factory=Timing)
    cluster_id: str | None = None
    warden: WardenLink | None = None
    meet: Callable[[Mapping[NodeId, Member]], None] = lambda members: None
    begun: Callable[[Session], None] = lambda session: None
    metrics: Metrics = field(default_factory=Metrics)
    others: PeerApis | None = None
    look_for_space: Callable[[], FoundSpace] = lambda: AMPLE
    look_at_etcd: LookAtEtcd | None = None
    compare_every: Duration = COMPARE_EVERY

    @property
    def is_alone(self) -> bool:
        """Whether there is one copy of each shard, on this node."""
        return self.copies.wanted == 1
