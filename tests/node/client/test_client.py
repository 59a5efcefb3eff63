"""Calls of `Client` against a node."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest

import rota.client
import rota.client.errors
from rota.client import AsyncClient, Client
from rota.client.errors import (
    Conflict,
    Invalid,
    NotFound,
    RequestFailed,
    Unreachable,
    WaitTimedOut,
)
from rota.core.errors import RotaError
from rota.wire.documents import (
    JobBody,
    RetryBody,
    TaskBody,
    TriggerItem,
)

T = TypeVar("T")
WAIT_S = 20.0


def test_a_typed_job_is_created_as_it_is(client: Client) -> None:
    body = JobBody(
        name="typed",
        namespace="typing",
        schedules=["0 6 * * *"],
        timezone="Europe/Berlin",
        tasks=[
            TaskBody(name="first", command=["true"], retries=RetryBody(limit=2)),
            TaskBody(name="second", command="true", needs=["first"], timeout="1m"),
        ],
    )

    job = client.create_job(body)

    assert client.job("typing/typed") == client.job("typed", namespace="typing") == job
    assert client.job(job.job_id).schedules[0].timezone == "Europe/Berlin"
    assert [(task.name, task.needs, task.retries) for task in job.tasks] == [
        ("first", [], 2),
        ("second", ["first"], 0),
    ]


def test_jobs_are_iterated_over_page_by_page(client: Client) -> None:
    for number in range(7):
        client.create_job({"name": f"page-{number}", "namespace": "pages", "command": "true"})

    pages = list(client.jobs(namespace="pages"))
    some = list(client.jobs(namespace="pages", limit=5))

    assert [job.name for job in pages] == [f"page-{number}" for number in range(7)]
    assert some == pages[:5]


async def test_pages_are_joined_by_their_cursors(
    url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.paging.PAGE", 2)
    for number in range(5):
        client.create_job({"name": f"p{number}", "namespace": "small-pages", "command": "true"})

    async with AsyncClient(url) as async_client:
        names = [job.name async for job in async_client.jobs(namespace="small-pages")]

    assert names == ["p0", "p1", "p2", "p3", "p4"]


def test_many_triggers_succeed_or_fail_alone(client: Client) -> None:
    client.create_job({"name": "one-of-many", "command": "true"})

    triggered = client.trigger_many(["one-of-many", "absent", TriggerItem(job="one-of-many")])

    assert triggered[1].error is not None
    assert triggered[1].error.code == "job_not_found"
    ids = [item.execution_id for item in triggered if item.execution_id]
    executions = client.wait_many(reversed(ids), timeout_s=WAIT_S)
    assert [each.execution_id for each in executions] == ids[::-1]
    assert {each.status for each in executions} == {"success"}
    assert all(each.tasks and each.tasks["main"].attempts for each in executions)
    without = client.wait_many(ids, timeout_s=WAIT_S, has_tasks=False)
    assert [each.tasks for each in without] == [None] * len(ids)


def test_a_one_off_job_has_the_id_of_its_execution_at_once(client: Client) -> None:
    job = client.create_job({"command": "echo 1 > $ROTA_RESULT"})

    assert job.execution_id
    assert client.wait(job.execution_id, timeout_s=WAIT_S).status == "success"
    shown = client.job(job.job_id)
    [listed] = client.jobs(q=job.name)
    assert (listed.status, listed.result, listed.execution_id, listed.ended_at) == (
        *("success", 1, job.execution_id),
        shown.ended_at,
    )
    assert shown.status == "success"


def test_no_id_of_an_execution_is_an_error_that_says_so(client: Client) -> None:
    nothing = cast("str", None)

    for call in (client.wait, client.execution, client.cancel, client.output):
        with pytest.raises(TypeError, match="the id of an execution is text, not None"):
            call(nothing)
    with pytest.raises(TypeError, match="the id of an execution is text, not None"):
        client.wait_many([nothing])


def test_more_triggers_than_one_request_takes_are_divided(client: Client) -> None:
    triggered = client.trigger_many(["absent"] * 1_001)

    assert len(triggered) == 1_001
    assert all(item.error for item in triggered)


def test_arguments_of_a_call_may_come_from_other_calls(client: Client) -> None:
    client.create_job({"name": "one-by-one", "command": "true"})
    bodies = (
        {"name": f"copy-{n}", "command": client.job(n).tasks[0].command} for n in ["one-by-one"]
    )

    client.create_many(bodies)
    ended = client.wait_many(
        client.trigger(name).execution_id for name in ["one-by-one", "copy-one-by-one"]
    )

    assert [each.status for each in ended] == ["success", "success"]


def test_many_jobs_are_created_or_refused_alone(client: Client) -> None:
    client.create_job({"name": "there", "namespace": "bulk", "command": "false"})
    bodies: list[JobBody | dict[str, object]] = [
        JobBody(name="typed", namespace="bulk", command="true"),
        {"name": "there", "namespace": "bulk", "command": "true"},
        {"name": "free", "namespace": "bulk", "schedule": "61 * * * *", "command": "true"},
        {"name": "free", "namespace": "bulk", "command": "true"},
    ]

    created = client.create_many(bodies)

    assert [item.status for item in created] == [201, 409, 422, 201]
    assert [item.job for item in created] == ["bulk/typed", None, None, "bulk/free"]
    errors = [item.error for item in created if item.error]
    assert [error.code for error in errors] == ["job_exists", "invalid_job"]
    assert [error.pointer for error in errors[1].errors] == ["/items/2/schedule"]
    assert client.job("bulk/free").job_id == created[3].job_id


def test_many_jobs_are_created_or_replaced(client: Client) -> None:
    client.create_job({"name": "old", "namespace": "put", "command": "false"})
    bodies = [{"name": name, "namespace": "put", "command": "true"} for name in ("old", "new")]

    tried = client.put_many(bodies, dry_run=True)
    saved = client.put_many(bodies, views=True)

    assert [item.change for item in tried] == [item.change for item in saved]
    assert [item.change for item in saved] == ["replaced", "created"]
    assert [item.view and item.view.version for item in saved] == [2, 1]


def test_more_jobs_than_one_request_takes_are_divided(client: Client) -> None:
    bodies = [{"name": f"n{number}", "namespace": "divided"} for number in range(1_001)]

    created = client.create_many({**body, "command": "true"} for body in bodies)

    assert [item.job for item in created] == [f"divided/n{number}" for number in range(1_001)]


def test_no_jobs_are_created_without_asking(client: Client) -> None:
    assert client.create_many([]) == []
    assert client.trigger_many([]) == []
    assert client.wait_many([]) == []


def test_jobs_are_found_by_status_and_labels(client: Client) -> None:
    for name, labels in (("a", {"team": "x", "gpu": "1"}), ("b", {"team": "x"}), ("c", {})):
        client.create_job(
            {"name": name, "namespace": "labelled", "command": "true", "labels": labels}
        )
    client.pause_job("labelled/b")

    def names(**filters: Any) -> list[str]:  # Any: the client's own
        return [job.name for job in client.jobs(namespace="labelled", **filters)]

    assert names(labels={"team": "x"}) == ["a", "b"]
    assert names(labels={"team": "x", "gpu": None}) == ["a"]
    assert names(status="paused") == ["b"]
    assert names(status="paused", labels={"gpu": None}) == []


def test_a_ledger_is_read_from_either_end(client: Client) -> None:
    job = client.create_job({"name": "ticks", "schedule": "@every 1s", "command": "true"})
    until(lambda: len(list(client.ledger("ticks"))) >= 2)
    client.delete_job("ticks")

    oldest = [entry.fire_time for entry in client.ledger(job.job_id)]
    newest = [entry.fire_time for entry in client.ledger(job.job_id, newest_first=True)]

    assert newest == oldest[::-1]
    assert oldest == sorted(oldest)


DRY_WRITES: list[Callable[[Client], object]] = [
    lambda client: client.create_job({"name": "other", "command": "true"}, dry_run=True),
    lambda client: client.create_many([{"name": "other", "command": "true"}], dry_run=True),
    lambda client: client.put_job({"name": "dry", "command": "false"}, dry_run=True),
    lambda client: client.patch_job("dry", {"description": "new"}, dry_run=True),
    lambda client: client.pause_job("dry", dry_run=True),
    lambda client: client.resume_job("dry", dry_run=True),
    lambda client: client.trigger("dry", dry_run=True),
    lambda client: client.trigger_many(["dry"], dry_run=True),
    lambda client: client.delete_job("dry", dry_run=True),
]


def test_a_dry_run_changes_nothing(client: Client) -> None:
    before = client.create_job({"name": "dry", "command": "true"})

    for write in DRY_WRITES:
        write(client)

    assert client.job("dry") == before
    assert not list(client.executions(job="dry"))
    with pytest.raises(NotFound):
        client.job("other")


def test_a_dry_run_ends_nothing(client: Client) -> None:
    client.create_job({"name": "dry-long", "command": "sleep 60"})
    execution_id = client.trigger("dry-long").execution_id

    client.cancel(execution_id, dry_run=True)

    with pytest.raises(WaitTimedOut):
        client.wait(execution_id, timeout_s=0.2)
    client.cancel(execution_id)


CHANGES: list[Callable[[Client, int], object]] = [
    lambda client, version: client.put_job({"name": "v", "command": "no"}, if_version=version),
    lambda client, version: client.patch_job("v", {"description": "x"}, if_version=version),
    lambda client, version: client.delete_job("v", if_version=version),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_may_depend_on_the_version(
    client: Client, change: Callable[[Client, int], object]
) -> None:
    job = client.put_job({"name": "v", "command": "true"})

    with pytest.raises(Conflict):
        change(client, job.version + 1)
    assert client.job("v") == job

    change(client, job.version)


def test_a_trace_goes_with_the_execution(client: Client) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.create_job({"name": "traced", "command": "echo $TRACEPARENT"})

    made = client.trigger("traced", traceparent=trace)

    assert client.wait(made.execution_id, timeout_s=WAIT_S).traceparent == trace
    assert client.output(made.execution_id) == f"{trace}\n".encode()


def test_the_same_idempotency_key_gives_the_same_execution(client: Client) -> None:
    client.create_job({"name": "keyed", "command": "true"})

    first = client.trigger("keyed", idempotency_key="a-key")
    second = client.trigger("keyed", idempotency_key="a-key")

    assert first.execution_id == second.execution_id
    assert client.trigger("keyed").execution_id != first.execution_id


def test_a_wait_ends_at_its_timeout_and_the_execution_continues(client: Client) -> None:
    client.create_job({"name": "long", "command": "sleep 60"})
    execution_id = client.trigger("long").execution_id

    with pytest.raises(WaitTimedOut, match=execution_id) as one:
        client.wait(execution_id, timeout_s=0.05)
    with pytest.raises(WaitTimedOut) as many:
        client.wait_many([execution_id], timeout_s=0)

    assert one.value.executions[0].execution_id == execution_id
    assert many.value.executions[0].finished_at is None
    client.cancel(execution_id)
    assert client.wait(execution_id, timeout_s=WAIT_S).status == "cancelled"


REFUSED: list[tuple[Callable[[Client], object], type[RequestFailed], str]] = [
    (lambda client: client.job("absent"), NotFound, "job_not_found"),
    (lambda client: client.execution("../../x?y#z"), NotFound, "execution_not_found"),
    (lambda client: client.trigger("a/b/c"), NotFound, "job_not_found"),
    (lambda client: client.create_job({"name": "x"}), Invalid, "invalid_job"),
    (lambda client: client.create_job({"name": 1}), Invalid, "invalid_body"),
    (lambda client: client.create_job({"name": object()}), Invalid, "not_json"),
    (lambda client: list(client.executions(status="done")), Invalid, "invalid_query"),
]


@pytest.mark.parametrize(("call", "kind", "code"), REFUSED)
def test_refusals_come_as_errors_with_the_problem(
    client: Client, call: Callable[[Client], object], kind: type[RequestFailed], code: str
) -> None:
    with pytest.raises(kind) as caught:
        call(client)

    assert caught.value.code == caught.value.problem.code == code
    assert caught.value.detail


def test_an_error_names_its_request(client: Client) -> None:
    with pytest.raises(NotFound) as caught:
        client.job("sales/no such")

    error = caught.value
    assert (error.method, error.path) == ("GET", "/api/v1/jobs/sales%2Fno%20such")
    assert error.request_id == error.problem.request_id != ""


async def test_an_error_without_a_node_names_its_request_too() -> None:
    async with AsyncClient("http://127.0.0.1:1", repeats_max=0) as client:
        with pytest.raises(Unreachable) as of_call:
            await client.trigger("report")
        with pytest.raises(Unreachable) as of_stream:
            await anext(client.events())

    assert (of_call.value.method, of_call.value.request_id) == ("POST", "")
    assert (of_stream.value.method, of_stream.value.path) == ("GET", "/api/v1/events")


def test_the_errors_of_the_client_can_be_imported_from_the_package() -> None:
    raised = {
        name
        for name, each in vars(rota.client.errors).items()
        if isinstance(each, type) and issubclass(each, RotaError)
    }

    assert raised <= set(rota.client.__all__)
    for name in rota.client.__all__:
        assert getattr(rota.client, name).__name__ == name


def test_another_job_with_the_same_name_is_a_conflict(client: Client) -> None:
    client.create_job({"name": "taken", "command": "true"})

    with pytest.raises(Conflict, match="taken"):
        client.create_job({"name": "taken", "command": "false"})


def test_a_node_reports_its_version_and_readiness(client: Client) -> None:
    assert client.version().cluster == "default"
    assert client.ready()


def until(found: Callable[[], T]) -> T:
    """Return the result of *found* as soon as it is true."""
    for _ in range(400):
        result = found()
        if result:
            return result
        threading.Event().wait(0.05)
    raise AssertionError("the condition was never met")
