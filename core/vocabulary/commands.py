"""Commands: requests to a shard, which may refuse them.

They come from people through the API, from timers, from executors and from other shards. A
command is never journaled; what it led to is.
"""

from typing import Annotated

import msgspec

from rota.core.model.attempt import AttemptKey, Ending, Report, Token
from rota.core.model.checked_fields import (
    CheckedAllocation,
    CheckedJobId,
    CheckedNodeId,
    CheckedShard,
    Count,
)
from rota.core.model.execution import Task
from rota.core.model.ids import (
    Epoch,
    ExecutionId,
    JobId,
    NodeId,
    Session,
    ShardId,
    is_execution_id,
    is_full_name,
    is_name,
    job_of,
)
from rota.core.model.job import Job, JobPlan, JobSpec
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Account, Letter, Pointer

PLACE_LENGTH_MAX = 1_024
"""Of a letter's key in its sender's outbox: instants, numbers and three full names of jobs, each of
up to 257 characters (`rota.core.decide.outbox`)."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a request safe to repeat: its idempotency key and a digest of its body."""

    key: str
    print: str


class SaveJob(msgspec.Struct, frozen=True, kw_only=True):
    """Create a job; an identical one that exists is the answer.

    Attributes:
        may_replace: Whether a different one that exists is replaced; else it is a conflict.
        if_version: Only if the job that exists has this version.
        may_be_past: Whether an ``@at`` that is new in the job may lie in the past: the misfire
            policy, which then decides it, was given and not assumed.
    """

    spec: JobSpec
    ask: Ask | None = None
    may_replace: bool = False
    if_version: int | None = None
    may_be_past: bool = True


class DeleteJob(msgspec.Struct, frozen=True, kw_only=True):
    """Take a job away; what runs of it is cancelled, its history stays.

    Attributes:
        if_version: Only if it has this version.
    """

    job_id: JobId
    if_version: int | None = None
    ask: Ask | None = None


class PauseJob(msgspec.Struct, frozen=True, kw_only=True):
    """Keep a job from making executions by itself."""

    job_id: JobId
    by: str = ""
    reason: str = ""
    ask: Ask | None = None


class ResumeJob(msgspec.Struct, frozen=True, kw_only=True):
    """Let a paused job fire again."""

    job_id: JobId
    ask: Ask | None = None


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """Make one execution now, as a person asked.

    Attributes:
        parameters: JSON; override the job's.
        traceparent: The trace that the request is part of.
    """

    job_id: JobId
    parameters: str = ""
    traceparent: str = ""
    ask: Ask | None = None


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """End an execution: nothing more of it starts, what runs is stopped."""

    execution_id: ExecutionId


class Fire(msgspec.Struct, frozen=True, kw_only=True, tag="fire"):
    """A job's next fire time has come."""

    job_id: JobId


class Wake(msgspec.Struct, frozen=True, kw_only=True, tag="wake"):
    """A task's delay before its attempt *number* is over."""

    execution_id: ExecutionId
    task: str
    number: Count


class StartTask(msgspec.Struct, frozen=True, kw_only=True):
    """There is room for a task that was ready and waited for it."""

    execution_id: ExecutionId
    task: str


class FinishAttempt(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """An executor reports how an attempt ended; or the primary, that it is lost."""

    attempt: AttemptKey
    token: Token
    ending: Ending


class ReportAttempt(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """A running attempt tells how far it is, or what its next attempt is to be given."""

    attempt: AttemptKey
    token: Token
    report: Report


class LoseSession(msgspec.Struct, frozen=True, kw_only=True):
    """Every attempt of this life of a node has ended, and nobody knows how (PROTOCOL R36)."""

    node_id: NodeId
    session: Session


class TakeOver(msgspec.Struct, frozen=True, kw_only=True):
    """This node became the shard's primary under *epoch*; *is_start* when the cluster starts."""

    epoch: Epoch
    is_start: bool = False


class Receive(msgspec.Struct, frozen=True, kw_only=True, tag="receive"):
    """A letter from another shard has come; it may come again, but after none that follows it.

    Attributes:
        sender: The shard that sent it.
        place: Its key in the sender's outbox, in whose order the letters of a shard are brought;
            empty where nobody counts.
    """

    letter: Letter
    sender: CheckedShard = ShardId(0)
    place: Annotated[str, msgspec.Meta(max_length=PLACE_LENGTH_MAX)] = ""


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver of a parcel has made it part of its own journal."""

    key: str


class FollowJob(msgspec.Struct, frozen=True, kw_only=True):
    """A stand-in's side is to fire a job, as its shard's copy here has it."""

    job: Job
    plan: JobPlan


class Claim(msgspec.Struct, frozen=True, kw_only=True, tag="claim"):
    """A stand-in tells what it has decided of a job; it may come again.

    Attributes:
        version: Of the job that it decided by.
        node_id: The stand-in.
        entries: Its ledger of the job, oldest first.
    """

    job_id: CheckedJobId
    version: Count
    node_id: CheckedNodeId
    entries: tuple[LedgerEntry, ...]

    def __post_init__(self) -> None:
        """Refuse entries of another job, and ids that are none."""
        for entry in self.entries:
            if entry.job_id != self.job_id:
                raise ValueError(f"a ledger entry of {entry.job_id!r} is not of {self.job_id}")
            if entry.execution_id and not is_execution_id(entry.execution_id):
                raise ValueError(f"{entry.execution_id!r} is not the id of an execution")


class TakeAccount(msgspec.Struct, frozen=True, kw_only=True, tag="account"):
    """A stand-in tells of an execution that has ended; it may come again.

    Attributes:
        side: Names the side that it ended on; the accounts of one come in the order of
            `rota.core.decide.fallback.place_of`.
    """

    side: CheckedAllocation
    account: Account

    def __post_init__(self) -> None:
        """Refuse ids and names that are none: they become keys of the history."""
        execution = self.account.execution
        if not is_execution_id(execution.id) or job_of(execution.id) != execution.job_id:
            raise ValueError(f"{execution.id!r} is not the id of an execution of its job")
        if not is_full_name(execution.job_name):
            raise ValueError(f"{execution.job_name!r} is not the full name of a job")
        if not all(is_name(task.name) for task in self.account.tasks):
            raise ValueError("a task has no proper name")


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of history: its age, where it stands and, for an execution, its tasks' names."""

    instant: Instant
    pointer: Pointer
    tasks: tuple[str, ...] = ()


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """Drop old history."""

    pasts: tuple[Past, ...]


class ForgetRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Drop the answers to requests whose time to be repeated is over."""


Askable = Trigger | SaveJob | DeleteJob | PauseJob | ResumeJob
"""The commands that may come again, late, and must then do nothing: those with an ``ask``.

A `Cancel` needs none: it names one execution, and what it does to that is final.
"""

Due = Fire | Wake
"""The commands that timers give."""

Command = (
    SaveJob
    | DeleteJob
    | PauseJob
    | ResumeJob
    | Trigger
    | Cancel
    | Fire
    | Wake
    | StartTask
    | FinishAttempt
    | ReportAttempt
    | LoseSession
    | TakeOver
    | Receive
    | Delivered
    | FollowJob
    | Claim
    | TakeAccount
    | Forget
    | ForgetRequests
)


def own_bytes(command: Command) -> int:
    """Return about how many bytes *command* has recorded that are its user's, or a task's, own.

    What else a decision writes is short.
    """
    if isinstance(command, FinishAttempt):
        return len(command.ending.result) + len(command.ending.output)
    if isinstance(command, TakeAccount):
        return sum(map(_ending_bytes, command.account.tasks))
    if isinstance(command, ReportAttempt):
        return len(command.report.checkpoint or b"")
    if isinstance(command, Trigger):
        return len(command.parameters)
    if isinstance(command, SaveJob):
        return len(msgspec.msgpack.encode(command.spec))
    return 0


def _ending_bytes(task: Task) -> int:
    endings = (attempt.ending for attempt in task.attempts)
    return sum(len(ending.result) + len(ending.output) for ending in endings if ending)
