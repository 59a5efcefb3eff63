"""`Client` and `AsyncClient` against a real node, and against a strange one."""

import asyncio
import gc
import inspect
import json
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, get_overloads

import pytest
from aiohttp import web

import rota.client
import rota.client.errors
from rota.client import AsyncClient, Client
from rota.client.dev.local_node import LocalNode, NodeNotStarted
from rota.client.errors import (
    Conflict,
    Invalid,
    NodeFailed,
    NotAllowed,
    NotFound,
    RequestFailed,
    TooBusy,
    Unreachable,
    WaitTimedOut,
)
from rota.client.transport.call import Response, failure_of
from rota.client.transport.endpoints import urls_of
from rota.core.errors import RotaError
from rota.wire.documents import (
    EventView,
    JobBody,
    RetryBody,
    TaskBody,
    TriggerItem,
)
from support.strange_servers import Strange, hang_up, problem, refusing, serving

T = TypeVar("T")
WAIT_S = 20.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node for the tests of this module."""
    data_dir = tmp_path_factory.mktemp("client") / "data"
    with LocalNode(data_dir, flags=("--drain", "0s")) as local_node:
        yield local_node.url


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


# -- both clients are one --------------------------------------------------------------------------


def public_methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method).replace(return_annotation=None)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def signatures(kind: type, name: str) -> list[inspect.Signature]:
    """Return those of a method's overloads, or its own."""
    method = getattr(kind, name)
    return [inspect.signature(each) for each in get_overloads(method) or [method]]


def blocking_form(annotation: str) -> str:
    """Return how what is awaited is named where it is waited for."""
    waited_for = annotation.replace(
        "collections.abc.Coroutine[typing.Any, typing.Any, bytes]", "<class 'bytes'>"
    )
    return waited_for.replace("AsyncGenerator", "Generator").replace(", None]", ", None, None]")


def test_both_clients_have_the_same_methods() -> None:
    assert public_methods(Client) == public_methods(AsyncClient)


def test_both_clients_have_the_same_attributes(url: str) -> None:
    one, other = AsyncClient(url), Client(url)

    assert one.url == other.url == url
    assert one.urls == other.urls == (url,)


@pytest.mark.parametrize("name", sorted(public_methods(Client)))
def test_both_clients_return_the_same(name: str) -> None:
    blocking = [str(each.return_annotation) for each in signatures(Client, name)]
    awaited = [str(each.return_annotation) for each in signatures(AsyncClient, name)]

    assert blocking == [blocking_form(each) for each in awaited]


@pytest.mark.parametrize("name", sorted(public_methods(Client)))
def test_both_clients_have_the_same_overloads(name: str) -> None:
    blocking, awaited = signatures(Client, name), signatures(AsyncClient, name)

    assert [each.parameters for each in blocking] == [each.parameters for each in awaited]


@pytest.mark.parametrize("name", sorted(set(public_methods(Client)) - {"__init__", "close"}))
def test_both_clients_say_the_same_of_themselves(name: str) -> None:
    assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__


# -- calls -----------------------------------------------------------------------------------------


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

    triggered = client.trigger_many(["one-of-many", "nobody", TriggerItem(job="one-of-many")])

    assert triggered[1].error is not None
    assert triggered[1].error.code == "job_not_found"
    ids = [item.execution_id for item in triggered if item.execution_id]
    executions = client.wait_many(reversed(ids), timeout_s=WAIT_S)
    assert [each.execution_id for each in executions] == ids[::-1]
    assert {each.status for each in executions} == {"success"}


def test_more_triggers_than_one_request_takes_are_divided(client: Client) -> None:
    triggered = client.trigger_many(["nobody"] * 1_001)

    assert len(triggered) == 1_001
    assert all(item.error for item in triggered)


def test_what_a_call_is_given_may_come_from_other_calls(client: Client) -> None:
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


def test_a_wait_ends_in_time_and_the_execution_goes_on(client: Client) -> None:
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
    (lambda client: client.job("nobody"), NotFound, "job_not_found"),
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


async def test_an_error_without_a_document_has_the_request_id_of_the_header() -> None:
    async def broken(_: web.Request) -> web.Response:
        return web.Response(status=404, text="<html>", headers={"X-Request-Id": "abc"})

    async def unreadable(_: web.Request) -> web.Response:
        return web.Response(text="<html>", headers={"X-Request-Id": "def"})

    async with asking(Strange(broken, unreadable)) as client:
        with pytest.raises(NotFound) as without_document:
            await client.version()
        with pytest.raises(NodeFailed) as not_a_document:
            await client.version()

    assert without_document.value.request_id == "abc"
    assert not_a_document.value.request_id == "def"


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


def test_a_node_tells_its_version_and_that_it_is_ready(client: Client) -> None:
    assert client.version().cluster == "default"
    assert client.ready()


# -- threads, loops and interrupts -----------------------------------------------------------------


def client_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "rota-client"}


def test_a_closed_client_leaves_no_thread(url: str) -> None:
    before = client_threads()

    with Client(url) as client:
        client.version()
        assert client_threads() - before

    assert client_threads() == before


def test_a_forgotten_client_leaves_no_thread(url: str) -> None:
    before = client_threads()
    client = Client(url)
    client.version()

    del client
    gc.collect()

    assert client_threads() == before


def test_a_client_that_raised_is_forgotten_as_well(url: str) -> None:
    before = client_threads()
    client = Client(url)
    with pytest.raises(NotFound):
        client.job("nobody")

    del client
    gc.collect()

    assert client_threads() == before


async def test_a_blocking_client_works_under_a_running_loop(url: str) -> None:
    with Client(url) as client:
        assert client.ready()


def test_threads_share_a_client(client: Client) -> None:
    names: list[str] = []
    threads = [
        threading.Thread(target=lambda: names.append(client.version().node_id)) for _ in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert len(names) == 8


def test_a_closed_client_says_so(url: str) -> None:
    client = Client(url)
    client.close()

    with pytest.raises(RuntimeError, match="the client is closed"):
        client.version()


def test_a_list_is_not_cut_short_when_the_client_is_closed(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.paging.PAGE", 2)
    for number in range(3):
        client.create_job({"name": f"c{number}", "namespace": "closed", "command": "true"})
    own = Client(url)
    jobs = own.jobs(namespace="closed")
    next(jobs)

    own.close()

    assert next(jobs).name == "c1"
    with pytest.raises(RuntimeError, match="the client is closed"):
        next(jobs)


def test_a_client_with_another_timeout_keeps_the_first_alive(url: str) -> None:
    before = client_threads()
    near = Client(url).within(5.0)
    gc.collect()

    assert near.ready()

    near.close()
    assert client_threads() == before


@contextmanager
def interrupted() -> Generator[None]:
    """Press Ctrl-C a moment after the beginning."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.get_ident()
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_an_interrupted_wait_leaves_the_client_usable(client: Client) -> None:
    client.create_job({"name": "interrupted", "command": "sleep 60"})
    execution_id = client.trigger("interrupted").execution_id

    with pytest.raises(KeyboardInterrupt), interrupted():
        client.wait(execution_id)

    assert client.cancel(execution_id).execution_id == execution_id


def test_an_interrupted_iterator_is_left_when_it_can_be(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_left = threading.Event()

    async def slow_to_leave(*stream: object) -> AsyncGenerator[EventView, None]:
        del stream
        try:
            await asyncio.Event().wait()
            yield pytest.fail("nothing comes")
        finally:
            await asyncio.sleep(0.1)
            has_left.set()

    monkeypatch.setattr("rota.client.streams.streams.follow_events", slow_to_leave)

    with pytest.raises(KeyboardInterrupt), interrupted():
        next(client.events())

    assert has_left.is_set()


# -- nodes that are busy, broken or not there ------------------------------------------------------


@asynccontextmanager
async def asking(
    strange: Strange, **options: Any
) -> AsyncGenerator[AsyncClient, None]:  # Any: the client's own
    async with serving(strange) as url, AsyncClient(url, **options) as client:
        yield client


async def triggered(request: web.Request) -> web.Response:
    del request
    return web.json_response({"executionId": "e", "jobId": "j", "status": "queued"})


async def no_content(request: web.Request) -> web.Response:
    del request
    return web.Response(status=204)


async def not_json(request: web.Request) -> web.Response:
    del request
    return web.Response(text="<html>hello</html>", content_type="text/html")


async def test_a_busy_node_is_asked_again_with_the_same_key() -> None:
    strange = Strange(refusing(503, "0"), refusing(429), triggered)

    async with asking(strange) as client:
        made = await client.trigger("job")

    assert made.execution_id == "e"
    assert len(strange.asked) == 3
    assert len(set(strange.keys)) == 1
    assert strange.keys[0]


async def test_two_triggers_have_two_keys() -> None:
    strange = Strange(triggered)

    async with asking(strange) as client:
        await client.trigger("job")
        await client.trigger("job")

    assert len(set(strange.keys)) == 2


async def test_a_node_that_stays_busy_is_given_up() -> None:
    strange = Strange(refusing(429))

    async with asking(strange, repeats_max=2) as client:
        with pytest.raises(TooBusy, match="told_so"):
            await client.trigger("job")

    assert len(strange.asked) == 3


async def test_a_retry_after_beyond_the_deadline_is_not_waited_for() -> None:
    strange = Strange(refusing(503, "3600"))

    async with asking(strange) as client:
        with pytest.raises(TooBusy) as caught:
            await client.version()

    assert caught.value.retry_after_s == 3600
    assert len(strange.asked) == 1


async def test_what_is_safe_to_repeat_is_repeated_when_the_connection_breaks() -> None:
    strange = Strange(hang_up, triggered)

    async with asking(strange) as client:
        await client.trigger("job")

    assert len(set(strange.keys)) == 1
    assert len(strange.asked) == 2


async def test_a_deletion_is_repeated_with_its_key_when_the_connection_breaks() -> None:
    strange = Strange(hang_up, no_content)

    async with asking(strange) as client:
        await client.delete_job("job", if_version=3)

    assert len(strange.asked) == 2
    assert len(set(strange.keys)) == 1
    assert strange.keys[0]


async def test_what_has_no_key_is_not_repeated_when_the_connection_breaks() -> None:
    strange = Strange(hang_up)

    async with asking(strange) as client:
        with pytest.raises(Unreachable) as caught:
            await client.forget_node("node")

    assert caught.value.may_have_arrived
    # aiohttp would have, by itself: the second would not find the node.
    assert len(strange.asked) == 1


async def test_an_answer_that_makes_no_sense_is_the_nodes_failure() -> None:
    async with asking(Strange(not_json)) as client:
        with pytest.raises(NodeFailed, match="is there a rota node"):
            await client.version()


async def test_a_slow_node_is_given_up_in_time() -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with asking(Strange(never), timeout_s=0.1) as client:
        with pytest.raises(Unreachable, match="too long"):
            await client.version()


async def test_no_node_is_told_as_such() -> None:
    async with AsyncClient("http://127.0.0.1:1", repeats_max=0) as client:
        with pytest.raises(Unreachable, match="Connection refused") as caught:
            await client.version()
        assert not await client.ready()

    assert not caught.value.may_have_arrived
    assert caught.value.problem.code == "unreachable"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, NotFound),
        (405, Invalid),
        (409, Conflict),
        (412, Conflict),
        (413, Invalid),
        (415, Invalid),
        (422, Invalid),
        (429, TooBusy),
        (500, NodeFailed),
        (502, NodeFailed),
        (503, TooBusy),
        (302, NodeFailed),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[RequestFailed]) -> None:
    told = failure_of(Response(status, json.dumps(problem(status, "x")).encode()))
    untold = failure_of(Response(status, b"<html>"))

    assert type(told) is type(untold) is kind
    assert (told.code, untold.code) == ("x", "unexplained")


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:7400",
        "ftp://x",
        "http://",
        "http://x?y",
        "http://x:99999",
        "http://[::1",
        "http://x,,http://y",
        [],
        ["http://x", ""],
    ],
)
def test_a_url_that_is_none_is_refused_at_once(url: str | list[str]) -> None:
    with pytest.raises(ValueError, match="is not the URL"):
        urls_of(url)


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:7999/")

    assert AsyncClient().url == "http://127.0.0.1:7999"
    assert AsyncClient("http://127.0.0.1:1").url == "http://127.0.0.1:1"


@pytest.mark.parametrize("given", ["http://a, http://b/,http://a", ["http://a/", "http://b"]])
def test_several_addresses_are_given_with_commas_or_one_by_one(
    given: str | list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert urls_of(given) == ("http://a", "http://b")

    monkeypatch.setenv("ROTA_URL", ",".join(given) if isinstance(given, list) else given)
    assert urls_of(None) == urls_of("") == ("http://a", "http://b")


# -- a local node ----------------------------------------------------------------------------------


def test_a_second_node_on_a_data_directory_is_refused(tmp_path: Path) -> None:
    with LocalNode(tmp_path / "data"):
        second = LocalNode(tmp_path / "data")

        with pytest.raises(NodeNotStarted, match="another node uses its data directory"):
            second.start()


def test_a_taken_port_is_told(url: str, tmp_path: Path) -> None:
    taken = int(url.rpartition(":")[2])

    with pytest.raises(NodeNotStarted, match="address is in use"):
        LocalNode(tmp_path / "data", port=taken).start()


def until(found: Callable[[], T]) -> T:
    """Return what *found* finds as soon as it is something."""
    for _ in range(400):
        result = found()
        if result:
            return result
        threading.Event().wait(0.05)
    raise AssertionError("it never came")
