"""Operations on the nodes of a cluster: drain, undrain and removal.

The state of a node is stored at the coordinator, whichever node handles the request, and all nodes
watch it there. Conditions are checked against a view that is read for the request, not against the
view of the node that handles the request.
"""

import msgspec

from rota.core.errors import Kind, Refused, not_found
from rota.core.model.ids import NodeId
from rota.node.coordination.coordinator import (
    ACTIVE,
    DRAINING,
    Coordinator,
    Member,
    View,
)

NAMED_MAX = 5


async def hold_nothing(coordinator: Coordinator, node_id: NodeId, *, is_dry: bool) -> Member:
    """Drain a node, and return its new record; if *is_dry*, change nothing.

    Raises:
        Refused: There is no such node, or no other node that could take its copies.
        CoordinatorError: The coordinator did not make the change, or the outcome is unknown.
    """
    return await _set_state(coordinator, node_id, DRAINING, is_dry=is_dry)


async def hold_again(coordinator: Coordinator, node_id: NodeId, *, is_dry: bool) -> Member:
    """End the drain of a node, and return its new record; if *is_dry*, change nothing.

    Raises:
        Refused: There is no such node.
        CoordinatorError: The coordinator did not make the change, or the outcome is unknown.
    """
    return await _set_state(coordinator, node_id, ACTIVE, is_dry=is_dry)


async def forget(coordinator: Coordinator, node_id: NodeId, *, is_dry: bool) -> None:
    """Remove a node that will not come back; if *is_dry*, only check whether that is possible.

    Raises:
        Refused: There is no such node; the node is alive; or it has a copy that counts, without
            which the copy's shard could commit nothing.
        CoordinatorError: The coordinator did not make the change, or the outcome is unknown.
    """
    view = await coordinator.view()
    _member(view, node_id)
    if node_id in view.lives:
        raise _alive(node_id)
    held = sorted(n for n, each in view.configurations.items() if node_id in each.members)
    if held:
        named = ", ".join(map(str, held[:NAMED_MAX])) + (", …" * (len(held) > NAMED_MAX))
        raise Refused(
            Kind.CONFLICT,
            "node_in_use",
            f"copies of {len(held)} shards on {node_id} count ({named}): wait until other copies "
            "have taken their place, or start the node and drain it first; if the node is lost for "
            "good, and no other copy that counts is left, see `rota shard recover`",
        )
    # No copy of the node can begin to count in between: the node would have to be alive for that.
    if not is_dry and not await coordinator.forget(node_id):
        raise _alive(node_id)


async def _set_state(
    coordinator: Coordinator, node_id: NodeId, state: str, *, is_dry: bool
) -> Member:
    while True:
        view = await coordinator.view()
        member = _member(view, node_id)
        if state == DRAINING:
            _check_others(view, node_id)
        fresh = msgspec.structs.replace(member, state=state)
        if is_dry or fresh == member or await coordinator.change(member, fresh):
            return fresh
        # The node (by registering) or another operator has changed the record since it was read.


def _member(view: View, node_id: NodeId) -> Member:
    member = view.members.get(node_id)
    if member is None:
        raise not_found("node", node_id)
    return member


def _check_others(view: View, node_id: NodeId) -> None:
    others = (each for each in view.members.values() if each.node_id != node_id)
    if not any(each.state == ACTIVE and each.weight > 0 for each in others):
        raise Refused(
            Kind.CONFLICT,
            "last_node",
            f"no other node can take the copies on {node_id}: add or undrain another node first",
        )


def _alive(node_id: NodeId) -> Refused:
    return Refused(
        Kind.CONFLICT,
        "node_alive",
        f"{node_id} is alive and would be back at once: stop it first; a node that was killed "
        "counts as alive until its session has expired",
    )
