"""The backup's part, and a learner's: obey the primary, remember what it sends, promise it time.

A backup never guesses. What does not follow is refused (R8), and what is acknowledged is durable
first (R9), the promise to obey no lower epoch included (R2).
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from rota.core.model.ids import AllocationId, Index, NodeId, Session
from rota.core.replication.local_copy import LocalCopy
from rota.core.replication.messages import (
    Answer,
    Append,
    Appended,
    Holding,
    Message,
    Mismatch,
    Part,
    PartTaken,
    Query,
)
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.journal import DamagedEntry, hash_of
from rota.core.vocabulary.shard_configuration import Configuration

ANSWERS_MAX = 1_024
"""Answers that may wait for the disk; one more is dropped, and its message comes again."""
PART_AWAITED = Duration(5 * SECOND)
"""A snapshot of which no part came for so long has no place; its sender repeats each second."""


class Promises:
    """Until when this node keeps from taking over from each life of a primary (R14, R16).

    They are in memory alone, so a node that has just started keeps from it for the full time.
    """

    def __init__(self) -> None:
        self._until: dict[tuple[NodeId, Session], Instant] = {}

    def give(self, node_id: NodeId, session: Session, until: Instant) -> None:
        """Promise a primary time until *until*."""
        key = node_id, session
        self._until[key] = max(self._until.get(key, Instant(0)), until)

    def have_run_out(self, now: Instant, dead: Collection[tuple[NodeId, Session]]) -> bool:
        """Tell whether nobody can act by them any more; who is *dead* cannot."""
        return all(until <= now or life in dead for life, until in self._until.items())

    def prune(self, now: Instant) -> None:
        """Forget those that have run out."""
        self._until = {key: until for key, until in self._until.items() if until > now}


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer that waits for a batch of writes to be durable."""

    number: int
    to: NodeId
    message: Answer


@dataclass(frozen=True, slots=True)
class _Filling:
    """The copy that is being made from a snapshot: how many parts are here, the last since when."""

    allocation: AllocationId
    count: int
    at: Instant


class Backup:
    """The duty of every copy that is not the primary's.

    Args:
        copy: This node's copy, perhaps none yet.
        promises: Of this node for this shard.
        timing: Of the cluster.
        transfers: Of this node.
        since: When this life of the node began.

    Attributes:
        may_promise: False while this copy may be about to take over (R17).
        outbox: Messages to be sent.
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
        self.copy = copy
        self.promises = promises
        self.timing = timing
        self.transfers = transfers
        self.may_promise = True
        self.outbox: list[tuple[NodeId, Message]] = []
        self._answers: deque[_Answer] = deque()
        self._filling: _Filling | None = None
        self._since = since
        """When what is here came to be here, as far as this duty knows."""

    def receive(
        self, message: Message, sender: NodeId, newest: Configuration | None, now: Instant
    ) -> None:
        """Take a message of a primary whose epoch is the promised one.

        Args:
            message: What came; answers to a primary are for none.
            sender: From whom.
            newest: The newest configuration known, that of *message* included.
            now: By the node's own clock.
        """
        match message:
            case Append():
                self._append(message, sender, newest, now)
            case Part():
                self._take_part(message, sender, newest, now)
            case Query():
                self._tell_holding(sender, message, now)
            case _:
                pass

    def made_durable(self) -> None:
        """Send what waited for it; but nothing to one whose epoch is too low by now (R2)."""
        while self._answers and self._answers[0].number <= self.copy.durable_number:
            answer = self._answers.popleft()
            if answer.message.epoch == self.copy.epoch:
                self.outbox.append((answer.to, answer.message))

    # -- entries --------------------------------------------------------------------------------

    def _append(
        self, message: Append, sender: NodeId, newest: Configuration | None, now: Instant
    ) -> None:
        if self.copy.allocation is None or self.copy.allocation != message.allocation:
            self._tell_holding(sender, message, now)  # R5: the copy that is meant is not here.
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
        """Give the primary time, unless another may be primary already or soon (R14, R17)."""
        is_newest = newest is None or (
            newest.primary == theirs.primary and newest.primary_session == theirs.primary_session
        )
        if not (is_newest and self.may_promise):
            return False
        until = later(now, self.timing.grace)
        self.promises.give(theirs.primary, theirs.primary_session, until)
        return True

    def _accept(self, message: Append) -> Index:
        """Make the journal as the primary's up to the last of its entries; return its index.

        A damaged entry, and those after it, are as if they had not come: they are sent again.

        Raises:
            Diverged: One of them is another than the one that is committed here (R8).
        """
        index = message.previous
        for value in message.entries:
            index = Index(index + 1)
            if index <= self.copy.tip.index:
                self.copy.check_committed(index, hash_of(value))
                if index <= self.copy.committed or self.copy.entry(index) == value:
                    continue
                self.copy.cut_after(Index(index - 1))  # R8: it refuses to cut what is committed.
            try:
                self.copy.accept(value)
            except DamagedEntry:
                return Index(index - 1)
        return index

    def _answer_durably(self, to: NodeId, message: Answer) -> None:
        """Answer once all that was written is durable: entries (R9), the promised epoch (R2)."""
        if self.copy.is_durable and not self._answers:
            self.outbox.append((to, message))
        elif len(self._answers) < ANSWERS_MAX:
            self._answers.append(_Answer(self.copy.next_number, to, message))

    # -- snapshots ------------------------------------------------------------------------------

    def is_taking(self, now: Instant) -> bool:
        """Tell whether a snapshot of several parts is being taken, and goes on."""
        return self._filling is not None and now - self._filling.at < PART_AWAITED

    def _has_place(self, now: Instant) -> bool:
        """Tell whether one may be taken; one for this shard takes the place of what it replaces."""
        return self.is_taking(now) or self.transfers.may_take(now)

    def _take_part(
        self, part: Part, sender: NodeId, newest: Configuration | None, now: Instant
    ) -> None:
        if self.copy.allocation != part.allocation:
            number = self._filled(part.allocation)
            is_begun = number > 0
            if not (is_begun or self._may_begin(part, newest)):
                self._tell_holding(sender, part, now)
                return
            if part.number > number:
                return
            if not (part.is_whole or self._has_place(now)):
                self._tell_holding(sender, part, now)  # R23: it is to come again.
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
        """Tell whether what is here may be given up for the copy that *part* is of.

        What counts, or may by now, is not given up because of a message that was late. Nor does a
        copy begin twice (R5): a part that came once more, to a disk that was lost meanwhile, would
        make a lesser copy by the name of one that may count (found by the simulation, seed 5260).
        """
        is_as_told = (self.copy.allocation, self._since) == (part.replaces, part.since)
        # A snapshot that lacks what is committed here is old, or of a copy that was set back.
        has_all = part.base.index >= self.copy.committed
        return is_as_told and has_all and not self._counts(newest)

    def _filled(self, allocation: AllocationId) -> int:
        """Return how many parts of the copy *allocation* are here."""
        filling = self._filling
        return filling.count if filling and filling.allocation == allocation else 0

    def _store_part(self, part: Part, now: Instant) -> None:
        if part.number == 0:
            self.copy.clear()
            self._since = now
            self._answers.clear()  # R9: what they tell of is not here any more.
        self.copy.put_rows(part.rows)
        if part.is_last:
            self.copy.become_whole(part.allocation, part.base)
            self._filling = None
        else:
            self._filling = _Filling(part.allocation, part.number + 1, now)

    def _counts(self, newest: Configuration | None) -> bool:
        """Tell whether the copy here is one that counts."""
        allocation = self.copy.allocation
        return (
            newest is not None
            and allocation is not None
            and any(copy.allocation == allocation for copy in newest.sync)
        )

    def _tell_holding(self, to: NodeId, message: Append | Part | Query, now: Instant) -> None:
        epoch = message.epoch if isinstance(message, Query) else message.configuration.epoch
        holding = Holding(
            epoch=epoch,
            allocation=self.copy.allocation,
            committed=self.copy.committed,
            since=self._since,
            sent_at=message.sent_at,
            has_place=self._has_place(now),
        )
        self._answer_durably(to, holding)
