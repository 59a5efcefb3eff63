"""The loop of turns: decide, commit, then act.

One turn takes what has come in, lets every shard concerned decide, hands the entries to their
replicas, and writes what all replicas want written as one batch. When the group commit has made it
durable the replicas are told; what they then find committed is applied, and only then answers
leave and effects are carried out. Nothing leaves the node that a crash, or the loss of the shard,
could undo.

    inbox, replicas -> turn: decide, propose, write, send -> group commit -> durable
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

from rota.core.decide.dispatch import decide, pending
from rota.core.errors import Kind, Refused
from rota.core.model.attempt import Ending, Outcome
from rota.core.model.ids import NodeId, ShardId
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import Command, FinishAttempt
from rota.core.vocabulary.decision import FreeSlots, Limits, Situation
from rota.core.vocabulary.disk_space import DiskSpace
from rota.core.vocabulary.effects import Launch, PostponedEffects, Stop
from rota.node.shards.delayed_effects import DelayedEffects
from rota.node.shards.entry_builder import EntryBuilder
from rota.node.shards.inbox import Inbox, Taken, Waiting
from rota.node.shards.seams import Commit, EffectHandler, Outside
from rota.node.shards.shard import Answer, Entry, Mark, NotPrimary, OnAnswer, Shard, Turn
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy
from rota.storage.store import Batch, Store, Ticket

log = logging.getLogger(__name__)

TELL_EVERY = Duration(SECOND)
"""A node that loses its session, or leaves, gives up hundreds of shards within a second or two."""
FLIGHT_BYTES_MAX = 32 << 20
"""Bytes written but not yet durable, beyond which deciding waits for the disk."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flight:
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


class ShardLoop:
    """The loop of turns over some shards.

    Args:
        shards: All of them; there may be more later.
        store: Where they are.
        node_id: This node.
        clock: Gives the instants of decisions.
        entropy: Gives their chance.
        limits: What one shard may hold.
        ahead: How long before it is due a fire may be decided.
        look_at_calendar: Called before anything is stamped by it.

    Attributes:
        inbox: What comes in; `plan` a turn for it.
        touched: Shards whose replicas may want something done; likewise.
        flights: Batches that were written and are not yet durable, oldest first.
        over: Why nothing is decided any more, or None.
        space: What is left on this node's disk, as last seen.
        opening_time: How long opening shards has taken, in all: work that no other node would do
            faster.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        store: Store,
        *,
        node_id: NodeId,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
        ahead: Duration,
        look_at_calendar: Callable[[], object],
    ) -> None:
        self._shards = shards
        self._store = store
        self._node_id = node_id
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._ahead = ahead
        self._holding = DelayedEffects(clock, ahead, self._held_is_due)
        self._look_at_calendar = look_at_calendar
        self._host: EffectHandler | None = None
        self._outside: Outside | None = None
        self._commit: Commit | None = None
        self._failure: asyncio.Future[None] | None = None
        self.inbox = Inbox()
        self.touched: dict[Shard, None] = {}
        self.over: Refused | None = None
        self.space = DiskSpace.AMPLE
        self._taken: Taken = {}
        self._turns: deque[Turn] = deque()
        self._is_turn_planned = False
        self.flights: deque[Flight] = deque()
        self._flight_bytes = 0
        self._durable_at = clock.elapsed()
        self.opening_time = Duration(0)
        self._given_up: list[ShardId] = []
        """Shards given up and not told of yet."""
        self._tell_at = clock.elapsed()
        self.entry_count = 0
        self.decision_count = 0

    @property
    def sync_time(self) -> Duration:
        """How long the sync that runs now has taken so far; 0 if none does."""
        if not self.flights:
            return Duration(0)
        # It began when the one before it ended, or when there was something to sync.
        began_at = max(self.flights[0].written_at, self._durable_at)
        return Duration(self._clock.elapsed() - began_at)

    # -- life -----------------------------------------------------------------------------------

    def start(
        self,
        host: EffectHandler,
        outside: Outside,
        commit: Commit,
        *,
        failure: "asyncio.Future[None]",
    ) -> None:
        """Begin to decide. *failure* gets the error that makes this node unfit to go on."""
        self._host, self._outside = host, outside
        self._commit, self._failure = commit, failure

    async def stop(self) -> None:
        """Decide and commit what has come in, and take nothing more; a failure ends the wait."""
        with suppress(Refused):
            while self.inbox.items or self._turns:
                self.guarded(self._turn)
                await self.committed()
        self.over = self.over or Refused(
            Kind.UNAVAILABLE, "stopping", "this node is stopping", retry_after_s=1
        )
        self._holding.close()
        self._tell_at = self._clock.elapsed()
        self.tell_given_up()

    async def committed(self) -> None:
        """Return when all that was decided until now is committed and applied.

        Raises:
            Refused: It never will be, or nobody knows.
        """
        if self.over is not None:
            # One refusal is raised many times, and would gather the frames of all of them.
            raise self.over.with_traceback(None)
        if self._turns:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns[-1].readers.append(done)
            await done

    # -- a turn ---------------------------------------------------------------------------------

    def plan(self) -> None:
        """Have a turn soon."""
        if not self._is_turn_planned:
            self._is_turn_planned = True
            asyncio.get_running_loop().call_soon(self.guarded, self._turn)

    def guarded(self, step: Callable[[], None]) -> None:
        """Run a step; an error there is the end of this node's life, not of one request."""
        try:
            step()
        except Exception as error:
            self.fail(error)

    def _turn(self) -> None:
        self._is_turn_planned = False
        if self.over is not None:
            return
        if self._flight_bytes < FLIGHT_BYTES_MAX:
            self._decide_all()
        self._settle()
        if self.inbox.items and self._flight_bytes < FLIGHT_BYTES_MAX:
            self.plan()

    def _decide_all(self) -> None:
        turn = Turn()
        self._taken = self.inbox.take()
        if self._taken:
            self._look_at_calendar()
        for shard, commands in self._taken.items():
            if not shard.is_open:
                self._refuse_all(commands, shard.elsewhere())
            elif shard.replica.is_admitting(self._clock.elapsed()):
                self._taken[shard] = self.inbox.for_one_entry(shard, commands)
                self._decide(shard, self._taken[shard], turn)
            else:
                late = self.inbox.hold(shard, commands, self._clock.elapsed())
                self._refuse_all(late, NotPrimary(shard.id, None, is_unsure=True))
        self._taken = {}
        if turn.open_count:
            self._turns.append(turn)

    def _refuse_all(self, commands: list[Waiting], refusal: Refused) -> None:
        """Refuse what is not decided; a place that was called for it is free again."""
        assert self._host is not None
        for command, _ in commands:
            self._host.decided(command, 0)
        _give([(on_answer, refusal) for _, on_answer in commands if on_answer])

    def _decide(self, shard: Shard, commands: list[Waiting], turn: Turn) -> None:
        """Let *shard* decide; what comes of it is one entry, or none if nothing changes."""
        deciding = EntryBuilder(shard, at=shard.time(self._clock))
        answers: list[tuple[OnAnswer, Answer]] = []
        for command, on_answer in commands:
            answer = self._decide_one(deciding, command)
            if on_answer is not None:
                answers.append((on_answer, answer))
        self.touched[shard] = None
        if deciding.is_worth_an_entry:
            deciding.propose(turn, answers, self._clock.elapsed())
            turn.open_count += 1
            self.entry_count += 1
        elif shard.unreleased is not None:
            # Nothing to write, but the answers may rest on what is not yet committed.
            shard.unreleased.answers += answers
        else:
            _give(answers)

    def _decide_one(self, deciding: EntryBuilder, command: Command) -> Answer:
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

    def situation(self, shard: Shard, now: Instant, place: FreeSlots) -> Situation:
        """Return what a decision of *shard* may depend on besides its state."""
        return Situation(
            now=now,
            entropy=self._entropy.draw(),
            position=shard.replica.copy.position,
            slots=place,
            limits=self._limits,
            decide_ahead=self._ahead,
            disk_space=self.space,
        )

    # -- writes and commits ---------------------------------------------------------------------

    def _settle(self) -> None:
        """Do what the replicas that something happened to want done; release what is committed."""
        assert self._commit is not None
        touched, self.touched = self.touched, {}
        batch = self._store.batch()
        numbers: list[tuple[Shard, int]] = []
        size = 0
        for shard in touched:
            written = self._carry_out(shard, batch)
            if written is not None:
                numbers.append((shard, written.number))
                size += written.size
            if shard.mark is not None:
                batch = self._stop_at_mark(shard, shard.mark, batch)
            shard.apply(batch)
        ticket = self._store.write(batch)
        if numbers:
            self.flights.append(Flight(ticket, self._clock.elapsed(), size, tuple(numbers)))
            self._flight_bytes += size
            self._commit.wrote(ticket)
        for shard in touched:
            # Not before the write: were that to fail, those who wait would not be found.
            self._open_or_close(shard)
            self._release(shard)
            if shard.replica.is_handing_over and not shard.committed:
                self._go_on_handing_over(shard)

    def _stop_at_mark(self, shard: Shard, mark: Mark, batch: Batch) -> Batch:
        """Have the rows read as they are after the marked entry, if that is committed (R43).

        Returns:
            The batch to go on with: *batch* is written then.
        """
        shard.apply(batch, mark.index)
        if shard.file.applied < mark.index:
            return batch
        self._store.write(batch)
        shard.mark = None
        mark.reached()
        return self._store.batch()

    def _carry_out(self, shard: Shard, batch: Batch) -> _Written | None:
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

    def write(self, fill: Callable[[Batch], None]) -> None:
        """Write what is of no shard, as *fill* adds it to a batch, and have it durable soon."""
        assert self._commit is not None
        batch = self._store.batch()
        fill(batch)
        self._commit.wrote(self._store.write(batch))

    def made_durable(self, ticket: Ticket) -> None:
        """Tell the replicas what survives a power loss now, and do what follows from it."""
        self._durable_at = self._clock.elapsed()
        while self.flights and self.flights[0].ticket <= ticket:
            flight = self.flights.popleft()
            self._flight_bytes -= flight.size
            for shard, number in flight.numbers:
                shard.replica.made_durable(number)
                self.touched[shard] = None
        self._settle()
        if self.inbox.items or self.inbox.held:
            self.plan()

    def _open_or_close(self, shard: Shard) -> None:
        assert self._host is not None
        if shard.is_open:
            if not shard.has_lost_primacy:
                return
            self._close(shard)
        if shard.replica.primary is None or shard.is_unreadable:
            return  # As most shards that a message touches: backups, for which no time is read.
        began_at = self._clock.elapsed()
        if shard.replica.has_authority(began_at):
            shard.open()
            if shard.is_unreadable:
                log.error("shard unreadable", extra={"shard": shard.id, "reason": shard.fault})
                self._host.unreadable(shard)
                return
            outstanding = list(pending(shard.state, self._ahead))
            self._host.opened(shard)
            for effect in outstanding:
                self._host.perform(shard, effect)
            self.opening_time = Duration(self.opening_time + self._clock.elapsed() - began_at)

    def _close(self, shard: Shard) -> None:
        """Give up a shard: what was decided and not committed may yet be, or not."""
        assert self._host is not None
        self._given_up.append(shard.id)
        given_up = shard.close()
        held = self.inbox.hold_no_more(shard)
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
        self._host.closed(shard)
        self._give_back([*self._holding.drop(shard), *_launches(given_up)])

    def tell_given_up(self) -> None:
        """Write a line about the shards given up since the last one, once a second at most."""
        now = self._clock.elapsed()
        if not self._given_up or now < self._tell_at:
            return
        self._tell_at = later(now, TELL_EVERY)
        log.info("shards given up", extra={"count": len(self._given_up)})
        log.debug("shards given up, by number", extra={"shards": sorted(self._given_up)})
        self._given_up.clear()

    def _give_back(self, launches: Iterable[Launch]) -> None:
        """Free the places of attempts that never begin; those that others lent go by themselves."""
        assert self._host is not None
        own = [launch for launch in launches if launch.node_id == self._node_id]
        self._host.unstarted(len(own))

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
                if isinstance(effect, PostponedEffects | Stop):
                    self._perform_or_hold(shard, effect)
                else:
                    self._host.perform(shard, effect)
        if shard.replica.is_owing:
            self._perform_held(shard)

    def _perform_or_hold(self, shard: Shard, effect: PostponedEffects | Stop) -> None:
        assert self._host is not None
        match effect:
            case PostponedEffects(at=at) if at > self._clock.now():
                self._holding.hold(shard, effect)
            case PostponedEffects(effects=effects):
                for each in effects:
                    self._host.perform(shard, each)
            case Stop(attempt=key) if unstarted := self._holding.withdraw(shard, key.execution_id):
                self._cancel_unstarted(shard, unstarted)
            case Stop():
                self._host.perform(shard, effect)

    def _held_is_due(self, shard: Shard) -> None:
        self.guarded(partial(self._release, shard))
        if shard.replica.is_handing_over:
            self.touched[shard] = None
            self.plan()

    def _perform_held(self, shard: Shard) -> None:
        """Do what has come due, if this node may: another may have been told to, if not."""
        assert self._host is not None
        if not shard.has_lost_primacy and shard.replica.has_authority(self._clock.elapsed()):
            for effect in self._holding.take_due(shard):
                self._host.perform(shard, effect)

    def _cancel_unstarted(self, shard: Shard, launches: Sequence[Launch]) -> None:
        """Record as cancelled what was to start in a moment."""
        self._give_back(launches)
        for launch in launches:
            ending = Ending(
                outcome=Outcome.CANCELLED,
                started_at=launch.order.fire_at,
                finished_at=launch.order.fire_at,
                reason="stopped before it was due",
            )
            order = launch.order
            ended = FinishAttempt(attempt=order.key, token=order.token, ending=ending)
            self.inbox.put((shard, ended, None))
        self.plan()

    def _go_on_handing_over(self, shard: Shard) -> None:
        """Hand a shard over whose last entry was just released, and not with the next tick."""
        shard.replica.released(self._clock.elapsed())
        if not shard.replica.is_handing_over:
            self.touched[shard] = None
            self.plan()

    def _end_turns(self) -> None:
        """Tell those who wait for all that was decided up to a turn that it is committed."""
        while self._turns and not self._turns[0].open_count:
            for reader in self._turns.popleft().readers:
                resolve(reader, None)

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
        self.over = refusal
        entries = [entry for shard in self._shards for entry in shard.close()]
        waiting = [on_answer for entry in entries for on_answer, _ in entry.answers]
        waiting += [each for commands in self._taken.values() for _, each in commands if each]
        waiting += self.inbox.drop()
        readers = [reader for turn in self._turns for reader in turn.readers]
        for kept in (self._turns, self.flights, self._taken):
            kept.clear()
        _give([(on_answer, refusal) for on_answer in waiting])
        _refuse(readers, refusal)
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)


def _launches(entries: Iterable[Entry]) -> Iterator[Launch]:
    """Yield the attempts that entries start, now or in a moment."""
    for entry in entries:
        for effect in entry.effects:
            for each in effect.effects if isinstance(effect, PostponedEffects) else (effect,):
                if isinstance(each, Launch):
                    yield each


def _give(answers: list[tuple[OnAnswer, Answer]]) -> None:
    for on_answer, answer in answers:
        on_answer(answer)


def resolve(waiter: "asyncio.Future[T]", value: T) -> None:
    """Give a waiter its value, unless it has gone away meanwhile."""
    if not waiter.done():
        waiter.set_result(value)


def _refuse(readers: "Iterable[asyncio.Future[None]]", refusal: Refused) -> None:
    for reader in readers:
        if not reader.done():
            reader.set_exception(refusal)
