"""One copy of a shard on one node: which duty it has, and when that changes.

    no duty but to listen   Backup    obeys the primary; may take over (R16)
    decides                 Primary   appends and commits; from `_begin` to `_step_down`

A copy becomes primary by one thing alone: a configuration that names this node, in its present
session, and its allocation. It ends with any newer configuration that names another. Both come from
the coordinator, never from a message of another node (R41).
"""

from collections import Counter
from dataclasses import dataclass

import msgspec

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.backup import Backup, Promises
from rota.core.replication.coordinator_continuity import CoordinatorContinuity, Known
from rota.core.replication.local_copy import LocalCopy, Storage, Stored, Write
from rota.core.replication.messages import Append, Base, Fenced, Message, Succeed, name_of
from rota.core.replication.primary import Copies, Handover, Primary
from rota.core.replication.primary_claims import (
    CLAIMS,
    Claim,
    ClaimVerdict,
    EarlyClaims,
    claimed_epoch,
    judge,
)
from rota.core.replication.reconfiguration import (
    handed_over,
    next_configuration,
    next_handover,
    next_to_join,
)
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import ORIGIN, EntryKind
from rota.core.vocabulary.shard_configuration import (
    NO_SESSION,
    Configuration,
    Copy,
    Swap,
    Swapped,
    first_epoch,
    generation_of,
)


@dataclass(slots=True)
class Ready:
    """What is to be done for a replica, now.

    Attributes:
        writes: To be stored, in this order and as one batch; then `Replica.made_durable` is called
            with *number* once they survive a power loss.
        sends: Messages; they may go before the writes are durable.
        swap: To be asked of the coordinator; the answer goes to `Replica.answered`.
        wants_view: Whether the coordinator's view is to be read and given to `Replica.learn`.
    """

    writes: tuple[Write, ...]
    number: int
    sends: tuple[tuple[NodeId, Message], ...]
    swap: Swap | None
    wants_view: bool


class Replica:
    """One copy of a shard.

    Args:
        shard: Which.
        stored: What the node's store has of it.
        storage: For reading more.
        liveness: The node's, shared by its replicas.
        continuity: Likewise.
        timing: The cluster's.
        transfers: The node's, shared by its replicas.
        copies: How many there are to be.

    Attributes:
        copy: The journal and what of it is committed; for reading.
        primary: The duty of the primary, or None if this copy does not have it; for reading.
        newest: The newest configuration that the coordinator gave in this life of the node; None
            if it gave none.
        refused: Messages whose senders had no right to them, or that cannot be true, by name.
        is_owing: Whether something that is committed waits for its time here (R27); for its node to
            say.
    """

    def __init__(
        self,
        shard: ShardId,
        stored: Stored,
        storage: Storage,
        *,
        liveness: Liveness,
        continuity: CoordinatorContinuity,
        timing: Timing,
        transfers: TransferLimits,
        copies: Copies,
    ) -> None:
        self.shard = shard
        self.copy = LocalCopy(stored, storage)
        self.newest: Configuration | None = None
        self.refused: Counter[str] = Counter()
        self.is_owing = False
        self._seen_number = 0
        """Of the configuration seen last, among all that this node learned in this life."""
        self._liveness = liveness
        self._continuity = continuity
        if stored.seen is not None:
            continuity.saw(stored.seen.epoch)
        self._timing = timing
        self._transfers = transfers
        self._copies = copies
        self._promises = Promises()
        self._known: tuple[Configuration, ...] = ()
        """The newest configuration and the one before it, under which messages may be on their way;
        the newest is last."""
        self._early = EarlyClaims()
        self._duty: Primary | Backup = self._backup()
        self.primary: Primary | None = None
        transfers.add(self)
        self._targets: tuple[NodeId, ...] = ()
        self._in_flight: Swap | None = None
        self._takeovers: list[Swap] = []
        self._vacant_since: Instant | None = None
        self._is_founding = False
        self._heard: tuple[NodeId, Instant] | None = None
        """The primary that was heard last, and when."""
        self._swap: Swap | None = None
        self._wants_view = False

    # -- what it is -----------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this is the primary's copy, and its takeover is committed."""
        primary = self.primary
        return primary is not None and primary.is_active

    @property
    def is_candidate(self) -> bool:
        """Whether it asked to take over, and may yet be told that it did (R17)."""
        return bool(self._takeovers)

    def has_authority(self, now: Instant) -> bool:
        """Tell whether this node may act for the shard; ask right before each effect (R15)."""
        primary = self.primary
        return primary is not None and primary.has_authority(now)

    def served_by(self, since: Instant) -> NodeId | None:
        """Return the primary that has been heard since then; None if none was.

        Be it this node, if all copies that count have answered it since.
        """
        primary = self.primary
        if primary is not None:
            return self._liveness.node_id if primary.is_followed(since) else None
        return self._heard[0] if self._heard is not None and self._heard[1] >= since else None

    @property
    def counts(self) -> bool:
        """Whether this copy counts, as far as is known here."""
        allocation = self.copy.allocation
        newest = self.newest
        return (
            newest is not None
            and allocation is not None
            and newest.allocation_of(self._liveness.node_id) == allocation
        )

    def is_admitting(self, now: Instant) -> bool:
        """Tell whether `propose` may be called."""
        primary = self.primary
        return primary is not None and primary.is_admitting(now)

    @property
    def seen(self) -> Configuration | None:
        """The newest configuration that the coordinator was seen to have, also in earlier lives."""
        return self.copy.seen

    @property
    def is_lost(self) -> bool:
        """Whether the coordinator lost what it had of this shard, and no recovery followed (R31).

        A shard that the coordinator never had is lost while it could only be founded under a
        generation that is.
        """
        if self._continuity.lost is None:
            return False
        latest = self.newest or self.seen
        epoch = latest.epoch if latest else first_epoch(self._continuity.generation)
        return self._continuity.is_void(epoch)

    @property
    def is_frozen(self) -> bool:
        """Whether the coordinator is asked for no change (R31).

        Because it lost its state, or has no epoch as high as one that is promised here.
        """
        newest = self.newest
        return self.is_lost or (newest is not None and newest.epoch < self.copy.epoch)

    @property
    def epoch(self) -> Epoch:
        """The highest epoch promised."""
        return self.copy.epoch

    @property
    def sending_count(self) -> int:
        """Snapshots of several parts that are on their way from here."""
        primary = self.primary
        return primary.sending_count if primary else 0

    def is_taking(self, now: Instant) -> bool:
        """Tell whether a snapshot of several parts is being taken here."""
        return isinstance(self._duty, Backup) and self._duty.is_taking(now)

    @property
    def needed_from(self) -> Index:
        """Index of the first entry that may still be asked for: keep it and all after it."""
        primary = self.primary
        return primary.needed_from if primary else Index(self.copy.tip.index + 1)

    # -- events ---------------------------------------------------------------------------------

    def propose(
        self, body: bytes, at: Instant, now: Instant, kind: EntryKind = EntryKind.CHANGES
    ) -> Index:
        """Append an entry as the primary, and return its index; it is not yet committed.

        Args:
            body: The changes, encoded.
            at: The shard time of the decision, later than every one before (R7).
            now: By the node's own clock, which only passes.
            kind: Of the entry.
        """
        primary = self.primary
        assert primary is not None
        primary.propose(body, at, kind, now)
        return self.copy.tip.index

    def receive(self, message: Message, sender: NodeId, now: Instant) -> None:
        """Take a message from another node's replica of this shard."""
        if isinstance(message, CLAIMS):
            self._take_claim(message, sender, now)
        elif isinstance(self._duty, Primary) and not self._duty.receive(message, sender, now):
            self._refuse(message)

    def _take_claim(self, claim: Claim, sender: NodeId, now: Instant) -> None:
        """Obey, fence, refuse, or keep for a moment what only a primary may send (R2, R41)."""
        match judge(claim, sender, known=self._known, promised=self.copy.epoch):
            case ClaimVerdict.VALID:
                self._obey(claim, sender, now)
            case ClaimVerdict.STALE:
                epoch = max((self.copy.epoch, *(each.epoch for each in self._known)))
                self._duty.outbox.append((sender, Fenced(epoch=epoch)))
            case ClaimVerdict.EARLY:
                self._early.put(claim, sender, now)
            case ClaimVerdict.FORBIDDEN:
                self._refuse(claim)

    def _obey(self, claim: Claim, sender: NodeId, now: Instant) -> None:
        # No node sends messages to itself, so a valid one is never for the primary.
        if isinstance(claim, Succeed) or isinstance(self._duty, Primary):
            return
        self.copy.promise(claimed_epoch(claim))
        if isinstance(claim, Append):
            self._heard = sender, now
        self._duty.may_promise = not self.is_candidate
        self._duty.receive(claim, sender, self.newest, now)

    def _refuse(self, message: Message) -> None:
        self.refused[name_of(message)] += 1

    def _look_after_early(self, now: Instant) -> None:
        """Have the coordinator asked for what early claims wait for; drop those too old."""
        for claim in self._early.expire(now):
            self._refuse(claim)
        self._wants_view = self._wants_view or bool(self._early.waiting)

    def linked(self, node_id: NodeId) -> None:
        """Note that there is a link to another node from now on."""
        primary = self.primary
        if primary is not None:
            primary.linked(node_id)

    def made_durable(self, number: int) -> None:
        """Note that the writes up to batch *number* survive a power loss."""
        self.copy.made_durable(number)
        if isinstance(self._duty, Primary):
            self._duty.advance()
        else:
            self._duty.made_durable()

    @property
    def is_handing_over(self) -> bool:
        """Whether this primary waits until its heir has everything, and admits nothing."""
        primary = self.primary
        return primary is not None and primary.handover is not None and self._in_flight is None

    @property
    def is_giving_away(self) -> bool:
        """Whether this primary hands over, and has not been told yet what came of it."""
        primary = self.primary
        return primary is not None and (primary.handover is not None or primary.has_stepped_down)

    def released(self, now: Instant) -> None:
        """Note that what the applied entries led to has been told and done.

        A handover that only waited for that goes on at once: work is refused meanwhile.
        """
        primary = self.primary
        if self.is_handing_over and primary is not None and primary.handover is not None:
            self._hand_over(primary, primary.handover, now)

    def learn(self, configuration: Configuration, now: Instant) -> None:
        """Take note of a configuration that is or was in force; the coordinator gave it (R41)."""
        continuity, seen = self._continuity, self.seen
        if seen is not None and _is_twin(configuration, seen):
            continuity.lose(
                generation_of(seen.epoch),
                f"epoch {seen.epoch} of shard {self.shard} was given to two configurations",
            )
        if continuity.is_void(configuration.epoch):
            return  # R31: its epoch may have been another configuration's.
        if seen is not None and configuration.epoch < seen.epoch:
            return
        if self.newest is not None and configuration.epoch <= self.newest.epoch:
            return
        if seen is None or configuration.epoch > seen.epoch:
            self.copy.see(configuration)
            continuity.saw(configuration.epoch)
            continuity.count += 1
            self._seen_number = continuity.count
        self._take_note(configuration, now)

    def compare(self, given: Configuration | None, known: Known) -> None:
        """Note a loss if a view has less of this shard than was seen before (R31).

        Args:
            given: The view's configuration; None if it has none.
            known: `CoordinatorContinuity.known` of when the view was requested.
        """
        seen = self.seen
        if seen is None or self._seen_number > known.count:
            return
        if given is None or given.epoch < seen.epoch:
            has = f"epoch {given.epoch}" if given else "nothing"
            self._continuity.lose(
                generation_of(seen.epoch),
                f"it has {has} of shard {self.shard}, and had epoch {seen.epoch}",
            )

    def _take_note(self, configuration: Configuration, now: Instant) -> None:
        self.newest = configuration
        self._known = (*self._known[-1:], configuration)
        self._follow(configuration, now)
        for early in self._early.take(configuration.epoch):
            self._take_claim(early.claim, early.sender, now)

    def _follow(self, configuration: Configuration, now: Instant) -> None:
        """Become or cease to be primary, as the newest configuration says."""
        self._vacant_since = None
        # R17: what compared against an older value can no longer happen.
        self._takeovers = [swap for swap in self._takeovers if _may_happen(swap, configuration)]
        primary = self.primary
        if primary is None:
            self._take_up(configuration, now)
            return
        primary.changes = [swap for swap in primary.changes if _may_happen(swap, configuration)]
        if configuration.primary != self._liveness.node_id:
            self._step_down()
        elif configuration.epoch > primary.configuration.epoch:
            primary.adopt(configuration, now)

    def answered(self, swap: Swap, answer: Swapped | None, now: Instant) -> None:
        """Take the coordinator's answer to *swap*; None if none came, and nobody knows (R17)."""
        if self._in_flight is swap:
            self._in_flight = None
        if answer is None:
            self._wants_view = True
            return
        if not answer.is_done:
            if swap.expected is not None and _is_forgotten(swap, answer):
                self._continuity.lose(
                    generation_of(swap.expected.epoch),
                    f"it has no epoch {swap.expected.epoch} of shard {self.shard} any more",
                )
            # Refused for certain: it will not happen any more.
            self._takeovers = [each for each in self._takeovers if each is not swap]
            primary = self.primary
            if primary is not None:
                primary.changes = [each for each in primary.changes if each is not swap]
                # R18: nothing else can have happened; or, where the coordinator lost what it had,
                # nobody can act by what has, while all copies that count give this one leases.
                is_known = answer.current == primary.configuration
                is_void = self._continuity.is_void(primary.configuration.epoch)
                if not primary.changes and (is_known or is_void):
                    primary.has_stepped_down = False
        if answer.current is not None:
            self.learn(answer.current, now)
        if answer.is_done and swap.fresh.primary != self._liveness.node_id:
            heir = swap.fresh.primary
            self._duty.outbox.append((heir, Succeed(configuration=swap.fresh)))

    def found(self, allocation: AllocationId) -> None:
        """Be the first copy of a shard that never had any, and propose to be its primary.

        Only where the coordinator has no configuration of the shard, and never had (R23, R31).
        """
        assert self.copy.tip == ORIGIN
        if self._is_founding or self.seen is not None or self.is_lost:
            return
        if self.copy.allocation is None:
            self.copy.clear()
            self.copy.become_whole(allocation, Base(Epoch(0), Index(0), Instant(0), ORIGIN.hash))
        # Else an earlier life began to, and what it proposed may still happen: with that copy.
        self._is_founding = True

    def begin_alone(self, base: Base, allocation: AllocationId, now: Instant) -> None:
        """Be the only copy there is, empty, with a journal that goes on after *base*."""
        self.copy.clear()
        self.copy.become_whole(allocation, base)
        self.go_on_alone(now)

    def go_on_alone(self, now: Instant) -> None:
        """Be the primary of the only copy there is; nobody else need be asked.

        Under the epoch that it has: what was not durable when this node ended had no effect.
        """
        me, allocation = self._liveness.node_id, self.copy.allocation
        assert allocation is not None
        configuration = Configuration(
            epoch=max(self.copy.epoch, self.copy.tip.epoch),
            primary=me,
            primary_session=self._liveness.session,
            sync=(Copy(me, allocation),),
        )
        self._take_note(configuration, now)

    def give_up_alone(self) -> None:
        """Be no copy any more, as if there never had been one."""
        self._step_down()
        self.newest, self._known = None, ()
        self.copy.clear()

    def tick(self, now: Instant, draw: int, targets: tuple[NodeId, ...] = ()) -> None:
        """Let time pass.

        Args:
            now: By the node's own clock.
            draw: 64 random bits.
            targets: The nodes that ought to have copies, by the ring; the primary first.
        """
        self._targets = targets
        if self._early.waiting:
            self._look_after_early(now)
        primary = self.primary
        if primary is not None:
            primary.targets = targets
            primary.tick(now, draw)
            if self._in_flight is None:
                self._reconfigure(primary, now)
        else:
            self._promises.prune(now)
            if self._in_flight is None:
                self._seek_primacy(now)

    def take_ready(self) -> Ready:
        """Return what is to be done since the last call."""
        primary = self.primary
        if primary is not None:
            primary.send_proposed()
        writes = self.copy.take_writes()
        sends = tuple(self._duty.outbox)
        self._duty.outbox.clear()
        wants_view = self._wants_view or (primary is not None and primary.wants_view)
        if primary is not None:
            primary.wants_view = False
        ready = Ready(writes, self.copy.taken_number, sends, self._swap, wants_view)
        self._swap, self._wants_view = None, False
        return ready

    # -- the primary's configurations -----------------------------------------------------------

    def _reconfigure(self, primary: Primary, now: Instant) -> None:
        if self.is_lost:
            # R31: its configuration stays as it is; the coordinator can confirm no change.
            primary.joining = primary.handover = None
            return
        if self.copy.durable_epoch < primary.configuration.epoch:
            # R2: a restart would forget the epoch and obey the primary before once more, which
            # would commit with this copy, and without those that were made to count meanwhile.
            return
        primary.joining = next_to_join(primary, now)
        if primary.handover is not None:
            self._hand_over(primary, primary.handover, now)
            return
        fresh = next_configuration(primary, now)
        if fresh is not None:
            self._ask(primary, fresh)
            return
        primary.handover = next_handover(primary, now)
        if primary.handover is not None:
            primary.handover_tried_at = now
            if self._liveness.is_fit:
                self._transfers.hands_over(self)
            self._hand_over(primary, primary.handover, now)

    def _hand_over(self, primary: Primary, handover: Handover, now: Instant) -> None:
        """Propose the heir if it has everything by now; give up if that takes too long (R27)."""
        if self.is_lost:
            primary.handover = None
            return
        fresh = handed_over(primary, now, is_owing=self.is_owing)
        if fresh is not None:
            primary.has_stepped_down = True  # R18: before it is sent.
            primary.handover = None
            self._ask(primary, fresh)
        elif now >= handover.deadline:
            primary.handover = None

    def _ask(self, primary: Primary, fresh: Configuration) -> None:
        swap = self._swap_to(fresh, expected=primary.configuration)
        if swap is not None and all(each.fresh != fresh for each in primary.changes):
            primary.changes.append(swap)  # R10, R17: it counts from now on, until it cannot be.

    # -- becoming primary, and ceasing to be ----------------------------------------------------

    def _take_up(self, configuration: Configuration, now: Instant) -> None:
        """Become primary if *configuration* says so, of this life and this copy (R4, R5)."""
        me = self._liveness.node_id
        if (
            configuration.primary == me
            and configuration.primary_session == self._liveness.session != NO_SESSION
            and self.copy.allocation is not None
            and configuration.allocation_of(me) == self.copy.allocation
            and configuration.epoch >= self.copy.epoch
        ):
            self._move_outbox_to(
                Primary(
                    self.copy,
                    configuration,
                    liveness=self._liveness,
                    continuity=self._continuity,
                    timing=self._timing,
                    transfers=self._transfers,
                    copies=self._copies,
                    now=now,
                )
            )

    def _step_down(self) -> None:
        self._move_outbox_to(self._backup())

    def _backup(self) -> Backup:
        return Backup(
            self.copy,
            self._promises,
            self._timing,
            self._transfers,
            since=self._liveness.born_at,
        )

    def _move_outbox_to(self, duty: Primary | Backup) -> None:
        duty.outbox[:0] = self._duty.outbox
        self._duty = duty
        self.primary = duty if isinstance(duty, Primary) else None

    def _seek_primacy(self, now: Instant) -> None:
        if self.newest is not None:
            self._claim(self.newest, now)
        elif self._is_founding and self.copy.is_durable and self.copy.allocation is not None:
            me = self._liveness.node_id
            fresh = Configuration(
                epoch=first_epoch(self._continuity.generation),
                primary=me,
                primary_session=self._liveness.session,
                sync=(Copy(me, self.copy.allocation),),
            )
            self._swap_to(fresh, expected=None)

    def _claim(self, configuration: Configuration, now: Instant) -> None:
        """Ask to be primary, where this node ought to be and is not."""
        me, session = self._liveness.node_id, self._liveness.session
        allocation = configuration.allocation_of(me)
        if allocation is None or session == NO_SESSION:
            return
        if configuration.epoch < self.copy.epoch:
            self._wants_view = True
            return
        is_here = allocation == self.copy.allocation
        if configuration.primary != me:
            if is_here and self._may_take_over(configuration, now):
                self._take_over(configuration)
        elif not is_here:
            if configuration.primary_session == session:
                # R5: it is named, and has lost what it is named for: let another take over.
                fresh = _next(configuration, primary=me, session=NO_SESSION)
                self._swap_to(fresh, expected=configuration)
        elif configuration.primary_session != session:
            # R6: a new life of the primary begins under a new epoch, like any new primary.
            if self._may_begin_again(configuration, now):
                fresh = _next(configuration, primary=me, session=session)
                self._swap_to(fresh, expected=configuration)
        else:
            self._take_up(configuration, now)

    def _may_begin_again(self, configuration: Configuration, now: Instant) -> bool:
        """Return True if no other primary acts by a lease of this copy, whose node is primary (R6).

        Before the node learned that it is primary it may have given another one time, in this life
        or in an earlier one, whose promises are forgotten. An epoch that is durable here is proof
        that the node has waited already.
        """
        was_obeyed = self.copy.epoch >= configuration.epoch
        has_waited = was_obeyed or self._has_outlived_leases(now)
        return has_waited and self._has_kept_promises(now)

    def _may_take_over(self, configuration: Configuration, now: Instant) -> bool:
        """Tell whether the primary's place is vacant, and it is this node's turn (R16)."""
        if not self._is_vacant(configuration, now):
            self._vacant_since = None
            return False
        if self._vacant_since is None:
            self._vacant_since = now
        others = [node for node in configuration.members if node != configuration.primary]
        ranked = sorted(others, key=self._rank)
        rank = ranked.index(self._liveness.node_id)
        if not self._liveness.is_fit:
            rank += len(ranked)  # R19, R20: only if nobody else does.
        wait = rank * self._timing.takeover_step
        return now - self._vacant_since >= wait

    def _is_vacant(self, configuration: Configuration, now: Instant) -> bool:
        primary, session = configuration.primary, configuration.primary_session
        # R16 d: unless it resigned or its session is over, it may act by that.
        has_ended = session == NO_SESSION or self._liveness.is_gone(primary, session)
        return has_ended and self._has_outlived_leases(now) and self._has_kept_promises(now)

    def _has_outlived_leases(self, now: Instant) -> bool:
        """Return True if no lease holds that this node gave before it was restarted (R16 c)."""
        return now - self._liveness.born_at >= self._timing.grace

    def _has_kept_promises(self, now: Instant) -> bool:
        """Tell whether nobody acts by a lease of this copy any more (R16 b).

        Not the primary alone: one before it, which knows of no other yet, still acts by the lease
        that it got, if whoever replaced it was restarted and gave it time once more; and so does
        the primary under a session that it had before.
        """
        return self._promises.have_run_out(now, self._liveness.dead)

    def _take_over(self, configuration: Configuration) -> None:
        primary, session = configuration.primary, configuration.primary_session
        rest = tuple(copy for copy in configuration.sync if copy.node_id != primary)
        # R16: without the old primary, if enough remain; else it counts on, and is swapped later.
        sync = rest if len(rest) >= self._copies.least else configuration.sync
        fresh = msgspec.structs.replace(
            _next(configuration, primary=self._liveness.node_id, session=self._liveness.session),
            sync=sync,
        )
        gone = None if session == NO_SESSION else (primary, session)
        swap = self._swap_to(fresh, expected=configuration, gone=gone)
        if swap is not None and all(each.fresh != fresh for each in self._takeovers):
            self._takeovers.append(swap)  # R17: from now on it grants nothing.

    def _rank(self, node_id: NodeId) -> tuple[int, NodeId]:
        is_target = node_id in self._targets
        return self._targets.index(node_id) if is_target else len(self._targets), node_id

    def _swap_to(
        self,
        fresh: Configuration,
        *,
        expected: Configuration | None,
        gone: tuple[NodeId, Session] | None = None,
    ) -> Swap | None:
        """Have *fresh* proposed; None if this node has no session to propose it in (R3)."""
        if self._liveness.session == NO_SESSION or self.is_frozen:
            return None
        self._swap = self._in_flight = Swap(
            shard=self.shard,
            expected=expected,
            fresh=fresh,
            by=self._liveness.node_id,
            session=self._liveness.session,
            gone=gone,
        )
        return self._swap


def _may_happen(swap: Swap, newest: Configuration) -> bool:
    """Tell whether *swap* may still be carried out, or has been and is the newest."""
    return swap.expected is not None and swap.expected.epoch >= newest.epoch


def _is_twin(configuration: Configuration, seen: Configuration) -> bool:
    """Return True if two configurations of one epoch differ.

    Only in the fields of this version are they compared: one that a later version adds is not in
    what this version stored.
    """
    return configuration.epoch == seen.epoch and (
        configuration.primary != seen.primary
        or configuration.primary_session != seen.primary_session
        or configuration.sync != seen.sync
    )


def _is_forgotten(swap: Swap, answer: Swapped) -> bool:
    """Tell whether the coordinator had *swap*'s expected configuration, and knows less now."""
    known = Epoch(0) if answer.current is None else answer.current.epoch
    return swap.expected is not None and known < swap.expected.epoch


def _next(configuration: Configuration, *, primary: NodeId, session: Session) -> Configuration:
    """Return *configuration* under the next epoch (R1), with another primary or life of it."""
    return msgspec.structs.replace(
        configuration,
        epoch=Epoch(configuration.epoch + 1),
        primary=primary,
        primary_session=session,
    )
