"""Tasks of an app, without a node: definitions, arguments, and the jobs that are sent."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, assert_type
from uuid import UUID

import pytest

import rota
from rota.client.app import InvalidArgument, InvalidTask, Task
from rota.client.app.tasks import ARGUMENTS_BYTES_MAX, Settings
from rota.client.transport.call import as_json
from rota.core.model.job import PARAMETERS_MAX
from support import app_tasks
from support.app_tasks import Currency, Invoice, Receipt, add, attempt_of, kinds, pay, report

TESTS = str(Path(app_tasks.__file__).parents[1])
INVOICE = Invoice(UUID(int=7), Decimal("19.90"), date(2027, 1, 31), Currency.EURO)
NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


def sink() -> None:
    """Do nothing."""


def defined(function: Any, **settings: Any) -> Task[..., Any, Any]:
    """Return a task of a new app; the function is as if it were at the top of its module."""
    function.__qualname__ = function.__name__
    return rota.App("tests").task(**settings)(function)


# -- definitions -----------------------------------------------------------------------------------


def test_a_task_can_be_called_like_its_function() -> None:
    assert (add(2, b=3), add.local(2), add.__doc__) == (5, 3, "Add two numbers.")


def test_a_task_of_a_coroutine_function_can_be_awaited() -> None:
    with pytest.raises(StopIteration) as returned:
        pay(INVOICE, NOON).send(None)

    assert returned.value.value.paid_at == datetime(2027, 1, 2, 12, tzinfo=UTC)


def test_a_function_in_a_function_is_refused_when_it_is_defined() -> None:
    def inner() -> None: ...

    with pytest.raises(InvalidTask, match=r"inner is defined in a function .* at the top of a mod"):
        rota.App("tests").task()(inner)


def test_a_function_of_the_program_is_refused_when_it_is_submitted() -> None:
    def main() -> None: ...

    main.__module__ = "__main__"
    task = defined(main)

    with pytest.raises(InvalidTask, match="main is in the program that was started"):
        task.delay()


def test_a_task_under_another_name_than_its_function_is_refused() -> None:
    task = rota.App("tests").task()(sink)

    with pytest.raises(InvalidTask, match="test_tasks:sink is not this task"):
        task.delay()


@pytest.mark.parametrize("kind", [complex, ModuleType, Iterator[int], Callable[[], int]])
def test_a_result_that_json_cannot_express_is_refused_at_the_definition(kind: Any) -> None:
    def load() -> None: ...

    load.__annotations__["return"] = kind

    with pytest.raises(InvalidTask, match=r"load returns .*, which has no form in JSON"):
        defined(load)


def test_a_generator_is_refused_at_the_definition() -> None:
    def rows() -> Any:
        yield 1

    with pytest.raises(InvalidTask, match="rows is a generator"):
        defined(rows)


def test_a_result_whose_class_is_defined_later_is_not_refused() -> None:
    def load() -> "Later": ...  # type: ignore[name-defined]  # noqa: F821 - that is the case

    assert isinstance(defined(load), Task)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"retries": 1, "backoff": "often"}, "'often' is neither like 'exp 1s..5m' nor"),
        ({"retries": 1, "backoff": "exp 1s..5x"}, "5x"),
        ({"backoff": "fixed 1s"}, "no retries"),
    ],
)
def test_an_invalid_backoff_is_refused(settings: dict[str, Any], reason: str) -> None:
    def load() -> None: ...

    with pytest.raises(InvalidTask, match=reason):
        defined(load, **settings)


def test_a_schedule_needs_a_function_without_arguments() -> None:
    def load(day: date, ctx: Any, *more: str) -> None: ...

    with pytest.raises(InvalidTask, match="no arguments; give day a default"):
        defined(load, schedule="@daily")


def test_two_tasks_of_the_same_name_are_refused() -> None:
    app = rota.App("tests")
    app.task()(sink)

    def sink_of_another_module() -> None: ...

    sink_of_another_module.__name__ = sink_of_another_module.__qualname__ = "sink"
    sink_of_another_module.__module__ = "others"

    with pytest.raises(InvalidTask, match=r"test_tasks:sink and others:sink have the same name"):
        app.task()(sink_of_another_module)


TWICE = """
import rota
app = rota.App("tests")

@app.task()
def load(): ...
"""


def test_two_functions_of_the_same_name_in_one_module_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "twice.py"

    def imported(text: str, known: dict[str, Any]) -> dict[str, Any]:
        file.write_text(text)
        exec(compile(text, str(file), "exec"), known)
        return known

    module = imported(TWICE, {"__name__": "twice"})
    again = TWICE.replace('app = rota.App("tests")', "# The app is that of another module.")
    imported(f"\n{again}", module)
    assert module["app"]._tasks["load"].line == f"{file}:6"

    with pytest.raises(InvalidTask, match=r"twice.py:5 and .*twice.py:8 have the same name load"):
        imported(f"{TWICE}\n@app.task()\nasync def load(): ...\n", {"__name__": "twice"})


def test_the_name_of_an_app_is_checked() -> None:
    with pytest.raises(InvalidTask, match="'a b' is invalid"):
        rota.App("a b")


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (Settings(), {}),
        (Settings(retries=3, timeout="10m"), {"retries": 3, "timeout": "10m"}),
        (
            Settings(retries=3, backoff="exp 1s..5m"),
            {
                "retries": {
                    "limit": 3,
                    "backoff": "exponential",
                    "delay": "1s",
                    "maxDelay": "5m",
                }
            },
        ),
        (
            Settings(retries=2, backoff="fixed 30s"),
            {"retries": {"limit": 2, "backoff": "fixed", "delay": "30s"}},
        ),
    ],
)
def test_settings_become_fields_of_a_job(settings: Settings, fields: dict[str, Any]) -> None:
    assert settings.fields() == fields


# -- arguments -------------------------------------------------------------------------------------


def test_arguments_are_sent_by_name_in_the_forms_of_json() -> None:
    body = pay.work((INVOICE,), {"paid_at": NOON})

    assert body["python"] == {
        "function": "support.app_tasks:pay",
        "kwargs": {
            "invoice": {
                "number": "00000000-0000-0000-0000-000000000007",
                "total": "19.90",
                "due": "2027-01-31",
                "currency": "EUR",
            },
            "paid_at": "2027-01-01T12:00:00Z",
        },
        "interpreter": sys.executable,
        "path": [TESTS],
    }
    assert as_json(body)


def test_further_arguments_are_sent_by_position() -> None:
    python = kinds.work((Decimal(1), Decimal(2)), {"day": date(2027, 1, 1)})["python"]

    assert (python["args"], python["kwargs"]) == (["1", "2"], {"day": "2027-01-01"})


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (add, {"a": object()}, r"the argument 'a' \(object\) cannot be sent: object has no form"),
        (add, {"a": "one"}, r"the argument 'a' \(str\) cannot be sent: Expected `int`, got `str`"),
        (add, {"a": 1, "c": 2}, r"unexpected keyword argument 'c'; it takes \(a: int, b: int = 1"),
        (add, {}, "missing a required argument: 'a'"),
        (app_tasks.wait, {"seconds": float("nan")}, "the argument 'seconds' .* not JSON compl"),
        (attempt_of, {"ctx": 1}, "unexpected keyword argument 'ctx'"),
        (attempt_of, {"folder": Path("/tmp")}, "the argument 'folder' .* cannot be sent"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_named(
    function: Any, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        function.delay(**arguments)


@dataclass
class Outcome:
    """An object that a worker would take for the result of a needed task."""

    result: str


def test_arguments_that_are_too_large_name_the_task() -> None:
    with pytest.raises(InvalidArgument, match=r"app_tasks:kinds: the arguments have 129,\d+ bytes"):
        kinds.work(("1" * 64_500, Decimal("1" * 64_500)))
    assert ARGUMENTS_BYTES_MAX == PARAMETERS_MAX
    assert add.work((1,))["python"]["kwargs"] == {"a": 1}


def test_an_argument_that_looks_like_the_result_of_a_task_is_refused() -> None:
    def load(outcome: Outcome) -> None: ...

    task: Any = defined(load)
    task._check_place = lambda: None

    with pytest.raises(InvalidArgument, match="'outcome' is an object with the single member"):
        task.work((Outcome("extract"),))


def test_the_function_for_workers_converts_arguments_and_result() -> None:
    by_worker = add.__rota_function__
    [awaited] = [pay.__rota_function__(**pay.work((INVOICE, NOON))["python"]["kwargs"])]

    with pytest.raises(StopIteration) as returned:
        awaited.send(None)

    assert by_worker(a=1, b=2) == 3
    assert returned.value.value["paid_at"] == "2027-01-02T12:00:00Z"
    with pytest.raises(InvalidArgument, match=r"the argument 'a': Expected `int`, got `str`"):
        by_worker(a="1")


if TYPE_CHECKING:  # Cases for mypy and pyright; each error that is ignored has to be there.
    assert_type(add(1), int)
    assert_type(add.delay(1, b=2).result(), int)
    assert_type(pay.delay(INVOICE, NOON).result(), Receipt)
    assert_type(add.after("1s").map([1]).results(), list[int])
    add.delay("1")  # type: ignore[arg-type]
    add.map(["1"])  # type: ignore[list-item]
    app_tasks.report.options(retries="3")  # type: ignore[arg-type]


# -- jobs ------------------------------------------------------------------------------------------


def test_a_scheduled_task_is_a_job_of_its_app() -> None:
    assert app_tasks.app.jobs()[:1] == [
        {
            "name": "billing.report",
            "labels": {"app": "billing"},
            "schedule": "*/15 * * * *",
            "timezone": "Europe/Berlin",
            "timeout": "10m",
            "python": {
                "function": "support.app_tasks:report",
                "interpreter": sys.executable,
                "path": [TESTS],
            },
        }
    ]


def test_options_replace_settings_of_the_copy_alone() -> None:
    slower = report.options(retries=2, timeout="1h", namespace="night")

    assert slower.job()["namespace"] == "night"
    assert (slower.work()["retries"], slower.work()["timeout"]) == (2, "1h")
    assert report.work()["timeout"] == "10m"


def test_a_call_at_a_time_is_a_named_job_with_that_schedule() -> None:
    task: Any = add.at(NOON)

    body = task._once(task.work((1,)))

    assert body["schedule"] == "@at 2027-01-01T12:00:00.000000Z"
    assert body["misfire"] == "latest"
    assert body["name"].startswith("billing.add-")


def test_times_without_a_zone_and_malformed_delays_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="has no time zone"):
        add.at(datetime(2027, 1, 1))  # noqa: DTZ001 - that is the case
    with pytest.raises(InvalidArgument, match="soon"):
        add.after("soon")


def test_path_and_interpreter_of_an_app_are_those_of_its_nodes() -> None:
    app = rota.App("tests", path=["/srv/code"], interpreter="")
    task: Any = app.task()(sink)
    task._check_place = lambda: None

    assert task.work()["python"] == {
        "function": f"{__name__}:sink",
        "path": ["/srv/code"],
    }
