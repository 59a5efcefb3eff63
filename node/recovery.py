"""Carrying out a recovery: ask, plan, record, write.

The order matters. The coordinator is read before the nodes are asked, and every write expects what
was read: whatever changes in between refuses the write, and the recovery is run again. The record
of the cluster goes first, so that of two recoveries at the same time one writes configurations. A
recovery that ends in the middle is run again: the shards it has recovered are passed over.
"""

import asyncio
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from rota.client.wire import (
    ConfigurationView,
    CopyView,
    HeldView,
    InventoryView,
    RecoveryView,
    ShardLossView,
    ShardRecoveryView,
)
from rota.core.configuration import Configuration, Copy, Swap
from rota.core.errors import Kind, Refused
from rota.core.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.instants import Instant, format_instant, parse_instant
from rota.node.coordination.coordinator import Cluster, Coordinator, View
from rota.node.recovering import (
    NOTHING_HELD,
    Held,
    Inventory,
    Plan,
    ShardPlan,
    plan_from,
    plan_of,
)
from rota.node.shard import Shard
from rota.node.shards import Shards

RECORD_FILE = "RECOVERIES"
"""In the data directory: a line of JSON for each recovery that this node carried out."""
RECOVERED, CHANGED = "recovered", "changed"


class Recovery(NamedTuple):
    """What a recovery needs to know.

    Attributes:
        coordinator: Of the cluster.
        cluster: As this node knows it, from its data and settings.
        node_id: This node, which carries the recovery out.
        data_dir: Of this node; it gets the record.
        least: Copies without which nothing is committed (``min_sync``).
        now: The calendar's time.
        view: What the coordinator has; read before the nodes were asked.
        told: What each node that answered has.
        without: Nodes that are lost: their absence is accepted.
        is_dry: Only say what would be done.
    """

    coordinator: Coordinator
    cluster: Cluster
    node_id: NodeId
    data_dir: Path
    least: int
    now: Instant
    view: View
    told: Mapping[NodeId, InventoryView]
    without: Collection[NodeId]
    is_dry: bool


# -- what a node has ------------------------------------------------------------------------------


def inventory_of(shards: Shards, node_id: NodeId, lost: int | None) -> InventoryView:
    """Return what this node has of all shards."""
    held = [_held_view(shard) for shard in shards]
    return InventoryView(
        node_id=node_id,
        lost=lost,
        shards=[each for each in held if _held(each) != NOTHING_HELD],
    )


def _held_view(shard: Shard) -> HeldView:
    replica = shard.replica
    tip, seen = replica.copy.tip, replica.seen
    return HeldView(
        shard=shard.id,
        seen=_configuration_view(seen) if seen else None,
        promised=replica.epoch,
        allocation=replica.copy.allocation,
        tip_epoch=tip.epoch,
        tip_index=tip.index,
        tip_at=format_instant(tip.at) if tip.index else None,
    )


def _configuration_view(configuration: Configuration) -> ConfigurationView:
    return ConfigurationView(
        epoch=configuration.epoch,
        primary=configuration.primary,
        primary_session=configuration.primary_session,
        copies=[
            CopyView(node_id=each.node_id, allocation=each.allocation)
            for each in configuration.sync
        ],
    )


def inventory_in(view: InventoryView) -> Inventory:
    """Return what a node has, from what it told."""
    held = {ShardId(each.shard): _held(each) for each in view.shards}
    return Inventory(lost=view.lost, shards=held)


def _held(view: HeldView) -> Held:
    return Held(
        seen=_configuration(view.seen) if view.seen else None,
        promised=Epoch(view.promised),
        allocation=AllocationId(view.allocation) if view.allocation else None,
        tip=(Epoch(view.tip_epoch), Index(view.tip_index)),
        tip_at=parse_instant(view.tip_at) if view.tip_at else Instant(0),
    )


def _configuration(view: ConfigurationView) -> Configuration:
    return Configuration(
        epoch=Epoch(view.epoch),
        primary=NodeId(view.primary),
        primary_session=Session(view.primary_session),
        sync=tuple(
            Copy(NodeId(each.node_id), AllocationId(each.allocation)) for each in view.copies
        ),
    )


# -- the cluster ----------------------------------------------------------------------------------


async def recover_cluster(recovery: Recovery, *, accepts_loss: bool) -> RecoveryView:
    """Write the configurations that nodes have seen to a coordinator that lost them.

    Args:
        recovery: What is known.
        accepts_loss: Recover shards, too, that may lack what was acknowledged.

    Raises:
        Refused: See `plan_of`; or the coordinator changed meanwhile, or is of another cluster.
        CoordinatorError: The coordinator did not do all of it, or that is not known.
    """
    _check_cluster(recovery)
    plan = plan_of(
        recovery.view,
        {node_id: inventory_in(each) for node_id, each in recovery.told.items()},
        without=recovery.without,
        least=recovery.least,
        accepts_loss=accepts_loss,
    )
    changed: set[ShardId] = set()
    if not recovery.is_dry:
        changed = await _write(recovery, plan)
    view = RecoveryView(
        generation=plan.generation,
        shards=[_shard_view(each, is_changed=each.shard in changed) for each in plan.shards],
        without=sorted(recovery.without),
    )
    if not recovery.is_dry:
        await _record(recovery, view)
    return view


def _shard_view(plan: ShardPlan, *, is_changed: bool) -> ShardRecoveryView:
    fresh = None if is_changed else plan.fresh
    outcome = RECOVERED if fresh else CHANGED if is_changed else plan.finding.value
    return ShardRecoveryView(
        shard=plan.shard,
        outcome=outcome,
        epoch_before=plan.newest.epoch if plan.newest else 0,
        epoch=fresh.epoch if fresh else None,
        primary=fresh.primary if fresh else None,
        copies=[*fresh.members] if fresh else [],
        missing=_missing(plan),
    )


def _missing(plan: ShardPlan) -> list[str]:
    """Return the nodes whose copies counted and are not there."""
    here = {copy.node_id for copy in plan.holders}
    return [each for each in (plan.newest.members if plan.newest else ()) if each not in here]


# -- one shard ------------------------------------------------------------------------------------


async def recover_shard(recovery: Recovery, shard: ShardId, source: NodeId) -> ShardLossView:
    """Make one node's copy of a shard the only one that counts.

    Raises:
        Refused: See `plan_from`; or the coordinator changed meanwhile, or is of another cluster.
        CoordinatorError: The coordinator did not do it, or that is not known.
    """
    _check_cluster(recovery)
    told = {node_id: inventory_in(each) for node_id, each in recovery.told.items()}
    plan = plan_from(
        shard, source, recovery.view, told, without=recovery.without, least=recovery.least
    )
    [planned] = plan.shards
    assert planned.fresh is not None, planned
    held = told[source].of(shard)
    _, last_index = held.tip
    view = ShardLossView(
        shard=shard,
        node_id=source,
        epoch_before=planned.newest.epoch if planned.newest else 0,
        epoch=planned.fresh.epoch,
        last_index=last_index,
        last_at=format_instant(held.tip_at) if last_index else None,
        missing=_missing(planned),
        recorded_on=recovery.node_id,
    )
    if not recovery.is_dry:
        # First, so that no loss is without a record.
        await _record(recovery, view)
        if await _write(recovery, plan):
            raise _overtaken(f"the configuration of shard {shard}")
    return view


# -- writing --------------------------------------------------------------------------------------


def _check_cluster(recovery: Recovery) -> None:
    there = recovery.view.cluster
    if there is not None and there.id != recovery.cluster.id:
        raise Refused(
            Kind.CONFLICT,
            "other_cluster",
            f"etcd has another cluster under this name, {there.id}, and the data here are of "
            f"{recovery.cluster.id}: a node without data founded it when etcd was empty. Stop that "
            "node, delete the keys of the cluster in etcd, and try again",
        )


async def _write(recovery: Recovery, plan: Plan) -> set[ShardId]:
    """Write what is planned, and return the shards that changed meanwhile and were left alone."""
    life = recovery.view.lives.get(recovery.node_id)
    if life is None:
        raise Refused(
            Kind.UNAVAILABLE,
            "coordinator_unavailable",
            "this node has no session at etcd yet: try again",
            retry_after_s=1,
        )
    before = recovery.view.cluster
    fresh = msgspec.structs.replace(before or recovery.cluster, generation=plan.generation)
    if not await recovery.coordinator.recover(before, fresh):
        raise _overtaken("the record of the cluster")
    swaps = [
        Swap(
            shard=each.shard,
            expected=each.expected,
            fresh=each.fresh,
            by=recovery.node_id,
            session=life.session,
            is_repair=True,
        )
        for each in plan.shards
        if each.fresh
    ]
    answers = await recovery.coordinator.swap(swaps)
    return {swap.shard for swap, answer in zip(swaps, answers, strict=True) if not answer.is_done}


def _overtaken(what: str) -> Refused:
    return Refused(
        Kind.UNAVAILABLE,
        "recovery_overtaken",
        f"{what} changed meanwhile, perhaps by another recovery: look at the cluster, and try "
        "again if it is still needed",
        retry_after_s=1,
    )


async def _record(recovery: Recovery, view: RecoveryView | ShardLossView) -> None:
    """Add a line to the record of recoveries, durably."""
    line = msgspec.json.encode({"at": format_instant(recovery.now), **_fields_of(view)}) + b"\n"
    await asyncio.to_thread(_append, recovery.data_dir / RECORD_FILE, line)


def _fields_of(view: RecoveryView | ShardLossView) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(view)
    return fields


def _append(file: Path, line: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
