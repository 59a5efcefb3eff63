"""Checks of labels: tasks run on matching nodes, and give a reason if there is none."""

from collections.abc import Iterable

from rota.core.model.execution import Task, TaskStatus
from rota.core.model.ids import ShardId, job_of
from rota.core.state.shard_state import State
from sim.cluster.checks import Violation
from sim.cluster.final_checks import Records
from sim.cluster.world import World

ONGOING = (TaskStatus.READY, TaskStatus.RUNNING, TaskStatus.BACKING_OFF)


def waits_for_pool(world: World, tasks: Iterable[Task]) -> bool:
    """Return True if an execution waits for a label that no node has, with that reason."""
    missing = {
        f"waits for a node with pool={pool}"
        for pool in world.plan.pools
        if pool not in _pools_of_active(world)
    }
    ongoing = [task for task in tasks if task.status in ONGOING]
    return bool(ongoing) and all(task.reason in missing for task in ongoing)


def unfinished(world: World) -> str:
    """Return an execution that has not ended, though it is not held; nothing if there is none.

    Executions that wait for a label that no node has, with that reason, do not count, and those
    that wait for the end of another one that has not ended.
    """
    states: list[State] = []
    for number in range(world.plan.shard_count):
        found = world.primary_of(ShardId(number))
        if found is None:
            return f"shard {number} is not open"
        states.append(found[1].state)
    live = {execution_id for state in states for execution_id in state.executions}
    for state in states:
        for execution in state.executions.values():
            tasks = state.tasks[execution.id]
            is_calling = any(task.called in live for task in tasks.values())
            is_held = execution.hold.value or waits_for_pool(world, tasks.values())
            if not is_held and not is_calling:
                return f"{execution}: {tasks}"
    return ""


def see_pools(world: World, records: Records) -> None:
    """Check that each attempt ran on a node with the labels that its task requires.

    Raises:
        Violation: One did not.
    """
    for sighting in [*world.observer.sightings, *world.observer.beside]:
        execution_id, task, _ = sighting.key
        job, execution = (
            records.jobs.get(job_of(execution_id)),
            records.executions.get(execution_id),
        )
        if job is None or execution is None or job.version != execution.job_version:
            continue
        labels = world.machines[sighting.node_id].labels
        for spec in job.spec.tasks:
            if spec.name == task and not set(spec.selector) <= set(labels.items()):
                raise Violation(f"labels: {sighting} wants {spec.selector}, not {labels}")
        world.counts["attempts where they belong"] += bool(labels)


def _pools_of_active(world: World) -> set[str]:
    members = world.server.state.view().members.values()
    return {each.labels.get("pool", "") for each in members if each.state == "active"}
