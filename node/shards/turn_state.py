"""State of the turns of some shards: the work for a turn, and the writes that are not durable.

`Shards` adds work, `ShardLoop` takes it.
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
"""How long requests wait for the commit of a decision (R12); a takeover takes about 6 s."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A batch that was written and is not yet durable.

    Attributes:
        ticket: Of the write.
        written_at: By the node's clock.
        size: Bytes.
        numbers: The number of the batch at each replica that it holds writes of.
    """

    ticket: Ticket
    written_at: Instant
    size: int
    numbers: tuple[tuple[Shard, int], ...]


class TurnState:
    """State of the turns of some shards.

    Args:
        shards: The shards; more may be added later.
        clock: Of this node.
        failure: Gets the error that ends this node.

    Attributes:
        inbox: Commands that wait for a turn; call `plan` after adding one.
        touched: Shards whose replicas may have work for a turn; likewise.
        extra_writes: Functions that add rows of no shard to the next batch; likewise.
        over: Why nothing is decided any more, or None.
        space: Space on this node's disk, as last seen.
        opening_time: Total time spent opening shards: work that no other node would do faster.
        entry_count: Entries made so far.
        decision_count: Commands decided so far.
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
        self.extra_writes: list[Callable[[Batch], None]] = []
        self._taken: Taken = {}
        """The commands of the turn that runs now."""
        self._flights: deque[Flight] = deque()
        """Batches that were written and are not yet durable, oldest first."""
        self._durable_at = clock.elapsed()
        """When the last sync ended."""
        self.over: Refused | None = None
        self._flight_bytes = 0
        self.space = DiskSpace.AMPLE
        self.opening_time = Duration(0)
        self.entry_count = 0
        self.decision_count = 0

    # -- turns ----------------------------------------------------------------------------------

    @contextmanager
    def stepping(self, step: Callable[[], None]) -> Generator[None]:
        """Run *step* once, soon, after each `plan`, while the body runs; a `plan` before counts."""
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
        """Run a step; an error there ends this node, not one request."""
        try:
            step()
        except Exception as error:
            self.fail(error)

    # -- the work of a turn ---------------------------------------------------------------------

    @contextmanager
    def taking(self) -> Generator[Taken]:
        """Take the commands of a turn, which is over after the body; `fail` refuses them."""
        self._taken = self.inbox.take()
        yield self._taken
        self._taken = {}

    def take_touched(self) -> dict[Shard, None]:
        """Remove and return the shards whose replicas may have work."""
        touched, self.touched = self.touched, {}
        return touched

    def take_extra_writes(self) -> list[Callable[[Batch], None]]:
        """Remove and return the functions that add rows of no shard."""
        extra_writes, self.extra_writes = self.extra_writes, []
        return extra_writes

    def count_decisions(self, decisions: int, entries: int) -> None:
        """Count the decisions of a shard in a turn, and the entries made of them."""
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
        """Whether something was written that is not durable yet."""
        return bool(self._flights)

    @property
    def flight_bytes(self) -> int:
        """Bytes written and not yet durable."""
        return self._flight_bytes

    def wrote(self, ticket: Ticket, size: int, numbers: tuple[tuple[Shard, int], ...]) -> None:
        """Add a batch with *size* bytes of replicas, and its number at each of them."""
        self._flights.append(Flight(ticket, self._clock.elapsed(), size, numbers))
        self._flight_bytes += size

    def made_durable(self, ticket: Ticket) -> None:
        """Report to the replicas the batches up to *ticket*, which are durable now."""
        self._durable_at = self._clock.elapsed()
        while self._flights and self._flights[0].ticket <= ticket:
            flight = self._flights.popleft()
            self._flight_bytes -= flight.size
            for shard, number in flight.numbers:
                shard.replica.made_durable(number)
                self.touched[shard] = None

    # -- waits ----------------------------------------------------------------------------------

    @property
    def sync_time(self) -> Duration:
        """How long the sync that runs now has taken so far; 0 if none runs."""
        if not self._flights:
            return Duration(0)
        # It began when the one before it ended, or when there was something to sync.
        began_at = max(self._flights[0].written_at, self._durable_at)
        return Duration(self._clock.elapsed() - began_at)

    @property
    def has_unreleased(self) -> bool:
        """Whether anything was decided that is neither released nor given up."""
        return any(shard.unreleased is not None for shard in self._shards)

    async def all_committed(self) -> None:
        """Return when everything decided so far is committed; as `committed`."""
        await self.committed(self._shards)

    async def committed(self, shards: Iterable[Shard]) -> None:
        """Return when everything that *shards* have decided so far is committed and applied.

        Raises:
            Refused: It never will be, or that is not known.
            NotCommitted: It is not after `COMMIT_WAIT_MAX`.
            NotPrimary: Likewise, and this node has no authority for one of them.
        """
        if self.over is not None:
            # One refusal is raised many times, and would gather the frames of all of them.
            raise self.over.with_traceback(None)
        waits: list[asyncio.Future[None]] = []
        # All at once: a shard that closes during the wait for another refuses its readers, too.
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

        The entries, their effects and the answers to the node's own commands wait on.
        """
        now = self._clock.elapsed()
        if self.sync_time >= COMMIT_WAIT_MAX:
            # Where too much is not durable, nothing is decided.
            give([(caller, _stuck()) for caller in self.inbox.drop_requests()])
        for shard in self._shards:
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
        """Refuse everything that waits, and end the node with *error*.

        Nothing is decided after it, even if the store accepted writes: memory may be ahead of the
        journal, and one more entry would leave a gap.
        """
        refusal = Refused(
            Kind.UNAVAILABLE,
            "storage_unavailable",
            "this node's storage failed; whether the request took effect is not known: read its "
            "result at another node, or repeat it with its idempotency key",
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
    """Give a waiter its value, unless it was cancelled meanwhile."""
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
