"""The next configuration that a primary proposes, if any; evaluated at every tick.

These are the reasons in their order; the first one that applies decides:

    R17  the outcome of a change is unknown    the same copies, under the next epoch
    R4   the node has a new session            the same copies, under the next epoch
    R19  the node is unfit, or about to stop   a handover (R27), if another copy can replace it
    R24  a backup is dead, silent, slow, or    without that backup, if enough copies remain
         about to stop
    R23  as above, but too few would remain    a learner that has caught up in its place
    R23  fewer copies than wanted              with a learner that has caught up and is not slow
    R26  a copy on a node that is no target    first with the copy on the target, then without it;
                                               without it at once if no other node is left
    R27  another node should be primary        that node, once it has all entries
"""

from collections.abc import Iterator

import msgspec

from rota.core.model.ids import Epoch, NodeId
from rota.core.replication.peer_copy import PeerCopy
from rota.core.replication.primary import WINDOW, Handover, Primary
from rota.core.timing.instants import Instant, later
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Copy

TIMES_SLOWER = 10
"""A copy is slow only if its response time is more than this many times that of the others."""
HANDOVER_PAUSE = 10
"""The pause after a failed handover, as a multiple of the duration of a handover."""


def next_configuration(primary: Primary, now: Instant) -> Configuration | None:
    """Return the configuration that *primary* proposes now; None if none is needed or possible.

    Additions and removals do not wait until the takeover is committed (R22): otherwise a second
    failure would block the shard for ever. A handover waits for that commit.
    """
    if _needs_bump(primary):
        return _with(primary, primary.configuration.sync)
    if _able_successor(primary, now) is not None:
        # The handover has priority; the new primary makes all other changes. But the handover of a
        # node in good health waits until everything is committed, so an unresponsive copy is
        # removed first.
        return _without_the_dead(primary, now) if primary.liveness.is_well else None
    return (
        _without_the_dead(primary, now)
        or _without_the_unwanted(primary, now)
        or _towards_targets(primary, now)
    )


def next_to_join(primary: Primary, now: Instant) -> NodeId | None:
    """Return the node of the learner that commits wait for from now on; None without one (R23).

    The learner lacks only the latest entries. Without that wait, a learner that is slower than the
    counting copies would always be a little behind. Without a session no change can be requested,
    so no learner can join.
    """
    if primary.liveness.session == NO_SESSION:
        return None
    for node_id, peer in _able_learners(primary, now):
        if primary.copy.tip.index - peer.match < WINDOW:
            return node_id
    return None


def next_handover(primary: Primary, now: Instant) -> Handover | None:
    """Return the handover to begin now; None if there is none to begin (R27).

    An unfit primary hands over at once, to the first fit copy in order (R19, R20). For balance only
    some shards are handed over at a time, and not at once to a copy that has just been added: often
    its node is new as well, and busy with other shards.
    """
    if not primary.liveness.is_fit:
        successor = _able_successor(primary, now)
        return Handover(successor, later(now, primary.timing.handover)) if successor else None
    to = primary.targets[0] if primary.targets else primary.liveness.node_id
    peer = primary.peers.get(to)
    pause = HANDOVER_PAUSE * primary.timing.handover
    if (
        peer is None
        or primary.changes
        or primary.configuration.allocation_of(to) != peer.allocation
        or peer.is_broken
        or peer.is_silent(Instant(now - primary.timing.answered))
        or now - primary.handover_tried_at < pause
        or now - primary.adopted_at < primary.timing.settled
        or not primary.has_authority(now)
        or not primary.liveness.is_able(to)
        or not primary.transfers.may_hand_over()
    ):
        return None
    return Handover(to, later(now, primary.timing.handover))


def handed_over(primary: Primary, now: Instant, *, has_postponed: bool) -> Configuration | None:
    """Return the configuration that ends the handover; None while entries are missing (R27).

    A primary in bad health waits neither for its own disk (R19) nor beyond the deadline. No
    acknowledged entry is lost: the successor counts, so it has all committed entries. Whether an
    uncommitted entry survives is unknown, and the reply to its clients states this.

    Committed entries are applied first, and their effects and replies carried out: after stepping
    down the node may not do so (R15), and attempts recorded as started would not run. Effects that
    are postponed until their execution is due are awaited too, until the deadline.

    Args:
        primary: The primary.
        now: The current instant, by the node's own clock.
        has_postponed: Whether postponed effects are outstanding.
    """
    handover = primary.handover
    if handover is None or not primary.copy.has_applied_all:
        return None
    if has_postponed and now < handover.deadline:
        return None
    copy, successor = primary.copy, primary.peers.get(handover.to)
    session = primary.liveness.sessions.get(handover.to)
    if successor is None or successor.is_broken or session is None:
        return None
    has_all = successor.match == copy.tip.index
    if primary.liveness.is_well:
        if not has_all or copy.committed != copy.tip.index:
            return None
    elif not has_all and now < handover.deadline:
        return None
    sync = primary.configuration.sync
    rest = tuple(copy for copy in sync if copy.node_id != primary.liveness.node_id)
    is_waited_for = primary.liveness.is_prompt and not primary.liveness.is_leaving
    if not is_waited_for and len(rest) >= primary.copies.least:
        sync = rest  # R24: every commit of the successor would wait for this node or its disk.
    return msgspec.structs.replace(
        _with(primary, sync), primary=handover.to, primary_session=session
    )


def _able_successor(primary: Primary, now: Instant) -> NodeId | None:
    """Return the node to which an unfit primary hands its shard over; None if there is none.

    The successor must have answered a recent message: a fenced primary soon sends no more. A node
    that is about to stop still sends messages; only an answer to a message sent since then shows
    that the successor has not just stopped itself.
    """
    liveness = primary.liveness
    if liveness.is_fit or not primary.has_authority(now):
        return None
    asked_since = liveness.leaving_since if liveness.is_well else None
    since = max(Instant(now - primary.timing.answered), asked_since or Instant(0))
    able = [
        copy.node_id
        for copy in primary.configuration.sync
        if liveness.is_able(copy.node_id)
        and (peer := primary.peers.get(copy.node_id)) is not None
        and not peer.is_broken
        and peer.answered_to >= since
    ]
    order = {node_id: place for place, node_id in enumerate(primary.targets)}
    return min(able, key=lambda each: (order.get(each, len(order)), each), default=None)


def _needs_bump(primary: Primary) -> bool:
    is_renamed = primary.configuration.primary_session != primary.liveness.session
    return bool(primary.changes) or primary.wants_bump or primary.has_stepped_down or is_renamed


def _without_the_dead(primary: Primary, now: Instant) -> Configuration | None:
    sync = primary.configuration.sync
    since = Instant(now - primary.timing.silence)
    for copy in sync:
        peer = primary.peers.get(copy.node_id)
        if copy.node_id == primary.liveness.node_id or (
            peer is not None
            and not primary.liveness.is_dead(copy.node_id, now)
            and not (peer.is_broken or peer.is_silent(since) or _is_slow(primary, peer, now))
        ):
            continue
        fresh = _without(primary, copy, now)
        if fresh is not None:
            return fresh
    return None


def _without_the_unwanted(primary: Primary, now: Instant) -> Configuration | None:
    """Return a configuration without a copy on a slow disk or on a node that is about to stop.

    Every write waits for such a copy, or soon will. Slow disks of other nodes are ignored if this
    node's disk is slow as well, because it may be the same disk.
    """
    liveness = primary.liveness
    unwanted = liveness.leaving | liveness.slow if liveness.is_prompt else liveness.leaving
    copies = (each for each in primary.configuration.sync if each.node_id in unwanted)
    return next(filter(None, (_without(primary, copy, now) for copy in copies)), None)


def _without(primary: Primary, copy: Copy, now: Instant) -> Configuration | None:
    """Return a configuration without *copy*, with a learner in its place if necessary (R23)."""
    rest = tuple(each for each in primary.configuration.sync if each != copy)
    if len(rest) >= primary.copies.least:
        return _with(primary, rest)
    learner = _ready_learner(primary, now, besides=rest)
    return _with(primary, (*rest, learner)) if learner else None


def _towards_targets(primary: Primary, now: Instant) -> Configuration | None:
    sync, wanted = primary.configuration.sync, primary.copies.wanted
    misplaced = [copy for copy in sync if primary.targets and copy.node_id not in primary.targets]
    learner = _ready_learner(primary, now, besides=sync)
    if learner and (len(sync) < wanted or (len(sync) == wanted and misplaced)):
        return _with(primary, (*sync, learner))
    # R26: for balance, a copy is removed only as the last step, when there is one more than wanted.
    if len(sync) > wanted or _is_all_that_can_be(primary):
        for copy in misplaced:
            if copy.node_id != primary.liveness.node_id:
                return _with(primary, tuple(each for each in sync if each != copy))
    return None  # The primary itself is misplaced: after a handover the new primary removes it.


def _is_all_that_can_be(primary: Primary) -> bool:
    """Return True if a copy may be removed without replacement (R26).

    That is so if its node is drained, fewer nodes are left than copies wanted, the copies on these
    nodes all count, and enough copies remain.
    """
    members, targets = primary.configuration.members, primary.targets
    return (
        len(targets) < primary.copies.wanted
        and set(targets) <= set(members)
        and len(members) > primary.copies.least
    )


def _ready_learner(primary: Primary, now: Instant, *, besides: tuple[Copy, ...]) -> Copy | None:
    """Return a learner with all entries that may be committed, on no node of *besides* (R23).

    The entries known to be committed do not suffice: entries that an earlier primary acknowledged
    would be on a single copy and could be lost with it (found by the simulation, seed 66).
    """
    taken = {copy.node_id for copy in besides}
    for node_id, peer in _able_learners(primary, now):
        if node_id not in taken and peer.match >= primary.perhaps_committed:
            return Copy(node_id, peer.allocation)
    return None


def _able_learners(primary: Primary, now: Instant) -> Iterator[tuple[NodeId, PeerCopy]]:
    """Yield the learners that are wanted, complete, responsive, not slow and not about to stop.

    A node whose process was seen to end is left out, although it has answered recently.
    """
    since = Instant(now - primary.timing.answered)
    for node_id in primary.targets:
        peer = primary.learners.get(node_id)
        if peer is None or peer.snapshot or peer.is_broken or peer.is_silent(since):
            continue
        unwanted = primary.liveness.slow | primary.liveness.leaving
        is_dead = primary.liveness.is_dead(node_id, now)
        if not (is_dead or node_id in unwanted or _is_slow(primary, peer, now)):
            yield node_id, peer


def _is_slow(primary: Primary, peer: PeerCopy, now: Instant) -> bool:
    """Return True if *peer* delays every commit and the other backups do not (R24).

    The response time is compared with that of the shard's other backups. They receive the same
    entries at the same moments, so a cause on this node or in the network slows them too. Without
    other backups, or without response times of one of them, the result is False.
    """
    window = primary.timing.pace
    took = peer.pace.median(now, window)
    if took is None or took <= primary.timing.slow:
        return False
    others = [each.pace.median(now, window) for each in primary.peers.values() if each is not peer]
    known = [median for median in others if median is not None]
    return len(known) == len(others) > 0 and took > TIMES_SLOWER * max(known)


def _with(primary: Primary, sync: tuple[Copy, ...]) -> Configuration:
    return Configuration(
        epoch=Epoch(primary.configuration.epoch + 1),
        primary=primary.liveness.node_id,
        primary_session=primary.liveness.session,
        sync=tuple(sorted(sync, key=_by_node)),
    )


def _by_node(copy: Copy) -> NodeId:
    return copy.node_id
