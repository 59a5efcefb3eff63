"""Jobs are made and taken away."""

from rota.core.changes import Name, Request, Subscribe, Table, Unsubscribe
from rota.core.commands import Ask, Cancel, DeleteJob, Fire, ForgetRequests, SaveJob, Trigger
from rota.core.decision import Done, JobSaved, Reply, Triggered
from rota.core.draft import Draft
from rota.core.effects import ClearTimer, Timescale
from rota.core.errors import Kind, Refused, not_found
from rota.core.execution import Origin
from rota.core.firing import first_fire, first_fire_of, set_fire_timer
from rota.core.ids import ExecutionId, JobId, mint_job_id, slot_of, trigger_execution_id
from rota.core.instants import DAY, later
from rota.core.job import Job, Plan, Upstream
from rota.core.outbox import send_letter
from rota.core.overlap import admit
from rota.core.running import Birth, begin_execution, cancel_execution
from rota.core.state import version_key

REQUEST_TTL = DAY
"""How long an idempotency key is remembered."""
FORGOTTEN_AT_ONCE = 1_000


def save_job(draft: Draft, command: SaveJob) -> Reply:
    """Create a job.

    Raises:
        Refused: Code ``job_exists``: another job has that name; ``idempotency_key_reused``;
            ``too_many_jobs``.
    """
    spec = command.spec
    answered = _answered(draft, command.ask)
    if answered is not None:
        return JobSaved(JobId(answered), is_new=False)
    standing_id = draft.state.names.get(spec.full_name)
    if standing_id is not None:
        if draft.state.jobs[standing_id].spec == spec:
            return JobSaved(standing_id, is_new=False)
        raise Refused(
            Kind.CONFLICT,
            "job_exists",
            f"there is already a job {spec.full_name!r} ({standing_id}) with another definition; "
            "delete it first or choose another name",
        )
    if len(draft.state.jobs) >= draft.limits.jobs:
        raise Refused(
            Kind.TOO_MANY,
            "too_many_jobs",
            f"this shard already holds {draft.limits.jobs} jobs, which is its limit",
            retry_after_s=60,
        )
    job_id = _new_job_id(draft, command)
    job = Job(id=job_id, version=1, spec=spec, created_at=draft.now, updated_at=draft.now)
    plan = Plan(
        next_fires=tuple(first_fire_of(schedule, draft.now) for schedule in spec.schedules),
        upstreams=tuple(Upstream() for _ in spec.dependencies),
    )
    draft.put(Table.JOB, job_id, job)
    draft.put(Table.NAME, spec.full_name, Name(job_id))
    draft.put(Table.PLAN, job_id, plan)
    for upstream in spec.dependencies:
        send_letter(draft, upstream, Subscribe(upstream=upstream, dependent=spec.full_name))
    set_fire_timer(draft, job_id, plan)
    _remember(draft, command.ask, job_id)
    return JobSaved(job_id, is_new=True)


def delete_job(draft: Draft, command: DeleteJob) -> Reply:
    """Take a job away and cancel what runs of it.

    Raises:
        Refused: There is no such job.
    """
    job, plan = draft.job(command.job_id), draft.plan(command.job_id)
    if job is None or plan is None:
        raise not_found("job", command.job_id)
    due = first_fire(plan)
    if due is not None:
        draft.add(ClearTimer(due, Fire(job_id=job.id), Timescale.WALL))
    for upstream in job.spec.dependencies:
        letter = Unsubscribe(upstream=upstream, dependent=job.spec.full_name)
        send_letter(draft, upstream, letter)
    live = [execution.id for execution in draft.live_of(job.id)]
    draft.drop(Table.JOB, job.id)
    draft.drop(Table.NAME, job.spec.full_name)
    draft.drop(Table.PLAN, job.id)
    if live:
        draft.put(Table.VERSION, version_key(job.id, job.version), job.spec)
    # Newest first: the end of one must not release another that is about to be cancelled too.
    for execution_id in reversed(live):
        cancel_execution(draft, Cancel(execution_id=execution_id))
    return Done()


def trigger(draft: Draft, command: Trigger) -> Reply:
    """Make one execution of a job now.

    Raises:
        Refused: There is no such job; code ``overlap``: its policy forbids it now;
            ``too_many_executions``; ``idempotency_key_reused``.
    """
    answered = _answered(draft, command.ask)
    if answered is not None:
        return Triggered(ExecutionId(answered), is_new=False)
    job = draft.job(command.job_id)
    if job is None:
        raise not_found("job", command.job_id)
    if draft.execution_count >= draft.limits.executions:
        raise Refused(
            Kind.TOO_MANY,
            "too_many_executions",
            f"{draft.execution_count} executions of this shard have not finished, which is its "
            "limit; try again when some have",
            retry_after_s=1,
        )
    admission = admit(draft, job)
    if admission.blocked_by is not None:
        raise Refused(
            Kind.CONFLICT,
            "overlap",
            f"execution {admission.blocked_by} of job {job.spec.full_name!r} has not finished and "
            f"its overlap policy is {job.spec.overlap.value}",
        )
    execution_id = trigger_execution_id(job.id, draft.now, draft.situation.entropy)
    birth = Birth(
        id=execution_id,
        origin=Origin.MANUAL,
        fire_at=draft.now,
        hold=admission.hold,
        parameters=command.parameters,
    )
    begin_execution(draft, job, birth)
    _remember(draft, command.ask, execution_id)
    return Triggered(execution_id, is_new=True)


def forget_requests(draft: Draft, command: ForgetRequests) -> None:
    """Drop the answers to requests that may no longer be repeated."""
    del command
    expired: list[str] = []
    for key, request in draft.state.requests.items():
        if request.expires_at > draft.now or len(expired) >= FORGOTTEN_AT_ONCE:
            break
        expired.append(key)
    for key in expired:
        draft.drop(Table.REQUEST, key)


def _new_job_id(draft: Draft, command: SaveJob) -> JobId:
    slot = slot_of(command.spec.namespace, command.spec.name)
    entropy = draft.situation.entropy
    while (job_id := mint_job_id(slot, entropy)) in draft.state.jobs:
        entropy += 1
    return job_id


def _answered(draft: Draft, ask: Ask | None) -> str | None:
    """Return the answer that was given to *ask* before, if it was."""
    request = draft.state.requests.get(ask.key) if ask else None
    if ask is None or request is None or request.expires_at <= draft.now:
        return None
    if request.print != ask.print:
        raise Refused(
            Kind.INVALID,
            "idempotency_key_reused",
            f"Idempotency-Key {ask.key!r} was used for another request; choose a new one",
        )
    return request.answer


def _remember(draft: Draft, ask: Ask | None, answer: str) -> None:
    if ask is None:
        return
    if len(draft.state.requests) >= draft.limits.requests:
        # The oldest makes room: better than refusing work for the sake of old repetitions.
        draft.drop(Table.REQUEST, next(iter(draft.state.requests)))
    expires_at = later(draft.now, REQUEST_TTL)
    draft.put(
        Table.REQUEST, ask.key, Request(print=ask.print, answer=answer, expires_at=expires_at)
    )
