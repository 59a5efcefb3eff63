"""A decision while it is being made.

`decide` may read what it has just written, may write the same key several times, and leaves the
state as it was: a draft is the state with a sheet of paper over it.
"""

from collections.abc import Iterator

from rota.core.model.attempt import AttemptKey, Order, Work
from rota.core.model.dag import Census
from rota.core.model.execution import Execution, Task, standing, task_key
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import Job, JobPlan, TaskSpec
from rota.core.state.shard_state import State
from rota.core.vocabulary.changes import Change, Checkpoint, Record, Table
from rota.core.vocabulary.decision import Decision, Limits, Reply, Situation
from rota.core.vocabulary.effects import (
    Consequence,
    Effect,
    JobEvent,
    Later,
    Launch,
    Publish,
    PublishJob,
)


class Draft:
    """The state, what the command at hand changes in it, and what is to be done then."""

    def __init__(self, state: State, situation: Situation) -> None:
        self.state = state
        self.situation = situation
        self.now = situation.now
        self.room = situation.place.room
        self.letter_count = 0
        self._records: dict[tuple[Table, str], Record | None] = {}
        self._effects: list[Consequence] = []
        self._born: dict[ExecutionId, Execution] = {}
        self._gone: set[ExecutionId] = set()
        self._censuses: dict[tuple[ExecutionId, str], Census] = {}

    @property
    def limits(self) -> Limits:
        """What the shard may hold."""
        return self.situation.limits

    @property
    def execution_count(self) -> int:
        """Unfinished executions of the shard, this draft's included."""
        return len(self.state.executions) + len(self._born) - len(self._gone)

    # -- reading --------------------------------------------------------------------------------

    def job(self, job_id: JobId) -> Job | None:
        """Return the job, or None."""
        found = self._records.get((Table.JOB, job_id), self.state.jobs.get(job_id))
        assert found is None or isinstance(found, Job)
        return found

    def plan(self, job_id: JobId) -> JobPlan | None:
        """Return what is owed to the job, or None."""
        found = self._records.get((Table.PLAN, job_id), self.state.plans.get(job_id))
        assert found is None or isinstance(found, JobPlan)
        return found

    def execution(self, execution_id: ExecutionId) -> Execution | None:
        """Return the unfinished execution, or None."""
        found = self._records.get(
            (Table.EXECUTION, execution_id), self.state.executions.get(execution_id)
        )
        assert found is None or isinstance(found, Execution)
        return found

    def task(self, execution_id: ExecutionId, name: str) -> Task | None:
        """Return a task of an unfinished execution, or None."""
        key = (Table.TASK, task_key(execution_id, name))
        found = self._records.get(key, self.state.tasks.get(execution_id, {}).get(name))
        assert found is None or isinstance(found, Task)
        return found

    def census_after(self, execution_id: ExecutionId, spec: TaskSpec, closed: Task) -> Census:
        """Return how the tasks stand that a blocked one needs, now that one more is closed.

        To be asked once for each that this draft closes.
        """
        key = (execution_id, spec.name)
        census = self._censuses.get(key) or self.state.census(execution_id, spec)
        self._censuses[key] = census = census.after(standing(closed))
        return census

    def checkpoint(self, execution_id: ExecutionId, task: str) -> bytes:
        """Return what the next attempt of a task is to be given; empty if nothing is saved."""
        key = task_key(execution_id, task)
        if (Table.CHECKPOINT, key) not in self._records:
            return self.state.checkpoints.get(key, b"")
        found = self._records[Table.CHECKPOINT, key]
        assert found is None or isinstance(found, Checkpoint)
        return found.data if found else b""

    def live_of(self, job_id: JobId) -> Iterator[Execution]:
        """Yield the unfinished executions of a job, oldest first."""
        for execution_id in self.state.live_of(job_id):
            if execution_id not in self._gone:
                execution = self.execution(execution_id)
                assert execution is not None, execution_id
                yield execution
        for execution_id, execution in self._born.items():
            if execution.job_id == job_id and execution_id not in self._gone:
                current = self.execution(execution_id)
                assert current is not None, execution_id
                yield current

    # -- writing --------------------------------------------------------------------------------

    def put(self, table: Table, key: str, record: Record) -> None:
        """Give *key* of *table* a record."""
        self._records[table, key] = record

    def drop(self, table: Table, key: str) -> None:
        """Take *key* of *table* away."""
        self._records[table, key] = None

    def put_execution(self, execution: Execution) -> None:
        """Write an unfinished execution."""
        if execution.id not in self.state.executions:
            self._born.setdefault(execution.id, execution)
        self._records[Table.EXECUTION, execution.id] = execution

    def put_task(self, execution_id: ExecutionId, task: Task) -> None:
        """Write a task of an unfinished execution."""
        self._records[Table.TASK, task_key(execution_id, task.name)] = task

    def put_checkpoint(self, execution_id: ExecutionId, task: str, data: bytes) -> None:
        """Save *data* for the next attempt of a task."""
        self._records[Table.CHECKPOINT, task_key(execution_id, task)] = Checkpoint(data)

    def drop_execution(self, execution_id: ExecutionId) -> None:
        """Take an execution that has finished out of the live tables."""
        self._gone.add(execution_id)
        self._records[Table.EXECUTION, execution_id] = None

    # -- effects --------------------------------------------------------------------------------

    def add(self, effect: Effect) -> None:
        """Have *effect* carried out after the commit."""
        self._effects.append(effect)

    @property
    def effect_count(self) -> int:
        """How many effects there are so far."""
        return len(self._effects)

    def put_off(self, first: int, execution: Execution) -> None:
        """Have the effects from number *first* on wait until *execution* is due."""
        effects = tuple(each for each in self._effects[first:] if not isinstance(each, Later))
        assert len(effects) == len(self._effects) - first, "nothing is put off twice"
        self._effects[first:] = [Later(execution.fire_at, execution.id, effects)]

    def launch(self, execution: Execution, task: Task, work: Work) -> None:
        """Have the newest attempt of *task* run; one place less is left."""
        attempt = task.attempts[-1]
        key = AttemptKey(execution.id, task.name, attempt.number)
        self.room -= 1
        order = Order(
            key=key,
            token=attempt.token,
            work=work,
            fire_at=execution.fire_at,
            session=attempt.session,
            checkpoint=self.checkpoint(execution.id, task.name),
        )
        self._effects.append(Launch(order, attempt.node_id))

    def publish_execution(self, execution: Execution) -> None:
        """Tell those who watch that *execution* is in a new state."""
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
        """Tell those who watch that *task* is in a new state, because of *detail* or its reason."""
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
        """Tell those who watch how far the running attempt of *task* is."""
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
        """Tell those who watch what was done to *job*."""
        self._effects.append(
            PublishJob(
                at=self.now, job_id=job.id, job=job.spec.full_name, event=event, detail=detail
            )
        )

    def decision(self, cause: str, reply: Reply) -> Decision:
        """Return what has been decided.

        A key that this draft both made and took away is left as a removal: it costs a few bytes
        and spares the reader of the journal a puzzle.
        """
        changes = tuple(
            Change(table, key, record) for (table, key), record in self._records.items()
        )
        started = self.situation.place.room - self.room
        return Decision(cause, changes, tuple(self._effects), reply, started)
