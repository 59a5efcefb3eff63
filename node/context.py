"""The parts of a running node, for the API, the fallback and the housekeeping."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from rota.core.model.hook import Notification
from rota.core.model.ids import JobId, ShardId
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.primary import Copies
from rota.node.access.access_control import AccessControl
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.cluster.membership import Membership
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.coordination.coordinator import Coordinator
from rota.node.facts.shared_facts import SharedFacts
from rota.node.feeds.completion_waiters import CompletionWaiters
from rota.node.feeds.events import Events
from rota.node.namespaces.namespaces import Namespaces
from rota.node.peers.peer_apis import PeerApis
from rota.node.secrets.secret_store import SecretStore
from rota.node.shards.local_shards import Shards
from rota.node.system.bounded_calls import BoundedCalls
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.entropy import Entropy
from rota.node.system.metrics import Metrics
from rota.node.webhooks.hook_retries import HookRetry
from rota.storage.history import History


class Unready(Protocol):
    """Function that returns the reason why a node is not ready for requests; None if it is."""

    def __call__(self, *, exclude_cluster: bool = False) -> str | None:
        """Return the reason; None if the node is ready.

        Args:
            exclude_cluster: Whether to ignore conditions that affect all nodes.
        """
        ...


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The parts of a node.

    Attributes:
        try_webhook: Sends a webhook once; returns why it was not accepted, or nothing.
        hook_retries: Returns the hooks of a job whose webhooks are tried again.
        membership: The node's view of the cluster.
        documents: The shared documents.
        access: The access control.
        facts: What the shared documents say to decisions.
        namespaces: The namespaces with documents.
        secrets: The secrets of namespaces.
        continuity: The node's record of the coordinator's past states.
        coordinator: The store through which all nodes agree.
        copies: The wanted and the least number of copies of each shard.
        others: The APIs of the other nodes; None on a single node.
        etcd: The guard of the space in etcd; None on a single node.
        file_checks: Checks of this machine's files.
        unready: Returns why the node is not ready for requests.
    """

    config: NodeConfig
    clock: Clock
    entropy: Entropy
    shards: Shards
    attempts: LocalAttempts
    history: History
    waiters: CompletionWaiters
    events: Events
    try_webhook: Callable[[Notification], Awaitable[str]]
    hook_retries: Callable[[ShardId, JobId], list[HookRetry]]
    metrics: Metrics
    membership: Membership
    documents: SharedDocuments
    access: AccessControl
    facts: SharedFacts
    namespaces: Namespaces
    secrets: SecretStore
    continuity: CoordinatorContinuity
    coordinator: Coordinator
    copies: Copies
    others: PeerApis | None
    etcd: EtcdGuard | None
    file_checks: BoundedCalls
    unready: Unready
