"""Events from outside: the shard of their channel keeps them for each job, whose shard decides.

The channel's shard answers once the event is in its outbox for each job with a trigger for it, so
the event survives any node from then on, and reaches each of these jobs once. The shard of a job
then starts an execution, or publishes why it does not: an event is to a job what a fire time is.
Repetitions of an event have its idempotency key.
"""

from typing import Any, cast

import msgspec
from msgspec.structs import replace

from rota.core.decide.advance_execution import begin_link, birth_now
from rota.core.decide.outbox import send_message
from rota.core.decide.trigger_job import obstacle_of
from rota.core.errors import Kind, Refused
from rota.core.model.event_trigger import LISTENERS_MAX, why_not
from rota.core.model.execution import Origin
from rota.core.model.job import PARAMETERS_MAX
from rota.core.state.draft import Draft
from rota.core.vocabulary.changes import Occurred
from rota.core.vocabulary.commands import ReceiveEvent
from rota.core.vocabulary.decision import Received, Reply
from rota.core.vocabulary.effects import JobEvent

WAITING_BYTES_MAX = 64 << 20
"""The most bytes of events that a shard keeps for others: its primary has them in memory."""


def receive_event(draft: Draft, command: ReceiveEvent) -> Reply:
    """Send an event to each job with a trigger for its type.

    Raises:
        Refused: Codes ``too_many_listeners`` and ``outbox_full``.
    """
    jobs = tuple(draft.state.dependents.get(command.channel, ()))
    if len(jobs) > LISTENERS_MAX:
        detail = (
            f"{len(jobs):,} jobs have a trigger for this event; at most {LISTENERS_MAX} are "
            "allowed: use other types of events, or a job that runs the others"
        )
        raise Refused(Kind.CONFLICT, "too_many_listeners", detail)
    if draft.state.event_bytes + len(jobs) * len(command.event) > WAITING_BYTES_MAX:
        detail = (
            f"{draft.state.event_bytes >> 20} MiB of events have not been delivered yet, perhaps "
            "because a shard is closed; try again"
        )
        raise Refused(Kind.UNAVAILABLE, "outbox_full", detail, retry_after_s=5)
    for job in jobs:
        message = Occurred(
            upstream=command.channel, dependent=job, event=command.event, author=command.author
        )
        send_message(draft, job, message)
    return Received(len(jobs))


def start_by_event(draft: Draft, message: Occurred) -> None:
    """Start an execution of a job with a trigger for the event, or publish why it does not."""
    job_id = draft.state.names.get(message.dependent)
    job = draft.job(job_id) if job_id else None
    if job is None:
        return
    event: dict[str, Any] = msgspec.json.decode(message.event)  # Any: JSON.
    params: Any = msgspec.json.decode(job.spec.parameters) if job.spec.parameters else {}
    members = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    parameters = msgspec.json.encode({**members, "event": event}).decode()
    reason, admission = _size_problem(parameters) or why_not(job.spec.triggers, event, params), None
    if not reason:
        reason, admission = obstacle_of(draft, job, message.dependent, parameters)
    label = f"{event['id']} of {event['source']}"
    if reason or admission is None:
        draft.publish_job(job, JobEvent.EVENT_IGNORED, f"{label}: {reason}")
        return
    birth = birth_now(draft, job, Origin.EVENT, admission, parameters)
    begin_link(draft, job, replace(birth, triggered_by=message.author))
    draft.publish_job(job, JobEvent.EVENT_STARTED, f"{label}: started {birth.id}")


def _size_problem(parameters: str) -> str:
    size = len(parameters.encode())
    if size <= PARAMETERS_MAX:
        return ""
    return f"with the event, the parameters have {size:,} bytes; at most {PARAMETERS_MAX:,}"
