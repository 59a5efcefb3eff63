"""Carrying out a recovery: ask, plan, record, write, record.

The order matters. The coordinator is read before the nodes are asked, and every write expects what
was read: whatever changes in between refuses the write, and the recovery is run again. Nodes are
asked once more, for hashes of entries, where the history of a shard may have forked. The record
of the cluster goes first, so that of two recoveries at the same time one writes configurations. A
recovery that ends in the middle is run again: the shards it has recovered are passed over.

RECOVERIES in the data directory has two lines for each recovery that was not a dry run:

    {"at": ..., "step": "begun", ...}     what is about to be written
    {"at": ..., "step": "done", ...}      what was written
    {"at": ..., "step": "failed", ...}    or why not, or why that is not known (`outcome_unknown`)

A first line without a second one is of a process that ended meanwhile: its outcome is not known.
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
from rota.node.coordination.coordinator import Cluster, Coordinator, CoordinatorError, View
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
"""In the data directory: lines of JSON about each recovery that this node carried out."""
RECOVERED, CHANGED = "recovered", "changed"
ROUNDS_MAX = 100
"""Questions for hashes, one after the other: two journals are compared by halves."""
SWAPS_AT_ONCE = 256
"""Made without a break, and asked in one session."""
HELD_AT_ONCE = 256
"""Shards whose copies are described without a break, some 8 µs each."""
HASHES_AT_ONCE = 128
"""Asked for by one request, whose line has at most 8 KiB, and read without a break: each may be a
read of the disk, some 10 µs."""

ReadHashes = Callable[[NodeId, Sequence[EntryOf]], Awaitable[Sequence[bytes | None] | None]]
"""Return the hashes of a node's entries, None for those it does not keep; or None, if it does not
answer."""


class Recovery(NamedTuple):
    """What a recovery needs to know.

    Attributes:
        coordinator: Of the cluster.
        name: Of the cluster.
        cluster: As this node knows it, from its data and settings.
        node_id: This node, which carries the recovery out.
        data_dir: Of this node; it gets the record.
        least: Copies without which nothing is committed (``min_sync``).
        now: Gives the calendar's time.
        view: What the coordinator has; read before the nodes were asked.
        told: What each node that answered has.
        session: Gives this node's session; `NO_SESSION` while it has none.
        read_hashes: Asks a node for hashes of entries.
        found: Has this node found shards of which no node has anything.
        without: Nodes that are lost: their absence is accepted.
        is_dry: Only say what would be done.
    """

    coordinator: Coordinator
    name: str
    cluster: Cluster
    node_id: NodeId
    data_dir: Path
    least: int
    now: Callable[[], Instant]
    view: View
    told: Mapping[NodeId, InventoryView]
    session: Callable[[], Session]
    read_hashes: ReadHashes
    found: Callable[[Collection[ShardId]], None]
    without: Collection[NodeId]
    is_dry: bool


# -- what a node has ------------------------------------------------------------------------------


async def inventory_of(
    shards: Shards, node_id: NodeId, continuity: CoordinatorContinuity
) -> InventoryView:
    """Return what this node has of all shards."""
    # First: what is learned meanwhile of a generation that is not known to be lost yet may be
    # missing in what was read before, and then this node must not look as if it knew of the loss.
    lost = continuity.lost
    held: list[HeldView] = []
    for start in range(0, len(shards), HELD_AT_ONCE):
        numbers = shards.numbers[start : start + HELD_AT_ONCE]
        views = (_held_view(shards[ShardId(number)]) for number in numbers)
        held += [each for each in views if each is not None]
        await asyncio.sleep(0)
    return InventoryView(node_id=node_id, lost=lost, shards=held)


def _held_view(shard: Shard) -> HeldView | None:
    """Return what this node has of a shard; None if it has nothing."""
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
    """Return the hashes of entries of this node's copies, None for those that are not kept."""
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
    """Return what a node has, from what it told."""
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
    """Return the plan, with all hashes that are needed for it.

    Nodes that do not answer for hashes count as if they had not answered at all.

    Raises:
        Refused: As *make* does; or journals change meanwhile.
    """
    # Some 10 µs for each shard of each node, and later 20 µs for each shard: the loop goes on.
    told = await asyncio.to_thread(
        lambda: {node_id: inventory_in(each) for node_id, each in recovery.told.items()}
    )
    known: dict[EntryOf, bytes] = {}
    for _ in range(ROUNDS_MAX):
        hashes = Hashes(known)
        plan = await asyncio.to_thread(make, told, hashes)
        if not hashes.wanted:
            return plan
        nodes = sorted({each.node_id for each in hashes.wanted})
        answers = await asyncio.gather(*(_ask(recovery, each, hashes.wanted) for each in nodes))
        for node_id, answer in zip(nodes, answers, strict=True):
            if answer is None:
                told.pop(node_id)
            else:
                known |= answer
    raise _overtaken("journals")


async def _ask(
    recovery: Recovery, node_id: NodeId, wanted: Collection[EntryOf]
) -> dict[EntryOf, bytes] | None:
    """Return the hashes of those entries that are a node's; None if it does not answer."""
    entries = sorted(each for each in wanted if each.node_id == node_id)
    hashes = await recovery.read_hashes(node_id, entries)
    if hashes is None:
        return None
    known = {entry: each for entry, each in zip(entries, hashes, strict=True) if each is not None}
    dropped = next((each for each in entries if each not in known), None)
    if dropped is not None:
        # The node had it when it was asked what it has.
        raise _overtaken(f"the journal of shard {dropped.shard} on {node_id}")
    return known


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
    plan = await _planned(
        recovery,
        lambda told, hashes: plan_of(
            recovery.view,
            told,
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
    plan = await _planned(
        recovery,
        lambda told, hashes: plan_from(
            shard,
            source,
            recovery.view,
            told,
            hashes,
            without=recovery.without,
            least=recovery.least,
        ),
    )
    [planned] = plan.shards
    assert planned.fresh is not None, planned
    held = inventory_in(recovery.told[source]).of(shard)
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
        # No link joins nodes of two clusters, so who answered is of this one.
        others = sorted(recovery.view.lives.keys() - recovery.told.keys())
        which = f"{', '.join(others)}, which did not answer" if others else "by now it has ended"
        raise Refused(
            Kind.CONFLICT,
            "other_cluster",
            f"etcd has another cluster, {there.id}, under the name {recovery.name!r}, and the "
            f"data of {recovery.node_id} are of {recovery.cluster.id}. A node without data founded "
            f"that one while etcd was empty ({which}). Stop that node, run `etcdctl del --prefix "
            f"/rota/{recovery.name}/`, wait 10 s, and run the command again. Keep the data of all "
            "other nodes",
        )


async def _write(recovery: Recovery, plan: RecoveryPlan) -> set[ShardId]:
    """Write what is planned, and return the shards that changed meanwhile and were left alone."""
    if recovery.session() == NO_SESSION:
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
    planned = [each for each in plan.shards if each.fresh]
    changed: set[ShardId] = set()
    for start in range(0, len(planned), SWAPS_AT_ONCE):
        # In the session of this moment: the one in which nodes were asked may be over.
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
        f"{what} changed meanwhile, perhaps by another recovery: look at the cluster, and try "
        "again if it is still needed",
        retry_after_s=1,
    )


# -- the record -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Outcome:
    """What a recovery did: at first what is planned."""

    view: RecoveryView | ShardLossView


@asynccontextmanager
async def _recorded(
    recovery: Recovery, planned: RecoveryView | ShardLossView
) -> AsyncGenerator[_Outcome]:
    """Record what is about to be written, before anything is, and what came of it.

    Raises:
        OSError: The first line cannot be written; nothing else is done then.
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
    """Record the outcome, which is as it is whether or not that is possible."""
    try:
        await _record(recovery, step, facts)
    except OSError as error:
        log.error("recovery not recorded", extra={"step": step, "reason": str(error)})


async def _record(recovery: Recovery, step: str, facts: _Facts) -> None:
    """Add a line to the record of recoveries, durably."""
    head = {"at": format_instant(recovery.now()), "step": step}
    await asyncio.to_thread(_append, recovery.data_dir / RECORD_FILE, head, facts)


def _append(file: Path, head: dict[str, str], facts: _Facts) -> None:
    """Add a line to *file*, whole and synced; one that a crash cut off stays a line of its own."""
    fields: dict[str, object] = msgspec.to_builtins(facts)
    line = msgspec.json.encode({**head, **fields}) + b"\n"
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        while line:
            line = line[os.write(descriptor, line) :]  # It may take less than it is given.
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
