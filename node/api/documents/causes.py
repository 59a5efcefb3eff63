"""Why a job ran or did not run at a time: a chain of causes, from its documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from rota.core.timing.instants import MICROSECOND, Instant, format_instant, parse_instant
from rota.core.timing.schedule import Schedule, fault_of, next_fire
from rota.wire.documents import (
    CauseView,
    ExecutionView,
    JobView,
    LedgerEntryView,
    NextFireView,
)


@dataclass(frozen=True)
class Known:
    """What is known about a job and a time.

    Attributes:
        job: The job.
        schedules: Its schedules, by the present definition.
        at: The time.
        now: The present time.
        version: The version that decides about *at*, and when it was saved; None if unknown, also
            to a caller that may not read the record of changes.
        entries: The ledger entries that have *at*.
        before: The latest entry before *at*.
        after: The next fire time from *at* on, by the present definition.
        later: The earliest entry after *at*.
        executions: Executions that entries name, by id; also those that blocked.
        fills: Executions with this fire time that no schedule has begun, such as of backfills.
        ended: The most executions of each schedule that has begun them, by its number.
    """

    job: JobView
    schedules: Sequence[Schedule]
    at: Instant
    now: Instant
    version: tuple[int, Instant] | None = None
    entries: Sequence[LedgerEntryView] = ()
    before: LedgerEntryView | None = None
    after: NextFireView | None = None
    later: LedgerEntryView | None = None
    executions: Sequence[ExecutionView] = ()
    fills: Sequence[ExecutionView] = ()
    ended: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def name(self) -> str:
        """The ``namespace/name`` of the job."""
        return f"{self.job.namespace}/{self.job.name}"

    @property
    def due(self) -> NextFireView | None:
        """The fire time *at*, by the present definition; None if that has none at *at*."""
        fire = self.after
        return fire if fire is not None and parse_instant(fire.at) == self.at else None


def causes_of(known: Known) -> list[CauseView]:
    """Return the causes, each of which explains the next."""
    found = _of_future(known) if _is_open(known) else _of_past(known)
    return [*_of_definition(known), *found, *_of_fills(known)]


def _is_open(known: Known) -> bool:
    return known.at > known.now and not known.entries


def _of_definition(known: Known) -> Iterator[CauseView]:
    job = known.job
    if known.entries:
        pass  # A fire time may be before the definition: an @at that had passed when it was saved.
    elif known.at < parse_instant(job.created_at):
        yield CauseView(
            code="not_yet_created",
            at=job.created_at,
            cause=f"the job was created at {job.created_at}",
            change="fire times before it do not count; `rota trigger` with the fire time runs it",
        )
    if known.version is not None and known.version[0] != job.version:
        number, begin = known.version
        yield CauseView(
            code="version",
            at=format_instant(begin),
            cause=f"version {number} was in use; the present one is {job.version}",
            change=f"`rota jobs show {known.name} --version {number}` shows it while it is stored",
        )
    elif parse_instant(job.created_at) <= known.at and not _is_by(known):
        yield CauseView(
            code="version",
            cause=f"an earlier version was in use; the present one, {job.version}, is of "
            f"{job.updated_at}",
            change=f"`rota history {known.name}` shows which, to those with the verb audit",
        )
    if not job.schedules and not known.entries:
        yield CauseView(
            code="no_schedule",
            cause="the job has no schedule"
            + (f"; events start it: {', '.join(job.events)}" if job.events else ""),
            change=f"rota emit {job.events[0]}"
            if job.events
            else f"rota jobs set {known.name} 'schedule=0 3 * * *'",
        )


def _of_future(known: Known) -> Iterator[CauseView]:
    job, name, fire = known.job, known.name, known.due
    if fire is None:
        if job.schedules:
            yield _no_fire_time(known)
    elif job.paused_at is not None and not _is_after_pause(known):
        yield CauseView(
            code="paused",
            at=job.paused_at,
            cause=_pause_text(job),
            change=f"rota jobs resume {name}, or rota namespace resume {job.namespace}",
        )
    elif fire.excluded:
        yield CauseView(
            code="excluded",
            at=fire.at,
            cause=fire.excluded,
            change=_change_of_exclusion(known, fire.excluded),
        )
    else:
        yield CauseView(
            code="will_fire",
            at=fire.at,
            cause=f"it is a fire time of schedule {fire.schedule}{_start_text(fire)}",
            change=f"rota jobs pause {name}",
        )


def _is_after_pause(known: Known) -> bool:
    until = known.job.paused_until
    return until is not None and parse_instant(until) <= known.at


def _start_text(fire: NextFireView) -> str:
    return f", and starts at {fire.starts_at}" if fire.starts_at else ""


def _pause_text(job: JobView) -> str:
    by = f" by {job.paused_by}" if job.paused_by else ""
    why = f": {job.pause_reason}" if job.pause_reason else ""
    until = f" until {job.paused_until}" if job.paused_until else ""
    return f"the job or its namespace is paused{by}{until}{why}"


def _of_past(known: Known) -> Iterator[CauseView]:
    if known.entries:
        for entry in known.entries:
            yield _of_entry(known, entry)
            yield from _of_executions(known, entry)
    elif known.at < parse_instant(known.job.created_at) or not known.job.schedules:
        return
    elif known.due is not None and _is_by(known) and _is_deferred(known, known.due):
        yield CauseView(
            code="deferred",
            at=known.due.at,
            cause=f"it is a fire time of schedule {known.due.schedule}"
            f"{_start_text(known.due)}, if the calendars stay as they are",
            change=f"rota trigger {known.name} --fire-time {known.due.at}",
        )
    elif known.due is not None and _is_by(known):
        yield CauseView(
            code="no_outcome",
            at=known.due.at,
            cause=f"schedule {known.due.schedule} has this fire time, but the ledger has no "
            "outcome: it is not decided yet, or has expired",
            change=f"`rota audit {known.name}` checks the ledger",
        )
    else:
        yield _no_fire_time(known)


def _is_deferred(known: Known, due: NextFireView) -> bool:
    return due.starts_at is not None and parse_instant(due.starts_at) > known.now


def _is_by(known: Known) -> bool:
    """Return True if the present definition decides about the time."""
    if known.version is None:
        return parse_instant(known.job.updated_at) <= known.at
    return known.version[0] == known.job.version


def _change_of_exclusion(known: Known, reason: str) -> str:
    """Return what alters that calendars exclude a time, which has a *reason*."""
    if not reason.startswith("blackout"):
        return "change the calendar, or the job's onlyCalendars and exceptCalendars"
    if known.at > known.now:
        return "change the times or blackoutOf of the calendar; `rota trigger` runs it meanwhile"
    return f"rota trigger {known.name} --fire-time {format_instant(known.at)}"


def _of_limit(known: Known) -> CauseView | None:
    """Return the cause that a schedule has ended, or not begun; None if that is not why."""
    if not _is_by(known):
        return None
    before = Instant(known.at - MICROSECOND)
    for number, most in known.ended.items():
        if not fault_of(known.schedules[number]) and (
            next_fire(known.schedules[number], before) == known.at
        ):
            return CauseView(
                code="ended",
                at=format_instant(known.at),
                cause=f"schedule {number} has begun its {most} executions (maxExecutions)",
                change="change maxExecutions of the schedule: rota jobs show "
                f"{known.name} -o yaml, then rota apply",
            )
    for number, whole in enumerate(known.schedules):
        # Without its begin, the periods of `every` are others.
        if not (whole.start_at or whole.end_at) or whole.every or fault_of(whole):
            continue
        free = replace(whole, start_at="", end_at="")
        if next_fire(free, before) != known.at:
            continue
        has_ended = next_fire(whole, before) is None
        code, field = ("ended", "endAt") if has_ended else ("not_begun", "startAt")
        limit = whole.end_at if has_ended else whole.start_at
        what = f"ended at {limit}" if has_ended else f"begins at {limit}"
        return CauseView(
            code=code,
            at=format_instant(known.at),
            cause=f"schedule {number} has no fire time then: it {what} ({field})",
            change=f"change {field} of the schedule: rota jobs show {known.name} -o yaml, then "
            "rota apply",
        )
    return None


def _no_fire_time(known: Known) -> CauseView:
    limit = _of_limit(known)
    if limit is not None:
        return limit
    earlier = known.before.until if known.before else None
    following = known.after.at if known.after and _is_by(known) else None
    if known.later is not None:
        following = min(following or known.later.fire_time, known.later.fire_time)
    near = [
        f"the {which} is {at}"
        for which, at in (("one before", earlier), ("next one", following))
        if at is not None
    ]
    nearest = min(
        (each for each in (earlier, following) if each is not None),
        key=lambda each: abs(parse_instant(each) - known.at),
        default=None,
    )
    return CauseView(
        code="no_fire_time",
        at=format_instant(known.at),
        cause="; ".join(["no schedule fires at this time", *near]),
        change=f"rota explain {known.name} --at {nearest}" if nearest else "",
    )


def _of_entry(known: Known, entry: LedgerEntryView) -> CauseView:
    name, job = known.name, known.job
    reason = entry.reason
    code, change = {
        "fired": ("fired", ""),
        "skipped": ("overlap", f"rota jobs set {name} overlap=queue_all"),
        "missed": ("late", f"rota jobs set {name} {_change_of_misfire(reason)}"),
        "coalesced": ("coalesced", f"rota jobs set {name} misfire=all"),
        "paused": (
            "paused",
            f"rota jobs resume {name}, or rota namespace resume {job.namespace}",
        ),
        "excluded": ("excluded", _change_of_exclusion(known, reason)),
    }.get(entry.outcome, (entry.outcome, ""))
    if reason.startswith("quota_exceeded"):
        code, change = "quota", f"rota namespace quota {job.namespace}"
    elif reason.startswith("disk_full"):
        code, change = "disk_full", "free space on the disk of the node"
    elif "the overlap policy is" in reason and f"policy is {job.overlap}" not in reason:
        change = (
            f"change the overlap of schedule {entry.schedule}: rota jobs show {name} -o yaml, then "
            "rota apply"
        )
    elif "waits for the jobs that it depends on" in reason:
        code, change = "dependencies", f"run the jobs that {name} depends on"
    elif entry.broken:
        code, reason = "unreadable", entry.broken
    what = f"schedule {entry.schedule}: {entry.outcome}"
    if entry.count > 1:
        what += f", with {entry.count} fire times from {entry.fire_time} to {entry.until}"
    return CauseView(
        code=code,
        at=entry.recorded_at,
        cause=f"{what}; {reason}" if reason else what,
        change=change,
    )


def _change_of_misfire(reason: str) -> str:
    """Return the field of a job, and the value, with which a fire time runs that was missed."""
    if "misfire window" in reason:
        return "misfireWindow=0"
    return "misfireMax=0" if "misfireMax" in reason else "misfire=latest"


def _of_executions(known: Known, entry: LedgerEntryView) -> Iterator[CauseView]:
    for execution in known.executions:
        if execution.execution_id != entry.execution_id:
            continue
        is_other = entry.outcome in ("skipped", "coalesced")
        count = sum(len(task.attempts) for task in (execution.tasks or {}).values())
        attempts = "1 attempt" if count == 1 else f"{count} attempts"
        why = f": {execution.reason}" if execution.reason else ""
        yield CauseView(
            code="other_execution" if is_other else f"execution_{execution.status}",
            at=execution.finished_at or execution.started_at or execution.queued_at,
            cause=f"execution {execution.execution_id} of {execution.fire_time} is "
            f"{execution.status}, after {attempts}{why}",
            change=_change_of(execution),
        )


def _of_fills(known: Known) -> Iterator[CauseView]:
    """Yield the executions that ran the time without a schedule."""
    named = {entry.execution_id for entry in known.entries}
    for execution in known.fills:
        if execution.trigger == "schedule" or execution.execution_id in named:
            continue
        is_backfill = execution.trigger == "backfill"
        what = "a backfill" if is_backfill else f"a trigger ({execution.trigger})"
        yield CauseView(
            code="backfill" if is_backfill else "other_trigger",
            at=execution.finished_at or execution.started_at or execution.queued_at,
            cause=f"{what} ran this fire time: execution {execution.execution_id} is "
            f"{execution.status}",
            change=_change_of(execution),
        )


def _change_of(execution: ExecutionView) -> str:
    match execution.status:
        case "failed" | "cancelled":
            return f"rota rerun {execution.execution_id}"
        case "queued" | "running":
            return f"rota executions cancel {execution.execution_id}"
        case _:
            return ""
