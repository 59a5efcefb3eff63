"""Readiness of a node: the first reason why it is not ready to serve requests."""

from collections.abc import Callable, Collection

from rota.core.model.ids import NodeId
from rota.executor.warden.node_link import WardenLink
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
            return _why_cut_off(self._shards, self._linked_nodes())
        return _why_unready(self._shards, self._node_id, self._linked_nodes())

    def _why_unreadable(self) -> str | None:
        faults = [shard.fault for shard in self._shards if shard.is_unreadable]
        return f"{len(faults)} shards stay closed: {faults[0]}" if faults else None


def _why_unready(shards: Shards, node_id: NodeId, reached: Collection[NodeId]) -> str | None:
    """Return why some requests to this node cannot be answered; None if all can.

    Args:
        shards: The shards of this node.
        node_id: This node.
        reached: The nodes to which there is a link.
    """
    not_open = [shard for shard in shards if not shard.is_open]
    unknown = [each.id for each in not_open if each.primary_node is None]
    if unknown:
        return (
            f"{len(unknown)} shards have no primary in the view of this node; check etcd and the "
            "nodes with `rota cluster status`"
        )
    ours = [each.id for each in not_open if each.primary_node == node_id]
    if ours:
        return f"{len(ours)} shards of this node are not open yet: copies of them are missing"
    away = {each.primary_node for each in not_open if each.primary_node not in reached}
    if away:
        return (
            "shards have their primary on nodes that this node cannot reach; start them, or "
            f"restore the network: {', '.join(sorted(filter(None, away)))}"
        )
    return None


def _why_cut_off(shards: Shards, reached: Collection[NodeId]) -> str | None:
    """Return why another node may be able to serve more requests than this node; None if none may.

    A shard without a primary, or with a primary that cannot be reached, is as unavailable on the
    other nodes. If such a shard made nodes unready, the loss of one node would take all nodes out
    of service.

    Args:
        shards: The shards of this node.
        reached: The nodes to which there is a link.
    """
    # The primaries of shards that are not open here; this node may be one of these primaries.
    primaries = {shard.primary_node for shard in shards if not shard.is_open}
    if None in primaries:
        return "some shards have no primary in the view of this node"
    if primaries and not reached:
        return "no other node can be reached"
    return None
