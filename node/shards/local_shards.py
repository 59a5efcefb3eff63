"""The shards of this node: the input of commands, messages, configurations and ticks.

Commands come from requests, timers, executors and other shards. Messages, configurations and ticks
go to the replicas. The resulting work is done in the next turn (`rota.node.shards.shard_loop`).
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
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
from rota.core.replication.messages import Message, QuietBeat, QuietMessage
from rota.core.replication.primary import Copies
from rota.core.replication.quiet_beats import QuietBeats
from rota.core.replication.timeouts import Timing
from rota.core.replication.transfer_limits import TransferLimits
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import FreeSlots, Limits, Reply, Situation
from rota.core.vocabulary.disk_space import adds_load
from rota.core.vocabulary.facts import Facts
from rota.core.vocabulary.quotas import Use
from rota.core.vocabulary.shard_configuration import Configuration, Swap, Swapped
from rota.node.shards.inbox import Asked, Caller
from rota.node.shards.interfaces import Commit, EffectHandler, Peers, SwapRequests
from rota.node.shards.quota_use import QuotaUse
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
        store: The store of the shards' rows, which is open.
        count: The number of shards.
        liveness: The id and the session of this node, and its view of which nodes are alive.
        continuity: This node's record of the coordinator's past states.
        timing: The timeouts of the cluster.
        copies: The wanted and the least number of copies of each shard.
        clock: Gives the times of decisions.
        entropy: Gives the random numbers of decisions.
        limits: The limits of one shard.
        ahead: How long before its fire time a fire may be decided.
        facts: Returns what the shared documents say that this node has received.
        quota_use: The use of namespaces on other nodes.
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
        facts: Callable[[], Facts],
        quota_use: QuotaUse,
        check_clock: Callable[[], object],
        failure: "asyncio.Future[None]",
    ) -> None:
        self._store = store
        self._node_id = liveness.node_id
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._ahead = ahead
        self._facts = facts
        self._quota_use = quota_use
        self._check_clock = check_clock
        self._liveness = liveness
        self._quiet_beats = QuietBeats(liveness, timing)
        self._make = partial(
            Shard,
            store,
            liveness=liveness,
            quiet_beats=self._quiet_beats,
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
        """The first of the frozen shards; None if it is already logged."""
        self._continuity = continuity
        self._circumstances: Hashable = None
        """The circumstances at the last tick; None before the first one."""
        self._kept = continuity.lost, continuity.revision
        """The part of the continuity that is stored."""
        self._no_space: Refused | None = None

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, number: ShardId) -> Shard:
        return self._shards[number]

    @property
    def numbers(self) -> range:
        """The numbers of the shards."""
        return range(len(self._shards))

    @property
    def refusal(self) -> Refused | None:
        """The refusal of some or all requests of clients; None if all requests are accepted now."""
        return self._state.over or self._no_space

    @property
    def inbox_length(self) -> int:
        """The number of commands that wait to be decided, without commands that are held."""
        return self._inbox.length

    @property
    def sync_time(self) -> Duration:
        """The duration so far of the running sync; 0 if none runs."""
        return self._state.sync_time

    @property
    def opening_time(self) -> Duration:
        """The total time spent on opening shards; see `TurnState`."""
        return self._state.opening_time

    @property
    def entry_count(self) -> int:
        """The number of entries made so far."""
        return self._state.entry_count

    @property
    def decision_count(self) -> int:
        """The number of commands decided so far."""
        return self._state.decision_count

    @property
    def execution_count(self) -> int:
        """The number of unfinished executions of the shards that are open here."""
        return sum(len(shard.state.executions) for shard in self.opened)

    @property
    def frozen_count(self) -> int:
        """The number of shards whose configuration this node does not change (PROTOCOL R31)."""
        return len(self._frozen)

    @property
    def why_frozen(self) -> str | None:
        """The reason why shards are frozen, and the remedy; None if no shard is frozen."""
        count, reason = len(self._frozen), self._continuity.reason
        if not count:
            return None
        if any(shard.replica.is_lost for shard in self._frozen):
            cause = f" ({reason})" if reason else ""
            return (
                f"the coordinator lost its state{cause}: {count} shards cannot get another "
                "primary; run `rota cluster recover-coordination`"
            )
        return (
            f"{count} shards cannot get another primary: this node promised epochs that the "
            "coordinator never granted; run `rota shard repair`"
        )

    @property
    def opened(self) -> Iterator[Shard]:
        """The shards that are open here, for which this node decides."""
        return (shard for shard in self._shards if shard.is_open)

    def of_name(self, namespace: str, name: str) -> Shard:
        """Return the shard of a job's name."""
        return self._shards[shard_of(slot_of(namespace, name), len(self._shards))]

    def of_id(self, any_id: JobId | ExecutionId) -> Shard:
        """Return the shard of a job or an execution, by the hash slot in its id."""
        return self._shards[shard_of(slot_of_id(any_id), len(self._shards))]

    # -- life -----------------------------------------------------------------------------------

    def loop(
        self,
        effects: EffectHandler,
        peers: Peers,
        swap_requests: SwapRequests,
        commit: Commit,
    ) -> ShardLoop:
        """Return the loop that decides for these shards while it runs; call this only once."""
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
            quiet_beats=self._quiet_beats,
        )

    def fail(self, error: Exception) -> None:
        """Refuse all waiting commands and reads, and end the node with *error*."""
        self._state.fail(error)

    # -- input of the replicas ------------------------------------------------------------------

    def receive(self, number: ShardId, sender: NodeId, message: Message) -> None:
        """Pass a message of another node's replica to this node's replica of the shard."""
        shard = self._shards[number]
        self._move(shard, lambda: shard.replica.receive(message, sender, self._clock.elapsed()))

    def take_view(self, configurations: Mapping[ShardId, Configuration], known: Known) -> None:
        """Pass the configurations of a view to the replicas; first check for missing ones (R31).

        Args:
            configurations: All configurations in the view.
            known: The value of `CoordinatorContinuity.known` when the view was requested.
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
        """Pass the coordinator's answer to a swap to the replica.

        Args:
            swap: The swap that was requested.
            answer: The answer; None if the outcome is unknown.
        """
        shard = self._shards[swap.shard]
        self._move(shard, lambda: shard.replica.answered(swap, answer, self._clock.elapsed()))

    def found(self, number: ShardId) -> None:
        """Make the first copy of a shard that has no configuration and never had one."""
        shard, allocation = self._shards[number], AllocationId(f"{self._entropy.draw():016x}")
        if shard.replica.copy.tip.index == 0:
            self._move(shard, lambda: shard.replica.found(allocation))

    def receive_quiet(self, sender: NodeId, message: QuietMessage) -> bool:
        """Process a heartbeat of another node for many shards, or the response to one.

        Returns:
            False if the message cannot be the response to a heartbeat of this process.
        """
        if self._state.over is not None:
            return True
        now, is_true = self._clock.elapsed(), True
        if isinstance(message, QuietBeat):
            self._quiet_beats.receive(message, sender, now)
            self._state.plan()
        else:
            is_true = self._quiet_beats.receive_response(message, sender, now)
        return is_true

    def linked(self, node_id: NodeId) -> None:
        """Record a new link to a node; replicas send messages to the node at their next tick."""
        self._quiet_beats.linked(node_id)
        for shard in self._shards:
            shard.replica.linked(node_id)

    def tick(self, targets: Callable[[ShardId], tuple[NodeId, ...]], placement: int = 0) -> None:
        """Tick the replicas that are not at rest, and refuse requests that waited for too long.

        Args:
            targets: Returns the nodes that are to have copies of a shard, the primary first.
            placement: A number that changes when *targets* returns other nodes.
        """
        if self._state.over is not None:
            return
        circumstances = self._liveness.circumstances(), self._continuity.lost, placement
        if circumstances != self._circumstances:
            self._circumstances = circumstances
            self._state.wake_all()
        self._quiet_beats.tick(self._clock.elapsed())
        if self._quiet_beats.outbox or self._state.wants_turn:
            self._state.plan()
        for number in self._quiet_beats.take_woken():
            self._state.touch(self._shards[number])
        for shard in self._state.take_awake():
            now = self._clock.elapsed()
            event = partial(shard.replica.tick, now, self._entropy.draw(), targets(shard.id))
            self._move(shard, event, is_tick=True)
            if not shard.is_at_rest(now):
                self._state.touch(shard)
        self._raise_alarm()
        if self._state.over is None:
            self._state.guarded(self._state.end_long_waits)

    def has_turn(self, shard: Shard) -> bool:
        """Return True if the next turn takes the output of the shard's replica."""
        return shard in self._state.touched

    def _move(self, shard: Shard, event: Callable[[], None], *, is_tick: bool = False) -> None:
        """Apply an event to a replica; the resulting work is done in the next turn."""
        state = self._state
        if state.over is None:
            state.guarded(event)
            if shard.replica.is_frozen != (shard in self._frozen):
                self._freeze_or_thaw(shard)
            state.touched[shard] = None
            if not is_tick:
                state.awake[shard] = None
            state.plan()

    def _freeze_or_thaw(self, shard: Shard) -> None:
        """Freeze or thaw a shard; log if none is frozen any more.

        The first shard to freeze is logged by `_raise_alarm`.
        """
        was_frozen = bool(self._frozen)
        self._frozen ^= {shard}
        if self._frozen and not was_frozen:
            self._first_frozen = shard
        elif not self._frozen:
            self._first_frozen = None
            log.info("no shards frozen", extra={"shard": shard.id, "epoch": shard.epoch})

    def _raise_alarm(self) -> None:
        """Log in one line that shards are frozen, if that was not logged yet."""
        if (first := self._first_frozen) is None:
            return
        self._first_frozen = None
        event = "coordinator lost its state" if first.replica.is_lost else "promise too high"
        facts = {"shard": first.id, "promised_epoch": first.epoch, "reason": self.why_frozen}
        log.error(event, extra=facts)

    # -- commands -------------------------------------------------------------------------------

    def submit(self, shard: Shard, command: Command, on_answer: OnAnswer | None = None) -> None:
        """Submit a command of the node itself: of a timer, an outcome or an outbox item.

        The number of such commands is not limited: there is at most one for each row of the shards,
        and there is no caller that could repeat a refused one. Once the shards are stopped, such
        commands are dropped; the next process finds the outstanding work in the state.
        """
        if self._state.over is not None:
            return
        self._inbox.put((shard, command, on_answer))
        self._state.plan()

    def submit_together(
        self, shard: Shard, commands: Sequence[Command], on_answer: OnAnswer
    ) -> None:
        """Submit commands for one entry; *on_answer* gets the answer to the last command."""
        if self._state.over is not None:
            return
        *others, last = commands
        self._inbox.put(*((shard, other, None) for other in others), (shard, last, on_answer))
        self._state.plan()

    async def ask(self, shard: Shard, command: Command) -> Reply:
        """Submit a request, and return its reply once the decision is committed.

        Raises:
            Refused: The decision refused the request, or requests are not accepted now.
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
            Refused: One of the requests is not accepted now, so none is submitted.
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
            Refused: The decisions can no longer be committed, or it is not known whether they are.
            NotPrimary: A decision is not committed after `COMMIT_WAIT_MAX`, and this node has no
                authority for one of *shards*.
            NotCommitted: A decision is not committed after `COMMIT_WAIT_MAX`.
        """
        await self._state.committed(shards)

    async def settled(self, *read: Shard) -> None:
        """Wait until all decisions of *read* so far are committed and applied.

        A request that reads a shard's memory or history calls this before the response is sent:
        the memory may be ahead of the commit, and another node may have become the primary, unless
        this node has authority when the response is sent (PROTOCOL R15).

        Args:
            read: The shards whose memory or rows were read.

        Raises:
            Refused: This node can no longer commit the decisions, because its storage failed, or
                because another node is now the primary, so the memory that was read is invalid.
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
        """Record a measurement of the space on the disk."""
        self._state.see_space(found.space)
        self._no_space = found.refusal

    def check_open(self, *commands: Command) -> None:
        """Refuse a request for *commands* that is not accepted now.

        Raises:
            Refused: The storage failed or the node stops; the disk is nearly full, and one of
                *commands* adds load; or too many requests wait.
        """
        refusal = self._state.over
        if self._no_space is not None and any(map(adds_load, commands)):
            refusal = refusal or self._no_space
        if refusal is not None:
            # The same object is raised many times, and would collect the frames of each raise.
            raise refusal.with_traceback(None)
        self._inbox.check_room()

    def situation(self, shard: Shard, now: Instant, slots: FreeSlots) -> Situation:
        """Return the facts, besides its state, on which a decision of *shard* may depend."""
        return Situation(
            now=now,
            entropy=self._entropy.draw(),
            position=shard.replica.copy.position,
            slots=slots,
            limits=self._limits,
            lead=Duration(max(0, now - self._clock.now())),
            decide_ahead=self._ahead,
            disk_space=self._state.space,
            facts=self._facts(),
            use_elsewhere=partial(self._quota_use.in_cluster, shards=self._shards, without=shard),
        )

    def use_of(self, namespace: str) -> Use:
        """Return the use of a namespace that has a quota, in the cluster."""
        return self._quota_use.in_cluster(namespace, self._shards)
