"""The shards of this node: the entry of commands, messages, configurations and time.

Commands come from requests, timers, executors and other shards; messages, configurations and ticks
go to the replicas. The work that follows from either is done in the next turn
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
        store: The store of their rows; open, and used by no other shards.
        count: Their number.
        liveness: This node, and the live nodes as seen by it.
        continuity: The past of the coordinator, as seen by this node.
        timing: The timeouts of the cluster.
        copies: The wanted and the least number of copies of each shard.
        clock: Gives the times of decisions.
        entropy: Gives their random numbers.
        limits: The limits of one shard.
        ahead: Time before it is due at which a fire may be decided.
        check_clock: Called before an instant of the wall clock is recorded; updates *liveness*.
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
        check_clock: Callable[[], object],
        failure: "asyncio.Future[None]",
    ) -> None:
        self._store = store
        self._node_id = liveness.node_id
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._ahead = ahead
        self._check_clock = check_clock
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
        """The first of the frozen shards, until that is logged."""
        self._continuity = continuity
        self._kept = continuity.lost, continuity.revision
        """The part of it that is stored."""
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
        """Why not all requests of clients are accepted now, or None if they are."""
        return self._state.over or self._no_space

    @property
    def inbox_length(self) -> int:
        """Commands that wait to be decided."""
        return self._inbox.length

    @property
    def sync_time(self) -> Duration:
        """How long the sync that runs now has taken so far; 0 if none runs."""
        return self._state.sync_time

    @property
    def opening_time(self) -> Duration:
        """Total time spent opening shards; see `TurnState`."""
        return self._state.opening_time

    @property
    def entry_count(self) -> int:
        """The number of entries made."""
        return self._state.entry_count

    @property
    def decision_count(self) -> int:
        """The number of commands decided."""
        return self._state.decision_count

    @property
    def execution_count(self) -> int:
        """Unfinished executions of all shards."""
        return sum(len(shard.state.executions) for shard in self.opened)

    @property
    def frozen_count(self) -> int:
        """Shards for which this node requests no change of configuration (PROTOCOL R31)."""
        return len(self._frozen)

    @property
    def why_frozen(self) -> str | None:
        """Why shards cannot change hands, and the remedy; None if they can."""
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
        """The shards that are open here: this node decides for them."""
        return (shard for shard in self._shards if shard.is_open)

    def of_name(self, namespace: str, name: str) -> Shard:
        """Return the shard of a job's name."""
        return self._shards[shard_of(slot_of(namespace, name), len(self._shards))]

    def of_id(self, any_id: JobId | ExecutionId) -> Shard:
        """Return the shard of the hash slot in an id."""
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
            check_clock=self._check_clock,
            effects=effects,
            peers=peers,
            swap_requests=swap_requests,
            commit=commit,
        )

    def fail(self, error: Exception) -> None:
        """Refuse everything that waits, and end the node with *error*."""
        self._state.fail(error)

    # -- input of the replicas ------------------------------------------------------------------

    def receive(self, number: ShardId, sender: NodeId, message: Message) -> None:
        """Pass a message of another node's replica to that of this node."""
        shard = self._shards[number]
        self._move(shard, lambda: shard.replica.receive(message, sender, self._clock.elapsed()))

    def take_view(self, configurations: Mapping[ShardId, Configuration], known: Known) -> None:
        """Take the configurations of a view; first check for missing ones (R31).

        Args:
            configurations: All configurations in the view.
            known: `CoordinatorContinuity.known` of when the view was requested.
        """
        for shard in self._shards:
            shard.replica.compare(configurations.get(shard.id), known)
        for number, configuration in configurations.items():
            self.learn(number, configuration)

    def keep_continuity(self) -> None:
        """Store the continuity of the coordinator, for this node's next process."""
        kept = self._continuity.lost, self._continuity.revision
        if kept != self._kept and self._state.over is None:
            self._kept = kept
            self._state.extra_writes.append(partial(put_continuity, continuity=self._continuity))
            self._state.plan()

    def learn(self, number: ShardId, configuration: Configuration) -> None:
        """Pass a shard's configuration to its replica."""
        shard = self._shards[number]
        self._move(shard, lambda: shard.replica.learn(configuration, self._clock.elapsed()))

    def swapped(self, swap: Swap, answer: Swapped | None) -> None:
        """Pass the coordinator's answer to a swap to the replica; None if it is unknown."""
        shard = self._shards[swap.shard]
        self._move(shard, lambda: shard.replica.answered(swap, answer, self._clock.elapsed()))

    def found(self, number: ShardId) -> None:
        """Make the first copy of a shard that has no configuration and never had one."""
        shard, allocation = self._shards[number], AllocationId(f"{self._entropy.draw():016x}")
        if shard.replica.copy.tip.index == 0:
            self._move(shard, lambda: shard.replica.found(allocation))

    def linked(self, node_id: NodeId) -> None:
        """Note a new link to a node: replicas send it their state at the next tick."""
        for shard in self._shards:
            shard.replica.linked(node_id)

    def tick(self, targets: Callable[[ShardId], tuple[NodeId, ...]]) -> None:
        """Give every replica the time.

        Args:
            targets: Returns the nodes that are to have copies of a shard, the primary first.
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
        """Apply an event to a replica; its work is done in the next turn."""
        state = self._state
        if state.over is None:
            state.guarded(event)
            if shard.replica.is_frozen != (shard in self._frozen):
                self._freeze_or_thaw(shard)
            state.touched[shard] = None
            state.plan()

    def _freeze_or_thaw(self, shard: Shard) -> None:
        """Prepare an alarm for the first frozen shard, and end it with the last."""
        was_frozen = bool(self._frozen)
        self._frozen ^= {shard}
        if self._frozen and not was_frozen:
            self._first_frozen = shard
        elif not self._frozen:
            self._first_frozen = None
            log.info("shards frozen no more", extra={"shard": shard.id, "epoch": shard.epoch})

    def _raise_alarm(self) -> None:
        """Log the shards that were frozen since the last tick, in one line."""
        if (first := self._first_frozen) is None:
            return
        self._first_frozen = None
        event = "coordinator lost its state" if first.replica.is_lost else "promise too high"
        facts = {"shard": first.id, "promised_epoch": first.epoch, "reason": self.why_frozen}
        log.error(event, extra=facts)

    # -- commands -------------------------------------------------------------------------------

    def submit(self, shard: Shard, command: Command, on_answer: OnAnswer | None = None) -> None:
        """Submit a command of the node itself: of a timer, an outcome, an outbox item.

        Such commands have no limit: there is at most one for each row of the shards, and no caller
        that could repeat a refused one. Once the shards are stopped they are dropped: the next
        process finds the outstanding work in the state.
        """
        if self._state.over is not None:
            return
        self._inbox.put((shard, command, on_answer))
        self._state.plan()

    def submit_together(
        self, shard: Shard, commands: Sequence[Command], on_answer: OnAnswer
    ) -> None:
        """Submit commands for one entry; the answer is that of the last."""
        if self._state.over is not None:
            return
        *others, last = commands
        self._inbox.put(*((shard, other, None) for other in others), (shard, last, on_answer))
        self._state.plan()

    async def ask(self, shard: Shard, command: Command) -> Reply:
        """Submit a request, and return its reply once the decision is committed.

        Raises:
            Refused: By the decision, or because requests are not accepted now.
        """
        self.check_open(command)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.submit(shard, command, Caller(answered))
        answer = await answered
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def ask_many(self, requests: Iterable[tuple[Shard, Command]]) -> list[Answer]:
        """Submit several requests for one turn; return the answers in their order.

        Raises:
            Refused: All of them, because one of them is not accepted now.
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
        """Wait until all decisions of *shards* so far are committed and applied.

        Unlike `settled`, this method does not check the node's authority after the commit.

        Raises:
            Refused: The decisions can no longer be committed, or whether they are is not known.
            NotPrimary: A decision is not committed after `COMMIT_WAIT_MAX`, and this node has no
                authority for one of *shards*.
            NotCommitted: A decision is not committed after `COMMIT_WAIT_MAX`.
        """
        await self._state.committed(shards)

    async def settled(self, *read: Shard) -> None:
        """Wait until all decisions of *read* so far are committed and applied.

        A request that reads a shard's memory or history calls this before it responds: the memory
        may be ahead of the commit, and another node may be the primary meanwhile, unless this one
        has authority when the response is sent (PROTOCOL R15).

        Args:
            read: The shards whose memory or rows were read.

        Raises:
            Refused: This node can no longer commit the decisions: its storage failed; or another
                node is primary now, so the memory that was read is invalid.
            NotPrimary: This node may not answer for one of *read*.
            NotCommitted: A decision is not committed after `COMMIT_WAIT_MAX`.
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
        """Take a measurement of the space on the disk."""
        self._state.see_space(found.space)
        self._no_space = found.refusal

    def check_open(self, *commands: Command) -> None:
        """Refuse a request for *commands* that is not accepted now.

        Raises:
            Refused: The storage failed or the node stops; the disk is nearly full, and one of them
                adds load; or too many requests wait.
        """
        refusal = self._state.over
        if self._no_space is not None and any(map(adds_load, commands)):
            refusal = refusal or self._no_space
        if refusal is not None:
            # One refusal is raised many times, and would gather the frames of all of them.
            raise refusal.with_traceback(None)
        self._inbox.check_room()

    def situation(self, shard: Shard, now: Instant, slots: FreeSlots) -> Situation:
        """Return what a decision of *shard* may depend on besides its state."""
        return Situation(
            now=now,
            entropy=self._entropy.draw(),
            position=shard.replica.copy.position,
            slots=slots,
            limits=self._limits,
            decide_ahead=self._ahead,
            disk_space=self._state.space,
        )
