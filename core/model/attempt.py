"""Attempts: one try at one task, on one node, under one fencing token; orders, reports, endings.

These records are shared by the shard's decisions and the executors.
"""

from enum import Enum
from typing import Annotated, NamedTuple

import msgspec

from rota.core.model.checked_fields import (
    CheckedDuration,
    CheckedEpoch,
    CheckedExecutionId,
    CheckedIndex,
    CheckedInstant,
    CheckedName,
    CheckedNodeId,
    CheckedSession,
    Count,
)
from rota.core.model.ids import Session, is_step_name
from rota.core.model.work import Work
from rota.core.timing.instants import Duration, Instant

RESULT_BYTES_MAX = 1 << 20
RESULTS_BYTES_MAX = 8 << 20
"""Limit of all results of one execution; one journal entry moves them into the history."""
CHECKPOINT_BYTES_MAX = 64 << 10
"""Limit of a checkpoint, which is kept in memory and replicated whenever it is saved."""
OUTPUT_TAIL_BYTES = 4096
"""The number of last bytes of the output that an attempt's record keeps: about one screen."""

CheckpointBytes = Annotated[bytes, msgspec.Meta(max_length=CHECKPOINT_BYTES_MAX)]


class Outcome(Enum):
    """The outcome of an attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    """Its node is gone, and the outcome is unknown."""


class Token(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The fencing token of an attempt: the journal position of its start.

    Tokens of one shard grow with every start, across takeovers too, so a system that stores the
    highest one seen can refuse an older attempt (PROTOCOL R35).
    """

    epoch: CheckedEpoch
    index: CheckedIndex

    def __str__(self) -> str:
        """Return 32 hex digits that sort as the token does."""
        return f"{self.epoch:016x}{self.index:016x}"


class AttemptKey(NamedTuple):
    """The key of an attempt, permanently unique; *number* counts the attempts of a task from 1."""

    execution_id: CheckedExecutionId
    task: CheckedName
    number: Count

    def __str__(self) -> str:
        return f"{self.execution_id}/{self.task}/{self.number}"

    @property
    def file_name(self) -> str:
        """A name for files, cgroups and containers: letters, digits, dots, hyphens, underscores.

        A step ``load[3]`` is ``_load.3``, which is no other task, because a name of a task begins
        with a letter or digit. At most 36 + 1 + 128 + 10 + 20 characters.
        """
        step = self.task
        if step[-1] == "]" or "#" in step:
            step = "_" + step.rstrip("]").replace("[", ".").replace("#", ".")
        assert "/" not in step, f"{self} cannot name a file"
        return f"{self.execution_id}.{step}.{self.number}"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order to an executor to run one attempt.

    Attributes:
        key: The key of the attempt.
        token: The fencing token of the attempt.
        work: The work to be run.
        fire_at: When the execution was due.
        session: The node's session under which the start of the attempt was recorded.
        checkpoint: The last checkpoint that an attempt of the task saved; empty if there is none.
        results: A JSON object with one member for each task that this task needs: its result, or
            null; the results together have at most `RESULTS_BYTES_MAX`. Empty if it needs none.
        job: The full name of the job, ``namespace/name``; empty in the order of an older node.
        permitted_binds: The folders that may be bound, as in the policy of a namespace; set by the
            node that launches the attempt. None for all that the node permits.
        interval_start: The begin of the execution's interval, which ends at *fire_at*; 0 for none.
    """

    key: AttemptKey
    token: Token
    work: Work
    fire_at: CheckedInstant
    session: CheckedSession = Session("")
    checkpoint: CheckpointBytes = b""
    results: bytes = b""
    job: str = ""
    permitted_binds: tuple[str, ...] | None = None
    interval_start: CheckedInstant = Instant(0)

    def __post_init__(self) -> None:
        """Refuse a malformed task name: executors use it in names of files and folders."""
        if not is_step_name(self.key.task):
            raise ValueError(f"{self.key.task!r} is not the name of a task")


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """A report of a running attempt; None leaves a value unchanged.

    Attributes:
        percent: The progress of the attempt, 0 to 100.
        checkpoint: Data for the task's next attempt, at most `CHECKPOINT_BYTES_MAX`; empty also
            leaves it unchanged.
    """

    percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    checkpoint: CheckpointBytes | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The resources that an attempt used, as far as they were measured.

    Attributes:
        cpu: The processor time, user and system.
        memory_peak: The largest use of memory, in bytes; 0 if it was not measured.
    """

    cpu: CheckedDuration = Duration(0)
    memory_peak: Count = 0


class Raised(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The exception with which a Python function ended.

    Attributes:
        type: The qualified name of its class: ``ValueError``, ``shop.errors.OutOfStock``.
        bases: The qualified names of the base classes, nearest first, without ``object``.
        message: The text of the exception, at most 4 KiB.
        traceback: The last 16 KiB of the traceback that Python prints.
    """

    type: str
    bases: tuple[str, ...] = ()
    message: str = ""
    traceback: str = ""


class Ending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The end of one attempt, as its executor reports it.

    Attributes:
        outcome: The outcome; an executor reports ``lost`` only if it could not resume the attempt.
        started_at: When the attempt began to run; if it never ran, when it was refused.
        finished_at: When the end of the attempt was detected.
        exit_code: 0 to 255, or -1 if there is none (a signal, a command not found).
        signal: The number of the signal that ended the attempt, or 0.
        reason: A sentence for users; empty after an ordinary success.
        output: The last part of stdout and stderr together, at most `OUTPUT_TAIL_BYTES`.
        output_bytes: The total size of the output, in bytes.
        result: The result as JSON, at most `RESULT_BYTES_MAX`; empty for none.
        raised: The exception of a Python function.
        usage: The resources that the attempt used; None if they were not measured.
        is_out_of_memory: Whether the attempt was ended at its memory limit.
        unenforced: The parts of its sandbox and limits that this machine could not enforce, one
            sentence each.
        left_running: A sentence about processes that the attempt left running when it ended by
            itself, and that were then killed; empty if none were found.
        is_permanent: Whether a repetition would end alike, so that the task is not retried.
    """

    outcome: Outcome
    started_at: CheckedInstant
    finished_at: CheckedInstant
    exit_code: Annotated[int, msgspec.Meta(ge=-1, le=1 << 32)] = -1
    signal: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    reason: str = ""
    output: bytes = b""
    output_bytes: Count = 0
    result: Annotated[bytes, msgspec.Meta(max_length=RESULT_BYTES_MAX)] = b""
    raised: Raised | None = None
    usage: Usage | None = None
    is_out_of_memory: bool = False
    unenforced: tuple[str, ...] = ()
    left_running: str = ""
    is_permanent: bool = False


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """One attempt in its task's record.

    Attributes:
        placed_at: When its slot was taken, or when its execution is due if that is later.
        ending: Its ending; None until it is reported.
        percent: The progress that it reported last; None if it reported none.
    """

    number: Count
    token: Token
    node_id: CheckedNodeId
    session: CheckedSession
    placed_at: Instant
    ending: Ending | None = None
    percent: int | None = None
