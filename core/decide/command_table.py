"""The table of commands: for each, its handler and the cause that its journal entry records.

A new command is a struct in `rota.core.vocabulary.commands`, a handler in a module of this package,
and a row here. Type checkers refuse a row whose parts do not fit each other, and a command of the
union `Command` without a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rota.core.decide import user_changes
from rota.core.decide.advance_execution import wake_task
from rota.core.decide.backfills import continue_backfill, control_backfill, start_backfill
from rota.core.decide.dependencies import receive_message, run_met
from rota.core.decide.fallback import follow_job, reconcile_execution, reconcile_fires
from rota.core.decide.fire import fire
from rota.core.decide.idempotency import forget_requests
from rota.core.decide.job_state import delete_state, put_state
from rota.core.decide.outbox import drop_outbox_item
from rota.core.decide.outside_events import receive_event
from rota.core.decide.pause_job import end_pause, pause_job, resume_job
from rota.core.decide.record_documents import record_document
from rota.core.decide.recount_fires import recount_fires
from rota.core.decide.report_progress import report_attempt
from rota.core.decide.rerun_execution import rerun
from rota.core.decide.retention import forget
from rota.core.decide.run_hooks import end_notification, note_late
from rota.core.decide.save_job import delete_job, save_job
from rota.core.decide.startup_schedules import fire_at_startup
from rota.core.decide.steps.attempts import finish_attempt, lose_session, start_task
from rota.core.decide.steps.events import post_event
from rota.core.decide.steps.waits import answer_task
from rota.core.decide.stop_execution import cancel_execution, expire_execution
from rota.core.decide.trigger_job import trigger
from rota.core.state.draft import Draft
from rota.core.vocabulary.change_chain import UserChange
from rota.core.vocabulary.commands import (
    AnswerTask,
    Cancel,
    Command,
    ConfirmDelivery,
    ContinueBackfill,
    ControlBackfill,
    DeleteJob,
    DeleteState,
    EndNotification,
    EndPause,
    Expire,
    FinishAttempt,
    Fire,
    FireAtStartup,
    FollowJob,
    Forget,
    ForgetChanges,
    ForgetRequests,
    LoseSession,
    NoteLate,
    PauseJob,
    PostEvent,
    PutState,
    ReceiveEvent,
    ReceiveMessage,
    ReconcileExecution,
    ReconcileFires,
    RecordDocument,
    RecountFires,
    ReportAttempt,
    Rerun,
    ResumeJob,
    RunIfMet,
    SaveJob,
    StartBackfill,
    StartTask,
    Trigger,
    Wake,
)
from rota.core.vocabulary.decision import Reply

C = TypeVar("C", bound=Command)


@dataclass(frozen=True, slots=True)
class Row(Generic[C]):
    """One kind of command.

    Attributes:
        command: The type of the command.
        handle: Writes the changes and effects of the command into the draft, and returns the reply;
            None is `Done`. It raises `Refused` if the command cannot be carried out.
        cause: Returns the command in a few words, for readers of the journal.
        change: Returns the change that the command made, for the record of what users change, from
            the draft and the reply; None if it changed nothing. None for commands without a record.
    """

    command: type[C]
    handle: Callable[[Draft, C], Reply | None]
    cause: Callable[[C], str]
    change: Callable[[Draft, C, Reply], UserChange | None] | None = None


ROWS = (
    # From users.
    Row(SaveJob, save_job, lambda it: f"save {it.spec.full_name}", user_changes.saved),
    Row(DeleteJob, delete_job, lambda it: f"delete {it.job_id}", user_changes.deleted),
    Row(PauseJob, pause_job, lambda it: f"pause {it.job_id}", user_changes.paused),
    Row(ResumeJob, resume_job, lambda it: f"resume {it.job_id}", user_changes.resumed),
    Row(Trigger, trigger, lambda it: f"trigger {it.job_id}"),
    Row(Rerun, rerun, lambda it: f"rerun {it.past.id}", user_changes.rerun),
    Row(
        AnswerTask,
        answer_task,
        lambda it: f"answer {it.execution_id}/{it.task}",
        user_changes.answered,
    ),
    Row(PostEvent, post_event, lambda it: f"post {it.name} to {it.execution_id}"),
    Row(ReceiveEvent, receive_event, lambda it: f"event of {it.channel}"),
    Row(PutState, put_state, lambda it: f"set {it.key} of {it.job_id}"),
    Row(DeleteState, delete_state, lambda it: f"delete {it.key} of {it.job_id}"),
    Row(Cancel, cancel_execution, lambda it: f"cancel {it.execution_id}", user_changes.cancelled),
    Row(
        StartBackfill,
        start_backfill,
        lambda it: f"backfill {it.backfill.job_id} {it.backfill.id}",
        user_changes.backfill_started,
    ),
    Row(
        ControlBackfill,
        control_backfill,
        lambda it: f"{it.action.value} backfill {it.job_id} {it.backfill_id}",
        user_changes.backfill_changed,
    ),
    # From timers.
    Row(ContinueBackfill, continue_backfill, lambda it: f"continue backfill {it.job_id}"),
    Row(EndPause, end_pause, lambda it: f"end of pause {it.job_id}"),
    Row(Fire, fire, lambda it: f"fire {it.job_id}"),
    Row(Wake, wake_task, lambda it: f"wake {it.execution_id}/{it.task}"),
    Row(Expire, expire_execution, lambda it: f"expire {it.execution_id}"),
    Row(NoteLate, note_late, lambda it: f"late {it.execution_id}"),
    Row(RunIfMet, run_met, lambda it: f"met {it.job_id}"),
    # From slots, executors and the view of the cluster.
    Row(StartTask, start_task, lambda it: f"start {it.execution_id}/{it.task}"),
    Row(FinishAttempt, finish_attempt, lambda it: f"finish {it.attempt} {it.ending.outcome.value}"),
    Row(ReportAttempt, report_attempt, lambda it: f"report {it.attempt}"),
    Row(LoseSession, lose_session, lambda it: f"lose {it.node_id} {it.session}"),
    Row(FireAtStartup, fire_at_startup, lambda it: f"startup {it.epoch}"),
    Row(RecountFires, recount_fires, lambda it: f"recount {it.job_id}"),
    # From other shards.
    Row(
        ReceiveMessage,
        receive_message,
        lambda it: f"receive {it.message.upstream} -> {it.message.dependent}",
    ),
    Row(ConfirmDelivery, drop_outbox_item, lambda it: f"delivered {it.key}"),
    # From the webhooks of this node.
    Row(EndNotification, end_notification, lambda it: f"notified {it.key} {it.outcome.value}"),
    # For and from stand-ins.
    Row(FollowJob, follow_job, lambda it: f"follow {it.job.id}"),
    Row(ReconcileFires, reconcile_fires, lambda it: f"claim {it.job_id} {it.node_id}"),
    Row(
        ReconcileExecution,
        reconcile_execution,
        lambda it: f"account {it.ended.execution.id} {it.ended.node_id}",
    ),
    # Housekeeping.
    Row(Forget, forget, lambda it: f"forget {len(it.pasts)} keep {len(it.kept)}"),
    Row(
        RecordDocument,
        record_document,
        lambda it: f"record {it.key.kind}/{it.key.name}",
    ),
    Row(ForgetChanges, user_changes.forget_changes, lambda it: f"forget changes to {it.last}"),
    Row(ForgetRequests, forget_requests, lambda _: "forget requests"),
)

# Not annotated: from the inferred types, mypy and pyright detect in `row_of` a command of the union
# without a row.
_ROW_OF = {row.command: row for row in ROWS}


def row_of(command: Command) -> Row[Any]:
    """Return the row of the type of *command*; costs one look-up."""
    return _ROW_OF[type(command)]  # Any: checkers cannot infer that the row is of this type.
