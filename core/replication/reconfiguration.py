"""Which configuration a primary wants next, if any: one question, asked at every tick.

The reasons, in their order; the first that applies decides:

    R17  a change whose outcome is unknown     the same again, under the next epoch
    R4   the node has a new session            likewise
    R19  it is unfit, or about to stop         none, if another copy can take its place (R27)
    R24  a backup is dead, silent, slow, or    without it, while enough remain
         about to stop
    R23  likewise, and too few would remain    a learner that has caught up in its place
    R23  fewer copies than wanted              with a learner that has caught up and is not slow
    R26  a copy is where none ought to be      with the one that ought to be, and only then without;
                                               at once where no other node is left for it
    R27  another node ought to be primary      it, once it has everything
"""

from collections.abc import Iterator

import msgspec

from rota.core.model.ids import Epoch, NodeId
from rota.core.replication.peer_copy import PeerCopy
from rota.core.replication.primary import WINDOW, Handover, Primary
from rota.core.timing.instants import Instant, later
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Copy

TIMES_SLOWER = 10
"""A copy is slow only if it takes so many times as long as the others do."""
HANDOVER_PAUSE = 10
"""After a handover that failed, the next one comes so many times its duration later."""


def next_configuration(primary: Primary, now: Instant) -> Configuration | None:
    """Return what *primary* proposes now; None if all is well, or nothing can be done about it.

    Learners and removals do not wait for the takeover to be committed (R22): else a second failure
    would block the shard for ever. Handing over does.
    """
    if _needs_bump(primary):
        return _with(primary, primary.configuration.sync)
    if _able_heir(primary, now) is not None:
        # The handover goes first, and the heir sees to the rest. But one that is well waits until
        # everything is committed, and so for a copy that does not answer.
        return _without_the_dead(primary, now) if primary.liveness.is_well else None
    return (
        _without_the_dead(primary, now)
        or _without_the_unwanted(primary, now)
        or _towards_targets(primary, now)
    )


def next_to_join(primary: Primary, now: Instant) -> NodeId | None:
    """Return the learner to wait for from now on: one that has all but what is on its way (R23).

    A learner that is slower than the copies that count would for ever be a little behind them.
    Without a session no change can be asked for, so there is nothing to wait for.
    """
    if primary.liveness.session == NO_SESSION:
        return None
    for node_id, peer in _able_learners(primary, now):
        if primary.copy.tip.index - peer.match < WINDOW:
            return node_id
    return None


def next_handover(primary: Primary, now: Instant) -> Handover | None:
    """Return the handover to begin now, or None: the primary is where it should be (R27).

    One that is unfit goes at once, to whoever is fit and first in line (R19, R20). For balance some
    go at a time, and to a copy that has just come a little later: its node is as new, often, and
    busy with the others.
    """
    if not primary.liveness.is_fit:
        heir = _able_heir(primary, now)
        return Handover(heir, later(now, primary.timing.handover)) if heir else None
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


def handed_over(primary: Primary, now: Instant, *, is_owing: bool) -> Configuration | None:
    """Return the configuration that ends the handover, once its heir has everything (R27).

    One that is not well waits neither for its own disk (R19) nor beyond the deadline. Nothing is
    lost that anybody was told of: the heir counts, so it has all that is committed. What is not may
    be the heir's or nobody's, and whoever waits for it is told that this is not known.

    What is committed is applied first, and so told and done: who has stepped down tells nobody, and
    begins nothing (R15), and what was started would be found not to run. What is decided ahead of
    its time is waited for likewise, until the deadline.
    """
    handover = primary.handover
    if handover is None or not primary.copy.has_applied_all:
        return None
    if is_owing and now < handover.deadline:
        return None
    copy, heir = primary.copy, primary.peers.get(handover.to)
    session = primary.liveness.sessions.get(handover.to)
    if heir is None or heir.is_broken or session is None:
        return None
    has_all = heir.match == copy.tip.index
    if primary.liveness.is_well:
        if not has_all or copy.committed != copy.tip.index:
            return None
    elif not has_all and now < handover.deadline:
        return None
    sync = primary.configuration.sync
    rest = tuple(copy for copy in sync if copy.node_id != primary.liveness.node_id)
    is_waited_for = primary.liveness.is_prompt and not primary.liveness.is_leaving
    if not is_waited_for and len(rest) >= primary.copies.least:
        sync = rest  # R24: else all that the heir commits would wait for this disk, or this node.
    return msgspec.structs.replace(
        _with(primary, sync), primary=handover.to, primary_session=session
    )


def _able_heir(primary: Primary, now: Instant) -> NodeId | None:
    """Return who is to have the shard of a node that is not fit, if that is so and there is one.

    It has to have answered just now what was asked just now, for a fenced primary soon asks no
    more. One that is about to stop is well and asks: only what it asked since then shows that the
    heir has not ended just before.
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
    """Return a configuration without a copy for which every write waits, or is about to.

    That is one on a slow disk, unless this node's is slow as well, for then it may be the same one;
    and one whose node is about to stop.
    """
    liveness = primary.liveness
    unwanted = liveness.leaving | liveness.slow if liveness.is_prompt else liveness.leaving
    copies = (each for each in primary.configuration.sync if each.node_id in unwanted)
    return next(filter(None, (_without(primary, copy, now) for copy in copies)), None)


def _without(primary: Primary, copy: Copy, now: Instant) -> Configuration | None:
    """Return a configuration without *copy*; with a learner in its place if it has to be (R23)."""
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
    # R26: for balance a copy goes only as the last step, when there is one more than wanted.
    if len(sync) > wanted or _is_all_that_can_be(primary):
        for copy in misplaced:
            if copy.node_id != primary.liveness.node_id:
                return _with(primary, tuple(each for each in sync if each != copy))
    return None  # The primary itself is misplaced: it hands over first, and its heir removes it.


def _is_all_that_can_be(primary: Primary) -> bool:
    """Tell whether one copy may go for which no other comes (R26).

    Its node is drained, and fewer nodes are left than there are to be copies. The copies on those
    all count, and enough remain without it.
    """
    members, targets = primary.configuration.members, primary.targets
    return (
        len(targets) < primary.copies.wanted
        and set(targets) <= set(members)
        and len(members) > primary.copies.least
    )


def _ready_learner(primary: Primary, now: Instant, *, besides: tuple[Copy, ...]) -> Copy | None:
    """Return a learner that has all that may be committed, on a node of none of *besides* (R23).

    Known to be committed is not enough: what an earlier primary acknowledged would be on one copy
    alone, and be lost with it (found by the simulation, seed 66 of the time).
    """
    taken = {copy.node_id for copy in besides}
    for node_id, peer in _able_learners(primary, now):
        if node_id not in taken and peer.match >= primary.perhaps_committed:
            return Copy(node_id, peer.allocation)
    return None


def _able_learners(primary: Primary, now: Instant) -> Iterator[tuple[NodeId, PeerCopy]]:
    """Yield the learners that are wanted, whole, answered just now, are not slow, and stay.

    One whose process was seen to end answered just before that; it does not come again for it.
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
    """Tell whether *peer* makes everyone wait who does not have to (R24).

    It is measured against the other backups of this shard: they get the same entries at the same
    moments, so what is slow here, or on the way for all, slows them too, and then it is not this
    copy that is slow. With no other backup, or of one that says nothing, there is nothing to go by.
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
