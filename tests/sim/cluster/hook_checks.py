"""Checks of hooks at the end of a run: each event that is on record was delivered, and no other."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from rota.core.model.execution import FINAL_EXECUTION_STATES, Execution, ExecutionStatus, Origin
from rota.core.model.hook import HookEvent, notification_key
from rota.core.model.ids import ExecutionId, ShardId, fire_execution_id
from rota.core.model.job import Consistency, Job
from rota.core.model.ledger import FireOutcome
from rota.core.timing.instants import SECOND
from sim.cluster.checks import Violation
from sim.cluster.final_checks import Records
from sim.cluster.users import Story
from sim.cluster.world import World

OUTAGE_MAX = 90 * SECOND
"""Longest time without a primary: that of the faults, and of the recovery after them."""


def unsent(world: World) -> str:
    """Return a notification that waits for its delivery; empty if none does."""
    for number in range(world.plan.shard_count):
        found = world.primary_of(ShardId(number))
        if found is not None and found[1].state.notifications:
            return f"{next(iter(found[1].state.notifications))} waits for its delivery"
    return ""


def see_hooks(world: World, stories: list[Story], records: Records) -> None:
    """Check the webhooks and the executions that hooks began.

    Raises:
        Violation: An event was not delivered, or a delivered event is not on record.
    """
    if not world.plan.has_hooks:
        return
    accepted = world.receiver.accepted
    world.counts["webhooks"] += len(accepted)
    world.counts["webhooks repeated"] += sum(count > 1 for count in accepted.values())
    for story in stories:
        job = records.jobs.get(story.job_id) if story.job_id else None
        if job is not None and not story.is_replaced:
            wanted, possible = _events(job, records)
            found = {each for each in accepted if each.startswith(job.id)}
            if missing := wanted - found:
                raise Violation(f"hooks: {sorted(missing)[:5]} were never delivered")
            if surplus := found - wanted - possible:
                raise Violation(f"hooks: {sorted(surplus)[:5]} are not on record")
    _see_triggered(records, world)


def _events(job: Job, records: Records) -> tuple[set[str], set[str]]:
    """Return the ids of the notifications of *job* that must exist, and those that may."""
    wanted, possible = set[str](), set[str]()
    for entry in records.ledger.get(job.id, []):
        if entry.outcome is FireOutcome.MISSED and not entry.reason.startswith("disk_full"):
            missed = fire_execution_id(job.id, entry.fire_at, entry.schedule)
            # Part of an entry of a stand-in may have been recorded under a later fire time.
            wanted |= _ids(job, missed, HookEvent.LATE)
    for execution in _own(job, records):
        if execution.origin is Origin.HOOK:
            continue
        match execution.status:
            case ExecutionStatus.FAILED:
                wanted |= _ids(job, execution.id, HookEvent.FAILURE)
            case ExecutionStatus.SUCCESS:
                wanted |= _ids(job, execution.id, HookEvent.SUCCESS)
                possible |= _ids(job, execution.id, HookEvent.RECOVERY)
            case _:
                pass
        late = _ids(job, execution.id, HookEvent.LATE)
        if _must_be_late(job, execution):
            wanted |= late
        elif _may_be_late(job, execution):
            possible |= late
    if job.spec.consistency is Consistency.STRICT:
        recovered = set(_recoveries(job, records))
        possible = {each for each in possible if f".{HookEvent.RECOVERY.value}." not in each}
        wanted |= recovered
    return wanted, possible


def _own(job: Job, records: Records) -> Iterator[Execution]:
    return (each for each in records.executions.values() if each.job_id == job.id)


def _ids(job: Job, execution_id: ExecutionId, event: HookEvent) -> set[str]:
    return {
        notification_key(execution_id, event, number)
        for number, hook in enumerate(job.spec.hooks)
        if hook.event is event and hook.webhook
    }


def _must_be_late(job: Job, execution: Execution) -> bool:
    """Return True if the hooks for lateness must have run: it ended after the deadline."""
    if execution.stand_in or execution.status not in FINAL_EXECUTION_STATES:
        return False
    deadline = execution.due_at + job.spec.late_after
    if execution.status is ExecutionStatus.CANCELLED:
        # An outage may delay the timer, and users cancel meanwhile.
        return execution.cancelled_at > deadline + OUTAGE_MAX
    return execution.finished_at > deadline


def _may_be_late(job: Job, execution: Execution) -> bool:
    """Return True if the hooks for lateness may have run: it did not end before the deadline.

    The timer is that of the primary's clock, which may run 2 % faster than the shard's time.
    """
    is_over = execution.status in FINAL_EXECUTION_STATES
    tolerance = job.spec.late_after // 20
    return not is_over or execution.finished_at >= (
        execution.due_at + job.spec.late_after - tolerance
    )


def _recoveries(job: Job, records: Records) -> Iterator[str]:
    """Yield the ids for successes after a failure, in the order of the ends of a strict job."""
    ended = [
        each
        for each in _own(job, records)
        if each.status in (ExecutionStatus.FAILED, ExecutionStatus.SUCCESS)
    ]
    is_failing = False
    for execution in sorted(ended, key=lambda each: each.finished_at):
        is_success = execution.status is ExecutionStatus.SUCCESS
        if is_success and is_failing and execution.origin is not Origin.HOOK:
            yield from _ids(job, execution.id, HookEvent.RECOVERY)
        is_failing = not is_success


def _see_triggered(records: Records, world: World) -> None:
    """Each event triggers a job once at most, and is an event of its execution."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for execution in records.executions.values():
        if execution.origin is not Origin.HOOK:
            continue
        world.counts["triggered by hooks"] += 1
        event = msgspec.json.decode(execution.parameters)
        source = records.executions.get(event["executionId"])
        if event["status"] in ("failed", "success") and (
            source is None or source.status.value != event["status"]
        ):
            raise Violation(f"hooks: {execution.id} was begun by {event}, and there is {source}")
        key = event["executionId"], event["event"], execution.job_id
        seen[key] += 1
        if seen[key] > _hook_count(records, event["jobId"], event["event"], execution.job_name):
            raise Violation(f"hooks: {key} triggered {seen[key]} executions")


def _hook_count(records: Records, job_id: str, event: str, target: str) -> int:
    """Return how many hooks of a job trigger *target* at an event."""
    job = next((each for each in records.jobs.values() if each.id == job_id), None)
    if job is None:
        return 1
    hooks = [each for each in job.spec.hooks if each.event.value == event and each.job == target]
    return max(1, len(hooks))
