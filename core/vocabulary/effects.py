"""Effects: what a shard's host is to do once the deciding entry is committed, and not before.

A new primary finds the outstanding ones again from the state (`rota.core.decide.dispatch.pending`),
so every effect may be carried out twice and none is lost.
"""

from enum import Enum

import msgspec

from rota.core.model.attempt import AttemptKey, Order, Selector
from rota.core.model.execution import ExecutionStatus, TaskStatus
from rota.core.model.ids import ExecutionId, JobId, NodeId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import OutboxItem
from rota.core.vocabulary.commands import Due


class Timescale(Enum):
    """Which clock a timer goes by."""

    WALL = "wall"
    """The calendar's: fire times. A clock set back makes them wait."""
    ELAPSED = "elapsed"
    """The time that passes: delays. Setting the clock does not touch them."""


class Launch(msgspec.Struct, frozen=True):
    """Run an attempt whose start is committed, on the node that is recorded with it."""

    order: Order
    node_id: NodeId


class Stop(msgspec.Struct, frozen=True):
    """End a running attempt."""

    attempt: AttemptKey


class Wait(msgspec.Struct, frozen=True):
    """A task is ready and there was no room: send `StartTask` when there is.

    Attributes:
        since: When it began to wait.
        priority: Its job's.
        selector: What it wants of a node.
    """

    execution_id: ExecutionId
    task: str
    since: Instant
    priority: int
    selector: Selector = ()


class SetTimer(msgspec.Struct, frozen=True):
    """Send *command* at *due*, or as soon after it as possible."""

    due: Instant
    command: Due
    timescale: Timescale


class ClearTimer(msgspec.Struct, frozen=True):
    """Forget a timer; one that goes off nevertheless does no harm."""

    due: Instant
    command: Due
    timescale: Timescale


class Deliver(msgspec.Struct, frozen=True):
    """Bring a parcel to its shard, then say `Delivered`."""

    parcel: OutboxItem


class Publish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An execution, or a task of one, has come into another state, or further in it.

    People may be watching.

    Attributes:
        at: Shard time of the decision.
        job: Full name of the job.
        task: Empty when the whole execution is meant.
        attempt: Number of the task's newest attempt; 0 if there is none yet.
        detail: Why, in a few words, where that is not obvious.
        percent: How far that attempt is, where this is the news and its state is none.
    """

    at: Instant
    job_id: JobId
    job: str
    execution_id: ExecutionId
    status: ExecutionStatus | TaskStatus
    task: str = ""
    attempt: int = 0
    detail: str = ""
    percent: int | None = None


class TaskEvent(Enum):
    """What may happen to a task besides coming into another state."""

    PROGRESS = "progress"


class JobEvent(Enum):
    """What may happen to a job as such."""

    CREATED = "created"
    REPLACED = "replaced"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETED = "deleted"
    POSSIBLE_DUPLICATE = "possible_duplicate"


class PublishJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something was done to a job that people may be watching.

    Attributes:
        at: Shard time of the decision.
        job: Its full name.
        detail: Which version it has now, or why it is paused.
    """

    at: Instant
    job_id: JobId
    job: str
    event: JobEvent
    detail: str = ""


Effect = Launch | Stop | Wait | SetTimer | ClearTimer | Deliver | Publish | PublishJob


class Later(msgspec.Struct, frozen=True):
    """Do all this at *at*, and not before: it is of an execution that is not due yet.

    Attributes:
        at: By the calendar.
        execution_id: The execution.
        effects: In this order.
    """

    at: Instant
    execution_id: ExecutionId
    effects: tuple[Effect, ...]


Consequence = Effect | Later
"""What an entry leads to."""
