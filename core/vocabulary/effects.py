"""Effects: actions of a shard's host, carried out only after the deciding entry is committed.

A new primary derives the outstanding effects from the state (`rota.core.decide.dispatch.pending`).
So no effect is lost, and each may be carried out twice.
"""

from enum import Enum

import msgspec

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.execution import ExecutionStatus, TaskStatus
from rota.core.model.hook import HookEvent, HookOutcome, Notification
from rota.core.model.ids import ExecutionId, JobId, NodeId
from rota.core.model.ledger import FireOutcome
from rota.core.model.work import Selector
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import OutboxItem
from rota.core.vocabulary.commands import TimerCommand


class Timescale(Enum):
    """The clock that a timer uses."""

    WALL = "wall"
    """The wall clock, for fire times. Setting the clock back delays them."""
    ELAPSED = "elapsed"
    """The monotonic clock, for delays. Setting the wall clock does not change them."""


class Launch(msgspec.Struct, frozen=True):
    """Run an attempt whose start is committed, on the node recorded with it."""

    order: Order
    node_id: NodeId


class Stop(msgspec.Struct, frozen=True):
    """Stop a running attempt."""

    attempt: AttemptKey


class WaitForSlot(msgspec.Struct, frozen=True):
    """Send `StartTask` for a ready task when a slot that suits it is free.

    Attributes:
        since: The instant from which the task waits.
        priority: The priority of its job.
        selector: The labels that a node must have to run the task.
    """

    execution_id: ExecutionId
    task: str
    since: Instant
    priority: int
    selector: Selector = ()


class SetTimer(msgspec.Struct, frozen=True):
    """Send *command* at *due*, or as soon after it as possible."""

    due: Instant
    command: TimerCommand
    timescale: Timescale


class ClearTimer(msgspec.Struct, frozen=True):
    """Clear a timer; it does no harm if the timer fires nevertheless."""

    due: Instant
    command: TimerCommand
    timescale: Timescale


class Deliver(msgspec.Struct, frozen=True):
    """Deliver an outbox item to the receiving shard, then send `ConfirmDelivery`."""

    item: OutboxItem


class SendWebhook(msgspec.Struct, frozen=True):
    """Post the notification to its URL until that ends, then send `EndNotification`."""

    notification: Notification


class Publish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Publish an event: an execution or task has a new state, or an attempt has made progress.

    Attributes:
        at: Shard time of the decision.
        job: Full name of the job.
        task: Empty if the event is about the whole execution.
        attempt: Number of the task's newest attempt; 0 if there is none yet.
        detail: The reason in a few words, if it is not obvious.
        percent: The progress of *attempt*, 0 to 100; None if the event is a new state.
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
    """Events of a task other than a new state."""

    PROGRESS = "progress"


class JobEvent(Enum):
    """Events of a job."""

    CREATED = "created"
    REPLACED = "replaced"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETED = "deleted"
    BACKFILL = "backfill"
    POSSIBLE_DUPLICATE = "possible_duplicate"
    EVENT_STARTED = "event_started"
    """An event from outside started an execution."""
    EVENT_IGNORED = "event_ignored"
    """An event from outside, for which the job has a trigger, started none."""


class PublishJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Publish an event of a job.

    Attributes:
        at: Shard time of the decision.
        job: Full name of the job.
        detail: The job's new version, or the reason of the pause.
    """

    at: Instant
    job_id: JobId
    job: str
    event: JobEvent
    detail: str = ""


class PublishFires(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Publish and count the outcome of fire times of a schedule.

    Attributes:
        at: Shard time of the decision.
        job: Full name of the job.
        outcome: The outcome of each fire time; ``fired`` is only counted, since the execution has
            events of its own.
        fire_at: The first fire time.
        count: The number of fire times, at least 1.
        detail: The reason, as in the ledger.
    """

    at: Instant
    job_id: JobId
    job: str
    outcome: FireOutcome
    fire_at: Instant
    count: int
    detail: str = ""


class PublishHook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Publish and count the end of a hook's run.

    Attributes:
        at: Shard time of the decision.
        job: Full name of the job whose hook it is.
        execution_id: Whose event it is.
        target: The origin of the webhook's URL, or the full name of the triggered job.
        detail: The receiver's answer, or the reason.
    """

    at: Instant
    job_id: JobId
    job: str
    execution_id: ExecutionId
    event: HookEvent
    outcome: HookOutcome
    target: str
    detail: str = ""


Effect = (
    Launch
    | Stop
    | WaitForSlot
    | SetTimer
    | ClearTimer
    | Deliver
    | SendWebhook
    | Publish
    | PublishJob
    | PublishFires
    | PublishHook
)


class PostponedEffects(msgspec.Struct, frozen=True):
    """Effects of an execution that was decided before it is due; held until *at*.

    Attributes:
        at: When the execution is due, by the wall clock.
        execution_id: The execution.
        effects: The effects, to be carried out in this order.
    """

    at: Instant
    execution_id: ExecutionId
    effects: tuple[Effect, ...]


Consequence = Effect | PostponedEffects
"""An effect of an entry, carried out at once or when its execution is due."""
