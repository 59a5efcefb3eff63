"""Where the output of tasks is that run other jobs."""

from msgspec.structs import replace

from rota.client.cli.jobs.child_executions import about_children
from rota.wire.documents import TaskView
from unit.client.audit.test_comparison import execution

DONE = TaskView(status="success", attempts=[])


def child(execution_id: str) -> TaskView:
    """Return a task that runs another job."""
    return replace(DONE, child_execution_id=execution_id)


EXECUTION = replace(
    execution("x-12:00"),
    tasks={
        "own": DONE,
        "call": child("a"),
        "all": DONE,
        **{f"all[{number}]": child(f"b{number}") for number in range(7)},
        "all-others": child("c"),
    },
)


def test_the_execution_of_the_other_job_is_named() -> None:
    assert about_children(EXECUTION, "call") == (
        "task call runs another job, whose execution has the output:\n  rota output a"
    )


def test_the_first_executions_of_a_loop_are_named() -> None:
    lines = about_children(EXECUTION, "all").splitlines()

    assert lines[1:] == [f"  rota output b{number}" for number in range(5)] + ["  and 2 more"]


def test_a_step_of_a_loop_names_its_own() -> None:
    assert about_children(EXECUTION, "all[6]").splitlines()[1:] == ["  rota output b6"]


def test_a_task_with_output_of_its_own_has_no_others() -> None:
    assert about_children(EXECUTION, "own") == about_children(EXECUTION, "unknown") == ""
