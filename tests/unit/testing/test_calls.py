"""Functions that attempts on virtual time call in the process of the test."""

import os
from collections.abc import Iterator
from datetime import timedelta

import pytest

from rota.testing import Refused, VirtualScheduler
from unit.testing import shop

HERE = "unit.testing.shop"


def python(name: str, **fields: object) -> dict[str, object]:
    """Return a task that calls a function."""
    return {"name": name, "python": f"{HERE}:{name}", **fields}


@pytest.fixture(autouse=True)
def _failures() -> Iterator[None]:
    yield
    shop.failures.clear()


def test_a_task_of_an_app_is_called_until_it_succeeds() -> None:
    scheduler = VirtualScheduler()
    scheduler.deploy(shop.app, calls_functions=True)
    shop.failures += [ConnectionError("no route"), ConnectionError("no route")]

    scheduler.advance("1d")

    [found] = scheduler.executions("shop.orders")
    task = found.tasks["main"]
    assert [each.error for each in task.attempts] == ["ConnectionError", "ConnectionError", ""]
    assert task.attempts[0].reason == "ConnectionError: no route"
    assert task.attempts[1].started_at - task.attempts[0].started_at >= timedelta(minutes=10)
    assert (found.status, task.result) == ("success", [1, 2, 3])


def test_a_deployed_task_is_not_called_unless_a_test_asks_for_it() -> None:
    scheduler = VirtualScheduler()
    scheduler.deploy(shop.app)
    shop.failures.append(ValueError("called"))

    scheduler.advance("1d")

    assert [each.status for each in scheduler.executions("shop.orders")] == ["success"]


def test_results_of_functions_flow() -> None:
    scheduler = VirtualScheduler()
    tasks = [python("orders"), python("total", needs=["orders"])]
    scheduler.save({"name": "sum", "tasks": tasks})
    scheduler.call_functions("sum", duration="5m")

    execution_id = scheduler.trigger("sum")
    scheduler.advance("10m")

    found = scheduler.execution(execution_id)
    assert found.tasks["total"].result == 6
    assert found.finished_at == found.queued_at + timedelta(minutes=10)


async def test_a_coroutine_is_called_in_a_test_with_a_loop() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "sum", "tasks": [python("orders"), python("total", needs=["orders"])]})
    scheduler.on("sum", task="orders", result=[4, 5])
    scheduler.call_functions("sum", task="total")

    execution_id = scheduler.trigger("sum")
    scheduler.advance("1m")

    assert scheduler.execution(execution_id).tasks["total"].result == 9


def test_a_checkpoint_reaches_the_next_attempt() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "retries": 1, "tasks": [python("resumed")]})
    scheduler.call_functions("load")

    execution_id = scheduler.trigger("load")
    scheduler.advance("1h")

    task = scheduler.execution(execution_id).tasks["resumed"]
    assert task.result == [{"row": 7}, 2, "2027-01-01T00:00:00+00:00"]
    assert task.attempts[0].error == "ValueError"


def test_a_function_skips_its_task() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "tasks": [python("nothing_today")]})
    scheduler.call_functions("load")

    execution_id = scheduler.trigger("load")
    scheduler.advance("1m")

    task = scheduler.execution(execution_id).tasks["nothing_today"]
    assert (task.status, task.reason) == ("skipped", "skipped itself: no orders")


def test_a_function_gets_parameters_and_variables_which_do_not_stay() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "tasks": [python("variables")]})
    scheduler.call_functions("load")

    execution_id = scheduler.trigger("load", name="ada")
    scheduler.advance("1m")

    assert scheduler.execution(execution_id).tasks["variables"].result == ["ada", "load"]
    assert "ROTA_JOB" not in os.environ


def test_a_call_that_takes_too_long_is_timed_out() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "timeout": "1m", "tasks": [python("orders")]})
    scheduler.call_functions("load", duration="2m")

    scheduler.trigger("load")
    scheduler.advance("1h")

    [found] = scheduler.executions("load")
    assert [each.outcome for each in found.tasks["orders"].attempts] == ["timed_out"]


def test_a_function_that_is_missing_fails_as_on_a_node() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "python": f"{HERE}:missing"})
    scheduler.call_functions("load")

    scheduler.trigger("load")
    scheduler.advance("1m")

    [found] = scheduler.executions("load")
    assert "has no 'missing'" in found.tasks["main"].reason


def test_other_work_is_not_called() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "mixed", "tasks": [python("orders"), {"name": "x", "command": ["x"]}]})

    with pytest.raises(Refused, match="the task x of default/mixed is no Python function"):
        scheduler.call_functions("mixed", task="x")
