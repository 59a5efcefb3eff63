"""Flows of an app, without a node: their graphs, jobs, errors, and their run in this process."""

# pyright: reportUnusedExpression=false
# The operator >> orders calls.

import asyncio
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pytest

import rota
from rota.client.app import Call, Flow, InvalidArgument, InvalidFlow, InvalidTask, Results
from rota.client.app.placeholders import templated
from rota.client.transport.call import as_json
from rota.core.model.expressions import problem_of_expression, rendered_json
from support import app_tasks
from support.app_tasks import (
    Invoice,
    add,
    add_twice,
    app,
    clean,
    halve,
    invoices,
    nightly,
    pass_on,
    skip_odd,
    summary,
    tax,
    taxes,
)

UNTYPED: Any = app_tasks
"""The tasks, for calls that type checkers refuse."""
Define = Callable[[Flow, Any], object]
TESTS = str(Path(app_tasks.__file__).parents[1])


def flow(**settings: Any) -> Flow:
    """Return a flow of an app of its own, so that those of other tests do not have its name."""
    return rota.App("tests").flow("flow", **settings)


def needs_of(given: Flow) -> dict[str, list[str]]:
    """Return what each task of a flow needs."""
    return {each["name"]: each.get("needs", []) for each in given.job()["tasks"]}


# -- graph and job ---------------------------------------------------------------------------------


def test_a_flow_is_one_job_whose_tasks_pass_results() -> None:
    def python(name: str, **more: Any) -> dict[str, Any]:
        place = {"interpreter": sys.executable, "path": [TESTS]}
        return {"function": f"support.app_tasks:{name}", **more, **place}

    job = nightly.job()

    assert job in app.jobs()
    assert as_json(job)
    assert job == {
        "name": "billing.nightly",
        "labels": {"app": "billing"},
        "schedule": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "parametersSchema": {
            "properties": {"day": {"type": "string", "format": "date", "default": "2027-01-01"}},
            "additionalProperties": False,
        },
        "tasks": [
            {"name": "invoices", "python": python("invoices", kwargs={"day": "{{ params.day }}"})},
            {
                "name": "tax",
                "needs": ["invoices"],
                "foreach": {"items": 'results["invoices"]'},
                "python": python("tax", kwargs={"invoice": "{{ item }}"}),
            },
            {
                "name": "summary",
                "needs": ["invoices", "tax"],
                "python": python(
                    "summary",
                    kwargs={
                        "invoices": {"result": "invoices"},
                        "taxes": {"result": "tax"},
                        "note": ' {{ "{" }}{ of all }}',
                    },
                ),
            },
            {"name": "clean", "needs": ["summary"], "python": python("clean")},
        ],
    }


def test_a_call_in_the_definition_adds_a_task_and_not_elsewhere() -> None:
    with flow() as made:
        first: Any = add(1)
        add(first, b=add.local(2))

    assert isinstance(first, Call)
    assert needs_of(made) == {"add": [], "add-2": ["add"]}
    assert made.job()["tasks"][1]["python"]["kwargs"] == {"a": {"result": "add"}, "b": 3}
    assert add(1) == 2


def test_functions_that_run_in_a_definition_add_no_calls() -> None:
    with flow() as made:
        added: Any = made.add(add_twice, add_twice.local(1))
        assert nightly.local()["clean"] is None

    assert needs_of(made) == {added.name: []}
    assert made.local() == {"add_twice": 5}


def test_calls_are_ordered_alone_and_in_lists() -> None:
    with flow() as made:
        a, b, c, d = (made.add(clean.options(name=each)) for each in "abcd")
        a >> [b, c] >> d
        made.chain(a, d)
        a >> d

    assert needs_of(made) == {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c", "a"]}


def test_calls_may_be_in_lists_and_dicts_of_arguments() -> None:
    with flow() as made:
        one, two = made.add(add, 1), made.add(add, 2)
        made.add(pass_on, [one, {"two": two}, made.params.three])

    assert made.job()["tasks"][2]["python"]["args"] == [
        ['{{ results["add"] }}', {"two": '{{ results["add-2"] }}'}, "{{ params.three }}"]
    ]
    assert made.local(three=3)["pass_on"] == [[2, {"two": 3}, 3]]


ITEMS: list[tuple[Callable[[Flow], Any], object]] = [
    (lambda made: range(3), [0, 1, 2]),
    (lambda made: made.add(pass_on, 1), 'results["pass_on"]'),
    (lambda made: made.params.numbers, "params.numbers"),
    (lambda made: [made.add(add, 1), made.params.two], '[results["add"], params.two]'),
]


@pytest.mark.parametrize(("items", "loop"), ITEMS)
def test_items_of_a_map_are_known_or_an_expression(
    items: Callable[[Flow], Any], loop: object
) -> None:
    with flow() as made:
        halve.options(max_parallel=2, tolerated_failures=1).map(items(made))

    assert isinstance(loop, list) or problem_of_expression(str(loop)) == ""
    assert made.job()["tasks"][-1]["foreach"] == {
        "items": loop,
        "maxParallel": 2,
        "toleratedFailures": 1,
    }


def test_options_of_tasks_and_of_the_job_become_their_fields() -> None:
    with flow(overlap="skip", execution_timeout="2h", labels={"team": "a"}) as made:
        clean.options(retries=2, name="tidy-up", trigger_rule="all_done")()

    job = made.job()

    assert (job["overlap"], job["executionTimeout"]) == ("skip", "2h")
    assert job["labels"] == {"app": "tests", "team": "a"}
    [task] = job["tasks"]
    assert (task["name"], task["retries"], task["triggerRule"]) == ("tidy-up", 2, "all_done")


@pytest.mark.parametrize(
    "text", ["{{ 1 }}", "{% if %}", "{# no #}", "{", "{{{", "{{ '}}' }}", "{% endraw %}\n", "plain"]
)
def test_text_of_an_argument_is_no_template(text: str) -> None:
    sent = as_json(templated({"text": text, "value": "{{ 1 }}"}))

    assert rendered_json(sent.decode(), {}).count("{{ 1 }}") == 1 + (text == "{{ 1 }}")
    assert as_json(text).decode() in rendered_json(sent.decode(), {})


# -- errors ----------------------------------------------------------------------------------------


USES: list[Callable[[Any], Any]] = [
    bool,
    iter,
    len,
    str,
    int,
    float,
    lambda call: f"{call}",
    lambda call: call + 1,
    lambda call: 1 + call,
    lambda call: call > 1,
    lambda call: call == 1,
    lambda call: call != 1,
    lambda call: call["day"],
    lambda call: 1 in call,
    lambda call: -call,
]


@pytest.mark.parametrize("use", USES)
def test_the_use_of_a_call_as_a_value_is_refused(use: Callable[[Any], Any]) -> None:
    with flow() as made:
        call: Any = add(1)
        with pytest.raises(InvalidFlow, match=r"<call add of the flow tests.flow> has no value w"):
            use(call)
        with pytest.raises(InvalidFlow, match="do this in the function of a task"):
            use(made.params.day)


def test_a_member_of_a_call_is_refused_as_a_missing_attribute() -> None:
    with flow():
        call: Any = add(1)

        with pytest.raises(AttributeError, match=r"has no attribute 'total': its value exists onl"):
            _ = call.total

    assert not hasattr(call, "total")
    assert {call: 1}[call] == 1


@pytest.mark.parametrize("call", [add, add.local, add.delay, add.work])
def test_a_call_outside_of_its_flow_is_refused(call: Any) -> None:
    with flow() as made:
        one = made.add(add, 1)

    given: Any = (one,) if call != add.work else ((one,),)
    with pytest.raises(InvalidFlow, match=r"<call add .* is an argument of add outside of the def"):
        call(*given)


def refused(define: Define, reason: str, *, kind: Any = InvalidFlow) -> None:
    """Check that *define*, with a flow and a call of another one, is refused at its line."""
    with flow() as other:
        foreign = other.add(add, 1)
    with flow() as made:
        made.add(clean)
        with pytest.raises(kind, match=reason):
            define(made, foreign)


WRONG_DEFINITIONS: list[tuple[Define, str]] = [
    (lambda made, other: add(other), "cannot be used in the flow tests.flow; a flow has calls"),
    (lambda made, other: pass_on([other]), "cannot be used in the flow"),
    (lambda made, other: halve.map(other), "cannot be used in the flow"),
    (lambda made, other: made.add(clean) >> other, "cannot be used in the flow"),
    (lambda made, other: [other] >> made.add(clean), "cannot be used in the flow"),
    (
        lambda made, other: made.add(clean) >> UNTYPED.clean,
        "is not a call in a flow; >> orders calls",
    ),
    (lambda made, other: add.delay(1), r"add.delay\(\) submits .* write add\(...\) to add"),
    (lambda made, other: add.after("1s")(1), r"add has a time of its own.*leave out at\(\)"),
    (lambda made, other: clean.options(name="clean")(), "has a call named 'clean' already"),
    (lambda made, other: clean.options(name="a b"), "the name 'a b' of a task is invalid"),
    (lambda made, other: clean.options(trigger_rule="all_dome"), "did you mean 'all_done'"),
    (lambda made, other: add.options(max_parallel=2)(1), "are for items; use them with add.op"),
    (lambda made, other: UNTYPED.halve.map([1, made.add(add, 1)]), "both values and calls"),
    (lambda made, other: made.__enter__(), "is in the 'with' of the flow tests.flow"),
]


@pytest.mark.parametrize(("define", "reason"), WRONG_DEFINITIONS)
def test_a_definition_that_cannot_run_is_refused_at_its_line(define: Define, reason: str) -> None:
    refused(define, reason)


WRONG_ARGUMENTS: list[tuple[Define, str]] = [
    (lambda made, other: UNTYPED.add(), "app_tasks:add: missing a required argument: 'a'"),
    (lambda made, other: UNTYPED.add(1, 2, 3), "too many positional arguments; it takes"),
    (lambda made, other: UNTYPED.add("1"), "the argument 'a' .* Expected `int`, got `str`"),
    (lambda made, other: UNTYPED.halve.map(["1"]), "the argument 'number' .* Expected `int`"),
    (lambda made, other: UNTYPED.clean.map([1]), "too many positional arguments"),
    (lambda made, other: pass_on({1: made.params.a}), "the key 1, which is no text"),
]


@pytest.mark.parametrize(("define", "reason"), WRONG_ARGUMENTS)
def test_arguments_are_checked_at_their_line(define: Define, reason: str) -> None:
    refused(define, reason, kind=InvalidArgument)


def test_a_circle_is_refused_with_its_calls() -> None:
    with flow() as made:
        a, b, c = (made.add(clean.options(name=each)) for each in "abc")
        a >> b >> c

        with pytest.raises(InvalidFlow, match=r"c >> a makes a circle .*: a >> b >> c >> a; leave"):
            c >> a
        with pytest.raises(InvalidFlow, match=r"a >> a makes a circle"):
            a >> a

    assert needs_of(made) == {"a": [], "b": ["a"], "c": ["b"]}


def test_a_complete_flow_takes_no_more_calls() -> None:
    with flow() as made:
        a, b = made.add(clean), made.add(clean)

    with pytest.raises(InvalidFlow, match=r"the flow tests.flow is complete; add calls"):
        a >> b
    with pytest.raises(InvalidFlow, match="is complete"):
        made.add(clean)
    with pytest.raises(InvalidFlow, match="is complete"):
        _ = made.params.day
    with pytest.raises(InvalidFlow, match="is defined already; make a new one"):
        made.__enter__()


def test_a_definition_that_failed_is_no_job_and_ends() -> None:
    tests = rota.App("tests")

    with pytest.raises(InvalidArgument), tests.flow("flow"):
        UNTYPED.clean(1)

    assert tests.jobs() == []
    assert add(1) == 2


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "has no calls; call tasks of the app"),
        ({"schedul": "@daily"}, "cannot have the option 'schedul'; did you mean 'schedule'?"),
        ({"command": "true"}, "cannot have the option 'command'"),
    ],
)
def test_a_flow_without_calls_or_with_unknown_options_is_refused(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidFlow, match=reason), flow(**settings):
        pass


def test_the_name_of_a_flow_is_checked() -> None:
    with pytest.raises(InvalidFlow, match="the name 'a b' of a flow is invalid"):
        rota.App("tests").flow("a b")


def test_two_flows_and_a_flow_and_a_task_with_one_name_are_refused() -> None:
    tests = rota.App("tests")
    for _ in range(2):  # As by a module that is imported twice.
        with tests.flow("flow"):
            clean()

    same = pytest.raises(InvalidFlow, match=r"the flows at .* have the same name tests.flow; rena")
    with same, tests.flow("flow"):
        clean()
    task = pytest.raises(InvalidFlow, match=r"the job billing.report .* is that of the task of thi")
    with task, app.flow("report"):
        clean()


# -- parameters ------------------------------------------------------------------------------------


def test_a_schedule_needs_defaults_of_parameters() -> None:
    refusal = pytest.raises(InvalidFlow, match="gives no parameters; give 'a' a default: paramete")
    with refusal, flow(schedule="@daily") as made:
        add(made.params.a)


def test_a_default_has_the_type_of_its_parameter() -> None:
    refusal = pytest.raises(InvalidArgument, match=r"the argument 'a' .* Expected `int`, got `str`")
    with refusal, flow(parameters={"a": "one"}) as made:
        add(made.params.a)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "needs the parameter 'day'; give it here, or a default"),
        ({"day": 1}, r"the argument 'day' \(int\) cannot be sent"),
        ({"day": date(2027, 1, 1), "cuont": 2}, "has no parameter 'cuont'; did you mean 'count'?"),
    ],
)
def test_parameters_are_checked_before_the_flow_starts(params: dict[str, Any], reason: str) -> None:
    with flow(parameters={"count": 2}) as made:
        invoices(made.params.day, made.params.count)

    for start in (made.local, made.delay):
        with pytest.raises(InvalidArgument, match=reason):
            start(**params)


def test_the_schema_has_plain_types_alone() -> None:
    with flow(parameters={"unused": [1]}) as made:
        made.add(tax, made.params.invoice)
        add(made.params.number)

    assert made.job()["parametersSchema"] == {
        "properties": {
            "unused": {"default": [1]},
            "invoice": {},
            "number": {"type": "integer"},
        },
        "additionalProperties": False,
        "required": ["invoice", "number"],
    }


# -- in this process -------------------------------------------------------------------------------


def test_a_local_flow_returns_results_of_their_types() -> None:
    results = nightly.local(day=date(2027, 2, 1))

    assert [type(each) for each in results["invoices"]] == [Invoice, Invoice]
    assert results[taxes] == [Decimal(0), Decimal("0.19")]
    assert results["summary"] == "2 of 2027-02-01, tax 0.19 {{ of all }}"
    assert [*results] == ["invoices", "tax", "summary", "clean"]
    assert nightly.local()["summary"].startswith("2 of 2027-01-01")


def test_a_local_flow_keeps_the_order_and_ends_at_an_exception() -> None:
    with flow() as made:
        second = made.add(halve, 1)
        made.add(add, 1) >> second

    with pytest.raises(ValueError, match="1 is odd"):
        made.local()


def test_a_skip_of_a_local_flow_follows_the_rules() -> None:
    with flow() as made:
        skipped = made.add(skip_odd, 1)
        made.add(add, skipped.result)
        made.add(pass_on.options(name="last", trigger_rule="all_done"), skipped.result)
        skip_odd.options(name="some").map([1, 2])
        skip_odd.options(name="none").map([1, 3])

    assert dict(made.local()) == {"last": [None], "some": [None, 2]}


async def test_a_local_flow_says_how_to_run_it_beside_an_event_loop() -> None:
    with pytest.raises(InvalidFlow, match=r"write await asyncio.to_thread\(flow.local, ...\)"):
        nightly.local()

    assert (await asyncio.to_thread(nightly.local))["clean"] is None


def test_a_call_inside_an_argument_outside_of_a_flow_is_refused() -> None:
    with pytest.raises(InvalidFlow, match="is inside an argument, where it cannot be replaced"):
        pass_on.delay([taxes])


def test_options_for_flows_are_refused_elsewhere() -> None:
    with pytest.raises(InvalidTask, match=r"clean has options for a flow; call it in the 'with'"):
        clean.options(name="other").delay()


def test_a_call_in_an_object_is_refused() -> None:
    from support.app_tasks import Receipt

    def define(made: Flow, _: Any) -> object:
        invoice: Any = made.params.invoice
        return pass_on([Receipt(invoice, made.params.paid_at)], made.params.other)

    refused(define, "is inside an argument, where it cannot be replaced")


if TYPE_CHECKING:  # Cases for mypy and pyright; each error that is ignored has to be there.
    with app.flow("typed") as typed:
        counted = typed.add(add, 1)
        assert_type(counted, Call[int])
        assert_type(counted.result, int)
        assert_type(typed.map(tax, [app_tasks.found.result[0]]), Call[list[Decimal]])
        typed.add(add, counted.result, b=typed.params.b)
        typed.add(add, "1")  # type: ignore[arg-type]
        typed.add(summary, counted.result, [])  # type: ignore[arg-type]
        add(add(1))
        counted >> [counted, counted] >> counted
        counted + 1  # type: ignore[operator]
    assert_type(typed.delay(b=1).result(), Results)
    assert_type(typed.local()[counted], int)
