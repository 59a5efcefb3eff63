"""Entry points of the rules of scheduling.

`decide` returns the decision on a command: the handler of its row in
`rota.core.decide.command_table` writes the decision into a draft. `pending` returns the outstanding
effects, which a new primary carries out.
"""

from collections.abc import Iterator

from rota.core.decide.advance_execution import settle
from rota.core.decide.backfills import note_end, timers_of
from rota.core.decide.circuit_breaker import note_outcome
from rota.core.decide.command_table import row_of
from rota.core.decide.dependencies import is_kept
from rota.core.decide.fire import first_fire
from rota.core.decide.idempotency import answered, remember
from rota.core.decide.pause_job import timer_of_end
from rota.core.decide.run_hooks import late_timer
from rota.core.decide.steps.step import expiry_timer, is_stopped, priority_of, wake_of
from rota.core.decide.user_changes import record
from rota.core.model.attempt import AttemptKey
from rota.core.model.execution import TaskStatus
from rota.core.state.draft import Draft
from rota.core.state.shard_state import State
from rota.core.timing.instants import Duration, Instant
from rota.core.vocabulary.commands import Command, Fire, IdempotentCommand, RunIfMet
from rota.core.vocabulary.decision import Decision, Done, Situation
from rota.core.vocabulary.effects import (
    Deliver,
    Effect,
    SendWebhook,
    SetTimer,
    Stop,
    Timescale,
    WaitForSlot,
)


def decide(state: State, command: Command, situation: Situation) -> Decision:
    """Return the decision on *command*, without changing *state*.

    The cost depends on the records that the decision touches, never on the length of the history. A
    repetition with the same idempotency key changes nothing, whatever has happened since, and gets
    the first reply.

    Raises:
        Refused: The command cannot be carried out, or its idempotency key was used for another
            request (code ``idempotency_key_reused``); nothing is to be recorded.
    """
    row, draft = row_of(command), Draft(state, situation)
    idempotency = command.idempotency if isinstance(command, IdempotentCommand) else None
    reply = answered(state, idempotency, situation.now)
    if reply is None:
        reply = row.handle(draft, command) or Done()
        settle(draft)
        while draft.breaker_ends or draft.backfill_ends:
            if draft.breaker_ends:
                note_outcome(draft, draft.breaker_ends.popleft())
            else:
                note_end(draft, draft.backfill_ends.popleft())
            settle(draft)
        change = row.change(draft, command, reply) if row.change else None
        if change is not None:
            record(draft, change)
        remember(draft, idempotency, reply)
    return draft.decision(row.cause(command), reply)


def cause_of(command: Command) -> str:
    """Return the cause that an entry would record for *command*: names and ids, no other data."""
    return row_of(command).cause(command)


def pending(state: State, ahead: Duration = Duration(0)) -> Iterator[Effect]:
    """Yield the outstanding effects of *state*, which a new primary has to carry out.

    They include the stops of running attempts of cancelled executions, but no launches: the nodes
    of running attempts report whether these still run.

    Args:
        state: The shard's state.
        ahead: The time by which a fire may be decided before its fire time.
    """
    for job_id, plan in state.plans.items():
        due = first_fire(plan)
        if due is not None:
            yield SetTimer(Instant(due - ahead), Fire(job_id=job_id), Timescale.WALL)
        if plan.paused_until:
            yield timer_of_end(job_id, plan.paused_until)
        if plan.upstreams and is_kept(state.jobs[job_id], plan):
            yield SetTimer(Instant(0), RunIfMet(job_id=job_id), Timescale.ELAPSED)
    yield from timers_of(each for found in state.backfills.values() for each in found.values())
    for execution_id, tasks in state.tasks.items():
        execution = state.executions[execution_id]
        if execution.expires_at and not execution.cancelled_at:
            yield expiry_timer(execution)
        if execution.late_at:
            yield late_timer(execution)
        for task in tasks.values():
            if task.status is TaskStatus.READY:
                graph = state.graph(execution.job_id, execution.job_version)
                spec = graph.spec_of(task.name)
                yield WaitForSlot(
                    execution_id,
                    task.name,
                    task.ready_at,
                    priority_of(execution, graph.spec),
                    spec.selector,
                )
            elif task.status in (TaskStatus.BACKING_OFF, TaskStatus.WAITING) and task.retry_at:
                yield SetTimer(task.retry_at, wake_of(execution_id, task), Timescale.ELAPSED)
            elif task.status is TaskStatus.RUNNING and execution.cancelled_at:
                graph = state.graph(execution.job_id, execution.job_version)
                if is_stopped(execution, graph.spec_of(task.name)):
                    yield Stop(AttemptKey(execution_id, task.name, task.attempts[-1].number))
    for key in sorted(state.outbox):
        yield Deliver(state.outbox[key])
    for notification in state.notifications.values():
        yield SendWebhook(notification)
