"""This node as a stand-in for primaries that it does not hear (docs/explanation/available.md).

    looks at every shard   is a primary heard that can commit?
    (rota.core.replication.authority.fallback_eligibility) stands in              a side begins,
    follows the available jobs, fires is served again        the side fires no more; what it did is
    told (rota.node.fallback.reconciliation)

It is the host of the sides: what their committed entries lead to is done here, on this node alone.
"""

import asyncio
import logging
from collections.abc import Iterable

from msgspec.structs import replace

from rota.core.decide.fire import first_fire
from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.execution import FINAL_EXECUTION_STATES, TaskStatus
from rota.core.model.fallback_ids import outward, shard_of_fallback
from rota.core.model.ids import JobId, NodeId, ShardId
from rota.core.model.job import Job, JobPlan
from rota.core.replication.authority.fallback_eligibility import FallbackEligibility
from rota.core.replication.messages import Message
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import Undecodable
from rota.core.vocabulary.commands import (
    Command,
    DeleteJob,
    FinishAttempt,
    Fire,
    FollowJob,
    StartTask,
    TimerCommand,
)
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.effects import (
    ClearTimer,
    Deliver,
    Effect,
    Launch,
    Publish,
    PublishJob,
    SetTimer,
    Stop,
    Timescale,
    WaitForSlot,
)
from rota.core.vocabulary.shard_configuration import Swap
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.attempts.slots import SlotTable
from rota.node.fallback.reconciliation import Reconciliation
from rota.node.peers.messages import Served, StandIn
from rota.node.peers.network import Network
from rota.node.shards.fallback_shards import EXECUTIONS_MAX, FallbackShards
from rota.node.shards.local_shards import Shards
from rota.node.shards.seams import Commit
from rota.node.shards.shard import Shard
from rota.node.shards.timers import Timers
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

CLAIMED_WITHIN = Duration(5 * SECOND)
"""How long a shard that has just been opened gives stand-ins time to claim what they fired."""


class StandIns:
    """The stand-ins of this node, and the host of their sides.

    Args:
        shards: Of this node.
        fallback_shards: Likewise.
        attempts: Run those of the sides.
        accounts: Tell what sides did.
        slot_table: For their attempts.
        timers: Theirs as well.
        network: To the other copies.
        node_id: This node.
        timing: The cluster's.
        after: How long no primary has to be heard.
        clock: Counts that.
    """

    def __init__(
        self,
        shards: Shards,
        fallback_shards: FallbackShards,
        attempts: LocalAttempts,
        accounts: Reconciliation,
        slot_table: SlotTable,
        timers: Timers,
        network: Network,
        *,
        node_id: NodeId,
        timing: Timing,
        after: Duration,
        clock: Clock,
    ) -> None:
        self._shards = shards
        self._fallback_shards = fallback_shards
        self._attempts = attempts
        self._accounts = accounts
        self._slot_table = slot_table
        self._timers = timers
        self._network = network
        self._node_id = node_id
        self._timing = timing
        self._after = after
        self._clock = clock
        now = clock.elapsed()
        self._standings = {
            shard.id: FallbackEligibility(shard.id, node_id, after=after, now=now)
            for shard in shards
        }
        self._opened_at: dict[ShardId, Instant] = {}
        self._ended_count: dict[ShardId, int] = {}
        """Of each open side, the executions that have ended and are not told."""
        self._waiting: dict[tuple[Shard, StartTask], None] = {}
        """Tasks of sides for which there was no place."""

    def start(self, commit: Commit, *, failure: "asyncio.Future[None]") -> None:
        """Begin to decide for sides, those first that an earlier life left."""
        self._fallback_shards.start(self, self, commit, failure=failure)
        self._fallback_shards.go_on()

    @property
    def standing_count(self) -> int:
        """Shards for whose primary this node stands in."""
        return sum(standing.is_standing for standing in self._standings.values())

    # -- whether to stand in --------------------------------------------------------------------

    def tick(self) -> None:
        """Look at every shard, tell others what this node wants, and tell what sides did."""
        now = self._clock.elapsed()
        for shard in self._shards:
            standing = self._standings[shard.id]
            was_standing = standing.is_standing
            is_served = self._is_served(shard, now)
            is_able = not is_served and shard.replica.counts and _has_available(shard)
            standing.tick(now, is_served=is_served, is_able=is_able)
            if standing.is_ready:
                self._tell_others(shard, StandIn(is_standing=standing.is_standing))
            if standing.is_standing and not was_standing:
                self._begin(shard)
            elif was_standing and not standing.is_standing:
                log.info("standing in no more", extra={"shard": shard.id})
            if is_served or not shard.replica.counts:
                # Who knows that its copy counts no more hears no primary, and knows who is it.
                self._tell(shard)
        self._start_waiting()

    def _is_served(self, shard: Shard, now: Instant) -> bool:
        primary = shard.replica.served_by(Instant(now - self._timing.silence))
        return primary is not None and self._standings[shard.id].is_silent(primary, now)

    def _tell_others(self, shard: Shard, word: StandIn) -> None:
        newest = shard.replica.newest
        for node_id in newest.members if newest is not None else ():
            if node_id != self._node_id:
                self._network.send(node_id, shard.id, word)

    def heard(self, shard: Shard, sender: NodeId, word: StandIn) -> None:
        """Take the word of another copy that wants to stand in; tell it if there is no need to.

        One that counts no more may not have heard so: it is told, and its word means nothing.
        """
        now, newest = self._clock.elapsed(), shard.replica.newest
        if newest is not None and sender in newest.members:
            standing = self._standings[shard.id]
            standing.record_announcement(sender, is_standing=word.is_standing, now=now)
        if self._is_served(shard, now):
            self._network.send(sender, shard.id, Served())

    def told_served(self, shard: Shard) -> None:
        """Take the word of another copy that it hears a primary."""
        self._standings[shard.id].record_served(self._clock.elapsed())

    # -- the primary's patience -----------------------------------------------------------------

    def shard_opened(self, shard: Shard) -> None:
        """Note since when this node decides for a shard."""
        self._opened_at[shard.id] = self._clock.elapsed()

    def puts_off(self, shard: Shard, command: TimerCommand) -> bool:
        """Put a fire off that a stand-in may have done, until it can have claimed it.

        Only one that is overdue by so much that somebody may have stood in, and only just after
        the shard was opened: what nobody has claimed by then is fired.
        """
        until = later(self._opened_at.get(shard.id, Instant(0)), CLAIMED_WITHIN)
        now = self._clock.elapsed()
        if now >= until or not isinstance(command, Fire) or not shard.is_open:
            return False
        plan = shard.state.plans.get(command.job_id)
        due = first_fire(plan) if plan is not None else None
        if due is None or command.job_id not in shard.state.available:
            return False
        if shard.time(self._clock) - due < self._after:
            return False
        at = later(shard.time(self._clock), Duration(until - now))
        self._timers.set(shard.id, SetTimer(at, command, Timescale.WALL), at)
        return True

    # -- a side's work --------------------------------------------------------------------------

    def _begin(self, shard: Shard) -> None:
        """Have the side of a shard fire its available jobs."""
        log.warning("standing in", extra={"shard": shard.id, "epoch": shard.epoch})
        side = self._fallback_shards.of(shard)
        if side.is_open:
            self._follow(shard, side)
        else:
            self._fallback_shards.begin(shard)

    def _follow(self, shard: Shard, side: Shard) -> None:
        """Have a side fire what the shard's copy here has, as applied, and nothing else.

        Of jobs with a task that wants labels which this node does not have, nothing is fired here:
        a side runs attempts on its own node only, and what waited for another would never end.
        """
        self._accounts.begin_anew(side)
        self._ended_count[side.id] = self._accounts.untold_count(side)
        followed: set[JobId] = set()
        for change in shard.file.records(Table.AVAILABLE):
            try:
                job = shard.file.record(Table.JOB, change.key)
                plan = shard.file.record(Table.PLAN, change.key)
            except Undecodable as error:
                extra = {"shard": shard.id, "job": change.key, "reason": str(error)}
                log.error("job not stood in for", extra=extra)
                continue
            assert isinstance(job, Job), change.key
            assert isinstance(plan, JobPlan), change.key
            if not self._may_run(job):
                continue
            followed.add(job.id)
            self._fallback_shards.submit(side, FollowJob(job=job, plan=plan))
        for job_id in [each for each in side.state.jobs if each not in followed]:
            self._fallback_shards.submit(side, DeleteJob(job_id=job_id))

    def _may_run(self, job: Job) -> bool:
        """Return True if this node has the labels that all tasks of *job* want."""
        place = self._slot_table.own_place()
        return all(place.matches(task.selector) for task in job.spec.tasks)

    def alarm(self, number: ShardId, command: TimerCommand) -> None:
        """Have a side's timer go off; it fires only while this node stands in, and has room."""
        side = self._fallback_shards[number]
        if isinstance(command, Fire) and not self._may_fire(side):
            return
        self._fallback_shards.submit(side, command)

    def _may_fire(self, side: Shard) -> bool:
        if not (side.is_open and self._standings[shard_of_fallback(side.id)].is_standing):
            return False
        return self._ended_count[side.id] + len(side.state.executions) < EXECUTIONS_MAX

    def _tell(self, shard: Shard) -> None:
        side = self._fallback_shards.opened_of(shard)
        if side is not None:
            self._accounts.tell(shard, side)

    def _start_waiting(self) -> None:
        """Offer places to the tasks of sides that wait for one, the first that waits first."""
        for side, command in list(self._waiting)[: max(0, self._slot_table.own_place().free)]:
            del self._waiting[side, command]
            self._fallback_shards.submit(side, command)

    # -- the sides' host (`rota.node.shards.seams.EffectHandler`)
    # ------------------------------------------------

    def opened(self, side: Shard) -> None:
        """Begin to act for a side; what was to run here and does not is lost."""
        self._timers.forget(side.id)
        for execution_id, tasks in side.state.tasks.items():
            for task in tasks.values():
                key = AttemptKey(execution_id, task.name, len(task.attempts))
                is_here = outward(key) in self._attempts.orders
                if task.status is TaskStatus.RUNNING and not is_here:
                    self._lose(side, key)
        shard = self._shards[shard_of_fallback(side.id)]
        if self._standings[shard.id].is_standing:
            self._follow(shard, side)
        else:
            self._ended_count[side.id] = self._accounts.untold_count(side)

    def _lose(self, side: Shard, key: AttemptKey) -> None:
        attempt = side.state.tasks[key.execution_id][key.task].attempts[-1]
        ending = Ending(
            outcome=Outcome.LOST,
            started_at=attempt.placed_at,
            finished_at=side.time(self._clock),
            reason=f"node {self._node_id} ended while it ran",
        )
        command = FinishAttempt(attempt=key, token=attempt.token, ending=ending)
        self._fallback_shards.submit(side, command)

    def unreadable(self, side: Shard) -> None:
        """Leave a side as it is: the log has the reason."""

    def closed(self, side: Shard) -> None:
        """Cease to act for a side."""
        self._timers.forget(side.id)
        self._waiting = {each: None for each in self._waiting if each[0] is not side}

    def unstarted(self, count: int) -> None:
        """Take back the places of attempts that are never launched."""
        self._slot_table.freed(count)

    def place_for(self, command: Command) -> FreeSlots:
        """Return where *command* may start attempts, and how many."""
        del command
        return self._slot_table.own_place()

    def decided(self, command: Command, started: int) -> None:
        """Take the places of what it starts."""
        del command
        self._slot_table.take(started)

    def committed(self, took: Duration) -> None:
        """Leave it: what a side's entry takes says nothing of the shards'."""

    def perform(self, side: Shard, effect: Effect) -> None:
        """Carry out an effect."""
        match effect:
            case Launch(order=order):
                self._attempts.launch(replace(order, key=outward(order.key)))
            case Stop(attempt=attempt):
                self._attempts.stop(outward(attempt))
            case SetTimer():
                self._timers.set(side.id, effect, side.time(self._clock))
            case ClearTimer():
                self._timers.clear(side.id, effect)
            case WaitForSlot(execution_id=execution_id, task=task):
                self._waiting[side, StartTask(execution_id=execution_id, task=task)] = None
            case Publish(status=status) if status in FINAL_EXECUTION_STATES:
                self._ended_count[side.id] += 1
            case Publish() | PublishJob() | Deliver():
                pass  # Its shard tells when it is told; and nobody waits for what a side does.

    # -- the sides' world (`rota.node.shards.seams.Outside`)
    # --------------------------------------------

    def send(self, shard: ShardId, messages: Iterable[tuple[NodeId, Message]]) -> None:
        """Refuse: a side has no other copy."""
        assert not list(messages), shard

    def swap(self, swap: Swap) -> None:
        """Refuse: nobody else has a say."""
        raise AssertionError(swap)

    def look(self) -> None:
        """Refuse, likewise."""
        raise AssertionError("a side looks for nobody")


def _has_available(shard: Shard) -> bool:
    return next(shard.file.records(Table.AVAILABLE), None) is not None
