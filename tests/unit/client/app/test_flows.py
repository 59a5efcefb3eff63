"""Flows of an app, without a node: their graphs, jobs, errors, and their run in this process."""

# pyright: reportUnusedExpression=false
# The operator >> orders calls.

import asyncio
import re
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import msgspec
import pytest
import yaml

import rota
from rota.client.app import Call, Flow, InvalidArgument, InvalidFlow, InvalidTask, Results
from rota.client.app.placeholders import templated
from rota.client.transport.call import as_json
from rota.core.model.expressions import problem_of_expression, rendered_json
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody
from support import app_tasks
from support.app_tasks import (
    Invoice,
    add,
    add_twice,
    app,
    clean,
    count_calls,
    halve,
    invoices,
    kinds,
    nightly,
    pass_on,
    skip_odd,
    summary,
    tax,
    taxes,
)

UNTYPED: Any = app_tasks
"""The tasks, for calls that type checkers refuse."""
TEXT: Any = "x"
"""A text, where type checkers refuse one."""
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


# -- conditions, rounds, waits and other jobs ------------------------------------------------------


RELEASE = """
name: tests.flow
labels: {app: tests}
parametersSchema:
  properties: {version: {default: "1.4"}, order: {default: 7}, least: {default: 2}}
  additionalProperties: false
tasks:
  - {name: add, python: {function: "support.app_tasks:add", kwargs: {a: 1}}}
  - name: poll
    python: {function: "support.app_tasks:pass_on"}
    repeat: {until: "last[0] >= results.add", limit: 20, delay: 10s}
    needs: [add]
  - name: check
    approval:
      message: "Ship {{ params.version }} after {{ results['poll'] | length }}, don't wait?"
      form: {type: object}
      timeout: 2d
      onReject: skip
      by: ["group:sso/release"]
    when: results.add > params.least
    needs: [add, poll]
  - {name: settle, sleep: 10m, needs: [check]}
  - name: paid
    waitForEvent: {event: "paid-{{ params.order }}", timeout: 60, onTimeout: skip}
    triggerRule: all_done
    needs: [settle]
  - name: load
    runJob:
      job: load
      parameters:
        table: '{{ results["check"] }}'
        rows: ['{{ results["add"] }}']
        text: '{{ "{" }}{ as it is'
    needs: [check, add]
  - {name: load-2, runJob: {job: load}, allowFailure: true}
  - name: clean
    python: {function: "support.app_tasks:clean"}
    allowFailure: true
    when: states["load-2"] == "failed" and "results.no" != results.load.results.main
    needs: [load-2, load]
"""


def released() -> Flow:
    """Return the flow that is `RELEASE` as a file."""
    with flow(parameters={"version": "1.4", "order": 7, "least": 2}) as made:
        count = made.add(add, 1)
        until = "last[0] >= results.add"
        made.add(pass_on.repeat(until=until, limit=20, delay="10s").options(name="poll"))
        check = made.approval(
            "check",
            message="Ship {{ params.version }} after {{ results['poll'] | length }}, don't wait?",
            form={"type": "object"},
            timeout="2d",
            on_reject="skip",
            by=["group:sso/release"],
            when="results.add > params.least",
        )
        settled = made.sleep("10m", name="settle")
        paid = made.wait_for_event(
            "paid-{{ params.order }}",
            timeout=60,
            on_timeout="skip",
            name="paid",
            trigger_rule="all_done",
        )
        check >> settled >> paid
        made.run_job("load", parameters={"table": check, "rows": [count], "text": "{{ as it is"})
        made.run_job("load", allow_failure=True)
        condition = 'states["load-2"] == "failed" and "results.no" != results.load.results.main'
        made.add(clean.options(allow_failure=True, when=condition))
    return made


def test_waits_rounds_and_conditions_are_those_of_a_file() -> None:
    file: Any = yaml.safe_load(RELEASE)
    for each in file["tasks"]:
        if "python" in each:
            each["python"] |= {"interpreter": sys.executable, "path": [TESTS]}

    job = released().job()

    assert job == file
    assert job_spec(msgspec.convert(job, JobBody)) == job_spec(msgspec.convert(file, JobBody))


SHORT_FORMS: list[tuple[Callable[[Flow], Call[Any]], dict[str, Any]]] = [
    (lambda made: made.approval("a", message="Ship?"), {"name": "a", "approval": "Ship?"}),
    (lambda made: made.wait_for_event("paid"), {"name": "paid", "waitForEvent": "paid"}),
    (lambda made: made.sleep(1.5), {"name": "sleep", "sleep": 1.5}),
    (lambda made: made.run_job("load"), {"name": "load", "runJob": "load"}),
]


@pytest.mark.parametrize(("define", "task"), SHORT_FORMS)
def test_a_wait_without_options_is_the_short_form_of_a_file(
    define: Callable[[Flow], Call[Any]], task: dict[str, Any]
) -> None:
    with flow() as made:
        define(made)
    file = {"name": "tests.flow", "labels": {"app": "tests"}, "tasks": [task]}

    assert job_spec(msgspec.convert(made.job(), JobBody)) == job_spec(
        msgspec.convert(file, JobBody)
    )


def test_held_arguments_are_those_of_each_item() -> None:
    with flow() as made:
        first = made.add(add, 1)
        add.partial(a=first).map([2, 3])
        made.map(add.partial(b=5), made.params.numbers)
        add.partial(a=1)(2)

    [_, second, third, last] = made.job()["tasks"]

    assert second["needs"] == ["add"]
    assert second["foreach"] == {"items": [2, 3]}
    assert second["python"]["kwargs"] == {"a": {"result": "add"}, "b": "{{ item }}"}
    assert third["python"]["kwargs"] == {"a": "{{ item }}", "b": 5}
    assert last["python"]["kwargs"] == {"a": 1, "b": 2}
    assert made.local(numbers=[1, 2]) == {
        "add": 2,
        "add-2": [4, 5],
        "add-3": [6, 7],
        "add-4": 3,
    }


def test_held_arguments_are_merged_as_the_function_takes_them() -> None:
    assert add.partial(b=2)(1) == 3
    assert add.partial(b=2)(1, b=3) == 4
    assert add.partial(b=2).partial(a=3).local() == 5
    assert kinds.partial(day=date(2027, 1, 1))(Decimal(1)) == ["Decimal", "date"]
    assert add.partial(a=1).work([2])["python"]["kwargs"] == {"a": 1, "b": 2}
    with pytest.raises(InvalidArgument, match="unexpected keyword argument 'c'"):
        add.partial(c=1)
    with pytest.raises(InvalidArgument, match="too many positional arguments"):
        add.partial(a=1)(2, 3)


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
    (lambda made, other: made.run_job("load", parameters={"a": [other]}), "cannot be used in the"),
    (lambda made, other: add.options(when="results.clan > 1")(1), "did you mean 'clean'"),
    (lambda made, other: made.sleep(1, when='states["a"] == 1'), "names no call that is .* clean"),
    (
        lambda made, other: made.wait_for_event("{{ params.a }}"),
        "cannot name a task; give the call a name: name=",
    ),
    (lambda made, other: made.approval("clean"), "has a call named 'clean' already"),
    (lambda made, other: add.repeat(until="last", limit=2).map([1]), "which repeat.. cannot"),
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
    (lambda made, other: made.approval("a", on_reject=TEXT), 'give "fail" or "skip"'),
    (lambda made, other: made.wait_for_event("a", on_timeout=TEXT), "Invalid enum value 'x'"),
    (lambda made, other: add.repeat(until="last", limit=TEXT), "Expected `int`, got `str`"),
    (lambda made, other: made.run_job("a", parameters={"b": object()}), "the argument 'parameter"),
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


def test_a_local_flow_takes_the_results_of_waits_and_follows_conditions() -> None:
    made = released()

    results = made.local(
        {"poll": [3], "check": {"percent": 20}, "paid": 1, "load": {"results": {"main": 1}}}
        | {"load-2": None},
        least=1,
    )

    assert results["check"] == {"percent": 20}
    assert results["settle"] is None
    assert "clean" not in results
    assert "check" not in made.local({"poll": [], "paid": 1, "load-2": 0})


def test_a_wait_without_a_result_ends_a_local_flow() -> None:
    with flow() as made:
        made.approval("check", allow_failure=True)

    with pytest.raises(InvalidFlow, match=r"give its result: flow.local\({'check': ...}\)"):
        made.local()
    with pytest.raises(InvalidFlow, match="no call 'chek'; did you mean 'check'"):
        made.local({"chek": 1})
    assert made.local({"check": date(2027, 1, 1)}) == {"check": "2027-01-01"}


def test_the_rounds_of_a_local_flow_end_at_their_condition_or_limit() -> None:
    def define(limit: int) -> Flow:
        with flow() as made:
            made.add(count_calls.repeat(until="last == index and index == 3", limit=limit))
        return made

    app_tasks.CALLS.clear()
    assert define(3).local() == {"count_calls": 3}
    app_tasks.CALLS.clear()
    with pytest.raises(RuntimeError, match="count_calls did not end in 2 rounds"):
        define(2).local()


def test_an_allowed_failure_of_a_local_flow_counts_as_a_success() -> None:
    with flow() as made:
        failed = made.add(halve.options(allow_failure=True), 1)
        made.add(pass_on.options(when='states.halve == "failed"'), failed.result)
        made.add(clean.options(when=""))  # As in a file: no condition.

    assert made.local() == {"pass_on": [None], "clean": None}


@pytest.mark.parametrize("when", ["results.pass_on.a.b", "1 +", "execution.id"])
def test_a_condition_without_a_value_ends_a_local_flow(when: str) -> None:
    with flow() as made:
        made.add(pass_on)
        made.add(clean.options(when=when))

    with pytest.raises(InvalidFlow, match=when[:4]):
        made.local()


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
        answer = typed.approval("check", by=["group:a"], when="results.add > 1")
        assert_type(answer, Call[Any])
        assert_type(typed.wait_for_event("paid", on_timeout="skip"), Call[Any])
        assert_type(typed.sleep("1s", trigger_rule="all_done"), Call[None])
        ran = typed.run_job("load", parameters={"a": counted}, allow_failure=True)
        assert_type(ran, Call[dict[str, Any]])
        assert_type(ran.result["status"], Any)
        counted >> [answer, ran] >> counted
        assert_type(typed.map(add.partial(a=1), [2]), Call[list[int]])
        assert_type(typed.add(add.repeat(until="last", limit=2), 1), Call[int])
        typed.approval("check", on_reject="stop")  # type: ignore[arg-type]
        typed.sleep("1s", whn="results.add")  # type: ignore[call-arg]
        typed.run_job("load", allow_failure="yes")  # type: ignore[arg-type]
        add.repeat(until="last")  # type: ignore[call-arg]
        add.repeat(until="last", limit=2)("1")  # type: ignore[arg-type]
    assert_type(typed.delay(b=1).result(), Results)
    assert_type(typed.local()[counted], int)
    assert_type(typed.local({"check": 1}, b=1), Results)
    assert_type(add.partial(a=1).delay(2).result(), int)


def test_a_run_here_tolerates_failures_of_items_as_nodes_do() -> None:
    with flow() as made:
        halved = halve.options(tolerated_failures=1).map([2, 1, 6])
        made.add(pass_on, halved)
    with flow() as strict:
        strict.map(halve, [2, 1])

    assert made.local()["pass_on"] == [[1, None, 3]]
    with pytest.raises(ValueError, match="1 is odd"):
        strict.local()


MISTYPED: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: halve.options(when=UNTYPED), "when is <module"),
    (lambda _: halve.map(UNTYPED), "takes a list of items"),
    (lambda made: made.approval("a", form="x"), "give a JSON Schema, as a dict"),
    (lambda made: made.approval("a", by="ann"), "give a list of subjects"),
    (lambda made: made.approval("a", on_reject="skp"), 'give "fail" or "skip"'),
    (lambda made: made.run_job("a", parameters=[1]), "'parameters' is [1]; give a dict"),
]


@pytest.mark.parametrize(("define", "reason"), MISTYPED)
def test_an_argument_of_another_type_is_refused_where_it_is_given(
    define: Callable[[Any], object], reason: str
) -> None:
    with (
        pytest.raises((InvalidArgument, InvalidFlow), match=re.escape(reason)),
        flow() as made,
    ):
        define(made)
