"""The shards of this node, for all who want something of them.

Commands come from requests, timers, executors and other shards; messages, configurations and time
come to the replicas. What follows from either is done in the next turn
(`rota.node.shards.shard_loop`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from rota.core.errors import Refused
from rota.core.model.ids import (
    AllocationId,
    ExecutionId,
    JobId,
    NodeId,
    ShardId,
    slot_of,
    slot_of_id,
)
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity, Known
from rota.core.replication.messages import Message
from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import FreeSlots, Limits, Reply, Situation
from rota.core.vocabulary.disk_space import adds_load
from rota.core.vocabulary.shard_configuration import Configuration, Swap, Swapped
from rota.node.shards.inbox import Asked, Caller
from rota.node.shards.interfaces import Commit, EffectHandler, Peers, SwapRequests
from rota.node.shards.shard import Answer, OnAnswer, Shard
from rota.node.shards.shard_loop import ShardLoop
from rota.node.shards.turn_state import TurnState
from rota.node.system.clock import Clock
from rota.node.system.disk_guard import FoundSpace
from rota.node.system.entropy import Entropy
from rota.ring.placement import shard_of
from rota.storage.continuity import put_continuity
from rota.storage.store import Store

log = logging.getLogger(__name__)


class Shards:
    """All shards of this node.

    Args:
        store: Where they are; opened, and used by nobody else for shards.
        count: How many there are.
        liveness: Who is alive, as this node knows it; this node is named in it.
        continuity: What this node knows of the coordinator's past.
        timing: The cluster's.
        copies: How many copies of each shard there are to be.
        clock: Gives the instants of decisions.
        entropy: Gives their chance.
        limits: What one shard may hold.
        ahead: How long before it is due a fire may be decided.
        look_at_calendar: Called before anything is stamped by it; afterwards *liveness* tells
            whether it may be believed.
        failure: Gets the error that ends this node.
    """

    def __init__(
        self,
        store: Store,
        count: int,
        *,
        liveness: Liveness,
        continuity: CoordinatorContinuity,
        timing: Timing,
        copies: Copies,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
        ahead: Duration,
        look_at_calendar: Callable[[], object],
        failure: "asyncio.Future[None]",
    ) -> None:
        self._store = store
        self._node_id = liveness.node_id
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._ahead = ahead
        self._look_at_calendar = look_at_calendar
        self._make = partial(
            Shard,
            store,
            liveness=liveness,
            continuity=continuity,
            timing=timing,
            transfers=TransferLimits(),
            copies=copies,
        )
        self._shards = [self._make(ShardId(number)) for number in range(count)]
        self._state = TurnState(self._shards, clock, failure)
        self._inbox = self._state.inbox
        self._frozen: set[Shard] = set()
        self._first_frozen: Shard | None = None
        """Of the shards that are frozen, until that is told."""
        self._continuity = continuity
        self._kept = continuity.lost, continuity.revision
        """What of it the store has."""
        self._no_space: Refused | None = None

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
        """Why not all requests from outside can be taken now, or None if they can."""
        return self._state.over or self._no_space

    @property
    def inbox_length(self) -> int:
        """Commands that wait to be decided."""
        return self._inbox.length

    @property
    def sync_time(self) -> Duration:
        """How long the sync that runs now has taken so far; 0 if none does."""
        return self._state.sync_time

    @property
    def opening_time(self) -> Duration:
        """How long opening shards has taken; see `TurnState`."""
        return self._state.opening_time

    @property
    def entry_count(self) -> int:
        """How many entries were made."""
        return self._state.entry_count

    @property
    def decision_count(self) -> int:
        """How many commands were decided."""
        return self._state.decision_count

    @property
    def execution_count(self) -> int:
        """Unfinished executions of all shards."""
        return sum(len(shard.state.executions) for shard in self.opened)

    @property
    def frozen_count(self) -> int:
        """Shards for which this node asks the coordinator for no change (PROTOCOL R31)."""
        return len(self._frozen)

    @property
    def why_frozen(self) -> str | None:
        """Why shards cannot change hands, and what to do; None if they can."""
        count, reason = len(self._frozen), self._continuity.reason
        if not count:
            return None
        if any(shard.replica.is_lost for shard in self._frozen):
            cause = f" ({reason})" if reason else ""
            return (
                f"the coordinator lost its state{cause}: {count} shards cannot change hands; run "
                "`rota cluster recover-coordination`"
            )
        return (
            f"{count} shards cannot change hands: epochs were promised that the coordinator never "
            "gave; run `rota shard repair`"
        )

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

    def loop(
        self,
        effects: EffectHandler,
        peers: Peers,
        swap_requests: SwapRequests,
        commit: Commit,
    ) -> ShardLoop:
        """Return the loop that decides for these shards, once it runs; make one only."""
        return ShardLoop(
            self._state,
            self._store,
            node_id=self._node_id,
            clock=self._clock,
            situation=self.situation,
            ahead=self._ahead,
            look_at_calendar=self._look_at_calendar,
            effects=effects,
            peers=peers,
            swap_requests=swap_requests,
            commit=commit,
        )

    def fail(self, error: Exception) -> None:
        """Refuse everything that waits and hand the error on; the node ends and starts again."""
        self._state.fail(error)

    # -- the replicas' world --------------------------------------------------------------------

    def receive(self, number: ShardId, sender: NodeId, message: Message) -> None:
        """Take a message of another node's replica of a shard."""
        shard = self._shards[number]
        self._move(shard, lambda: shard.replica.receive(message, sender, self._clock.elapsed()))

    def take_view(self, configurations: Mapping[ShardId, Configuration], known: Known) -> None:
        """Take the configurations of a view, of all shards: first for what is missing (R31).

        Args:
            configurations: All that there are.
            known: `CoordinatorContinuity.known` of when the view was requested.
        """
        for shard in self._shards:
            shard.replica.compare(configurations.get(shard.id), known)
        for number, configuration in configurations.items():
            self.learn(number, configuration)

    def keep_continuity(self) -> None:
        """Store what this node knows of the coordinator's past, for its next process."""
        kept = self._continuity.lost, self._continuity.revision
        if kept != self._kept and self._state.over is None:
            self._kept = kept
            self._state.extra_writes.append(partial(put_continuity, continuity=self._continuity))
            self._state.plan()

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

    def linked(self, node_id: NodeId) -> None:
        """Have the replicas show themselves to a node, to which there is a new link, in a tick."""
        for shard in self._shards:
            shard.replica.linked(node_id)

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
        self._raise_alarm()
        if self._state.over is None:
            self._state.guarded(self._state.end_long_waits)

    def has_turn(self, shard: Shard) -> bool:
        """Return True if the next turn takes the output of the shard's replica."""
        return shard in self._state.touched

    def _move(self, shard: Shard, event: Callable[[], None]) -> None:
        """Let something happen to a replica; what it wants done then is done in the next turn."""
        state = self._state
        if state.over is None:
            state.guarded(event)
            if shard.replica.is_frozen != (shard in self._frozen):
                self._freeze_or_thaw(shard)
            state.touched[shard] = None
            state.plan()

    def _freeze_or_thaw(self, shard: Shard) -> None:
        """Have an alarm raised for the first shard that is frozen, and end it with the last."""
        was_frozen = bool(self._frozen)
        self._frozen ^= {shard}
        if self._frozen and not was_frozen:
            self._first_frozen = shard
        elif not self._frozen:
            self._first_frozen = None
            log.info("shards frozen no more", extra={"shard": shard.id, "epoch": shard.epoch})

    def _raise_alarm(self) -> None:
        """Tell of shards that were frozen since the last tick: once, and of all of them."""
        if (first := self._first_frozen) is None:
            return
        self._first_frozen = None
        event = "coordinator lost its state" if first.replica.is_lost else "promise too high"
        facts = {"shard": first.id, "promised_epoch": first.epoch, "reason": self.why_frozen}
        log.error(event, extra=facts)

    # -- what comes in --------------------------------------------------------------------------

    def submit(self, shard: Shard, command: Command, on_answer: OnAnswer | None = None) -> None:
        """Have a command of the node's own decided: timers, outcomes, letters.

        There is at most one for each thing that the shards hold, so they need no limit of their
        own, and nobody could try them again. Once this node can decide nothing more they are
        dropped: the next life finds in the state what is outstanding.
        """
        if self._state.over is not None:
            return
        self._inbox.put((shard, command, on_answer))
        self._state.plan()

    def submit_together(
        self, shard: Shard, commands: Sequence[Command], on_answer: OnAnswer
    ) -> None:
        """Likewise, for commands that one entry is to hold; the answer is that of the last."""
        if self._state.over is not None:
            return
        *others, last = commands
        self._inbox.put(*((shard, other, None) for other in others), (shard, last, on_answer))
        self._state.plan()

    async def ask(self, shard: Shard, command: Command) -> Reply:
        """Have a request decided, and return its reply once that is committed.

        Raises:
            Refused: By the decision, or because requests cannot be taken at the moment.
        """
        self.check_open(command)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.submit(shard, command, Caller(answered))
        answer = await answered
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def ask_many(self, requests: Iterable[tuple[Shard, Command]]) -> list[Answer]:
        """Have several requests decided in one turn; answers come in their order.

        Raises:
            Refused: All of them, because one of them cannot be taken at the moment.
        """
        requests = list(requests)
        self.check_open(*(command for _, command in requests))
        loop = asyncio.get_running_loop()
        asked: list[Asked] = []
        waiting: list[asyncio.Future[Answer]] = []
        for shard, command in requests:
            answered: asyncio.Future[Answer] = loop.create_future()
            waiting.append(answered)
            asked.append((shard, command, Caller(answered)))
        if asked:
            self._inbox.put(*asked)
            self._state.plan()
        return [await answered for answered in waiting]

    async def committed(self, *shards: Shard) -> None:
        """Return when all that *shards* have decided until now is committed and applied.

        Raises:
            Refused: As `settled`; but without a check of this node's authority after the commit.
        """
        await self._state.committed(shards)

    async def settled(self, *read: Shard) -> None:
        """Return when all that shards have decided until now is committed and applied.

        Whoever reads a shard's memory, or its history, calls this before telling anyone. What is in
        memory may run ahead of the commit; and another node may have gone on with the shard, unless
        this one has authority when the answer leaves (PROTOCOL R15).

        Args:
            read: The shards whose memory, or rows, are to be told of.

        Raises:
            Refused: It never will be: the storage failed, or a shard is another's now; memory is
                not to be believed.
            NotPrimary: This node may not answer for one of *read*.
            NotCommitted: Something is not committed after `COMMIT_WAIT_MAX`.
        """
        if any(shard.unreleased is not None for shard in read):
            self._check_may_answer(read)  # Without authority, nothing would end the wait.
        await self._state.committed(read)
        self._check_may_answer(read)

    def _check_may_answer(self, read: Iterable[Shard]) -> None:
        now = self._clock.elapsed()
        for shard in read:
            if not shard.may_answer(now):
                raise shard.elsewhere()

    def see_space(self, found: FoundSpace) -> None:
        """Take note of how much space is left on the disk."""
        self._state.space, self._no_space = found.space, found.refusal

    def check_open(self, *commands: Command) -> None:
        """Refuse a request for *commands* that cannot be taken now.

        Raises:
            Refused: The storage failed or the node stops; the disk is nearly full, and one of them
                adds load; or too much waits already.
        """
        refusal = self._state.over
        if self._no_space is not None and any(map(adds_load, commands)):
            refusal = refusal or self._no_space
        if refusal is not None:
            # One refusal is raised many times, and would gather the frames of all of them.
            raise refusal.with_traceback(None)
        self._inbox.check_room()

    def situation(self, shard: Shard, now: Instant, place: FreeSlots) -> Situation:
        """Return what a decision of *shard* may depend on besides its state."""
        return Situation(
            now=now,
            entropy=self._entropy.draw(),
            position=shard.replica.copy.position,
            slots=place,
            limits=self._limits,
            decide_ahead=self._ahead,
            disk_space=self._state.space,
        )
