"""Procedure of a recovery: inventories, plan, record, write, record.

The order matters. The coordinator is read before the inventories, and every write is conditional on
the state that was read: after any change in between, the write is refused, and the recovery must be
run again. If a shard may have forked, nodes are also asked for hashes of entries. The record of the
cluster is
written first, so that only one of two concurrent recoveries writes configurations. A recovery that
was interrupted can be run again, and skips the shards that it has recovered.

The file RECOVERIES in the data directory has two lines for each recovery that was not a dry run:

    {"at": ..., "step": "begun", ...}     the plan
    {"at": ..., "step": "done", ...}      the result
    {"at": ..., "step": "failed", ...}    or the error, which may be `outcome_unknown`

If the second line is missing, the process ended before it, and the result is unknown.
"""

import asyncio
import logging
import os
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from rota.core.errors import Kind, Refused
from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.timing.instants import Instant, format_instant, parse_instant
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Copy, Swap
from rota.node.coordination.coordinator import Cluster, Coordinator, View
from rota.node.coordination.coordinator_errors import CoordinatorError
from rota.node.recovery.configuration_lineage import EntryOf, Hashes
from rota.node.recovery.inventory import HeldCopy, Inventory
from rota.node.recovery.plan import Finding, RecoveryPlan, ShardPlan, plan_from, plan_of
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.wire.documents import (
    ConfigurationView,
    CopyView,
    HeldView,
    InventoryView,
    RecoveryView,
    ShardLossView,
    ShardRecoveryView,
)

log = logging.getLogger(__name__)

RECORD_FILE = "RECOVERIES"
"""The file in the data directory with a record of each recovery, in lines of JSON."""
RECOVERED, CHANGED = "recovered", "changed"
ROUNDS_MAX = 100
"""The most rounds of requests for hashes; two journals are compared by bisection."""
SWAPS_AT_ONCE = 256
"""The number of swaps requested at once, under one session."""
HELD_AT_ONCE = 256
"""The number of shards that are inventoried without a pause; each takes about 8 µs."""
HASHES_AT_ONCE = 128
"""The most hashes of one request, whose request line has at most 8 KiB. They are read without a
pause; each takes about 10 µs if it is read from the disk."""

ReadHashes = Callable[[NodeId, Sequence[EntryOf]], Awaitable[Sequence[bytes | None] | None]]
"""Returns the hashes of a node's entries, None for missing entries; or None if the node does not
respond."""


class Recovery(NamedTuple):
    """The inputs of a recovery.

    Attributes:
        coordinator: The coordinator of the cluster.
        name: The name of the cluster.
        cluster: The record of the cluster according to this node's data and settings.
        node_id: This node, which runs the recovery.
        data_dir: The data directory of this node, for the record of the recovery.
        least: The number of copies that a commit needs (``min_sync``).
        now: Returns the time of the wall clock.
        view: The state of the coordinator, read before the inventories.
        inventories: The inventory of each node that responded.
        session: Returns this node's session; `NO_SESSION` while it has none.
        read_hashes: Requests hashes of entries from a node.
        found: Founds shards of which no node has any data, on this node.
        without: Nodes that are lost and need not respond.
        is_dry: Whether to change nothing.
    """

    coordinator: Coordinator
    name: str
    cluster: Cluster
    node_id: NodeId
    data_dir: Path
    least: int
    now: Callable[[], Instant]
    view: View
    inventories: Mapping[NodeId, InventoryView]
    session: Callable[[], Session]
    read_hashes: ReadHashes
    found: Callable[[Collection[ShardId]], None]
    without: Collection[NodeId]
    is_dry: bool


# -- inventories ----------------------------------------------------------------------------------


async def inventory_of(
    shards: Shards, node_id: NodeId, continuity: CoordinatorContinuity
) -> InventoryView:
    """Return the inventory of this node."""
    # `lost` is read first: if a loss is detected during the inventory, shards read before may still
    # have a configuration of the lost generation, and the node must not count as aware of the loss.
    lost = continuity.lost
    held: list[HeldView] = []
    for start in range(0, len(shards), HELD_AT_ONCE):
        numbers = shards.numbers[start : start + HELD_AT_ONCE]
        views = (_held_view(shards[ShardId(number)]) for number in numbers)
        held += [each for each in views if each is not None]
        await asyncio.sleep(0)
    return InventoryView(node_id=node_id, lost=lost, shards=held)


def _held_view(shard: Shard) -> HeldView | None:
    """Return this node's copy of a shard; None if it has no data of the shard."""
    replica = shard.replica
    copy, tip, seen = replica.copy, replica.copy.tip, replica.seen
    if seen is None and copy.allocation is None and not replica.epoch and not tip.index:
        return None
    return HeldView(
        shard=shard.id,
        seen=_configuration_view(seen) if seen else None,
        promised=replica.epoch,
        allocation=copy.allocation,
        before=copy.first - 1,
        committed=copy.committed,
        tip_epoch=tip.epoch,
        tip_index=tip.index,
        tip_hash=tip.hash.hex(),
        tip_at=format_instant(tip.at) if tip.index else None,
    )


async def hashes_in(shards: Shards, entries: Sequence[EntryOf]) -> list[bytes | None]:
    """Return the hashes of entries of this node's copies, None for missing entries."""
    hashes: list[bytes | None] = []
    for start in range(0, len(entries), HASHES_AT_ONCE):
        hashes += [
            shards[each.shard].replica.copy.hash_at(each.number)
            if each.shard < len(shards)
            else None
            for each in entries[start : start + HASHES_AT_ONCE]
        ]
        await asyncio.sleep(0)
    return hashes


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
    """Return the inventory that a document contains."""
    held = {ShardId(each.shard): _held(each) for each in view.shards}
    return Inventory(lost=view.lost, shards=held)


def _held(view: HeldView) -> HeldCopy:
    return HeldCopy(
        seen=_configuration(view.seen) if view.seen else None,
        promised=Epoch(view.promised),
        allocation=AllocationId(view.allocation) if view.allocation else None,
        before=Index(view.before),
        committed=Index(view.committed),
        tip=(Epoch(view.tip_epoch), Index(view.tip_index)),
        tip_hash=bytes.fromhex(view.tip_hash),
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


# -- planning -------------------------------------------------------------------------------------


async def _planned(
    recovery: Recovery, make: Callable[[Mapping[NodeId, Inventory], Hashes], RecoveryPlan]
) -> RecoveryPlan:
    """Return the plan, after requests for all hashes that it needs.

    Nodes that do not respond with hashes count as if they had not responded at all.

    Raises:
        Refused: *make* refused the recovery, or journals changed during the recovery.
    """
    # Threads, since this takes about 10 µs for each shard of each node, and *make* about 20 µs for
    # each shard.
    inventories = await asyncio.to_thread(
        lambda: {node_id: inventory_in(each) for node_id, each in recovery.inventories.items()}
    )
    known: dict[EntryOf, bytes] = {}
    for _ in range(ROUNDS_MAX):
        hashes = Hashes(known)
        plan = await asyncio.to_thread(make, inventories, hashes)
        if not hashes.wanted:
            return plan
        nodes = sorted({each.node_id for each in hashes.wanted})
        answers = await asyncio.gather(*(_ask(recovery, each, hashes.wanted) for each in nodes))
        for node_id, answer in zip(nodes, answers, strict=True):
            if answer is None:
                inventories.pop(node_id)
            else:
                known |= answer
    raise _overtaken("journals")


async def _ask(
    recovery: Recovery, node_id: NodeId, wanted: Collection[EntryOf]
) -> dict[EntryOf, bytes] | None:
    """Return the hashes of the entries of one node; None if it does not respond."""
    entries = sorted(each for each in wanted if each.node_id == node_id)
    hashes = await recovery.read_hashes(node_id, entries)
    if hashes is None:
        return None
    known = {entry: each for entry, each in zip(entries, hashes, strict=True) if each is not None}
    dropped = next((each for each in entries if each not in known), None)
    if dropped is not None:
        # The node's inventory had this entry.
        raise _overtaken(f"the journal of shard {dropped.shard} on {node_id}")
    return known


# -- the cluster ----------------------------------------------------------------------------------


async def recover_cluster(recovery: Recovery, *, accepts_loss: bool) -> RecoveryView:
    """Write the configurations that nodes have seen to a coordinator that lost them.

    Args:
        recovery: The inputs.
        accepts_loss: Whether to recover shards that may lack acknowledged writes.

    Raises:
        Refused: `plan_of` refused the recovery; the coordinator changed during the recovery or has
            another cluster; or this node has no session.
        CoordinatorError: The coordinator failed, or the outcome is unknown.
        OSError: The plan cannot be recorded; nothing was changed.
    """
    _check_cluster(recovery)
    plan = await _planned(
        recovery,
        lambda inventories, hashes: plan_of(
            recovery.view,
            inventories,
            hashes,
            without=recovery.without,
            least=recovery.least,
            accepts_loss=accepts_loss,
            count=recovery.cluster.shards,
        ),
    )
    planned = await asyncio.to_thread(_view_of, recovery, plan, changed=())
    if recovery.is_dry:
        return planned
    async with _recorded(recovery, planned) as outcome:
        changed = await _write(recovery, plan)
        recovery.found([each.shard for each in plan.shards if each.finding is Finding.NEW])
        outcome.view = done = await asyncio.to_thread(_view_of, recovery, plan, changed=changed)
    return done


def _view_of(
    recovery: Recovery, plan: RecoveryPlan, *, changed: Collection[ShardId]
) -> RecoveryView:
    return RecoveryView(
        generation=plan.generation,
        shards=[_shard_view(each, is_changed=each.shard in changed) for each in plan.shards],
        without=sorted(recovery.without),
    )


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
    """Return the nodes whose copies counted and are missing."""
    here = {copy.node_id for copy in plan.holders}
    return [each for each in (plan.newest.members if plan.newest else ()) if each not in here]


# -- one shard ------------------------------------------------------------------------------------


async def recover_shard(recovery: Recovery, shard: ShardId, source: NodeId) -> ShardLossView:
    """Make one node's copy of a shard the only one that counts.

    Args:
        recovery: The inputs.
        shard: The shard.
        source: The node with the copy.

    Raises:
        Refused: `plan_from` refused the recovery; the coordinator changed during the recovery or
            has another cluster; or this node has no session.
        CoordinatorError: The coordinator failed, or the outcome is unknown.
        OSError: The plan cannot be recorded; nothing was changed.
    """
    _check_cluster(recovery)
    plan = await _planned(
        recovery,
        lambda inventories, hashes: plan_from(
            shard,
            source,
            recovery.view,
            inventories,
            hashes,
            without=recovery.without,
            least=recovery.least,
        ),
    )
    [planned] = plan.shards
    assert planned.fresh is not None, planned
    held = inventory_in(recovery.inventories[source]).of(shard)
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
        async with _recorded(recovery, view):
            if await _write(recovery, plan):
                raise _overtaken(f"the configuration of shard {shard}")
    return view


# -- writing --------------------------------------------------------------------------------------


def _check_cluster(recovery: Recovery) -> None:
    there = recovery.view.cluster
    if there is not None and there.id != recovery.cluster.id:
        # Nodes of different clusters have no links, so the nodes that responded are of this
        # cluster.
        others = sorted(recovery.view.lives.keys() - recovery.inventories.keys())
        which = f"{', '.join(others)}, which did not respond" if others else "it has stopped since"
        raise Refused(
            Kind.CONFLICT,
            "other_cluster",
            f"etcd has another cluster, {there.id}, under the name {recovery.name!r}; the data of "
            f"{recovery.node_id} belong to {recovery.cluster.id}. A node without data founded the "
            f"other cluster while etcd was empty ({which}). Stop that node, run `etcdctl del "
            f"--prefix /rota/{recovery.name}/`, wait 10 s, and run the command again. Keep the "
            "data of all other nodes",
        )


async def _write(recovery: Recovery, plan: RecoveryPlan) -> set[ShardId]:
    """Write a plan; return the shards not written because their configurations had changed."""
    if recovery.session() == NO_SESSION:
        raise Refused(
            Kind.UNAVAILABLE,
            "coordinator_unavailable",
            "this node has no session in etcd yet; try again",
            retry_after_s=1,
        )
    before = recovery.view.cluster
    fresh = msgspec.structs.replace(before or recovery.cluster, generation=plan.generation)
    if not await recovery.coordinator.recover(before, fresh):
        raise _overtaken("the record of the cluster")
    planned = [each for each in plan.shards if each.fresh]
    changed: set[ShardId] = set()
    for start in range(0, len(planned), SWAPS_AT_ONCE):
        # The present session is used, since that at the start of the recovery may have ended.
        swaps = _swaps(planned[start : start + SWAPS_AT_ONCE], recovery.node_id, recovery.session())
        answers = await recovery.coordinator.swap(swaps)
        changed |= {
            swap.shard for swap, each in zip(swaps, answers, strict=True) if not each.is_done
        }
    return changed


def _swaps(planned: Iterable[ShardPlan], by: NodeId, session: Session) -> list[Swap]:
    return [
        Swap(
            shard=each.shard,
            expected=each.expected,
            fresh=each.fresh,
            by=by,
            session=session,
            is_repair=True,
        )
        for each in planned
        if each.fresh
    ]


def _overtaken(what: str) -> Refused:
    return Refused(
        Kind.UNAVAILABLE,
        "recovery_overtaken",
        f"{what} changed during the recovery, perhaps by another recovery; check the status of the "
        "cluster, and try again if a recovery is still needed",
        retry_after_s=1,
    )


# -- the record -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Outcome:
    """The result of a recovery; until the recovery ends, its plan."""

    view: RecoveryView | ShardLossView


@asynccontextmanager
async def _recorded(
    recovery: Recovery, planned: RecoveryView | ShardLossView
) -> AsyncGenerator[_Outcome]:
    """Record the plan before the body runs, and the result after it.

    Raises:
        OSError: The plan cannot be recorded; the body does not run.
    """
    await _record(recovery, "begun", planned)
    outcome = _Outcome(planned)
    try:
        yield outcome
    except (Refused, CoordinatorError) as error:
        await _record_end(recovery, "failed", _Failure(code=error.code, reason=str(error)))
        raise
    await _record_end(recovery, "done", outcome.view)


class _Failure(msgspec.Struct):
    code: str
    reason: str


_Facts = RecoveryView | ShardLossView | _Failure


async def _record_end(recovery: Recovery, step: str, facts: _Facts) -> None:
    """Record the result; a failure to record it is logged only."""
    try:
        await _record(recovery, step, facts)
    except OSError as error:
        log.error("recovery not recorded", extra={"step": step, "reason": str(error)})


async def _record(recovery: Recovery, step: str, facts: _Facts) -> None:
    """Append a line to the record of recoveries, durably."""
    head = {"at": format_instant(recovery.now()), "step": step}
    await asyncio.to_thread(_append, recovery.data_dir / RECORD_FILE, head, facts)


def _append(file: Path, head: dict[str, str], facts: _Facts) -> None:
    """Append a complete line to *file* and sync it; first end a line that a crash cut off."""
    fields: dict[str, object] = msgspec.to_builtins(facts)
    line = msgspec.json.encode({**head, **fields}) + b"\n"
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        while line:
            line = line[os.write(descriptor, line) :]  # A write may be partial.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if not size:
        _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
