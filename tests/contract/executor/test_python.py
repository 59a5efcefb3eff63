"""Calls of the Python executor: arguments, results, failures, progress, stops and output."""

import asyncio
import json
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    LOOPS,
    TOKEN,
    Host,
    kill_leftovers,
    run_scenario,
)
from contract.executor.python_host import CALLED, ONE, Bench, Json, call, make_python_executor
from rota.core.model.attempt import (
    CHECKPOINT_BYTES_MAX,
    OUTPUT_TAIL_BYTES,
    RESULT_BYTES_MAX,
    AttemptKey,
    Ending,
    Order,
    Outcome,
)
from rota.core.model.work import Call, Sandbox, Work
from rota.core.timing.instants import DAY, SECOND, Duration, Instant
from rota.executor.attempt_settings import AttemptSettings
from rota.executor.python.executor import PythonExecutor
from rota.executor.python.worker import CHECK_S


@pytest.fixture(params=LOOPS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(request.param, tmp_path / "executor")
    kill_leftovers(tmp_path / "executor")


# -- arguments and what a function sees ------------------------------------------------------------


def test_arguments_arrive_by_place_and_by_name(bench: Bench) -> None:
    [result] = bench.results_of(call("functions:echo", 1, "zwei", [3], four={"5": None}))

    assert result == [[1, "zwei", [3]], {"four": {"5": None}}]


@pytest.mark.parametrize(
    ("parameters", "given"), [('{"day": 1}', '{"day": 1}'), ("[1, 2]", "{}"), ("", "{}")]
)
def test_without_arguments_an_object_of_parameters_is_them(
    bench: Bench, parameters: str, given: str
) -> None:
    work = Work(
        executor="python",
        call=Call(function="functions:echo", path=(CALLED,)),
        env=(("ROTA_PARAMETERS", parameters),) if parameters else (),
        parameters=parameters,
    )

    assert bench.results_of(work) == [[[], json.loads(given)]]


def load_order(work: Work, results: str = '{"extract":[1,2],"silent":null}') -> Order:
    """Return the order of a task that needs ``extract`` and ``silent``."""
    return Order(
        key=AttemptKey(EXECUTION_ID, "load", 1),
        token=TOKEN,
        work=work,
        fire_at=FIRE_AT,
        results=results.encode(),
    )


def ending_of_order(bench: Bench, order: Order) -> Ending:
    async def scenario(host: Host) -> Ending:
        host.executor.launch(order)
        return await host.ending(order.key)

    return bench.run(scenario)


def without_arguments(function: str, parameters: str = "") -> Work:
    return Work(
        executor="python",
        call=Call(function=function, path=(CALLED,)),
        env=(("ROTA_PARAMETERS", parameters),) if parameters else (),
        parameters=parameters,
    )


REACHED: list[tuple[Work, Json]] = [
    (call("functions:needed"), {"extract": [1, 2], "silent": None}),
    (
        call("functions:echo", {"result": "extract"}, other={"result": "silent"}),
        [[[1, 2]], {"other": None}],
    ),
    (
        call("functions:echo", {"result": "extract", "more": 1}, [{"result": "extract"}]),
        [[{"result": "extract", "more": 1}, [{"result": "extract"}]], {}],
    ),
    (without_arguments("functions:totals"), {"day": None, "rows": [1, 2], "factor": 1}),
    (call("functions:totals", 5, factor=2), {"day": 5, "rows": [1, 2], "factor": 2}),
    (call("functions:totals", rows=[]), {"day": None, "rows": [], "factor": 1}),
    (
        without_arguments("functions:totals", '{"factor": 3, "unknown": 4}'),
        {"day": None, "rows": [1, 2], "factor": 3},
    ),
]


@pytest.mark.parametrize(("work", "expected"), REACHED)
def test_results_of_needed_tasks_reach_the_function(
    bench: Bench, work: Work, expected: Json
) -> None:
    ending = ending_of_order(bench, load_order(work))

    assert json.loads(ending.result) == expected


def versions_of(tmp_path: Path, **options: Any) -> tuple[list[int], bool]:
    """Return the results of calls before and after a change of an imported module.

    The second value is True if all calls ran in one process. The calls after the change end with
    the first one that has a new result, or after ten seconds.
    """
    (tmp_path / "front.py").write_text(
        "import os, back\n\ndef version():\n    return back.VERSION, os.getpid()\n"
    )
    (tmp_path / "back.py").write_text("VERSION = 1\n")
    work = Work(executor="python", call=Call(function="front:version", path=(str(tmp_path),)))

    async def scenario(host: Host) -> tuple[list[int], bool]:
        found = [json.loads((await host.run(work)).result) for _ in range(2)]
        (tmp_path / "back.py").write_text("VERSION = 22\n")
        for _ in range(200):
            if found[-1][0] != 1:
                break
            found.append(json.loads((await host.run(work)).result))
            await asyncio.sleep(0.05)
        return sorted({version for version, _ in found}), len({pid for _, pid in found}) == 1

    make = make_python_executor(tmp_path / "executor", bounds=ONE, **options)
    return run_scenario("asyncio", make, scenario)


def test_a_change_of_an_imported_module_is_loaded_in_the_same_process(tmp_path: Path) -> None:
    assert versions_of(tmp_path) == ([1, 22], True)


def test_changed_code_is_not_loaded_if_the_node_does_not_want_it(tmp_path: Path) -> None:
    work = Work(executor="python", call=Call(function="front:version", path=(str(tmp_path),)))
    (tmp_path / "front.py").write_text("def version():\n    return 1\n")

    async def scenario(host: Host) -> list[bytes]:
        first = await host.run(work)
        (tmp_path / "front.py").write_text("def version():\n    return 22\n")
        await asyncio.sleep(2 * CHECK_S)
        return [first.result, (await host.run(work)).result]

    make = make_python_executor(
        tmp_path / "executor", bounds=ONE, settings=AttemptSettings(reloads_code=False)
    )

    assert run_scenario("asyncio", make, scenario) == [b"1", b"1"]


def test_large_results_reach_the_function(bench: Bench) -> None:
    rows = ["ä" * 1_000] * 1_000 * 7

    ending = ending_of_order(
        bench,
        load_order(
            without_arguments("functions:length"), json.dumps({"extract": rows}, ensure_ascii=False)
        ),
    )

    assert json.loads(ending.result) == 7_000


@pytest.mark.parametrize(
    ("work", "place"),
    [
        (without_arguments("functions:totals"), "the parameter 'rows'"),
        (call("functions:echo", {"result": "extract"}), "an argument"),
    ],
)
def test_a_result_of_a_task_that_is_not_needed_fails_the_attempt_with_advice(
    bench: Bench, work: Work, place: str
) -> None:
    ending = ending_of_order(bench, load_order(work, '{"b":1,"a":2}'))

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason == (
        f"{place} is the result of the task 'extract', which is not among the needs of 'load' "
        "(a, b); add it to them"
    )


def test_parameters_beside_arguments_are_in_the_context(bench: Bench) -> None:
    work = replace(
        call("functions:parameters", 1),
        env=(("ROTA_PARAMETERS", '{"day": 1}'),),
        parameters='{"day": 1}',
    )

    assert bench.results_of(work) == [[1, {"day": 1}]]


def test_the_context_describes_the_attempt(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        order = Order(
            key=AttemptKey(EXECUTION_ID, "load", 3),
            token=TOKEN,
            work=call("functions:context"),
            fire_at=FIRE_AT,
            checkpoint=b'{"row": 500}',
            job="billing/report",
            interval_start=Instant(FIRE_AT - DAY),
        )
        host.executor.launch(order)
        return await host.ending(order.key)

    ending = bench.run(scenario)

    assert json.loads(ending.result) == {
        "execution_id": EXECUTION_ID,
        "task": "load",
        "attempt": 3,
        "job": "report",
        "namespace": "billing",
        "token": str(TOKEN),
        "idempotency_key": EXECUTION_ID,
        "fire_time": "2027-01-01T05:00:00+00:00",
        "interval": ["2026-12-31T05:00:00+00:00", "2027-01-01T05:00:00+00:00"],
        "parameters": None,
        "last_checkpoint": {"row": 500},
        "cancelled": False,
    }


def test_the_interval_of_an_execution_without_one_is_an_error(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:context"))

    assert ending.raised is not None
    assert ending.raised.type == "LookupError"
    assert "--fire-time" in ending.raised.message


def test_environment_is_minimal_and_names_the_attempt(bench: Bench) -> None:
    work = replace(call("functions:environ"), env=(("COLOUR", "red"), ("HOME", "/elsewhere")))

    [variables] = bench.results_of(work)

    assert variables["ROTA_EXECUTION_ID"] == variables["ROTA_IDEMPOTENCY_KEY"] == EXECUTION_ID
    assert (variables["ROTA_TASK"], variables["ROTA_ATTEMPT"]) == ("task-1", "1")
    assert variables["ROTA_TOKEN"] == str(TOKEN)
    assert variables["ROTA_FIRE_TIME"] == "2027-01-01T05:00:00.000000Z"
    assert variables["ROTA_NODE_ID"] == "node-a"
    assert (variables["COLOUR"], variables["HOME"]) == ("red", "/elsewhere")
    assert "NODE_SECRET" not in variables


def test_variables_of_one_call_are_gone_in_the_next(bench: Bench) -> None:
    traced = replace(call("functions:environ"), env=(("TRACEPARENT", "00-1"),))

    first, second = bench.results_of(traced, call("functions:environ"), bounds=ONE)

    assert first["ROTA_WORKER_ID"] == second["ROTA_WORKER_ID"]
    assert (first["TRACEPARENT"], second.get("TRACEPARENT")) == ("00-1", None)
    assert (first["ROTA_TASK"], second["ROTA_TASK"]) == ("task-1", "task-2")


def test_function_below_a_class_is_found(bench: Bench) -> None:
    assert bench.results_of(call("functions:Shop.name")) == ["shop"]


def test_each_call_begins_in_an_empty_folder(bench: Bench) -> None:
    works = call("functions:files"), call("functions:remove_folder"), call("functions:files")

    first, _, last = bench.results_of(*works, bounds=ONE)

    assert first == last
    assert first[1] == []
    assert first[0].startswith(str(bench.directory))
    assert bench.is_swept()


def test_calls_begin_in_the_working_directory_that_is_asked_for(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "there").touch()

    [result] = bench.results_of(replace(call("functions:files"), cwd=str(tmp_path)))

    assert result[0] == str(tmp_path)
    assert "there" in result[1]
    assert (tmp_path / "left" / "file").exists()


# -- results and failures --------------------------------------------------------------------------


def test_result_is_json_of_what_is_returned(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:value", "{'a': (1, None, 'ä'), 2: True}"))

    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.result == '{"a":[1,null,"ä"],"2":true}'.encode()


def test_none_is_no_result(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:value", "None"))

    assert (ending.outcome, ending.result) == (Outcome.SUCCEEDED, b"")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("object", "Object of type type is not JSON serializable"),
        ("float('nan')", "Out of range float values are not JSON compliant"),
        ("'\\udc80'", "surrogates not allowed"),
        ("(lambda l: l.append(l) or l)([])", "Circular reference detected"),
    ],
)
def test_result_that_json_has_no_form_for_is_a_failure(
    bench: Bench, expression: str, reason: str
) -> None:
    ending = bench.ending_of(call("functions:value", expression))

    assert (ending.outcome, ending.exit_code, ending.result) == (Outcome.FAILED, 1, b"")
    assert ending.reason.startswith("its result cannot be written as JSON: ")
    assert reason in ending.reason


@pytest.mark.parametrize(("excess", "outcome"), [(0, Outcome.SUCCEEDED), (1, Outcome.FAILED)])
def test_result_has_a_greatest_size(bench: Bench, excess: int, outcome: Outcome) -> None:
    size = RESULT_BYTES_MAX + excess

    ending = bench.ending_of(call("functions:value", f"'\"' * {size // 2 - 1} + 'x' * {size % 2}"))

    assert ending.outcome is outcome
    assert len(ending.result) == (RESULT_BYTES_MAX if outcome is Outcome.SUCCEEDED else 0)
    assert f"has {size} bytes as JSON" in (ending.reason or f"has {size} bytes as JSON")


def test_exception_is_recorded_with_what_a_rule_of_retries_looks_at(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:fail", "no apples"))

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.FAILED, 1, 0)
    assert ending.reason == "functions.OutOfStock: no apples"
    assert ending.raised is not None
    assert ending.raised.type == "functions.OutOfStock"
    assert ending.raised.bases == ("LookupError", "Exception", "BaseException")
    assert ending.raised.message == "no apples"


def test_traceback_begins_in_the_function_and_names_the_cause(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:fail_below", "no apples"))

    assert ending.raised is not None
    text = ending.raised.traceback
    assert "functions.OutOfStock: no apples" in text
    assert text.endswith("RuntimeError: cannot sell\n")
    assert "worker.py" not in text
    assert "in fail_below" in text
    assert ending.output.decode() == text


def test_traceback_and_message_are_cut_to_their_limits(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:fail", "ä" * 20_000))

    assert ending.raised is not None
    assert ending.raised.message == "ä" * 2048
    assert len(ending.raised.traceback.encode()) <= 16 << 10
    assert ending.raised.traceback.endswith("ä\n")
    assert len(ending.reason) < 400


def test_wrong_arguments_are_the_callers_type_error(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:pid", 1))

    assert ending.reason == (
        "TypeError: pid() takes 0 positional arguments but 1 was given; the function takes no "
        "parameters by name"
    )


def test_a_misspelt_parameter_is_named_in_the_reason(bench: Bench) -> None:
    ending = bench.ending_of(without_arguments("functions:greet", '{"nmae": "x", "other": 1}'))

    assert ending.exit_code == 1
    assert ending.reason == (
        "TypeError: greet() missing 1 required positional argument: 'name'; the parameter 'nmae' "
        "is not passed (did you mean 'name'?); the function takes day, name"
    )


def test_a_misspelt_parameter_with_a_default_is_named_in_the_output(bench: Bench) -> None:
    misspelt, of_other_task = bench.endings_of(
        without_arguments("functions:greet", '{"name": "x", "dya": 1}'),
        without_arguments("functions:greet", '{"name": "x", "colour": 1}'),
    )

    assert misspelt.outcome is Outcome.SUCCEEDED
    assert misspelt.output == (
        b"rota: functions:greet has no parameter 'dya' (did you mean 'day'?), so that it is not "
        b"passed; the function takes day, name\n"
    )
    assert of_other_task.output == b""


def test_a_type_error_inside_the_function_keeps_its_reason(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:value", "None + 1"))

    assert "the function takes" not in ending.reason


def test_a_missing_module_is_explained_with_the_folders_searched(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text("import no_such_package\n")
    without_path = Work(executor="python", call=Call(function="tasks:f"), cwd=str(tmp_path))
    with_path = Work(executor="python", call=Call(function="tasks:f", path=(str(tmp_path),)))

    no_path, misses, dependency = bench.endings_of(
        without_path, replace(call("no_such:f"), cwd="/etc"), with_path
    )

    assert "searched: no folder, since python.path is not set, and the packages of" in (
        no_path.reason
    )
    assert no_path.reason.endswith(
        f"the working directory {str(tmp_path)!r} is not searched, but has it: set python.path to "
        f"[{str(tmp_path)!r}]"
    )
    assert f"searched: python.path ({CALLED!r})" in misses.reason
    assert misses.reason.endswith(
        "set python.path to the folder of the module; the working directory '/etc' is not searched"
    )
    assert "; 'tasks' imports it: install it for the interpreter " in dependency.reason


@pytest.mark.parametrize(
    ("code", "exit_code", "reason", "output"),
    [
        (None, 0, "", b""),
        (0, 0, "", b""),
        (3, 3, "exited with code 3", b""),
        (259, 3, "exited with code 3", b""),
        ("sold out", 1, "exited with code 1", b"sold out\n"),
    ],
)
def test_sys_exit_means_what_it_means_to_a_program(
    bench: Bench, code: Json, exit_code: int, reason: str, output: bytes
) -> None:
    ending = bench.ending_of(call("functions:leave", code))

    assert (ending.exit_code, ending.reason, ending.output) == (exit_code, reason, output)
    assert ending.outcome is (Outcome.FAILED if exit_code else Outcome.SUCCEEDED)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            "no_such:f",
            "cannot import 'no_such': ModuleNotFoundError: No module named 'no_such'; searched: p",
        ),
        (
            "wire:f",  # Which is a neighbour of the worker's program.
            "cannot import 'wire': ModuleNotFoundError: No module named 'wire'; searched: python.",
        ),
        ("broken:f", "cannot import 'broken': ValueError: this module has a fault"),
        ("functions:no_such", "module 'functions' has no 'no_such'"),
        (
            "functions:NOT_A_FUNCTION",
            "'functions:NOT_A_FUNCTION' is not a function; its type is 'int'",
        ),
        ("functions", "'functions' is not the name of a function; write module:function"),
    ],
)
def test_function_that_is_not_there_says_why(bench: Bench, function: str, reason: str) -> None:
    ending = bench.ending_of(call(function))

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.FAILED, -1, 0)
    assert ending.reason.startswith(reason)


def test_a_failed_import_is_repeated_in_a_new_worker(bench: Bench, tmp_path: Path) -> None:
    def late(function: str) -> Work:
        return Work(executor="python", call=Call(function=function, path=(str(tmp_path),)))

    async def scenario(host: Host) -> list[Ending]:
        (tmp_path / "old.py").write_text("import os\ndef f():\n    return os.getpid()\n")
        first = await host.run(late("old:f"))
        second = await host.run(late("new:f"))
        (tmp_path / "new.py").write_text("from old import f\n")
        return [first, second, await host.run(late("new:f"))]

    first, second, third = bench.run(scenario, bounds=ONE)

    assert (second.outcome, third.outcome) == (Outcome.FAILED, Outcome.SUCCEEDED)
    assert first.result != third.result


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Work(executor="python"), "a Python task needs a function to call"),
        (
            replace(call("functions:pid"), sandbox=Sandbox(profile="strict")),
            "a Python function cannot have the sandbox 'strict'",
        ),
        (
            Work(executor="python", call=Call(function="functions:pid", arguments="{")),
            "the arguments are not JSON",
        ),
        (
            Work(executor="python", call=Call(function="functions:pid", arguments="[1]")),
            'the arguments are not {"args": [...], "kwargs": {...}}',
        ),
        (
            replace(call("functions:pid"), cwd="/no/such"),
            "there is no folder '/no/such' (cwd) on node node-a",
        ),
        (
            Work(
                executor="python",
                call=Call(function="functions:pid", interpreter="/no/such/python"),
            ),
            "cannot start a worker with the interpreter '/no/such/python' on node node-a",
        ),
        (
            Work(executor="python", call=Call(function="functions:pid", interpreter="/bin/false")),
            "no worker could be started: its process exited with code 1",
        ),
    ],
    ids=["no call", "sandbox", "no json", "no object", "cwd", "interpreter", "no python"],
)
def test_impossible_work_fails_with_a_reason(bench: Bench, work: Work, reason: str) -> None:
    if work.call is not None:
        work = replace(work, call=replace(work.call, path=(CALLED,)))

    ending = bench.ending_of(work)

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason.startswith(reason)


def test_what_a_worker_says_when_it_cannot_start_is_the_output(
    bench: Bench, tmp_path: Path
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\necho no Python here\nexit 3\n")
    interpreter.chmod(0o755)
    work = Work(executor="python", call=Call(function="x:y", interpreter=str(interpreter)))

    ending = bench.ending_of(work)

    assert ending.reason == "no worker could be started: its process exited with code 3"
    assert ending.output == b"no Python here\n"


# -- progress and checkpoints ----------------------------------------------------------------------


def test_progress_and_checkpoints_are_reported_and_the_last_count(bench: Bench) -> None:
    bench.endings_of(
        call("functions:progress", *range(101)), call("functions:save", *range(50), {"row": 1})
    )

    percents = [report.percent for report in bench.reports if report.percent is not None]
    saved = [report.checkpoint for report in bench.reports if report.checkpoint is not None]
    assert percents[-1] == 100
    assert percents == sorted(set(percents))
    assert saved[-1] == b'{"row":1}'
    assert len(percents) + len(saved) < 50  # Fewer than calls: each costs an entry of the journal.


def test_a_checkpoint_before_the_end_of_the_worker_is_saved(bench: Bench) -> None:
    bench.ending_of(call("functions:save_and_die", "a"))

    assert bench.reports[-1].checkpoint == b'"a"'


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (call("functions:progress", 101), "ValueError: 101 percent is out of range"),
        (call("functions:progress", -1), "ValueError: -1 percent is out of range"),
        (
            call("functions:save_bytes", CHECKPOINT_BYTES_MAX + 1),
            f"ValueError: the checkpoint has {CHECKPOINT_BYTES_MAX + 1} bytes, and at most",
        ),
    ],
    ids=["too much", "too little", "too long"],
)
def test_an_invalid_report_raises_an_exception(bench: Bench, work: Work, reason: str) -> None:
    ending = bench.ending_of(work)

    assert ending.outcome is Outcome.FAILED
    assert ending.reason.startswith(reason)
    assert bench.reports == []


def test_longest_checkpoint_is_saved_whole(bench: Bench) -> None:
    bench.ending_of(call("functions:save_bytes", CHECKPOINT_BYTES_MAX))

    assert [len(report.checkpoint or b"") for report in bench.reports] == [CHECKPOINT_BYTES_MAX]


def test_a_thread_that_outlives_its_attempt_reports_nothing_in_the_next(bench: Bench) -> None:
    async def scenario(host: Host) -> int:
        await host.run(call("functions:leave_reporting_thread"))
        count = len(bench.reports)
        await host.run(call("functions:spin", 20))
        return len(bench.reports) - count

    assert bench.run(scenario, bounds=ONE) == 0


# -- stopping --------------------------------------------------------------------------------------


def test_stopped_function_is_interrupted_like_with_ctrl_c(bench: Bench) -> None:
    ending = bench.stopped(call("functions:sleep"))

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 15)
    assert (ending.reason, ending.output) == ("stopped on request", b"up\ncleaned up\n")


def test_a_function_with_a_context_sees_the_stop_and_is_not_interrupted(bench: Bench) -> None:
    ending = bench.stopped(call("functions:poll"))

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.CANCELLED, 0, 0)
    # The node drops the result, unless the attempt was stopped with the node.
    assert (ending.output, ending.result) == (b"up\ncancelled\n", b'"done"')


def test_stopped_coroutine_is_cancelled(bench: Bench) -> None:
    ending = bench.stopped(call("functions:async_sleep"))

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 15)
    assert ending.output == b"up\ncancelled True\n"


def test_a_function_that_ignores_the_stop_is_killed_after_the_grace(bench: Bench) -> None:
    ending = bench.stopped(call("functions:ignore"), grace=Duration(SECOND // 5))

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 9)
    assert ending.output == b"up\ngot KeyboardInterrupt\nup\n"
    assert ending.reason == "stopped on request; killed, as it had not ended 200ms after TERM"


def test_stopping_without_grace_kills_at_once(bench: Bench) -> None:
    ending = bench.stopped(call("functions:poll"), grace=Duration(0))

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 9)


def test_exception_of_a_stopped_function_is_recorded(bench: Bench) -> None:
    ending = bench.stopped(call("functions:fail_when_stopped"))

    assert (ending.outcome, ending.exit_code) == (Outcome.CANCELLED, 1)
    assert ending.raised is not None
    assert ending.raised.message == "while cleaning up"


def test_stopped_worker_is_not_used_again(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(call("functions:poll"))
        await host.output(key, containing=b"up")
        host.stop(key)
        await host.ending(key)
        return await host.run(call("functions:call_count"))

    ending = bench.run(scenario, bounds=ONE)

    assert ending.result == b"1"


def test_stop_may_overtake_its_call(bench: Bench) -> None:
    async def scenario(host: Host) -> list[Ending]:
        endings: list[Ending] = []
        for _ in range(5):
            await host.run(call("functions:pid"))  # So that there is a warm worker.
            key = host.launch(call("functions:poll"))
            host.stop(key)
            endings.append(await host.ending(key))
        return endings

    endings = bench.run(scenario, bounds=ONE)

    assert {ending.outcome for ending in endings} == {Outcome.CANCELLED}
    assert {ending.signal for ending in endings} <= {0, 15}


def test_call_that_has_ended_before_it_is_stopped_is_what_it_was(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        await host.run(call("functions:pid"))
        assert isinstance(host.executor, PythonExecutor)
        (worker,) = host.executor.pools.alive
        key = host.launch(call("functions:pid"))
        select.select([worker.control], [], [])  # The loop has not noticed its end.
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario, bounds=ONE)

    assert (ending.outcome, ending.exit_code) == (Outcome.SUCCEEDED, 0)


def test_handler_of_a_function_does_not_keep_the_next_from_being_stopped(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        await host.run(call("functions:replace_handler"))
        key = host.launch(call("functions:sleep"))
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    assert bench.run(scenario, bounds=ONE).signal == 15


# -- output ----------------------------------------------------------------------------------------


def test_output_of_each_attempt_is_its_own(bench: Bench) -> None:
    endings = bench.endings_of(
        *(call("functions:write", f"{number}\n", 3) for number in range(30)), bounds=ONE
    )

    assert [ending.output for ending in endings] == [b"%d\n" % n * 4 for n in range(30)]


def test_output_that_does_not_fit_in_a_pipe_is_kept_whole(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, bytes]:
        key = host.launch(call("functions:write", "0123456789", 50_000))
        ending = await host.ending(key)
        output = await host.executor.output(key)
        assert output is not None
        return ending, b"".join([part async for part in output.follow()])

    ending, output = bench.run(scenario)

    assert output == b"0123456789" * 50_001
    assert ending.output == output[-OUTPUT_TAIL_BYTES:]


def test_output_that_is_still_in_the_pipe_at_the_end_is_the_attempts(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        await host.run(call("functions:pid"))
        assert isinstance(host.executor, PythonExecutor)
        (worker,) = host.executor.pools.alive
        key = host.launch(call("functions:write_at_once", 900_000))
        select.select([worker.control], [], [])  # The loop stands still until the call has ended.
        return await host.ending(key)

    ending = bench.run(scenario, bounds=ONE)

    assert ending.output_bytes == 900_000


@pytest.mark.parametrize("function", ["write_from_c", "write_from_child"])
def test_output_that_python_does_not_know_of_is_the_attempts(bench: Bench, function: str) -> None:
    first, second = bench.endings_of(
        call(f"functions:{function}", "one"), call(f"functions:{function}", "two"), bounds=ONE
    )

    assert (first.output, second.output) == (b"one", b"two")


def test_worker_without_its_streams_is_not_used_again(bench: Bench) -> None:
    first, second = bench.endings_of(
        call("functions:close_stdout"), call("functions:write", "x"), bounds=ONE
    )

    assert (first.outcome, second.output) == (Outcome.SUCCEEDED, b"xx")


# -- coroutines ------------------------------------------------------------------------------------


def test_coroutine_returns_and_raises_like_a_function(bench: Bench) -> None:
    first, second, third = bench.endings_of(
        call("functions:async_echo", [1]),
        call("functions:async_fail"),
        call("functions:async_leave"),
        bounds=ONE,
    )

    assert first.result == b"[1]"
    assert second.reason == "functions.OutOfStock: async"
    assert second.raised is not None
    assert "worker.py" not in second.raised.traceback
    assert "asyncio" not in second.raised.traceback
    assert third.exit_code == 4


def test_coroutines_of_a_worker_share_one_loop(bench: Bench) -> None:
    first, second = bench.results_of(
        call("functions:async_loop"), call("functions:async_loop"), bounds=ONE
    )

    assert first == second


def test_asyncio_tasks_left_behind_are_cancelled(bench: Bench) -> None:
    ending = bench.ending_of(call("functions:async_leaves_task"))

    assert (ending.outcome, ending.output) == (Outcome.SUCCEEDED, b"background cancelled\n")


def test_threads_of_coroutines_do_not_spoil_the_worker(bench: Bench) -> None:
    first, second = bench.results_of(
        call("functions:async_thread"), call("functions:async_thread"), bounds=ONE
    )

    assert first == second
