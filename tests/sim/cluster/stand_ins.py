"""Checks of stand-ins: they fire what they have to, and their runs are on record and marked."""

from collections.abc import Iterator

from rota.core.decide.fire import first_fire
from rota.core.model.fallback_ids import shard_of_fallback
from rota.core.model.ids import ExecutionId, NodeId, ShardId, instant_of, job_of
from rota.core.model.job import Job, JobPlan
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.changes import StandInExecution, Table
from rota.core.vocabulary.codec import decode_record
from rota.node.shards.shard import Shard
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from sim.cluster.checks import Violation
from sim.cluster.final_checks import Records
from sim.cluster.machine import Machine
from sim.cluster.observer import Sighting
from sim.cluster.world import World

SLACK = 4 * SECOND
"""Permitted delay of a stand-in: silence is noticed after 2 s, and by ticks."""
OVERDUE = 3 * SECOND


class Alone:
    """Checks that isolated machines fire available jobs; `see` is called periodically.

    Args:
        world: The simulated cluster.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[NodeId, tuple[object, int]] = {}

    def see(self) -> None:
        """Check all machines.

        Raises:
            Violation: One was isolated for long enough, and does not fire what is due.
        """
        now = self._world.now()
        for machine in self._world.machines.values():
            life = machine.life
            if life is None or not self._is_well_alone(machine):
                self._since.pop(machine.id, None)
                continue
            known = self._since.get(machine.id)
            if known is None or known[0] is not life:
                self._since[machine.id] = life, now
            elif now - known[1] > self._world.plan.stand_in_after + SLACK:
                self._see(machine)

    def _is_well_alone(self, machine: Machine) -> bool:
        """Return True if a machine is isolated and has no other fault."""
        return (
            self._world.links.is_alone(machine.id)
            and machine.wiring is not None
            # A node that stops fires nothing, for as long as it tries to hand its shards over.
            and not machine.wiring.cluster.membership.is_leaving
            and not (
                machine.is_paused or machine.is_to_fail or machine.slow_sync or machine.is_frozen
            )
            and not machine.clock.wall_clock_error
        )

    def _see(self, machine: Machine) -> None:
        wiring, labels = machine.wiring, set(machine.labels.items())
        assert wiring is not None
        for shard in wiring.context.shards:
            if not shard.replica.counts:
                continue
            for job in available_jobs(shard):
                if not all(set(task.selector) <= labels for task in job.spec.tasks):
                    continue
                plan = shard.file.record(Table.PLAN, job.id)
                assert isinstance(plan, JobPlan)
                fallback = wiring.fallback_shards.opened_of(shard)
                if fallback is None:
                    raise Violation(f"stand-in: {machine.id} has no fallback shard for {shard.id}")
                own = fallback.state.plans.get(job.id)
                due = first_fire(own) if own else None
                if own is None or (due is not None and due < machine.clock.now() - OVERDUE):
                    raise Violation(f"stand-in: {machine.id} does not fire {job.id}: {own}, {plan}")
                self._world.counts["looks at stand-ins"] += 1


def available_jobs(shard: Shard) -> Iterator[Job]:
    """Yield the available jobs of a copy, as applied."""
    for change in shard.file.records(Table.AVAILABLE):
        job = shard.file.record(Table.JOB, change.key)
        assert isinstance(job, Job)
        yield job


def undelivered(world: World) -> str:
    """Describe a fallback shard with undelivered records; empty if there is none."""
    for machine in world.machines.values():
        wiring = machine.wiring
        for fallback in wiring.fallback_shards.opened if wiring is not None else ():
            number, executions = (
                shard_of_fallback(fallback.id),
                list(fallback.state.executions.values()),
            )
            return f"{machine.id} has a fallback shard for {number}: {executions}"
    return ""


def see_stand_ins(world: World, records: Records) -> None:
    """Check that attempts of stand-ins are on record: as executions, or as marked duplicates.

    Raises:
        Violation: One is not, or its stand-in had no right to run it.
    """
    duplicates = dict(_duplicates(world))
    for sighting in world.observer.beside:
        if not sighting.was_allowed:
            raise Violation(f"stand-in: {sighting} is of a strict job")
        if not _is_lost(world, sighting.node_id):
            _see_sighting(world, sighting, records, duplicates)
    for entry in (each for entries in records.ledger.values() for each in entries):
        is_claimed = entry.outcome is FireOutcome.FIRED and bool(entry.reason)
        is_excused = any(each in entry.reason for each in world.machines if _is_lost(world, each))
        if is_claimed and entry.execution_id not in records.executions and not is_excused:
            raise Violation(f"stand-in: {entry}, and its execution is not on record")
    for execution in records.executions.values():
        if execution.stand_in:
            own = [each for each in world.observer.sightings if each.key[0] == execution.id]
            if own:
                raise Violation(f"stand-in: {execution} was claimed, and ran again: {own}")


def _see_sighting(
    world: World,
    sighting: Sighting,
    records: Records,
    duplicates: dict[tuple[ExecutionId, NodeId], StandInExecution],
) -> None:
    execution_id, node_id = sighting.key.execution_id, sighting.node_id
    duplicate = duplicates.get((execution_id, node_id))
    own = records.executions.get(execution_id)
    if duplicate is not None:
        world.counts["possible duplicates"] += 1
        execution = duplicate.execution
        tasks = {task.name: task for task in duplicate.tasks}
        if own is not None and not own.stand_in:
            _see_tokens(sighting, records)
    elif own is not None and own.stand_in == node_id:
        world.counts["executions of stand-ins alone"] += 1
        execution = own
        tasks = records.tasks[execution_id]
    else:
        raise Violation(f"stand-in: {sighting} is neither on record nor a marked duplicate")
    if sighting.token not in [attempt.token for attempt in tasks[sighting.key.task].attempts]:
        raise Violation(f"stand-in: {sighting} is not among the recorded attempts: {tasks}")
    job, at = records.jobs.get(job_of(execution_id)), instant_of(execution_id)
    if job is None or job.version != execution.job_version:
        return  # The shard fired another version, at the fire times of that one.
    ledger = records.ledger[job.id]
    if any(entry.fire_at <= at <= entry.until for entry in ledger) or _has_ended(job, ledger, at):
        return
    raise Violation(f"stand-in: {sighting} ran, and its fire time has no outcome")


def _has_ended(job: Job, ledger: list[LedgerEntry], at: Instant) -> bool:
    """Return True if a schedule had begun its most executions before *at*.

    A stand-in counts from its copy, so it may begin more while the other side ends the schedule.
    """
    for number in range(len(job.spec.schedules)):
        fired = [
            entry.fire_at
            for entry in ledger
            if entry.schedule == number and entry.outcome is FireOutcome.FIRED
        ]
        most = job.spec.policy_of(number).max_executions
        if most and len(fired) >= most and fired[-1] < at:
            return True
    return False


def _see_tokens(sighting: Sighting, records: Records) -> None:
    """Check that a stand-in's attempt outranks none of the shard's own for the same execution."""
    task = records.tasks[sighting.key.execution_id].get(sighting.key.task)
    for attempt in task.attempts if task is not None else ():
        if attempt.token <= sighting.token:
            raise Violation(f"stand-in: {sighting} outranks the shard's own {attempt}")


def _duplicates(world: World) -> Iterator[tuple[tuple[ExecutionId, NodeId], StandInExecution]]:
    for number in range(world.plan.shard_count):
        found = world.primary_of(ShardId(number))
        assert found is not None, number
        prefix = shard_prefix(ShardId(number))
        start, end = prefix + bytes((Table.DUPLICATE,)), prefix + bytes((Table.DUPLICATE + 1,))
        for _, value in found[0].store.scan(Family.HIST, start, end):
            duplicate = decode_record(Table.DUPLICATE, value)
            assert isinstance(duplicate, StandInExecution)
            yield (duplicate.execution.id, duplicate.node_id), duplicate


def _is_lost(world: World, node_id: NodeId) -> bool:
    """Return True if a machine lost a disk with undelivered records, or left for good."""
    machine = world.machines[node_id]
    return machine.has_left or machine.store_id != f"{node_id}-1"
