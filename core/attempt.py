"""An attempt: one try at one task, on one node, under one fencing token; and how it may end.

These are the words that the shard's decisions and the executors share.
"""

from enum import Enum
from typing import NamedTuple

import msgspec

from rota.core.ids import Epoch, ExecutionId, Index, NodeId, Session
from rota.core.instants import Duration, Instant


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

    epoch: Epoch
    index: Index

    def __str__(self) -> str:
        """Return 32 hex digits that sort as the token does."""
        return f"{self.epoch:016x}{self.index:016x}"


class AttemptKey(NamedTuple):
    """Which attempt: unique for ever, numbered from 1 within its task."""

    execution_id: ExecutionId
    task: str
    number: int

    def __str__(self) -> str:
        return f"{self.execution_id}/{self.task}/{self.number}"


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """What a task asks an executor to run.

    Attributes:
        executor: Which executor: ``process``, ``scripted``.
        argv: Program and arguments; exactly one of *argv* and *shell* for ``process``.
        shell: A line for ``/bin/sh -c``.
        env: Variables added to the node's minimal environment.
        cwd: Working directory, absolute; empty for a private one that goes with the attempt.
        stdin: Text given on standard input; empty for none.
        timeout: From start to end of one attempt; zero for no limit.
        stop_grace: Between TERM and KILL when the attempt is stopped.
        parameters: For job types: JSON of the parameters.
    """

    executor: str = "process"
    argv: tuple[str, ...] = ()
    shell: str = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    stdin: str = ""
    timeout: Duration = Duration(0)
    stop_grace: Duration = Duration(10_000_000)
    parameters: str = ""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, as an executor is told to run it.

    Attributes:
        key: Which attempt.
        token: Its fencing token.
        work: What to run.
        fire_at: When its execution was due.
        session: The life of this node that its start was recorded under.
    """

    key: AttemptKey
    token: Token
    work: Work
    fire_at: Instant
    session: Session = Session("")


class Ending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """How one attempt ended, as its executor reports it.

    Attributes:
        outcome: Never ``lost`` from an executor, which knows what became of its own.
        started_at: When it began to run; when it was refused, if it never did.
        finished_at: When it was seen to have ended.
        exit_code: 0 to 255, or -1 where there is none (a signal, a command not found).
        signal: The signal that ended it, or 0.
        reason: A sentence for people; empty after an ordinary success.
        output: The last part of stdout and stderr together, at most `OUTPUT_TAIL_BYTES`.
        output_bytes: How much it wrote in all.
    """

    outcome: Outcome
    started_at: Instant
    finished_at: Instant
    exit_code: int = -1
    signal: int = 0
    reason: str = ""
    output: bytes = b""
    output_bytes: int = 0


OUTPUT_TAIL_BYTES = 4096
"""How much of its output an attempt's record keeps: what one screen shows."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """One attempt in its task's record; *ending* is None while nobody knows of its end."""

    number: int
    token: Token
    node_id: NodeId
    session: Session
    placed_at: Instant
    ending: Ending | None = None
