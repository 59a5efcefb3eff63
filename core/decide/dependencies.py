"""Dependencies between jobs: a job runs after each job that it depends on has succeeded.

A success of the upstream job meets a dependency; the next execution of the dependent job uses the
success up. A job without a schedule runs when all its dependencies are met. A scheduled job runs at
its fire time or, if a dependency is not met then, when the last one is. A manual trigger does not
wait. Under ``queue_one`` an execution waits for its dependencies first and then for the execution
before it. If the overlap policy forbids the execution, it is skipped, and the successes are still
used up.

A circle of jobs is refused when it is saved, unless its jobs are saved at the same time: they may
be in different shards. It ends after `LINKS_MAX` executions, with one that fails and says why.
"""

from msgspec.structs import replace

from rota.core.decide.advance_execution import begin_link, birth_now, release_execution
from rota.core.decide.outside_events import start_by_event
from rota.core.decide.overlap import admit, must_queue
from rota.core.decide.quotas import full_quota
from rota.core.decide.steps.calls import note_answer
from rota.core.decide.trigger_job import recall, trigger_by_hook, trigger_by_task
from rota.core.model.execution import Execution, Hold, Origin
from rota.core.model.ids import Index
from rota.core.model.job import Job, JobPlan, Upstream
from rota.core.state.draft import Draft
from rota.core.state.shard_state import dependent_key, received_key
from rota.core.timing.instants import SECOND, Duration, later
from rota.core.vocabulary.changes import (
    Answered,
    Called,
    Dependent,
    Hooked,
    LastReceived,
    Occurred,
    Recalled,
    Subscribe,
    Succeeded,
    Table,
    Unsubscribe,
)
from rota.core.vocabulary.commands import ReceiveMessage, RunIfMet
from rota.core.vocabulary.effects import SetTimer, Timescale

KEPT_AGAIN = Duration(10 * SECOND)
"""The interval at which a job with met dependencies is tried while its namespace is paused, or has
as many executions as its quota allows.

The node tries it without a decision (`rota.node.runtime.timer_wiring`), so nothing is written.
"""


def receive_message(draft: Draft, command: ReceiveMessage) -> None:
    """Carry out a message from another shard; a repetition changes nothing.

    A late repetition must not undo the effect of a later message: a job may have ended a dependency
    and begun it again.
    """
    if command.outbox_key:
        key = received_key(command.sender)
        if command.outbox_key <= draft.state.received.get(key, ""):
            return
        draft.put(Table.RECEIVED, key, LastReceived(command.outbox_key))
    match command.message:
        case Subscribe(upstream=upstream, dependent=dependent):
            record = Dependent(upstream=upstream, name=dependent)
            draft.put(Table.DEPENDENT, dependent_key(upstream, dependent), record)
        case Unsubscribe(upstream=upstream, dependent=dependent):
            draft.drop(Table.DEPENDENT, dependent_key(upstream, dependent))
        case Succeeded() as message:
            _note_success(draft, message)
        case Hooked() as message:
            trigger_by_hook(draft, message)
        case Called() as message:
            trigger_by_task(draft, message)
        case Recalled() as message:
            recall(draft, message)
        case Answered() as message:
            note_answer(draft, message)
        case Occurred() as message:
            start_by_event(draft, message)


def is_met(plan: JobPlan) -> bool:
    """Return True if every dependency is met."""
    return all(upstream.is_met for upstream in plan.upstreams)


def unmet(plan: JobPlan) -> JobPlan:
    """Return *plan* with no dependency met: an execution has used the successes up."""
    return replace(
        plan, upstreams=tuple(replace(upstream, is_met=False) for upstream in plan.upstreams)
    )


def waiting_execution(draft: Draft, job: Job) -> Execution | None:
    """Return the execution of *job* that waits for its dependencies; None if there is none."""
    if not job.spec.dependencies:
        return None
    held = (one for one in draft.live_of(job.id) if one.hold is Hold.DEPENDENCIES)
    return next(held, None)


def run_if_met(draft: Draft, job: Job) -> None:
    """Run *job* if its dependencies are met and it has no schedule."""
    plan = draft.plan(job.id)
    if plan is not None and plan.upstreams and is_met(plan):
        following = _run_or_release(draft, job, plan)
        if following is not plan:
            draft.put(Table.PLAN, job.id, following)


def run_met(draft: Draft, command: RunIfMet) -> None:
    """Run a job whose dependencies were met while its namespace was paused or at its quota."""
    job = draft.job(command.job_id)
    if job is not None and job.pause is None and not job.spec.schedules:
        run_if_met(draft, job)


def is_kept(job: Job, plan: JobPlan) -> bool:
    """Return True if only the pause or the quota of its namespace can keep *job* from running."""
    is_unscheduled = job.pause is None and not job.spec.schedules
    return is_unscheduled and bool(plan.upstreams) and is_met(plan)


def _note_success(draft: Draft, message: Succeeded) -> None:
    job_id = draft.state.names.get(message.dependent)
    job = draft.job(job_id) if job_id else None
    plan = draft.plan(job_id) if job_id else None
    if job is None or plan is None or message.upstream not in job.spec.dependencies:
        return
    number = job.spec.dependencies.index(message.upstream)
    if message.index <= plan.upstreams[number].seen:
        return
    upstreams = list(plan.upstreams)
    upstreams[number] = Upstream(seen=Index(message.index), is_met=True, links=message.links)
    plan = replace(plan, upstreams=tuple(upstreams))
    if is_met(plan):
        plan = _run_or_release(draft, job, plan)
    draft.put(Table.PLAN, job.id, plan)


def _run_or_release(draft: Draft, job: Job, plan: JobPlan) -> JobPlan:
    """Release the waiting execution, or create one, and return the plan with no dependency met.

    A scheduled job without a waiting execution, and a paused job, keep their plan. A job of a
    namespace that is paused or at its quota is tried again.
    """
    waiting = waiting_execution(draft, job)
    if waiting is not None:
        if must_queue(draft, job, waiting):
            draft.put_execution(replace(waiting, hold=Hold.OVERLAP))
        else:
            release_execution(draft, waiting)
        return unmet(plan)
    if job.spec.schedules or job.pause is not None:
        return plan
    if draft.pause_of(job) is not None or full_quota(draft, job.spec.namespace):
        again_at = later(draft.now, KEPT_AGAIN)
        draft.add(SetTimer(again_at, RunIfMet(job_id=job.id), Timescale.ELAPSED))
        return plan
    admission = admit(draft, job, "")
    if admission.blocked_by is not None:
        return unmet(plan)
    birth = birth_now(draft, job, Origin.DEPENDENCIES, admission)
    links = max(each.links for each in plan.upstreams)
    begin_link(draft, job, replace(birth, links=links))
    return unmet(plan)
