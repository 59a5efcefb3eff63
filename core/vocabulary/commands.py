"""Commands: requests to a shard, which may refuse them.

Users send commands through the API, with the caller of the request as the author; timers, executors
and other shards send them too. A command is never journaled: the journal holds the changes that
follow from it.
"""

from enum import Enum
from typing import Annotated

import msgspec

from rota.core.model.attempt import AttemptKey, Ending, Report, Token
from rota.core.model.author import Author
from rota.core.model.backfill import Backfill
from rota.core.model.checked_fields import (
    CheckedAllocation,
    CheckedJobId,
    CheckedNodeId,
    CheckedShard,
    Count,
)
from rota.core.model.event_trigger import LISTENERS_MAX
from rota.core.model.execution import Execution, Task
from rota.core.model.hook import HookOutcome
from rota.core.model.ids import (
    Epoch,
    ExecutionId,
    JobId,
    NodeId,
    Session,
    ShardId,
    is_execution_id,
    is_full_name,
    is_step_name,
    job_of,
)
from rota.core.model.job import PARAMETERS_MAX, Job, JobPlan, JobSpec
from rota.core.model.ledger import LedgerEntry
from rota.core.model.shared_document import DocumentChange, DocumentKey
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import (
    Answered,
    Called,
    JobMessage,
    Occurred,
    Pointer,
    StandInExecution,
)

OUTBOX_KEY_LENGTH_MAX = 1_024
"""The maximum number of characters of an outbox item's key: instants, numbers and three full names
of jobs, each of up to 257 characters (`rota.core.decide.outbox`)."""


class Idempotency(msgspec.Struct, frozen=True, kw_only=True):
    """Identification of a repeated request.

    Attributes:
        key: The idempotency key that the client chose.
        digest: A digest of the request; the same key with another digest is refused.
        caller: The identity of the principal that sent the request; a key belongs to one caller.
            Empty for none.
    """

    key: str
    digest: str
    caller: str = ""

    @property
    def scoped_key(self) -> str:
        """The key together with its caller; no other caller and key have the same text."""
        caller = self.caller.replace("%", "%25").replace("/", "%2F")
        return f"{caller}/{self.key}" if caller else self.key


class SaveJob(msgspec.Struct, frozen=True, kw_only=True):
    """Create a job; if an identical job exists, return that one.

    Attributes:
        may_replace: Whether to replace a job with the same name and another definition; otherwise
            the command is refused.
        if_version: The version that the existing job must have, 0 if there must be none; None for
            any.
        may_be_past: Whether an ``@at`` that is new in the job may be in the past: True if the
            request sets the misfire policy, which then decides its outcome.
    """

    spec: JobSpec
    idempotency: Idempotency | None = None
    may_replace: bool = False
    if_version: int | None = None
    may_be_past: bool = True
    author: Author | None = None


class DeleteJob(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a job and cancel its executions; its history stays.

    Attributes:
        if_version: The version that the job must have; None for any.
    """

    job_id: JobId
    if_version: int | None = None
    idempotency: Idempotency | None = None
    author: Author | None = None


class PauseJob(msgspec.Struct, frozen=True, kw_only=True):
    """Stop a job from firing by schedule and by dependencies.

    Attributes:
        until: When the job is resumed by itself; 0 for never.
    """

    job_id: JobId
    by: str = ""
    reason: str = ""
    until: Instant = Instant(0)
    idempotency: Idempotency | None = None
    author: Author | None = None


class ResumeJob(msgspec.Struct, frozen=True, kw_only=True):
    """Resume a paused job, so that it fires again."""

    job_id: JobId
    idempotency: Idempotency | None = None
    author: Author | None = None


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """Create one execution now, at a user's request.

    Attributes:
        parameters: JSON that replaces the job's parameters; empty to keep these.
        fire_at: The time for which the execution works; 0 for the instant of the request.
        traceparent: The trace that the request is part of; empty if there is none.
    """

    job_id: JobId
    parameters: str = ""
    fire_at: Instant = Instant(0)
    traceparent: str = ""
    idempotency: Idempotency | None = None
    author: Author | None = None


class RerunScope(Enum):
    """The tasks of a finished execution that run again; see `rota.core.decide.rerun_execution`."""

    FAILED = "failed"
    FROM = "from"
    ALL = "all"


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """Run a finished execution again, as a new one, at a user's request.

    Attributes:
        past: The finished execution, from the history.
        tasks: The tasks of *past*.
        scope: The tasks that run again.
        first: With `RerunScope.FROM`, the name of the first task that runs again.
        marked: The names of the tasks that count as successful, and do not run.
        definition: The definition that *past* ran; None for the job's newest.
        parameters: JSON that replaces the parameters of *past*; empty to keep these.
        traceparent: The trace that the request is part of; empty if there is none.
    """

    past: Execution
    tasks: tuple[Task, ...]
    scope: RerunScope
    first: str = ""
    marked: tuple[str, ...] = ()
    definition: JobSpec | None = None
    parameters: str = ""
    traceparent: str = ""
    idempotency: Idempotency | None = None
    author: Author | None = None


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel an execution: running attempts are stopped, and only teardowns start.

    Attributes:
        is_forced: Whether teardowns are stopped, too.
    """

    execution_id: ExecutionId
    author: Author | None = None
    is_forced: bool = False


class AnswerTask(msgspec.Struct, frozen=True, kw_only=True):
    """A person approves or rejects a task that waits for that.

    Attributes:
        task: The name of the task, or of a step of it.
        result: What the person filled in, as JSON; empty for nothing.
    """

    execution_id: ExecutionId
    task: str
    is_approved: bool
    reason: str = ""
    result: bytes = b""
    author: Author | None = None


class PostEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event happens, for which steps of an execution wait, or will wait.

    Attributes:
        name: Its name.
        data: Its data as JSON; empty for none.
    """

    execution_id: ExecutionId
    name: str
    data: bytes = b""
    author: Author | None = None


class ReceiveEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event from outside happens, for which jobs have triggers.

    Attributes:
        channel: The channel of the event (`rota.core.model.event_trigger`).
        event: The event as JSON (CloudEvents).
        idempotency: Identifies its repetitions.
    """

    channel: str
    event: str
    idempotency: Idempotency | None = None
    author: Author | None = None


class PutState(msgspec.Struct, frozen=True, kw_only=True):
    """Set a value of a job's state.

    Attributes:
        value: The value as JSON.
        if_revision: The revision that is expected, 0 for none; None for any.
        is_forward: Whether a value is refused that is smaller than the one before.
        holder: The execution with whose end the value ends; empty for none.
        holding_task: The task or step of it with whose end the value ends; empty for none.
    """

    job_id: JobId
    key: str
    value: bytes
    if_revision: int | None = None
    is_forward: bool = False
    holder: ExecutionId = ExecutionId("")
    holding_task: str = ""
    author: Author | None = None


class DeleteState(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a value of a job's state.

    Attributes:
        if_revision: The revision that is expected; None for any.
    """

    job_id: JobId
    key: str
    if_revision: int | None = None
    author: Author | None = None


class StartBackfill(msgspec.Struct, frozen=True, kw_only=True):
    """Run a job for fire times of the past, at a user's request.

    Attributes:
        backfill: The backfill; its total and its times are set by the decision.
        times: Its fire times, in the order in which they run.
        known: The ids of the job's backfills when the times were read.
    """

    backfill: Backfill
    times: tuple[Instant, ...]
    known: tuple[str, ...] = ()
    author: Author | None = None


class BackfillAction(Enum):
    """What a user does with a backfill."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


class ControlBackfill(msgspec.Struct, frozen=True, kw_only=True):
    """Pause, resume or cancel a backfill, at a user's request."""

    job_id: JobId
    backfill_id: str
    action: BackfillAction
    author: Author | None = None


class Fire(msgspec.Struct, frozen=True, kw_only=True, tag="fire"):
    """A job's next fire time is due."""

    job_id: JobId


class EndPause(msgspec.Struct, frozen=True, kw_only=True, tag="endPause"):
    """The pause of a job that ends at *until* is over."""

    job_id: JobId
    until: Instant


class Wake(msgspec.Struct, frozen=True, kw_only=True, tag="wake"):
    """A task's delay before its attempt *number* is over."""

    execution_id: ExecutionId
    task: str
    number: Count


class Expire(msgspec.Struct, frozen=True, kw_only=True, tag="expire"):
    """The start deadline, or the timeout, of an execution has passed.

    Attributes:
        deadline: The deadline when the timer was set; the execution may have another one by now.
    """

    execution_id: ExecutionId
    deadline: Instant


class NoteLate(msgspec.Struct, frozen=True, kw_only=True, tag="late"):
    """An execution has not ended within the time after which its job calls it late.

    Attributes:
        deadline: As it was when the timer was set.
    """

    execution_id: ExecutionId
    deadline: Instant


class RunIfMet(msgspec.Struct, frozen=True, kw_only=True, tag="met"):
    """A job whose dependencies were met in a paused namespace may run now."""

    job_id: JobId


class ContinueBackfill(msgspec.Struct, frozen=True, kw_only=True, tag="backfill"):
    """A backfill of a job that could begin no execution may begin one now."""

    job_id: JobId


class StartTask(msgspec.Struct, frozen=True, kw_only=True):
    """A slot is free for a task that is ready."""

    execution_id: ExecutionId
    task: str


class FinishAttempt(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """The end of an attempt, reported by its executor, or by the primary if the attempt is lost."""

    attempt: AttemptKey
    token: Token
    ending: Ending


class ReportAttempt(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """Progress of a running attempt, or a checkpoint for the next attempt of its task."""

    attempt: AttemptKey
    token: Token
    report: Report


class LoseSession(msgspec.Struct, frozen=True, kw_only=True):
    """Every attempt under this session of a node has ended, with unknown outcome (PROTOCOL R36)."""

    node_id: NodeId
    session: Session


class FireAtStartup(msgspec.Struct, frozen=True, kw_only=True):
    """The ``@startup`` schedules are due, because a single node has started.

    Attributes:
        epoch: The epoch under which the node is the primary of the shard.
    """

    epoch: Epoch


class RecountFires(msgspec.Struct, frozen=True, kw_only=True):
    """The next fire times of a job differ by the present rules of its time zones."""

    job_id: JobId


class ReceiveMessage(msgspec.Struct, frozen=True, kw_only=True, tag="receive"):
    """A message from a job of another shard, about a dependency or by a hook.

    A message may arrive more than once. A message that arrives after a later one of the same sender
    counts as a repetition.

    Attributes:
        message: The message, ``letter`` on the wire.
        sender: The shard that sent the message.
        outbox_key: The key in the sender's outbox, ``place`` on the wire. A shard's messages are
            delivered in the order of these keys; empty if the order is not checked.
    """

    message: JobMessage = msgspec.field(name="letter")
    sender: CheckedShard = ShardId(0)
    outbox_key: Annotated[str, msgspec.Meta(max_length=OUTBOX_KEY_LENGTH_MAX)] = msgspec.field(
        default="", name="place"
    )


class ConfirmDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver of an outbox item has committed its message."""

    key: str


class EndNotification(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of a webhook has ended.

    Attributes:
        key: Of the notification.
        detail: The receiver's answer, or why there is none.
    """

    key: str
    outcome: HookOutcome
    detail: str = ""


class FollowJob(msgspec.Struct, frozen=True, kw_only=True):
    """Let a fallback shard fire a job, with the definition and plan of this node's copy."""

    job: Job
    plan: JobPlan


class ReconcileFires(msgspec.Struct, frozen=True, kw_only=True, tag="claim"):
    """The outcomes that a stand-in decided for fire times of a job; a repetition changes nothing.

    Attributes:
        version: The version of the job that the stand-in used.
        node_id: The stand-in.
        entries: The stand-in's ledger of the job, oldest first.
    """

    job_id: CheckedJobId
    version: Count
    node_id: CheckedNodeId
    entries: tuple[LedgerEntry, ...]

    def __post_init__(self) -> None:
        """Refuse entries of another job and malformed ids."""
        for entry in self.entries:
            if entry.job_id != self.job_id:
                raise ValueError(f"a ledger entry is of job {entry.job_id!r}, not {self.job_id}")
            if entry.execution_id and not is_execution_id(entry.execution_id):
                raise ValueError(f"{entry.execution_id!r} is not the id of an execution")


class ReconcileExecution(msgspec.Struct, frozen=True, kw_only=True, tag="account"):
    """An execution that has ended on a stand-in; a repetition changes nothing.

    Attributes:
        fallback_copy: The allocation of the fallback shard, ``side`` on the wire. The executions of
            one fallback shard arrive in the order of
            `rota.core.decide.fallback.reconciliation_order`.
        ended: The execution, ``account`` on the wire.
    """

    fallback_copy: CheckedAllocation = msgspec.field(name="side")
    ended: StandInExecution = msgspec.field(name="account")

    def __post_init__(self) -> None:
        """Refuse malformed ids and names, because they become keys of the history."""
        execution = self.ended.execution
        if not is_execution_id(execution.id) or job_of(execution.id) != execution.job_id:
            raise ValueError(f"{execution.id!r} is not the id of an execution of its job")
        if not is_full_name(execution.job_name):
            raise ValueError(f"{execution.job_name!r} is not the full name of a job")
        if not all(is_step_name(task.name) for task in self.ended.tasks):
            raise ValueError("a task has a malformed name")


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the history: its instant, its key and, for an execution, its tasks' names."""

    instant: Instant
    pointer: Pointer
    tasks: tuple[str, ...] = ()


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """Delete old records of the history.

    Attributes:
        pasts: The records to delete.
        kept: Old records that are among the newest of their job and are kept while the job exists.
    """

    pasts: tuple[Past, ...]
    kept: tuple[Past, ...] = ()


class ForgetChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the oldest changes of users.

    Attributes:
        keys: The keys of the changes, of which the first is the oldest of the shard.
        last: The number of the newest of them.
        hash: The hash of the newest of them; empty if it cannot be read.
    """

    keys: tuple[str, ...]
    last: Count
    hash: bytes


class RecordDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Record the changes of a shared document that are not recorded yet.

    Attributes:
        key: The document.
        changes: Its newest changes, newest first; none if its record no longer exists.
    """

    key: DocumentKey
    changes: tuple[DocumentChange, ...]


class ForgetRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the recorded replies whose time to live has ended."""


IdempotentCommand = Trigger | Rerun | SaveJob | DeleteJob | PauseJob | ResumeJob | ReceiveEvent
"""The commands with an idempotency key: a late repetition must change nothing.

`Cancel` needs none: it names one execution, and cancelling that execution is final.
"""

TimerCommand = Fire | Wake | Expire | NoteLate | RunIfMet | ContinueBackfill | EndPause
"""The commands that timers send; their tags are in stored timers."""

Command = (
    SaveJob
    | DeleteJob
    | PauseJob
    | ResumeJob
    | EndPause
    | Trigger
    | Rerun
    | Cancel
    | AnswerTask
    | PostEvent
    | ReceiveEvent
    | PutState
    | DeleteState
    | StartBackfill
    | ControlBackfill
    | ContinueBackfill
    | Fire
    | Wake
    | Expire
    | NoteLate
    | RunIfMet
    | StartTask
    | FinishAttempt
    | ReportAttempt
    | LoseSession
    | FireAtStartup
    | RecountFires
    | ReceiveMessage
    | ConfirmDelivery
    | EndNotification
    | FollowJob
    | ReconcileFires
    | ReconcileExecution
    | Forget
    | ForgetChanges
    | RecordDocument
    | ForgetRequests
)


def payload_bytes(command: Command) -> int:
    """Return the approximate size of the users' and tasks' data that *command* records, in bytes.

    Everything else that a decision writes is short.
    """
    if isinstance(command, FinishAttempt):
        return len(command.ending.result) + len(command.ending.output)
    if isinstance(command, ReconcileExecution):
        return sum(map(_ending_bytes, command.ended.tasks))
    if isinstance(command, ReportAttempt):
        return len(command.report.checkpoint or b"")
    if isinstance(command, Trigger):
        return len(command.parameters)
    if isinstance(command, PostEvent):
        return len(command.data)
    if isinstance(command, ReceiveEvent):
        return LISTENERS_MAX * len(command.event)
    if isinstance(command, ReceiveMessage):
        return _message_bytes(command.message)
    if isinstance(command, Rerun):
        return len(command.parameters) + sum(map(_ending_bytes, command.tasks))
    if isinstance(command, StartBackfill):
        return len(command.backfill.parameters) + 9 * len(command.times)
    if isinstance(command, SaveJob):
        return len(msgspec.msgpack.encode(command.spec))
    return 0


def _message_bytes(message: JobMessage) -> int:
    match message:
        case Occurred(event=event):
            return len(event) + PARAMETERS_MAX
        case Called(parameters=parameters):
            return len(parameters)
        case Answered(result=result):
            return len(result)
        case _:
            return 0


def _ending_bytes(task: Task) -> int:
    endings = (attempt.ending for attempt in task.attempts)
    return sum(len(ending.result) + len(ending.output) for ending in endings if ending)
