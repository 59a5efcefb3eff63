"""The circuit breaker of a job: failures in a row pause the job, and a success resumes it.

The fire times of the pause are recorded as those of any other. An execution that is triggered, or
run again, during the pause is the probe: if it succeeds, the job is resumed.
"""

from msgspec.structs import replace

from rota.core.decide.pause_job import pause, resume
from rota.core.model.execution import Execution, ExecutionStatus
from rota.core.model.job import Pause
from rota.core.state.draft import Draft
from rota.core.vocabulary.changes import Table

AUTHOR = "rota"
"""The author of the pauses that the circuit breaker begins."""


def note_outcome(draft: Draft, past: Execution) -> None:
    """Count the end of an execution, and pause or resume its job.

    Cancelled executions and those of backfills do not count.
    """
    job, plan = draft.job(past.job_id), draft.plan(past.job_id)
    if job is None or plan is None or past.backfill or past.status is ExecutionStatus.CANCELLED:
        return
    if past.status is ExecutionStatus.SUCCESS:
        if plan.failures:
            draft.put(Table.PLAN, job.id, replace(plan, failures=0))
        if job.pause is not None and job.pause.is_automatic:
            resume(draft, job)
        return
    failures = plan.failures + 1
    draft.put(Table.PLAN, job.id, replace(plan, failures=failures))
    if failures >= job.spec.pause_after_failures and job.pause is None:
        # Not the reason of the failure, which only some readers of the job may see.
        reason = f"failures in a row: {failures:,}, the last one of execution {past.id}"
        pause(draft, job, Pause(at=draft.now, by=AUTHOR, reason=reason, is_automatic=True))
