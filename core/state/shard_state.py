"""The state of one shard in the memory of its primary.

The state holds all that scheduling needs, and no history. Only `State.apply` changes it. It may be
ahead of the commit: a node that loses the shard discards the state and loads it again.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from rota.core.model.backfill import Backfill, BackfillTimes
from rota.core.model.dag import dependents
from rota.core.model.execution import (
    Execution,
    Task,
    TaskStatus,
    in_place,
    standing,
)
from rota.core.model.flow import Switch
from rota.core.model.hook import Notification, owner_of
from rota.core.model.ids import (
    ExecutionId,
    JobId,
    NodeId,
    ShardId,
    job_of,
    namespace_of,
    task_of_step,
)
from rota.core.model.job import Job, JobPlan, JobSpec, TaskSpec
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import LedgerEntry
from rota.core.model.shared_document import DocumentKey
from rota.core.model.trigger_rules import Census, UpstreamState, census_of
from rota.core.state.stored_jobs import Jobs
from rota.core.timing.instants import Instant
from rota.core.vocabulary.change_chain import NO_CHANGES, ChangeChain, SealedChange
from rota.core.vocabulary.changes import (
    Available,
    Change,
    Checkpoint,
    Dependent,
    LastReceived,
    Name,
    Occurred,
    OutboxItem,
    Pointer,
    PostedEvent,
    RecordedDocument,
    RecordedReply,
    Retired,
    StandInExecution,
    StandInRun,
    Table,
)
from rota.core.vocabulary.quotas import Use

_Owner = TypeVar("_Owner", bound=str)
_Record = TypeVar("_Record")
_Counted = TypeVar("_Counted", JobId, str, tuple[str, str])


@dataclass(frozen=True, slots=True)
class Graph:
    """The tasks of one version of a job as a graph.

    Attributes:
        switches: For each task in a case of a switch, the names of these switches.
    """

    spec: JobSpec
    tasks: dict[str, TaskSpec]
    dependents: dict[str, tuple[str, ...]]
    teardowns: tuple[TaskSpec, ...]
    switches: dict[str, tuple[str, ...]]

    def spec_of(self, step: str) -> TaskSpec:
        """Return the definition of a task, or of the task of a step."""
        return self.tasks.get(step) or self.tasks[task_of_step(step)]


def graph_of(spec: JobSpec) -> Graph:
    """Return the graph of *spec*'s tasks."""
    return Graph(
        spec=spec,
        tasks={task.name: task for task in spec.tasks},
        dependents=dependents(spec.tasks),
        teardowns=tuple(task for task in spec.tasks if task.is_teardown),
        switches=_switches(spec),
    )


def _switches(spec: JobSpec) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for task in spec.tasks:
        if isinstance(task.wait, Switch):
            for case in task.wait.cases:
                for name in case.to:
                    found.setdefault(name, {})[task.name] = None
    return {name: tuple(switches) for name, switches in found.items()}


@dataclass(slots=True)
class State:
    """The tables of a shard, and data derived from them."""

    jobs: Jobs = field(default_factory=Jobs)
    names: dict[str, JobId] = field(default_factory=dict[str, JobId])
    versions: dict[str, JobSpec] = field(default_factory=dict[str, JobSpec])
    plans: dict[JobId, JobPlan] = field(default_factory=dict[JobId, JobPlan])
    deferred: set[JobId] = field(default_factory=set[JobId])
    """Derived: the jobs with a fire that starts later than its fire time (`JobPlan.starts`)."""
    executions: dict[ExecutionId, Execution] = field(default_factory=dict[ExecutionId, Execution])
    tasks: dict[ExecutionId, dict[str, Task]] = field(
        default_factory=dict[ExecutionId, dict[str, Task]]
    )
    requests: dict[str, RecordedReply] = field(default_factory=dict[str, RecordedReply])
    """The recorded replies by idempotency key, oldest first; all have the same time to live."""
    outbox: dict[str, OutboxItem] = field(default_factory=dict[str, OutboxItem])
    dependents: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """The dependents of each job by its full name, so that a job that is deleted and created again
    keeps them."""
    received: dict[str, str] = field(default_factory=dict[str, str])
    """The position of the newest message of each sending shard, and of the newest execution
    reported by each stand-in."""
    checkpoints: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The checkpoints by the key of their task; few tasks have one."""
    available: dict[JobId, None] = field(default_factory=dict[JobId, None])
    """The jobs that stand-ins may fire."""
    stand_ins: dict[ExecutionId, NodeId] = field(default_factory=dict[ExecutionId, NodeId])
    """Executions on stand-ins whose end is not reported yet."""
    notifications: dict[str, Notification] = field(default_factory=dict[str, Notification])
    """Webhooks whose delivery has not ended."""
    chain: ChangeChain = NO_CHANGES
    """The ends of the chain of changes that users made."""
    """The signature of the newest change; None if none was signed."""
    recorded_documents: dict[str, RecordedDocument] = field(
        default_factory=dict[str, RecordedDocument]
    )
    """The newest recorded change of each shared document by `document_key`."""

    backfills: dict[JobId, dict[str, Backfill]] = field(
        default_factory=dict[JobId, dict[str, Backfill]]
    )
    """The backfills of each job that has some, by id."""
    backfill_times: dict[str, BackfillTimes] = field(default_factory=dict[str, BackfillTimes])
    """The fire times of backfills that have not ended, by `backfill_key`."""
    events: dict[ExecutionId, dict[str, PostedEvent]] = field(
        default_factory=dict[ExecutionId, dict[str, PostedEvent]]
    )
    """The events of each unfinished execution that has some, by name."""
    entries: dict[JobId, dict[str, StateEntry]] = field(
        default_factory=dict[JobId, dict[str, StateEntry]]
    )
    """The state of each job that has some, by key."""

    live: dict[JobId, dict[ExecutionId, None]] = field(
        default_factory=dict[JobId, dict[ExecutionId, None]]
    )
    """Derived: the unfinished executions of each job, oldest first."""
    live_by_key: dict[tuple[JobId, str], dict[ExecutionId, None]] = field(
        default_factory=dict[tuple[JobId, str], dict[ExecutionId, None]]
    )
    """Derived: those with a concurrency key, by job and key, oldest first."""
    sorted_names: list[str] = field(default_factory=list[str])
    """Derived: the keys of `names` in order, so that listing a page of jobs costs O(page)."""
    outbox_counts: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Derived: messages in the outbox by sender and receiver, full names of jobs."""
    event_bytes: int = 0
    """Derived: the characters of events from outside in the outbox."""
    notification_counts: dict[JobId, int] = field(default_factory=dict[JobId, int])
    """Derived: notifications by job."""
    job_counts: dict[str, int] = field(default_factory=dict[str, int])
    """Derived: jobs by namespace."""
    execution_counts: dict[str, int] = field(default_factory=dict[str, int])
    """Derived: unfinished executions by namespace."""
    _graphs: dict[JobId, dict[int, Graph]] = field(default_factory=dict[JobId, dict[int, Graph]])
    """Derived on first use: the graphs of the versions of each job, until no execution of the job
    is unfinished."""
    _censuses: dict[ExecutionId, dict[str, Census]] = field(
        default_factory=dict[ExecutionId, dict[str, Census]]
    )
    """Derived on first use: the censuses of blocked tasks. A task may need thousands of others, and
    its rule is applied at the end of each."""

    def use_of(self, namespace: str) -> Use:
        """Return the use of a namespace in this shard."""
        return Use(self.job_counts.get(namespace, 0), self.execution_counts.get(namespace, 0))

    def census(self, execution_id: ExecutionId, spec: TaskSpec) -> Census:
        """Return the census of the tasks that a blocked task needs.

        It is counted once, and then updated by `apply`.
        """
        censuses = self._censuses.setdefault(execution_id, {})
        census = censuses.get(spec.name)
        if census is None:
            tasks = self.tasks[execution_id]
            census = census_of(standing(tasks[name]) for name in spec.needs)
            censuses[spec.name] = census
        return census

    def graph(self, job_id: JobId, version: int) -> Graph:
        """Return the graph of a job's *version*, which must be current or have executions."""
        graphs = self._graphs.setdefault(job_id, {})
        graph = graphs.get(version)
        if graph is None:
            job = self.jobs.get(job_id)
            is_current = job is not None and job.version == version
            spec = job.spec if job and is_current else self.versions[version_key(job_id, version)]
            graph = graphs[version] = graph_of(spec)
        return graph

    def live_of(self, job_id: JobId, key: str = "") -> Iterable[ExecutionId]:
        """Return the unfinished executions of a job, or those with *key*, oldest first."""
        return self.live_by_key.get((job_id, key), {}) if key else self.live.get(job_id, {})

    def age_of(self, execution_id: ExecutionId) -> tuple[Instant, ExecutionId]:
        """Return the key that sorts unfinished executions oldest first."""
        return self.executions[execution_id].queued_at, execution_id

    def fork(self) -> "State":
        """Return an independent copy of this state.

        It costs O(records), which is acceptable because dry runs are rare.
        """
        return State(
            jobs=self.jobs.copy(),
            names=dict(self.names),
            versions=dict(self.versions),
            plans=dict(self.plans),
            deferred=set(self.deferred),
            executions=dict(self.executions),
            tasks={each: dict(tasks) for each, tasks in self.tasks.items()},
            requests=dict(self.requests),
            outbox=dict(self.outbox),
            dependents={each: dict(names) for each, names in self.dependents.items()},
            received=dict(self.received),
            checkpoints=dict(self.checkpoints),
            available=dict(self.available),
            stand_ins=dict(self.stand_ins),
            notifications=dict(self.notifications),
            chain=self.chain,
            recorded_documents=dict(self.recorded_documents),
            backfills={each: dict(found) for each, found in self.backfills.items()},
            backfill_times=dict(self.backfill_times),
            events={each: dict(found) for each, found in self.events.items()},
            entries={each: dict(found) for each, found in self.entries.items()},
            live={each: dict(live) for each, live in self.live.items()},
            live_by_key={each: dict(live) for each, live in self.live_by_key.items()},
            sorted_names=list(self.sorted_names),
            outbox_counts=dict(self.outbox_counts),
            event_bytes=self.event_bytes,
            notification_counts=dict(self.notification_counts),
            job_counts=dict(self.job_counts),
            execution_counts=dict(self.execution_counts),
        )

    def apply(self, change: Change) -> None:
        """Apply *change* to the state; changes of the history have no effect."""
        table, key, record = change
        match record:
            case Execution():
                if table is Table.EXECUTION:
                    self._put_execution(record)
            case Task():
                if table is Table.TASK:
                    self._put_task(key, record)
            case JobPlan():
                self.plans[JobId(key)] = record
                if record.starts:
                    self.deferred.add(JobId(key))
                elif self.deferred:
                    self.deferred.discard(JobId(key))
            case Job():
                self.jobs[record.id] = record
            case Name():
                self._put_name(key, record.job_id)
            case Dependent():
                self.dependents.setdefault(record.upstream, {})[record.name] = None
            case LastReceived():
                self.received[key] = record.position
            case Checkpoint():
                self.checkpoints[key] = record.data
            case Available():
                self.available[JobId(key)] = None
            case StandInRun():
                self.stand_ins[ExecutionId(key)] = record.node_id
            case JobSpec():
                if table is Table.VERSION:
                    self.versions[key] = record
            case RecordedReply():
                # A key that is used again moves to the end, as the newest.
                self.requests.pop(key, None)
                self.requests[key] = record
            case OutboxItem():
                self._put_outbox_item(key, record)
            case Notification():
                self._put_notification(key, record)
            case ChangeChain():
                self.chain = record
            case RecordedDocument():
                self.recorded_documents[key] = record
            case Backfill():
                self.backfills.setdefault(record.job_id, {})[record.id] = record
            case BackfillTimes():
                self.backfill_times[key] = record
            case PostedEvent():
                execution_id = ExecutionId(key.partition("/")[0])
                self.events.setdefault(execution_id, {})[record.name] = record
            case StateEntry():
                self.entries.setdefault(record.job_id, {})[record.key] = record
            case None:
                self._remove(table, key)
            case LedgerEntry() | Pointer() | StandInExecution() | SealedChange() | Retired():
                pass

    def _put_name(self, full_name: str, job_id: JobId) -> None:
        if full_name not in self.names:
            # This moves half of the list: 8 MB, 0.2 ms for a million names, which is the limit.
            insort(self.sorted_names, full_name)
            _count_up(self.job_counts, namespace_of(full_name))
        self.names[full_name] = job_id

    def _put_outbox_item(self, key: str, item: OutboxItem) -> None:
        if key not in self.outbox:
            _count_up(self.outbox_counts, (item.sender, item.to))
            self.event_bytes += _event_bytes(item)
        self.outbox[key] = item

    def _remove_outbox_item(self, key: str) -> None:
        item = self.outbox.pop(key, None)
        if item is not None:
            _count_down(self.outbox_counts, (item.sender, item.to))
            self.event_bytes -= _event_bytes(item)

    def _put_notification(self, key: str, notification: Notification) -> None:
        if key not in self.notifications:
            _count_up(self.notification_counts, owner_of(key))
        self.notifications[key] = notification

    def _remove_notification(self, key: str) -> None:
        if self.notifications.pop(key, None) is not None:
            _count_down(self.notification_counts, owner_of(key))

    def _put_execution(self, execution: Execution) -> None:
        if execution.id not in self.executions:
            self.live.setdefault(execution.job_id, {})[execution.id] = None
            if key := execution.concurrency_key:
                self.live_by_key.setdefault((execution.job_id, key), {})[execution.id] = None
            _count_up(self.execution_counts, namespace_of(execution.job_name))
        self.executions[execution.id] = execution

    def _put_task(self, key: str, task: Task) -> None:
        execution_id = ExecutionId(key.partition("/")[0])
        tasks = self.tasks.setdefault(execution_id, {})
        before = tasks.get(task.name)
        tasks[task.name] = task
        if before is not None and execution_id in self._censuses:
            self._count(execution_id, before, task)

    def _count(self, execution_id: ExecutionId, before: Task, task: Task) -> None:
        """Update the censuses in which a task is counted."""
        censuses = self._censuses[execution_id]
        if task.status is not TaskStatus.BLOCKED:
            censuses.pop(task.name, None)
        now = standing(task)
        if now is UpstreamState.OPEN or standing(before) is not UpstreamState.OPEN:
            return
        execution = self.executions[execution_id]
        graph = self.graph(execution.job_id, execution.job_version)
        for name in graph.dependents.get(task.name, ()):
            if name in censuses:
                censuses[name] = censuses[name].after(now)

    def _remove(self, table: Table, key: str) -> None:
        match table:
            case Table.JOB:
                self.jobs.pop(JobId(key), None)
            case Table.NAME:
                self._remove_name(key)
            case Table.VERSION:
                self.versions.pop(key, None)
            case Table.PLAN:
                self.plans.pop(JobId(key), None)
                self.deferred.discard(JobId(key))
            case Table.EXECUTION:
                self._remove_execution(ExecutionId(key))
            case Table.TASK:
                # Tasks are removed with their execution, in the same entry.
                pass
            case Table.REQUEST:
                self.requests.pop(key, None)
            case Table.OUTBOX:
                self._remove_outbox_item(key)
            case Table.DEPENDENT:
                self._remove_dependent(key)
            case Table.RECEIVED:
                self.received.pop(key, None)
            case Table.CHECKPOINT:
                self.checkpoints.pop(key, None)
            case Table.AVAILABLE:
                self.available.pop(JobId(key), None)
            case Table.STAND_IN:
                self.stand_ins.pop(ExecutionId(key), None)
            case Table.NOTIFICATION:
                self._remove_notification(key)
            case Table.CHANGE_CHAIN:
                self.chain = NO_CHANGES
            case Table.EXPORTED | Table.SIGNED_HEAD:
                pass
            case Table.RECORDED_DOCUMENT:
                self.recorded_documents.pop(key, None)
            case Table.BACKFILL:
                _remove_inner(self.backfills, key)
            case Table.BACKFILL_TIMES:
                self.backfill_times.pop(key, None)
            case Table.EVENT:
                _remove_inner(self.events, key)
            case Table.STATE:
                _remove_inner(self.entries, key)
            case (
                Table.HISTORY
                | Table.PAST_EXECUTION
                | Table.PAST_TASK
                | Table.LEDGER
                | Table.PAST
                | Table.DUPLICATE
                | Table.PAST_VERSION
                | Table.USER_CHANGE
            ):
                pass

    def _remove_name(self, full_name: str) -> None:
        if self.names.pop(full_name, None) is not None:
            del self.sorted_names[bisect_left(self.sorted_names, full_name)]
            _count_down(self.job_counts, namespace_of(full_name))

    def _remove_dependent(self, key: str) -> None:
        upstream, _, name = key.partition(" ")
        names = self.dependents.get(upstream, {})
        names.pop(name, None)
        if not names:
            self.dependents.pop(upstream, None)

    def _remove_execution(self, execution_id: ExecutionId) -> None:
        execution = self.executions.pop(execution_id, None)
        self.tasks.pop(execution_id, None)
        self._censuses.pop(execution_id, None)
        if execution is None:
            # It was created by the same entry.
            if (job_id := job_of(execution_id)) not in self.live:
                self._graphs.pop(job_id, None)
            return
        _count_down(self.execution_counts, namespace_of(execution.job_name))
        live = self.live[execution.job_id]
        del live[execution_id]
        if not live:
            del self.live[execution.job_id]
            self._graphs.pop(execution.job_id, None)
        if key := execution.concurrency_key:
            keyed = self.live_by_key[execution.job_id, key]
            del keyed[execution_id]
            if not keyed:
                del self.live_by_key[execution.job_id, key]


def load_state(changes: Iterable[Change]) -> State:
    """Return the state made of *changes*, which are in the order of their keys, as stored.

    Tables that `State` keeps in order of age, or of the job's definition, are sorted again.
    """
    state = State()
    for change in changes:
        state.apply(change)
    state.requests = dict(sorted(state.requests.items(), key=_expiry))
    for job_id, live in state.live.items():
        state.live[job_id] = dict.fromkeys(sorted(live, key=state.age_of))
    for key, live in state.live_by_key.items():
        state.live_by_key[key] = dict.fromkeys(sorted(live, key=state.age_of))
    for execution_id, tasks in state.tasks.items():
        state.tasks[execution_id] = in_place(tasks.values())
    return state


def _remove_inner(table: dict[_Owner, dict[str, _Record]], key: str) -> None:
    """Remove the record with *key*, such as ``job id/backfill``, and an inner table left empty."""
    outer, _, inner = key.partition("/")
    found = table.get(cast("_Owner", outer), {})
    found.pop(inner, None)
    if not found:
        table.pop(cast("_Owner", outer), None)


def version_key(job_id: JobId, version: int) -> str:
    """Return the key of a replaced version of a job."""
    return f"{job_id}/{version}"


def dependent_key(upstream: str, dependent: str) -> str:
    """Return the key of the dependency of *dependent* on *upstream*, both full names."""
    return f"{upstream} {dependent}"


def document_key(key: DocumentKey) -> str:
    """Return the key of the newest recorded change of a shared document."""
    return f"{key.kind}/{key.name}"


def received_key(sender: ShardId) -> str:
    """Return the key of the last position received from *sender*."""
    return f"{sender:04x}"


def _event_bytes(item: OutboxItem) -> int:
    return len(item.message.event) if isinstance(item.message, Occurred) else 0


def _count_up(counts: dict[_Counted, int], key: _Counted) -> None:
    counts[key] = counts.get(key, 0) + 1


def _count_down(counts: dict[_Counted, int], key: _Counted) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _expiry(item: tuple[str, RecordedReply]) -> Instant:
    return item[1].expires_at
