"""The role of backups and learners: store the primary's entries and grant it leases.

An entry that does not follow the journal is refused (R8). Everything acknowledged is durable first
(R9), including the promise to obey no lower epoch (R2).
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from rota.core.model.ids import AllocationId, Index, NodeId, Session
from rota.core.replication.local_copy import LocalCopy
from rota.core.replication.messages import (
    Append,
    Appended,
    Holding,
    Message,
    Mismatch,
    Part,
    PartTaken,
    Query,
    ReplicaResponse,
)
from rota.core.replication.role import Role
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.journal import DamagedEntry, hash_of
from rota.core.vocabulary.shard_configuration import Configuration

ANSWERS_MAX = 1_024
"""The number of answers that may wait for the disk; others are dropped, and messages are resent."""
PART_AWAITED = Duration(5 * SECOND)
"""The time without a part after which a snapshot no longer counts as being received; its sender
resends a part every second."""


class Promises:
    """The leases that this node has granted to primaries, by node and session (R14, R16).

    A promise ends at an instant before which this node does not take over. Promises are in memory
    only, so a node that has just started waits for the longest possible time.
    """

    def __init__(self) -> None:
        self._until: dict[tuple[NodeId, Session], Instant] = {}

    def give(self, node_id: NodeId, session: Session, until: Instant) -> None:
        """Promise a primary not to take over before *until*."""
        key = node_id, session
        self._until[key] = max(self._until.get(key, Instant(0)), until)

    def have_run_out(self, now: Instant, dead: Collection[tuple[NodeId, Session]]) -> bool:
        """Return True if no primary can act by a promise; the sessions in *dead* have ended."""
        return all(until <= now or session in dead for session, until in self._until.items())

    def prune(self, now: Instant) -> None:
        """Forget the promises that have run out."""
        self._until = {key: until for key, until in self._until.items() if until > now}


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer that waits for a batch of writes to be durable."""

    number: int
    to: NodeId
    message: ReplicaResponse


@dataclass(frozen=True, slots=True)
class _Filling:
    """A copy that is being made from a snapshot: its number of parts received so far.

    Attributes:
        at: When the last part arrived.
    """

    allocation: AllocationId
    count: int
    at: Instant


class Backup(Role):
    """The role of every copy that is not the primary's.

    Args:
        copy: This node's copy, which may not exist yet.
        promises: The promises of this node for this shard.
        timing: The durations of the cluster.
        transfers: The transfers of this node.
        since: When the node started.
    """

    def __init__(
        self,
        copy: LocalCopy,
        promises: Promises,
        timing: Timing,
        transfers: TransferLimits,
        *,
        since: Instant,
    ) -> None:
        super().__init__()
        self.copy = copy
        self.promises = promises
        self.timing = timing
        self.transfers = transfers
        self._may_promise = True
        self._answers: deque[_Answer] = deque()
        self._filling: _Filling | None = None
        self._since = since
        """When the present data was created, or when the node started, if that is later."""

    def receive(
        self,
        message: Message,
        sender: NodeId,
        newest: Configuration | None,
        now: Instant,
        *,
        may_promise: bool = True,
    ) -> None:
        """Process a message of a primary whose epoch is the promised one.

        Args:
            message: The message; answers to a primary are ignored.
            sender: The node that sent it.
            newest: The newest configuration known, that of *message* included.
            now: The current instant, by the node's own clock.
            may_promise: False while this copy may be about to take over (R17).
        """
        self._may_promise = may_promise
        match message:
            case Append():
                self._append(message, sender, newest, now)
            case Part():
                self._take_part(message, sender, newest, now)
            case Query():
                self._send_holding(sender, message, now)
            case _:
                pass

    def made_durable(self) -> None:
        """Send the answers that waited for durability, except those of a lower epoch (R2)."""
        while self._answers and self._answers[0].number <= self.copy.durable_number:
            answer = self._answers.popleft()
            if answer.message.epoch == self.copy.epoch:
                self.outbox.append((answer.to, answer.message))

    # -- entries --------------------------------------------------------------------------------

    def _append(
        self, message: Append, sender: NodeId, newest: Configuration | None, now: Instant
    ) -> None:
        if self.copy.allocation is None or self.copy.allocation != message.allocation:
            self._send_holding(sender, message, now)  # R5: the receiver has another copy.
            return
        is_same = self.copy.hash_at(message.previous) == message.previous_hash
        if not is_same:
            self.copy.check_committed(message.previous, message.previous_hash)
        gives_lease = self._promise(message.configuration, newest, now)
        if not is_same:
            mismatch = Mismatch(
                epoch=message.configuration.epoch,
                allocation=message.allocation,
                previous=message.previous,
                last=self.copy.tip.index,
                committed=self.copy.committed,
                gives_lease=gives_lease,
                sent_at=message.sent_at,
            )
            self._answer_durably(sender, mismatch)
            return
        match = self._accept(message)
        committed = min(message.committed, match)
        if committed > self.copy.committed:
            self.copy.commit(committed)
        appended = Appended(
            epoch=message.configuration.epoch,
            allocation=message.allocation,
            match=match,
            gives_lease=gives_lease,
            sent_at=message.sent_at,
        )
        self._answer_durably(sender, appended)

    def _promise(self, theirs: Configuration, newest: Configuration | None, now: Instant) -> bool:
        """Grant the primary a lease, unless another node may be primary now or soon (R14, R17)."""
        is_newest = newest is None or (
            newest.primary == theirs.primary and newest.primary_session == theirs.primary_session
        )
        if not (is_newest and self._may_promise):
            return False
        until = later(now, self.timing.grace)
        self.promises.give(theirs.primary, theirs.primary_session, until)
        return True

    def _accept(self, message: Append) -> Index:
        """Make the journal equal to the primary's up to the message's last entry; return its index.

        A damaged entry and those after it are ignored; the primary sends them again.

        Raises:
            Diverged: An entry differs from the committed entry of this copy (R8).
        """
        index = message.previous
        for value in message.entries:
            index = Index(index + 1)
            if index <= self.copy.tip.index:
                self.copy.check_committed(index, hash_of(value))
                if index <= self.copy.committed or self.copy.entry(index) == value:
                    continue
                self.copy.cut_after(Index(index - 1))  # R8: it never cuts committed entries.
            try:
                self.copy.accept(value)
            except DamagedEntry:
                return Index(index - 1)
        return index

    def _answer_durably(self, to: NodeId, message: ReplicaResponse) -> None:
        """Answer once all writes so far are durable: entries (R9) and the promised epoch (R2)."""
        if self.copy.is_durable and not self._answers:
            self.outbox.append((to, message))
        elif len(self._answers) < ANSWERS_MAX:
            self._answers.append(_Answer(self.copy.next_number, to, message))

    # -- snapshots ------------------------------------------------------------------------------

    def is_taking(self, now: Instant) -> bool:
        """Return True if a snapshot of several parts is being received."""
        return self._filling is not None and now - self._filling.at < PART_AWAITED

    def _has_room(self, now: Instant) -> bool:
        """Return True if a snapshot of several parts may be received for this shard now."""
        return self.is_taking(now) or self.transfers.may_take(now)

    def _take_part(
        self, part: Part, sender: NodeId, newest: Configuration | None, now: Instant
    ) -> None:
        if self.copy.allocation != part.allocation:
            number = self._filled(part.allocation)
            is_continued = number > 0
            if not (is_continued or self._may_begin(part, newest)):
                self._send_holding(sender, part, now)
                return
            if part.number > number:
                return
            if not (part.is_whole or self._has_room(now)):
                self._send_holding(sender, part, now)  # R23: to be sent again later.
                return
            if part.number == number:
                self._store_part(part, now)
        taken = PartTaken(
            epoch=part.configuration.epoch,
            allocation=part.allocation,
            number=part.number,
            sent_at=part.sent_at,
        )
        self._answer_durably(sender, taken)

    def _may_begin(self, part: Part, newest: Configuration | None) -> bool:
        """Return True if the present data may be replaced by the copy that *part* belongs to.

        A late message must not replace a copy that counts, or may count by now. And no copy begins
        twice (R5): a duplicate part that arrives after the disk was lost would make a copy with
        fewer entries under the allocation of one that may count (found by the simulation, seed
        5260).
        """
        is_unchanged = (self.copy.allocation, self._since) == (part.replaces, part.since)
        # A snapshot that lacks entries committed here is old, or of a copy that was set back.
        has_all = part.base.index >= self.copy.committed
        return is_unchanged and has_all and not self._counts(newest)

    def _filled(self, allocation: AllocationId) -> int:
        """Return the number of parts of the copy *allocation* that have been received."""
        filling = self._filling
        return filling.count if filling and filling.allocation == allocation else 0

    def _store_part(self, part: Part, now: Instant) -> None:
        if part.number == 0:
            self.copy.clear()
            self._since = now
            self._answers.clear()  # R9: they acknowledge data that no longer exists.
        self.copy.put_rows(part.rows)
        if part.is_last:
            self.copy.become_whole(part.allocation, part.base)
            self._filling = None
        else:
            self._filling = _Filling(part.allocation, part.number + 1, now)

    def _counts(self, newest: Configuration | None) -> bool:
        """Return True if this node's copy counts."""
        allocation = self.copy.allocation
        return (
            newest is not None
            and allocation is not None
            and any(copy.allocation == allocation for copy in newest.sync)
        )

    def _send_holding(self, to: NodeId, message: Append | Part | Query, now: Instant) -> None:
        epoch = message.epoch if isinstance(message, Query) else message.configuration.epoch
        holding = Holding(
            epoch=epoch,
            allocation=self.copy.allocation,
            committed=self.copy.committed,
            since=self._since,
            sent_at=message.sent_at,
            has_room=self._has_room(now),
        )
        self._answer_durably(to, holding)
