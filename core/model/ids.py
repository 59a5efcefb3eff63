"""Names and ids, and the hash slot that an id contains.

A job's *hash slot* is a 16-bit hash of ``namespace/name``. Its id begins with the hash slot and its
executions' ids begin with the job's id. So any node can route any id without a lookup, an execution
id contains its fire time, and the executions of a job are one range of keys in order of time:

    job        3f2a 9c0011223344                       hash slot, 48 random bits
    execution  3f2a9c0011223344-0647b1c2d3e4f5-0000    job, instant, nonce

The nonce of a fire is the number of its schedule, so the same fire always gets the same id
(PROTOCOL R33); that of a trigger is random, with its top bit set.
"""

import re
from hashlib import blake2b
from typing import NewType

from rota.core.timing.instants import Instant

JobId = NewType("JobId", str)
ExecutionId = NewType("ExecutionId", str)
NodeId = NewType("NodeId", str)
Session = NewType("Session", str)
"""The name of a node's lease at the coordinator."""
Slot = NewType("Slot", int)
ShardId = NewType("ShardId", int)
Epoch = NewType("Epoch", int)
Index = NewType("Index", int)
AllocationId = NewType("AllocationId", str)
"""Identifies one copy of a shard on a node: random, new for every new copy (PROTOCOL R5)."""

SLOT_BITS = 16

NAME_FORM = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?"
JOB_ID_FORM = r"[0-9a-f]{16}"
EXECUTION_ID_FORM = r"[0-9a-f]{16}-[0-9a-f]{14}-[0-9a-f]{4}"
_NAME = re.compile(NAME_FORM, re.ASCII)
_STEP = re.compile(rf"{NAME_FORM}(?:\[[0-9]{{1,9}}\]|#[0-9]{{1,9}})?", re.ASCII)
_JOB_ID = re.compile(JOB_ID_FORM, re.ASCII)
_EXECUTION_ID = re.compile(EXECUTION_ID_FORM, re.ASCII)
_TRIGGERED = 0x8000

INT64_MAX = (1 << 63) - 1
SHARDS_MAX = 1 << 16
"""The number of possible shard numbers, those of fallback shards included."""

NAME_LENGTH_MAX = 128

NAME_RULE = "1 to 128 letters, digits, '.', '_' or '-', beginning and ending with a letter or digit"


def is_name(text: str) -> bool:
    """Return True if *text* may name a job, a namespace, a task or a node (see `NAME_RULE`)."""
    return _NAME.fullmatch(text) is not None


def item_name(task: str, index: int) -> str:
    """Return the name of the step of a ``foreach`` task for the item *index*, from 0."""
    return f"{task}[{index}]"


def round_name(task: str, number: int) -> str:
    """Return the name of the step of a ``repeat`` task in its round *number*, from 1."""
    return f"{task}#{number}"


def is_step_name(text: str) -> bool:
    """Return True if *text* is the name of a task, or of a step of one: ``load[3]``, ``poll#7``."""
    return _STEP.fullmatch(text) is not None


def task_of_step(name: str) -> str:
    """Return the name of the task of a step; that of a task is the name itself."""
    return name.partition("[")[0].partition("#")[0]


def namespace_of(full_name: str) -> str:
    """Return the namespace in a job's full name, ``namespace/name``."""
    return full_name.partition("/")[0]


def is_full_name(text: str) -> bool:
    """Return True if *text* may be a job's full name, ``namespace/name``."""
    namespace, _, name = text.partition("/")
    return is_name(namespace) and is_name(name)


def is_job_id(text: str) -> bool:
    """Return True if *text* has the form of a job id."""
    return _JOB_ID.fullmatch(text) is not None


def is_execution_id(text: str) -> bool:
    """Return True if *text* has the form of an execution id."""
    return _EXECUTION_ID.fullmatch(text) is not None


def slot_of(namespace: str, name: str) -> Slot:
    """Return the hash slot of the job *name* in *namespace*, in ``range(2**16)``.

    The hash is part of the data format: a change here moves every job of every cluster.
    """
    digest = blake2b(f"{namespace}/{name}".encode(), digest_size=2).digest()
    return Slot(int.from_bytes(digest, "big"))


def slot_of_id(job_or_execution: JobId | ExecutionId) -> Slot:
    """Return the hash slot that an id begins with."""
    return Slot(int(job_or_execution[:4], 16))


def mint_job_id(slot: Slot, entropy: int) -> JobId:
    """Return a new job id in hash slot *slot* with 48 bits of *entropy*."""
    return JobId(f"{slot:04x}{entropy & (1 << 48) - 1:012x}")


def fire_execution_id(job_id: JobId, fire_at: Instant, mark: int) -> ExecutionId:
    """Return the id of the execution of a job for *fire_at* of a schedule.

    Args:
        job_id: The job.
        fire_at: The fire time.
        mark: The schedule's number and the round, as `fire_mark` joins them.
    """
    return ExecutionId(f"{job_id}-{fire_at:014x}-{mark:04x}")


def fire_mark(schedule: int, round_: int) -> int:
    """Return a number below `_TRIGGERED` for a schedule's number and a round (`JobPlan.round`).

    Two rounds that are a multiple of 128 apart have the same mark.
    """
    return round_ % 128 << 8 | schedule


def trigger_execution_id(job_id: JobId, now: Instant, entropy: int) -> ExecutionId:
    """Return a new id for an execution triggered at *now*, with 15 bits of *entropy*."""
    return ExecutionId(f"{job_id}-{now:014x}-{_TRIGGERED | entropy & 0x7FFF:04x}")


def job_of(execution_id: ExecutionId) -> JobId:
    """Return the job that *execution_id* belongs to."""
    return JobId(execution_id[:16])


def instant_of(execution_id: ExecutionId) -> Instant:
    """Return the fire time, or the instant of the trigger, in *execution_id*."""
    return Instant(int(execution_id[17:31], 16))


def schedule_of(execution_id: ExecutionId) -> int:
    """Return the number of the schedule in *execution_id*.

    For an execution that no schedule started, the number is above those of all schedules.
    """
    mark = int(execution_id[-4:], 16)
    return mark if mark & _TRIGGERED else mark & 0xFF
