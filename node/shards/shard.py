"""One shard on this node: its copy, and, while this node is its primary, its state."""

from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from rota.core.errors import Kind, Refused
from rota.core.model.ids import Epoch, Index, NodeId, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.primary import Copies, Primary
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.replication.replica import Replica
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.state.shard_state import State, load_state
from rota.core.timing.instants import Instant
from rota.core.vocabulary.codec import RawChange, Undecodable, decode_body
from rota.core.vocabulary.decision import Reply
from rota.core.vocabulary.effects import Consequence
from rota.core.vocabulary.journal import decode_entry
from rota.node.system.clock import Clock
from rota.storage.shards import ShardFile
from rota.storage.store import Batch, Store

Answer = Reply | Refused
OnAnswer = Callable[[Answer], None]


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry after which the rows are to be read, before the next entry is applied (R43).

    Attributes:
        index: The index of the entry.
        reached: Called once, when the rows contain the entries up to *index* and no others; it may
            be called when they contain more, if the copy has been replaced in between.
    """

    index: Index
    reached: Callable[[], None]


RECENT_CAUSES = 10
"""The number of causes kept for each shard, of about 100 bytes each, which is 1 KiB per shard."""


@dataclass(slots=True)
class Entry:
    """An entry that was decided here, and the replies and effects that wait for its commit.

    Attributes:
        index: The index of the entry.
        decided_at: The elapsed time of the node's clock at the decision, not the shard's time.
        changes: The changes of rows.
        effects: The effects to be carried out after the commit.
        answers: The answers to be given after the commit, with the functions that get them.
        readers: Reads that wait for the release of the entry and of all entries before it.
    """

    index: Index
    decided_at: Instant
    changes: tuple[RawChange, ...]
    effects: tuple[Consequence, ...]
    answers: list[tuple[OnAnswer, Answer]] = field(default_factory=list[tuple[OnAnswer, Answer]])
    readers: "list[Future[None]]" = field(default_factory=list["Future[None]"])

    def take_answers(self, is_taken: Callable[[OnAnswer], bool]) -> list[OnAnswer]:
        """Remove the answers for whose functions *is_taken* is True; return these functions."""
        taken = [on_answer for on_answer, _ in self.answers if is_taken(on_answer)]
        self.answers = [each for each in self.answers if not is_taken(each[0])]
        return taken

    def take_readers(self) -> "list[Future[None]]":
        """Remove and return the readers."""
        readers, self.readers = self.readers, []
        return readers


class NotPrimary(Refused):
    """Another node is the primary of a shard, or will be; nothing was decided here.

    Attributes:
        shard: The shard.
    """

    def __init__(self, shard: ShardId, primary: NodeId | None, *, is_unsure: bool = False) -> None:
        where = f"; according to this node, {primary} is its primary" if primary else ""
        detail = f"this node is not the primary of shard {shard}{where}; try again"
        if is_unsure:
            detail = (
                f"this node cannot be sure that it is still the primary of shard {shard}: it "
                "cannot reach the coordinator, or not all nodes that have copies of the shard; "
                "try again"
            )
        super().__init__(Kind.UNAVAILABLE, "not_primary", detail, retry_after_s=1)
        self.shard = shard


class NotCommitted(Refused):
    """A read depends on an entry that could not be committed in time.

    Attributes:
        shard: The shard of the entry.
    """

    def __init__(self, shard: ShardId) -> None:
        detail = (
            f"shard {shard} cannot be read now: earlier writes are not committed, because too few "
            "of its copies respond; start their nodes, or restore the network"
        )
        super().__init__(Kind.UNAVAILABLE, "not_committed", detail, retry_after_s=1)
        self.shard = shard


class OutcomeUnknown(Refused):
    """A command was decided but could not be committed in time; it may be committed later."""

    def __init__(self, shard: ShardId) -> None:
        detail = (
            f"the request was decided, but shard {shard} could not commit it in time; it may still "
            "take effect: read the result later, or repeat the request with the same idempotency "
            "key"
        )
        super().__init__(Kind.UNAVAILABLE, "outcome_unknown", detail, retry_after_s=1)


class Unreadable(Refused):
    """This node is the primary of a shard whose stored state it cannot read."""

    def __init__(self, shard: ShardId, fault: str) -> None:
        detail = (
            f"shard {shard} stays closed, because its state on this node cannot be read: {fault}; "
            "see docs/reference/data-directory.md, Unreadable records"
        )
        super().__init__(Kind.UNREADABLE, "record_unreadable", detail)


@dataclass(frozen=True, slots=True)
class SilentJobs:
    """Jobs that skip fire times, because fire times were decided while a clock was ahead.

    Attributes:
        count: The number of jobs.
        names: The full names of the first ones.
        until: The latest of their next fire times.
    """

    count: int
    names: tuple[str, ...]
    until: Instant


class Shard:
    """One shard on this node.

    Args:
        store: The store of the shard's rows.
        number: The number of the shard.
        liveness: The view of which nodes are alive.
        continuity: This node's record of the coordinator's past states.
        timing: The timeouts of the cluster.
        transfers: The limits of the node's snapshots.
        quiet_beats: The heartbeats of the node for quiet shards.
        copies: The wanted and the least number of copies.

    Attributes:
        id: The number of the shard.
        file: The shard's rows in the store.
        replica: This node's copy.
        entries: Entries that were decided here and are not yet committed, oldest first.
        committed: Entries that were decided here and are committed and applied, but not released.
        mark: The entry after which applying is to be interrupted; None if there is none.
        recent_causes: Causes of the last commands decided here that changed the shard, for the log
            of a crash; at most `RECENT_CAUSES`.
        fault: The reason why the state could not be read when this node became primary; empty if it
            could be read.
        silent: The jobs that skip fire times; None if there are none, or if this node is not the
            primary.
    """

    def __init__(
        self,
        store: Store,
        number: ShardId,
        *,
        liveness: Liveness,
        continuity: CoordinatorContinuity,
        timing: Timing,
        transfers: TransferLimits,
        quiet_beats: QuietBeats,
        copies: Copies,
    ) -> None:
        self.id = number
        self.file = ShardFile(store, number)
        self.replica = Replica(
            number,
            self.file.stored(),
            self.file,
            liveness=liveness,
            continuity=continuity,
            timing=timing,
            transfers=transfers,
            quiet_beats=quiet_beats,
            copies=copies,
        )
        self.entries: deque[Entry] = deque()
        self.committed: deque[Entry] = deque()
        self.mark: Mark | None = None
        self.fault = ""
        self.silent: SilentJobs | None = None
        self.recent_causes: deque[str] = deque(maxlen=RECENT_CAUSES)
        self._state: State | None = None
        self._primary: Primary | None = None

    @property
    def state(self) -> State:
        """The primary's state of the shard; it may be ahead of the commit.

        Raises:
            Refused: This node is not the shard's primary now.
        """
        if self._state is None:
            raise self.elsewhere()
        return self._state

    def check_open(self) -> None:
        """Raise `NotPrimary` or `Unreadable` unless the shard is open here."""
        if self._state is None:
            raise self.elsewhere()

    @property
    def is_open(self) -> bool:
        """Whether this node decides for the shard, as its primary."""
        return self._state is not None

    def is_at_rest(self, now: Instant) -> bool:
        """Return True if ticks would do nothing; see `Replica.is_at_rest`."""
        if self.unreleased is not None or self.mark is not None:
            return False
        is_acting = self.is_open or self.is_unreadable
        return is_acting == (self.replica.primary is not None) and self.replica.is_at_rest(now)

    @property
    def epoch(self) -> Epoch:
        """The highest epoch promised here."""
        return self.replica.epoch

    @property
    def primary_node(self) -> NodeId | None:
        """The primary in the newest configuration seen here; None if there is none."""
        return self.replica.newest.primary if self.replica.newest else None

    def time(self, clock: Clock) -> Instant:
        """Return the shard's time."""
        return self.replica.copy.shard_time(clock.now())

    @property
    def unreleased(self) -> Entry | None:
        """The newest entry that was decided here and is not released; None if there is none."""
        if self.entries:
            return self.entries[-1]
        return self.committed[-1] if self.committed else None

    def unreleased_until(self, decided_at: Instant) -> Iterator[Entry]:
        """Yield the entries decided up to *decided_at* that are not released, oldest first."""
        for entry in chain(self.committed, self.entries):
            if entry.decided_at > decided_at:
                return
            yield entry

    def open(self) -> None:
        """Begin to decide; all entries must be committed and applied.

        If the state cannot be read, the shard stays closed, with a `fault`, as long as this node is
        its primary: a decision made without one of the rows could contradict an acknowledged one.
        """
        assert self.file.applied == self.replica.copy.committed == self.replica.copy.tip.index
        self._primary = self.replica.primary
        try:
            self._state, self.fault = load_state(self.file.changes()), ""
        except Undecodable as error:
            self.fault = str(error)

    @property
    def is_unreadable(self) -> bool:
        """Whether this node is the primary, and the shard is closed because of a `fault`."""
        return bool(self.fault) and not self.has_lost_primacy

    @property
    def has_lost_primacy(self) -> bool:
        """Whether this node is no longer the primary that it was when it began to decide."""
        return self.replica.primary is not self._primary

    def may_answer(self, now: Instant) -> bool:
        """Return True if this node may answer from the shard's memory and rows (PROTOCOL R15)."""
        return self.is_open and not self.has_lost_primacy and self.replica.has_authority(now)

    def close(self) -> list[Entry]:
        """Stop deciding, drop the memory, and return the entries that are not released."""
        self._state = self._primary = None
        unreleased = [*self.committed, *self.entries]
        self.committed.clear()
        self.entries.clear()
        return unreleased

    def apply(self, batch: Batch, until: Index | None = None) -> None:
        """Add to *batch* the rows of the entries that are committed and not yet applied.

        Args:
            batch: The batch, which is to be written next.
            until: The index of the last entry to apply, if it is committed; None for all committed
                entries.
        """
        copy = self.replica.copy
        last = copy.committed if until is None else min(until, copy.committed)
        while self.file.applied < last:
            index = Index(self.file.applied + 1)
            # After a loss of primacy, the entry of that index may be another primary's.
            if not self.has_lost_primacy and self.entries and self.entries[0].index == index:
                entry = self.entries.popleft()
                changes = entry.changes
                self.committed.append(entry)
            else:
                changes = decode_body(decode_entry(copy.entry(index)).body)[1]
            self.file.apply(batch, index, changes, self.replica.needed_from)
            copy.trimmed(self.file.before_first)

    def set_mark(self, mark: Mark) -> None:
        """Interrupt applying at *mark*, which replaces an earlier mark."""
        self.mark = mark

    def clear_mark(self) -> None:
        """Remove the mark."""
        self.mark = None

    def elsewhere(self) -> Refused:
        """Return the refusal of a request that only an open shard can answer."""
        if self.is_unreadable:
            return Unreadable(self.id, self.fault)
        is_unsure = self.is_open and not self.has_lost_primacy
        return NotPrimary(self.id, self.primary_node, is_unsure=is_unsure)

    def interrupted(self) -> Refused:
        """Return the refusal of a request whose entry another primary may or may not commit."""
        return Refused(
            Kind.UNAVAILABLE,
            "primary_lost",
            f"this node lost the role of primary of shard {self.id} during the request, which may "
            "or may not have taken effect; read the result, or repeat the request with the same "
            "idempotency key",
            retry_after_s=1,
        )
