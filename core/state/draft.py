"""Drafts: overlays of the state in which decisions are prepared.

A handler reads its own writes, may write a key several times, and leaves the state unchanged.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.backfill import ACTIVE, Backfill, BackfillTimes, backfill_key
from rota.core.model.execution import (
    FINAL_EXECUTION_STATES,
    FINAL_TASK_STATES,
    Execution,
    ExecutionStatus,
    Task,
    TaskStatus,
    check_attempts,
    check_execution_move,
    check_task_move,
    standing,
    task_key,
)
from rota.core.model.hook import HookOutcome, Notification
from rota.core.model.ids import ExecutionId, JobId, namespace_of
from rota.core.model.job import Job, JobPlan, JobSpec, Pause, TaskSpec
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import LedgerEntry
from rota.core.model.trigger_rules import Census, UpstreamState, census_of
from rota.core.model.work import Work
from rota.core.state.inner_tables import InnerTables
from rota.core.state.shard_state import Graph, State, graph_of, version_key
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import (
    Change,
    Checkpoint,
    Hooked,
    PostedEvent,
    Record,
    Table,
)
from rota.core.vocabulary.decision import Decision, Limits, Reply, Situation
from rota.core.vocabulary.effects import (
    Consequence,
    Effect,
    JobEvent,
    Launch,
    PostponedEffects,
    Publish,
    PublishFires,
    PublishHook,
    PublishJob,
)
from rota.core.vocabulary.quotas import Use


class Draft:
    """The state, and the changes and effects of one command.

    Attributes:
        state: The state, which the draft never changes.
        situation: The other inputs of the decision.
        now: Shard time of the decision.
        wall: The wall clock, but never later than `now`.
        free_slots: The number of attempts that this decision may still start.
        message_count: The number of outbox items of this decision so far.
        backfill_count: The number of executions of backfills that this decision has begun.
        backfill_ends: Executions that this draft has ended, of jobs with backfills, which do not
            know of it yet.
        breaker_ends: Executions that this draft has ended, of jobs with a circuit breaker, which
            has not counted them yet.
        ended: Steps that this draft has ended, and whose ends are not settled yet.
        begun: Steps of loops that this draft has made and not started yet.
    """

    def __init__(self, state: State, situation: Situation) -> None:
        self.state = state
        self.situation = situation
        self.now = situation.now
        self.wall = Instant(situation.now - situation.lead)
        self.free_slots = situation.slots.free
        self.message_count = 0
        self.backfill_count = 0
        self.backfill_ends: deque[Execution] = deque()
        self.breaker_ends: deque[Execution] = deque()
        self.ended: deque[tuple[ExecutionId, Task]] = deque()
        self.begun: deque[tuple[ExecutionId, Task]] = deque()
        self._records: dict[tuple[Table, str], Record | None] = {}
        self._effects: list[Consequence] = []
        self._created: dict[ExecutionId, Execution] = {}
        self._finished: set[ExecutionId] = set()
        self._task_names: dict[ExecutionId, list[str]] = {}
        self._initial_tasks: dict[ExecutionId, dict[str, Task]] = {}
        self._graphs: dict[tuple[JobId, int], Graph] = {}
        self._censuses: dict[tuple[ExecutionId, str], Census] = {}

    @property
    def limits(self) -> Limits:
        """The limits of the shard."""
        return self.situation.limits

    @property
    def execution_count(self) -> int:
        """The number of unfinished executions of the shard, with those of this draft."""
        return len(self.state.executions) + len(self._created) - len(self._finished)

    def use_of(self, namespace: str) -> Use:
        """Return the use of a namespace in the shard, with the executions of this draft."""
        begun = self._count_in(namespace, self._created.values())
        finished = (
            self._created.get(each) or self.state.executions[each] for each in self._finished
        )
        change = Use(executions=begun - self._count_in(namespace, finished))
        return self.state.use_of(namespace).plus(change)

    @staticmethod
    def _count_in(namespace: str, executions: Iterable[Execution]) -> int:
        return sum(namespace_of(each.job_name) == namespace for each in executions)

    # -- reading --------------------------------------------------------------------------------

    def job(self, job_id: JobId) -> Job | None:
        """Return the job, or None."""
        found = self._records.get((Table.JOB, job_id), self.state.jobs.get(job_id))
        assert found is None or isinstance(found, Job)
        return found

    def plan(self, job_id: JobId) -> JobPlan | None:
        """Return the plan of the job, or None."""
        found = self._records.get((Table.PLAN, job_id), self.state.plans.get(job_id))
        assert found is None or isinstance(found, JobPlan)
        return found

    def pause_of(self, job: Job) -> Pause | None:
        """Return the pause of the job or, if it has none, that of its namespace."""
        return job.pause or self.situation.facts.pauses.get(job.spec.namespace)

    def execution(self, execution_id: ExecutionId) -> Execution | None:
        """Return the unfinished execution, or None."""
        found = self._records.get(
            (Table.EXECUTION, execution_id), self.state.executions.get(execution_id)
        )
        assert found is None or isinstance(found, Execution)
        return found

    def task(self, execution_id: ExecutionId, name: str) -> Task | None:
        """Return a task of an unfinished execution, or None."""
        return self._task_at((Table.TASK, task_key(execution_id, name)), execution_id, name)

    def _task_at(self, key: tuple[Table, str], execution_id: ExecutionId, name: str) -> Task | None:
        found = self._records.get(key)
        if found is None and key not in self._records:
            found = self.state.tasks.get(execution_id, {}).get(name)
        assert found is None or isinstance(found, Task)
        return found

    def task_names(self, execution_id: ExecutionId) -> list[str]:
        """Return the names of all tasks and steps of an unfinished execution."""
        return [
            *self.state.tasks.get(execution_id, ()),
            *self._task_names.get(execution_id, ()),
        ]

    def census_after(self, execution_id: ExecutionId, spec: TaskSpec, closed: Task) -> Census:
        """Return the census of the tasks that a blocked task needs, after the end of *closed*.

        It must be called once for each task that this draft closes.
        """
        key = (execution_id, spec.name)
        census = self._censuses.get(key) or self._census(execution_id, spec)
        self._censuses[key] = census = census.after(standing(closed))
        return census

    def _census(self, execution_id: ExecutionId, spec: TaskSpec) -> Census:
        """Return the census before this draft or, if the draft creates the execution, at first."""
        if execution_id in self.state.tasks:
            return self.state.census(execution_id, spec)
        kept = self._initial_tasks.get(execution_id, {})
        return census_of(
            standing(kept[name]) if name in kept else UpstreamState.OPEN for name in spec.needs
        )

    def graph(self, job_id: JobId, version: int) -> Graph:
        """Return the graph of a job's *version*, which must be current or have executions."""
        added = self._graphs.get((job_id, version)) if self._graphs else None
        if added is None and (Table.JOB, job_id) in self._records:
            job = self.job(job_id)
            if job is not None and job.version == version:
                added = self._graphs[job_id, version] = graph_of(job.spec)
        return added or self.state.graph(job_id, version)

    def checkpoint(self, execution_id: ExecutionId, task: str) -> bytes:
        """Return the checkpoint for the next attempt of a task; empty if none is saved."""
        key = task_key(execution_id, task)
        if (Table.CHECKPOINT, key) not in self._records:
            return self.state.checkpoints.get(key, b"")
        found = self._records[Table.CHECKPOINT, key]
        assert found is None or isinstance(found, Checkpoint)
        return found.data if found else b""

    @cached_property
    def backfills(self) -> InnerTables[JobId, Backfill]:
        """The backfills of each job by id."""
        return InnerTables(Table.BACKFILL, self.state.backfills, self._write)

    @cached_property
    def events(self) -> InnerTables[ExecutionId, PostedEvent]:
        """The events of each unfinished execution by name."""
        return InnerTables(Table.EVENT, self.state.events, self._write)

    @cached_property
    def entries(self) -> InnerTables[JobId, StateEntry]:
        """The state of each job by key."""
        return InnerTables(Table.STATE, self.state.entries, self._write)

    def active_backfill(self, job_id: JobId) -> Backfill | None:
        """Return the backfill of a job that has not ended, or None."""
        found = self.backfills.of(job_id).values()
        return next((each for each in found if each.status in ACTIVE), None)

    def backfill_times(self, backfill: Backfill) -> tuple[Instant, ...]:
        """Return the fire times of a backfill that has not ended."""
        key = backfill_key(backfill.job_id, backfill.id)
        found = self._records.get((Table.BACKFILL_TIMES, key)) or self.state.backfill_times[key]
        assert isinstance(found, BackfillTimes), found
        return found.times

    def live_of(self, job_id: JobId, key: str = "") -> Iterator[Execution]:
        """Yield the unfinished executions of a job, or those with *key*, oldest first."""
        for execution_id in self.state.live_of(job_id, key):
            if execution_id not in self._finished:
                execution = self.execution(execution_id)
                assert execution is not None, execution_id
                yield execution
        for execution_id, execution in self._created.items():
            is_like = execution.job_id == job_id and key in ("", execution.concurrency_key)
            if is_like and execution_id not in self._finished:
                current = self.execution(execution_id)
                assert current is not None, execution_id
                yield current

    # -- writing --------------------------------------------------------------------------------

    def put(self, table: Table, key: str, record: Record) -> None:
        """Set *key* of *table* to *record*."""
        self._records[table, key] = record

    def drop_events(self, execution_id: ExecutionId) -> None:
        """Delete the events of an execution that ends; most have none."""
        if execution_id in self.state.events or "events" in self.__dict__:
            self.events.drop_all(execution_id)

    def _write(self, table: Table, key: str, record: Record | None) -> None:
        self._records[table, key] = record

    def drop(self, table: Table, key: str) -> None:
        """Delete *key* of *table*."""
        self._records[table, key] = None

    def put_execution(self, execution: Execution) -> None:
        """Write an unfinished execution; a new one must be queued."""
        before = self.execution(execution.id)
        if before is None:
            assert execution.status is ExecutionStatus.QUEUED, execution
        elif execution.status is not before.status:
            check_execution_move(before, execution)
            assert execution.status not in FINAL_EXECUTION_STATES, execution
        if execution.id not in self.state.executions:
            self._created.setdefault(execution.id, execution)
        self._records[Table.EXECUTION, execution.id] = execution

    def put_task(self, execution_id: ExecutionId, task: Task) -> None:
        """Write a task of an unfinished execution; a new one must be blocked, without attempts."""
        key = (Table.TASK, task_key(execution_id, task.name))
        before = self._task_at(key, execution_id, task.name)
        if before is None:
            assert task.status is TaskStatus.BLOCKED, task
            assert not task.attempts, task
            self._task_names.setdefault(execution_id, []).append(task.name)
        else:
            check_task_move(before, task)
            check_attempts(before, task)
        self._records[key] = task

    def put_initial_task(self, execution_id: ExecutionId, task: Task) -> None:
        """Write a task of a new execution that is blocked, skipped, or kept from an earlier one."""
        assert execution_id not in self.state.executions, execution_id
        assert task.status is TaskStatus.BLOCKED or task.status in FINAL_TASK_STATES, task
        self._task_names.setdefault(execution_id, []).append(task.name)
        self._initial_tasks.setdefault(execution_id, {})[task.name] = task
        self._records[Table.TASK, task_key(execution_id, task.name)] = task

    def put_version(self, job_id: JobId, version: int, spec: JobSpec) -> Graph:
        """Write an earlier version of a job for a new execution of it, and return its graph."""
        self.put(Table.VERSION, version_key(job_id, version), spec)
        graph = self._graphs[job_id, version] = graph_of(spec)
        return graph

    def put_checkpoint(self, execution_id: ExecutionId, task: str, data: bytes) -> None:
        """Save *data* as the checkpoint for the next attempt of a task."""
        self._records[Table.CHECKPOINT, task_key(execution_id, task)] = Checkpoint(data)

    def finish_execution(self, past: Execution) -> None:
        """Move an execution from the live tables to the history; its tasks move separately."""
        before = self.execution(past.id)
        assert before is not None, past
        check_execution_move(before, past)
        assert past.status in FINAL_EXECUTION_STATES, past
        assert past.open_count == 0, past
        self._finished.add(past.id)
        self.drop(Table.EXECUTION, past.id)
        self.put(Table.PAST_EXECUTION, past.id, past)

    # -- effects --------------------------------------------------------------------------------

    def add(self, effect: Effect) -> None:
        """Add *effect*, to be carried out after the commit."""
        self._effects.append(effect)

    @property
    def effect_count(self) -> int:
        """The number of effects so far."""
        return len(self._effects)

    def postpone_effects(self, first: int, execution: Execution) -> None:
        """Postpone effects until *execution* is due.

        Args:
            first: The number of the first of these effects, counted from 0; all later effects are
                postponed, too.
            execution: The execution whose effects they are.
        """
        effects = tuple(
            each for each in self._effects[first:] if not isinstance(each, PostponedEffects)
        )
        assert len(effects) == len(self._effects) - first, "nothing is postponed twice"
        self._effects[first:] = [PostponedEffects(execution.due_at, execution.id, effects)]

    def launch(self, execution: Execution, task: Task, work: Work, results: bytes = b"") -> None:
        """Launch the newest attempt of *task*, which takes one of the free slots.

        Args:
            execution: The execution of the task.
            task: The task, with the attempt.
            work: The work of the attempt.
            results: The results of the tasks that *task* needs, as in `Order`.
        """
        attempt = task.attempts[-1]
        key = AttemptKey(execution.id, task.name, attempt.number)
        self.free_slots -= 1
        order = Order(
            key=key,
            token=attempt.token,
            work=work,
            fire_at=execution.fire_at,
            session=attempt.session,
            checkpoint=self.checkpoint(execution.id, task.name),
            results=results,
            job=execution.job_name,
            interval_start=execution.interval_start,
        )
        self._effects.append(Launch(order, attempt.node_id))

    def publish_execution(self, execution: Execution) -> None:
        """Publish the new state of *execution*."""
        self._effects.append(
            Publish(
                at=self.now,
                job_id=execution.job_id,
                job=execution.job_name,
                execution_id=execution.id,
                status=execution.status,
                detail=execution.reason,
            )
        )

    def publish_task(self, execution: Execution, task: Task, detail: str = "") -> None:
        """Publish the new state of *task*, with *detail* or the task's reason."""
        self._effects.append(
            Publish(
                at=self.now,
                job_id=execution.job_id,
                job=execution.job_name,
                execution_id=execution.id,
                status=task.status,
                task=task.name,
                attempt=len(task.attempts),
                detail=detail or task.reason,
            )
        )

    def publish_progress(self, execution: Execution, task: Task, percent: int) -> None:
        """Publish the progress of the running attempt of *task*, 0 to 100 percent."""
        self._effects.append(
            Publish(
                at=self.now,
                job_id=execution.job_id,
                job=execution.job_name,
                execution_id=execution.id,
                status=task.status,
                task=task.name,
                attempt=len(task.attempts),
                detail=f"{percent}%",
                percent=percent,
            )
        )

    def publish_job(self, job: Job, event: JobEvent, detail: str = "") -> None:
        """Publish an event of *job*."""
        self._effects.append(
            PublishJob(
                at=self.now, job_id=job.id, job=job.spec.full_name, event=event, detail=detail
            )
        )

    def publish_hook(
        self,
        source: Notification | Hooked,
        outcome: HookOutcome,
        target: str,
        detail: str = "",
    ) -> None:
        """Publish the end of a hook's run for the event of *source*."""
        self._effects.append(
            PublishHook(
                at=self.now,
                job_id=source.job_id,
                job=source.job,
                execution_id=source.execution_id,
                event=source.event,
                outcome=outcome,
                target=target,
                detail=detail,
            )
        )

    def publish_fires(self, job_name: str, entry: LedgerEntry) -> None:
        """Publish the outcome of the fire times of *entry*."""
        self._effects.append(
            PublishFires(
                at=self.now,
                job_id=entry.job_id,
                job=job_name,
                outcome=entry.outcome,
                fire_at=entry.fire_at,
                count=entry.count,
                detail=entry.reason,
            )
        )

    def decision(self, cause: str, reply: Reply) -> Decision:
        """Return the decision.

        A key that this draft both created and deleted is recorded as deleted: the cost is a few
        bytes, and the journal stays readable.
        """
        changes = tuple(
            Change(table, key, record) for (table, key), record in self._records.items()
        )
        started = self.situation.slots.free - self.free_slots
        return Decision(cause, changes, tuple(self._effects), reply, started)
