"""Moves of executions, tasks and attempts are checked where a decision is drafted."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rota.core.decide.steps.attempts import LOSSES_MAX
from rota.core.model.attempt import Ending, Outcome
from rota.core.model.execution import (
    TASK_MOVES,
    Execution,
    ExecutionStatus,
    Task,
    TaskStatus,
)
from rota.core.model.ids import ExecutionId
from rota.core.state.draft import Draft
from rota.core.timing.instants import Instant
from unit.core.shard import Shard, task

ENDING = Ending(
    outcome=Outcome.SUCCEEDED, started_at=Instant(1), finished_at=Instant(2), exit_code=0
)


def ended_with_success(running: Task) -> Task:
    """Return the task after the success of its attempt."""
    attempt = replace(running.attempts[-1], ending=ENDING)
    return replace(running, status=TaskStatus.SUCCESS, attempts=(attempt,))


WRONG_TASKS: list[Callable[[Task], Task]] = [
    lambda task: replace(task, attempts=(*task.attempts, *task.attempts)),
    lambda task: replace(task, attempts=()),
    lambda task: replace(task, status=TaskStatus.SUCCESS),
    lambda task: replace(ended_with_success(task), status=TaskStatus.RUNNING),
]
WRONG_ENDS: list[Callable[[Execution], Execution]] = [
    lambda execution: replace(execution, status=ExecutionStatus.RUNNING, open_count=0),
    lambda execution: replace(execution, status=ExecutionStatus.SUCCESS),
]


def test_a_draft_refuses_a_task_state_that_cannot_follow() -> None:
    draft, execution_id, running = running_task()

    with pytest.raises(AssertionError, match="blocked"):
        draft.put_task(execution_id, replace(running, status=TaskStatus.BLOCKED))


def test_a_draft_refuses_a_second_end_of_a_task_that_it_has_closed() -> None:
    draft, execution_id, running = running_task()
    ended = ended_with_success(running)
    draft.put_task(execution_id, ended)

    with pytest.raises(AssertionError, match="cancelled"):
        draft.put_task(execution_id, replace(ended, status=TaskStatus.CANCELLED))


def test_a_draft_refuses_a_new_task_that_is_not_blocked() -> None:
    draft, execution_id, _ = running_task()

    with pytest.raises(AssertionError):
        draft.put_task(execution_id, Task(name="other", status=TaskStatus.READY))


@pytest.mark.parametrize(
    "wrong",
    WRONG_TASKS,
    ids=["two open attempts", "attempt removed", "end without its attempt's", "runs no attempt"],
)
def test_a_draft_refuses_attempts_that_cannot_follow(wrong: Callable[[Task], Task]) -> None:
    draft, execution_id, running = running_task()

    with pytest.raises(AssertionError):
        draft.put_task(execution_id, wrong(running))


def test_a_draft_keeps_an_ended_attempt_ended() -> None:
    draft, execution_id, running = running_task()
    waiting = replace(ended_with_success(running), status=TaskStatus.READY)
    draft.put_task(execution_id, waiting)

    with pytest.raises(AssertionError):
        draft.put_task(execution_id, running)


@pytest.mark.parametrize("status", [ExecutionStatus.QUEUED, ExecutionStatus.SUCCESS])
def test_a_draft_refuses_a_live_execution_in_a_state_that_cannot_follow(
    status: ExecutionStatus,
) -> None:
    draft, execution_id, _ = running_task()

    with pytest.raises(AssertionError):
        draft.put_execution(replace(execution_of(draft, execution_id), status=status))


def test_a_draft_refuses_a_new_execution_that_is_not_queued() -> None:
    draft, execution_id, _ = running_task()
    other = replace(execution_of(draft, execution_id), id=ExecutionId(f"{execution_id[:-4]}0009"))

    with pytest.raises(AssertionError):
        draft.put_execution(other)


@pytest.mark.parametrize(
    "wrong",
    WRONG_ENDS,
    ids=["not a final state", "an open task"],
)
def test_a_draft_refuses_the_end_of_an_execution_that_has_not_ended(
    wrong: Callable[[Execution], Execution],
) -> None:
    draft, execution_id, _ = running_task()

    with pytest.raises(AssertionError):
        draft.finish_execution(wrong(execution_of(draft, execution_id)))


def test_the_table_names_the_number_of_losses_after_which_a_task_fails() -> None:
    reason = TASK_MOVES[TaskStatus.RUNNING][TaskStatus.FAILED]

    assert f"{LOSSES_MAX} of its attempts were lost" in reason


def running_task() -> tuple[Draft, ExecutionId, Task]:
    """Return a draft of a shard with one running task, its execution and the task."""
    shard = Shard()
    execution_id = shard.run(task("main"))
    draft = Draft(shard.state, shard.situation)
    running = draft.task(execution_id, "main")
    assert running is not None
    return draft, execution_id, running


def execution_of(draft: Draft, execution_id: ExecutionId) -> Execution:
    """Return an unfinished execution."""
    found = draft.execution(execution_id)
    assert found is not None
    return found
