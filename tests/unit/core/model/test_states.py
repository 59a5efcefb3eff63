"""The tables of states: closed, without dead ends, and final where they end."""

import pytest

from rota.core.model.execution import (
    EXECUTION_MOVES,
    FINAL_EXECUTION_STATES,
    FINAL_TASK_STATES,
    STANDINGS,
    TASK_MOVES,
    UPSTREAM_FAILED,
    UPSTREAM_SKIPPED,
    ExecutionStatus,
    Task,
    TaskStatus,
    check_task_move,
    standing,
)
from rota.core.model.trigger_rules import UpstreamState


def test_every_execution_state_has_its_moves_and_every_move_leads_to_one() -> None:
    targets = {target for moves in EXECUTION_MOVES.values() for target in moves}

    assert set(EXECUTION_MOVES) == set(ExecutionStatus)
    assert targets == set(ExecutionStatus) - {ExecutionStatus.QUEUED}


def test_every_task_state_has_its_moves_and_every_move_leads_to_one() -> None:
    targets = {target for moves in TASK_MOVES.values() for target in moves}

    assert set(TASK_MOVES) == set(TaskStatus)
    assert targets == set(TaskStatus) - {TaskStatus.BLOCKED}


def test_final_states_are_those_that_people_call_final() -> None:
    assert {status.value for status in FINAL_EXECUTION_STATES} == {"success", "failed", "cancelled"}
    assert {status.value for status in FINAL_TASK_STATES} == {
        "success",
        "failed",
        "skipped",
        "cancelled",
    }


def test_a_task_stands_open_until_it_is_final() -> None:
    open_states = {status for status, stands in STANDINGS.items() if stands is UpstreamState.OPEN}

    assert set(STANDINGS) == set(TaskStatus)
    assert open_states == set(TaskStatus) - FINAL_TASK_STATES


@pytest.mark.parametrize(
    ("reason", "expected"),
    [(UPSTREAM_FAILED, UpstreamState.UPSTREAM_FAILED), (UPSTREAM_SKIPPED, UpstreamState.SKIPPED)],
)
def test_a_skipped_task_stands_for_why_it_was_skipped(reason: str, expected: UpstreamState) -> None:
    skipped = Task(name="main", status=TaskStatus.SKIPPED, reason=reason)

    assert standing(skipped) is expected


@pytest.mark.parametrize("final", [one for one in TaskStatus if one in FINAL_TASK_STATES])
def test_no_state_of_a_task_follows_a_final_one(final: TaskStatus) -> None:
    ended = Task(name="main", status=final)

    with pytest.raises(AssertionError):
        check_task_move(ended, Task(name="main", status=TaskStatus.READY))
