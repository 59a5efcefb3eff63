"""Plan of a recovery: the configurations to write after the coordinator lost its state.

A committed entry is durable on every copy of its configuration, and a copy stores a configuration
durably before it accepts an entry under it. The newest configuration that any of a shard's nodes
has seen therefore names the copies with every acknowledged write. A recovery writes that
configuration again, under an epoch of a new generation, with those of its copies that still exist
(PROTOCOL R31). If some nodes continued with an older configuration that the coordinator still had,
entries are compared instead of epochs: see `rota.node.recovery.configuration_lineage`. A shard of
which no node has any data was never founded, or all its nodes are lost; it is founded.

This module is pure; `rota.node.recovery.procedure` sends the requests and writes.
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
"""All epochs are below this number."""
NAMED_MAX = 5


# -- findings about shards ------------------------------------------------------------------------


class Finding(Enum):
    """The finding about a shard; all but the first and the last leave it closed."""

    RECOVERABLE = "recoverable"
    """Copies that count exist and have every acknowledged write."""
    NO_COPY = "no_copy"
    """No node that responded has a copy that counts."""
    UNKNOWN_CONFIGURATION = "unknown_configuration"
    """A node promised, or has entries of, an epoch whose configuration no node has seen."""
    FORKED = "forked"
    """Nodes continued in two different ways, and neither has every acknowledged write."""
    UNSURE = "unsure"
    """Enough nodes are missing that only they may have a newer configuration."""
    NEW = "founded"
    """No node has any data of the shard, which is to be founded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """The plan for one shard.

    Attributes:
        shard: The shard.
        finding: The finding about the shard.
        expected: The coordinator's present configuration; None if it has none.
        newest: The newest known configuration; if the shard has forked, the one whose copies have
            every acknowledged write, if there is such a configuration. None if none is known.
        holders: The existing copies of *newest*, ordered by node.
        fresh: The configuration to write; None if the shard stays closed or is to be founded.
    """

    shard: ShardId
    finding: Finding
    expected: Configuration | None
    newest: Configuration | None
    holders: tuple[Copy, ...]
    fresh: Configuration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """The plan for all shards.

    Attributes:
        generation: The new generation of epochs.
        shards: The shards that need a recovery, ordered by number.
    """

    generation: int
    shards: tuple[ShardPlan, ...]


def plan_of(
    view: View,
    inventories: Mapping[NodeId, Inventory],
    hashes: Hashes,
    *,
    without: Collection[NodeId] = (),
    least: int,
    accepts_loss: bool = False,
    count: int = 0,
) -> RecoveryPlan:
    """Return the plan for the recovery of the cluster.

    Args:
        view: The state of the coordinator, read before the inventories.
        inventories: The inventory of each node that responded.
        hashes: Hashes of entries. The plan is invalid if `Hashes.wanted` is not empty afterwards.
        without: Nodes that are lost and need not respond.
        least: The number of copies that a commit needs (``min_sync``).
        accepts_loss: Whether to recover shards with `Finding.UNSURE`.
        count: The number of shards; a shard of which no node has any data is founded.

    Raises:
        Refused: The coordinator lost nothing, or everything that it lost is recovered; a node that
            may have newer configurations did not respond; a node has not detected the loss yet; or
            no epoch is left.
    """
    known = {*view.configurations, *(n for each in inventories.values() for n in each.shards)}
    numbers = sorted({*known, *map(ShardId, range(count))})
    lost = max((each.lost for each in inventories.values() if each.lost is not None), default=None)
    pending = [n for n in numbers if lost is not None and _is_void(view, n, lost)]
    raised = view.cluster.generation if view.cluster else -1
    if lost is None:
        _check_answered(view, inventories)
    if lost is None or (not pending and raised > lost):
        raise _sound(lost)
    command = f"rota cluster recover-coordination{' --accept-loss' * accepts_loss}"
    _check_answers(view, inventories, without, pending, command=command)
    _check_aware(inventories, lost, pending)
    found = [
        _found(view.configurations.get(n), n, inventories, hashes, without=without, least=least)
        for n in pending
    ]
    if not accepts_loss:
        found = [_if_unsure(each, inventories, without, least) for each in found]
    generation, epoch = _next(lost, raised, _highest_generation(view, inventories, found))
    wanted = {Finding.RECOVERABLE, *({Finding.UNSURE} if accepts_loss else ())}
    is_blind = len({*without, *_wiped(found, inventories)}) >= least and not accepts_loss
    unheld = Finding.UNSURE if is_blind else Finding.NEW
    return RecoveryPlan(
        generation=generation,
        shards=tuple(
            replace(each, finding=unheld)
            if each.finding is Finding.NEW
            else _filled(each, inventories, epoch)
            if each.finding in wanted
            else each
            for each in found
        ),
    )


def _wiped(found: Iterable[ShardPlan], inventories: Mapping[NodeId, Inventory]) -> set[NodeId]:
    """Return the nodes that responded but lack a copy that counted; they may lack others too."""
    named = {
        (plan.shard, copy.node_id, copy.allocation)
        for plan in found
        if plan.newest is not None
        for copy in plan.newest.sync
    }
    return {
        node_id
        for shard, node_id, allocation in named
        if node_id in inventories and inventories[node_id].of(shard).allocation != allocation
    }


def _next(*generations: int) -> tuple[int, Epoch]:
    """Return the generation above all *generations*, and its first epoch.

    Raises:
        Refused: No epoch is left.
    """
    generation = 1 + max(generations)
    epoch = first_epoch(generation)
    if epoch >= EPOCHS_END:
        raise _exhausted(generation)
    return generation, epoch


def _is_void(view: View, shard: ShardId, lost: int) -> bool:
    """Return True if nodes ignore the coordinator's configuration of a shard."""
    current = view.configurations.get(shard)
    return current is None or generation_of(current.epoch) <= lost


def _found(
    current: Configuration | None,
    shard: ShardId,
    inventories: Mapping[NodeId, Inventory],
    hashes: Hashes,
    *,
    without: Collection[NodeId],
    least: int,
) -> ShardPlan:
    """Return the finding about a shard, as a plan that writes nothing."""
    held = {node_id: each.of(shard) for node_id, each in inventories.items()}
    known = [each for each in (current, *(each.seen for each in held.values())) if each]
    if not known and all(map(_is_nothing, held.values())):
        return ShardPlan(
            shard=shard, finding=Finding.NEW, expected=None, newest=None, holders=(), fresh=None
        )
    lineage = ConfigurationLineage(shard, held, hashes, least)
    newest = max(known, key=lambda each: each.epoch, default=None)
    finding = _doubt(newest, known, held, lineage)
    if finding is Finding.NO_COPY and current is None and _never_committed(known, held, least):
        finding = Finding.NEW
    elif finding is None:
        sound = lineage.sound(known)
        empty = {node_id for node_id, each in held.items() if each.seen is None}
        finding = _finding(sound, lineage.holders(sound), blind={*without, *empty}, least=least)
        newest = sound or newest
    return ShardPlan(
        shard=shard,
        finding=finding,
        expected=current,
        newest=newest,
        holders=lineage.holders(newest),
        fresh=None,
    )


def _never_committed(
    known: Iterable[Configuration], held: Mapping[NodeId, HeldCopy], least: int
) -> bool:
    """Return True if no configuration had the copies for a commit, and no node has an entry.

    Such a shard was founded, and its first copy was lost before it had a second one.
    """
    return all(len(each.sync) < least for each in known) and all(
        each.tip == NOTHING_HELD.tip for each in held.values()
    )


def _if_unsure(
    plan: ShardPlan,
    inventories: Mapping[NodeId, Inventory],
    without: Collection[NodeId],
    least: int,
) -> ShardPlan:
    """Return the plan of a shard that is to be founded a second time; unsure if it had commits.

    It may have had some under a configuration that no node here has seen, on as many nodes as a
    commit needs, each of which is missing or has seen no configuration of the shard.
    """
    if plan.finding is not Finding.NEW or plan.newest is None:
        return plan
    blind = {*without, *(each for each, one in inventories.items() if not one.of(plan.shard).seen)}
    return replace(plan, finding=Finding.UNSURE) if len(blind) >= least else plan


def _is_nothing(held: HeldCopy) -> bool:
    """Return True if a node has no data of a shard, except a first copy that never counted."""
    return held.seen is None and held.promised == 0 and held.tip == NOTHING_HELD.tip


def _doubt(
    newest: Configuration | None,
    known: Collection[Configuration],
    held: Mapping[NodeId, HeldCopy],
    lineage: ConfigurationLineage,
) -> Finding | None:
    """Return the finding that needs no comparison of entries; None if a comparison is needed."""
    highest = max((max(each.promised, each.tip[0]) for each in held.values()), default=Epoch(0))
    if newest is None or highest > newest.epoch:
        return Finding.UNKNOWN_CONFIGURATION
    is_alone = all(each == newest for each in known if each.epoch == newest.epoch)
    return Finding.NO_COPY if is_alone and not lineage.holders(newest) else None


def _finding(
    sound: Configuration | None,
    holders: Collection[Copy],
    *,
    blind: Collection[NodeId],
    least: int,
) -> Finding:
    """Return the finding about a shard whose entries were compared.

    Args:
        sound: The configuration with every acknowledged write; None if there is none.
        holders: The existing copies of *sound*.
        blind: Nodes that are lost, or that responded without a configuration of the shard. Every
            node stores each configuration that it sees, so the latter are new or lost their data.
        least: The number of copies that a commit needs.
    """
    if sound is None:
        return Finding.FORKED
    # If entries were committed under a configuration that no node here has seen, it has at least
    # *least* copies, each on a node that is missing or that lost its data.
    here = {copy.node_id for copy in holders}
    unseeing = {*blind, *(each for each in sound.members if each not in here)} - here
    return Finding.UNSURE if len(unseeing) >= least else Finding.RECOVERABLE


def _filled(plan: ShardPlan, inventories: Mapping[NodeId, Inventory], epoch: Epoch) -> ShardPlan:
    """Return the plan with the configuration to write."""
    assert plan.newest is not None, plan
    tips = {copy.node_id: inventories[copy.node_id].of(plan.shard).tip for copy in plan.holders}
    primary = plan.newest.primary
    if primary not in tips:
        primary = max(sorted(tips), key=lambda each: tips[each])
    fresh = Configuration(
        epoch=epoch,
        primary=primary,
        # The primary starts under a later epoch, after all promises have expired (R16).
        primary_session=NO_SESSION,
        sync=plan.holders,
    )
    return replace(plan, fresh=fresh)


def _highest_generation(
    view: View, inventories: Mapping[NodeId, Inventory], found: Iterable[ShardPlan]
) -> int:
    """Return the highest generation of an epoch that was assigned or may have been assigned."""
    # A promise without a configuration may be forged, with an epoch near the highest one.
    unknown = {each.shard for each in found if each.finding is Finding.UNKNOWN_CONFIGURATION}
    epochs = [each.epoch for each in view.configurations.values()]
    for inventory in inventories.values():
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
    inventories: Mapping[NodeId, Inventory],
    hashes: Hashes,
    *,
    without: Collection[NodeId] = (),
    least: int,
) -> RecoveryPlan:
    """Return the plan that makes one node's copy of a shard the only one that counts.

    Acknowledged writes that are not on that copy are lost.

    Args:
        shard: The shard.
        source: The node with the copy.
        view: The state of the coordinator, read before the inventories.
        inventories: The inventory of each node that responded.
        hashes: Hashes of entries. The plan is invalid if `Hashes.wanted` is not empty afterwards.
        without: Nodes that are lost and need not respond.
        least: The number of copies that a commit needs (``min_sync``).

    Raises:
        Refused: A copy that counts exists, or a node that may have one did not respond; *source*
            has no complete copy; the coordinator lost its state and was not recovered; or no epoch
            is left.
    """
    lost = max((each.lost for each in inventories.values() if each.lost is not None), default=-1)
    if view.cluster is None or view.cluster.generation <= lost:
        raise _lost()
    command = f"rota shard recover {shard} --from {source}"
    _check_answers(view, inventories, without, [shard], command=command)
    current = view.configurations.get(shard)
    plan = _found(current, shard, inventories, hashes, without=without, least=least)
    is_certain = plan.finding is Finding.RECOVERABLE or not _is_void(view, shard, lost)
    if plan.holders and is_certain:
        raise _alive(plan)
    held = inventories[source].of(shard) if source in inventories else NOTHING_HELD
    if held.allocation is None:
        raise _no_copy(shard, source, inventories)
    of_shard = {node_id: each.of(shard) for node_id, each in inventories.items()}
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


# -- refusals -------------------------------------------------------------------------------------


def _check_answers(
    view: View,
    inventories: Mapping[NodeId, Inventory],
    without: Collection[NodeId],
    shards: Iterable[ShardId],
    *,
    command: str,
) -> None:
    """Check that every node that may have newer configurations has responded or is lost for good.

    Args:
        view: The state of the coordinator.
        inventories: The inventory of each node that responded.
        without: Nodes that are lost.
        shards: The shards to recover.
        command: The operator's command, without its ``--without`` options.

    Raises:
        Refused: A node has not responded, or a node declared lost is alive.
    """
    numbers = list(shards)
    named = {
        node_id
        for n in numbers
        for each in (view.configurations.get(n), *(one.of(n).seen for one in inventories.values()))
        if each
        for node_id in each.members
    }
    unknown = sorted(set(without) - {*view.members, *named})
    if unknown:
        raise not_found("node", unknown[0])
    here = sorted(set(without) & {*inventories, *view.lives})
    if here:
        raise Refused(
            Kind.CONFLICT,
            "node_alive",
            f"{_listed(here)} is alive; --without is only for nodes that are lost for good. Run: "
            f"`{_typed(command, set(without) - set(here))}`",
        )
    missing = sorted({*view.members, *named} - {*inventories, *without})
    if missing:
        raise Refused(
            Kind.UNAVAILABLE,
            "nodes_unreached",
            f"{_listed(missing)} did not respond, and may have data that no other node has. Start "
            "it with its data, and run the command again. Only if its data are lost for good, run: "
            f"`{_typed(command, {*without, *missing})}`",
            retry_after_s=1,
        )


def _check_answered(view: View, inventories: Mapping[NodeId, Inventory]) -> None:
    """Check that all live nodes responded, since one that did not may have detected a loss.

    Such a node may have no links to the other nodes because these founded another cluster.

    Raises:
        Refused: A live node did not respond.
    """
    silent = sorted(view.lives.keys() - inventories.keys())
    if not silent:
        return
    url = view.members[silent[0]].url if silent[0] in view.members else "http://HOST:PORT"
    raise Refused(
        Kind.UNAVAILABLE,
        "nodes_unreached",
        "no node that responded has detected a loss of state in etcd, but "
        f"{_listed(silent)}, alive according to etcd, did not respond. Run there: `rota cluster "
        f"recover-coordination --url {url} --dry-run`. If it reports that "
        f"etcd has another cluster, {_listed(sorted(inventories))} founded that cluster in the "
        "emptied etcd and must be stopped",
        retry_after_s=1,
    )


def _check_aware(
    inventories: Mapping[NodeId, Inventory], lost: int, pending: Collection[ShardId]
) -> None:
    """Check that no node can still use a configuration of a lost generation.

    Raises:
        Refused: A node with a configuration of one of *pending* has not detected the loss.
    """
    unaware = sorted(
        node_id
        for node_id, each in inventories.items()
        if each.lost != lost and any(each.of(shard).seen for shard in pending)
    )
    if unaware:
        raise Refused(
            Kind.UNAVAILABLE,
            "nodes_unaware",
            f"{_listed(unaware)} has not detected yet that etcd lost its state. Try again in a "
            "second. If the node still does not detect the loss, stop the node, run the command "
            "with --without, and start the node after the recovery",
            retry_after_s=1,
        )


def _sound(lost: int | None) -> Refused:
    none = "no node has detected a loss of state in etcd"
    done = none if lost is None else "everything that etcd lost is recovered"
    return Refused(
        Kind.CONFLICT,
        "coordination_sound",
        f"{done}: nothing to recover. Nodes detect a loss within seconds, and report it at /readyz",
    )


def _lost() -> Refused:
    return Refused(
        Kind.CONFLICT,
        "coordination_lost",
        "etcd lost its state; recover the cluster first, with `rota cluster recover-coordination`",
    )


def _alive(plan: ShardPlan) -> Refused:
    return Refused(
        Kind.CONFLICT,
        "copies_alive",
        f"shard {plan.shard} has a copy that counts, with every acknowledged write, on "
        f"{_listed([copy.node_id for copy in plan.holders])}, so no write needs to be given up. "
        "The shard opens as soon as enough nodes run for min_sync copies",
    )


def _no_copy(shard: ShardId, source: NodeId, inventories: Mapping[NodeId, Inventory]) -> Refused:
    others = sorted(node_id for node_id, each in inventories.items() if each.of(shard).allocation)
    where = f"{_listed(others)} has one" if others else "no node that responded has one"
    return Refused(
        Kind.CONFLICT, "copy_missing", f"{source} has no complete copy of shard {shard}; {where}"
    )


def _exhausted(generation: int) -> Refused:
    return Refused(
        Kind.CONFLICT,
        "epochs_exhausted",
        f"no epoch is left for generation {generation}, because a node promised an epoch near the "
        "highest one. Replace the data directory of that node, whose copy does not count",
    )


def _typed(command: str, without: Collection[NodeId]) -> str:
    return command + "".join(f" --without {each}" for each in sorted(without))


def _listed(names: Iterable[str]) -> str:
    named = list(names)
    return ", ".join(named[:NAMED_MAX]) + (", …" * (len(named) > NAMED_MAX))
