"""Changes: the only thing that is journaled and replicated.

A shard's state is a set of tables; a change gives one key of one table a record, or takes it
away. Records are encoded once, when the entry is made; backups store the bytes without knowing
what they mean.
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from rota.core.model.checked_fields import CheckedFullName, CheckedIndex, CheckedNodeId
from rota.core.model.execution import Execution, Task
from rota.core.model.ids import JobId, NodeId
from rota.core.model.job import Job, JobPlan, JobSpec
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import Instant


class Table(IntEnum):
    """The tables of a shard. Numbers are part of the data format: never reuse one.

    Those from `HISTORY` on are kept apart from the rest: they only grow, are never read to
    schedule, and go by age.
    """

    JOB = 1
    """job id -> Job"""
    NAME = 2
    """namespace/name -> Name"""
    VERSION = 3
    """job id/version -> JobSpec, of a replaced version that live executions still run"""
    PLAN = 4
    """job id -> Plan"""
    EXECUTION = 5
    """execution id -> Execution, while it is not finished"""
    TASK = 6
    """execution id/task -> Task, while its execution is not finished"""
    REQUEST = 7
    """idempotency key -> Request"""
    OUTBOX = 8
    """journal index/instant/number, receiver, the two jobs -> Parcel, until its receiver has it"""
    DEPENDENT = 9
    """full name of a job, space, full name of one that waits for it -> Dependent"""
    RECEIVED = 10
    """number of a shard, four hex digits, or "stand-in/" and a node -> Mark"""
    CHECKPOINT = 11
    """execution id/task -> Checkpoint, while the task is not finished"""
    AVAILABLE = 12
    """job id -> Available, of a job that a stand-in may fire"""
    CLAIM = 13
    """execution id -> Claimed, until its stand-in has told how it went"""

    HISTORY = 32
    PAST_EXECUTION = 33
    """execution id -> Execution, finished"""
    PAST_TASK = 34
    """execution id/task -> Task, of a finished execution"""
    LEDGER = 35
    """job id/fire time/schedule -> LedgerEntry"""
    PAST = 36
    """fire time/key -> Pointer: everything in the history by age, for listing and expiry"""
    DOUBLE = 37
    """execution id/node -> Account, of a stand-in that ran what the shard decides by itself"""


class Name(msgspec.Struct, frozen=True, array_like=True):
    """The job that a name stands for."""

    job_id: JobId


class Dependent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The job *name* waits for the job *upstream*; both are full names."""

    upstream: str
    name: str


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """The newest of what comes in order.

    Of letters from a shard: its key in that shard's outbox. Of accounts from a stand-in: the side's
    name, and its `rota.core.decide.fallback.place_of`.
    """

    place: str


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """What a task's last attempt that saved something has saved for the next.

    It has a record of its own: the task's is written anew for every attempt and every percent.
    """

    data: bytes


class Available(msgspec.Struct, frozen=True, array_like=True):
    """Says that a job is one: whoever stands in finds it without reading all others."""


class Claimed(msgspec.Struct, frozen=True, array_like=True):
    """The stand-in that runs an execution, or ran it."""

    node_id: NodeId


class Account(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a stand-in tells of an execution that has ended there, with its tasks."""

    node_id: CheckedNodeId
    execution: Execution
    tasks: tuple[Task, ...]


class Request(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The answer to a request that may be repeated with its idempotency key.

    Attributes:
        print: Digest of what was asked: the same key with another body is refused.
        answer: The id of the execution, or of the job; empty if the job was deleted.
        version: What the job then had; 0 if it is not told, as by a rota that did not keep it.
        is_new: Whether the request made the job.
    """

    print: str
    answer: str
    expires_at: Instant
    version: int = 0
    is_new: bool = False


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """Where a piece of history stands."""

    table: int
    key: str


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, tag="subscribe"):
    """Tell *upstream* that *dependent* waits for its successes."""

    upstream: CheckedFullName
    dependent: CheckedFullName


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True, tag="unsubscribe"):
    """Tell *upstream* that *dependent* no longer waits."""

    upstream: CheckedFullName
    dependent: CheckedFullName


class Succeeded(msgspec.Struct, frozen=True, kw_only=True, tag="succeeded"):
    """Tell *dependent* that an execution of *upstream* succeeded, in journal entry *index*."""

    upstream: CheckedFullName
    dependent: CheckedFullName
    index: CheckedIndex


Letter = Subscribe | Unsubscribe | Succeeded


class OutboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message to another shard, kept until that shard has made it part of its own journal."""

    key: str
    to: str
    """Full name of the job it is for."""
    letter: Letter

    @property
    def sender(self) -> str:
        """Full name of the job that it is from."""
        letter = self.letter
        return letter.upstream if isinstance(letter, Succeeded) else letter.dependent


Record = (
    Job
    | Name
    | JobSpec
    | JobPlan
    | Execution
    | Task
    | Request
    | Dependent
    | Mark
    | Checkpoint
    | Available
    | Claimed
    | Account
    | OutboxItem
    | LedgerEntry
    | Pointer
)


class Change(NamedTuple):
    """*key* of *table* becomes *record*, or goes if that is None."""

    table: Table
    key: str
    record: Record | None


def past_key(instant: Instant, pointer: Pointer) -> str:
    """Return the key by which a piece of history is found by its age."""
    return f"{instant:014x}/{pointer.table:02x}/{pointer.key}"
