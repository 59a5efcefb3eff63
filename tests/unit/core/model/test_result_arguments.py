"""Arguments of Python functions that are results of other tasks."""

import json

import pytest

from rota.core.model.result_arguments import problems_of_result_arguments
from rota.core.model.work import Call

NEEDS = ("extract",)


def problems(arguments: object, needs: tuple[str, ...] = NEEDS) -> list[tuple[str, str]]:
    """Return pointer and detail of each error in the arguments of a function."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = Call(function="m:f", arguments=text)
    found = problems_of_result_arguments(call, needs, "/tasks/1/python")
    return [(problem.pointer, problem.detail) for problem in found]


@pytest.mark.parametrize(
    "arguments",
    [
        {"args": [{"result": "extract"}, 1], "kwargs": {"rows": {"result": "extract"}}},
        {"args": [{"result": "other", "more": 1}, {"result": 5}, "result", [{"result": "other"}]]},
        "",
        '{"args": [{"result": "other"}',
        {"args": {"result": "other"}},
    ],
)
def test_results_of_needed_tasks_and_other_values_are_accepted(arguments: object) -> None:
    assert problems(arguments) == []


def test_a_result_of_a_task_outside_of_the_needs_is_an_error_with_its_place() -> None:
    found = problems({"args": [0, {"result": "extrakt"}], "kwargs": {"day": {"result": "load"}}})

    detail = "is the result of the task {!r}, which this task does not need; add that task to needs"
    assert found == [
        ("/tasks/1/python/args/1", detail.format("extrakt")),
        ("/tasks/1/python/kwargs/day", detail.format("load")),
    ]
