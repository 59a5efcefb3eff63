"""Hooks of a job, run by the decision that leads to their event (`rota.core.model.hook`).

The notification of a webhook, or the message to another job, is part of the entry with the event:
neither is without the other, whichever node fails. An execution that a hook began runs no hooks, so
that two jobs cannot trigger each other for ever.
"""

import msgspec
from msgspec.structs import replace

from rota.core.decide.outbox import has_room, send_message
from rota.core.model.execution import Execution, ExecutionStatus, Origin
from rota.core.model.hook import (
    REASON_MAX,
    Hook,
    HookEvent,
    HookOutcome,
    JobEventDocument,
    Notification,
    notification_key,
    origin_of,
    text_of,
)
from rota.core.model.ids import ExecutionId, JobId, fire_execution_id
from rota.core.model.job import Job
from rota.core.model.ledger import LedgerEntry
from rota.core.state.draft import Draft
from rota.core.timing.instants import Instant, later
from rota.core.vocabulary.changes import Hooked, Table
from rota.core.vocabulary.commands import EndNotification, NoteLate
from rota.core.vocabulary.effects import SendWebhook, SetTimer, Timescale

NOTIFICATIONS_MAX = 1_000
"""Notifications of one job that may wait for their delivery, about a megabyte; further ones are
dropped."""
SHARD_NOTIFICATIONS_MAX = 10_000
"""Likewise of all jobs of a shard: about 10 MB of the memory of its primary."""

TOO_MANY = "too many events wait for their delivery"

_encode = msgspec.json.Encoder().encode


def note_end(draft: Draft, past: Execution) -> None:
    """Run the hooks for the end of an execution, and record whether its job fails."""
    job, plan = draft.job(past.job_id), draft.plan(past.job_id)
    if job is None or plan is None or past.status is ExecutionStatus.CANCELLED:
        return
    is_failure = past.status is ExecutionStatus.FAILED
    if is_failure != plan.is_failing:
        draft.put(Table.PLAN, job.id, replace(plan, is_failing=is_failure))
    if job.spec.pause_after_failures:
        draft.breaker_ends.append(past)
    if not job.spec.hooks or past.origin is Origin.HOOK:
        return
    if past.late_at and past.finished_at > past.late_at:
        # It ended before its timer rang, for example when it caught up after an outage.
        _run_for(draft, job, past, HookEvent.LATE)
    _run_for(draft, job, past, HookEvent.FAILURE if is_failure else HookEvent.SUCCESS)
    if plan.is_failing and not is_failure:
        _run_for(draft, job, past, HookEvent.RECOVERY)


def note_late(draft: Draft, command: NoteLate) -> None:
    """Run the hooks of an execution that has not ended in time; a repetition changes nothing."""
    execution = draft.execution(command.execution_id)
    if execution is None or execution.late_at != command.deadline:
        return
    draft.put_execution(replace(execution, late_at=Instant(0)))
    job = draft.job(execution.job_id)
    if job is not None and (not execution.cancelled_at or execution.has_expired):
        _run_for(draft, job, execution, HookEvent.LATE)


def note_missed(draft: Draft, job: Job, entry: LedgerEntry) -> None:
    """Run the hooks for fire times of a job that were missed: once for all of *entry*."""
    if not _has_hook(job, HookEvent.LATE):
        return
    document = JobEventDocument(
        event=HookEvent.LATE.value,
        job=job.spec.full_name,
        job_id=job.id,
        execution_id=fire_execution_id(job.id, entry.fire_at, entry.schedule),
        status=entry.outcome.value,
        trigger=Origin.SCHEDULE.value,
        fire_time=text_of(entry.fire_at),
        reason=entry.reason,
    )
    _run(draft, job, document)


def late_at_of(job: Job, origin: Origin, due_at: Instant) -> Instant:
    """Return the instant from which an execution that has not ended is late; 0 for never."""
    if not job.spec.late_after or origin is Origin.HOOK:
        return Instant(0)
    return later(due_at, job.spec.late_after)


def late_timer(execution: Execution) -> SetTimer:
    """Return the timer for the instant from which *execution* is late."""
    command = NoteLate(execution_id=execution.id, deadline=execution.late_at)
    return SetTimer(execution.late_at, command, Timescale.ELAPSED)


def end_notification(draft: Draft, command: EndNotification) -> None:
    """Delete a notification whose delivery has ended; a repetition changes nothing."""
    notification = draft.state.notifications.get(command.key)
    if notification is None:
        return
    draft.drop(Table.NOTIFICATION, command.key)
    draft.publish_hook(notification, command.outcome, origin_of(notification.url), command.detail)


def _has_hook(job: Job, event: HookEvent) -> bool:
    return any(hook.event is event for hook in job.spec.hooks)


def _run_for(draft: Draft, job: Job, execution: Execution, event: HookEvent) -> None:
    """Run the hooks of *job* for an event of *execution*."""
    if _has_hook(job, event):
        _run(draft, job, _document(execution, event), links=execution.links + 1)


def _document(execution: Execution, event: HookEvent) -> JobEventDocument:
    return JobEventDocument(
        event=event.value,
        job=execution.job_name,
        job_id=execution.job_id,
        execution_id=execution.id,
        status=execution.status.value,
        trigger=execution.origin.value,
        fire_time=text_of(execution.fire_at),
        started_at=text_of(execution.started_at),
        finished_at=text_of(execution.finished_at),
        reason=execution.reason[:REASON_MAX],
    )


def _run(draft: Draft, job: Job, document: JobEventDocument, links: int = 0) -> None:
    """Run the hooks of *job* for the event of *document*, with *links* up to its execution."""
    text = _encode(document).decode()
    for number, hook in enumerate(job.spec.hooks):
        if hook.event.value == document.event:
            if hook.job:
                _send(draft, _message(document, hook, text, links))
            else:
                _store(draft, _notification(draft, document, hook, number, text))


def _message(document: JobEventDocument, hook: Hook, text: str, links: int) -> Hooked:
    return Hooked(
        upstream=document.job,
        dependent=hook.job,
        job_id=JobId(document.job_id),
        execution_id=ExecutionId(document.execution_id),
        event=hook.event,
        parameters=text,
        links=links,
    )


def _send(draft: Draft, message: Hooked) -> None:
    if has_room(draft, message.upstream, message.dependent):
        send_message(draft, message.dependent, message)
    else:
        draft.publish_hook(message, HookOutcome.DROPPED, message.dependent, TOO_MANY)


def _notification(
    draft: Draft, document: JobEventDocument, hook: Hook, number: int, text: str
) -> Notification:
    execution_id = ExecutionId(document.execution_id)
    return Notification(
        key=notification_key(execution_id, hook.event, number),
        job_id=JobId(document.job_id),
        job=document.job,
        execution_id=execution_id,
        event=hook.event,
        at=draft.now,
        url=hook.webhook,
        document=text,
        format=hook.format,
    )


def _store(draft: Draft, notification: Notification) -> None:
    """Store a notification, unless too many of its job or of the shard wait."""
    state = draft.state
    waiting = state.notification_counts.get(notification.job_id, 0)
    if waiting < NOTIFICATIONS_MAX and len(state.notifications) < SHARD_NOTIFICATIONS_MAX:
        draft.put(Table.NOTIFICATION, notification.key, notification)
        draft.add(SendWebhook(notification))
    else:
        target = origin_of(notification.url)
        draft.publish_hook(notification, HookOutcome.DROPPED, target, TOO_MANY)
