"""Stand-ins: fire times of available jobs while no primary can commit.

The explanation is docs/explanation/available.md. At every tick, for every shard:

    no contact with a primary that can commit
        (`rota.core.replication.authority.fallback_eligibility`)
        this node stands in: a fallback shard begins, follows the available jobs and fires them
    contact with a primary again
        the fallback shard stops firing, and its executions are transferred to the primary
        (`rota.node.fallback.reconciliation`)
"""

import logging

from rota.core.decide.fire import first_fire
from rota.core.model.fallback_ids import shard_of_fallback
from rota.core.model.ids import JobId, NodeId, ShardId
from rota.core.model.job import Job, JobPlan
from rota.core.replication.authority.fallback_eligibility import FallbackEligibility
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import Undecodable
from rota.core.vocabulary.commands import (
    DeleteJob,
    Fire,
    FollowJob,
    StartTask,
    TimerCommand,
)
from rota.core.vocabulary.effects import (
    SetTimer,
    Timescale,
)
from rota.node.attempts.slots import SlotTable
from rota.node.fallback.reconciliation import Reconciliation
from rota.node.peers.messages import Served, StandIn
from rota.node.peers.network import Network
from rota.node.shards.fallback_shards import EXECUTIONS_MAX, FallbackShards
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

CLAIMED_WITHIN = Duration(5 * SECOND)
"""The time after the opening of a shard in which stand-ins can claim their fires."""


class StandIns:
    """The stand-ins of this node, one for each shard.

    Args:
        shards: The shards of this node.
        fallback_shards: The fallback shards of this node.
        reconciliation: Transfers the executions of fallback shards to their shards.
        slot_table: The slots of this node.
        network: The network to the other nodes.
        node_id: This node.
        timing: The timeouts of the cluster.
        after: The time without contact with a primary after which a node stands in.
        clock: The clock of this node.
    """

    def __init__(
        self,
        shards: Shards,
        fallback_shards: FallbackShards,
        reconciliation: Reconciliation,
        slot_table: SlotTable,
        network: Network,
        *,
        node_id: NodeId,
        timing: Timing,
        after: Duration,
        clock: Clock,
    ) -> None:
        self._shards = shards
        self._fallback_shards = fallback_shards
        self._reconciliation = reconciliation
        self._slot_table = slot_table
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
        """The number of ended executions of each open fallback shard that are not reconciled."""
        self._waiting: dict[tuple[Shard, StartTask], None] = {}
        """Tasks of fallback shards that wait for a slot, in the order of their arrival."""

    @property
    def standing_count(self) -> int:
        """The number of shards for whose primary this node stands in."""
        return sum(standing.is_standing for standing in self._standings.values())

    # -- whether to stand in --------------------------------------------------------------------

    def tick(self) -> None:
        """Check every shard: announce, begin or end a stand-in, and transfer executions."""
        now = self._clock.elapsed()
        for shard in self._shards:
            standing = self._standings[shard.id]
            was_standing = standing.is_standing
            is_served = self._is_served(shard, now)
            is_able = not is_served and shard.replica.counts and _has_available(shard)
            standing.tick(now, is_served=is_served, is_able=is_able)
            if standing.is_ready:
                self._announce(shard, StandIn(is_standing=standing.is_standing))
            if standing.is_standing and not was_standing:
                self._begin(shard)
            elif was_standing and not standing.is_standing:
                log.info("stand-in ended", extra={"shard": shard.id})
            if is_served or not shard.replica.counts:
                # A node whose copy does not count gets no messages of the primary, but has its id.
                self._transfer(shard)
        self._start_waiting()

    def _is_served(self, shard: Shard, now: Instant) -> bool:
        primary = shard.replica.served_by(Instant(now - self._timing.silence))
        return primary is not None and self._standings[shard.id].is_silent(primary, now)

    def _announce(self, shard: Shard, message: StandIn) -> None:
        newest = shard.replica.newest
        for node_id in newest.members if newest is not None else ():
            if node_id != self._node_id:
                self._network.send(node_id, shard.id, message)

    def announced(self, shard: Shard, sender: NodeId, message: StandIn) -> None:
        """Record another copy's announcement; answer if this node has contact with a primary.

        A copy that no longer counts and has not detected that gets an answer too, but its
        announcement is not recorded.
        """
        now, newest = self._clock.elapsed(), shard.replica.newest
        if newest is not None and sender in newest.members:
            standing = self._standings[shard.id]
            standing.record_announcement(sender, is_standing=message.is_standing, now=now)
        if self._is_served(shard, now):
            self._network.send(sender, shard.id, Served())

    def served(self, shard: Shard) -> None:
        """Record that another copy has contact with a primary."""
        self._standings[shard.id].record_served(self._clock.elapsed())

    # -- on the primary -------------------------------------------------------------------------

    def shard_opened(self, shard: Shard) -> None:
        """Record the time at which this node opened a shard as its primary."""
        self._opened_at[shard.id] = self._clock.elapsed()

    def before_fire(self, shard: Shard, command: TimerCommand) -> SetTimer | None:
        """Return the timer that postpones a fire that a stand-in may already have made.

        A fire is postponed only if it is so overdue that a node may have stood in, and only within
        `CLAIMED_WITHIN` after the opening of the shard; stand-ins can claim it in that time.

        Returns:
            None if *command* is to be submitted now.
        """
        until = later(self._opened_at.get(shard.id, Instant(0)), CLAIMED_WITHIN)
        now = self._clock.elapsed()
        if now >= until or not isinstance(command, Fire) or not shard.is_open:
            return None
        plan = shard.state.plans.get(command.job_id)
        due = first_fire(plan) if plan is not None else None
        if due is None or command.job_id not in shard.state.available:
            return None
        if shard.time(self._clock) - due < self._after:
            return None
        at = later(shard.time(self._clock), Duration(until - now))
        return SetTimer(at, command, Timescale.WALL)

    # -- fallback shards ------------------------------------------------------------------------

    def _begin(self, shard: Shard) -> None:
        """Begin to fire the available jobs of a shard in its fallback shard."""
        log.warning("standing in", extra={"shard": shard.id, "epoch": shard.epoch})
        fallback = self._fallback_shards.of(shard)
        if fallback.is_open:
            self._follow(shard, fallback)
        else:
            self._fallback_shards.begin(shard)

    def _follow(self, shard: Shard, fallback: Shard) -> None:
        """Have a fallback shard fire the available jobs in the applied rows of the shard's copy.

        Jobs with a task that requires labels that this node does not have are not fired: a fallback
        shard runs attempts only on its own node, so such a task would wait forever.
        """
        self._reconciliation.restart(fallback)
        self._ended_count[fallback.id] = self._reconciliation.ended_count(fallback)
        followed: set[JobId] = set()
        for change in shard.file.records(Table.AVAILABLE):
            try:
                job = shard.file.record(Table.JOB, change.key)
                plan = shard.file.record(Table.PLAN, change.key)
            except Undecodable as error:
                extra = {"shard": shard.id, "job": change.key, "reason": str(error)}
                log.error("job skipped by stand-in", extra=extra)
                continue
            assert isinstance(job, Job), change.key
            assert isinstance(plan, JobPlan), change.key
            if not self._may_run(job):
                continue
            followed.add(job.id)
            self._fallback_shards.submit(fallback, FollowJob(job=job, plan=plan))
        for job_id in [each for each in fallback.state.jobs if each not in followed]:
            self._fallback_shards.submit(fallback, DeleteJob(job_id=job_id))

    def _may_run(self, job: Job) -> bool:
        """Return True if this node has the labels that all tasks of *job* require."""
        slots = self._slot_table.own_slots()
        return all(slots.matches(task.selector) for task in job.spec.tasks)

    def due(self, number: ShardId, command: TimerCommand) -> None:
        """Submit a timer's command to a fallback shard.

        A fire is submitted only while this node stands in and the fallback shard holds fewer than
        `EXECUTIONS_MAX` executions.
        """
        fallback = self._fallback_shards[number]
        if isinstance(command, Fire) and not self._may_fire(fallback):
            return
        self._fallback_shards.submit(fallback, command)

    def _may_fire(self, fallback: Shard) -> bool:
        if not (fallback.is_open and self._standings[shard_of_fallback(fallback.id)].is_standing):
            return False
        return self._ended_count[fallback.id] + len(fallback.state.executions) < EXECUTIONS_MAX

    def fallback_opened(self, fallback: Shard) -> None:
        """Handle the opening of a fallback shard; it follows jobs if this node stands in."""
        shard = self._shards[shard_of_fallback(fallback.id)]
        if self._standings[shard.id].is_standing:
            self._follow(shard, fallback)
        else:
            self._ended_count[fallback.id] = self._reconciliation.ended_count(fallback)

    def execution_ended(self, fallback: Shard) -> None:
        """Count an execution of a fallback shard that has ended."""
        self._ended_count[fallback.id] += 1

    def wait_for_slot(self, fallback: Shard, command: StartTask) -> None:
        """Queue a task of a fallback shard; `tick` submits *command* when a slot is free."""
        self._waiting[fallback, command] = None

    def forget_waiting(self, fallback: Shard) -> None:
        """Remove the tasks of a fallback shard from the queue for slots."""
        self._waiting = {each: None for each in self._waiting if each[0] is not fallback}

    def _transfer(self, shard: Shard) -> None:
        fallback = self._fallback_shards.opened_of(shard)
        if fallback is not None:
            self._reconciliation.transfer(shard, fallback)

    def _start_waiting(self) -> None:
        """Submit the starts of the first waiting tasks, as many as there are free slots."""
        for fallback, command in list(self._waiting)[: max(0, self._slot_table.own_slots().free)]:
            del self._waiting[fallback, command]
            self._fallback_shards.submit(fallback, command)


def _has_available(shard: Shard) -> bool:
    return next(shard.file.records(Table.AVAILABLE), None) is not None
