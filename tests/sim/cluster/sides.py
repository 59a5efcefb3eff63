"""Stand-ins: those who ought to fire do, and nothing that they did is lost or unmarked."""

from collections.abc import Iterator

from rota.core.decide.fire import first_fire
from rota.core.model.fallback_ids import shard_of_fallback
from rota.core.model.ids import ExecutionId, NodeId, ShardId, instant_of, job_of
from rota.core.model.job import Job, JobPlan
from rota.core.model.ledger import FireOutcome
from rota.core.timing.instants import SECOND
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
"""How much later than its time a stand-in may begin: silence is noticed after 2 s, and ticks."""
OVERDUE = 3 * SECOND


class Alone:
    """Looks whether machines that reach nobody go on with available jobs; to be asked again.

    Args:
        world: Where.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[NodeId, tuple[object, int]] = {}

    def see(self) -> None:
        """Look at all machines.

        Raises:
            Violation: One has been alone for long enough, and does not fire what is due.
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
        """Tell whether a machine reaches nobody, and has no other trouble."""
        return (
            self._world.links.is_alone(machine.id)
            and machine.wiring is not None
            and not (
                machine.is_paused or machine.is_to_fail or machine.slow_sync or machine.is_frozen
            )
            and not machine.clock.calendar_error
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
                side = wiring.fallback_shards.opened_of(shard)
                if side is None:
                    raise Violation(f"stand-in: {machine.id} has no side of shard {shard.id}")
                own = side.state.plans.get(job.id)
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


def untold(world: World) -> str:
    """Return a side of which not all is told; nothing if there is none."""
    for machine in world.machines.values():
        wiring = machine.wiring
        for side in wiring.fallback_shards.opened if wiring is not None else ():
            executions = list(side.state.executions.values())
            return f"{machine.id} has a side of shard {shard_of_fallback(side.id)}: {executions}"
    return ""


def see_sides(world: World, records: Records) -> None:
    """Check that what stand-ins ran is on record: as theirs, or beside what the shard ran.

    Raises:
        Violation: Something is not, or was not theirs to run.
    """
    accounts = dict(_accounts(world))
    for sighting in world.observer.beside:
        if not sighting.was_allowed:
            raise Violation(f"stand-in: {sighting} is of a strict job")
        if not _is_lost(world, sighting.node_id):
            _see_sighting(world, sighting, records, accounts)
    for entry in (each for entries in records.ledger.values() for each in entries):
        is_claimed = entry.outcome is FireOutcome.FIRED and bool(entry.reason)
        is_excused = any(each in entry.reason for each in world.machines if _is_lost(world, each))
        if is_claimed and entry.execution_id not in records.executions and not is_excused:
            raise Violation(f"stand-in: {entry}, and nobody told of it")
    for execution in records.executions.values():
        if execution.stand_in:
            own = [each for each in world.observer.sightings if each.key[0] == execution.id]
            if own:
                raise Violation(f"stand-in: {execution} was claimed, and ran again: {own}")


def _see_sighting(
    world: World,
    sighting: Sighting,
    records: Records,
    accounts: dict[tuple[ExecutionId, NodeId], StandInExecution],
) -> None:
    execution_id, node_id = sighting.key.execution_id, sighting.node_id
    account = accounts.get((execution_id, node_id))
    own = records.executions.get(execution_id)
    if account is not None:
        world.counts["possible duplicates"] += 1
        execution = account.execution
        tasks = {task.name: task for task in account.tasks}
        if own is not None and not own.stand_in:
            _see_tokens(sighting, records)
    elif own is not None and own.stand_in == node_id:
        world.counts["executions of stand-ins alone"] += 1
        execution = own
        tasks = records.tasks[execution_id]
    else:
        raise Violation(f"stand-in: {sighting} is neither on record nor a marked duplicate")
    if sighting.token not in [attempt.token for attempt in tasks[sighting.key.task].attempts]:
        raise Violation(f"stand-in: {sighting} is not among the attempts told: {tasks}")
    job, at = records.jobs.get(job_of(execution_id)), instant_of(execution_id)
    if job is None or job.version != execution.job_version:
        return  # What the shard fired instead of this version, it fired when that was due.
    if not any(entry.fire_at <= at <= entry.until for entry in records.ledger[job.id]):
        raise Violation(f"stand-in: {sighting} ran, and its fire time has no outcome")


def _see_tokens(sighting: Sighting, records: Records) -> None:
    """See that a stand-in's attempt outranks none of the shard's own for the same execution."""
    task = records.tasks[sighting.key.execution_id].get(sighting.key.task)
    for attempt in task.attempts if task is not None else ():
        if attempt.token <= sighting.token:
            raise Violation(f"stand-in: {sighting} outranks the shard's own {attempt}")


def _accounts(world: World) -> Iterator[tuple[tuple[ExecutionId, NodeId], StandInExecution]]:
    for number in range(world.plan.shard_count):
        found = world.primary_of(ShardId(number))
        assert found is not None, number
        prefix = shard_prefix(ShardId(number))
        start, end = prefix + bytes((Table.DUPLICATE,)), prefix + bytes((Table.DUPLICATE + 1,))
        for _, value in found[0].store.scan(Family.HIST, start, end):
            account = decode_record(Table.DUPLICATE, value)
            assert isinstance(account, StandInExecution)
            yield (account.execution.id, account.node_id), account


def _is_lost(world: World, node_id: NodeId) -> bool:
    """Tell whether a machine lost a disk, with what its sides had not told, or is gone for good."""
    machine = world.machines[node_id]
    return machine.has_left or machine.store_id != f"{node_id}-1"
