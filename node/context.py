"""The parts of a running node, for the API, the fallback and the housekeeping."""

from dataclasses import dataclass, field
from typing import Protocol

from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.primary import Copies
from rota.node.access.access_control import AccessControl
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.cluster.membership import Membership
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.coordination.coordinator import Coordinator
from rota.node.feeds.completion_waiters import CompletionWaiters
from rota.node.feeds.events import Events
from rota.node.namespaces.namespaces import Namespaces
from rota.node.peers.peer_apis import PeerApis
from rota.node.secrets.sealed_texts import SealedTexts
from rota.node.secrets.secret_store import SecretStore
from rota.node.shards.local_shards import Shards
from rota.node.system.bounded_calls import BoundedCalls
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.entropy import Entropy
from rota.node.system.metrics import Metrics
from rota.node.system.suggestion_budget import SuggestionBudget
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
        membership: The node's view of the cluster.
        documents: The shared documents.
        access: The access control.
        namespaces: The namespaces with documents.
        secrets: The secrets of namespaces.
        sealed_texts: The sealed texts of jobs.
        continuity: The node's record of the coordinator's past states.
        coordinator: The store through which all nodes agree.
        copies: The wanted and the least number of copies of each shard.
        others: The APIs of the other nodes; None on a single node.
        etcd: The guard of the space in etcd; None on a single node.
        file_checks: Checks of this machine's files.
        unready: Returns why the node is not ready for requests.
        suggestions: The searches for similar names that errors may still make.
    """

    config: NodeConfig
    clock: Clock
    entropy: Entropy
    shards: Shards
    attempts: LocalAttempts
    history: History
    waiters: CompletionWaiters
    events: Events
    metrics: Metrics
    membership: Membership
    documents: SharedDocuments
    access: AccessControl
    namespaces: Namespaces
    secrets: SecretStore
    sealed_texts: SealedTexts
    continuity: CoordinatorContinuity
    coordinator: Coordinator
    copies: Copies
    others: PeerApis | None
    etcd: EtcdGuard | None
    file_checks: BoundedCalls
    unready: Unready
    suggestions: SuggestionBudget = field(default_factory=SuggestionBudget)
