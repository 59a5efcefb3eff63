"""Environment of a node: everything that differs between real and simulated nodes."""

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
from rota.node.shards.interfaces import Commit, Durable
from rota.node.system.disk_guard import AMPLE, FoundSpace
from rota.node.system.metrics import Metrics
from rota.node.webhooks.webhook_request import PostWebhook, post_nothing
from rota.storage.store import Store

MakeCommit = Callable[[Durable, Callable[[float], None]], Commit]
"""Makes a group commit, which calls the function with the duration in seconds of each sync."""
MakeExecutors = Callable[[Ended, Reported, RightOf], AttemptExecutors]
"""Makes the executors, which report endings and progress, and get the deadline of each launch."""


@dataclass(frozen=True, kw_only=True)
class NodeEnvironment:
    """The environment of one node.

    Attributes:
        member: The member record of this process.
        lock: The lock on the data directory (`rota.node.coordination.coordinator.Claim`).
        store_made_at: The creation of the data directory, by the wall clock.
        incarnation: The number of this process, higher than that of every earlier process of the
            node.
        store: The store of the shards; its creator closes it.
        shard_count: The number of shards of the cluster.
        commit: Makes the group commit of the store.
        coordinator: The store through which all nodes agree.
        cluster_id: The id in the cluster's record there; None if the ids are not compared.
        network: Sends messages to the other nodes.
        placement: Returns the nodes of a shard's copies.
        copies: The wanted and the least number of copies.
        timing: The durations of the cluster.
        executors: Makes the executors.
        warden: The link to the warden; None without a warden.
        on_members: Called with all members whenever a member has changed.
        on_session: Called with each session that this node begins.
        metrics: The metrics of the node.
        others: The APIs of the other nodes; None on a single node.
        look_for_space: Returns the space left on the disk.
        look_at_etcd: Returns the space in etcd; None on a single node.
        post_webhook: Sends a webhook of a job, if its host is permitted.
        compare_every: The period of the comparison of the copies of all shards (R43).
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
    on_members: Callable[[Mapping[NodeId, Member]], None] = lambda members: None
    on_session: Callable[[Session], None] = lambda session: None
    metrics: Metrics = field(default_factory=Metrics)
    others: PeerApis | None = None
    look_for_space: Callable[[], FoundSpace] = lambda: AMPLE
    look_at_etcd: LookAtEtcd | None = None
    post_webhook: PostWebhook = post_nothing
    compare_every: Duration = COMPARE_EVERY

    @property
    def is_alone(self) -> bool:
        """Whether each shard has only one copy, which is on this node."""
        return self.copies.wanted == 1
