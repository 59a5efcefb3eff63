"""Checks at the end of a run: records, answers to users and observed attempts agree.

The invariants (I) are in docs/explanation/protocol.md, C1 and C2 in docs/explanation/proof.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from rota.core.decide.recount_fires import COUNTED_AGAIN
from rota.core.model.backfill import ACTIVE, Backfill
from rota.core.model.execution import (
    FINAL_EXECUTION_STATES,
    FINAL_TASK_STATES,
    Execution,
    ExecutionStatus,
    Task,
)
from rota.core.model.ids import ExecutionId, JobId, NodeId, ShardId, job_of, task_of_step
from rota.core.model.job import Job, Overlap, TaskSpec
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.model.trigger_rules import EARLY
from rota.core.state.shard_state import load_state
from rota.core.timing.instants import LATEST_INSTANT, MILLISECOND, Instant
from rota.core.vocabulary.change_chain import (
    Action,
    ChainCheck,
    ChangeChain,
    UserChange,
    opened,
)
from rota.core.vocabulary.changes import Table
from rota.node.shards.shard import Shard
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from rota.storage.user_changes import UserChanges
from sim.cluster.checks import OVERDUE, Violation
from sim.cluster.jobs import TEARDOWN
from sim.cluster.machine import Machine
from sim.cluster.observer import Sighting
from sim.cluster.oracle import expected
from sim.cluster.users import Story, Triggering, mark
from sim.cluster.world import World

UNSUCCESSFUL = (ExecutionStatus.FAILED, ExecutionStatus.CANCELLED)
BEFORE_STAND_INS = 1_000_000
"""Attempts of stand-ins have higher numbers."""


class Records:
    """All records of the cluster, read from its primaries.

    Args:
        world: Without faults, so that every shard has a primary.

    Attributes:
        jobs: By id.
        executions: Finished or not.
        tasks: Of each execution, by name.
        ledger: Of each job, oldest first.
        changes: What users changed of each job and its executions, oldest first.
    """

    def __init__(self, world: World) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.executions: dict[ExecutionId, Execution] = {}
        self.tasks: dict[ExecutionId, dict[str, Task]] = {}
        self.ledger: dict[JobId, list[LedgerEntry]] = {}
        self.backfills: list[Backfill] = []
        self.changes: dict[JobId, list[UserChange]] = defaultdict(list)
        self.times: list[Instant] = []
        """Of each shard, the instant of reading."""
        for number in range(world.plan.shard_count):
            found = world.primary_of(ShardId(number))
            assert found is not None, number
            self._read(*found)

    def _read(self, machine: Machine, shard: Shard) -> None:
        assert machine.wiring is not None
        # As stored: the state in memory is ahead, and its ended executions are not history yet.
        history, state = machine.wiring.context.history, load_state(shard.file.changes())
        self.times.append(shard.time(machine.clock))
        self.jobs.update(state.jobs)
        self.executions.update(state.executions)
        self.tasks.update(state.tasks)
        self.backfills += [each for found in state.backfills.values() for each in found.values()]
        job_ids = {*state.jobs, *(JobId(each[:16]) for each in _past_executions(machine, shard))}
        for job_id in sorted(job_ids):
            for execution in history.executions_of(shard.id, job_id, None):
                assert isinstance(execution, Execution), execution
                if execution.id in self.executions:
                    raise Violation(f"I14: {execution.id} is both finished and not")
                self.executions[execution.id] = execution
                self.tasks[execution.id] = history.tasks(shard.id, execution.id)
            entries = history.ledger(shard.id, job_id, Instant(0), LATEST_INSTANT)
            self.ledger[job_id] = [each for each in entries if isinstance(each, LedgerEntry)]
        self._read_changes(history.user_changes, shard, state.chain)

    def _read_changes(self, changes: UserChanges, shard: Shard, chain: ChangeChain) -> None:
        """Read what users changed.

        Raises:
            Violation: The chain of a shard has a fault.
        """
        check = ChainCheck(chain)
        for key, row in changes.chain(shard.id, "", chain.last + 1):
            check.add(key, row)
            change = opened(row) if row else None
            if change is not None:
                self.changes[change.job_id].append(change)
        check.finish(chain.last)
        if check.fault:
            raise Violation(f"I3: shard {shard.id}: {check.fault}")


UNDER_WAY = 60 * MILLISECOND
"""Greatest delay of a message between distant nodes. The order to start an attempt on another node
can be under way when a cancel is answered (seed 5207); the order to stop it follows, and the
execution is cancelled once it has ended."""


def see_end(world: World, stories: list[Story]) -> None:
    """Run all checks of the end.

    Raises:
        Violation: One of the checks failed.
    """
    records = Records(world)
    for story in stories:
        _see_job(story, records)
        _see_changes(world, story, records)
        for triggering in story.triggers:
            _see_trigger(world, story, triggering, records)
        _see_ledger(story, records)
        _see_overlap(world, story, records)
    for execution_id in records.executions:
        _see_execution(world, execution_id, records)
    for backfill in records.backfills:
        _see_backfill(world, backfill, records)
    _see_attempts(world)


def _see_job(story: Story, records: Records) -> None:
    """I1, C1, C2: the records of a job match the answers to its user."""
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
    is_of_user = not job.spec.pause_after_failures  # Failures may pause it, and successes resume.
    is_known = story.is_paused is not None and story.is_certain and is_of_user
    if is_known and story.is_paused != bool(job.pause):
        done = "paused" if story.is_paused else "resumed"
        raise Violation(f"C1: {job.spec.full_name} was {done}, and that is undone")


def _see_changes(world: World, story: Story, records: Records) -> None:
    """C1, C2: each change of a job has one row, and the rows lead to the job as it is."""
    if story.job_id is None:
        return
    changes = records.changes[story.job_id]
    actions = Counter(each.action for each in changes)
    job = records.jobs.get(story.job_id)
    found = actions[Action.JOB_CREATED], actions[Action.JOB_DELETED]
    if found != (1, int(job is None)):
        raise Violation(f"C1: {story.spec.full_name} ({job}) has the changes {actions}")
    if job is None:
        return
    recounts = sum(each.detail == COUNTED_AGAIN for each in changes)
    pauses = actions[Action.JOB_PAUSED] - actions[Action.JOB_RESUMED] + recounts
    # The pauses of a circuit breaker are no changes of users.
    is_led_to = bool(job.spec.pause_after_failures) or pauses == int(job.pause is not None)
    if actions[Action.JOB_REPLACED] != job.version - 1 or not is_led_to:
        raise Violation(f"C2: {job} has the changes {actions}")
    if job.pause is not None and job.pause.is_automatic:
        world.counts["pauses by circuit breakers"] += 1


def _see_backfill(world: World, backfill: Backfill, records: Records) -> None:
    """Each time of a backfill has one execution, and the counts are right."""
    made = [each for each in records.executions.values() if each.backfill == backfill.id]
    failed = sum(each.status in UNSUCCESSFUL for each in made)
    own = (each for each in records.executions.values() if each.job_id == backfill.job_id)
    if backfill.status in ACTIVE and all(each.finished_at for each in own):
        raise Violation(f"backfill: nothing is unfinished, and {backfill} has not ended")
    times = {each.fire_at for each in made}
    counts = len(times), backfill.failed
    if counts != (backfill.begun, failed) or len(made) != len(times):
        raise Violation(f"backfill: {backfill} has {len(made)} executions for {len(times)} times")
    world.counts["executions of backfills"] += len(made)


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
        # A teardown begins after the cancellation.
        for name in records.tasks[execution_id].keys() - {TEARDOWN}:
            for sighting in world.observer.of_task(execution_id, name):
                if sighting.began > _last_arrival(world, sighting.node_id, triggering.cancelled_at):
                    raise Violation(f"I13: {sighting} began after its execution was cancelled")


def _last_arrival(world: World, node_id: NodeId, at: int) -> int:
    """Return when a node reads at the latest what was under way to it at *at*.

    A node that is paused when it arrives reads it afterwards (seed 900139).
    """
    arrival = at + UNDER_WAY
    pauses = world.machines[node_id].pauses
    return next((ended for began, ended in pauses if began <= arrival <= ended), arrival)


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
        most = job.spec.policy_of(number).max_executions
        begun = sum(entry.outcome is FireOutcome.FIRED for entry in entries)
        if most and begun > most:
            raise Violation(f"I11: {job.id} ({schedule.text}) began {begun} times, not {most}")
        if most and begun >= most:
            wanted = [at for at in wanted if at <= covered[-1]]
        early = [at for at in covered if at <= until]
        if early != wanted:
            missing, surplus = set(wanted) - set(early), set(early) - set(wanted)
            raise Violation(
                f"I11: {job.id} ({schedule.text}): no outcome for {sorted(missing)}, some for "
                f"{sorted(surplus)}, {len(early) - len(set(early))} twice"
            )
    for entry in records.ledger[job.id]:
        # A fire that a stand-in claimed has a reason; `sim.cluster.stand_ins` checks its execution.
        is_own = entry.outcome.value == "fired" and not entry.reason
        if is_own and entry.execution_id not in records.executions:
            raise Violation(f"I11: {entry}, and there is no such execution")


def _see_overlap(world: World, story: Story, records: Records) -> None:
    """I13: no more executions of a job run at the same time than it has always allowed."""
    job = records.jobs.get(story.job_id) if story.job_id else None
    if job is None or story.is_replaced or job.spec.overlap is Overlap.ALLOW:
        return
    own = [each for each in world.observer.sightings if job_of(each.key.execution_id) == job.id]

    def key_of(execution_id: ExecutionId) -> str:
        known = records.executions.get(execution_id)
        return known.concurrency_key if known is not None else ""

    for number, after in enumerate(own):
        running = {
            before.key.execution_id
            for before in own[:number]
            if (before.over is None or before.over > after.began)
            and key_of(before.key.execution_id) == key_of(after.key.execution_id)
        } - {after.key.execution_id}
        if len(running) >= job.spec.max_parallel:
            raise Violation(f"I13: {after} began while other executions ran: {running}")


def _see_execution(world: World, execution_id: ExecutionId, records: Records) -> None:
    """I9, I13, I14: an execution is whole, and its tasks follow the job's definition."""
    execution, tasks = records.executions[execution_id], records.tasks[execution_id]
    if execution.status in FINAL_EXECUTION_STATES:
        ongoing = [each.name for each in tasks.values() if each.status not in FINAL_TASK_STATES]
        if ongoing or not tasks:
            raise Violation(f"C2: {execution} has ended, of its tasks {ongoing} have not")
    _see_deadline(execution, min(records.times))
    for task in tasks.values():
        if task.kept_from:
            _see_kept(execution, task, records)
            continue
        numbers = [attempt.number for attempt in task.attempts]
        before = BEFORE_STAND_INS if execution.stand_in else 0
        if numbers != list(range(before + 1, before + len(numbers) + 1)):
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
            _see_order(world, execution_id, spec, list(tasks))


def _see_deadline(execution: Execution, now: Instant) -> None:
    """An execution is stopped at its deadline, and fails."""
    if execution.has_expired and execution.status in FINAL_EXECUTION_STATES:
        if execution.status is not ExecutionStatus.FAILED:
            raise Violation(f"deadline: {execution} has expired, and did not fail")
    elif execution.expires_at and not execution.cancelled_at:
        is_over = execution.status in FINAL_EXECUTION_STATES
        if not is_over and execution.expires_at < now - OVERDUE:
            raise Violation(f"deadline: {execution} has passed it")


def _see_kept(execution: Execution, task: Task, records: Records) -> None:
    """A kept task of a rerun is as it ended in the execution in which it ran."""
    ran = records.tasks.get(task.kept_from, {}).get(task.name)
    if ran is None or ran.kept_from or ran.status is not task.status:
        raise Violation(f"rerun: {execution.id} keeps {task}, which ended as {ran}")
    if _result(ran) != _result(task):
        raise Violation(f"rerun: {execution.id} keeps {task.name} with another result")


def _result(task: Task) -> bytes:
    ending = task.attempts[-1].ending if task.attempts else None
    return ending.result if ending else b""


def _see_order(world: World, execution_id: ExecutionId, spec: TaskSpec, names: list[str]) -> None:
    """I13: no task begins before those that it needs have ended, unless its rule is early.

    This holds for all steps of loops, on both sides.
    """
    if spec.rule in EARLY:
        return

    def seen(task: str) -> list[Sighting]:
        steps = (name for name in names if task_of_step(name) == task)
        return [each for name in steps for each in world.observer.of_task(execution_id, name)]

    own = seen(spec.name)
    for needed in spec.needs:
        for before in seen(needed):
            if own and (before.over is None or before.over > min(each.began for each in own)):
                raise Violation(f"I13: {own[0]} needs {needed}, which ran until {before.over}")


def _see_attempts(world: World) -> None:
    """I8 to I10, I13: attempts of a task never overlap; no node runs more than it has slots.

    Numbers and tokens of a task's attempts are unique.
    """
    for node_id, most in world.observer.most.items():
        if most > world.plan.slots:
            raise Violation(f"I13: {most} attempts ran at once on {node_id}")
    for sightings in world.observer.tasks:
        for sighting in sightings:
            if not sighting.was_allowed:
                raise Violation(f"I8: {sighting} began without authority")
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
