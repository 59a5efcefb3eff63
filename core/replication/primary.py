"""The role of the primary: it sends entries, counts answers and commits; its authority to act.

An entry is committed only by R10, all of which is in `Primary.advance`. The node acts for the shard
only after a check of `Primary.has_authority` at that moment (R15). The next configuration that the
primary proposes is decided in `rota.core.replication.reconfiguration`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.local_copy import LocalCopy
from rota.core.replication.messages import (
    ANSWERS,
    Append,
    Appended,
    Fenced,
    Holding,
    Message,
    Mismatch,
    Part,
    PartTaken,
    Query,
    QuietCopy,
    ReplicaResponse,
)
from rota.core.replication.peer_copy import NEVER, Asked, Outgoing, PeerCopy
from rota.core.replication.quiet_beats import QUIET_BEATS, QuietBeats
from rota.core.replication.role import Role
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import MICROSECOND, SECOND, Duration, Instant, later
from rota.core.vocabulary.codec import encode_body
from rota.core.vocabulary.journal import EntryKind
from rota.core.vocabulary.shard_configuration import Configuration, Swap

WINDOW = 256
"""The number of uncommitted entries at which no further work is admitted (R12)."""
WINDOW_BYTES = 1 << 20
"""The total size of uncommitted entries, in bytes, at which no further work is admitted (R12)."""
PART_BYTES = 256 << 10
RESEND = Duration(SECOND)
"""The time without an answer after which a part of a snapshot is sent again."""
WAITING_TICKS = 10
"""A node whose limit of snapshots was reached is asked again at one tick in this many, at random.
If all shards asked at the same moment, two would succeed, and none for the next second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The intended number of copies.

    Attributes:
        wanted: The number of copies that count in normal operation.
        least: The number of counting copies below which nothing is committed (R10 c, R13).
    """

    wanted: int = 3
    least: int = 2


@dataclass(frozen=True, slots=True)
class Handover:
    """A handover: the primary refuses work until *to* has all entries, or *deadline* (R27)."""

    to: NodeId
    deadline: Instant


class Primary(Role):
    """The role of the primary, from one takeover to its end.

    Args:
        shard: The shard.
        copy: This node's copy, complete and counting.
        configuration: The configuration that names this node, with its current session, as primary.
        liveness: This node's view of which nodes are alive and fit.
        continuity: This node's record of the coordinator's past states.
        timing: The durations of the cluster.
        transfers: The transfers of this node.
        quiet_beats: The heartbeats of this node for quiet shards.
        copies: The intended number of copies.
        now: The instant of the takeover.

    Attributes:
        configuration: The newest configuration that is known to be in force.
        changes: Swaps that were sent and may still be carried out (R17).
        peers: The copies on other nodes that count, or may count.
        learners: Copies on other nodes that do not count; also on a node whose counting copy is
            lost.
        targets: The nodes that should have copies, the intended primary first.
        has_stepped_down: Whether this primary proposed another one. It does not act again until it
            is known to be still the primary (R18).
        joining: The node of a learner that is about to count. Nothing is committed that this
            learner lacks, so that it catches up (R23) however busy the shard is.
        wants_bump: Whether a new configuration is needed, even if only the epoch changes.
        wants_view: Whether the coordinator's view is to be read, because another node has promised
            a higher epoch.
    """

    def __init__(
        self,
        shard: ShardId,
        copy: LocalCopy,
        configuration: Configuration,
        *,
        liveness: Liveness,
        continuity: CoordinatorContinuity,
        timing: Timing,
        transfers: TransferLimits,
        quiet_beats: QuietBeats,
        copies: Copies,
        now: Instant,
    ) -> None:
        super().__init__()
        self.shard = shard
        self.copy = copy
        self.configuration = configuration
        self.changes: list[Swap] = []
        self.peers: dict[NodeId, PeerCopy] = {}
        self.learners: dict[NodeId, PeerCopy] = {}
        self.targets: tuple[NodeId, ...] = ()
        self.joining: NodeId | None = None
        self.handover: Handover | None = None
        self.handover_tried_at = self.adopted_at = now
        self.has_stepped_down = False
        self.wants_bump = False
        self.wants_view = False
        self.liveness = liveness
        self.continuity = continuity
        self.timing = timing
        self.transfers = transfers
        self.copies = copies
        self._quiet_beats = quiet_beats
        self._asked: dict[NodeId, Asked] = {}
        self._waiting: set[NodeId] = set()
        """Nodes that need a snapshot of several parts, which the limits did not allow yet (R23)."""
        self._in_flight: deque[tuple[Index, int]] = deque()
        self._in_flight_bytes = 0
        self._proposed_at: Instant | None = None
        self._ticked_at = now
        self._since = configuration.epoch
        self._shrunk_at: Epoch | None = None
        """Epoch of the last removal of a copy, until all counting copies have seen it."""
        copy.promise(configuration.epoch)  # R21: the epoch first, then everything else.
        self._expect(configuration, now)
        # The whole journal is kept; this entry commits all of it (R21).
        copy.append(encode_body(["takeover"], ()), later(copy.tip.at, MICROSECOND), _TAKEOVER)
        self._takeover_index = copy.tip.index
        for node_id, peer in self.peers.items():
            self._send_entries(node_id, peer, now)
        self.advance()

    # -- authority ------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether the takeover is committed, and with it all earlier entries (R21)."""
        return self.copy.committed >= self._takeover_index

    @property
    def perhaps_committed(self) -> Index:
        """Index up to which entries may be committed.

        Before the takeover is committed these are all entries before it: an earlier primary may
        have committed and acknowledged them without this node having been informed.
        """
        return max(self.copy.committed, Index(self._takeover_index - 1))

    def has_authority(self, now: Instant) -> bool:
        """Return True if this node may act for the shard at this moment (R15)."""
        if not self.is_active or self.has_stepped_down:
            return False
        if self._may_act_by_session and self.liveness.gives_authority(
            self.configuration.primary_session, now
        ):
            return True
        return self._has_all_leases(now)

    @property
    def _may_act_by_session(self) -> bool:
        """Whether no other copy becomes primary while this node's session lives.

        A recovery of the coordinator waits for leases but not for sessions (R31). A shard with a
        single copy has no other node that could become primary.
        """
        if not self.continuity.is_void(self.configuration.epoch):
            return True
        return all(node_id == self.liveness.node_id for node_id, _ in self._counted())

    def _has_all_leases(self, now: Instant) -> bool:
        """Return True if every other copy that counts, or may count, has given a valid lease."""
        others = 0
        for node_id, allocation in self._counted():
            if node_id != self.liveness.node_id:
                others += 1
                peer = self._copy_on(node_id, allocation)
                if peer is None or peer.lease_end <= now:
                    return False
        return others > 0

    def is_followed(self, since: Instant) -> bool:
        """Return True if every other counting copy has answered this primary since *since*.

        The result is False if this primary is not active or has stepped down.
        """
        if not self.is_active or self.has_stepped_down:
            return False
        others = (each for each in self._counted() if each[0] != self.liveness.node_id)
        peers = (self._copy_on(*each) for each in others)
        return all(peer is not None and not peer.is_silent(since) for peer in peers)

    def is_admitting(self, now: Instant) -> bool:
        """Return True if a new entry may be proposed (R12, R19, R20, R27).

        No entry is proposed while the wall clock is wrong: shard time never goes back, so the times
        of all later entries would be wrong as well (R7).
        """
        is_fit = self.liveness.has_calendar and not self.is_fenced
        return is_fit and self.handover is None and self.has_room and self.has_authority(now)

    @property
    def is_fenced(self) -> bool:
        """Whether this primary refuses work because another counting copy can replace it (R19)."""
        return bool(self.liveness.conditions) and self.liveness.is_fenced(
            self.configuration.members
        )

    @property
    def has_room(self) -> bool:
        """Whether the window of uncommitted entries has room for one more."""
        count = self.copy.tip.index - self.copy.committed
        return count < WINDOW and self._in_flight_bytes < WINDOW_BYTES

    def union(self) -> Iterator[Configuration]:
        """Yield the configuration in force and every proposed one that may be in force (R10)."""
        yield self.configuration
        for swap in self.changes:
            yield swap.fresh

    @property
    def needed_from(self) -> Index:
        """Index of the first entry that some copy may still need from this one."""
        has = [
            peer.snapshot.part.base.index if peer.snapshot else peer.match
            for _, peer in self._all_peers()
            if peer.snapshot or peer.match
        ]
        return Index(min(has, default=self.copy.tip.index) + 1)

    # -- entries --------------------------------------------------------------------------------

    def propose(self, body: bytes, at: Instant, kind: EntryKind, now: Instant) -> None:
        """Append an entry; `send_proposed` sends it to all copies."""
        size = self.copy.append(body, at, kind)
        self._in_flight.append((self.copy.tip.index, size))
        self._in_flight_bytes += size
        if self._proposed_at is None:
            self._proposed_at = now  # The instant of the oldest entry: leases count from it.

    @property
    def has_proposed(self) -> bool:
        """Whether entries were proposed that `send_proposed` has not sent yet."""
        return self._proposed_at is not None

    def send_proposed(self) -> None:
        """Send the entries proposed since the last call, in one message to each copy."""
        if self._proposed_at is not None:
            for node_id, peer in self._all_peers():
                self._send_entries(node_id, peer, self._proposed_at)
            self._proposed_at = None

    def advance(self) -> None:
        """Commit all entries that R10 allows.

        An entry is committed when (a) it is durable here; (b) every copy of every configuration
        that is or may be in force has it durably, under the right allocation; (c) each of these
        configurations has enough copies; and (d) after the removal of a copy all counting copies
        have durably seen that configuration. Without (d), if the coordinator lost its state, there
        might be no copy with a record that the removed copy lacks committed entries.
        """
        index = self.copy.durable
        if index <= self.copy.committed or not self._is_shrinking_seen():
            return
        for configuration in self.union():
            if len(configuration.sync) < self.copies.least:
                return
        for node_id, allocation in self._counted():
            if node_id != self.liveness.node_id:
                peer = self._copy_on(node_id, allocation)
                index = min(index, peer.match if peer else Index(0))
        joining = self.learners.get(self.joining) if self.joining else None
        if joining is not None:
            index = min(index, joining.match)
        if index > self.copy.committed:
            self.copy.commit(index)
            while self._in_flight and self._in_flight[0][0] <= index:
                self._in_flight_bytes -= self._in_flight.popleft()[1]

    def _is_shrinking_seen(self) -> bool:
        """Return True if all counting copies have durably seen the last removal of a copy."""
        since = self._shrunk_at
        if since is None:
            return True
        if self.copy.durable_epoch < since or any(
            peer.epoch < since for peer in self.peers.values()
        ):
            return False
        self._shrunk_at = None
        return True

    def linked(self, node_id: NodeId) -> None:
        """Send a heartbeat, or the last part of a snapshot, to a node at the next tick.

        Messages that were sent before the link was up are lost, and without this only the next
        heartbeat would reveal the loss.
        """
        for peer in (self.peers.get(node_id), self.learners.get(node_id)):
            if peer is not None:
                peer.sent_at = NEVER

    # -- configurations -------------------------------------------------------------------------

    def adopt(self, configuration: Configuration, now: Instant) -> None:
        """Continue under a newer configuration that still names this node as primary."""
        if set(self.configuration.sync) - set(configuration.sync):
            self._shrunk_at = configuration.epoch
        self.configuration = configuration
        self.adopted_at = now
        self.copy.promise(configuration.epoch)
        self.has_stepped_down = False
        self.handover = None
        self.wants_bump = False
        self._expect(configuration, now)
        self.advance()
        for node_id, peer in self._all_peers():
            # This makes the other copies promise the new epoch soon (R2).
            self._send_entries(node_id, peer, now, is_beat=True)

    def change_requested(self, swap: Swap) -> None:
        """Count the copies of a requested change until it is impossible (R10, R17)."""
        if all(each.fresh != swap.fresh for each in self.changes):
            self.changes.append(swap)

    def change_refused(self, swap: Swap, current: Configuration | None) -> None:
        """Record that *swap* will no longer be carried out.

        Args:
            swap: The requested change.
            current: The coordinator's configuration; None if it has none.
        """
        self.changes = [each for each in self.changes if each is not swap]
        # R18: no other change can have been made; or, if the coordinator lost its state, no node
        # can act by that change while all counting copies give this one leases.
        is_known = current == self.configuration
        is_void = self.continuity.is_void(self.configuration.epoch)
        if not self.changes and (is_known or is_void):
            self.has_stepped_down = False

    def forget_impossible_changes(self, newest: Configuration) -> None:
        """Forget the changes that *newest* rules out."""
        self.changes = [swap for swap in self.changes if swap.may_happen(newest)]

    def begin_joining(self, node_id: NodeId | None) -> None:
        """Make commits wait for the learner on *node_id*, or for no learner if it is None."""
        self.joining = node_id

    def begin_handover(self, handover: Handover, now: Instant) -> None:
        """Refuse work until the shard is handed over, or the handover is given up (R27)."""
        self.handover = handover
        self.handover_tried_at = now

    def give_up_handover(self) -> None:
        """Admit work again."""
        self.handover = None

    def step_down(self) -> None:
        """Stop acting: another primary is about to be proposed (R18)."""
        self.has_stepped_down = True
        self.handover = None

    def drop_plans(self) -> None:
        """Drop the planned join and handover: the configuration cannot change now (R31)."""
        self.joining = self.handover = None

    def _expect(self, configuration: Configuration, now: Instant) -> None:
        """Divide the other copies into counting ones and learners.

        A new copy is treated as if it had just answered.
        """
        self.end_quiet()
        known, self.peers = self.peers, {}
        for copy in configuration.sync:
            if copy.node_id == self.liveness.node_id:
                continue
            peer = known.pop(copy.node_id, None)
            if peer is None or peer.allocation != copy.allocation:
                peer = self.learners.pop(copy.node_id, None)
            if peer is None or peer.allocation != copy.allocation:
                next_index = Index(self.copy.tip.index + 1)
                peer = PeerCopy(copy.allocation, next=next_index, heard_at=now)
            self.peers[copy.node_id] = peer
        for node_id, peer in known.items():
            # The copy no longer counts; if it returns soon, it is not far behind (R24).
            if not peer.is_broken:
                self.learners.setdefault(node_id, peer)

    # -- answers --------------------------------------------------------------------------------

    def receive(self, message: Message, sender: NodeId, now: Instant) -> bool:
        """Process an answer of another copy; other messages are ignored.

        Returns:
            False if the message cannot be an answer to one of this primary, and is ignored.
        """
        if isinstance(message, ANSWERS):
            is_future = message.epoch > self.copy.epoch or message.sent_at > now
            if is_future or self._lacks_entries_of(message):
                return False
        match message:
            case Appended():
                self._appended(message, sender, now)
            case Mismatch():
                self._mismatched(message, sender, now)
            case Holding():
                self._held(message, sender, now)
            case PartTaken():
                self._part_taken(message, sender, now)
            case Fenced(epoch=epoch):
                # R2: there is a newer configuration: read it from the coordinator and obey it.
                self.wants_view = self.wants_view or epoch > self.copy.epoch
            case _:
                pass
        return True

    def _lacks_entries_of(self, answer: ReplicaResponse) -> bool:
        """Return True if *answer* names entries of this epoch, or committed ones, that are missing.

        Either the answer is forged, or this copy was set back; then the other copy must not be
        overwritten.
        """
        match answer:
            case Appended(match=index) | Mismatch(committed=index) | Holding(committed=index):
                return index > self.copy.tip.index
            case _:
                return False

    def _appended(self, answer: Appended, sender: NodeId, now: Instant) -> None:
        peer = self._peer(sender, answer.epoch, answer.allocation)
        if peer is None:
            return
        self._heard(peer, answer, now)
        if answer.epoch > peer.epoch:
            peer.epoch = answer.epoch
            self.advance()
        if answer.match > peer.match:
            peer.match, peer.matched_at = answer.match, now
            peer.pace.note(Duration(now - answer.sent_at), now, self.timing.pace)
            peer.next = max(peer.next, Index(answer.match + 1))
            self.advance()
        self._send_entries(sender, peer, now)

    def _mismatched(self, answer: Mismatch, sender: NodeId, now: Instant) -> None:
        peer = self._peer(sender, answer.epoch, answer.allocation)
        if peer is None:
            return
        self._heard(peer, answer, now)
        if answer.last < peer.match:
            # If the request was sent after an answer with more entries, durable entries are gone:
            # an older copy of its disk was restored. Otherwise the answers were reordered.
            peer.is_broken |= answer.sent_at > peer.matched_at
            return
        if answer.previous <= peer.match or answer.sent_at < peer.resent_at:
            return  # The copy has the missing entry by now, or the entry has been sent again.
        peer.resent_at = now
        # Start after the last index up to which the journals are certainly equal; entries that have
        # been trimmed here were committed long ago.
        start = max(peer.match, answer.committed, Index(self.copy.first - 1))
        if start == answer.previous:
            peer.is_broken = True  # Its journal ends earlier or differs: it needs a snapshot.
            return
        peer.next = Index(start + 1)
        self._send_entries(sender, peer, now, is_beat=True)

    def _heard(self, peer: PeerCopy, answer: Appended | Mismatch, now: Instant) -> None:
        peer.record_answer(answer.sent_at, now)
        if answer.gives_lease:
            # R15: counted from the instant of the request, not from that of the answer.
            peer.record_lease(self.timing.lease_end(answer.sent_at))
        elif answer.epoch == self.configuration.epoch and self._counts(peer):
            # R17: it may be about to take over; the next epoch shows whether it has.
            self.wants_bump = True

    def _counts(self, peer: PeerCopy) -> bool:
        return any(allocation == peer.allocation for _, allocation in self._counted())

    def _peer(self, sender: NodeId, epoch: Epoch, allocation: AllocationId) -> PeerCopy | None:
        """Return the copy that sent an answer; None if it is about another copy or journal."""
        return self._copy_on(sender, allocation) if epoch >= self._since else None

    def _copy_on(self, node_id: NodeId, allocation: AllocationId) -> PeerCopy | None:
        for peer in (self.peers.get(node_id), self.learners.get(node_id)):
            if peer is not None and peer.allocation == allocation:
                return peer
        return None

    def _all_peers(self) -> Iterator[tuple[NodeId, PeerCopy]]:
        yield from self.peers.items()
        yield from self.learners.items()

    # -- learners -------------------------------------------------------------------------------

    def _held(self, answer: Holding, sender: NodeId, now: Instant) -> None:
        if answer.epoch < self._since:
            return
        counting, learner = self.peers.get(sender), self.learners.get(sender)
        if any(peer and answer.sent_at <= peer.answered_to for peer in (counting, learner)):
            return  # The messages were reordered.
        if counting is not None:
            # R5: the counting copy on that node is gone if the allocation differs.
            counting.is_broken = answer.allocation != counting.allocation
            if not counting.is_broken:
                return
            self._quiet_beats.end(sender, counting)
        if learner is not None:
            if learner.snapshot is not None:
                if answer.sent_at >= learner.snapshot.part.sent_at:
                    # Refused: the limit is reached, or the data to be replaced has changed.
                    del self.learners[sender]
                    if not answer.has_room:
                        self._waiting.add(sender)
                return
            if answer.allocation == learner.allocation:
                return
            if self._counts(learner):
                return  # It was proposed and may count by now: it is not replaced by another.
            del self.learners[sender]
        asked = self._asked.pop(sender, None)
        if asked is None:
            return
        next_index = Index(answer.committed + 1)
        is_within_reach = self.copy.first <= next_index <= self.copy.tip.index + 1
        if answer.allocation is not None and is_within_reach:
            fresh = PeerCopy(
                answer.allocation,
                next=next_index,
                heard_at=now,
                match=answer.committed,
                matched_at=now,
                answered_to=answer.sent_at,
            )
            self.learners[sender] = fresh
            self._waiting.discard(sender)
            self._send_entries(sender, fresh, now, is_beat=True)
        else:
            self._begin_snapshot(sender, asked, answer, now)

    @property
    def sending_count(self) -> int:
        """The number of snapshots of several parts that are being sent."""
        sent = (peer.snapshot for peer in self.learners.values())
        return sum(snapshot is not None and not snapshot.part.is_whole for snapshot in sent)

    def _begin_snapshot(self, node_id: NodeId, asked: Asked, answer: Holding, now: Instant) -> None:
        """Begin to send a snapshot for a new copy, with a new allocation (R5), if limits allow."""
        has_room = answer.has_room and self.transfers.may_send()
        if node_id in self._waiting and not has_room:
            return  # The snapshot has several parts, as was found before: no row need be read.
        base = self.copy.base()
        found = self.copy.rows(None, PART_BYTES)
        if not (has_room or found.is_last):
            self._waiting.add(node_id)
            return
        self._waiting.discard(node_id)
        part = Part(
            configuration=self.configuration,
            allocation=asked.allocation,
            replaces=answer.allocation,
            since=answer.since,
            number=0,
            base=base,
            rows=found.rows,
            is_last=found.is_last,
            sent_at=now,
        )
        peer = PeerCopy(asked.allocation, next=Index(base.index + 1), heard_at=now)
        peer.snapshot = Outgoing(part)
        self.learners[node_id] = peer
        self._send(node_id, peer, part, now)

    def _part_taken(self, answer: PartTaken, sender: NodeId, now: Instant) -> None:
        peer = self._peer(sender, answer.epoch, answer.allocation)
        if peer is None or peer.snapshot is None:
            return
        peer.heard_at = now
        peer.answered_to = max(peer.answered_to, answer.sent_at)
        sent = peer.snapshot.part
        if answer.number != sent.number:
            return
        if sent.is_last:
            peer.match, peer.matched_at = sent.base.index, now
            peer.snapshot = None
            self._send_entries(sender, peer, now, is_beat=True)
            return
        found = self.copy.rows(sent.rows[-1][0], PART_BYTES)
        peer.snapshot.part = msgspec.structs.replace(
            sent,
            configuration=self.configuration,
            number=sent.number + 1,
            rows=found.rows,
            is_last=found.is_last,
            sent_at=now,
        )
        self._send(sender, peer, peer.snapshot.part, now)

    # -- time -----------------------------------------------------------------------------------

    def tick(self, now: Instant, draw: int, targets: tuple[NodeId, ...]) -> None:
        """Send heartbeats, resend lost messages, and query nodes that should become learners.

        Args:
            now: The current instant, by the node's own clock.
            draw: 64 random bits, for the allocation of a new copy.
            targets: The nodes that should have copies, the intended primary first.
        """
        self.targets = targets
        ticked_at = max(self._ticked_at, self._quiet_beats.previous_tick_at)
        if self.is_fenced or now - ticked_at > self.timing.silence // 2:
            # This node was stalled or sends no heartbeats: silence proves nothing.
            for _, peer in self._all_peers():
                peer.heard_at = now
        self._ticked_at = now
        self.advance()  # A proposed configuration that delayed commits may be refused by now.
        self._drop_learners(now)
        for node_id, peer in self._all_peers():
            if peer.snapshot is not None:
                if now - peer.sent_at >= RESEND:
                    self._send(node_id, peer, peer.snapshot.part, now)
            elif peer.quiet is None and now - peer.sent_at >= self.timing.beat:
                self._beat(node_id, peer, now)
        self._ask_learners(now, draw)

    def _beat(self, node_id: NodeId, peer: PeerCopy, now: Instant) -> None:
        """Send a heartbeat to *peer*; if it is quiet, those to its node list it from now on."""
        if self._may_beat(now):
            # The heartbeat reveals lost entries, which are then sent again.
            self._send_entries(node_id, peer, now, is_beat=True)
        if self._is_quiet(node_id, peer, now):
            index = self.copy.tip.index
            copy = QuietCopy(self.shard, self.configuration.epoch, peer.allocation, index)
            self._quiet_beats.begin(node_id, peer, copy, now)

    def _is_quiet(self, node_id: NodeId, peer: PeerCopy, now: Instant) -> bool:
        """Return True if *peer* has all entries, all are committed, and no entry is recent (R44).

        Its copy has answered a heartbeat of its own under this configuration, and since its last
        refusal. A learner is never quiet, because it is about to count or to be dropped.
        """
        tip = self.copy.tip.index
        return (
            self.is_active
            and self.liveness.is_fit
            and self.configuration.primary_session == self.liveness.session
            and self.copy.committed == peer.match == tip
            and peer.epoch == self.configuration.epoch
            and now - peer.matched_at >= QUIET_BEATS * self.timing.beat
            and peer.answered_to > peer.woken_at
            and not peer.is_broken
            and self.peers.get(node_id) is peer
        )

    @property
    def _is_where_wanted(self) -> bool:
        """Whether the copies and the primary are on the nodes on which they ought to be."""
        targets, members = self.targets, self.configuration.members
        unwanted = self.liveness.leaving | self.liveness.slow
        return (
            targets[:1] == (self.liveness.node_id,)
            and set(targets) == set(members)
            and unwanted.isdisjoint(members)
        )

    def is_at_rest(self, now: Instant) -> bool:
        """Return True if a tick would do nothing, unless an event comes before or nodes change."""
        is_settled = self.is_active and self.copy.committed == self.copy.tip.index
        has_plans = self.changes or self.handover or self.joining or self.learners
        is_asked = self.has_stepped_down or self.wants_bump or self.wants_view
        return (
            is_settled
            and not (has_plans or is_asked)
            and self.configuration.primary_session == self.liveness.session
            and self.liveness.is_fit
            and self._is_where_wanted
            and all(
                peer.quiet is not None and not self.liveness.is_dead(node_id, now)
                for node_id, peer in self.peers.items()
            )
        )

    def end_quiet(self) -> None:
        """Send heartbeats of this shard's own to all copies from now on."""
        for node_id, peer in self._all_peers():
            self._quiet_beats.end(node_id, peer)

    def _may_beat(self, now: Instant) -> bool:
        """Return True if heartbeats may be sent.

        R19: a fenced primary requests no lease that outlasts its session, which it does not renew.
        Until then no other node can take over, and the answers show which copy could replace it.
        """
        outlasts = later(now, self.timing.grace) > self.liveness.session_end
        return not (self.is_fenced and outlasts)

    def _drop_learners(self, now: Instant) -> None:
        """Forget learners that are not wanted, are broken, or do not answer."""
        patience = Instant(now - 5 * self.timing.silence)
        for node_id, peer in list(self.learners.items()):
            is_wanted = node_id in self.targets and not peer.is_broken
            if not self._may_count(node_id, peer) and (not is_wanted or peer.is_silent(patience)):
                del self.learners[node_id]

    def _may_count(self, node_id: NodeId, peer: PeerCopy) -> bool:
        return any(swap.fresh.allocation_of(node_id) == peer.allocation for swap in self.changes)

    def _ask_learners(self, now: Instant, draw: int) -> None:
        for number, node_id in enumerate(self.targets):
            counting = self.peers.get(node_id)
            has_copy = counting is not None and not counting.is_broken
            if node_id == self.liveness.node_id or has_copy or node_id in self.learners:
                continue
            asked = self._asked.get(node_id)
            if node_id in self._waiting and not (
                draw % WAITING_TICKS == 0 and self.transfers.may_send()
            ):
                continue
            if asked is None or now - asked.at >= self.timing.query:
                allocation = AllocationId(f"{(draw + number) % (1 << 64):016x}")
                self._asked[node_id] = Asked(now, allocation)
                self.outbox.append((node_id, Query(epoch=self.copy.epoch, sent_at=now)))

    # -- sending --------------------------------------------------------------------------------

    def take_wants_view(self) -> bool:
        """Return `wants_view`, and set it to False."""
        wants_view, self.wants_view = self.wants_view, False
        return wants_view

    def _send_entries(
        self, node_id: NodeId, peer: PeerCopy, now: Instant, *, is_beat: bool = False
    ) -> None:
        """Send the entries that *peer* has not been sent, as many as the window allows."""
        if peer.snapshot is not None or peer.is_broken:
            return
        if peer.next > self.copy.tip.index and not is_beat:
            return
        previous = Index(peer.next - 1)
        previous_hash = self.copy.hash_at(previous)
        if previous_hash is None:
            # The next entry that it needs has been trimmed: it needs a snapshot.
            peer.is_broken = True
            return
        entries = self._entries_for(peer)
        if not entries and not is_beat:
            return  # Its window is full.
        peer.next = Index(peer.next + len(entries))
        message = Append(
            configuration=self.configuration,
            allocation=peer.allocation,
            previous=previous,
            previous_hash=previous_hash,
            entries=entries,
            committed=self.copy.committed,
            sent_at=now,
        )
        self._send(node_id, peer, message, now)

    def _entries_for(self, peer: PeerCopy) -> tuple[bytes, ...]:
        last = min(self.copy.tip.index, peer.match + WINDOW if peer.match else peer.next + WINDOW)
        entries: list[bytes] = []
        size = 0
        for index in range(peer.next, last + 1):
            if size >= WINDOW_BYTES:
                break
            entries.append(self.copy.entry(Index(index)))
            size += len(entries[-1])
        return tuple(entries)

    def _send(self, node_id: NodeId, peer: PeerCopy, message: Message, now: Instant) -> None:
        self._quiet_beats.end(node_id, peer)
        peer.sent_at = now
        self.outbox.append((node_id, message))

    def _counted(self) -> Iterator[tuple[NodeId, AllocationId]]:
        for configuration in self.union():
            for copy in configuration.sync:
                yield copy.node_id, copy.allocation


_TAKEOVER = EntryKind.TAKEOVER
