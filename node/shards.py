"""The shards of this node: decide, commit, then act.

One turn takes what has come in, lets every shard concerned decide, writes all their entries in
one batch, and hands that to the group commit. When it is durable the entries are committed:
their changes become the stored state, and only then answers leave and effects are carried out.
Nothing leaves the node that a crash could undo.

    submit -> inbox -> _turn: decide, write -> group commit -> made_durable: apply, answer, act

Turns do not wait for each other's sync: what comes in meanwhile is decided, written, and shares
the next one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Protocol, TypeVar

from rota.core.changes import Change, Record, Table
from rota.core.codec import RawChange, encode_body, encode_change
from rota.core.commands import Command, TakeOver
from rota.core.decide import decide, pending
from rota.core.decision import Decision, Limits, Reply, Situation
from rota.core.effects import Effect
from rota.core.errors import Kind, Refused
from rota.core.ids import (
    Epoch,
    ExecutionId,
    Index,
    JobId,
    NodeId,
    Session,
    ShardId,
    slot_of,
    slot_of_id,
)
from rota.core.instants import MICROSECOND, Duration, Instant, later
from rota.core.journal import EntryKind
from rota.core.replica import Replica
from rota.core.state import State, load_state
from rota.node.clock import Clock
from rota.node.entropy import Entropy
from rota.ring.placement import shard_of
from rota.storage.group_commit import GroupCommit
from rota.storage.shards import ShardFile
from rota.storage.store import Batch, Store, Ticket

INBOX_MAX = 20_000
"""Requests that may wait to be decided; one more is refused with 503 and Retry-After."""
TURN_MAX = 512
"""Commands that one turn decides: about 30 ms of work, then the loop sees to the rest.

What was asked for together is decided together, even where that alone is more.
"""
FLIGHT_BYTES_MAX = 32 << 20
"""Bytes written but not yet durable, beyond which deciding waits for the disk."""

T = TypeVar("T")
Answer = Reply | Refused
OnAnswer = Callable[[Answer], None]


class Host(Protocol):
    """What shards need of the node around them."""

    def room_for(self, command: Command) -> int:
        """Return how many attempts *command* may start on this node now."""
        ...

    def decided(self, command: Command, started: int) -> None:
        """Note that *command* was decided and starts so many attempts."""
        ...

    def perform(self, shard: "Shard", effect: Effect) -> None:
        """Carry out a committed effect; may be asked twice for the same after a restart."""
        ...


@dataclass(frozen=True, slots=True)
class Life:
    """Who decides: this node in its present life."""

    node_id: NodeId
    session: Session


@dataclass(slots=True)
class _Entry:
    """An entry on its way to being committed, and what waits for that."""

    shard: "Shard"
    index: Index
    changes: tuple[RawChange, ...]
    effects: tuple[Effect, ...]


@dataclass(slots=True)
class _Flight:
    """What one turn wrote."""

    ticket: Ticket
    size: int
    entries: list[_Entry] = field(default_factory=list[_Entry])
    answers: list[tuple[OnAnswer, Answer]] = field(default_factory=list[tuple[OnAnswer, Answer]])
    readers: "list[asyncio.Future[None]]" = field(default_factory=list["asyncio.Future[None]"])


class Shard:
    """One shard of which this node is primary."""

    def __init__(self, file: ShardFile, epoch: Epoch) -> None:
        self.id = file.shard
        self.file = file
        self.replica = Replica(file.tip, epoch)
        self.state = load_state(file.changes())

    def time(self, clock: Clock) -> Instant:
        """Return the shard's time."""
        return self.replica.shard_time(clock.now())


_Asked = tuple[Shard, Command, OnAnswer | None]
_Taken = dict[Shard, list[tuple[Command, OnAnswer | None]]]
"""What one turn decides."""


@dataclass(slots=True)
class Rehearsal:
    """What would become of commands, in the order asked, if they were meant.

    Attributes:
        states: The states of the shards concerned, as they would be.
        past: What would have become history, by table and key.
        answers: One for each command.
    """

    states: dict[Shard, State] = field(default_factory=dict[Shard, State])
    past: dict[tuple[Table, str], Record] = field(default_factory=dict[tuple[Table, str], Record])
    answers: list[Answer] = field(default_factory=list[Answer])

    def add(self, state: State, changes: Iterable[Change]) -> None:
        """Make *changes* part of what would be."""
        for change in changes:
            state.apply(change)
            if change.table > Table.HISTORY and change.record is not None:
                self.past[change.table, change.key] = change.record


class Shards:
    """All shards of this node.

    Args:
        store: Where they are; opened, and used by nobody else for shards.
        epochs: The epoch of each shard, by number, under which this node is primary.
        life: Who decides.
        clock: Gives the instants of decisions.
        entropy: Gives their chance.
        limits: What one shard may hold.
    """

    def __init__(
        self,
        store: Store,
        epochs: Iterable[Epoch],
        *,
        life: Life,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
    ) -> None:
        self._store = store
        self._life = life
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._shards = [
            Shard(ShardFile(store, ShardId(number)), epoch) for number, epoch in enumerate(epochs)
        ]
        self._host: Host | None = None
        self._commit: GroupCommit | None = None
        self._inbox: deque[tuple[_Asked, ...]] = deque()
        """Those of one item are decided in one turn."""
        self._inbox_length = 0
        self._taken: _Taken = {}
        self._flights: deque[_Flight] = deque()
        self._flight_bytes = 0
        self._is_turn_planned = False
        self._failure: asyncio.Future[None] | None = None
        self._over: Refused | None = None
        self.refuse_requests: Refused | None = None
        """Set while requests from outside cannot be taken, for instance when the disk is full."""
        self.entry_count = 0
        self.decision_count = 0

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, number: ShardId) -> Shard:
        return self._shards[number]

    @property
    def numbers(self) -> range:
        """The shards' numbers."""
        return range(len(self._shards))

    @property
    def refusal(self) -> Refused | None:
        """Why requests from outside cannot be taken now, or None if they can."""
        return self._over or self.refuse_requests

    @property
    def inbox_length(self) -> int:
        """Commands that wait to be decided."""
        return self._inbox_length

    @property
    def execution_count(self) -> int:
        """Unfinished executions of all shards."""
        return sum(len(shard.state.executions) for shard in self._shards)

    def of_name(self, namespace: str, name: str) -> Shard:
        """Return the shard of a job's name."""
        return self._shards[shard_of(slot_of(namespace, name), len(self._shards))]

    def of_id(self, any_id: JobId | ExecutionId) -> Shard:
        """Return the shard that an id carries."""
        return self._shards[shard_of(slot_of_id(any_id), len(self._shards))]

    # -- life -----------------------------------------------------------------------------------

    def start(self, host: Host, commit: GroupCommit, *, failure: "asyncio.Future[None]") -> None:
        """Begin to decide. *failure* gets the error that makes this node unfit to go on."""
        self._host, self._commit, self._failure = host, commit, failure

    async def take_over(self, *, is_start: bool) -> None:
        """Become active: commit the first entry of each epoch, then find what is outstanding."""
        for shard in self._shards:
            self._put_in((shard, TakeOver(epoch=shard.replica.epoch, is_start=is_start), None))
        while self._inbox:
            self._turn()
        assert self._host is not None
        assert self._failure is not None
        with suppress(Refused):
            await self.settled()
        if self._failure.done():
            # Whoever starts the node is told the cause, not what its clients are told.
            self._failure.result()
        for shard in self._shards:
            for effect in pending(shard.state):
                self._host.perform(shard, effect)

    async def stop(self) -> None:
        """Decide and commit what has come in, and take nothing more; a failure ends the wait."""
        with suppress(Refused):
            while self._inbox or self._flights:
                self._guarded(self._turn)
                await self.settled()
        self._over = self._over or Refused(
            Kind.UNAVAILABLE, "stopping", "this node is stopping", retry_after_s=1
        )

    # -- what comes in --------------------------------------------------------------------------

    def submit(self, shard: Shard, command: Command, on_answer: OnAnswer | None = None) -> None:
        """Have a command of the node's own decided: timers, outcomes, letters.

        There is at most one for each thing that the shards hold, so they need no limit of their
        own, and nobody could try them again. Once this node can decide nothing more they are
        dropped: the next life finds in the state what is outstanding.
        """
        if self._over is not None:
            return
        self._put_in((shard, command, on_answer))
        self._plan_turn()

    async def ask(self, shard: Shard, command: Command) -> Reply:
        """Have a request decided, and return its reply once that is committed.

        Raises:
            Refused: By the decision, or because requests cannot be taken at the moment.
        """
        self.check_open()
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.submit(shard, command, partial(_resolve, answered))
        answer = await answered
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def ask_many(self, requests: Iterable[tuple[Shard, Command]]) -> list[Answer]:
        """Have several requests decided in one turn; answers come in their order.

        Raises:
            Refused: All of them, because requests cannot be taken at the moment.
        """
        self.check_open()
        loop = asyncio.get_running_loop()
        asked: list[_Asked] = []
        waiting: list[asyncio.Future[Answer]] = []
        for shard, command in requests:
            answered: asyncio.Future[Answer] = loop.create_future()
            waiting.append(answered)
            asked.append((shard, command, partial(_resolve, answered)))
        if asked:
            self._put_in(*asked)
            self._plan_turn()
        return [await answered for answered in waiting]

    async def rehearse(self, requests: Iterable[tuple[Shard, Command]]) -> Rehearsal:
        """Return what would become of *requests*, one after the other; nothing does.

        Each shard concerned is tried on a copy, so it costs O(records of these shards). There is
        room for no attempt: what would run is shown waiting.

        Raises:
            Refused: All of them, because requests cannot be taken at the moment.
        """
        self.check_open()
        rehearsal = Rehearsal()
        for shard, command in requests:
            state = rehearsal.states.get(shard)
            if state is None:
                state = rehearsal.states[shard] = shard.state.fork()
            now = later(shard.time(self._clock), Duration(len(rehearsal.answers)))
            try:
                decision = decide(state, command, self._situation(shard, now, room=0))
            except Refused as refusal:
                rehearsal.answers.append(refusal)
            else:
                rehearsal.add(state, decision.changes)
                rehearsal.answers.append(decision.reply)
        # What was seen may be ahead of what is committed.
        await self.settled()
        return rehearsal

    async def settled(self) -> None:
        """Return when all that was decided until now is committed and applied.

        Whoever reads a shard's memory calls this before telling anyone: what is there may run
        ahead of the commit.

        Raises:
            Refused: It never will be: the storage failed, and memory is not to be believed.
        """
        if self._over is not None:
            raise self._over.with_traceback(None)
        if not self._flights:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flights[-1].readers.append(done)
        await done

    def check_open(self) -> None:
        """Refuse a request that cannot be taken now.

        Raises:
            Refused: The storage failed or the node stops; the node says why in
                `refuse_requests`; or too much waits already.
        """
        if self.refusal is not None:
            # One refusal is raised many times, and would gather the frames of all of them.
            raise self.refusal.with_traceback(None)
        if len(self._inbox) >= INBOX_MAX:
            raise Refused(
                Kind.UNAVAILABLE,
                "busy",
                f"{len(self._inbox)} requests wait to be decided by this node, which is its limit",
                retry_after_s=1,
            )

    # -- a turn ---------------------------------------------------------------------------------

    def _put_in(self, *asked: _Asked) -> None:
        self._inbox.append(asked)
        self._inbox_length += len(asked)

    def _plan_turn(self) -> None:
        if not self._is_turn_planned and self._flight_bytes < FLIGHT_BYTES_MAX:
            self._is_turn_planned = True
            asyncio.get_running_loop().call_soon(self._guarded, self._turn)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; an error there is the end of this node's life, not of one request."""
        try:
            step()
        except Exception as error:
            self.fail(error)

    def _turn(self) -> None:
        self._is_turn_planned = False
        if self._over is not None:
            return
        assert self._commit is not None
        flight = _Flight(ticket=Ticket(0), size=0)
        batch = self._store.batch()
        self._taken = self._next_commands()
        for shard, commands in self._taken.items():
            turn = self._decide(shard, commands, flight)
            if turn is not None:
                flight.size += turn.write(batch)
                flight.entries.append(turn.entry)
        if flight.entries:
            flight.ticket = self._store.write(batch)
            self.entry_count += len(flight.entries)
            self._flight_bytes += flight.size
            self._flights.append(flight)
            self._taken = {}
            self._commit.wrote(flight.ticket)
        elif self._flights:
            # Nothing to write, but the answers may rest on what is not yet committed.
            self._flights[-1].answers += flight.answers
            self._taken = {}
        else:
            self._taken = {}
            _give(flight.answers)
        if self._inbox:
            self._plan_turn()

    def _next_commands(self) -> "_Taken":
        taken: _Taken = {}
        count = 0
        while self._inbox and (not count or count + len(self._inbox[0]) <= TURN_MAX):
            together = self._inbox.popleft()
            count += len(together)
            for shard, command, on_answer in together:
                taken.setdefault(shard, []).append((command, on_answer))
        self._inbox_length -= count
        return taken

    def _decide(
        self, shard: Shard, commands: list[tuple[Command, OnAnswer | None]], flight: _Flight
    ) -> "_Turn | None":
        """Let *shard* decide; what comes of it is one entry, or None if nothing changes."""
        turn = _Turn(shard, at=shard.time(self._clock))
        for command, on_answer in commands:
            answer = self._decide_one(turn, command)
            if on_answer is not None:
                flight.answers.append((on_answer, answer))
        return turn if turn.is_worth_an_entry else None

    def _decide_one(self, turn: "_Turn", command: Command) -> Answer:
        assert self._host is not None
        situation = self._situation(turn.shard, turn.at, room=self._host.room_for(command))
        self.decision_count += 1
        try:
            decision = decide(turn.shard.state, command, situation)
        except Refused as refusal:
            self._host.decided(command, 0)
            return refusal
        turn.add(command, decision)
        self._host.decided(command, decision.started)
        return decision.reply

    def _situation(self, shard: Shard, now: Instant, *, room: int) -> Situation:
        return Situation(
            now=now,
            entropy=self._entropy.draw(),
            position=shard.replica.position,
            room=room,
            node_id=self._life.node_id,
            session=self._life.session,
            limits=self._limits,
        )

    # -- a commit -------------------------------------------------------------------------------

    def made_durable(self, ticket: Ticket) -> None:
        """Commit what the group commit says is durable: apply it, answer, act."""
        self._guarded(lambda: self._commit_until(ticket))

    def _commit_until(self, ticket: Ticket) -> None:
        done = list(takewhile(lambda flight: flight.ticket <= ticket, self._flights))
        if not done:
            return
        batch = self._store.batch()
        for flight in done:
            for entry in flight.entries:
                entry.shard.replica.made_durable(entry.index)
                entry.shard.file.apply(batch, entry.index, entry.changes)
        self._store.write(batch)
        for flight in done:
            # Not before the write: were that to fail, those who wait would not be found.
            self._flights.popleft()
            self._flight_bytes -= flight.size
            self._release(flight)
        if self._inbox:
            self._plan_turn()

    def _release(self, flight: _Flight) -> None:
        assert self._host is not None
        for reader in flight.readers:
            _resolve(reader, None)
        _give(flight.answers)
        for entry in flight.entries:
            for effect in entry.effects:
                self._host.perform(entry.shard, effect)

    def sync_failed(self, error: Exception) -> None:
        """Give up: what was written may be lost, and the store must not be used again (R25)."""
        self.fail(error)

    def fail(self, error: Exception) -> None:
        """Refuse everything that waits and hand the error on; the node ends and starts again.

        Nothing is decided after it, even if the store would take it: memory may have gone where
        the journal did not follow, and an entry more would leave a hole.
        """
        refusal = Refused(
            Kind.UNAVAILABLE,
            "storage_unavailable",
            "this node's storage failed; whether the request took effect is not known",
            retry_after_s=5,
        )
        self._over = refusal
        waiting = [on_answer for flight in self._flights for on_answer, _ in flight.answers]
        waiting += [each for taken in self._taken.values() for _, each in taken if each]
        waiting += [each for together in self._inbox for _, _, each in together if each]
        readers = [reader for flight in self._flights for reader in flight.readers]
        self._flights.clear()
        self._taken = {}
        self._inbox.clear()
        self._inbox_length = 0
        _give([(on_answer, refusal) for on_answer in waiting])
        for reader in readers:
            if not reader.done():
                reader.set_exception(refusal)
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)


class _Turn:
    """What one shard decides in one turn: the changes of all its commands, in one entry."""

    def __init__(self, shard: Shard, at: Instant) -> None:
        self.shard = shard
        self.at = at
        self._kind = EntryKind.CHANGES
        self._causes: list[str] = []
        self._changes: dict[tuple[Table, str], Change] = {}
        self._effects: list[Effect] = []
        self.entry: _Entry

    @property
    def is_worth_an_entry(self) -> bool:
        """Whether there is anything to be recorded."""
        return bool(self._causes)

    def add(self, command: Command, decision: Decision) -> None:
        """Make *decision* part of the entry and of the shard's memory."""
        if isinstance(command, TakeOver):
            self._kind = EntryKind.TAKEOVER
        elif not decision.changes and not decision.effects:
            return
        for change in decision.changes:
            self.shard.state.apply(change)
            self._changes[change.table, change.key] = change
        self._causes.append(decision.cause)
        self._effects += decision.effects
        # Ids are made of instants: no two decisions of a shard share one.
        self.at = later(self.at, MICROSECOND)

    def write(self, batch: Batch) -> int:
        """Append the entry to the journal, and return its size in bytes."""
        changes = tuple(encode_change(change) for change in self._changes.values())
        body = encode_body(self._causes, changes)
        replica = self.shard.replica
        value = replica.append(body, self.at, self._kind)
        self.entry = _Entry(self.shard, replica.tip.index, changes, tuple(self._effects))
        self.shard.file.append(batch, self.entry.index, value)
        return len(value)


def _give(answers: list[tuple[OnAnswer, Answer]]) -> None:
    for on_answer, answer in answers:
        on_answer(answer)


def _resolve(waiter: "asyncio.Future[T]", value: T) -> None:
    """Give a waiter its value, unless it has gone away meanwhile."""
    if not waiter.done():
        waiter.set_result(value)
