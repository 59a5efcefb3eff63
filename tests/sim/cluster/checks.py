"""What must hold, as seen from outside; I1 to I14 and L1 are those of PROTOCOL."""

from collections.abc import Iterator
from itertools import pairwise

from rota.core.changes import Table
from rota.core.dag import TriggerRule
from rota.core.execution import (
    FINAL_EXECUTION_STATES,
    FINAL_TASK_STATES,
    Execution,
    Task,
    TaskStatus,
)
from rota.core.ids import ExecutionId, Index, JobId, ShardId
from rota.core.instants import LATEST_INSTANT, SECOND, Instant
from rota.core.job import Job, TaskSpec
from rota.core.ledger import LedgerEntry
from rota.core.state import load_state
from rota.node.shard import Shard
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from sim.cluster.machine import Machine
from sim.cluster.oracle import expected
from sim.cluster.users import Story, Triggering, mark
from sim.cluster.world import World

OVERDUE = 3 * SECOND
"""A timer that is due so long ago was forgotten."""


class Violation(Exception):
    """A rule that must always hold did not."""


# -- at every moment -------------------------------------------------------------------------------


def see_authority(world: World) -> None:
    """I2: at most one node has the right to act for a shard."""
    if world.now() <= world.excused_until:
        return
    for number in range(world.plan.shard_count):
        acting = [machine.id for machine, _ in world.acting(ShardId(number))]
        if len(acting) > 1:
            raise Violation(f"I2: {' and '.join(acting)} both have authority for shard {number}")


def see_copies(world: World) -> None:
    """I3: copies that count and have applied as much have the same rows."""
    for number, configuration in world.configurations.items():
        rows_of: dict[Index, list[tuple[bytes, bytes]]] = {}
        for copy in configuration.sync:
            machine = world.machines[copy.node_id]
            if machine.works is None or machine.works.parts.shards.refusal is not None:
                continue  # It is off, or its disk has failed.
            shard = machine.works.parts.shards[number]
            if shard.replica.copy.allocation != copy.allocation:
                continue
            rows = _rows(machine.store, number)
            if rows_of.setdefault(shard.file.applied, rows) != rows:
                raise Violation(f"I3: {machine.id} has other rows of shard {number} than others")


# -- liveness --------------------------------------------------------------------------------------


def unwell(world: World) -> str:
    """Return what L1 still lacks; nothing if all is well."""
    configurations, targets = world.configurations, world.targets
    for number, target in enumerate(targets):
        shard_id = ShardId(number)
        configuration = configurations.get(shard_id)
        if configuration is None:
            return f"shard {number} never began"
        if set(configuration.members) != set(target):
            return f"shard {number} is on {configuration.members}, not on {target}"
        if configuration.primary != target[0]:
            return f"shard {number} has {configuration.primary} as its primary, not {target[0]}"
        found = world.primary_of(shard_id)
        if found is None:
            return f"shard {number} is not open: {configuration}"
        if lack := _unwell_inside(world, *found):
            return f"shard {number} on {found[0].id}: {lack}"
    return ""


def _unwell_inside(world: World, machine: Machine, shard: Shard) -> str:
    state, now = shard.state, shard.time(machine.clock)
    for job_id, plan in state.plans.items():
        for due in plan.next_fires:
            if due is not None and due < now - OVERDUE:
                return f"job {job_id} has not fired at {due}, {(now - due) / SECOND:.1f} s ago"
    for execution_id, tasks in state.tasks.items():
        for task in tasks.values():
            if task.status is TaskStatus.RUNNING:
                attempt = task.attempts[-1]
                seen = world.observer.of_task(execution_id, task.name)
                is_alive = any(each.token == attempt.token and not each.over for each in seen)
                if not is_alive and attempt.placed_at < now - OVERDUE:
                    return f"{execution_id}/{task.name} runs, and no attempt is alive: {attempt}"
    if shard.state.outbox:
        return f"letters wait: {list(shard.state.outbox)}"
    return ""


def unfinished(world: World) -> str:
    """Return an execution that has not ended, though it is not held; nothing if all have."""
    for number in range(world.plan.shard_count):
        found = world.primary_of(ShardId(number))
        if found is None:
            return f"shard {number} is not open"
        for execution in found[1].state.executions.values():
            if not execution.hold.value:
                return f"{execution}: {found[1].state.tasks[execution.id]}"
    return ""


def unequal(world: World, number: ShardId) -> str:
    """Return how the copies of a shard differ that have applied as much; I3 if they do.

    Raises:
        Violation: They have applied the same, and have other rows.
    """
    found = world.primary_of(number)
    if found is None:
        return "it is not open"
    machine, shard = found
    wanted = _rows(machine.store, number)
    for node_id in world.configurations[number].members:
        works = world.machines[node_id].works
        if works is None or works.parts.shards[number].file.applied != shard.file.applied:
            return f"{node_id} has not applied {shard.file.applied}"
        if _rows(world.machines[node_id].store, number) != wanted:
            raise Violation(
                f"I3: rows of shard {number} on {node_id} are not those of {machine.id}"
            )
    return ""


def _rows(store: MemoryStore, number: ShardId) -> list[tuple[bytes, bytes]]:
    start, end = shard_prefix(number), shard_prefix(ShardId(number + 1))
    families = (Family.STATE, Family.HIST)
    return [row for family in families for row in store.scan(family, start, end)]


# -- in the end ------------------------------------------------------------------------------------


class Records:
    """All that the cluster has on record, as its primaries tell.

    Args:
        world: Well, so that every shard has a primary.

    Attributes:
        jobs: By id.
        executions: Finished or not.
        tasks: Of each execution, by name.
        ledger: Of each job, oldest first.
    """

    def __init__(self, world: World) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.executions: dict[ExecutionId, Execution] = {}
        self.tasks: dict[ExecutionId, dict[str, Task]] = {}
        self.ledger: dict[JobId, list[LedgerEntry]] = {}
        self.times: list[Instant] = []
        """Of each shard, when this was read."""
        for number in range(world.plan.shard_count):
            found = world.primary_of(ShardId(number))
            assert found is not None, number
            self._read(*found)

    def _read(self, machine: Machine, shard: Shard) -> None:
        assert machine.works is not None
        # As stored: memory runs ahead, and what ends there is not history yet.
        history, state = machine.works.parts.history, load_state(shard.file.changes())
        self.times.append(shard.time(machine.clock))
        self.jobs.update(state.jobs)
        self.executions.update(state.executions)
        self.tasks.update(state.tasks)
        job_ids = {*state.jobs, *(JobId(each[:16]) for each in _past_executions(machine, shard))}
        for job_id in sorted(job_ids):
            for execution in history.executions_of(shard.id, job_id, None):
                if execution.id in self.executions:
                    raise Violation(f"I14: {execution.id} is both finished and not")
                self.executions[execution.id] = execution
                self.tasks[execution.id] = history.tasks(shard.id, execution.id)
            entries = history.ledger(shard.id, job_id, Instant(0), LATEST_INSTANT)
            self.ledger[job_id] = list(entries)


def see_end(world: World, stories: list[Story]) -> None:
    """Check everything that can be known when all is over.

    Raises:
        Violation: Of any of it.
    """
    records = Records(world)
    for story in stories:
        _see_job(story, records)
        for triggering in story.triggers:
            _see_trigger(world, story, triggering, records)
        _see_ledger(story, records)
    for execution_id in records.executions:
        _see_execution(world, execution_id, records)
    _see_attempts(world)


def _see_job(story: Story, records: Records) -> None:
    """I1, C1, C2: what a user was told about a job is so."""
    named = [job for job in records.jobs.values() if job.spec.full_name == story.spec.full_name]
    if len(named) > 1:
        raise Violation(f"C2: {len(named)} jobs are named {story.spec.full_name}")
    if not named:
        if story.is_there:
            raise Violation(f"C1: {story.spec.full_name} was made, and is gone")
        return
    job = named[0]
    if story.is_there is False and story.is_certain:
        raise Violation(f"C1: {story.spec.full_name} was deleted, and is there")
    if story.job_id not in (None, job.id):
        raise Violation(f"C1: {story.spec.full_name} was {story.job_id}, and is {job.id}")
    if not story.is_replaced and (job.version, job.spec) != (1, story.spec):
        raise Violation(f"C1: {job.spec.full_name} is not as it was made: {job}, {story.spec}")
    if story.is_paused is not None and story.is_certain and story.is_paused != bool(job.pause):
        told = "paused" if story.is_paused else "resumed"
        raise Violation(f"C1: {job.spec.full_name} was {told}, and that is undone")


def _see_trigger(world: World, story: Story, triggering: Triggering, records: Records) -> None:
    """C1, C2: a trigger made one execution; one whose answer is unknown at most one."""
    text = f'"{mark(triggering.number)}"'
    made = [each.id for each in records.executions.values() if text in each.parameters]
    if len(made) > 1:
        raise Violation(f"C2: {text} made {made}")
    execution_id = triggering.execution_id
    if execution_id is None:
        return
    if made != [execution_id]:
        raise Violation(f"C1: {text} made {execution_id}, and there is {made}")
    execution = records.executions[execution_id]
    if triggering.seen is not None and execution.status is not triggering.seen:
        raise Violation(f"I14: {execution_id} was {triggering.seen}, and is {execution.status}")
    if triggering.cancelled_at is not None:
        for name in records.tasks[execution_id]:
            for sighting in world.observer.of_task(execution_id, name):
                if sighting.began > triggering.cancelled_at:
                    raise Violation(f"I13: {sighting} began after its execution was cancelled")


def _see_ledger(story: Story, records: Records) -> None:
    """I11: every fire time of a job that was never replaced has exactly one outcome."""
    job = records.jobs.get(story.job_id) if story.job_id else None
    if job is None or story.is_replaced:
        return
    for number, schedule in enumerate(job.spec.schedules):
        until = Instant(min(records.times) - OVERDUE)
        entries = [each for each in records.ledger[job.id] if each.schedule == number]
        covered: list[Instant] = []
        for entry in entries:
            times = expected(schedule.text, Instant(entry.fire_at - 1), entry.until)
            if len(times) != entry.count or times[0] != entry.fire_at or times[-1] != entry.until:
                raise Violation(f"I11: {entry} speaks of {len(times)} fire times: {times[:5]}")
            covered += times
        wanted = expected(schedule.text, job.created_at, until)
        early = [at for at in covered if at <= until]
        if early != wanted:
            missing, surplus = set(wanted) - set(early), set(early) - set(wanted)
            raise Violation(
                f"I11: {job.id} ({schedule.text}): no outcome for {sorted(missing)}, some for "
                f"{sorted(surplus)}, {len(early) - len(set(early))} twice"
            )
    for entry in records.ledger[job.id]:
        if entry.outcome.value == "fired" and entry.execution_id not in records.executions:
            raise Violation(f"I11: {entry}, and there is no such execution")


def _see_execution(world: World, execution_id: ExecutionId, records: Records) -> None:
    """I9, I13, I14: an execution is whole, and its tasks went as its job says."""
    execution, tasks = records.executions[execution_id], records.tasks[execution_id]
    if execution.status in FINAL_EXECUTION_STATES:
        ongoing = [each.name for each in tasks.values() if each.status not in FINAL_TASK_STATES]
        if ongoing or not tasks:
            raise Violation(f"C2: {execution} has ended, of its tasks {ongoing} have not")
    for task in tasks.values():
        numbers = [attempt.number for attempt in task.attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            raise Violation(f"I9: {execution_id}/{task.name} has attempts {numbers}")
        tokens = [attempt.token for attempt in task.attempts]
        if any(before >= after for before, after in pairwise(tokens)):
            raise Violation(f"I9: {execution_id}/{task.name} has tokens {tokens}")
        known = set(tokens)
        for sighting in world.observer.of_task(execution_id, task.name):
            if sighting.token not in known:
                raise Violation(f"I8: {sighting} ran and is not on record: {task}")
    job = records.jobs.get(execution.job_id)
    if job is not None and job.version == execution.job_version:
        for spec in job.spec.tasks:
            _see_order(world, execution_id, spec)


def _see_order(world: World, execution_id: ExecutionId, spec: TaskSpec) -> None:
    """I13: no task begins before those that it needs have ended, unless one failure is enough."""
    if spec.rule is TriggerRule.ONE_FAILED:
        return
    own = world.observer.of_task(execution_id, spec.name)
    for needed in spec.needs:
        for before in world.observer.of_task(execution_id, needed):
            if own and (before.over is None or before.over > own[0].began):
                raise Violation(f"I13: {own[0]} needs {needed}, which ran until {before.over}")


def _see_attempts(world: World) -> None:
    """I9, I10: attempts of a task follow one another; no number and no token comes twice."""
    for sightings in world.observer.tasks:
        for before, after in pairwise(sightings):
            if before.token >= after.token or before.key.number >= after.key.number:
                raise Violation(f"I9: {after} began after {before}")
            if before.over is None or before.over > after.began:
                raise Violation(f"I10: {after} began while another ran: {before}")


def _past_executions(machine: Machine, shard: Shard) -> Iterator[str]:
    start = shard_prefix(shard.id) + bytes((Table.PAST_EXECUTION,))
    end = shard_prefix(shard.id) + bytes((Table.PAST_EXECUTION + 1,))
    for key, _ in machine.store.scan(Family.HIST, start, end):
        yield key[3:].decode()
