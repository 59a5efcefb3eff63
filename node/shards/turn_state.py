"""State of the turns of some shards: the work for a turn, and the writes that are not durable.

`Shards` adds the work, and `ShardLoop` takes it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from rota.core.errors import Kind, Refused
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.disk_space import DiskSpace
from rota.node.shards.inbox import Caller, Inbox, Taken
from rota.node.shards.shard import Answer, NotCommitted, OnAnswer, OutcomeUnknown, Shard
from rota.node.system.clock import Clock
from rota.storage.store import Batch, Ticket

T = TypeVar("T")

COMMIT_WAIT_MAX = Duration(10 * SECOND)
"""The longest wait of requests for the commit of a decision (R12); a takeover takes about 6 s."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A batch that was written and is not yet durable.

    Attributes:
        ticket: The ticket of the write.
        written_at: The elapsed time of the node's clock at the write.
        size: The size of the replicas' writes in the batch, in bytes.
        numbers: The shards whose replicas have writes in the batch, each with the number by which
            its replica identifies the writes.
    """

    ticket: Ticket
    written_at: Instant
    size: int
    numbers: tuple[tuple[Shard, int], ...]


class TurnState:
    """State of the turns of some shards.

    Args:
        shards: The shards; more may be added later.
        clock: The clock of this node.
        failure: Gets the error that ends this node.

    Attributes:
        inbox: The commands that wait for a turn. Call `plan` after an addition to this attribute or
            to one of the next two.
        touched: The shards whose replicas may have work for a turn.
        awake: The shards that are not at rest, or were touched since the last tick; these are
            ticked.
        extra_writes: Functions that add rows that belong to no shard to the next batch.
        wants_turn: Whether the next tick is to plan a turn, for log lines that wait.
        over: The refusal of all commands after a stop or a failure; None before.
        space: The space on this node's disk at the last measurement.
        opening_time: The total time spent on opening shards, which would take another node as long.
        entry_count: The number of entries made so far.
        decision_count: The number of commands decided so far.
    """

    def __init__(
        self, shards: Sequence[Shard], clock: Clock, failure: "asyncio.Future[None]"
    ) -> None:
        self._shards = shards
        self._clock = clock
        self._failure = failure
        self._step: Callable[[], None] | None = None
        self._is_planned = False
        self.inbox = Inbox()
        self.touched: dict[Shard, None] = {}
        self.awake: dict[Shard, None] = dict.fromkeys(shards)
        self.extra_writes: list[Callable[[Batch], None]] = []
        self._taken: Taken = {}
        """The commands of the turn that runs now."""
        self._flights: deque[Flight] = deque()
        """Batches that were written and are not yet durable, oldest first."""
        self._durable_at = clock.elapsed()
        """The instant at which the last sync ended."""
        self.wants_turn = False
        self.over: Refused | None = None
        self._flight_bytes = 0
        self.space = DiskSpace.AMPLE
        self.opening_time = Duration(0)
        self.entry_count = 0
        self.decision_count = 0

    # -- turns ----------------------------------------------------------------------------------

    @contextmanager
    def stepping(self, step: Callable[[], None]) -> Generator[None]:
        """Return a context during which *step* runs soon after each call of `plan`.

        A call before the context begins counts, too. Several calls before a run cause one run.
        """
        self._step = step
        if self._is_planned:
            self._schedule(step)
        try:
            yield
        finally:
            self._step = None

    def plan(self) -> None:
        """Schedule a turn soon."""
        if not self._is_planned:
            self._is_planned = True
            if self._step is not None:
                self._schedule(self._step)

    def _schedule(self, step: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(self._run, step)

    def _run(self, step: Callable[[], None]) -> None:
        self._is_planned = False
        if self._step is step:  # Otherwise the node was abandoned, and its store may be closed.
            self.guarded(step)

    def guarded(self, step: Callable[[], None]) -> None:
        """Run a step; an error in the step ends this node, not only one request."""
        try:
            step()
        except Exception as error:
            self.fail(error)

    # -- the work of a turn ---------------------------------------------------------------------

    @contextmanager
    def taking(self) -> Generator[Taken]:
        """Take the commands of a turn, whose body follows; `fail` in the body refuses them."""
        self._taken = self.inbox.take()
        yield self._taken
        self._taken = {}

    def touch(self, shard: Shard) -> None:
        """Record that the replica of a shard may have work for a turn, and for ticks."""
        self.touched[shard] = None
        self.awake[shard] = None

    def wake_all(self) -> None:
        """Tick every shard at the next tick."""
        self.awake.update(dict.fromkeys(self._shards))

    def take_awake(self) -> tuple[Shard, ...]:
        """Return the shards to be ticked; only those that are touched again stay awake."""
        awake = tuple(self.awake)
        self.awake.clear()
        return awake

    def take_touched(self) -> dict[Shard, None]:
        """Remove and return the shards whose replicas may have work."""
        touched, self.touched = self.touched, {}
        return touched

    def take_extra_writes(self) -> list[Callable[[Batch], None]]:
        """Remove and return the functions that add rows that belong to no shard."""
        extra_writes, self.extra_writes = self.extra_writes, []
        return extra_writes

    def count_decisions(self, decisions: int, entries: int) -> None:
        """Count the decisions of a shard in a turn, and the entries made from them."""
        self.decision_count += decisions
        self.entry_count += entries

    def opened(self, took: Duration) -> None:
        """Add the time that the opening of a shard took."""
        self.opening_time = Duration(self.opening_time + took)

    def see_space(self, space: DiskSpace) -> None:
        """Set the space on this node's disk."""
        self.space = space

    # -- writes ---------------------------------------------------------------------------------

    @property
    def is_writing(self) -> bool:
        """Whether there are writes that are not durable yet."""
        return bool(self._flights)

    @property
    def flight_bytes(self) -> int:
        """The number of bytes that were written and are not yet durable."""
        return self._flight_bytes

    def wrote(self, ticket: Ticket, size: int, numbers: tuple[tuple[Shard, int], ...]) -> None:
        """Add a batch; see `Flight`."""
        self._flights.append(Flight(ticket, self._clock.elapsed(), size, numbers))
        self._flight_bytes += size

    def made_durable(self, ticket: Ticket) -> None:
        """Report to the replicas that the batches up to *ticket* are durable now."""
        self._durable_at = self._clock.elapsed()
        while self._flights and self._flights[0].ticket <= ticket:
            flight = self._flights.popleft()
            self._flight_bytes -= flight.size
            for shard, number in flight.numbers:
                shard.replica.made_durable(number)
                self.touch(shard)

    # -- waits ----------------------------------------------------------------------------------

    @property
    def sync_time(self) -> Duration:
        """The duration so far of the running sync; 0 if none runs."""
        if not self._flights:
            return Duration(0)
        # The sync began when the one before it ended, or when there was something to sync.
        began_at = max(self._flights[0].written_at, self._durable_at)
        return Duration(self._clock.elapsed() - began_at)

    @property
    def has_unreleased(self) -> bool:
        """Whether there are entries decided here that are neither released nor given up."""
        return any(shard.unreleased is not None for shard in self._shards)

    async def all_committed(self) -> None:
        """Wait until everything decided so far is committed; see `committed`."""
        await self.committed(self._shards)

    async def committed(self, shards: Iterable[Shard]) -> None:
        """Wait until all decisions of *shards* so far are committed and applied.

        Raises:
            Refused: The decisions can no longer be committed, or it is not known whether they are.
            NotCommitted: A decision is not committed after `COMMIT_WAIT_MAX`.
            NotPrimary: A decision is not committed after `COMMIT_WAIT_MAX`, and this node has no
                authority for one of *shards*.
        """
        if self.over is not None:
            # The same object is raised many times, and would collect the frames of each raise.
            raise self.over.with_traceback(None)
        waits: list[asyncio.Future[None]] = []
        # All waits are registered at once: a shard that closes while another is waited for refuses
        # its readers, too.
        for shard in shards:
            if (entry := shard.unreleased) is not None:
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                entry.readers.append(done)
                waits.append(done)
        if len(waits) == 1:
            await waits[0]
        elif waits:
            await asyncio.gather(*waits)

    def end_long_waits(self) -> None:
        """Refuse requests that wait for entries older than `COMMIT_WAIT_MAX` (R12).

        The entries, their effects and the answers to the node's own commands continue to wait.
        """
        now = self._clock.elapsed()
        if self.sync_time >= COMMIT_WAIT_MAX:
            # While too many bytes are not durable, nothing is decided.
            give([(caller, _stuck()) for caller in self.inbox.drop_requests()])
        for shard in tuple(self.awake):  # A shard with such entries is not at rest.
            for entry in shard.unreleased_until(Instant(now - COMMIT_WAIT_MAX)):
                callers = entry.take_answers(lambda on_answer: isinstance(on_answer, Caller))
                give([(caller, OutcomeUnknown(shard.id)) for caller in callers])
                if readers := entry.take_readers():
                    may_answer = shard.may_answer(now)
                    refuse(readers, NotCommitted(shard.id) if may_answer else shard.elsewhere())

    # -- the end --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Refuse commands from now on."""
        self.over = self.over or Refused(
            Kind.UNAVAILABLE,
            "stopping",
            "this node is stopping; send the request again, to another node if there is one",
            retry_after_s=1,
        )

    def fail(self, error: Exception) -> None:
        """Refuse all waiting commands and reads, and end the node with *error*.

        Nothing is decided after the error, even if the store would accept writes: the memory may be
        ahead of the journal, and another entry would leave a gap.
        """
        refusal = Refused(
            Kind.UNAVAILABLE,
            "storage_unavailable",
            "this node's storage failed; the request may or may not have taken effect: read the "
            "result at another node, or repeat the request with the same idempotency key",
            retry_after_s=5,
        )
        self.over = refusal
        entries = [entry for shard in self._shards for entry in shard.close()]
        waiting = [on_answer for entry in entries for on_answer, _ in entry.answers]
        waiting += [each for commands in self._taken.values() for _, each in commands if each]
        waiting += self.inbox.drop()
        readers = [reader for entry in entries for reader in entry.readers]
        for kept in (self._flights, self._taken):
            kept.clear()
        give([(on_answer, refusal) for on_answer in waiting])
        refuse(readers, refusal)
        if not self._failure.done():
            self._failure.set_exception(error)


def _stuck() -> Refused:
    return Refused(
        Kind.UNAVAILABLE,
        "busy",
        f"the disk of this node has not finished a write for {COMMIT_WAIT_MAX // SECOND} s; "
        "nothing was changed: send the request again, to another node if there is one",
        retry_after_s=5,
    )


def give(answers: list[tuple[OnAnswer, Answer]]) -> None:
    """Call each function with its answer."""
    for on_answer, answer in answers:
        on_answer(answer)


def resolve(waiter: "asyncio.Future[T]", value: T) -> None:
    """Give a waiter its value, unless it was cancelled."""
    if not waiter.done():
        waiter.set_result(value)


def resolve_all(readers: "Iterable[asyncio.Future[None]]") -> None:
    """Resolve each waiter that still waits."""
    for reader in readers:
        resolve(reader, None)


def refuse(readers: "Iterable[asyncio.Future[None]]", refusal: Refused) -> None:
    """Raise *refusal* in each waiter that still waits."""
    for reader in readers:
        if not reader.done():
            reader.set_exception(refusal)
