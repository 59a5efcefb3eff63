"""Dependencies between jobs: a job runs after each job that it depends on has succeeded.

Every dependency is a gate that a success opens and that the next execution closes again. A job
without a schedule runs as soon as all its gates are open; a scheduled one at its fire time or,
if a gate is closed then, as soon as the last one opens. A trigger by hand does not wait. Under
``queue_one`` an execution waits for its gates first and then for the one before it. Where the
overlap policy forbids the execution, the successes are used up all the same: it was skipped.
"""

from msgspec.structs import replace

from rota.core.decide.advance_execution import Birth, begin_execution, release_execution
from rota.core.decide.overlap import admit, must_queue
from rota.core.model.execution import Execution, Hold, Origin
from rota.core.model.ids import Index, trigger_execution_id
from rota.core.model.job import Job, JobPlan, Upstream
from rota.core.state.draft import Draft
from rota.core.state.shard_state import dependent_key, received_key
from rota.core.vocabulary.changes import Dependent, Mark, Subscribe, Succeeded, Table, Unsubscribe
from rota.core.vocabulary.commands import Receive


def receive_letter(draft: Draft, command: Receive) -> None:
    """Act on a letter from another shard; one that was seen before changes nothing.

    A late repetition must not undo what a letter after it has done: it may say that a job waits no
    longer, and the next one that it waits again.
    """
    if command.place:
        key = received_key(command.sender)
        if command.place <= draft.state.received.get(key, ""):
            return
        draft.put(Table.RECEIVED, key, Mark(command.place))
    match command.letter:
        case Subscribe(upstream=upstream, dependent=dependent):
            record = Dependent(upstream=upstream, name=dependent)
            draft.put(Table.DEPENDENT, dependent_key(upstream, dependent), record)
        case Unsubscribe(upstream=upstream, dependent=dependent):
            draft.drop(Table.DEPENDENT, dependent_key(upstream, dependent))
        case Succeeded() as letter:
            _note_success(draft, letter)


def is_open(plan: JobPlan) -> bool:
    """Tell whether every dependency has succeeded since the last execution that waited."""
    return all(upstream.is_met for upstream in plan.upstreams)


def close(plan: JobPlan) -> JobPlan:
    """Return *plan* with every gate closed: an execution has used the successes."""
    return replace(
        plan, upstreams=tuple(replace(upstream, is_met=False) for upstream in plan.upstreams)
    )


def waiting_execution(draft: Draft, job: Job) -> Execution | None:
    """Return the execution of *job* that waits for its gates to open, if there is one."""
    if not job.spec.dependencies:
        return None
    held = (one for one in draft.live_of(job.id) if one.hold is Hold.DEPENDENCIES)
    return next(held, None)


def pass_if_open(draft: Draft, job: Job) -> None:
    """Let *job* run if all its gates are open and nothing else would make it."""
    plan = draft.plan(job.id)
    if plan is not None and plan.upstreams and is_open(plan):
        draft.put(Table.PLAN, job.id, _pass_through(draft, job, plan))


def _note_success(draft: Draft, letter: Succeeded) -> None:
    job_id = draft.state.names.get(letter.dependent)
    job = draft.job(job_id) if job_id else None
    plan = draft.plan(job_id) if job_id else None
    if job is None or plan is None or letter.upstream not in job.spec.dependencies:
        return
    number = job.spec.dependencies.index(letter.upstream)
    if letter.index <= plan.upstreams[number].seen:
        return
    upstreams = list(plan.upstreams)
    upstreams[number] = Upstream(seen=Index(letter.index), is_met=True)
    plan = replace(plan, upstreams=tuple(upstreams))
    if is_open(plan):
        plan = _pass_through(draft, job, plan)
    draft.put(Table.PLAN, job.id, plan)


def _pass_through(draft: Draft, job: Job, plan: JobPlan) -> JobPlan:
    """Let the execution that waits go on, or make one; the gates close behind it."""
    waiting = waiting_execution(draft, job)
    if waiting is not None:
        if must_queue(draft, job):
            draft.put_execution(replace(waiting, hold=Hold.OVERLAP))
        else:
            release_execution(draft, waiting)
        return close(plan)
    if job.spec.schedules or job.pause is not None:
        return plan
    admission = admit(draft, job)
    if admission.blocked_by is not None:
        return close(plan)
    execution_id = trigger_execution_id(job.id, draft.now, draft.situation.entropy)
    birth = Birth(
        id=execution_id, origin=Origin.DEPENDENCIES, fire_at=draft.now, hold=admission.hold
    )
    begin_execution(draft, job, birth)
    return close(plan)
