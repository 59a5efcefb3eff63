"""Repair of a shard whose copies promised an epoch that the coordinator never assigned.

Such a promise fences every primary permanently (PROTOCOL R2). Before R41, a forged message or
damage could cause such a promise. Promises are never lowered. Instead, the coordinator's epoch is
raised above
the highest promise by compare-and-set, and the rest of the configuration is unchanged, so that each
copy accepts it (docs/decisions/0017).

If a node has a *configuration* or *entries* of an epoch above the coordinator's, the coordinator
has lost state, and its configuration may name copies that lack acknowledged entries. The repair is
then refused.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.ids import Epoch, NodeId, ShardId
from rota.core.vocabulary.shard_configuration import Configuration, Swap
from rota.node.coordination.coordinator import Coordinator
from rota.node.shards.shard import Shard
from rota.wire.documents import PromiseView, RepairView

EPOCH_MAX = 1 << 62
"""The limit of promised epochs; above it, no epochs are left for the changes after a repair."""


def promise_of(shard: Shard, node_id: NodeId) -> PromiseView:
    """Return the epochs of a shard on this node."""
    replica = shard.replica
    return PromiseView(
        node_id=node_id,
        promised=replica.epoch,
        written=replica.copy.tip.epoch,
        known=replica.seen.epoch if replica.seen else 0,
    )


def repaired(
    shard: ShardId, current: Configuration | None, promises: Mapping[NodeId, PromiseView]
) -> Configuration:
    """Return the configuration that repairs a shard.

    Args:
        shard: The shard.
        current: The coordinator's configuration of the shard.
        promises: The epochs on each node that responded.

    Raises:
        Refused: The shard needs no repair, or a repair would not be safe.
    """
    if current is None:
        raise Refused(
            Kind.CONFLICT,
            "shard_sound",
            f"shard {shard} has no configuration yet; there is nothing to repair",
        )
    unasked = sorted(set(current.members) - promises.keys())
    if unasked:
        raise Refused(
            Kind.UNAVAILABLE,
            "copies_unreached",
            f"not every node with a copy of shard {shard} that counts responded; first start "
            f"{', '.join(unasked)}",
            retry_after_s=1,
        )
    ahead = sorted(each.node_id for each in promises.values() if _knows_more(each, current.epoch))
    if ahead:
        raise Refused(
            Kind.CONFLICT,
            "coordinator_behind",
            f"etcd has epoch {current.epoch} of shard {shard}, but {', '.join(ahead)} reported a "
            "later one; etcd may have been restored from a backup. Its configuration may name "
            "copies that lack acknowledged entries, and a repair could lose them. Change nothing, "
            "and see docs/how-to/operate.md, etcd lost its state",
        )
    promised = max((each.promised for each in promises.values()), default=0)
    if promised <= current.epoch:
        raise Refused(
            Kind.CONFLICT,
            "shard_sound",
            f"no node promised an epoch of shard {shard} above {current.epoch}, the epoch of its "
            "configuration; there is nothing to repair",
        )
    if promised >= EPOCH_MAX:
        raise Refused(
            Kind.CONFLICT,
            "epochs_exhausted",
            f"no epoch is left above the promised epoch {promised} of shard {shard}; replace the "
            "data directories of the nodes that promised it, one after the other",
        )
    return replace(current, epoch=Epoch(promised + 1))


async def repair(
    coordinator: Coordinator,
    shard: ShardId,
    promises: Mapping[NodeId, PromiseView],
    *,
    members: Collection[NodeId],
    node_id: NodeId,
    is_dry: bool,
) -> RepairView:
    """Raise the coordinator's epoch of a shard above all promises.

    Args:
        coordinator: The coordinator of the cluster.
        shard: The shard.
        promises: The epochs on each node that responded.
        members: All nodes of the cluster.
        node_id: This node.
        is_dry: Whether to change nothing.

    Raises:
        Refused: `repaired` refused the repair; another request changed the configuration; or this
            node has no session.
        CoordinatorError: The coordinator failed, or the outcome is unknown.
    """
    view = await coordinator.view()
    current = view.configurations.get(shard)
    fresh = repaired(shard, current, promises)
    assert current is not None, "repaired refuses a shard without a configuration"
    if not is_dry:
        life = view.lives.get(node_id)
        swap = Swap(
            shard=shard,
            expected=current,
            fresh=fresh,
            by=node_id,
            session=life.session if life else current.primary_session,
            is_repair=True,
        )
        [answer] = await coordinator.swap([swap])
        if not answer.is_done:
            raise Refused(
                Kind.UNAVAILABLE,
                "coordinator_unavailable",
                f"shard {shard} changed during the repair, or this node has no session; try again",
                retry_after_s=1,
            )
    return RepairView(
        shard=shard,
        epoch_before=current.epoch,
        epoch=fresh.epoch,
        promises=[promises[each] for each in sorted(promises)],
        unasked=sorted(set(members) - promises.keys()),
    )


def _knows_more(promise: PromiseView, epoch: Epoch) -> bool:
    return max(promise.written, promise.known) > epoch
