"""A shard in memory, for tests that send commands to the core and inspect its decisions.

Every entry takes the path that it takes in a node: decided, encoded, chained into a journal,
decoded, applied. Timers ring, messages arrive and effects happen only when a test requests it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypedDict, TypeVar, Unpack

from rota.core.decide.dispatch import decide
from rota.core.errors import Refused
from rota.core.model.attempt import Attempt, AttemptKey, Ending, Outcome, Report, Token
from rota.core.model.event_trigger import EventTrigger
from rota.core.model.execution import (
    EXECUTION_MOVES,
    TASK_MOVES,
    Execution,
    ExecutionStatus,
    Task,
    TaskStatus,
    task_key,
)
from rota.core.model.hook import Hook
from rota.core.model.ids import AllocationId, Epoch, ExecutionId, Index, JobId, NodeId, Session
from rota.core.model.job import (
    Consistency,
    JobSpec,
    Misfire,
    OnExcluded,
    Overlap,
    SchedulePolicy,
    TaskSpec,
)
from rota.core.model.ledger import FireOutcome, LedgerEntry
from rota.core.model.retry import Fixed, RetryPolicy
from rota.core.model.trigger_rules import TriggerRule
from rota.core.model.work import Work
from rota.core.replication.local_copy import LocalCopy, Rows, Stored
from rota.core.state.shard_state import State, load_state
from rota.core.timing.instants import MICROSECOND, SECOND, Duration, Instant, later, parse_instant
from rota.core.timing.schedule import Schedule, parse_schedule
from rota.core.vocabulary.change_chain import ChainCheck, SealedChange, UserChange, opened
from rota.core.vocabulary.changes import Change, JobMessage, Pointer, Record, Table
from rota.core.vocabulary.codec import (
    RawChange,
    decode_body,
    decode_change,
    decode_record,
    encode_body,
    encode_change,
)
from rota.core.vocabulary.commands import (
    Cancel,
    Command,
    ConfirmDelivery,
    DeleteJob,
    FinishAttempt,
    Fire,
    Idempotency,
    LoseSession,
    Past,
    ReceiveMessage,
    ReportAttempt,
    SaveJob,
    StartTask,
    TimerCommand,
    Trigger,
)
from rota.core.vocabulary.decision import (
    Decision,
    FreeSlots,
    JobSaved,
    Limits,
    Reply,
    Situation,
    Triggered,
)
from rota.core.vocabulary.disk_space import DiskSpace
from rota.core.vocabulary.effects import (
    ClearTimer,
    Consequence,
    Deliver,
    PostponedEffects,
    Publish,
    PublishFires,
    PublishJob,
    SetTimer,
    Timescale,
)
from rota.core.vocabulary.facts import NO_FACTS, Facts
from rota.core.vocabulary.journal import ORIGIN, EntryKind, Tip, follow
from rota.core.vocabulary.quotas import NO_USE, Use

R = TypeVar("R", bound=Record)
E = TypeVar("E", bound=Consequence)

NODE = NodeId("node-a")
NEVER = Instant(0)
FIRST_SESSION = Session("session-1")


def at(text: str) -> Instant:
    """Return an instant: ``12:00`` on the day of the tests, or a whole RFC 3339 one."""
    if "T" in text:
        return parse_instant(text)
    return parse_instant(f"2027-01-04T{text}{':00' if text.count(':') == 1 else ''}Z")


def task(
    name: str,
    *needs: str,
    rule: TriggerRule = TriggerRule.ALL_SUCCESS,
    retry: RetryPolicy | None = None,
) -> TaskSpec:
    """Return a task that needs *needs*."""
    work = Work(argv=("/bin/true",))
    return TaskSpec(name=name, work=work, needs=needs, rule=rule, retry=retry or RetryPolicy())


def every(text: str, timezone: str = "UTC") -> tuple[Schedule, ...]:
    """Return the schedules of a job with this single one."""
    return (parse_schedule(text, timezone),)


ONE_TASK = (task("main"),)
TEN_SECONDS = Duration(10 * SECOND)
ONE_RETRY = RetryPolicy(limit=1, backoff=Fixed(delay=TEN_SECONDS))


class Fields(TypedDict, total=False):
    """Fields of `JobSpec` that tests give."""

    namespace: str
    description: str
    schedules: tuple[Schedule, ...]
    dependencies: tuple[str, ...]
    misfire: Misfire
    grace: Duration
    overlap: Overlap
    parameters: str
    priority: int
    consistency: Consistency
    start_deadline: Duration
    execution_timeout: Duration
    fail_fast: bool
    pause_after_failures: int
    max_parallel: int
    misfire_window: Duration
    misfire_max: int
    concurrency_key: str
    policies: tuple[SchedulePolicy, ...]
    triggers: tuple[EventTrigger, ...]
    on_excluded: OnExcluded
    parameters_schema: str
    only_calendars: tuple[str, ...]
    except_calendars: tuple[str, ...]
    hooks: tuple[Hook, ...]
    late_after: Duration


class NoStorage:
    """The storage of a copy whose entries are all in memory."""

    applied = Index(0)

    def entry(self, index: Index) -> bytes:
        """Fail: no entry is stored."""
        raise AssertionError(index)

    def rows(self, after: bytes | None, size_max: int) -> Rows:
        """Fail: no rows are stored."""
        raise AssertionError(after, size_max)


def copy_from(tip: Tip, epoch: Epoch) -> LocalCopy:
    """Return the copy of a primary under *epoch* whose journal, all committed, ends at *tip*."""
    stored = Stored(
        epoch=epoch,
        allocation=AllocationId("a"),
        before_first=tip,
        tip=tip,
        committed=tip.index,
    )
    return LocalCopy(stored, NoStorage())


def check_moves(before: State, effects: Iterable[Consequence]) -> None:
    """Fail if an event of *effects*, decided in the state *before*, is no move of the state tables.

    That includes the moves to a final state, which the state itself does not see: a finished
    execution goes from its live tables straight to the history.
    """
    executions: dict[ExecutionId, ExecutionStatus] = {}
    tasks: dict[tuple[ExecutionId, str], TaskStatus] = {}
    for effect in effects:
        for event in effect.effects if isinstance(effect, PostponedEffects) else (effect,):
            if not isinstance(event, Publish):
                continue
            if isinstance(event.status, TaskStatus):
                key = event.execution_id, event.task
                task = before.tasks.get(event.execution_id, {}).get(event.task)
                old = tasks.get(key, task.status if task else TaskStatus.BLOCKED)
                assert event.status is old or event.status in TASK_MOVES[old], (old, event)
                tasks[key] = event.status
            else:
                # A new execution is queued; a stand-in's record is about one that has ended.
                one = before.executions.get(event.execution_id)
                was = executions.get(event.execution_id, one.status if one else event.status)
                assert event.status is was or event.status in EXECUTION_MOVES[was], (was, event)
                executions[event.execution_id] = event.status


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that has been set and has not rung."""

    due: Instant
    command: TimerCommand
    timescale: Timescale


@dataclass(slots=True)
class Shard:
    """A shard with its clock, timers and messages.

    Attributes:
        clock: The wall clock, which a test may set to any time.
        slots: Attempts that may run at the same time.
        labels: Labels of the node.
        ahead: How long before its fire time a fire may be decided.
        space: Free space on the node's disk.
        facts: What shared documents say.
        elsewhere: The use of every namespace in other shards.
        elapsed: The monotonic clock, which `pass_time` advances.
        effects: All effects of the last command.
        published_fires: All outcomes of fire times that were published.
        published_jobs: All events of jobs that were published.
        timers: Timers that are set and have not rung.
        messages: Messages sent and not yet delivered, oldest first, by their key in the outbox.
        rows: The stored state and history, encoded.
    """

    clock: Instant = field(default_factory=lambda: at("12:00"))
    slots: int = 1_000
    labels: dict[str, str] = field(default_factory=dict[str, str])
    limits: Limits = field(default_factory=Limits)
    ahead: Duration = Duration(0)
    space: DiskSpace = DiskSpace.AMPLE
    facts: Facts = NO_FACTS
    elsewhere: Use = NO_USE
    entropy: int | None = None
    """Entropy of every decision; None for another value each time."""
    node_id: NodeId = NODE
    session: Session = FIRST_SESSION
    elapsed: int = 0
    state: State = field(default_factory=State)
    copy: LocalCopy = field(default_factory=lambda: copy_from(ORIGIN, Epoch(1)))
    effects: list[Consequence] = field(default_factory=list[Consequence])
    published_fires: list[PublishFires] = field(default_factory=list[PublishFires])
    published_jobs: list[PublishJob] = field(default_factory=list[PublishJob])
    timers: dict[Timer, int] = field(default_factory=dict[Timer, int])
    messages: dict[str, JobMessage] = field(default_factory=dict[str, JobMessage])
    rows: dict[tuple[Table, str], bytes] = field(default_factory=dict[tuple[Table, str], bytes])
    causes: list[str] = field(default_factory=list[str])
    decided_at: Instant = NEVER
    """Shard time of the last decision; a little later than the clock if that stands still."""
    walls: dict[Instant, Instant] = field(default_factory=dict[Instant, Instant])
    """The wall clock of each decision, by its shard time."""
    decision_count: int = 0
    started_count: int = 0
    """Attempts that the last entry starts, as its decisions state."""
    change_count: int = 0
    """Changes that the last entry holds."""

    # -- deciding -------------------------------------------------------------------------------

    def do(self, command: Command) -> Reply:
        """Decide *command* in an entry of its own, and make that part of the shard.

        Raises:
            Refused: As `decide` raises it; nothing has changed then.
        """
        (reply,) = self.do_together(command)
        if isinstance(reply, Refused):
            raise reply
        return reply

    def do_together(self, *commands: Command) -> list[Reply | Refused]:
        """Decide several commands in one entry, each after the one before."""
        now = self.copy.shard_time(self.clock)
        self.effects = []
        self.started_count = 0
        replies: list[Reply | Refused] = []
        causes: list[str] = []
        changes: dict[tuple[Table, str], RawChange] = {}
        for command in commands:
            situation = self._situation(now)
            try:
                decision = decide(self.state, command, situation)
            except Refused as refusal:
                replies.append(refusal)
                continue
            self.decided_at = now
            self.walls[now] = min(self.clock, now)
            replies.append(decision.reply)
            causes.append(decision.cause)
            changes.update(self._take(decision, situation))
            now = later(now, MICROSECOND)
        if causes:
            self.causes += causes
            self._commit(encode_body(causes, changes.values()), now)
        return replies

    def _take(self, decision: Decision, situation: Situation) -> dict[tuple[Table, str], RawChange]:
        """Make a decision part of the state, and return its changes as they are stored."""
        raws = {(change.table, change.key): encode_change(change) for change in decision.changes}
        assert len(raws) == len(decision.changes), f"{decision.cause} changes a key twice"
        assert 0 <= decision.started <= max(0, situation.slots.free)
        check_moves(self.state, decision.effects)
        for raw in raws.values():
            self.state.apply(decode_change(raw))
        self.started_count += decision.started
        for effect in decision.effects:
            self.note(effect)
        return raws

    @property
    def situation(self) -> Situation:
        """Inputs, besides the state, of a decision at the instant of the last one."""
        return self._situation(self.decided_at)

    def _situation(self, now: Instant) -> Situation:
        self.decision_count += 1
        digest = blake2b(str(self.decision_count).encode(), digest_size=8).digest()
        return Situation(
            now=now,
            entropy=int.from_bytes(digest, "big") if self.entropy is None else self.entropy,
            position=self.copy.position,
            slots=FreeSlots(
                self.node_id, self.session, self.labels, self.slots - self.running_count
            ),
            limits=self.limits,
            lead=Duration(max(0, now - self.clock)),
            decide_ahead=self.ahead,
            disk_space=self.space,
            facts=self.facts,
            use_elsewhere=lambda namespace: self.elsewhere,
        )

    def _commit(self, body: bytes, now: Instant) -> None:
        tip = self.copy.tip
        self.copy.append(body, now, EntryKind.CHANGES)
        entry, _ = follow(tip, self.copy.entry(self.copy.tip.index))
        self.copy.commit(entry.index)
        changes = decode_body(entry.body)[1]
        self.change_count = len(changes)
        for number, key, value in changes:
            table = Table(number)
            if value is None:
                self.rows.pop((table, key), None)
            else:
                self.rows[table, key] = value

    def note(self, effect: Consequence) -> None:
        """Take an effect, as if the last command had led to it."""
        self.effects.append(effect)
        match effect:
            case SetTimer(due, command, timescale):
                counted = (
                    due if timescale is Timescale.WALL else self.elapsed + due - self.decided_at
                )
                self.timers[Timer(due, command, timescale)] = counted
            case ClearTimer(due, command, timescale):
                self.timers.pop(Timer(due, command, timescale), None)
            case PublishFires():
                self.published_fires.append(effect)
            case PublishJob():
                self.published_jobs.append(effect)
            case Deliver(item):
                self.messages[item.key] = item.message
            case _:
                pass

    # -- requests -------------------------------------------------------------------------------

    def save(
        self,
        *tasks: TaskSpec,
        name: str = "job",
        idempotency: Idempotency | None = None,
        **fields: Unpack[Fields],
    ) -> JobId:
        """Save a job, of one task if none are given; *fields* are those of `JobSpec`."""
        return self.save_spec(job(*tasks, name=name, **fields), idempotency)

    def save_spec(self, spec: JobSpec, idempotency: Idempotency | None = None) -> JobId:
        """Save a job."""
        reply = self.do(SaveJob(spec=spec, idempotency=idempotency))
        assert isinstance(reply, JobSaved)
        return reply.job_id

    def trigger(
        self, job_id: JobId, parameters: str = "", idempotency: Idempotency | None = None
    ) -> ExecutionId:
        """Trigger a job."""
        reply = self.do(Trigger(job_id=job_id, parameters=parameters, idempotency=idempotency))
        assert isinstance(reply, Triggered)
        return reply.execution_id

    def run(self, *tasks: TaskSpec, name: str = "job", **fields: Unpack[Fields]) -> ExecutionId:
        """Save a job and trigger it."""
        return self.trigger(self.save(*tasks, name=name, **fields))

    def cancel(self, execution_id: ExecutionId) -> None:
        """Cancel an execution."""
        self.do(Cancel(execution_id=execution_id))

    def delete(self, job_id: JobId) -> None:
        """Delete a job."""
        self.do(DeleteJob(job_id=job_id))

    # -- events ---------------------------------------------------------------------------------

    def finish(
        self,
        execution_id: ExecutionId,
        name: str = "main",
        outcome: Outcome = Outcome.SUCCEEDED,
        exit_code: int | None = None,
        result: bytes = b"",
    ) -> None:
        """Have the running attempt of a task end."""
        self.do(self.report(execution_id, name, outcome, exit_code, result))

    def fail(self, execution_id: ExecutionId, name: str = "main", exit_code: int = 1) -> None:
        """Have the running attempt of a task fail."""
        self.finish(execution_id, name, Outcome.FAILED, exit_code)

    def report(
        self,
        execution_id: ExecutionId,
        name: str = "main",
        outcome: Outcome = Outcome.SUCCEEDED,
        exit_code: int | None = None,
        result: bytes = b"",
    ) -> FinishAttempt:
        """Return the report of the end of a task's newest attempt."""
        attempt = self.task(execution_id, name).attempts[-1]
        if exit_code is None:
            exit_code = 0 if outcome is Outcome.SUCCEEDED else -1
        ending = Ending(
            outcome=outcome,
            started_at=attempt.placed_at,
            finished_at=self.clock,
            exit_code=exit_code,
            reason="" if outcome is Outcome.SUCCEEDED else f"ended {outcome.value}",
            result=result,
        )
        key = AttemptKey(execution_id, name, attempt.number)
        return FinishAttempt(attempt=key, token=attempt.token, ending=ending)

    def report_progress(
        self,
        execution_id: ExecutionId,
        name: str = "main",
        *,
        percent: int | None = None,
        checkpoint: bytes | None = None,
    ) -> None:
        """Report progress or a checkpoint of the running attempt of a task."""
        attempt = self.task(execution_id, name).attempts[-1]
        key = AttemptKey(execution_id, name, attempt.number)
        report = Report(percent=percent, checkpoint=checkpoint)
        self.do(ReportAttempt(attempt=key, token=attempt.token, report=report))

    def lose_node(self) -> None:
        """End the node's session, with all its attempts, and begin another."""
        gone = self.session
        self.session = Session(f"session-{int(gone.partition('-')[2]) + 1}")
        self.do(LoseSession(node_id=self.node_id, session=gone))

    def start(self, execution_id: ExecutionId, name: str = "main") -> None:
        """Offer a slot to a task that waits for one."""
        self.do(StartTask(execution_id=execution_id, task=name))

    def fire(self, job_id: JobId) -> None:
        """Have a job's fire times decided."""
        self.do(Fire(job_id=job_id))

    def set_clock(self, instant: Instant) -> None:
        """Set the wall clock; no time passes."""
        self.clock = instant

    def pass_time(self, duration: Duration) -> None:
        """Let time pass, and then ring all due timers once."""
        self.elapsed += duration
        self.clock = later(self.clock, duration)
        self.ring_timers()

    def ring_timers(self, most: int = 1_000) -> None:
        """Ring every due timer, including due timers that are set meanwhile."""
        for _ in range(most):
            due = [timer for timer, counted in self.timers.items() if self._is_due(timer, counted)]
            if not due:
                return
            first = min(due, key=lambda timer: timer.due)
            del self.timers[first]
            self.do(first.command)
        raise AssertionError(f"timers still ring after {most}: {self.timers}")

    def _is_due(self, timer: Timer, counted: int) -> bool:
        return counted <= (self.clock if timer.timescale is Timescale.WALL else self.elapsed)

    def deliver(self, to: "Shard | None" = None, most: int = 100_000) -> None:
        """Deliver *most* messages at most to the shard *to*, or to this one, and confirm them."""
        for _ in range(most):
            if not self.messages:
                return
            key, message = next(iter(self.messages.items()))
            del self.messages[key]
            (to or self).do(ReceiveMessage(message=message))
            self.do(ConfirmDelivery(key=key))

    # -- queries --------------------------------------------------------------------------------

    @property
    def running_count(self) -> int:
        """Attempts that run."""
        return sum(
            one.status is TaskStatus.RUNNING
            for tasks in self.state.tasks.values()
            for one in tasks.values()
        )

    def read(self, table: Table, key: str, kind: type[R]) -> R:
        """Return a stored record."""
        record = decode_record(table, self.rows[table, key])
        assert isinstance(record, kind)
        return record

    def read_all(self, table: Table, kind: type[R]) -> list[R]:
        """Return every record of a table, in the order of their keys."""
        return [self.read(table, key, kind) for found, key in sorted(self.rows) if found is table]

    def history_keys(self) -> list[tuple[Table, str]]:
        """Return the keys of the history, without the changes of users, which are kept longer."""
        return [
            key for key in self.rows if key[0] > Table.HISTORY and key[0] is not Table.USER_CHANGE
        ]

    def keys(self, table: Table) -> list[str]:
        """Return the keys of a table."""
        return sorted(key for found, key in self.rows if found is table)

    def execution(self, execution_id: ExecutionId) -> Execution:
        """Return an execution, finished or not."""
        table = Table.EXECUTION if execution_id in self.state.executions else Table.PAST_EXECUTION
        return self.read(table, execution_id, Execution)

    def task(self, execution_id: ExecutionId, name: str = "main") -> Task:
        """Return a task of an execution, finished or not."""
        table = Table.TASK if execution_id in self.state.executions else Table.PAST_TASK
        return self.read(table, task_key(execution_id, name), Task)

    def status(self, execution_id: ExecutionId) -> str:
        """Return the state of an execution, in the API's words."""
        return self.execution(execution_id).status.value

    def statuses(self, execution_id: ExecutionId) -> dict[str, str]:
        """Return the states of an execution's tasks, by name, in the API's words."""
        table = Table.TASK if execution_id in self.state.executions else Table.PAST_TASK
        prefix = task_key(execution_id, "")
        return {
            key.removeprefix(prefix): self.read(table, key, Task).status.value
            for found, key in sorted(self.rows)
            if found is table and key.startswith(prefix)
        }

    def attempt(self, execution_id: ExecutionId, name: str = "main") -> Attempt:
        """Return a task's newest attempt."""
        return self.task(execution_id, name).attempts[-1]

    def live(self) -> list[ExecutionId]:
        """Return the unfinished executions, in the order of their creation."""
        return [one.id for one in sorted(self.state.executions.values(), key=_age)]

    def executions(self) -> list[Execution]:
        """Return all executions, in the order of their creation."""
        past = self.read_all(Table.PAST_EXECUTION, Execution)
        return sorted([*self.state.executions.values(), *past], key=_age)

    def change_rows(self) -> list[tuple[str, SealedChange]]:
        """Return the rows of the changes of users, oldest first, with their keys."""
        rows = self.read_all(Table.USER_CHANGE, SealedChange)
        return list(zip(self.keys(Table.USER_CHANGE), rows, strict=True))

    def user_changes(self) -> list[UserChange]:
        """Return the changes of users, oldest first."""
        changes = [opened(row) for _, row in self.change_rows()]
        return [each for each in changes if each is not None]

    def chain_check(self) -> ChainCheck:
        """Return the check of all rows of changes."""
        check = ChainCheck(self.state.chain)
        for key, row in self.change_rows():
            check.add(key, row)
        check.finish(self.state.chain.last)
        return check

    def ledger(self) -> list[LedgerEntry]:
        """Return the ledger, in the order of its keys."""
        return self.read_all(Table.LEDGER, LedgerEntry)

    def outcomes(self) -> list[tuple[str, int, str]]:
        """Return the ledger as first fire time, count and outcome: ``("12:01:00", 1, "fired")``."""
        return [
            (clock_of(entry.fire_at), entry.count, entry.outcome.value) for entry in self.ledger()
        ]

    def fired(self) -> list[str]:
        """Return the fire times that an execution was made for, as the clock showed them."""
        fired = FireOutcome.FIRED
        return [clock_of(entry.fire_at) for entry in self.ledger() if entry.outcome is fired]

    def all_effects(self, kind: type[E]) -> list[E]:
        """Return the effects of one kind of the last command."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def pasts(self) -> tuple[Past, ...]:
        """Return the whole history as `Forget` takes it."""
        pointers = self.read_all(Table.PAST, Pointer)
        return tuple(
            Past(instant=_past_instant(key), pointer=pointer, tasks=self._tasks(pointer))
            for key, pointer in zip(self.keys(Table.PAST), pointers, strict=True)
        )

    def _tasks(self, pointer: Pointer) -> tuple[str, ...]:
        if pointer.table != Table.PAST_EXECUTION:
            return ()
        return tuple(self.statuses(ExecutionId(pointer.key)))

    def reloaded(self) -> State:
        """Return the state as another primary would load it: from the rows, in their order."""
        return load_state(self.changes())

    def changes(self) -> Iterator[Change]:
        """Yield the stored state, in the order of its keys."""
        for table, key in sorted(self.rows):
            if table < Table.HISTORY:
                yield Change(table, key, decode_record(table, self.rows[table, key]))


def job(*tasks: TaskSpec, name: str = "job", **fields: Unpack[Fields]) -> JobSpec:
    """Return a job, of one task if none are given; *fields* are those of `JobSpec`."""
    return JobSpec(name=name, tasks=tasks or ONE_TASK, **fields)


def clock_of(instant: Instant) -> str:
    """Return the time of day of an instant in UTC."""
    seconds = instant // 1_000_000 % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def tokens_of(task_record: Task) -> list[Token]:
    """Return the tokens of a task's attempts, oldest first."""
    return [attempt.token for attempt in task_record.attempts]


def names(effects: Iterable[Consequence]) -> list[str]:
    """Return the kinds of effects, in order."""
    return [type(effect).__name__ for effect in effects]


def _age(execution: Execution) -> tuple[Instant, str]:
    return execution.queued_at, execution.id


def _past_instant(key: str) -> Instant:
    return Instant(int(key.partition("/")[0], 16))
