"""Executions by manual trigger, and by hooks and steps of other jobs."""

from msgspec.structs import replace

from rota.core.decide.advance_execution import begin_execution, begin_link, birth_now
from rota.core.decide.overlap import Admission, admit, problem_of_key
from rota.core.decide.quotas import full_quota, refuse_execution_over_quota
from rota.core.decide.steps.calls import refuse_call, report_call
from rota.core.decide.stop_execution import cancel
from rota.core.errors import Kind, Problem, Refused, invalid, not_found
from rota.core.model.execution import Caller, Origin
from rota.core.model.hook import HookOutcome
from rota.core.model.job import Job
from rota.core.state.draft import Draft
from rota.core.timing.instants import to_datetime
from rota.core.vocabulary.changes import Called, Hooked, Recalled
from rota.core.vocabulary.commands import Trigger
from rota.core.vocabulary.decision import Reply, Triggered
from rota.core.vocabulary.facts import parameters_at


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
    parameters = command.parameters
    if not parameters and command.fire_at:
        parameters = parameters_at(job.spec, command.fire_at)
    admission = admitted(draft, job, parameters)
    birth = replace(
        birth_now(draft, job, Origin.MANUAL, admission, parameters),
        fire_at=command.fire_at or draft.now,
        traceparent=command.traceparent,
        triggered_by=command.author,
        interval_start=draft.situation.facts.interval_start_of(job.spec, command.fire_at),
    )
    begin_execution(draft, job, birth)
    return Triggered(birth.id)


def trigger_by_hook(draft: Draft, message: Hooked) -> None:
    """Trigger a job by the hook of another one, unless the job cannot run now."""
    job_id = draft.state.names.get(message.dependent)
    job = draft.job(job_id) if job_id else None
    obstacle, admission = obstacle_of(draft, job, message.dependent, message.parameters)
    if job is not None and not obstacle:
        birth = birth_now(draft, job, Origin.HOOK, admission, message.parameters)
        begin_link(draft, job, replace(birth, links=message.links))
    outcome = HookOutcome.DROPPED if obstacle else HookOutcome.DELIVERED
    draft.publish_hook(message, outcome, message.dependent, obstacle)


def trigger_by_task(draft: Draft, message: Called) -> None:
    """Run a job for a step of another one, which waits for it."""
    job_id = draft.state.names.get(message.dependent)
    job = draft.job(job_id) if job_id else None
    obstacle, admission = obstacle_of(draft, job, message.dependent, message.parameters)
    if job is None or obstacle:
        refuse_call(draft, message, obstacle)
        return
    birth = birth_now(draft, job, Origin.TASK, admission, message.parameters)
    caller = Caller(message.upstream, message.execution_id, message.task)
    begin_link(draft, job, replace(birth, links=message.links, caller=caller))
    execution = draft.execution(birth.id)
    assert execution is not None, birth.id
    report_call(draft, execution)


def recall(draft: Draft, message: Recalled) -> None:
    """Cancel the execution that a step no longer waits for; it may have ended already."""
    caller = Caller(message.upstream, message.execution_id, message.task)
    job_id = draft.state.names.get(message.dependent)
    for execution in draft.live_of(job_id) if job_id else ():
        if execution.caller == caller:
            reason = f"cancelled with task {caller.task} of execution {caller.execution_id}"
            cancel(draft, execution, reason)
            return


def obstacle_of(
    draft: Draft, job: Job | None, full_name: str, parameters: str
) -> tuple[str, Admission]:
    """Return why *job* cannot run now, empty if it can, and how it is admitted."""
    if job is None:
        return f"there is no job {full_name}", Admission()
    if draft.pause_of(job) is not None:
        paused = f"job {full_name}" if job.pause else f"namespace {job.spec.namespace}"
        return f"{paused} is paused", Admission()
    if draft.execution_count >= draft.limits.executions:
        return f"{draft.execution_count} executions of its shard have not finished", Admission()
    if full := full_quota(draft, job.spec.namespace):
        return full, Admission()
    if problem := problem_of_key(job, parameters):
        return problem, Admission()
    admission = admit(draft, job, parameters)
    if admission.blocked_by is not None:
        policy = job.spec.overlap.value
        reason = f"{admission.blocked_by} had not finished; the overlap policy is {policy}"
        return reason, Admission()
    return "", admission


def admitted(draft: Draft, job: Job, parameters: str) -> Admission:
    """Return the permission for an execution that a user requests.

    Raises:
        Refused: Code ``overlap``: the overlap policy of the job forbids the execution now; code
            ``invalid_parameters``: they give no concurrency key.
    """
    if problem := problem_of_key(job, parameters):
        raise invalid("invalid_parameters", problem, Problem("/parameters", problem))
    admission = admit(draft, job, parameters)
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
    pause = draft.situation.facts.pauses.get(namespace)
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
