"""The loop of turns: decide, commit, then act.

One turn takes the waiting commands, decides them for every shard concerned, proposes the entries to
the replicas of the shards, and writes the rows of all replicas as one batch. When the group commit
has made the batch durable, the replicas are notified. The entries that are then committed are
applied, and only after that answers are sent and effects carried out. The node sends nothing that a
crash, or the loss of the shard, could undo.

    inbox, replicas -> turn: decide, propose, write, send -> group commit -> durable
                        ^                                                        |
                        +---- apply, answer, act  <---- committed entries -------+

Turns do not wait for each other's sync: commands that arrive during a sync are decided and written,
and share the next sync. With one copy, an entry is committed when it is durable on this node; with
three copies, when the backups have confirmed it, too. The turn is the same in both cases.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial

from rota.core.decide.dispatch import cause_of, decide, pending
from rota.core.errors import Refused
from rota.core.model.attempt import Ending, Outcome
from rota.core.model.ids import NodeId
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.commands import Command, FinishAttempt
from rota.core.vocabulary.decision import FreeSlots, Situation
from rota.core.vocabulary.effects import Launch, PostponedEffects, Stop
from rota.node.shards.delayed_effects import DelayedEffects
from rota.node.shards.entry_builder import EntryBuilder
from rota.node.shards.inbox import Waiting
from rota.node.shards.interfaces import Commit, EffectHandler, Peers, SwapRequests
from rota.node.shards.ownership_log import OwnershipLog
from rota.node.shards.shard import Answer, Entry, Mark, NotPrimary, OnAnswer, Shard
from rota.node.shards.turn_state import TurnState, give, refuse, resolve_all
from rota.node.system.clock import Clock
from rota.storage.store import Batch, Store, Ticket

log = logging.getLogger(__name__)

FLIGHT_BYTES_MAX = 32 << 20
"""The number of written bytes that are not durable yet from which decisions wait for the disk."""
DISK_LOOK_S = 0.01
"""The period in which a stopping loop checks whether the disk has caught up."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The writes of one replica: the number of their batch at the replica, and their bytes."""

    number: int
    size: int


class ShardLoop:
    """The loop that decides the commands of some shards, turn by turn.

    Args:
        state: The state of the shards' turns.
        store: The store of the shards.
        node_id: This node.
        clock: Gives the instants of decisions.
        situation: Returns the facts, besides its state, on which a decision of a shard may depend,
            for an instant and the free slots.
        ahead: How long before its fire time a fire may be decided.
        check_clock: Called before an instant of the wall clock is recorded.
        effects: Carries out committed effects.
        peers: The other copies of the shards.
        swap_requests: Requests changes of configurations from the coordinator.
        commit: The group commit, which makes writes durable.
        quiet_beats: The heartbeats of this node for quiet shards.
    """

    def __init__(
        self,
        state: TurnState,
        store: Store,
        *,
        node_id: NodeId,
        clock: Clock,
        situation: Callable[[Shard, Instant, FreeSlots], Situation],
        ahead: Duration,
        check_clock: Callable[[], object],
        effects: EffectHandler,
        peers: Peers,
        swap_requests: SwapRequests,
        commit: Commit,
        quiet_beats: QuietBeats,
    ) -> None:
        self._state = state
        self._quiet_beats = quiet_beats
        self._inbox = state.inbox
        self._store = store
        self._node_id = node_id
        self._clock = clock
        self._situation = situation
        self._ahead = ahead
        self._check_clock = check_clock
        self._effects = effects
        self._peers = peers
        self._swap_requests = swap_requests
        self._commit = commit
        self._holding = DelayedEffects(clock, ahead, self._held_is_due)
        self._ownership_log = OwnershipLog(clock.elapsed())

    # -- life -----------------------------------------------------------------------------------

    def running(self) -> AbstractContextManager[None]:
        """Return a context in which turns run."""
        return self._state.stepping(self._turn)

    async def stop(self) -> None:
        """Decide and commit the waiting commands, then refuse others; a refusal ends the wait."""
        state = self._state
        with suppress(Refused):
            while self._inbox.items or state.has_unreleased or state.extra_writes:
                state.guarded(self._turn)
                await state.all_committed()
                if state.flight_bytes >= FLIGHT_BYTES_MAX:
                    # These bytes may be those of backups: then `all_committed` returns at once,
                    # while nothing can be decided.
                    await asyncio.sleep(DISK_LOOK_S)
        state.stop()
        self._holding.close()
        self._ownership_log.write_all()

    # -- a turn ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self._state.over is not None:
            return
        self._ownership_log.write(self._clock.elapsed())
        if self._state.flight_bytes < FLIGHT_BYTES_MAX:
            self._decide_all()
        self._settle()
        self._state.wants_turn = self._ownership_log.is_waiting
        if self._inbox.items and self._state.flight_bytes < FLIGHT_BYTES_MAX:
            self._state.plan()

    def _decide_all(self) -> None:
        with self._state.taking() as taken:
            if taken:
                self._check_clock()
            for shard, commands in taken.items():
                if not shard.is_open:
                    self._refuse_all(commands, shard.elsewhere())
                elif shard.replica.is_admitting(self._clock.elapsed()):
                    taken[shard] = self._inbox.for_one_entry(shard, commands)
                    self._decide(shard, taken[shard])
                else:
                    late = self._inbox.hold(shard, commands, self._clock.elapsed())
                    self._refuse_all(late, NotPrimary(shard.id, None, is_unsure=True))

    def _refuse_all(self, commands: list[Waiting], refusal: Refused) -> None:
        """Refuse commands that are not decided, and free the slots assigned to them."""
        for command, _ in commands:
            self._effects.decided(command, 0)
        give([(on_answer, refusal) for _, on_answer in commands if on_answer])

    def _decide(self, shard: Shard, commands: list[Waiting]) -> None:
        """Decide *commands*; the decisions become one entry, or none if nothing changes."""
        deciding = EntryBuilder(shard, at=shard.time(self._clock))
        answers: list[tuple[OnAnswer, Answer]] = []
        for command, on_answer in commands:
            try:
                answer = self._decide_one(deciding, command)
            except Exception as error:
                error.add_note(_circumstances(deciding, command))
                raise
            if on_answer is not None:
                answers.append((on_answer, answer))
        self._state.touch(shard)
        self._state.count_decisions(len(commands), int(deciding.is_worth_an_entry))
        if deciding.is_worth_an_entry:
            deciding.propose(answers, self._clock.elapsed())
        elif shard.unreleased is not None:
            # The answers may depend on an entry that is not committed yet.
            shard.unreleased.answers += answers
        else:
            give(answers)

    def _decide_one(self, deciding: EntryBuilder, command: Command) -> Answer:
        shard = deciding.shard
        situation = self._situation(shard, deciding.at, self._effects.slots_for(command))
        try:
            decision = decide(shard.state, command, situation)
        except Refused as refusal:
            self._effects.decided(command, 0)
            return refusal
        deciding.add(decision, situation.facts)
        self._effects.decided(command, decision.started)
        return decision.reply

    # -- writes and commits ---------------------------------------------------------------------

    def _settle(self) -> None:
        """Carry out the work of the replicas; apply and release committed entries."""
        self._peers.send_quiet(self._quiet_beats.take_outbox())
        touched = self._state.take_touched()
        extra_writes = self._state.take_extra_writes()
        batch = self._store.batch()
        for add_rows in extra_writes:
            add_rows(batch)
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
            self._state.wrote(ticket, size, tuple(numbers))
        if numbers or extra_writes:
            self._commit.wrote(ticket)
        for shard in touched:
            # After the write: `fail` finds the waiting requests only in shards that are open.
            self._open_or_close(shard)
            self._release(shard)
            if shard.replica.is_handing_over and not shard.committed:
                self._continue_handover(shard)

    def _stop_at_mark(self, shard: Shard, mark: Mark, batch: Batch) -> Batch:
        """Write the rows up to the marked entry if it is committed, and have them read (R43).

        Returns:
            The batch for the rows of later entries, which is a new one if *batch* was written.
        """
        shard.apply(batch, mark.index)
        if shard.file.applied < mark.index:
            return batch
        self._store.write(batch)
        shard.clear_mark()
        mark.reached()
        return self._store.batch()

    def _carry_out(self, shard: Shard, batch: Batch) -> _Written | None:
        """Carry out the writes, sends and requests of a replica; return its writes, if any."""
        ready = shard.replica.take_ready()
        if ready.sends:
            self._peers.send(shard.id, ready.sends)
        if ready.swap is not None:
            self._swap_requests.swap(ready.swap)
        if ready.wants_view:
            self._swap_requests.look()
        if not ready.writes:
            return None
        size = shard.file.write(batch, ready.writes)
        return _Written(ready.number, size)

    def made_durable(self, ticket: Ticket) -> None:
        """Report durable writes to the replicas, and carry out the resulting work."""
        if self._state.over is None:
            self._state.guarded(partial(self._made_durable, ticket))

    @property
    def is_writing(self) -> bool:
        """Whether there are writes that are not durable yet."""
        return self._state.is_writing

    def _made_durable(self, ticket: Ticket) -> None:
        self._state.made_durable(ticket)
        self._settle()
        if self._inbox.items or self._inbox.held:
            self._state.plan()

    def _open_or_close(self, shard: Shard) -> None:
        if shard.is_open:
            if not shard.has_lost_primacy:
                return
            self._close(shard)
        if shard.replica.primary is None or shard.is_unreadable:
            return  # Returns before the clock is read, since most touched shards are backups.
        began_at = self._clock.elapsed()
        if shard.replica.has_authority(began_at):
            shard.open()
            if shard.is_unreadable:
                log.error("shard unreadable", extra={"shard": shard.id, "reason": shard.fault})
                self._effects.unreadable(shard)
                return
            outstanding = list(pending(shard.state, self._ahead))
            self._effects.opened(shard)
            for effect in outstanding:
                self._effects.perform(shard, effect)
            took = Duration(self._clock.elapsed() - began_at)
            self._state.opened(took)
            self._ownership_log.taken_up(shard.id, shard.epoch, took)

    def _close(self, shard: Shard) -> None:
        """Close a shard: entries that are not committed may be committed by another primary."""
        self._ownership_log.given_up(shard.id)
        given_up = shard.close()
        held = self._inbox.hold_no_more(shard)
        refusal = shard.interrupted()
        for entry in given_up:
            give([(on_answer, refusal) for on_answer, _ in entry.answers])
            refuse(entry.readers, refusal)  # The entry that was read may never be committed.
        self._refuse_all(held, shard.elsewhere())
        self._effects.closed(shard)
        self._give_back([*self._holding.drop(shard), *_launches(given_up)])

    def _give_back(self, launches: Iterable[Launch]) -> None:
        """Free this node's slots of attempts that never begin; slots lent by other nodes expire."""
        own = [launch for launch in launches if launch.node_id == self._node_id]
        self._effects.unstarted(len(own))

    def _release(self, shard: Shard) -> None:
        """Answer and act for committed entries while this node has authority (PROTOCOL R15)."""
        while shard.committed and shard.replica.has_authority(now := self._clock.elapsed()):
            entry = shard.committed.popleft()
            self._effects.committed(Duration(now - entry.decided_at))
            resolve_all(entry.readers)
            give(entry.answers)
            for effect in entry.effects:
                if isinstance(effect, PostponedEffects | Stop):
                    self._perform_or_hold(shard, effect)
                else:
                    self._effects.perform(shard, effect)
        if shard.replica.has_postponed:
            self._perform_held(shard)

    def _perform_or_hold(self, shard: Shard, effect: PostponedEffects | Stop) -> None:
        match effect:
            case PostponedEffects(at=at) if at > self._clock.now():
                self._holding.hold(shard, effect)
            case PostponedEffects(effects=effects):
                for each in effects:
                    self._effects.perform(shard, each)
            case Stop(attempt=key) if unstarted := self._holding.withdraw(shard, key.execution_id):
                self._cancel_unstarted(shard, unstarted)
            case Stop():
                self._effects.perform(shard, effect)

    def _held_is_due(self, shard: Shard) -> None:
        self._state.guarded(partial(self._release, shard))
        if shard.replica.is_handing_over:
            self._state.touch(shard)
            self._state.plan()

    def _perform_held(self, shard: Shard) -> None:
        """Carry out the due effects if this node has authority; otherwise another node may act."""
        if not shard.has_lost_primacy and shard.replica.has_authority(self._clock.elapsed()):
            for effect in self._holding.take_due(shard):
                self._effects.perform(shard, effect)

    def _cancel_unstarted(self, shard: Shard, launches: Sequence[Launch]) -> None:
        """Submit commands that record the attempts of postponed starts as cancelled."""
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
            self._inbox.put((shard, ended, None))
        self._state.plan()

    def _continue_handover(self, shard: Shard) -> None:
        """Hand a shard over immediately after the release of its last entry."""
        shard.replica.released(self._clock.elapsed())
        if not shard.replica.is_handing_over:
            self._state.touch(shard)
            self._state.plan()


def _circumstances(deciding: EntryBuilder, command: Command) -> str:
    """Return a description of a command for the log of a crash, without the data of users.

    The error ends the node, and the log of the crash contains the notes of the error.
    """
    shard = deciding.shard
    earlier = "; ".join(deciding.recent_causes) or "none since the node started"
    return (
        f"raised by the command {type(command).__name__} ({cause_of(command)}) to shard {shard.id} "
        f"under epoch {shard.epoch}, after entry {shard.replica.copy.tip.index}; "
        f"commands that changed the shard before it, oldest first: {earlier}"
    )


def _launches(entries: Iterable[Entry]) -> Iterator[Launch]:
    """Yield the attempts that entries start, including postponed ones."""
    for entry in entries:
        for effect in entry.effects:
            for each in effect.effects if isinstance(effect, PostponedEffects) else (effect,):
                if isinstance(each, Launch):
                    yield each
