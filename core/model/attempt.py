"""An attempt: one try at one task, on one node, under one fencing token; and how it may end.

These are the words that the shard's decisions and the executors share.
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
from rota.core.model.ids import Session, is_name
from rota.core.timing.instants import Duration, Instant

RESULT_BYTES_MAX = 1 << 20
RESULTS_BYTES_MAX = 8 << 20
"""Of all results of one execution: at its end one journal entry moves them into the history."""
CHECKPOINT_BYTES_MAX = 64 << 10
"""It is in the shard's state, in memory, and is replicated each time it is saved."""


OUTPUT_TAIL_BYTES = 4096
"""How much of its output an attempt's record keeps: what one screen shows."""
CPUS_MAX = 1_000_000.0

CheckpointBytes = Annotated[bytes, msgspec.Meta(max_length=CHECKPOINT_BYTES_MAX)]


class Outcome(Enum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    """Its node is gone; nobody knows."""


class Token(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The fencing token of an attempt: the journal position of its start.

    Tokens of one shard grow with every start, across takeovers too, so whoever remembers the
    highest one seen can refuse an older attempt (PROTOCOL R35).
    """

    epoch: CheckedEpoch
    index: CheckedIndex

    def __str__(self) -> str:
        """Return 32 hex digits that sort as the token does."""
        return f"{self.epoch:016x}{self.index:016x}"


class AttemptKey(NamedTuple):
    """Which attempt: unique for ever, numbered from 1 within its task."""

    execution_id: CheckedExecutionId
    task: CheckedName
    number: Count

    def __str__(self) -> str:
        return f"{self.execution_id}/{self.task}/{self.number}"


class Bind(msgspec.Struct, frozen=True, array_like=True):
    """A file or folder of the machine that an attempt sees; both paths are absolute."""

    source: str
    target: str
    is_writable: bool = False


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """What an attempt is kept from.

    Attributes:
        profile: ``none``, ``default`` or ``strict``; see docs/reference/sandbox.md.
        has_network: Whether it sees the machine's network, loopback included.
        binds: What it sees besides.
    """

    profile: str = "none"
    has_network: bool = True
    binds: tuple[Bind, ...] = ()


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """What an attempt may use, all its processes together; zero is no limit.

    Attributes:
        cpu: Processors, 0.5 for half of one.
        memory: Bytes.
        pids: Processes and threads.
    """

    cpu: Annotated[float, msgspec.Meta(ge=0, le=CPUS_MAX)] = 0.0
    memory: Count = 0
    pids: Count = 0


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """A Python function to be called.

    Attributes:
        function: ``module:function``.
        arguments: JSON: ``{"args": [...], "kwargs": {...}}``; empty for none.
        interpreter: Absolute path of the environment's Python; empty for the node's own.
        path: Folders that modules are looked for in first.
    """

    function: str
    arguments: str = ""
    interpreter: str = ""
    path: tuple[str, ...] = ()


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """A container to be run.

    Attributes:
        name: Of the image, with tag or digest.
        pull: ``missing``, ``always`` or ``never``.
        network: Of the engine: ``bridge``, ``none``, ``host`` or a network's name; empty for the
            engine's default.
        binds: Of the machine's files.
        user: ``uid:gid`` or a name; empty for the image's.
    """

    name: str
    pull: str = "missing"
    network: str = ""
    binds: tuple[Bind, ...] = ()
    user: str = ""


Selector = tuple[tuple[str, str], ...]
"""Labels that a node has to have to run a task, sorted; none for any node."""


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """What a task asks an executor to run.

    Attributes:
        executor: Which executor: ``process``, ``python``, ``container``, ``scripted``.
        argv: Program and arguments; exactly one of *argv* and *shell* for ``process``.
        shell: A line for ``/bin/sh -c``.
        env: Variables added to the node's minimal environment.
        cwd: Working directory, absolute; empty for a private one that goes with the attempt.
        stdin: Text given on standard input; empty for none.
        timeout: From start to end of one attempt; zero for no limit.
        stop_grace: Between TERM and KILL when the attempt is stopped.
        parameters: For job types: JSON of the parameters.
        sandbox: Of a process.
        limits: What it may use.
        call: For ``python``.
        image: For ``container``; *argv* or *shell* then replace what the image would run.
    """

    executor: str = "process"
    argv: tuple[str, ...] = ()
    shell: str = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    stdin: str = ""
    timeout: CheckedDuration = Duration(0)
    stop_grace: CheckedDuration = Duration(10_000_000)
    parameters: str = ""
    sandbox: Sandbox = Sandbox()
    limits: Limits = Limits()
    call: Call | None = None
    image: Image | None = None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, as an executor is told to run it.

    Attributes:
        key: Which attempt.
        token: Its fencing token.
        work: What to run.
        fire_at: When its execution was due.
        session: The life of this node that its start was recorded under.
        checkpoint: What the last attempt of the task that saved one has saved.
    """

    key: AttemptKey
    token: Token
    work: Work
    fire_at: CheckedInstant
    session: CheckedSession = Session("")
    checkpoint: CheckpointBytes = b""

    def __post_init__(self) -> None:
        """Refuse a task without a proper name: executors name files and folders after it."""
        if not is_name(self.key.task):
            raise ValueError(f"{self.key.task!r} is not the name of a task")


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """What a running attempt tells of itself; None is nothing new.

    Attributes:
        percent: How far it is, 0 to 100.
        checkpoint: What its next attempt is to be given, at most `CHECKPOINT_BYTES_MAX`; empty is
            nothing new, too.
    """

    percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    checkpoint: CheckpointBytes | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """What an attempt used, as far as the system tells.

    Attributes:
        cpu: Time on processors, user and system.
        memory_peak: Bytes; 0 where nobody counted.
    """

    cpu: CheckedDuration = Duration(0)
    memory_peak: Count = 0


class Raised(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The exception that a Python function ended with.

    Attributes:
        type: Qualified name: ``ValueError``, ``shop.errors.OutOfStock``.
        bases: Those of its base classes, nearest first, without ``object``.
        message: Its text, at most 4 KiB.
        traceback: As Python prints it, the last 16 KiB.
    """

    type: str
    bases: tuple[str, ...] = ()
    message: str = ""
    traceback: str = ""


class Ending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """How one attempt ended, as its executor reports it.

    Attributes:
        outcome: ``lost`` only from an executor that was asked to go on with what is not there.
        started_at: When it began to run; when it was refused, if it never did.
        finished_at: When it was seen to have ended.
        exit_code: 0 to 255, or -1 where there is none (a signal, a command not found).
        signal: The signal that ended it, or 0.
        reason: A sentence for people; empty after an ordinary success.
        output: The last part of stdout and stderr together, at most `OUTPUT_TAIL_BYTES`.
        output_bytes: How much it wrote in all.
        result: JSON of what it hands on, at most `RESULT_BYTES_MAX`; empty for none.
        raised: What a Python function raised.
        usage: What it used; None where nobody counted.
        is_out_of_memory: Whether its limit of memory ended it.
        unenforced: What of its sandbox and limits this machine could not enforce, a sentence each.
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


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """One attempt in its task's record.

    Attributes:
        placed_at: When its place was taken, or when its execution is due if that is later.
        ending: None while nobody knows of its end.
        percent: How far it is, or was, by its own word; None if it said nothing.
    """

    number: Count
    token: Token
    node_id: CheckedNodeId
    session: CheckedSession
    placed_at: Instant
    ending: Ending | None = None
    percent: int | None = None
