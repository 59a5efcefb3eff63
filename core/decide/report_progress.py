"""Progress and checkpoints of running attempts."""

from msgspec.structs import replace

from rota.core.decide.steps.attempts import running_task
from rota.core.errors import Refused, invalid
from rota.core.model.attempt import CHECKPOINT_BYTES_MAX
from rota.core.model.execution import Task
from rota.core.model.ids import ExecutionId
from rota.core.state.draft import Draft
from rota.core.vocabulary.commands import ReportAttempt


def report_attempt(draft: Draft, command: ReportAttempt) -> None:
    """Record a report; values that are recorded already change nothing.

    Raises:
        Refused: Code ``stale_attempt``: the token is not that of the task's running attempt; code
            ``invalid_report``: a value is out of range or too long. In both cases, the report may
            be dropped.
    """
    key = command.attempt
    task = running_task(draft, key, command.token)
    percent, checkpoint = command.report.percent, command.report.checkpoint
    _check(command)
    if percent is not None and percent != task.attempts[-1].percent:
        _record_progress(draft, key.execution_id, task, percent)
    # An empty checkpoint is from a file that is being rewritten: the last checkpoint stays.
    if checkpoint and checkpoint != draft.checkpoint(key.execution_id, key.task):
        draft.put_checkpoint(key.execution_id, key.task, checkpoint)


def _check(command: ReportAttempt) -> None:
    percent, checkpoint = command.report.percent, command.report.checkpoint
    if percent is not None and not 0 <= percent <= 100:
        raise _refusal(command, f"{percent} percent is out of range; give a value from 0 to 100")
    if checkpoint is not None and len(checkpoint) > CHECKPOINT_BYTES_MAX:
        raise _refusal(
            command,
            f"a checkpoint of {len(checkpoint)} bytes is too long; at most {CHECKPOINT_BYTES_MAX} "
            "are kept: save the location of the data instead",
        )


def _record_progress(draft: Draft, execution_id: ExecutionId, task: Task, percent: int) -> None:
    execution = draft.execution(execution_id)
    assert execution is not None, execution_id
    *earlier, running = task.attempts
    further = replace(task, attempts=(*earlier, replace(running, percent=percent)))
    draft.put_task(execution_id, further)
    draft.publish_progress(execution, further, percent)


def _refusal(command: ReportAttempt, detail: str) -> Refused:
    return invalid("invalid_report", f"report of attempt {command.attempt}: {detail}")
