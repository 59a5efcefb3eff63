"""Handles and groups, with a client that answers as a node does."""

import asyncio
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import rota
from rota.client import NotFound
from rota.client.app import Group, Handle
from rota.client.app.errors import reason_of
from rota.client.app.signatures import Signature
from rota.wire.documents import AttemptView, ExecutionView, ProblemView, TaskView
from support import app_tasks
from support.app_tasks import add, app, nightly

UNTYPED: Any = add
CALL = "00aa000000000001"
OF_CALL = f"{CALL}-0000000000000a-8001"


def task(status: str = "success", result: Any = None, reason: str = "") -> TaskView:
    attempt = AttemptView(number=1, node_id="n1", token="", started_at="", result=result)
    return TaskView(status=status, attempts=[attempt], reason=reason)


def execution(status: str = "success", reason: str = "", **tasks: Any) -> ExecutionView:
    return ExecutionView(
        execution_id=OF_CALL, job_id=CALL, job="default/shop", job_version=1, status=status,
        trigger="manual", fire_time="", queued_at="", reason=reason, tasks=tasks,
    )  # fmt: skip


class Node:
    """Answers of a node with one job."""

    def __init__(self, *, begun: ExecutionView | None = None) -> None:
        self.begun = begun
        self.is_deleted = False

    def job(self, job: str) -> Any:
        """Return what a handle reads of a job."""
        if self.is_deleted:
            raise NotFound(ProblemView(type="", title="", status=404, code="", detail=job))
        execution_id = None if self.begun is None else self.begun.execution_id
        return SimpleNamespace(execution_id=execution_id, last_execution=None)

    def delete_job(self, job: str) -> None:
        """Delete the job."""
        del job
        self.is_deleted = True

    def execution(self, execution_id: str) -> ExecutionView:
        """Return the execution."""
        del execution_id
        assert self.begun is not None
        return self.begun

    def wait(self, execution_id: str, *, timeout_s: float | None) -> ExecutionView:
        """Return the execution, which has ended."""
        del timeout_s
        return self.execution(execution_id)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """The node of the app."""
    node = Node()
    monkeypatch.setattr(app, "_client", node)
    return node


# -- failures --------------------------------------------------------------------------------------


def looped(status: str) -> dict[str, TaskView]:
    return {
        "inv": TaskView(status=status, attempts=[]),
        "inv[2]": task("failed", reason="ZeroDivisionError"),
    }


TOLERATED = "task inv[2] failed: ZeroDivisionError"


@pytest.mark.parametrize(
    ("reason", "tasks", "shown"),
    [
        (
            TOLERATED,
            {**looped("success"), "tot": task("failed", reason="KeyError: 1")},
            "task tot failed: KeyError: 1",
        ),
        (TOLERATED, {**looped("success"), "tot": task("failed")}, "tot failed"),
        (TOLERATED, {**looped("failed"), "tot": task("skipped")}, TOLERATED),
        ("task a failed: b", {"a": task("failed"), "c": task("failed")}, "task a failed: b"),
        (TOLERATED, looped("cancelled"), TOLERATED),
        ("its time is over", looped("success"), "its time is over"),
    ],
)
def test_a_tolerated_failure_is_not_the_reason(
    reason: str, tasks: dict[str, Any], shown: str
) -> None:
    failed = execution("failed", reason, **tasks)

    assert reason_of(failed) == shown
    assert shown in str(rota.TaskFailed("shop", failed))


def test_a_result_of_another_type_names_the_function_and_both_types(node: Node) -> None:
    node.begun = execution(main=task(result="x"))

    with pytest.raises(
        rota.WrongResult,
        match=r'app_tasks:add is to return int, but returned "x" \(str\): Expected `int`',
    ):
        add.handle(CALL).result()


def test_a_result_of_a_flow_of_another_type_is_refused_likewise() -> None:
    def load() -> date:
        return date(2027, 1, 1)

    with pytest.raises(
        rota.RotaError,
        match=r"m:load is to return date.* \[1\] \(list\)".replace("date", "datetime.date"),
    ):
        Signature(load, "m:load").decoded_result([1])


# -- cancellation ----------------------------------------------------------------------------------


def test_a_call_that_was_cancelled_before_it_was_due_is_cancelled(node: Node) -> None:
    handle = add.handle(CALL)
    assert handle.status() == "scheduled"

    handle.cancel()
    handle.cancel()

    assert (node.is_deleted, handle.status()) == (True, "cancelled")
    with pytest.raises(rota.CallCancelled, match=f"{CALL} was cancelled before it was due"):
        handle.result()


# -- times -----------------------------------------------------------------------------------------

NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("when", [NOON, "2027-01-01T12:00:00Z", "2027-01-01T13:00:00+01:00"])
def test_instants_are_text_or_datetimes(when: Any) -> None:
    assert add.at(when).settings.due_at == 1_798_804_800_000_000


@pytest.mark.parametrize("delay", [90, 90.0, "1m30s", timedelta(seconds=90)])
def test_durations_are_numbers_texts_or_timedeltas(delay: Any) -> None:
    assert add.after(delay).settings.delay == 90_000_000


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda: UNTYPED.at(date(2027, 1, 1)),
            r"datetime.date\(2027, 1, 1\) is no instant; give text",
        ),
        (lambda: UNTYPED.at("tomorrow"), "'tomorrow' is not an RFC 3339 time"),
        (lambda: UNTYPED.at(1.5), "1.5 is no instant"),
        (
            lambda: UNTYPED.after(None),
            "None is no duration; give seconds, text such as '1h30m', or a",
        ),
        (lambda: UNTYPED.after(True), "True is no duration"),
        (lambda: UNTYPED.after(timedelta(-1)), "-1d is negative"),
        (lambda: UNTYPED.handle(CALL).result("60"), "the timeout: '60' is not a duration; write a"),
        (lambda: UNTYPED.handle(CALL).result([1]), r"the timeout: \[1\] is no duration"),
    ],
)
@pytest.mark.usefixtures("node")
def test_what_is_no_time_is_refused(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(rota.InvalidArgument, match=message):
        use()


def test_a_timedelta_is_sent_as_text() -> None:
    with rota.App("tests").flow("f", execution_timeout=timedelta(hours=2)) as flow:
        flow.sleep(timedelta(minutes=1))
        flow.wait_for_event("paid", timeout=timedelta(days=1))

    job: Any = flow.job()
    assert job["executionTimeout"] == "2h"
    assert [job["tasks"][0]["sleep"], job["tasks"][1]["waitForEvent"]["timeout"]] == ["1m", "1d"]
    assert add.options(timeout=timedelta(seconds=5)).settings.fields() == {"timeout": "5s"}


# -- other processes -------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [CALL, OF_CALL])
def test_a_handle_is_made_of_its_id_or_of_that_of_an_execution(node: Node, given: str) -> None:
    node.begun = execution(main=task(result=7))

    assert add.handle(given).result() == 7


def test_handles_and_groups_can_be_pickled(node: Node) -> None:
    group = add.group([(CALL, 2)])
    items: dict[str, Any] = {"item-0": task(result=1), "item-1": task(result=2)}
    node.begun = execution(main=task(result=7), **items)

    def again(value: Any) -> Any:
        return pickle.loads(pickle.dumps(value))

    assert again(add.after(1).handle(CALL)).result() == 7
    assert again(group).results() == again(group.handles[0]).result() == [1, 2]
    assert again(nightly.handle(OF_CALL)).id == OF_CALL


def test_a_handle_of_a_flow_that_is_no_variable_of_a_module_is_not_pickled(node: Node) -> None:
    with app_tasks.app.flow("hidden") as flow:
        flow.sleep(1)

    with pytest.raises(
        pickle.PicklingError, match=r"no variable of the module .*flow.handle\(id\)"
    ):
        pickle.dumps(flow.handle(OF_CALL))


async def test_a_result_can_be_awaited(node: Node) -> None:
    node.begun = execution(main=task(result=7))

    results = await asyncio.gather(add.handle(CALL).aresult(), add.handle(OF_CALL).aresult(9))

    assert [*results] == [7, 7]


async def test_a_wait_that_is_too_long_is_named_in_full(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.app.handles.THREAD_S", 0.05)

    with pytest.raises(rota.NotYetRunning, match=r"after 0\.[3-9] s, not started"):
        await add.handle(CALL).aresult("300ms")


# -- groups ----------------------------------------------------------------------------------------


@pytest.fixture
def group(node: Node) -> Group[int]:
    """Three calls, of which one failed, and one has a wrong result."""
    items: dict[str, Any] = {
        "item-0": task(result=1),
        "item-1": task("failed", reason="E"),
        "item-2": task(result="x"),
    }
    node.begun = execution("failed", "task item-1 failed: E", **items)
    return add.group([(CALL, 3)])


def test_a_group_has_a_length_states_and_what_failed(group: Group[int]) -> None:
    first, second, third = group.results(return_exceptions=True)

    assert (len(group), group.status()) == (3, {"success": 2, "failed": 1})
    assert first == 1
    assert isinstance(second, rota.TaskFailed)
    assert str(second) == f"default/shop item-1: failed: E (execution {OF_CALL})"
    assert isinstance(third, rota.WrongResult)
    with pytest.raises(rota.TaskFailed):
        group.results()


async def test_a_group_yields_its_results_in_order(node: Node) -> None:
    items: dict[str, Any] = {"item-0": task(result=1), "item-1": task(result=2)}
    node.begun = execution(**items)
    group = add.group([(CALL, 2), (CALL, 1)])

    assert [*group] == group.results() == await group.aresults(60)
    assert group.results() == [1, 2, 1]


def test_a_group_that_was_cancelled_before_it_was_due_has_no_results(node: Node) -> None:
    group = add.group([(CALL, 2)])
    assert group.status() == {"scheduled": 2}

    group.cancel()

    assert group.status() == {"cancelled": 2}
    found = group.results(return_exceptions=True)
    assert [type(each) for each in found] == [rota.CallCancelled] * 2


def test_a_handle_shows_its_execution_once_it_has_begun(node: Node) -> None:
    handle: Handle[int] = add.handle(CALL)
    assert handle.execution() is None

    node.begun = execution(main=task())

    assert handle.execution() == node.begun
