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
from rota.core.model.ids import ExecutionId, fire_execution_id
from rota.core.model.job import Job
from rota.core.model.ledger import LedgerEntry
from rota.core.state.draft import Draft
from rota.core.timing.instants import Instant, later
from rota.core.vocabulary.changes import Hooked, Table
from rota.core.vocabulary.commands import EndNotification, NoteLate
from rota.core.vocabulary.effects import PublishHook, SendWebhook, SetTimer, Timescale

NOTIFICATIONS_MAX = 1_000
"""Notifications of one job that wait for their delivery: a megabyte. Further ones are dropped."""

_encode = msgspec.json.Encoder().encode


def note_end(draft: Draft, past: Execution) -> None:
    """Run the hooks for the end of an execution, and record whether its job fails."""
    job, plan = draft.job(past.job_id), draft.plan(past.job_id)
    if job is None or plan is None or past.status is ExecutionStatus.CANCELLED:
        return
    is_failure = past.status is ExecutionStatus.FAILED
    if is_failure != plan.is_failing:
        draft.put(Table.PLAN, job.id, replace(plan, is_failing=is_failure))
    if not job.spec.hooks or past.origin is Origin.HOOK:
        return
    if past.late_at and past.finished_at > past.late_at:
        # It ended before its timer rang, for example when it caught up after an outage.
        _run(draft, job, _document(past, HookEvent.LATE))
    if is_failure:
        _run(draft, job, _document(past, HookEvent.FAILURE))
    else:
        _run(draft, job, _document(past, HookEvent.SUCCESS))
        if plan.is_failing:
            _run(draft, job, _document(past, HookEvent.RECOVERY))


def note_late(draft: Draft, command: NoteLate) -> None:
    """Run the hooks of an execution that has not ended in time; a repetition changes nothing."""
    execution = draft.execution(command.execution_id)
    if execution is None or execution.late_at != command.deadline:
        return
    draft.put_execution(replace(execution, late_at=Instant(0)))
    job = draft.job(execution.job_id)
    if job is not None and not execution.cancelled_at:
        _run(draft, job, _document(execution, HookEvent.LATE))


def note_missed(draft: Draft, job: Job, entry: LedgerEntry) -> None:
    """Run the hooks for fire times of a job that were missed: once for all of *entry*."""
    if not any(hook.event is HookEvent.LATE for hook in job.spec.hooks):
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


def late_at_of(job: Job, origin: Origin, fire_at: Instant) -> Instant:
    """Return the instant from which an execution that has not ended is late; 0 for never."""
    if not job.spec.late_after or origin is Origin.HOOK:
        return Instant(0)
    return later(fire_at, job.spec.late_after)


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
    draft.add(
        PublishHook(
            at=draft.now,
            job_id=notification.job_id,
            job=notification.job,
            execution_id=notification.execution_id,
            event=notification.event,
            outcome=command.outcome,
            target=origin_of(notification.url),
            detail=command.detail,
        )
    )


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


def _run(draft: Draft, job: Job, document: JobEventDocument) -> None:
    """Run the hooks of *job* that follow the event of *document*."""
    event, text = HookEvent(document.event), ""
    execution_id = ExecutionId(document.execution_id)
    for number, hook in enumerate(job.spec.hooks):
        if hook.event is not event:
            continue
        text = text or _encode(document).decode()
        if hook.job and has_room(draft, job.spec.full_name, hook.job):
            message = Hooked(
                upstream=job.spec.full_name,
                dependent=hook.job,
                job_id=job.id,
                execution_id=execution_id,
                event=event,
                parameters=text,
            )
            send_message(draft, hook.job, message)
        elif hook.webhook and _has_room(draft, job):
            notification = Notification(
                key=notification_key(execution_id, event, number),
                job_id=job.id,
                job=job.spec.full_name,
                execution_id=execution_id,
                event=event,
                at=draft.now,
                url=hook.webhook,
                document=text,
            )
            draft.put(Table.NOTIFICATION, notification.key, notification)
            draft.add(SendWebhook(notification))
        else:
            draft.add(_dropped(draft, job, execution_id, hook))


def _has_room(draft: Draft, job: Job) -> bool:
    """Return True if fewer than `NOTIFICATIONS_MAX` notifications of *job* wait."""
    return draft.state.notification_counts.get(job.id, 0) < NOTIFICATIONS_MAX


def _dropped(draft: Draft, job: Job, execution_id: ExecutionId, hook: Hook) -> PublishHook:
    return PublishHook(
        at=draft.now,
        job_id=job.id,
        job=job.spec.full_name,
        execution_id=execution_id,
        event=hook.event,
        outcome=HookOutcome.DROPPED,
        target=hook.target,
        detail="too many events of this job wait for their delivery",
    )
