"""Executions by manual trigger, and by hooks of other jobs."""

from rota.core.decide.advance_execution import Birth, begin_execution
from rota.core.decide.overlap import Admission, admit
from rota.core.decide.quotas import full_quota, refuse_execution_over_quota
from rota.core.errors import Kind, Refused, not_found
from rota.core.model.execution import Hold, Origin
from rota.core.model.hook import HookOutcome
from rota.core.model.ids import trigger_execution_id
from rota.core.model.job import Job
from rota.core.state.draft import Draft
from rota.core.timing.instants import to_datetime
from rota.core.vocabulary.changes import Hooked
from rota.core.vocabulary.commands import Trigger
from rota.core.vocabulary.decision import Reply, Triggered


def trigger(draft: Draft, command: Trigger) -> Reply:
    """Create one execution of a job now, even if the job is paused.

    Raises:
        Refused: There is no such job; codes ``namespace_paused`` and ``quota_exceeded``; code
            ``overlap``: the overlap policy of the job forbids the execution now; code
            ``too_many_executions``: the shard is at its limit.
    """
    job = draft.job(command.job_id)
    if job is None:
        raise not_found("job", command.job_id)
    refuse_if_paused(draft, job.spec.namespace)
    refuse_if_full(draft)
    refuse_execution_over_quota(draft, job.spec.namespace)
    admission = admitted(draft, job)
    execution_id = trigger_execution_id(job.id, draft.now, draft.situation.entropy)
    birth = Birth(
        id=execution_id,
        origin=Origin.MANUAL,
        fire_at=draft.now,
        hold=admission.hold,
        parameters=command.parameters,
        traceparent=command.traceparent,
        triggered_by=command.author,
    )
    begin_execution(draft, job, birth)
    return Triggered(execution_id)


def trigger_by_hook(draft: Draft, message: Hooked) -> None:
    """Trigger a job by the hook of another one, unless the job cannot run now."""
    job_id = draft.state.names.get(message.dependent)
    job = draft.job(job_id) if job_id else None
    obstacle, hold = _obstacle(draft, job, message.dependent)
    if job is not None and not obstacle:
        execution_id = trigger_execution_id(job.id, draft.now, draft.situation.entropy)
        birth = Birth(
            id=execution_id,
            origin=Origin.HOOK,
            fire_at=draft.now,
            hold=hold,
            parameters=message.parameters,
        )
        begin_execution(draft, job, birth)
    outcome = HookOutcome.DROPPED if obstacle else HookOutcome.DELIVERED
    draft.publish_hook(message, outcome, message.dependent, obstacle)


def _obstacle(draft: Draft, job: Job | None, full_name: str) -> tuple[str, Hold]:
    """Return why a hook cannot trigger *job*, empty if it can, and how its execution is held."""
    if job is None:
        return f"there is no job {full_name}", Hold.NONE
    if draft.pause_of(job) is not None:
        paused = f"job {full_name}" if job.pause else f"namespace {job.spec.namespace}"
        return f"{paused} is paused", Hold.NONE
    if draft.execution_count >= draft.limits.executions:
        return f"{draft.execution_count} executions of its shard have not finished", Hold.NONE
    if full := full_quota(draft, job.spec.namespace):
        return full, Hold.NONE
    admission = admit(draft, job)
    if admission.blocked_by is not None:
        policy = job.spec.overlap.value
        return f"{admission.blocked_by} had not finished; the overlap policy is {policy}", Hold.NONE
    return "", admission.hold


def admitted(draft: Draft, job: Job) -> Admission:
    """Return the permission for an execution that a user requests.

    Raises:
        Refused: Code ``overlap``: the overlap policy of the job forbids the execution now.
    """
    admission = admit(draft, job)
    if admission.blocked_by is not None:
        raise Refused(
            Kind.CONFLICT,
            "overlap",
            f"execution {admission.blocked_by} of job {job.spec.full_name!r} has not finished, "
            f"and the job's overlap policy is {job.spec.overlap.value}; wait for its end, or "
            "cancel it",
        )
    return admission


def refuse_if_paused(draft: Draft, namespace: str) -> None:
    """Refuse a request for an execution in a paused namespace.

    Raises:
        Refused: Code ``namespace_paused``: the namespace is paused.
    """
    pause = draft.situation.pauses.get(namespace)
    if pause is not None:
        by = f" by {pause.by}" if pause.by else ""
        why = f" ({pause.reason})" if pause.reason else ""
        raise Refused(
            Kind.CONFLICT,
            "namespace_paused",
            f"namespace {namespace!r} is paused since {to_datetime(pause.at):%FT%TZ}{by}{why}, so "
            "no execution begins in it; resume it with `rota namespace resume "
            f"{namespace}`, and try again",
        )


def refuse_if_full(draft: Draft) -> None:
    """Refuse a request if the shard is at its limit of unfinished executions.

    Raises:
        Refused: Code ``too_many_executions``: the shard is at its limit.
    """
    if draft.execution_count >= draft.limits.executions:
        raise Refused(
            Kind.TOO_MANY,
            "too_many_executions",
            f"this shard has {draft.execution_count} unfinished executions, which is its limit; "
            "try again when some have finished",
            retry_after_s=1,
        )
