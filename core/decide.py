"""All knowledge of scheduling, behind two functions.

`decide` says what a command leads to; `pending` says what a new primary finds outstanding.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from rota.core.attempt import AttemptKey
from rota.core.changes import Table
from rota.core.commands import (
    Askable,
    Cancel,
    Claim,
    Command,
    DeleteJob,
    Delivered,
    FinishAttempt,
    Fire,
    FollowJob,
    Forget,
    ForgetRequests,
    LoseSession,
    PauseJob,
    Receive,
    ReportAttempt,
    ResumeJob,
    SaveJob,
    StartTask,
    TakeAccount,
    TakeOver,
    Trigger,
    Wake,
)
from rota.core.decision import Decision, Done, Reply, Situation
from rota.core.draft import Draft
from rota.core.effects import Deliver, Effect, SetTimer, Stop, Timescale, Wait
from rota.core.execution import TaskStatus
from rota.core.firing import fire, first_fire, set_fire_timer
from rota.core.gate import receive_letter
from rota.core.instants import Duration, Instant
from rota.core.keeping import forget
from rota.core.outbox import forget_parcel
from rota.core.pausing import pause_job, resume_job
from rota.core.repetition import answered, forget_requests, remember
from rota.core.reporting import report_attempt
from rota.core.running import (
    cancel_execution,
    finish_attempt,
    lose_session,
    start_task,
    wake_task,
)
from rota.core.saving import delete_job, save_job
from rota.core.schedule import is_startup
from rota.core.standing_in import follow_job, take_account, take_claim
from rota.core.state import State
from rota.core.triggering import trigger


def decide(state: State, command: Command, situation: Situation) -> Decision:
    """Return what *command* leads to in *state*; changes nothing itself.

    Costs O(what it touches), never O(history). One that was asked before with the same idempotency
    key changes nothing, whatever has happened since, and gets the first reply.

    Raises:
        Refused: The command cannot be carried out, or its key (code ``idempotency_key_reused``)
            was used for another request; nothing is to be recorded.
    """
    draft = Draft(state, situation)
    ask = command.ask if isinstance(command, Askable) else None
    reply = answered(state, ask, situation.now)
    if reply is None:
        reply = _dispatch(draft, command)
        remember(draft, ask, reply)
    return draft.decision(_cause(command), reply)


def pending(state: State, ahead: Duration = Duration(0)) -> Iterator[Effect]:
    """Yield the effects that are outstanding in *state*: what a new primary has to carry out.

    Running attempts are not among them, for whether they live is for their nodes to say; that
    those of a cancelled execution are to be stopped is.

    Args:
        state: The shard's.
        ahead: How long before it is due a fire is to be noticed.
    """
    for job_id, plan in state.plans.items():
        due = first_fire(plan)
        if due is not None:
            yield SetTimer(Instant(due - ahead), Fire(job_id=job_id), Timescale.WALL)
    for execution_id, tasks in state.tasks.items():
        execution = state.executions[execution_id]
        for task in tasks.values():
            if task.status is TaskStatus.READY:
                graph = state.graph(execution.job_id, execution.job_version)
                spec = graph.tasks[task.name]
                yield Wait(
                    execution_id,
                    task.name,
                    task.ready_at,
                    graph.spec.priority,
                    spec.selector,
                )
            elif task.status is TaskStatus.BACKING_OFF:
                wake = Wake(
                    execution_id=execution_id, task=task.name, number=len(task.attempts) + 1
                )
                yield SetTimer(task.retry_at, wake, Timescale.ELAPSED)
            elif task.status is TaskStatus.RUNNING and execution.cancelled_at:
                yield Stop(AttemptKey(execution_id, task.name, task.attempts[-1].number))
    for key in sorted(state.outbox):
        yield Deliver(state.outbox[key])


def _dispatch(draft: Draft, command: Command) -> Reply:
    match command:
        case Fire():
            fire(draft, command)
        case FinishAttempt():
            finish_attempt(draft, command)
        case ReportAttempt():
            report_attempt(draft, command)
        case StartTask():
            start_task(draft, command)
        case Wake():
            wake_task(draft, command)
        case SaveJob():
            return save_job(draft, command)
        case DeleteJob():
            return delete_job(draft, command)
        case Trigger():
            return trigger(draft, command)
        case PauseJob():
            return pause_job(draft, command)
        case ResumeJob():
            return resume_job(draft, command)
        case Cancel():
            cancel_execution(draft, command)
        case LoseSession():
            lose_session(draft, command)
        case TakeOver():
            _take_over(draft, command)
        case Receive():
            receive_letter(draft, command)
        case Delivered():
            forget_parcel(draft, command)
        case FollowJob():
            follow_job(draft, command)
        case Claim():
            take_claim(draft, command)
        case TakeAccount():
            take_account(draft, command)
        case Forget():
            forget(draft, command)
        case ForgetRequests():
            forget_requests(draft, command)
    return Done()


def _take_over(draft: Draft, command: TakeOver) -> None:
    """Make ``@startup`` schedules due when the cluster starts."""
    if not command.is_start:
        return
    for job_id, plan in draft.state.plans.items():
        schedules = draft.state.jobs[job_id].spec.schedules
        if any(is_startup(schedule) for schedule in schedules):
            next_fires = tuple(
                draft.now if is_startup(schedule) else at
                for schedule, at in zip(schedules, plan.next_fires, strict=True)
            )
            due_now = replace(plan, next_fires=next_fires)
            draft.put(Table.PLAN, job_id, due_now)
            set_fire_timer(draft, job_id, due_now)


def _cause(command: Command) -> str:
    """Return the command in a few words, for whoever reads the journal."""
    match command:
        case Fire(job_id=job_id):
            return f"fire {job_id}"
        case FinishAttempt(attempt=attempt, ending=ending):
            return f"finish {attempt} {ending.outcome.value}"
        case ReportAttempt(attempt=attempt):
            return f"report {attempt}"
        case StartTask(execution_id=execution_id, task=task):
            return f"start {execution_id}/{task}"
        case Wake(execution_id=execution_id, task=task):
            return f"wake {execution_id}/{task}"
        case SaveJob(spec=spec):
            return f"save {spec.full_name}"
        case DeleteJob(job_id=job_id):
            return f"delete {job_id}"
        case PauseJob(job_id=job_id):
            return f"pause {job_id}"
        case ResumeJob(job_id=job_id):
            return f"resume {job_id}"
        case Trigger(job_id=job_id):
            return f"trigger {job_id}"
        case Cancel(execution_id=execution_id):
            return f"cancel {execution_id}"
        case LoseSession(node_id=node_id, session=session):
            return f"lose {node_id} {session}"
        case TakeOver(epoch=epoch):
            return f"takeover {epoch}"
        case Receive(letter=letter):
            return f"receive {letter.upstream} -> {letter.dependent}"
        case Delivered(key=key):
            return f"delivered {key}"
        case FollowJob(job=job):
            return f"follow {job.id}"
        case Claim(job_id=job_id, node_id=node_id):
            return f"claim {job_id} {node_id}"
        case TakeAccount(account=account):
            return f"account {account.execution.id} {account.node_id}"
        case Forget(pasts=pasts):
            return f"forget {len(pasts)}"
        case ForgetRequests():
            return "forget requests"
