"""Pausing and resuming of jobs; the fire times of a paused job are recorded as paused."""

from msgspec.structs import replace

from rota.core.decide.dependencies import run_if_met
from rota.core.decide.recount_fires import COUNTED_AGAIN, restart_fires
from rota.core.errors import not_found
from rota.core.model.ids import JobId
from rota.core.model.job import Job, Pause
from rota.core.state.draft import Draft
from rota.core.timing.instants import Instant, format_instant
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import EndPause, PauseJob, ResumeJob
from rota.core.vocabulary.decision import JobSaved, Reply
from rota.core.vocabulary.effects import JobEvent, SetTimer, Timescale


def pause_job(draft: Draft, command: PauseJob) -> Reply:
    """Pause a job; its running executions continue.

    Pausing a paused job changes nothing, unless it gives another end, or failures have paused the
    job: the pause is then that of the user, and no success ends it.

    Raises:
        Refused: There is no such job.
    """
    job = _job(draft, command.job_id)
    present = job.pause
    if present is None or present.is_automatic or command.until not in (0, present.until):
        by, reason, until = command.by, command.reason, command.until
        pause(draft, job, Pause(at=draft.now, by=by, reason=reason, until=until))
    return JobSaved(job.id, version=job.version, is_new=False)


def resume_job(draft: Draft, command: ResumeJob) -> Reply:
    """Resume a job from its next fire time on.

    If its dependencies were met during the pause, the job runs now. If the clock was ahead and its
    schedules skip fire times after now, they count from now again, also if the job is not paused.

    Raises:
        Refused: There is no such job.
    """
    job = _job(draft, command.job_id)
    is_restarted = restart_fires(draft, job)
    if is_restarted and job.pause is None:
        draft.publish_job(job, JobEvent.RESUMED, COUNTED_AGAIN)
    if job.pause is not None:
        resume(draft, job)
    return JobSaved(job.id, version=job.version, is_new=False)


def pause(draft: Draft, job: Job, pause: Pause) -> None:
    """Pause a job, or replace its pause."""
    draft.put(Table.JOB, job.id, replace(job, pause=pause))
    if pause.until:
        _put_end(draft, job, pause.until)
        draft.add(timer_of_end(job.id, pause.until))
    draft.publish_job(job, JobEvent.PAUSED, _why(pause))


def resume(draft: Draft, job: Job) -> None:
    """Resume a paused job; it runs if its dependencies were met during the pause."""
    resumed = replace(job, pause=None)
    draft.put(Table.JOB, job.id, resumed)
    _put_end(draft, job, Instant(0))
    draft.publish_job(job, JobEvent.RESUMED)
    run_if_met(draft, resumed)


def end_pause(draft: Draft, command: EndPause) -> None:
    """Resume a job whose pause has ended by itself; a later pause stays as it is."""
    job = draft.job(command.job_id)
    if job is not None and job.pause is not None and job.pause.until == command.until:
        resume(draft, job)


def timer_of_end(job_id: JobId, until: Instant) -> SetTimer:
    """Return the timer of the end of a pause."""
    return SetTimer(until, EndPause(job_id=job_id, until=until), Timescale.WALL)


def _put_end(draft: Draft, job: Job, until: Instant) -> None:
    """Write when the pause of a job ends, for new primaries, and forget its failures."""
    plan = draft.plan(job.id)
    assert plan is not None, job.id
    changed = replace(plan, failures=0, paused_until=until)
    if changed != plan:
        draft.put(Table.PLAN, job.id, changed)


def _why(pause: Pause) -> str:
    by = f"by {pause.by}" if pause.by else ""
    until = f"until {format_instant(pause.until)}" if pause.until else ""
    return ": ".join(part for part in (" ".join(filter(None, (by, until))), pause.reason) if part)


def _job(draft: Draft, job_id: JobId) -> Job:
    job = draft.job(job_id)
    if job is None:
        raise not_found("job", job_id)
    return job
