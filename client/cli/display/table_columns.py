"""The columns of a table for each kind of document."""

import msgspec

from rota.client.cli.display.show import Column, Look
from rota.client.cli.human import absolute, relative, span, took
from rota.core.quoting import shortened
from rota.core.timing.instants import SECOND, Instant, parse_instant
from rota.wire.documents import (
    BackfillView,
    CreatedItem,
    EventView,
    ExecutionView,
    JobView,
    LedgerEntryView,
    NextFireView,
    StateView,
    TaskView,
    TriggeredView,
)

NAMED_TASKS_MAX = 3


def full_name(job: JobView) -> str:
    """Return the ``namespace/name`` of a job."""
    return f"{job.namespace}/{job.name}"


def schedule_text(job: JobView) -> str:
    """Return a text about when a job runs: its schedules, dependencies and events."""
    texts = [
        each.schedule if each.timezone == "UTC" else f"{each.schedule} ({each.timezone})"
        for each in job.schedules
    ]
    if job.dependencies:
        texts.append(f"after {' and '.join(job.dependencies)}")
    if job.events:
        texts.append(f"on {' or '.join(job.events)}")
    return ", ".join(texts) or "when triggered"


def lateness(execution: ExecutionView) -> str:
    """Return the lateness of an execution; ``-`` until it is known."""
    # Until the first attempt has ended, the node's value is about the time when it got its slot.
    attempts = [attempt for _, task in tasks_in_order(execution) for attempt in task.attempts]
    is_known = execution.finished_at or any(attempt.finished_at for attempt in attempts)
    if execution.lateness_ms is None or not is_known:
        return "-"
    return span(execution.lateness_ms / 1e3)


def duration(execution: ExecutionView, at: Instant) -> str:
    """Return the duration of an execution, up to *at* if it has not ended."""
    if execution.started_at is not None and execution.finished_at is None:
        return span(max(0, at - parse_instant(execution.started_at)) / SECOND)
    return took(execution.started_at, execution.finished_at)


def tasks_in_order(execution: ExecutionView) -> list[tuple[str, TaskView]]:
    """Return an execution's tasks in the order of their starts, those without a start last."""

    def start(named: tuple[str, TaskView]) -> tuple[bool, str]:
        _, task = named
        return (False, task.attempts[0].started_at) if task.attempts else (True, "")

    return sorted((execution.tasks or {}).items(), key=start)


def next_text(job: JobView, at: Instant) -> str:
    """Return when a job fires next; ``paused`` if it does not run at that time."""
    return "paused" if is_next_paused(job) else relative(job.next_fire_at, at)


def is_next_paused(job: JobView) -> bool:
    """Return True if the pause of a job, or of its namespace, covers its next fire time."""
    if job.paused_at is None or job.next_fire_at is None:
        return False
    return job.paused_until is None or job.next_fire_at < job.paused_until


def paused_text(job: JobView) -> str:
    """Return since when, by whom and why a job or its namespace is paused; empty if it is not."""
    if job.paused_at is None:
        return ""
    why = f": {job.pause_reason}" if job.pause_reason else ""
    until = f" until {absolute(job.paused_until)}" if job.paused_until else ""
    return f"since {absolute(job.paused_at)}{until} UTC by {job.paused_by}{why}"


def _last(job: JobView, at: Instant) -> str:
    last = job.last_execution
    return f"{last.status} {relative(last.finished_at, at)}".strip() if last else ""


JOB: Look[JobView] = Look(
    name=full_name,
    columns=(
        Column("JOB", lambda job, _: full_name(job)),
        Column("STATUS", lambda job, _: job.status),
        Column("SCHEDULE", lambda job, _: schedule_text(job)),
        Column("NEXT", next_text),
        Column("LAST", _last, is_optional=True),
        Column("TASKS", lambda job, _: _tasks(job)),
        Column("ID", lambda job, _: job.job_id, is_wide=True),
        Column("VERSION", lambda job, _: str(job.version), is_wide=True),
        Column("MISFIRE", lambda job, _: job.misfire, is_wide=True),
        Column("OVERLAP", lambda job, _: job.overlap, is_wide=True),
        Column("CONSISTENCY", lambda job, _: job.consistency, is_wide=True),
        Column("PRIORITY", lambda job, _: str(job.priority), is_wide=True),
        Column("UPDATED", lambda job, _: absolute(job.updated_at), is_wide=True),
    ),
)


class AppliedView(JobView, frozen=True, kw_only=True):
    """A job, and the change that applying its definition made.

    Attributes:
        change: ``created``, ``replaced``, ``unchanged`` or ``deleted``.
    """

    change: str


APPLIED: Look[AppliedView] = Look(
    name=full_name,
    columns=(
        Column("JOB", lambda job, _: full_name(job)),
        Column("CHANGE", lambda job, _: job.change),
        Column("VERSION", lambda job, _: str(job.version)),
        Column("SCHEDULE", lambda job, _: schedule_text(job)),
        Column("NEXT", next_text),
        Column("ID", lambda job, _: job.job_id, is_wide=True),
    ),
)

CREATED: Look[CreatedItem] = Look(
    name=lambda created: created.job or "",
    columns=(
        Column("JOB", lambda created, _: created.job or ""),
        Column("CHANGE", lambda created, _: "created" if created.status == 201 else "unchanged"),
        Column("VERSION", lambda created, _: str(created.version or "")),
        Column("ID", lambda created, _: created.job_id or "", is_wide=True),
    ),
)

EVENT: Look[EventView] = Look(
    name=lambda event: event.id,
    columns=(
        Column("AT (UTC)", lambda event, _: absolute(event.at), width=23),
        Column("EVENT", lambda event, _: event.type, width=18),
        Column("JOB", lambda event, _: event.job or "", width=16),
        Column("EXECUTION", lambda event, _: event.execution_id or "", width=36),
        Column("TASK", lambda event, _: _attempted(event), width=6),
        Column("ID", lambda event, _: event.id, is_wide=True),
        Column("DETAIL", lambda event, _: event.detail),
    ),
)

EXECUTION: Look[ExecutionView] = Look(
    name=lambda execution: execution.execution_id,
    columns=(
        Column("EXECUTION", lambda execution, _: execution.execution_id),
        Column("JOB", lambda execution, _: execution.job),
        Column("STATUS", lambda execution, _: execution.status),
        Column("TRIGGER", lambda execution, _: execution.trigger),
        Column("FIRE TIME", lambda execution, at: relative(execution.fire_time, at)),
        Column("LATE", lambda execution, _: lateness(execution)),
        Column("TOOK", duration),
        Column("DONE", lambda execution, _: f"{execution.progress}%", is_wide=True),
        Column("AT", lambda execution, _: absolute(execution.fire_time), is_wide=True),
        Column("STARTED", lambda execution, _: absolute(execution.started_at), is_wide=True),
        Column("FINISHED", lambda execution, _: absolute(execution.finished_at), is_wide=True),
        Column("REASON", lambda execution, _: execution.reason, is_optional=True),
    ),
)

TRIGGERED: Look[TriggeredView] = Look(
    name=lambda triggered: triggered.execution_id,
    columns=(
        Column("EXECUTION", lambda triggered, _: triggered.execution_id),
        Column("STATUS", lambda triggered, _: triggered.status),
        Column("JOB ID", lambda triggered, _: triggered.job_id, is_wide=True),
    ),
)


def _note_of(fire: NextFireView) -> str:
    """Return what is to be said about a fire time, first why the job does not run."""
    if fire.excluded:
        return f"does not run: {fire.excluded}"
    start = f"starts at {absolute(fire.starts_at)} UTC" if fire.starts_at else ""
    return "; ".join(each for each in (start, fire.note) if each)


NEXT_FIRE: Look[NextFireView] = Look(
    name=lambda fire: fire.at,
    columns=(
        Column("FIRE TIME (UTC)", lambda fire, _: absolute(fire.at)),
        Column("LOCAL", lambda fire, _: fire.local.replace("T", " ", 1)),
        Column("IN", lambda fire, at: relative(fire.at, at).removeprefix("in ")),
        Column("SCHEDULE", lambda fire, _: str(fire.schedule), is_wide=True),
        Column("NOTE", lambda fire, _: _note_of(fire), is_optional=True),
    ),
)

BACKFILL: Look[BackfillView] = Look(
    name=lambda found: found.backfill_id,
    columns=(
        Column("BACKFILL", lambda found, _: found.backfill_id),
        Column("STATUS", lambda found, _: found.status),
        Column("SINCE (UTC)", lambda found, _: absolute(found.since)),
        Column("UNTIL (UTC)", lambda found, _: absolute(found.until)),
        Column("TIMES", lambda found, _: str(found.total)),
        Column("ENDED", lambda found, _: str(found.succeeded + found.failed)),
        Column("FAILED", lambda found, _: str(found.failed)),
        Column("RUNS", lambda found, _: f"{found.reprocess}, {found.order} first", is_wide=True),
        Column("STARTED (UTC)", lambda found, _: absolute(found.created_at), is_wide=True),
    ),
)

STATE: Look[StateView] = Look(
    name=lambda found: found.key,
    columns=(
        Column("KEY", lambda found, _: found.key),
        Column("VALUE", lambda found, _: shortened(msgspec.json.encode(found.value).decode())),
        Column("REVISION", lambda found, _: str(found.revision)),
        Column("CHANGED (UTC)", lambda found, _: absolute(found.changed_at)),
        Column("HELD BY", lambda found, _: found.execution_id or "", is_optional=True),
        Column(
            "CHANGED BY",
            lambda found, _: found.changed_by.principal if found.changed_by else "",
            is_wide=True,
        ),
    ),
)

LEDGER: Look[LedgerEntryView] = Look(
    name=lambda entry: entry.fire_time,
    columns=(
        Column("FIRE TIME (UTC)", lambda entry, _: absolute(entry.fire_time)),
        Column("UNTIL", lambda entry, _: _until(entry), is_optional=True),
        Column("FIRES", lambda entry, _: str(entry.count) if entry.count > 1 else "1"),
        Column("OUTCOME", lambda entry, _: entry.outcome),
        Column("EXECUTION", lambda entry, _: entry.execution_id or "", is_optional=True),
        Column("SCHEDULE", lambda entry, _: str(entry.schedule), is_wide=True),
        Column("RECORDED", lambda entry, _: absolute(entry.recorded_at), is_wide=True),
        Column("REASON", lambda entry, _: entry.reason, is_optional=True),
    ),
)


LEDGER_OF_ALL: Look[LedgerEntryView] = Look(
    name=LEDGER.name,
    columns=(
        LEDGER.columns[0],
        Column("JOB", lambda entry, _: entry.job or entry.job_id or ""),
        *LEDGER.columns[1:],
    ),
)


def _attempted(event: EventView) -> str:
    nth = f" #{event.attempt}" if event.attempt and event.attempt > 1 else ""
    return f"{event.task}{nth}" if event.task else ""


def _tasks(job: JobView) -> str:
    names = [task.name for task in job.tasks]
    if len(names) <= NAMED_TASKS_MAX:
        return " ".join(names)
    return f"{' '.join(names[: NAMED_TASKS_MAX - 1])} and {len(names) - NAMED_TASKS_MAX + 1} more"


def _until(entry: LedgerEntryView) -> str:
    return absolute(entry.until) if entry.count > 1 else ""
