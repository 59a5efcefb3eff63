"""One copy of a shard on one node: its role, and the changes of role.

    Backup     stores the primary's entries; may take over (R16)
    Primary    appends and commits; from `_take_up` to `_step_down`

A copy becomes primary only by a configuration that names this node, with its current session, and
its allocation. A newer configuration that names another node ends that. Configurations come from
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
from rota.core.replication.messages import (
    Append,
    Base,
    Fenced,
    Message,
    QuietCopy,
    Succeed,
    name_of,
)
from rota.core.replication.primary import Copies, Handover, Primary
from rota.core.replication.primary_claims import (
    CLAIMS,
    Claim,
    ClaimVerdict,
    EarlyClaims,
    claimed_epoch,
    judge,
)
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.replication.reconfiguration import (
    handed_over,
    next_configuration,
    next_handover,
    next_to_join,
)
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import Instant, later
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
    """The actions that a replica requires of its node now.

    Attributes:
        writes: The writes to be stored, in this order and as one batch.
        number: The number of the batch, with which `Replica.made_durable` is to be called once the
            writes survive a power loss.
        sends: Messages to be sent, even before the writes are durable.
        swap: The swap to be sent to the coordinator, if any; the answer goes to `Replica.answered`.
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
        shard: The shard.
        stored: The stored form of the copy.
        storage: Read access to the stored data.
        liveness: The node's view of which nodes are alive and fit, shared by its replicas.
        continuity: The node's record of the coordinator's past states, shared by its replicas.
        timing: The durations of the cluster.
        transfers: The transfers of the node, shared by its replicas.
        quiet_beats: The heartbeats of the node for quiet shards, shared by its replicas.
        copies: The intended number of copies.

    Attributes:
        copy: The copy's journal and commit index; for reading.
        primary: The role of the primary; None if this copy is a backup; for reading.
        newest: The newest configuration from the coordinator since the node started; None if there
            was none.
        refused: Counts of refused messages by name: the sender had no right to send them, or they
            cannot be true.
        has_postponed: Whether postponed effects of committed entries are outstanding (R27).
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
        quiet_beats: QuietBeats,
        copies: Copies,
    ) -> None:
        self.shard = shard
        self.copy = LocalCopy(stored, storage)
        self.newest: Configuration | None = None
        self.refused: Counter[str] = Counter()
        self.has_postponed = False
        self._seen_number = 0
        """Number of the configuration seen last, among those learned since the node started."""
        self._liveness = liveness
        self._continuity = continuity
        if stored.seen is not None:
            continuity.add_epoch(stored.seen.epoch)
        self._timing = timing
        self._transfers = transfers
        self._copies = copies
        self._promises = Promises()
        self._known: tuple[Configuration, ...] = ()
        """The newest configuration, last, and the one before, whose messages may still arrive."""
        self._early = EarlyClaims()
        self._duty: Primary | Backup = self._backup()
        self.primary: Primary | None = None
        transfers.add(self)
        self._quiet_beats = quiet_beats
        quiet_beats.add(shard, self)
        self._targets: tuple[NodeId, ...] = ()
        self._in_flight: Swap | None = None
        self._takeovers: list[Swap] = []
        self._vacant_since: Instant | None = None
        self._is_founding = False
        self._heard: tuple[NodeId, Instant] | None = None
        """The sender of the last `Append`, and when it arrived."""
        self._swap: Swap | None = None
        self._wants_view = False

    # -- state ----------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this is the primary's copy, and its takeover is committed."""
        primary = self.primary
        return primary is not None and primary.is_active

    @property
    def is_candidate(self) -> bool:
        """Whether this copy has proposed to take over, and the outcome is unknown (R17)."""
        return bool(self._takeovers)

    def has_authority(self, now: Instant) -> bool:
        """Return True if this node may act for the shard; check before each effect (R15)."""
        primary = self.primary
        return primary is not None and primary.has_authority(now)

    def served_by(self, since: Instant) -> NodeId | None:
        """Return the primary that has been active since *since*; None if there is none.

        That is this node if all other counting copies have answered it since then, or the sender of
        an `Append` that arrived since then.
        """
        primary = self.primary
        if primary is not None:
            return self._liveness.node_id if primary.is_followed(since) else None
        return self._heard[0] if self._heard is not None and self._heard[1] >= since else None

    @property
    def counts(self) -> bool:
        """Whether this copy counts in the newest configuration known here."""
        allocation = self.copy.allocation
        newest = self.newest
        return (
            newest is not None
            and allocation is not None
            and newest.allocation_of(self._liveness.node_id) == allocation
        )

    def is_admitting(self, now: Instant) -> bool:
        """Return True if `propose` may be called."""
        primary = self.primary
        return primary is not None and primary.is_admitting(now)

    @property
    def seen(self) -> Configuration | None:
        """The newest configuration read from the coordinator, also before a restart."""
        return self.copy.seen

    @property
    def is_lost(self) -> bool:
        """Whether the coordinator lost this shard's configuration without a recovery since (R31).

        A shard without any configuration is lost as long as it could only be founded under a lost
        generation.
        """
        if self._continuity.lost is None:
            return False
        latest = self.newest or self.seen
        epoch = latest.epoch if latest else first_epoch(self._continuity.generation)
        return self._continuity.is_void(epoch)

    @property
    def is_frozen(self) -> bool:
        """Whether no change is requested of the coordinator (R31).

        None is requested if the coordinator lost its state, or if the epoch of its configuration is
        lower than the one promised here.
        """
        newest = self.newest
        return self.is_lost or (newest is not None and newest.epoch < self.copy.epoch)

    @property
    def epoch(self) -> Epoch:
        """The highest epoch promised."""
        return self.copy.epoch

    @property
    def sending_count(self) -> int:
        """The number of snapshots of several parts that this replica is sending."""
        primary = self.primary
        return primary.sending_count if primary else 0

    def is_taking(self, now: Instant) -> bool:
        """Return True if this replica is receiving a snapshot of several parts."""
        return isinstance(self._duty, Backup) and self._duty.is_taking(now)

    @property
    def needed_from(self) -> Index:
        """Index of the first entry that another copy may still need; it and later ones are kept."""
        primary = self.primary
        return primary.needed_from if primary else Index(self.copy.tip.index + 1)

    # -- events ---------------------------------------------------------------------------------

    def propose(
        self, body: bytes, at: Instant, now: Instant, kind: EntryKind = EntryKind.CHANGES
    ) -> Index:
        """Append an entry as the primary, and return its index; it is not yet committed.

        Args:
            body: The changes, encoded.
            at: The shard time of the decision, later than that of every earlier one (R7).
            now: The current instant, by the node's monotonic clock.
            kind: The kind of the entry.
        """
        primary = self.primary
        assert primary is not None
        primary.propose(body, at, kind, now)
        return self.copy.tip.index

    def receive(self, message: Message, sender: NodeId, now: Instant) -> None:
        """Process a message from another node's replica of this shard."""
        if isinstance(message, CLAIMS):
            self._take_claim(message, sender, now)
        elif isinstance(self._duty, Primary) and not self._duty.receive(message, sender, now):
            self._refuse(message)

    def _take_claim(self, claim: Claim, sender: NodeId, now: Instant) -> None:
        """Process a message that only a primary may send: obey, fence, refuse or hold (R2, R41)."""
        match judge(claim, sender, known=self._known, promised=self.copy.epoch):
            case ClaimVerdict.VALID:
                self._obey(claim, sender, now)
            case ClaimVerdict.STALE:
                epoch = max((self.copy.epoch, *(each.epoch for each in self._known)))
                self._duty.send(sender, Fenced(epoch=epoch))
            case ClaimVerdict.EARLY:
                self._early.put(claim, sender, now)
            case ClaimVerdict.FORBIDDEN:
                self._refuse(claim)

    def _obey(self, claim: Claim, sender: NodeId, now: Instant) -> None:
        # No node sends messages to itself, so a valid claim never concerns the primary.
        if isinstance(claim, Succeed) or isinstance(self._duty, Primary):
            return
        self.copy.promise(claimed_epoch(claim))
        if isinstance(claim, Append):
            self._heard = sender, now
        self._duty.receive(claim, sender, self.newest, now, may_promise=not self.is_candidate)

    def follow_quietly(
        self, copy: QuietCopy, primary: NodeId, session: Session, now: Instant
    ) -> bool:
        """Grant a primary a lease if *copy* describes this copy, as after a heartbeat (R14, R44).

        Only a durable copy is described: the lease acknowledges its entries (R9) and its epoch
        (R2). The coordinator must have named *primary* in the newest configuration (R41).

        Args:
            copy: The description by the other node.
            primary: That node.
            session: The session under which it is primary.
            now: The current instant, by this node's clock.

        Returns:
            False if this copy differs from the description, or may be about to take over.
        """
        own, newest = self.copy, self.newest
        is_obeyed = (
            newest is not None
            and newest.epoch == own.epoch == copy.epoch
            and (newest.primary, newest.primary_session) == (primary, session)
        )
        has_all = own.allocation == copy.allocation and own.committed == own.tip.index == copy.index
        if not (is_obeyed and has_all and own.is_durable) or self.is_candidate:
            return False
        self._promises.give(primary, session, later(now, self._timing.grace))
        self._heard = primary, now
        return True

    def _refuse(self, message: Message) -> None:
        self.refused[name_of(message)] += 1

    def _look_after_early(self, now: Instant) -> None:
        """Request the coordinator's view for early claims; drop those that are too old."""
        for claim in self._early.expire(now):
            self._refuse(claim)
        self._wants_view = self._wants_view or bool(self._early.waiting)

    def linked(self, node_id: NodeId) -> None:
        """Record that a link to another node has been established."""
        primary = self.primary
        if primary is not None:
            primary.linked(node_id)

    def made_durable(self, number: int) -> None:
        """Record that the writes up to batch *number* survive a power loss."""
        self.copy.made_durable(number)
        if isinstance(self._duty, Primary):
            self._duty.advance()
        else:
            self._duty.made_durable()

    @property
    def is_handing_over(self) -> bool:
        """Whether this primary admits nothing and waits until the new primary has all entries."""
        primary = self.primary
        return primary is not None and primary.handover is not None and self._in_flight is None

    @property
    def is_giving_away(self) -> bool:
        """Whether this primary is handing its shard over, and the outcome is not known yet."""
        primary = self.primary
        return primary is not None and (primary.handover is not None or primary.has_stepped_down)

    def released(self, now: Instant) -> None:
        """Record that the replies and effects of the applied entries have been carried out.

        A handover that only waits for these continues at once, because the primary refuses work
        until it ends.
        """
        primary = self.primary
        if self.is_handing_over and primary is not None and primary.handover is not None:
            self._hand_over(primary, primary.handover, now)

    def learn(self, configuration: Configuration, now: Instant) -> None:
        """Process a configuration from the coordinator that is or was in force (R41)."""
        continuity, seen = self._continuity, self.seen
        if seen is not None and _is_twin(configuration, seen):
            continuity.lose(
                generation_of(seen.epoch),
                f"epoch {seen.epoch} of shard {self.shard} was given to two configurations",
            )
        if continuity.is_void(configuration.epoch):
            return  # R31: its epoch may have been that of another configuration.
        if seen is not None and configuration.epoch < seen.epoch:
            return
        if self.newest is not None and configuration.epoch <= self.newest.epoch:
            return
        if seen is None or configuration.epoch > seen.epoch:
            self.copy.save_seen(configuration)
            self._seen_number = continuity.count_configuration(configuration.epoch)
        self._take_note(configuration, now)

    def compare(self, given: Configuration | None, known: Known) -> None:
        """Record a loss if a view has less of this shard than was seen before (R31).

        Args:
            given: The view's configuration of the shard; None if it has none.
            known: `CoordinatorContinuity.known` at the time of the request.
        """
        seen = self.seen
        if seen is None or self._seen_number > known.count:
            return
        if given is None or given.epoch < seen.epoch:
            has = f"epoch {given.epoch}" if given else "no configuration"
            self._continuity.lose(
                generation_of(seen.epoch),
                f"it has {has} of shard {self.shard}, but had epoch {seen.epoch}",
            )

    def _take_note(self, configuration: Configuration, now: Instant) -> None:
        self.newest = configuration
        self._known = (*self._known[-1:], configuration)
        self._follow(configuration, now)
        for early in self._early.take(configuration.epoch):
            self._take_claim(early.claim, early.sender, now)

    def _follow(self, configuration: Configuration, now: Instant) -> None:
        """Become primary or backup according to the newest configuration."""
        self._vacant_since = None
        # R17: swaps that expect an older configuration can no longer be carried out.
        self._takeovers = [swap for swap in self._takeovers if swap.may_happen(configuration)]
        primary = self.primary
        if primary is None:
            self._take_up(configuration, now)
            return
        primary.forget_impossible_changes(configuration)
        if configuration.primary != self._liveness.node_id:
            self._step_down()
        elif configuration.epoch > primary.configuration.epoch:
            primary.adopt(configuration, now)

    def answered(self, swap: Swap, answer: Swapped | None, now: Instant) -> None:
        """Process the coordinator's answer to *swap*; None if the outcome is unknown (R17)."""
        if self._in_flight is swap:
            self._in_flight = None
        if answer is None:
            self._wants_view = True
            return
        if not answer.is_done:
            if swap.expected is not None and _is_forgotten(swap, answer):
                self._continuity.lose(
                    generation_of(swap.expected.epoch),
                    f"it no longer has epoch {swap.expected.epoch} of shard {self.shard}",
                )
            # Refused: it will no longer be carried out.
            self._takeovers = [each for each in self._takeovers if each is not swap]
            primary = self.primary
            if primary is not None:
                primary.change_refused(swap, answer.current)
        if answer.current is not None:
            self.learn(answer.current, now)
        if answer.is_done and swap.fresh.primary != self._liveness.node_id:
            successor = swap.fresh.primary
            self._duty.send(successor, Succeed(configuration=swap.fresh))

    def found(self, allocation: AllocationId) -> None:
        """Become the first copy of a new shard, and propose to be its primary.

        Only for a shard of which the coordinator has, and had, no configuration (R23, R31).
        """
        assert self.copy.tip == ORIGIN
        if self._is_founding or self.seen is not None or self.is_lost:
            return
        if self.copy.allocation is None:
            self.copy.clear()
            self.copy.become_whole(allocation, Base(Epoch(0), Index(0), Instant(0), ORIGIN.hash))
        # Otherwise the founding began before a restart, and may still succeed with that copy.
        self._is_founding = True

    def set_postponed(self, *, has_postponed: bool) -> None:
        """Record whether postponed effects of committed entries are outstanding."""
        self.has_postponed = has_postponed

    def begin_alone(self, base: Base, allocation: AllocationId, now: Instant) -> None:
        """Become the only copy, empty, with a journal that follows *base*."""
        self.copy.clear()
        self.copy.become_whole(allocation, base)
        self.go_on_alone(now)

    def go_on_alone(self, now: Instant) -> None:
        """Become the primary of the only copy, without the coordinator.

        The epoch stays the same: entries that were not durable when the node ended had no effect.
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
        """Delete the only copy, as if there had never been one."""
        self._step_down()
        self.newest, self._known = None, ()
        self.copy.clear()

    def tick(self, now: Instant, draw: int, targets: tuple[NodeId, ...] = ()) -> None:
        """Carry out the work that is due: heartbeats, reconfigurations, takeovers.

        Args:
            now: The current instant, by the node's monotonic clock.
            draw: 64 random bits.
            targets: The nodes that should have copies according to the ring, the primary first.
        """
        self._targets = targets
        if self._early.waiting:
            self._look_after_early(now)
        primary = self.primary
        if primary is not None:
            primary.tick(now, draw, targets)
            if self._in_flight is None:
                self._reconfigure(primary, now)
        else:
            self._promises.prune(now)
            if self._in_flight is None:
                self._seek_primacy(now)

    def is_at_rest(self, now: Instant) -> bool:
        """Return True if ticks would do nothing until an event comes or the circumstances change.

        The circumstances are `Liveness.circumstances`, `CoordinatorContinuity.lost` and the nodes
        on which the copies ought to be. A backup is at rest while its primary's session lives,
        because it takes over only after the end of that session (R16).
        """
        if self._in_flight or self._early.waiting or self._takeovers or self.has_ready:
            return False
        primary, newest = self.primary, self.newest
        if primary is not None:
            return primary.is_at_rest(now) and not self.is_lost
        return (
            newest is not None
            and newest.epoch >= self.copy.epoch
            and newest.primary != self._liveness.node_id
            and not self._liveness.is_gone(newest.primary, newest.primary_session)
        )

    @property
    def has_ready(self) -> bool:
        """Whether `take_ready` would return any action."""
        primary = self.primary
        return (
            self.copy.has_writes
            or bool(self._duty.outbox)
            or self._swap is not None
            or self._wants_view
            or (primary is not None and (primary.has_proposed or primary.wants_view))
        )

    def take_ready(self) -> Ready:
        """Return the actions required since the last call."""
        primary = self.primary
        if primary is not None:
            primary.send_proposed()
        writes = self.copy.take_writes()
        sends = self._duty.take_outbox()
        is_view_wanted = primary is not None and primary.take_wants_view()
        wants_view = self._wants_view or is_view_wanted
        ready = Ready(writes, self.copy.taken_number, sends, self._swap, wants_view)
        self._swap, self._wants_view = None, False
        return ready

    # -- the primary's configurations -----------------------------------------------------------

    def _reconfigure(self, primary: Primary, now: Instant) -> None:
        if self.is_lost:
            # R31: its configuration stays as it is; the coordinator can confirm no change.
            primary.drop_plans()
            return
        if self.copy.durable_epoch < primary.configuration.epoch:
            # R2: after a restart, this copy would not have the epoch and would obey the earlier
            # primary, which would commit with it and without the copies that were added since.
            return
        primary.begin_joining(next_to_join(primary, now))
        if primary.handover is not None:
            self._hand_over(primary, primary.handover, now)
            return
        fresh = next_configuration(primary, now)
        if fresh is not None:
            self._ask(primary, fresh)
            return
        handover = next_handover(primary, now)
        if handover is not None:
            primary.begin_handover(handover, now)
            if self._liveness.is_fit:
                self._transfers.hands_over(self)
            self._hand_over(primary, handover, now)

    def _hand_over(self, primary: Primary, handover: Handover, now: Instant) -> None:
        """Propose the new primary if it has all entries; give up after the deadline (R27).

        It is given up as well if no change can be proposed: this primary would step down, and the
        shard would have no primary until the next session or the recovery.
        """
        if self.is_lost or self._liveness.session == NO_SESSION:
            primary.give_up_handover()
            return
        fresh = handed_over(primary, now, has_postponed=self.has_postponed)
        if fresh is not None:
            primary.step_down()  # R18: before it is sent.
            self._ask(primary, fresh)
        elif now >= handover.deadline:
            primary.give_up_handover()

    def _ask(self, primary: Primary, fresh: Configuration) -> None:
        swap = self._swap_to(fresh, expected=primary.configuration)
        if swap is not None:
            primary.change_requested(swap)

    # -- becoming primary, and ceasing to be primary --------------------------------------------

    def _take_up(self, configuration: Configuration, now: Instant) -> None:
        """Become primary if *configuration* names this node, session and copy (R4, R5)."""
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
                    self.shard,
                    self.copy,
                    configuration,
                    liveness=self._liveness,
                    continuity=self._continuity,
                    timing=self._timing,
                    transfers=self._transfers,
                    quiet_beats=self._quiet_beats,
                    copies=self._copies,
                    now=now,
                )
            )

    def _step_down(self) -> None:
        if self.primary is not None:
            self.primary.end_quiet()
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
        duty.send_first(self._duty.take_outbox())
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
        """Propose this node as primary, if the configuration allows that."""
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
                # R5: the named copy of this node is lost: it resigns, so that another takes over.
                fresh = _next(configuration, primary=me, session=NO_SESSION)
                self._swap_to(fresh, expected=configuration)
        elif configuration.primary_session != session:
            # R6: a new session of the primary begins under a new epoch, like any new primary.
            if self._may_begin_again(configuration, now):
                fresh = _next(configuration, primary=me, session=session)
                self._swap_to(fresh, expected=configuration)
        else:
            self._take_up(configuration, now)

    def _may_begin_again(self, configuration: Configuration, now: Instant) -> bool:
        """Return True if no other primary acts by a lease of this copy, whose node is primary (R6).

        Before the node learned that it is primary, it may have granted another node a lease, even
        before a restart, which deletes promises. If the epoch is durable here, the node has waited
        already.
        """
        was_obeyed = self.copy.epoch >= configuration.epoch
        has_waited = was_obeyed or self._has_outlived_leases(now)
        return has_waited and self._has_kept_promises(now)

    def _may_take_over(self, configuration: Configuration, now: Instant) -> bool:
        """Return True if no primary acts and it is this node's turn to take over (R16)."""
        if not self._is_vacant(configuration, now):
            self._vacant_since = None
            return False
        if self._vacant_since is None:
            self._vacant_since = now
        others = [node for node in configuration.members if node != configuration.primary]
        ranked = sorted(others, key=self._rank)
        rank = ranked.index(self._liveness.node_id)
        if not self._liveness.is_fit:
            rank += len(ranked)  # R19, R20: only if no other node does.
        wait = rank * self._timing.takeover_step
        return now - self._vacant_since >= wait

    def _is_vacant(self, configuration: Configuration, now: Instant) -> bool:
        primary, session = configuration.primary, configuration.primary_session
        # R16 d: unless it resigned or its session is over, it may act by that session.
        has_ended = session == NO_SESSION or self._liveness.is_gone(primary, session)
        return has_ended and self._has_outlived_leases(now) and self._has_kept_promises(now)

    def _has_outlived_leases(self, now: Instant) -> bool:
        """Return True if all leases that this node granted before a restart have ended (R16 c)."""
        return now - self._liveness.born_at >= self._timing.grace

    def _has_kept_promises(self, now: Instant) -> bool:
        """Return True if no node acts by a lease of this copy (R16 b).

        The leases of all primaries count, not only of the last one. An earlier primary that has not
        learned of its successor may act by a lease granted after the successor's restart; so may
        the primary under an earlier session.
        """
        return self._promises.have_run_out(now, self._liveness.dead)

    def _take_over(self, configuration: Configuration) -> None:
        primary, session = configuration.primary, configuration.primary_session
        rest = tuple(copy for copy in configuration.sync if copy.node_id != primary)
        # R16: without the old primary if enough copies remain; otherwise it is replaced later.
        sync = rest if len(rest) >= self._copies.least else configuration.sync
        fresh = msgspec.structs.replace(
            _next(configuration, primary=self._liveness.node_id, session=self._liveness.session),
            sync=sync,
        )
        gone = None if session == NO_SESSION else (primary, session)
        swap = self._swap_to(fresh, expected=configuration, gone=gone)
        if swap is not None and all(each.fresh != fresh for each in self._takeovers):
            self._takeovers.append(swap)  # R17: from now on this copy grants no lease.

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
        """Propose *fresh*; return None if this node has no session, or the shard is frozen (R3)."""
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


def _is_twin(configuration: Configuration, seen: Configuration) -> bool:
    """Return True if two configurations of one epoch differ.

    Only the fields of this version are compared: this version does not store fields that a later
    one adds.
    """
    return configuration.epoch == seen.epoch and (
        configuration.primary != seen.primary
        or configuration.primary_session != seen.primary_session
        or configuration.sync != seen.sync
    )


def _is_forgotten(swap: Swap, answer: Swapped) -> bool:
    """Return True if the coordinator's configuration is older than the one *swap* expects."""
    known = Epoch(0) if answer.current is None else answer.current.epoch
    return swap.expected is not None and known < swap.expected.epoch


def _next(configuration: Configuration, *, primary: NodeId, session: Session) -> Configuration:
    """Return *configuration* under the next epoch (R1), with another primary or session."""
    return msgspec.structs.replace(
        configuration,
        epoch=Epoch(configuration.epoch + 1),
        primary=primary,
        primary_session=session,
    )
