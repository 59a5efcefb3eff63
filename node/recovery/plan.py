"""The plan of a recovery: the configurations to write when the coordinator lost its state.

A committed entry is durable on every copy of its configuration, and a copy makes a configuration
durable as seen before it takes an entry under it. So the newest configuration that any of its
nodes has seen names the copies that have everything that was acknowledged. A recovery writes that
configuration again, under an epoch of a new generation, with the copies of it that are still there
(PROTOCOL R31). Where a part of the nodes went on from what the coordinator had left, before the
others came, entries are compared, not epochs: see `rota.node.recovery.configuration_lineage`. A
shard of which no node has anything was never founded, or all that had it are lost; it is founded.

Nothing here asks or writes anything: see `rota.node.recovery.procedure`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from rota.core.errors import Kind, Refused, not_found
from rota.core.model.ids import Epoch, NodeId, ShardId
from rota.core.vocabulary.shard_configuration import (
    NO_SESSION,
    Configuration,
    Copy,
    first_epoch,
    generation_of,
)
from rota.node.coordination.coordinator import View
from rota.node.recovery.configuration_lineage import ConfigurationLineage, Hashes
from rota.node.recovery.inventory import NOTHING_HELD, HeldCopy, Inventory

EPOCHS_END = 1 << 62
"""Epochs are below it."""
NAMED_MAX = 5


# -- what can be done for a shard -----------------------------------------------------------------


class Finding(Enum):
    """What is found out about a shard; all but the first and the last leave it closed."""

    RECOVERABLE = "recoverable"
    """Copies that count are there, and have everything that was acknowledged."""
    NO_COPY = "no_copy"
    """No copy that counts is left on any node that answers."""
    UNKNOWN_CONFIGURATION = "unknown_configuration"
    """A node promised, or has entries of, an epoch whose configuration no node has seen."""
    FORKED = "forked"
    """Nodes went on in two ways from what the coordinator had, and neither has everything."""
    UNSURE = "unsure"
    """So many nodes are missing that they alone may know a newer configuration."""
    NEW = "founded"
    """No node has anything of it: it is to be founded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """What a recovery does for a shard.

    Attributes:
        expected: The coordinator's configuration now; None if it has none.
        newest: The newest one that is known; where the shard has forked, the one whose copies have
            everything, if there is one.
        holders: The copies of that which are there, in order of node.
        fresh: The one to be written; None: the shard stays closed, or is to be founded.
    """

    shard: ShardId
    finding: Finding
    expected: Configuration | None
    newest: Configuration | None
    holders: tuple[Copy, ...]
    fresh: Configuration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """What a recovery writes.

    Attributes:
        generation: The new one.
        shards: Those that need a recovery, by number.
    """

    generation: int
    shards: tuple[ShardPlan, ...]


def plan_of(
    view: View,
    told: Mapping[NodeId, Inventory],
    hashes: Hashes,
    *,
    without: Collection[NodeId] = (),
    least: int,
    accepts_loss: bool = False,
    count: int = 0,
) -> RecoveryPlan:
    """Return the plan of a recovery of the cluster.

    Args:
        view: What the coordinator has; read before the nodes were asked.
        told: The inventory of each node that answered.
        hashes: Of entries; the plan counts only if no others are wanted after it was made.
        without: Nodes that are lost: their absence is accepted.
        least: Copies without which nothing is committed (``min_sync``).
        accepts_loss: Recover shards of which `Finding.UNSURE` holds, too.
        count: How many shards there are; those with lower numbers of which nobody has anything are
            founded.

    Raises:
        Refused: The coordinator lost nothing, or all of it is recovered; a node that may know more
            did not answer; a node has not learned yet that the coordinator lost its state; or no
            epoch is left.
    """
    known = {*view.configurations, *(n for each in told.values() for n in each.shards)}
    numbers = sorted({*known, *map(ShardId, range(count))})
    lost = max((each.lost for each in told.values() if each.lost is not None), default=None)
    pending = [n for n in numbers if lost is not None and _is_void(view, n, lost)]
    raised = view.cluster.generation if view.cluster else -1
    if lost is None:
        _check_answered(view, told)
    if lost is None or (not pending and raised > lost):
        raise _sound(lost)
    command = f"rota cluster recover-coordination{' --accept-loss' * accepts_loss}"
    _check_answers(view, told, without, pending, command=command)
    _check_aware(told, lost, pending)
    found = [
        _found(view.configurations.get(n), n, told, hashes, without=without, least=least)
        for n in pending
    ]
    generation, epoch = _next(lost, raised, _highest_generation(view, told, found))
    wanted = {Finding.RECOVERABLE, *({Finding.UNSURE} if accepts_loss else ())}
    is_blind = len({*without, *_wiped(found, told)}) >= least and not accepts_loss
    unheld = Finding.UNSURE if is_blind else Finding.NEW
    return RecoveryPlan(
        generation=generation,
        shards=tuple(
            replace(each, finding=unheld)
            if each.finding is Finding.NEW
            else _filled(each, told, epoch)
            if each.finding in wanted
            else each
            for each in found
        ),
    )


def _wiped(found: Iterable[ShardPlan], told: Mapping[NodeId, Inventory]) -> set[NodeId]:
    """Return the nodes that answered and lack a copy that counted: they may have lost others."""
    named = {
        (plan.shard, copy.node_id, copy.allocation)
        for plan in found
        if plan.newest is not None
        for copy in plan.newest.sync
    }
    return {
        node_id
        for shard, node_id, allocation in named
        if node_id in told and told[node_id].of(shard).allocation != allocation
    }


def _next(*generations: int) -> tuple[int, Epoch]:
    """Return the generation above all *generations*, and its first epoch.

    Raises:
        Refused: There is none.
    """
    generation = 1 + max(generations)
    epoch = first_epoch(generation)
    if epoch >= EPOCHS_END:
        raise _exhausted(generation)
    return generation, epoch


def _is_void(view: View, shard: ShardId, lost: int) -> bool:
    """Return True if nodes do not follow what the coordinator has of a shard."""
    current = view.configurations.get(shard)
    return current is None or generation_of(current.epoch) <= lost


def _found(
    current: Configuration | None,
    shard: ShardId,
    told: Mapping[NodeId, Inventory],
    hashes: Hashes,
    *,
    without: Collection[NodeId],
    least: int,
) -> ShardPlan:
    """Return the finding about a shard, with nothing to be written yet."""
    held = {node_id: each.of(shard) for node_id, each in told.items()}
    known = [each for each in (current, *(each.seen for each in held.values())) if each]
    if not known and all(map(_is_nothing, held.values())):
        return ShardPlan(
            shard=shard, finding=Finding.NEW, expected=None, newest=None, holders=(), fresh=None
        )
    lineage = ConfigurationLineage(shard, held, hashes, least)
    newest = max(known, key=lambda each: each.epoch, default=None)
    finding = _doubt(newest, known, held, lineage)
    if finding is None:
        sound = lineage.sound(known)
        finding = _finding(sound, lineage.holders(sound), without=without, least=least)
        newest = sound or newest
    return ShardPlan(
        shard=shard,
        finding=finding,
        expected=current,
        newest=newest,
        holders=lineage.holders(newest),
        fresh=None,
    )


def _is_nothing(held: HeldCopy) -> bool:
    """Return True if a node has no more of a shard than a copy that nobody was asked to count."""
    return held.seen is None and held.promised == 0 and held.tip == NOTHING_HELD.tip


def _doubt(
    newest: Configuration | None,
    known: Collection[Configuration],
    held: Mapping[NodeId, HeldCopy],
    lineage: ConfigurationLineage,
) -> Finding | None:
    """Return what keeps the shard closed though nothing was compared yet; None if nothing does."""
    highest = max((max(each.promised, each.tip[0]) for each in held.values()), default=Epoch(0))
    if newest is None or highest > newest.epoch:
        return Finding.UNKNOWN_CONFIGURATION
    is_alone = all(each == newest for each in known if each.epoch == newest.epoch)
    return Finding.NO_COPY if is_alone and not lineage.holders(newest) else None


def _finding(
    sound: Configuration | None,
    holders: Collection[Copy],
    *,
    without: Collection[NodeId],
    least: int,
) -> Finding:
    if sound is None:
        return Finding.FORKED
    # A configuration that no node here has seen, and under which something was committed, has at
    # least that many copies, each on a node that is missing or that lost its data.
    here = {copy.node_id for copy in holders}
    blind = {*without, *(each for each in sound.members if each not in here)} - here
    return Finding.UNSURE if len(blind) >= least else Finding.RECOVERABLE


def _filled(plan: ShardPlan, told: Mapping[NodeId, Inventory], epoch: Epoch) -> ShardPlan:
    """Return the plan with the configuration that is to be written."""
    assert plan.newest is not None, plan
    tips = {copy.node_id: told[copy.node_id].of(plan.shard).tip for copy in plan.holders}
    primary = plan.newest.primary
    if primary not in tips:
        primary = max(sorted(tips), key=lambda each: tips[each])
    fresh = Configuration(
        epoch=epoch,
        primary=primary,
        # It begins under an epoch of its own, after all promises have run out (R16).
        primary_session=NO_SESSION,
        sync=plan.holders,
    )
    return replace(plan, fresh=fresh)


def _highest_generation(
    view: View, told: Mapping[NodeId, Inventory], found: Iterable[ShardPlan]
) -> int:
    """Return the highest generation of an epoch that was given, or may have been."""
    # A promise that no configuration explains may be a forged one, near the end of all epochs.
    unknown = {each.shard for each in found if each.finding is Finding.UNKNOWN_CONFIGURATION}
    epochs = [each.epoch for each in view.configurations.values()]
    for inventory in told.values():
        for shard, held in inventory.shards.items():
            epochs.append(held.seen.epoch if held.seen else Epoch(0))
            if shard not in unknown:
                epochs += (held.promised, held.tip[0])
    return max(map(generation_of, epochs), default=0)


# -- one shard whose copies are lost --------------------------------------------------------------


def plan_from(
    shard: ShardId,
    source: NodeId,
    view: View,
    told: Mapping[NodeId, Inventory],
    hashes: Hashes,
    *,
    without: Collection[NodeId] = (),
    least: int,
) -> RecoveryPlan:
    """Return the plan that makes one node's copy of a shard the only one that counts.

    Whatever was acknowledged and is not on that copy is lost by it.

    Args:
        shard: Which.
        source: The node with the copy.
        view: What the coordinator has; read before the nodes were asked.
        told: The inventory of each node that answered.
        hashes: Of entries; the plan counts only if no others are wanted after it was made.
        without: Nodes that are lost: their absence is accepted.
        least: Copies without which nothing is committed (``min_sync``).

    Raises:
        Refused: A copy that counts is there, or is on a node that did not answer; the node has no
            whole copy; the coordinator lost its state and no recovery was made; no epoch is left.
    """
    lost = max((each.lost for each in told.values() if each.lost is not None), default=-1)
    if view.cluster is None or view.cluster.generation <= lost:
        raise _lost()
    command = f"rota shard recover {shard} --from {source}"
    _check_answers(view, told, without, [shard], command=command)
    current = view.configurations.get(shard)
    plan = _found(current, shard, told, hashes, without=without, least=least)
    is_certain = plan.finding is Finding.RECOVERABLE or not _is_void(view, shard, lost)
    if plan.holders and is_certain:
        raise _alive(plan)
    held = told[source].of(shard) if source in told else NOTHING_HELD
    if held.allocation is None:
        raise _no_copy(shard, source, told)
    of_shard = {node_id: each.of(shard) for node_id, each in told.items()}
    promised = [epoch for each in of_shard.values() for epoch in (each.promised, each.tip[0])]
    seen = [each.epoch for each in (current, *(one.seen for one in of_shard.values())) if each]
    highest = max(*promised, *seen)
    generation, epoch = _next(view.cluster.generation, generation_of(highest))
    fresh = Configuration(
        epoch=epoch,
        primary=source,
        primary_session=NO_SESSION,
        sync=(Copy(source, held.allocation),),
    )
    return RecoveryPlan(generation=generation, shards=(replace(plan, fresh=fresh),))


# -- what is refused ------------------------------------------------------------------------------


def _check_answers(
    view: View,
    told: Mapping[NodeId, Inventory],
    without: Collection[NodeId],
    shards: Iterable[ShardId],
    *,
    command: str,
) -> None:
    """Check that every node that may know more has answered, or is lost for good.

    Args:
        view: What the coordinator has.
        told: The inventory of each node that answered.
        without: Nodes that are lost.
        shards: Those that are to be recovered.
        command: What an operator typed, without its nodes to go on without.

    Raises:
        Refused: One has not, or is named as lost and lives.
    """
    numbers = list(shards)
    named = {
        node_id
        for n in numbers
        for each in (view.configurations.get(n), *(one.of(n).seen for one in told.values()))
        if each
        for node_id in each.members
    }
    unknown = sorted(set(without) - {*view.members, *named})
    if unknown:
        raise not_found("node", unknown[0])
    here = sorted(set(without) & {*told, *view.lives})
    if here:
        raise Refused(
            Kind.CONFLICT,
            "node_alive",
            f"{_listed(here)}: alive, and named by --without, which is for nodes that are lost. "
            f"Run the command without that: `{_typed(command, set(without) - set(here))}`",
        )
    missing = sorted({*view.members, *named} - {*told, *without})
    if missing:
        raise Refused(
            Kind.UNAVAILABLE,
            "nodes_unreached",
            f"{_listed(missing)} did not answer, and may have what no other node has: start it "
            "with its data, and run the command again. Only if its data are lost for good: "
            f"`{_typed(command, {*without, *missing})}`",
            retry_after_s=1,
        )


def _check_answered(view: View, told: Mapping[NodeId, Inventory]) -> None:
    """Check that nodes which live and did not answer do not know of a loss.

    They may have no link to those that answered because these founded another cluster.
    """
    silent = sorted(view.lives.keys() - told.keys())
    if not silent:
        return
    address = view.members[silent[0]].address if silent[0] in view.members else "HOST:PORT"
    raise Refused(
        Kind.UNAVAILABLE,
        "nodes_unreached",
        "no node that answered found that etcd lost its state, and no answer came from "
        f"{_listed(silent)}, alive by the record in etcd. Ask there: `rota cluster "
        f"recover-coordination --url http://{address} --dry-run`. If it says that "
        f"etcd has another cluster, {_listed(sorted(told))} founded that one in the "
        "emptied etcd, and has to be stopped",
        retry_after_s=1,
    )


def _check_aware(told: Mapping[NodeId, Inventory], lost: int, pending: Collection[ShardId]) -> None:
    """Check that no node follows an answer of the coordinator that is still on its way."""
    unaware = sorted(
        node_id
        for node_id, each in told.items()
        if each.lost != lost and any(each.of(shard).seen for shard in pending)
    )
    if unaware:
        raise Refused(
            Kind.UNAVAILABLE,
            "nodes_unaware",
            f"{_listed(unaware)} has not learned yet that etcd lost its state: try again in a "
            "second. If it does not learn that, stop it, name it as a node to go on without, and "
            "start it after the recovery",
            retry_after_s=1,
        )


def _sound(lost: int | None) -> Refused:
    done = "no node found that etcd lost its state" if lost is None else "all of it is recovered"
    return Refused(
        Kind.CONFLICT,
        "coordination_sound",
        f"{done}: nothing to recover. A node finds it out within seconds, and says so at /readyz",
    )


def _lost() -> Refused:
    return Refused(
        Kind.CONFLICT,
        "coordination_lost",
        "etcd lost its state: recover that first, by `rota cluster recover-coordination`",
    )


def _alive(plan: ShardPlan) -> Refused:
    return Refused(
        Kind.CONFLICT,
        "copies_alive",
        f"{_listed([copy.node_id for copy in plan.holders])} has a copy of shard {plan.shard} that "
        "counts, and so everything that was acknowledged: nothing has to be given up. The shard "
        "opens when as many copies as min_sync can be made",
    )


def _no_copy(shard: ShardId, source: NodeId, told: Mapping[NodeId, Inventory]) -> Refused:
    others = sorted(node_id for node_id, each in told.items() if each.of(shard).allocation)
    where = f"{_listed(others)} has one" if others else "no node that answered has one"
    return Refused(
        Kind.CONFLICT, "copy_missing", f"{source} has no whole copy of shard {shard}; {where}"
    )


def _exhausted(generation: int) -> Refused:
    return Refused(
        Kind.CONFLICT,
        "epochs_exhausted",
        f"epochs of generation {generation} cannot be stored: a node promised an epoch near the "
        "highest one. Replace the data directory of that node, whose copy does not count",
    )


def _typed(command: str, without: Collection[NodeId]) -> str:
    return command + "".join(f" --without {each}" for each in sorted(without))


def _listed(names: Iterable[str]) -> str:
    named = list(names)
    return ", ".join(named[:NAMED_MAX]) + (", …" * (len(named) > NAMED_MAX))
