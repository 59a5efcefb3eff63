"""The shards of this node: decide, commit, then act.

One turn takes what has come in, lets every shard concerned decide, hands the entries to their
replicas, and writes what all replicas want written as one batch. When the group commit has made it
durable the replicas are told; what they then find committed is applied, and only then answers
leave and effects are carried out. Nothing leaves the node that a crash, or the loss of the shard,
could undo.

    submit, frames -> _turn: decide, propose, write, send -> group commit -> made_durable
                        ^                                                        |
                        +---- apply, answer, act  <---- what is committed -------+

Turns do not wait for each other's sync: what comes in meanwhile is decided, written, and shares
the next one. With one copy an entry is committed when it is durable here; with three, when the
backups have said so too. The turn is the same.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rota.core.commands import Command, own_bytes
from rota.core.configuration import Configuration, Swap, Swapped
from rota.core.decide import decide, pending
from rota.core.decision import Limits, Place, Reply, Situation
from rota.core.effects import Launch
from rota.core.errors import Kind, Refused
from rota.core.ids import (
    AllocationId,
    ExecutionId,
    JobId,
    NodeId,
    ShardId,
    slot_of,
    slot_of_id,
)
from rota.core.instants import Duration, Instant
from rota.core.replication.liveness import Liveness
from rota.core.replication.messages import Message
from rota.core.replication.primary import Copies
from rota.core.replication.timing import Timing
from rota.core.replication.transfers import Transfers
from rota.node.clock import Clock
from rota.node.deciding import Deciding
from rota.node.entropy import Entropy
from rota.node.host import Commit, Host, Outside
from rota.node.shard import Answer, OnAnswer, Shard, Turn
from rota.ring.placement import shard_of
from rota.storage.store import Batch, Store, Ticket

log = logging.getLogger(__name__)

INBOX_MAX = 20_000
"""Requests that may wait to be decided; one more is refused with 503 and Retry-After."""
TURN_MAX = 512
"""Commands that one turn decides: about 30 ms of work, then the loop sees to the rest.

What was asked for together is decided together, even where that alone is more.
"""
ENTRY_BYTES_MAX = 8 << 20
"""About what one entry holds of what users give and are handed; more goes into the next turn's.

An entry is one message to each copy, and no message may have more than 128 MiB.
"""
FLIGHT_BYTES_MAX = 32 << 20
"""Bytes written but not yet durable, beyond which deciding waits for the disk."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Flight:
    """A batch that was written and is not yet durable: which batch of which replica it holds."""

    ticket: Ticket
    written_at: Instant
    size: int
    numbers: tuple[tuple[Shard, int], ...]


@dataclass(frozen=True, slots=True)
class _Written:
    """What one replica had written: its batch's number, and bytes."""

    number: int
    size: int


_Asked = tuple[Shard, Command, OnAnswer | None]
_Taken = dict[Shard, list[tuple[Command, OnAnswer | None]]]
"""What one turn decides."""


class Shards:
    """All shards of this node.

    Args:
        store: Where they are; opened, and used by nobody else for shards.
        count: How many there are.
        liveness: Who is alive, as this node knows it; this node is named in it.
        timing: The cluster's.
        copies: How many copies of each shard there are to be.
        clock: Gives the instants of decisions.
        entropy: Gives their chance.
        limits: What one shard may hold.
        look_at_calendar: Called before anything is stamped by it; afterwards *liveness* tells
            whether it may be believed.
    """

    def __init__(
        self,
        store: Store,
        count: int,
        *,
        liveness: Liveness,
        timing: Timing,
        copies: Copies,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
        look_at_calendar: Callable[[], object],
    ) -> None:
        self._store = store
        self._liveness = liveness
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._look_at_calendar = look_at_calendar
        self._make = partial(
            Shard,
            store,
            liveness=liveness,
            timing=timing,
            transfers=Transfers(),
            copies=copies,
        )
        self._shards = [self._make(ShardId(number)) for number in range(count)]
        self.beside: Shards | None = None
        """Others in the same store: they are told what is durable, too."""
        self._host: Host | None = None
        self._outside: Outside | None = None
        self._commit: Commit | None = None
        self._inbox: deque[tuple[_Asked, ...]] = deque()
        """Those of one item are decided in one turn."""
        self._inbox_length = 0
        self._held: _Taken = {}
        """What came for shards that admit nothing at the moment, but are this node's."""
        self._held_length = 0
        self._taken: _Taken = {}
        self._touched: dict[Shard, None] = {}
        self._turns: deque[Turn] = deque()
        self._flights: deque[_Flight] = deque()
        self._flight_bytes = 0
        self._durable_at = clock.elapsed()
        self.opening_time = Duration(0)
        """How long opening shards has taken, in all: work that no other node would do faster."""
        self._is_turn_planned = False
        self._frozen: set[Shard] = set()
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
    def sync_time(self) -> Duration:
        """How long the sync that runs now has taken so far; 0 if none does."""
        if not self._flights:
            return Duration(0)
        # It began when the one before it ended, or when there was something to sync.
        began_at = max(self._flights[0].written_at, self._durable_at)
        return Duration(self._clock.elapsed() - began_at)

    @property
    def execution_count(self) -> int:
        """Unfinished executions of all shards."""
        return sum(len(shard.state.executions) for shard in self.opened)

    @property
    def frozen_count(self) -> int:
        """Shards of which the coordinator knows less than this node does (PROTOCOL R31)."""
        return len(self._frozen)

    @property
    def opened(self) -> Iterator[Shard]:
        """The shards for which this node decides."""
        return (shard for shard in self._shards if shard.is_open)

    def of_name(self, namespace: str, name: str) -> Shard:
        """Return the shard of a job's name."""
        return self._shards[shard_of(slot_of(namespace, name), len(self._shards))]

    def of_id(self, any_id: JobId | ExecutionId) -> Shard:
        """Return the shard that an id carries."""
        return self._shards[shard_of(slot_of_id(any_id), len(self._shards))]

    # -- life -----------------------------------------------------------------------------------

    def start(
        self, host: Host, outside: Outside, commit: Commit, *, failure: "asyncio.Future[None]"
    ) -> None:
        """Begin to decide. *failure* gets the error that makes this node unfit to go on."""
        self._host, self._outside = host, outside
        self._commit, self._failure = commit, failure

    async def stop(self) -> None:
        """Decide and commit what has come in, and take nothing more; a failure ends the wait."""
        with suppress(Refused):
            while self._inbox or self._turns:
                self._guarded(self._turn)
                await self._committed()
        self._over = self._over or Refused(
            Kind.UNAVAILABLE, "stopping", "this node is stopping", retry_after_s=1
        )

    # -- the replicas' world --------------------------------------------------------------------

    def receive(self, number: ShardId, sender: NodeId, message: Message) -> None:
        """Take a message of another node's replica of a shard."""
        shard = self._shards[number]
        self._move(shard, lambda: shard.replica.receive(message, sender, self._clock.elapsed()))

    def learn(self, number: ShardId, configuration: Configuration) -> None:
        """Take note of a shard's configuration."""
        shard = self._shards[number]
        self._move(shard, lambda: shard.replica.learn(configuration, self._clock.elapsed()))

    def swapped(self, swap: Swap, answer: Swapped | None) -> None:
        """Take the coordinator's answer; None if nobody knows it."""
        shard = self._shards[swap.shard]
        self._move(shard, lambda: shard.replica.answered(swap, answer, self._clock.elapsed()))

    def found(self, number: ShardId) -> None:
        """Make the first copy of a shard that has no configuration and never had one."""
        shard, allocation = self._shards[number], AllocationId(f"{self._entropy.draw():016x}")
        if shard.replica.copy.tip.index == 0:
            self._move(shard, lambda: shard.replica.found(allocation))

    def tick(self, targets: Callable[[ShardId], tuple[NodeId, ...]]) -> None:
        """Let time pass for every replica.

        Args:
            targets: Gives the nodes that ought to have copies of a shard, the primary first.
        """
        for shard in self._shards:
            self._move(
                shard,
                partial(
                    shard.replica.tick,
                    self._clock.elapsed(),
                    self._entropy.draw(),
                    targets(shard.id),
                ),
            )

    def _move(self, shard: Shard, event: Callable[[], None]) -> None:
        """Let something happen to a replica; what it wants done then is done in the next turn."""
        if self._over is None:
            self._guarded(event)
            if shard.replica.is_frozen != (shard in self._frozen):
                self._freeze_or_thaw(shard)
            self._touched[shard] = None
            self._plan_turn()

    def _freeze_or_thaw(self, shard: Shard) -> None:
        """Raise the alarm with the first shard that is frozen, and end it with the last."""
        was_frozen = bool(self._frozen)
        self._frozen ^= {shard}
        if self._frozen and not was_frozen:
            # The others, if it was restored from a backup, follow; one alarm is enough.
            log.error(
                "coordinator went back", extra={"shard": shard.id, "known_epoch": shard.epoch}
            )
        elif not self._frozen:
            log.info("coordinator put right", extra={"shard": shard.id, "epoch": shard.epoch})

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

    def submit_together(
        self, shard: Shard, commands: Sequence[Command], on_answer: OnAnswer
    ) -> None:
        """Likewise, for commands that one entry is to hold; the answer is that of the last."""
        if self._over is not None:
            return
        *others, last = commands
        self._put_in(*((shard, other, None) for other in others), (shard, last, on_answer))
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

    async def settled(self, *read: Shard) -> None:
        """Return when all that was decided until now is committed and applied.

        Whoever reads a shard's memory, or its history, calls this before telling anyone. What is in
        memory may run ahead of the commit; and another node may have gone on with the shard, unless
        this one has authority when the answer leaves (PROTOCOL R15).

        Args:
            read: The shards whose memory, or rows, are to be told of.

        Raises:
            Refused: It never will be: the storage failed, or a shard is another's now; memory is
                not to be believed.
            NotPrimary: This node may not answer for one of *read*.
        """
        await self._committed()
        now = self._clock.elapsed()
        for shard in read:
            if not shard.may_answer(now):
                raise shard.elsewhere()

    async def _committed(self) -> None:
        """Return when all that was decided until now is committed and applied."""
        if self._over is not None:
            raise self._over.with_traceback(None)
        if self._turns:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns[-1].readers.append(done)
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
        waiting = len(self._inbox) + self._held_length
        if waiting >= INBOX_MAX:
            raise Refused(
                Kind.UNAVAILABLE,
                "busy",
                f"{waiting} requests wait to be decided by this node, which is its limit",
                retry_after_s=1,
            )

    # -- a turn ---------------------------------------------------------------------------------

    def _put_in(self, *asked: _Asked) -> None:
        self._inbox.append(asked)
        self._inbox_length += len(asked)

    def _plan_turn(self) -> None:
        if not self._is_turn_planned:
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
        if self._flight_bytes < FLIGHT_BYTES_MAX:
            self._decide_all()
        self._settle()
        if self._inbox and self._flight_bytes < FLIGHT_BYTES_MAX:
            self._plan_turn()

    def _decide_all(self) -> None:
        turn = Turn()
        self._taken = self._next_commands()
        if self._taken:
            self._look_at_calendar()
        for shard, commands in self._taken.items():
            if not shard.is_open:
                self._refuse_all(commands, shard.elsewhere())
            elif shard.replica.is_admitting(self._clock.elapsed()):
                self._taken[shard] = self._for_one_entry(shard, commands)
                self._decide(shard, self._taken[shard], turn)
            else:
                self._held.setdefault(shard, []).extend(commands)
        self._taken = {}
        self._held_length = sum(map(len, self._held.values()))
        if turn.open_count:
            self._turns.append(turn)

    def _refuse_all(
        self, commands: list[tuple[Command, OnAnswer | None]], refusal: Refused
    ) -> None:
        """Refuse what is not decided; a place that was called for it is free again."""
        assert self._host is not None
        for command, _ in commands:
            self._host.decided(command, 0)
        _give([(on_answer, refusal) for _, on_answer in commands if on_answer])

    def _next_commands(self) -> "_Taken":
        taken, self._held = self._held, {}
        count = 0
        while self._inbox and (not count or count + len(self._inbox[0]) <= TURN_MAX):
            together = self._inbox.popleft()
            count += len(together)
            for shard, command, on_answer in together:
                taken.setdefault(shard, []).append((command, on_answer))
        self._inbox_length -= count
        return taken

    def _for_one_entry(
        self, shard: Shard, commands: list[tuple[Command, OnAnswer | None]]
    ) -> list[tuple[Command, OnAnswer | None]]:
        """Return those of *commands* that one entry holds; the others come first next time."""
        end = _end_of_entry(commands)
        if rest := commands[end:]:
            self._inbox.appendleft(tuple((shard, *each) for each in rest))
            self._inbox_length += len(rest)
        return commands[:end]

    def _decide(
        self, shard: Shard, commands: list[tuple[Command, OnAnswer | None]], turn: Turn
    ) -> None:
        """Let *shard* decide; what comes of it is one entry, or none if nothing changes."""
        deciding = Deciding(shard, at=shard.time(self._clock))
        answers: list[tuple[OnAnswer, Answer]] = []
        for command, on_answer in commands:
            answer = self._decide_one(deciding, command)
            if on_answer is not None:
                answers.append((on_answer, answer))
        self._touched[shard] = None
        if deciding.is_worth_an_entry:
            deciding.propose(turn, answers, self._clock.elapsed())
            turn.open_count += 1
            self.entry_count += 1
        elif shard.unreleased is not None:
            # Nothing to write, but the answers may rest on what is not yet committed.
            shard.unreleased.answers += answers
        else:
            _give(answers)

    def _decide_one(self, deciding: "Deciding", command: Command) -> Answer:
        assert self._host is not None
        shard = deciding.shard
        situation = self.situation(shard, deciding.at, self._host.place_for(command))
        self.decision_count += 1
        try:
            decision = decide(shard.state, command, situation)
        except Refused as refusal:
            self._host.decided(command, 0)
            return refusal
        deciding.add(decision)
        self._host.decided(command, decision.started)
        return decision.reply

    def situation(self, shard: Shard, now: Instant, place: Place) -> Situation:
        """Return what a decision of *shard* may depend on besides its state."""
        return Situation(
            now=now,
            entropy=self._entropy.draw(),
            position=shard.replica.copy.position,
            place=place,
            limits=self._limits,
        )

    # -- writes and commits ---------------------------------------------------------------------

    def _settle(self) -> None:
        """Do what the replicas that something happened to want done; release what is committed."""
        assert self._commit is not None
        touched, self._touched = self._touched, {}
        batch = self._store.batch()
        numbers: list[tuple[Shard, int]] = []
        size = 0
        for shard in touched:
            written = self._carry_out(shard, batch)
            if written is not None:
                numbers.append((shard, written.number))
                size += written.size
            shard.apply(batch)
        ticket = self._store.write(batch)
        if numbers:
            self._flights.append(_Flight(ticket, self._clock.elapsed(), size, tuple(numbers)))
            self._flight_bytes += size
            self._commit.wrote(ticket)
        for shard in touched:
            # Not before the write: were that to fail, those who wait would not be found.
            self._open_or_close(shard)
            self._release(shard)
            if shard.replica.is_handing_over and not shard.committed:
                self._go_on_handing_over(shard)

    def _carry_out(self, shard: Shard, batch: Batch) -> "_Written | None":
        """Write, send and ask what a replica wants; return which batch of it is to be durable."""
        assert self._outside is not None
        ready = shard.replica.take_ready()
        if ready.sends:
            self._outside.send(shard.id, ready.sends)
        if ready.swap is not None:
            self._outside.swap(ready.swap)
        if ready.wants_view:
            self._outside.look()
        if not ready.writes:
            return None
        size = shard.file.write(batch, ready.writes)
        return _Written(ready.number, size)

    def made_durable(self, ticket: Ticket) -> None:
        """Tell the replicas what survives a power loss now, and do what follows from it."""
        if self._over is None:
            self._guarded(partial(self._made_durable, ticket))
        if self.beside is not None and self.beside.is_writing:
            self.beside.made_durable(ticket)

    @property
    def is_writing(self) -> bool:
        """Whether something was written that is not durable yet."""
        return bool(self._flights)

    def _made_durable(self, ticket: Ticket) -> None:
        self._durable_at = self._clock.elapsed()
        while self._flights and self._flights[0].ticket <= ticket:
            flight = self._flights.popleft()
            self._flight_bytes -= flight.size
            for shard, number in flight.numbers:
                shard.replica.made_durable(number)
                self._touched[shard] = None
        self._settle()
        if self._inbox or self._held:
            self._plan_turn()

    def _open_or_close(self, shard: Shard) -> None:
        assert self._host is not None
        if shard.is_open and shard.has_lost_primacy:
            self._close(shard)
        began_at = self._clock.elapsed()
        if not shard.is_open and shard.replica.has_authority(began_at):
            shard.open()
            outstanding = list(pending(shard.state))
            self._host.opened(shard)
            for effect in outstanding:
                self._host.perform(shard, effect)
            self.opening_time = Duration(self.opening_time + self._clock.elapsed() - began_at)

    def _close(self, shard: Shard) -> None:
        """Give up a shard: what was decided and not committed may yet be, or not."""
        assert self._host is not None
        log.info("shard given up", extra={"shard": shard.id, "epoch": shard.epoch})
        given_up = shard.close()
        held = self._held.pop(shard, [])
        refusal = shard.interrupted()
        for entry in given_up:
            _give([(on_answer, refusal) for on_answer, _ in entry.answers])
            entry.turn.open_count -= 1
        self._refuse_all(held, shard.elsewhere())
        if given_up:
            # Whoever has read its memory must not tell anyone.
            for turn in self._turns:
                _refuse(turn.readers, refusal)
                turn.readers.clear()
        self._end_turns()
        effects = (effect for entry in given_up for effect in entry.effects)
        launches = (effect for effect in effects if isinstance(effect, Launch))
        # Places that were lent for the others come back by themselves.
        own = [launch for launch in launches if launch.node_id == self._liveness.node_id]
        self._host.closed(shard, len(own))

    def _release(self, shard: Shard) -> None:
        """Answer and act for what is committed, as long as this node may (PROTOCOL R15)."""
        assert self._host is not None
        while shard.committed and shard.replica.has_authority(now := self._clock.elapsed()):
            entry = shard.committed.popleft()
            self._host.committed(Duration(now - entry.decided_at))
            entry.turn.open_count -= 1
            self._end_turns()
            _give(entry.answers)
            for effect in entry.effects:
                self._host.perform(shard, effect)

    def _go_on_handing_over(self, shard: Shard) -> None:
        """Hand a shard over whose last entry was just released, and not with the next tick."""
        shard.replica.released(self._clock.elapsed())
        if not shard.replica.is_handing_over:
            self._touched[shard] = None
            self._plan_turn()

    def _end_turns(self) -> None:
        """Tell those who wait for all that was decided up to a turn that it is committed."""
        while self._turns and not self._turns[0].open_count:
            for reader in self._turns.popleft().readers:
                _resolve(reader, None)

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
        entries = [entry for shard in self._shards for entry in shard.close()]
        waiting = [on_answer for entry in entries for on_answer, _ in entry.answers]
        for taken in (self._taken, self._held):
            waiting += [each for commands in taken.values() for _, each in commands if each]
        waiting += [each for together in self._inbox for _, _, each in together if each]
        readers = [reader for turn in self._turns for reader in turn.readers]
        for kept in (self._turns, self._flights, self._inbox, self._taken, self._held):
            kept.clear()
        self._inbox_length = 0
        _give([(on_answer, refusal) for on_answer in waiting])
        _refuse(readers, refusal)
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)


def _end_of_entry(commands: list[tuple[Command, OnAnswer | None]]) -> int:
    """Return how many of *commands* one entry holds; at least one."""
    size = 0
    for count, (command, on_answer) in enumerate(commands, 1):
        size += own_bytes(command)
        # What came together and is to be in one entry stands before one that has an answer.
        if size >= ENTRY_BYTES_MAX and on_answer is not None:
            return count
    return len(commands)


def _give(answers: list[tuple[OnAnswer, Answer]]) -> None:
    for on_answer, answer in answers:
        on_answer(answer)


def _resolve(waiter: "asyncio.Future[T]", value: T) -> None:
    """Give a waiter its value, unless it has gone away meanwhile."""
    if not waiter.done():
        waiter.set_result(value)


def _refuse(readers: "Iterable[asyncio.Future[None]]", refusal: Refused) -> None:
    for reader in readers:
        if not reader.done():
            reader.set_exception(refusal)
