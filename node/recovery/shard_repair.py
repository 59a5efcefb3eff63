"""The repair of a shard whose copies promised an epoch that the coordinator never gave.

Such a promise fences every primary, for good (PROTOCOL R2): a forged message or damage made it
before R41 was there. Promises are never lowered. The coordinator's epoch is raised above the
highest of them instead, by compare-and-set, with everything else as it was; so each copy finds what
it is asked to obey (docs/decisions/0017).

Where a node knows a *configuration* or has *entries* of an epoch above the coordinator's, that has
lost what it knew, and its record may name copies that lack acknowledged entries: then nothing is
repaired.
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
"""Above it there is no room for the epochs that follow a repair."""


def promise_of(shard: Shard, node_id: NodeId) -> PromiseView:
    """Return what this node knows of the epochs of a shard."""
    replica = shard.replica
    return PromiseView(
        node_id=node_id,
        promised=replica.epoch,
        written=replica.copy.tip.epoch,
        known=replica.seen.epoch if replica.seen else 0,
    )


def repaired(
    shard: ShardId, current: Configuration | None, told: Mapping[NodeId, PromiseView]
) -> Configuration:
    """Return the configuration that frees a shard.

    Args:
        shard: Which.
        current: The coordinator's configuration of it.
        told: What each node told that could be asked.

    Raises:
        Refused: Nothing is wrong that this mends, or it is not certain.
    """
    if current is None:
        raise Refused(
            Kind.CONFLICT,
            "shard_sound",
            f"shard {shard} has no configuration yet: nothing to repair",
        )
    unasked = sorted(set(current.members) - told.keys())
    if unasked:
        raise Refused(
            Kind.UNAVAILABLE,
            "copies_unreached",
            f"the copies of shard {shard} on {', '.join(unasked)} count, and cannot be asked what "
            "they have: start these nodes first",
            retry_after_s=1,
        )
    ahead = sorted(each.node_id for each in told.values() if _knows_more(each, current.epoch))
    if ahead:
        raise Refused(
            Kind.CONFLICT,
            "coordinator_behind",
            f"etcd knows less of shard {shard} than {', '.join(ahead)}: it has epoch "
            f"{current.epoch}, and was perhaps restored from a backup. Its record may name copies "
            "that lack acknowledged entries, so a repair could lose them: change nothing, and see "
            "docs/how-to/operate.md, etcd lost its state",
        )
    promised = max((each.promised for each in told.values()), default=0)
    if promised <= current.epoch:
        raise Refused(
            Kind.CONFLICT,
            "shard_sound",
            f"no node promised shard {shard} an epoch above {current.epoch}, which is that of its "
            "configuration: nothing to repair",
        )
    if promised >= EPOCH_MAX:
        raise Refused(
            Kind.CONFLICT,
            "epochs_exhausted",
            f"epoch {promised} of shard {shard} leaves no room for a higher one: replace the data "
            "directories of the nodes that promised it, one after the other",
        )
    return replace(current, epoch=Epoch(promised + 1))


async def repair(
    coordinator: Coordinator,
    shard: ShardId,
    told: Mapping[NodeId, PromiseView],
    *,
    members: Collection[NodeId],
    node_id: NodeId,
    is_dry: bool,
) -> RepairView:
    """Raise the coordinator's epoch of a shard above all promises.

    Args:
        coordinator: Of the cluster.
        shard: Which.
        told: What each node told that could be asked.
        members: All nodes on record.
        node_id: This node, which asks for it.
        is_dry: Only say what would be done.

    Raises:
        Refused: See `repaired`; or the configuration changed meanwhile.
        CoordinatorError: The coordinator did not do it, or nobody knows.
    """
    view = await coordinator.view()
    current = view.configurations.get(shard)
    fresh = repaired(shard, current, told)
    assert current is not None, "without a configuration it is refused"
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
                f"shard {shard} changed meanwhile, or this node has no session: try again",
                retry_after_s=1,
            )
    return RepairView(
        shard=shard,
        epoch_before=current.epoch,
        epoch=fresh.epoch,
        promises=[told[each] for each in sorted(told)],
        unasked=sorted(set(members) - told.keys()),
    )


def _knows_more(told: PromiseView, epoch: Epoch) -> bool:
    return max(told.written, told.known) > epoch
