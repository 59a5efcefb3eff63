"""Changes: the content of journal entries, and the only thing that is replicated.

A shard's state is a set of tables. A change sets one key of one table to a record, or deletes the
key. Records are encoded once, when the entry is made; backups store the bytes without decoding
them.
"""

from enum import IntEnum
from typing import Annotated, NamedTuple

import msgspec

from rota.core.model.author import Author
from rota.core.model.backfill import Backfill, BackfillTimes
from rota.core.model.checked_fields import (
    CheckedExecutionId,
    CheckedFullName,
    CheckedIndex,
    CheckedInstant,
    CheckedJobId,
    CheckedName,
    CheckedNodeId,
    CheckedUpstream,
    Count,
)
from rota.core.model.execution import Execution, ExecutionStatus, Task
from rota.core.model.flow import CALL_BYTES_MAX, EVENT_BYTES_MAX
from rota.core.model.hook import DOCUMENT_BYTES_MAX, REASON_MAX, HookEvent, Notification
from rota.core.model.ids import ExecutionId, JobId, NodeId
from rota.core.model.job import Job, JobPlan, JobSpec
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import Instant
from rota.core.vocabulary.change_chain import ChangeChain, SealedChange


class Table(IntEnum):
    """The tables of a shard. Numbers are part of the data format: never reuse one.

    The tables from `HISTORY` on are stored separately: scheduling never reads them, and their
    records are deleted by age.
    """

    JOB = 1
    """job id -> Job"""
    NAME = 2
    """namespace/name -> Name"""
    VERSION = 3
    """job id/version -> JobSpec, of a replaced version that live executions still run"""
    PLAN = 4
    """job id -> JobPlan"""
    EXECUTION = 5
    """execution id -> Execution, while it is not finished"""
    TASK = 6
    """execution id/task -> Task, while its execution is not finished"""
    REQUEST = 7
    """idempotency key -> RecordedReply"""
    OUTBOX = 8
    """journal index/instant/number, receiver, the two jobs -> OutboxItem, until delivered"""
    DEPENDENT = 9
    """full name of a job, space, full name of a job that depends on it -> Dependent"""
    RECEIVED = 10
    """number of a shard, four hex digits, or "stand-in/" and a node -> LastReceived"""
    CHECKPOINT = 11
    """execution id/task -> Checkpoint, while the task is not finished"""
    AVAILABLE = 12
    """job id -> Available, for a job that a stand-in may fire"""
    STAND_IN = 13
    """execution id -> StandInRun, until its stand-in has reported its end"""
    NOTIFICATION = 14
    """execution id, event, number of the hook -> Notification, until its delivery has ended"""
    CHANGE_CHAIN = 15
    """"" -> ChangeChain, once a user has changed something"""
    RECORDED_DOCUMENT = 16
    """kind/name -> RecordedDocument, of a shared document whose changes the shard records"""
    SIGNED_HEAD = 17
    """Written by earlier versions."""
    EXPORTED = 18
    """Written by earlier versions."""
    BACKFILL = 19
    """job id/backfill -> Backfill; the newest ones are kept when they have ended"""
    BACKFILL_TIMES = 20
    """job id/backfill -> BackfillTimes, while the backfill has not ended"""
    EVENT = 21
    """execution id/name -> PostedEvent, while the execution is not finished"""
    STATE = 22
    """job id/key -> StateEntry"""

    HISTORY = 32
    PAST_EXECUTION = 33
    """execution id -> Execution, finished"""
    PAST_TASK = 34
    """execution id/task -> Task, of a finished execution"""
    LEDGER = 35
    """job id/fire time/schedule -> LedgerEntry"""
    PAST = 36
    """fire time/key -> Pointer: the records of the history by age, for listing and expiry

    An execution that is kept beyond its age has the instant of that decision instead."""
    DUPLICATE = 37
    """execution id/node -> StandInExecution that the shard decided itself too"""
    PAST_VERSION = 38
    """job id/version -> JobSpec, replaced, so that its executions can be run again"""
    USER_CHANGE = 39
    """instant/number -> SealedChange"""


class Name(msgspec.Struct, frozen=True, array_like=True):
    """The id of the job that has a name."""

    job_id: JobId


class Dependent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The job *name* depends on the job *upstream*; both are full names."""

    upstream: str
    name: str


class LastReceived(msgspec.Struct, frozen=True, array_like=True):
    """The position of the newest message that a sender has delivered.

    Attributes:
        position: For a shard, the key in its outbox. For a stand-in, the allocation of its fallback
            shard and `rota.core.decide.fallback.reconciliation_order`.
    """

    position: str


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """The data that a task's attempts last saved for the next attempt.

    It has its own record because the task's record is rewritten with every attempt and every
    percent of progress.
    """

    data: bytes


class PostedEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An event of an execution, or the steps that wait for one.

    Attributes:
        name: Its name, unique in the execution.
        at: When it was posted; 0 before that.
        data: Its data as JSON; empty for none.
        author: Who posted it; None if that is unknown.
        waiting: The names of the steps that have begun to wait for it before it was posted.
    """

    name: str
    at: CheckedInstant = Instant(0)
    data: bytes = b""
    author: Author | None = None
    waiting: tuple[str, ...] = ()


class Available(msgspec.Struct, frozen=True, array_like=True):
    """Marker of a job that stand-ins may fire: a stand-in finds it without reading all jobs."""


class StandInRun(msgspec.Struct, frozen=True, array_like=True):
    """The stand-in that runs, or ran, an execution whose end it has not reported yet."""

    node_id: NodeId


class StandInExecution(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An execution that has ended on a stand-in, with its tasks."""

    node_id: CheckedNodeId
    execution: Execution
    tasks: tuple[Task, ...]


class Retired(msgspec.Struct, frozen=True, array_like=True):
    """A record that only earlier versions wrote; it is ignored, whatever fields it has."""


class RecordedDocument(msgspec.Struct, frozen=True, array_like=True):
    """The newest change of a shared document that the shard has recorded.

    Attributes:
        version: The version that the change created.
        at: The time of the change, which differs if another document has had the same name.
    """

    version: Count
    at: CheckedInstant


class RecordedReply(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The reply to a request with an idempotency key, kept for repetitions.

    Attributes:
        digest: A digest of the request; the same key with another digest is refused.
        result_id: The id of the execution or of the job; empty if the job was deleted.
        version: The job's version after the request; 0 if unknown, as in records of early versions.
        is_new: Whether the request created the job.
        replaced: The version of the job that the request replaced; 0 for none.
    """

    digest: str
    result_id: str
    expires_at: Instant
    version: int = 0
    is_new: bool = False
    replaced: int = 0


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """The table and key of a record of the history."""

    table: int
    key: str


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, tag="subscribe"):
    """*dependent* depends on *upstream*, a job or a channel of events, from now on."""

    upstream: CheckedUpstream
    dependent: CheckedFullName


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True, tag="unsubscribe"):
    """*dependent* no longer depends on *upstream*."""

    upstream: CheckedUpstream
    dependent: CheckedFullName


class Succeeded(msgspec.Struct, frozen=True, kw_only=True, tag="succeeded"):
    """An execution of *upstream* succeeded, in entry *index* of its shard's journal.

    Attributes:
        links: The number of links up to that execution, with it.
    """

    upstream: CheckedFullName
    dependent: CheckedFullName
    index: CheckedIndex
    links: Count = 0


class Hooked(msgspec.Struct, frozen=True, kw_only=True, tag="hooked"):
    """A hook of *upstream* triggers *dependent*.

    Attributes:
        upstream: The full name of the job with the hook.
        dependent: The full name of the job to be triggered.
        job_id: The id of *upstream*.
        execution_id: The id of the execution of *upstream*.
        event: The event that the hook follows.
        parameters: The event as JSON (`rota.core.model.hook.JobEventDocument`).
        links: The number of links up to that execution, with it.
    """

    upstream: CheckedFullName
    dependent: CheckedFullName
    job_id: CheckedJobId
    execution_id: CheckedExecutionId
    event: HookEvent
    parameters: Annotated[str, msgspec.Meta(max_length=DOCUMENT_BYTES_MAX)]
    links: Count = 0

    @property
    def job(self) -> str:
        """The full name of the job with the hook."""
        return self.upstream


class Called(msgspec.Struct, frozen=True, kw_only=True, tag="called"):
    """A step of an execution of *upstream* runs the job *dependent*, and waits for its end.

    Attributes:
        execution_id: The execution of the step.
        task: The name of the step.
        parameters: The parameters as JSON; empty for those of the job.
        links: The number of links up to that execution, with it.
    """

    upstream: CheckedFullName
    dependent: CheckedFullName
    execution_id: CheckedExecutionId
    task: CheckedName
    parameters: Annotated[str, msgspec.Meta(max_length=CALL_BYTES_MAX)] = ""
    links: Count = 0


class Recalled(msgspec.Struct, frozen=True, kw_only=True, tag="recalled"):
    """A step of an execution of *upstream* no longer waits for *dependent*, which is cancelled."""

    upstream: CheckedFullName
    dependent: CheckedFullName
    execution_id: CheckedExecutionId
    task: CheckedName


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """The state of the execution of *dependent* that a step of *upstream* waits for.

    Attributes:
        execution_id: The execution of the step.
        task: The name of the step.
        status: The state; ``failed`` also if *dependent* cannot run.
        called: The execution of *dependent*; empty if there is none.
        reason: The reason of the state, for people.
        result: The result of the step, as JSON; empty for none.
    """

    upstream: CheckedFullName
    dependent: CheckedFullName
    execution_id: CheckedExecutionId
    task: CheckedName
    status: ExecutionStatus
    called: ExecutionId = ExecutionId("")
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX)] = ""
    result: Annotated[bytes, msgspec.Meta(max_length=2 * CALL_BYTES_MAX)] = b""


class Occurred(msgspec.Struct, frozen=True, kw_only=True, tag="occurred"):
    """An event from outside, for which *dependent* has a trigger.

    Attributes:
        upstream: The channel of the event.
        dependent: The full name of the job.
        event: The event as JSON (CloudEvents).
        author: Who posted it.
    """

    upstream: CheckedUpstream
    dependent: CheckedFullName
    event: Annotated[str, msgspec.Meta(max_length=EVENT_BYTES_MAX)]
    author: Author | None = None


JobMessage = Subscribe | Unsubscribe | Succeeded | Hooked | Called | Recalled | Answered | Occurred
"""A message from a job, or from a channel of events, to a job; or from a job to a channel."""


class OutboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message to another shard, kept until that shard has committed it.

    Attributes:
        key: Its key in the outbox.
        to: The full name of the receiving job.
        message: The message, ``letter`` in stored records.
    """

    key: str
    to: str
    message: JobMessage = msgspec.field(name="letter")

    @property
    def sender(self) -> str:
        """The full name of the sending job."""
        message = self.message
        is_from_upstream = isinstance(message, Succeeded | Hooked | Called | Recalled | Occurred)
        return message.upstream if is_from_upstream else message.dependent


Record = (
    Job
    | Name
    | JobSpec
    | JobPlan
    | Execution
    | Task
    | RecordedReply
    | Dependent
    | LastReceived
    | Checkpoint
    | Available
    | StandInRun
    | StandInExecution
    | OutboxItem
    | Notification
    | LedgerEntry
    | Pointer
    | ChangeChain
    | RecordedDocument
    | Backfill
    | BackfillTimes
    | PostedEvent
    | StateEntry
    | Retired
    | SealedChange
)


class Change(NamedTuple):
    """*key* of *table* is set to *record*, or deleted if *record* is None."""

    table: Table
    key: str
    record: Record | None


def past_key(instant: Instant, pointer: Pointer) -> str:
    """Return the key of a record of the history in the index by age."""
    return f"{instant:014x}/{pointer.table:02x}/{pointer.key}"
