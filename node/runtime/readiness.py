"""Readiness of a node: the first reason why it is not ready to serve requests."""

from collections.abc import Callable, Collection

from rota.core.model.ids import NodeId
from rota.executor.warden.node_link import WardenLink
from rota.node.cluster.joining import why_cut_off, why_unready
from rota.node.cluster.self_check import SelfCheck
from rota.node.shards.local_shards import Shards

STARTING = "the node is starting"
STOPPING = "the node is stopping"


class ServingPhase:
    """Phase of a node between its start and its stop.

    Args:
        reason: The reason why the node does not serve yet; None if it serves from the beginning.

    Attributes:
        reason: The reason why the node does not serve in this phase; None while it serves.
    """

    def __init__(self, reason: str | None = STARTING) -> None:
        self.reason = reason

    def begin_serving(self) -> None:
        """Record that the node has started."""
        self.reason = None

    def begin_stopping(self) -> None:
        """Record that the node is about to stop."""
        self.reason = STOPPING


class Readiness:
    """Readiness of one node (`rota.node.context.Unready`).

    Args:
        node_id: This node.
        shards: The shards of this node.
        self_check: The health of this node.
        warden: The link to the node's warden; None if there is no warden.
        phase: The phase of this node.
        linked_nodes: Returns the nodes to which there is a link; None if links do not matter.
    """

    def __init__(
        self,
        node_id: NodeId,
        shards: Shards,
        self_check: SelfCheck,
        warden: WardenLink | None,
        *,
        phase: ServingPhase,
        linked_nodes: Callable[[], Collection[NodeId]] | None,
    ) -> None:
        self._node_id = node_id
        self._shards = shards
        self._self_check = self_check
        self._warden = warden
        self._phase = phase
        self._linked_nodes = linked_nodes

    def __call__(self, *, exclude_cluster: bool = False) -> str | None:
        """Return why the node is not ready, or None if it is ready.

        Args:
            exclude_cluster: Whether to ignore conditions that affect all nodes.
        """
        refusal = self._shards.refusal
        return (
            (None if exclude_cluster else self._shards.why_frozen)
            or self._why_not_serving(exclude_cluster=exclude_cluster)
            or self._self_check.why_unfit
            or (refusal.detail if refusal else None)
            or (self._warden.why_away if self._warden else None)
            or (None if exclude_cluster else self._why_unreadable())
        )

    def _why_not_serving(self, *, exclude_cluster: bool) -> str | None:
        if self._phase.reason is not None or self._linked_nodes is None:
            return self._phase.reason
        if exclude_cluster:
            return why_cut_off(self._shards, self._linked_nodes())
        return why_unready(self._shards, self._node_id, self._linked_nodes())

    def _why_unreadable(self) -> str | None:
        faults = [shard.fault for shard in self._shards if shard.is_unreadable]
        return f"{len(faults)} shards stay closed: {faults[0]}" if faults else None
