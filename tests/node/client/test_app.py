"""Tasks of an app on a real node."""

import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from time import perf_counter
from uuid import UUID

import pytest

from rota.client import Client, NotFound, NotYetRunning, WaitTimedOut
from rota.client.app import FlowNotDeployed, TaskFailed
from support.app_tasks import (
    Address,
    Currency,
    Invoice,
    Receipt,
    add,
    app,
    attempt_of,
    checked,
    found,
    halve,
    kinds,
    loaded,
    move,
    nightly,
    pass_on,
    pay,
    refuse,
    taxes,
    wait,
)

INVOICE = Invoice(UUID(int=7), Decimal("19.90"), date(2027, 1, 31), Currency.EURO)
NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _app_of_the_node(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ROTA_URL", url)
    yield
    app.close()


def test_a_call_returns_the_result_of_its_function() -> None:
    handle = add.delay(2, b=3)

    assert handle.result(PATIENCE_S) == 5
    assert handle.status() == "success"
    assert handle.result(0.0) == 5


async def test_a_coroutine_function_gets_and_returns_its_types() -> None:
    handle = await pay.adelay(INVOICE, paid_at=NOON)

    assert await handle.aresult(PATIENCE_S) == Receipt(INVOICE, NOON + timedelta(days=1))


def test_models_of_pydantic_are_converted() -> None:
    moved = move.delay(Address(city="Bonn", since=date(2020, 1, 1))).result(PATIENCE_S)

    assert moved == Address(city="Berlin", since=date(2020, 1, 1))


def test_arguments_of_any_number_are_converted() -> None:
    handle = kinds.delay(Decimal(1), Decimal(2), day=date(2027, 1, 1))

    assert handle.result(PATIENCE_S) == ["Decimal", "Decimal", "date"]


def test_a_failed_call_is_tried_again_as_the_task_says() -> None:
    assert attempt_of.delay().result(PATIENCE_S) == 2
    with pytest.raises(TaskFailed, match="OSError: not yet"):
        attempt_of.options(retries=0).delay().result(PATIENCE_S)


def test_a_failure_has_the_reason_and_the_execution() -> None:
    handle = refuse.delay("the card has expired")

    with pytest.raises(TaskFailed, match="ValueError: the card has expired") as failed:
        handle.result(PATIENCE_S)

    assert failed.value.execution.status == handle.status() == "failed"


def test_a_running_call_can_be_cancelled() -> None:
    handle = wait.delay(PATIENCE_S)

    with pytest.raises((WaitTimedOut, NotYetRunning)):
        handle.result(0.1)
    handle.cancel()

    with pytest.raises(TaskFailed, match="cancelled"):
        handle.result(PATIENCE_S)


def test_each_item_of_a_map_is_a_call() -> None:
    group = add.map(range(1_001))

    assert group.results(PATIENCE_S) == [*range(1, 1_002)]
    assert len(group.handles) == 2


def test_a_failed_item_does_not_stop_the_others() -> None:
    group = halve.map([3, 4])

    with pytest.raises(TaskFailed, match=r"item-0 failed: ValueError: 3 is odd") as failed:
        group.results(PATIENCE_S)

    tasks = failed.value.execution.tasks or {}
    assert tasks["item-1"].attempts[-1].result == 2
    again = pickle.loads(pickle.dumps(group))
    assert again.status() == {"failed": 1, "success": 1}
    failure, result = again.results(return_exceptions=True)
    assert (type(failure), result) == (TaskFailed, 2)


def test_a_call_runs_after_a_delay() -> None:
    before = datetime.now(UTC)  # noqa: TID251 - of the node's clock

    handle = add.after("0.3s").delay(1)

    assert handle.result(PATIENCE_S) == 2
    assert datetime.now(UTC) - before >= timedelta(seconds=0.3)  # noqa: TID251 - likewise


def test_a_call_at_a_past_time_runs_at_once() -> None:
    assert add.at(datetime(2020, 1, 1, tzinfo=UTC)).delay(1).result(PATIENCE_S) == 2


def test_a_call_that_is_not_yet_due_can_be_deleted(client: Client) -> None:
    handle = add.after(3600).delay(1)

    assert handle.status() == "scheduled"
    handle.cancel()

    assert handle.status() == "cancelled"
    with pytest.raises(NotFound):
        client.job(handle.id)


def test_a_deployed_flow_passes_results_of_their_types(client: Client) -> None:
    with pytest.raises(FlowNotDeployed, match=r"no job default/billing.nightly; save"):
        nightly.delay()
    client.create_job(nightly.job())

    handle = nightly.delay(day=date(2027, 2, 1))

    results = handle.result(PATIENCE_S)
    assert nightly.handle(handle.id).status() == "success"
    assert results[found] == nightly.local(day=date(2027, 2, 1))[found]
    assert results[taxes] == [Decimal(0), Decimal("0.19")]
    assert results["summary"] == "2 of 2027-02-01, tax 0.19 {{ of all }}"
    assert [*results] == ["invoices", "tax", "summary", "clean"]
    assert handle.status() == "success"
    by_default = nightly.delay().result(PATIENCE_S)
    assert by_default["summary"].startswith("2 of 2027-01-01")


def status_of(client: Client, execution_id: str, task: str) -> str:
    """Return the status of a task of an execution."""
    tasks = client.execution(execution_id).tasks
    assert tasks is not None
    return tasks[task].status


def test_a_flow_with_waits_ends_on_nodes_as_it_does_here(client: Client) -> None:
    load = "cp /dev/stdin $ROTA_RESULT"
    client.create_job({"name": "load", "command": load, "stdin": "{{ params.sums | tojson }}"})
    client.create_job(checked.job())

    handle = checked.delay(least=1)

    deadline = perf_counter() + PATIENCE_S
    while status_of(client, handle.id, "check") != "waiting":
        assert perf_counter() < deadline
    client.answer(handle.id, "check", approve=True)
    client.post_event(handle.id, "paid", 5)
    results = handle.result(PATIENCE_S)
    assert results[loaded]["results"] == {"main": [5, {"text": "{{ 1 }}"}]}
    here = checked.local({"check": None, "paid": 5, "load": results[loaded]}, least=1)
    assert dict(results) == dict(here)
    assert here["add"] == [7, 9]
    assert not {"refuse", "clean"} & here.keys()


def test_text_with_braces_is_an_argument_as_it_is() -> None:
    texts = ["{{ params.day }}", "{% if %}", "{# no #}\n"]

    assert pass_on.delay(*texts).result(PATIENCE_S) == texts
