"""`Client`, `AsyncClient` and the CLI against a real node; and the client against a strange one."""
# ruff: noqa: D102 - the methods of the three ways are what their names say

import asyncio
import gc
import inspect
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rota.client import AsyncClient, Client, requests
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
from rota.client.local_node import LocalNode, NodeNotStarted
from rota.client.wire import (
    ExecutionView,
    JobBody,
    JobView,
    LedgerEntryView,
    NextFireView,
    ProblemView,
    RetryBody,
    TaskBody,
    TriggerItem,
)

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


# -- one scenario, three ways ----------------------------------------------------------------------


class Way(Protocol):
    """A way to talk to a node."""

    def create(self, definition: dict[str, object]) -> JobView: ...
    def jobs(self, q: str) -> list[JobView]: ...
    def next_fires(self, job: str, count: int) -> list[NextFireView]: ...
    def run(self, job: str) -> ExecutionView: ...
    def executions(self, job: str) -> list[ExecutionView]: ...
    def output(self, execution_id: str) -> bytes: ...
    def ledger(self, job: str) -> list[LedgerEntryView]: ...
    def delete(self, job: str) -> None: ...
    def close(self) -> None: ...


class ByClient:
    """The blocking client."""

    def __init__(self, url: str) -> None:
        self.client = Client(url)

    def create(self, definition: dict[str, object]) -> JobView:
        return self.client.create_job(definition)

    def jobs(self, q: str) -> list[JobView]:
        return list(self.client.jobs(q=q))

    def next_fires(self, job: str, count: int) -> list[NextFireView]:
        return self.client.next_fires(job, count=count)

    def run(self, job: str) -> ExecutionView:
        return self.client.wait(self.client.trigger(job).execution_id, timeout_s=WAIT_S)

    def executions(self, job: str) -> list[ExecutionView]:
        return list(self.client.executions(job=job))

    def output(self, execution_id: str) -> bytes:
        return self.client.output(execution_id)

    def ledger(self, job: str) -> list[LedgerEntryView]:
        return list(self.client.ledger(job))

    def delete(self, job: str) -> None:
        self.client.delete_job(job)

    def close(self) -> None:
        self.client.close()


class ByAsyncClient:
    """The client for event loops."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(url)

    def create(self, definition: dict[str, object]) -> JobView:
        return self.runner.run(self.client.create_job(definition))

    def jobs(self, q: str) -> list[JobView]:
        return self.runner.run(_listed(self.client.jobs(q=q)))

    def next_fires(self, job: str, count: int) -> list[NextFireView]:
        return self.runner.run(self.client.next_fires(job, count=count))

    def run(self, job: str) -> ExecutionView:
        async def run() -> ExecutionView:
            triggered = await self.client.trigger(job)
            return await self.client.wait(triggered.execution_id, timeout_s=WAIT_S)

        return self.runner.run(run())

    def executions(self, job: str) -> list[ExecutionView]:
        return self.runner.run(_listed(self.client.executions(job=job)))

    def output(self, execution_id: str) -> bytes:
        return self.runner.run(self.client.output(execution_id))

    def ledger(self, job: str) -> list[LedgerEntryView]:
        return self.runner.run(_listed(self.client.ledger(job)))

    def delete(self, job: str) -> None:
        self.runner.run(self.client.delete_job(job))

    def close(self) -> None:
        self.runner.run(self.client.close())
        self.runner.close()


class ByCli:
    """The command line."""

    def __init__(self, url: str) -> None:
        self.url = url

    def create(self, definition: dict[str, object]) -> JobView:
        made = self._rota("jobs", "create", "-f", "-", "-o", "jsonl", given=json.dumps(definition))
        return msgspec.json.decode(made, type=JobView)

    def jobs(self, q: str) -> list[JobView]:
        found = self._rota("jobs", "-q", q, "-o", "json")
        return msgspec.json.decode(found, type=list[JobView])

    def next_fires(self, job: str, count: int) -> list[NextFireView]:
        found = self._rota("next", job, "--count", str(count), "-o", "json")
        return msgspec.json.decode(found, type=list[NextFireView])

    def run(self, job: str) -> ExecutionView:
        ran = self._rota("trigger", job, "--wait", "-o", "json", statuses=(0, 1))
        return msgspec.json.decode(ran, type=ExecutionView)

    def executions(self, job: str) -> list[ExecutionView]:
        found = self._rota("executions", "list", job, "-o", "json")
        return msgspec.json.decode(found, type=list[ExecutionView])

    def output(self, execution_id: str) -> bytes:
        return self._rota("output", execution_id)

    def ledger(self, job: str) -> list[LedgerEntryView]:
        found = self._rota("ledger", job, "-o", "json")
        return msgspec.json.decode(found, type=list[LedgerEntryView])

    def delete(self, job: str) -> None:
        self._rota("jobs", "delete", job)

    def close(self) -> None:
        return

    def _rota(self, *argv: str, given: str = "", statuses: tuple[int, ...] = (0,)) -> bytes:
        program = "import sys; from rota.client.cli.main import main; sys.exit(main())"
        ran = subprocess.run(
            [sys.executable, "-c", program, "--url", self.url, *argv],
            input=given.encode(),
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        if ran.returncode == 3:
            raise NotFound(msgspec.convert(_problem(404, ran.stderr.decode()), ProblemView))
        assert ran.returncode in statuses, ran.stderr.decode()
        return ran.stdout


WAYS: dict[str, Callable[[str], Way]] = {
    "client": ByClient,
    "async": ByAsyncClient,
    "cli": ByCli,
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, url: str) -> Iterator[Way]:
    """Each way to talk to the node."""
    way = WAYS[request.param](url)
    yield way
    way.close()


def test_a_job_lives_the_same_life_whoever_asks(way: Way) -> None:
    name = f"life-{type(way).__name__}"
    definition: dict[str, object] = {
        "name": name,
        "schedule": "@every 1s",
        "command": 'test "$ROTA_ATTEMPT" = 2 && echo done',
        "retries": {"limit": 1, "backoff": "fixed", "delay": "50ms"},
    }

    job = way.create(definition)

    assert way.create(definition).job_id == job.job_id
    assert [each.name for each in way.jobs(name)] == [name]
    assert len(way.next_fires(name, 3)) == 3
    execution = way.run(name)
    assert execution.status == "success"
    assert execution.tasks is not None
    outcomes = [attempt.outcome for attempt in execution.tasks["main"].attempts]
    assert outcomes == ["failed", "succeeded"]
    assert way.output(execution.execution_id) == b"done\n"
    assert execution.execution_id in {each.execution_id for each in way.executions(name)}
    entry = until(lambda: way.ledger(name))[0]
    assert (entry.outcome, entry.count) == ("fired", 1)
    way.delete(name)
    with pytest.raises(NotFound, match=name):
        way.next_fires(name, 1)


def test_a_failed_execution_tells_how_it_failed_whoever_asks(way: Way) -> None:
    name = f"failing-{type(way).__name__}"
    way.create({"name": name, "command": "echo sorry; exit 3"})

    execution = way.run(name)

    assert execution.status == "failed"
    assert execution.tasks is not None
    [attempt] = execution.tasks["main"].attempts
    assert (attempt.outcome, attempt.exit_code) == ("failed", 3)
    assert way.output(execution.execution_id) == b"sorry\n"


# -- both clients are one --------------------------------------------------------------------------


def public_methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method).replace(return_annotation=None)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def test_both_clients_have_the_same_methods() -> None:
    assert public_methods(Client) == public_methods(AsyncClient)


@pytest.mark.parametrize("name", sorted(public_methods(Client)))
def test_both_clients_return_the_same(name: str) -> None:
    blocking = str(inspect.signature(getattr(Client, name)).return_annotation)
    awaited = str(inspect.signature(getattr(AsyncClient, name)).return_annotation)

    assert blocking == awaited.replace("AsyncGenerator", "Iterator").replace(", None]", "]")


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
    monkeypatch.setattr("rota.client.async_client.PAGE", 2)
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


def test_output_is_followed_until_the_attempt_has_ended(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo last"
    client.create_job({"name": "followed", "command": command})
    execution_id = client.trigger("followed").execution_id
    until(lambda: (client.execution(execution_id).tasks or {})["main"].attempts)

    parts = client.follow_output(execution_id)
    first = next(parts)
    gate.touch()

    assert first == b"first\n"
    assert b"".join(parts) == b"last\n"


def test_a_follower_may_leave_early(client: Client) -> None:
    client.create_job({"name": "left", "command": "echo here; sleep 60"})
    execution_id = client.trigger("left").execution_id
    until(lambda: (client.execution(execution_id).tasks or {})["main"].attempts)

    for part in client.follow_output(execution_id):
        assert part == b"here\n"
        break

    assert client.cancel(execution_id).execution_id == execution_id


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


def test_an_interrupted_wait_leaves_the_client_usable(client: Client) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    client.create_job({"name": "interrupted", "command": "sleep 60"})
    execution_id = client.trigger("interrupted").execution_id
    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.get_ident()
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1))

    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            client.wait(execution_id)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert client.cancel(execution_id).execution_id == execution_id


# -- nodes that are busy, broken or not there ------------------------------------------------------


class Strange:
    """A server that answers what it is told to, and remembers what it was asked."""

    def __init__(self, *answers: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
        self.answers = list(answers)
        self.asked: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        await request.read()
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return await answer(request)

    @property
    def keys(self) -> list[str]:
        return [request.headers.get("Idempotency-Key", "") for request in self.asked]


@asynccontextmanager
async def asking(
    strange: Strange, **options: Any
) -> AsyncGenerator[AsyncClient, None]:  # Any: the client's own
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", strange.answer)
    async with (
        TestServer(app) as server,
        AsyncClient(str(server.make_url("")), **options) as client,
    ):
        yield client


def _problem(status: int, code: str) -> dict[str, object]:
    return {"type": "", "title": "", "status": status, "code": code, "detail": code}


def refusing(
    status: int, retry_after: str | None = None
) -> Callable[[web.Request], Coroutine[Any, Any, web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        del request
        headers = {"Retry-After": retry_after} if retry_after else None
        return web.json_response(_problem(status, "told_so"), status=status, headers=headers)

    return answer


async def triggered(request: web.Request) -> web.Response:
    del request
    return web.json_response({"executionId": "e", "jobId": "j", "status": "queued"})


async def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


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


async def test_a_deletion_is_not_repeated_when_the_connection_breaks() -> None:
    strange = Strange(hang_up)

    async with asking(strange) as client:
        with pytest.raises(Unreachable) as caught:
            await client.delete_job("job")

    assert caught.value.may_have_arrived
    # aiohttp would have, by itself: the second would not find the job.
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
    told = requests.failure_of(requests.Answer(status, json.dumps(_problem(status, "x")).encode()))
    untold = requests.failure_of(requests.Answer(status, b"<html>"))

    assert type(told) is type(untold) is kind
    assert (told.code, untold.code) == ("x", "unexplained")


@pytest.mark.parametrize("url", ["127.0.0.1:7400", "ftp://x", "", "http://", "http://x?y"])
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL"):
        requests.base_url(url)


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:7999/")

    assert AsyncClient().url == "http://127.0.0.1:7999"
    assert AsyncClient("http://127.0.0.1:1").url == "http://127.0.0.1:1"


# -- a local node ----------------------------------------------------------------------------------


def test_a_second_node_on_a_data_directory_is_refused(tmp_path: Path) -> None:
    with LocalNode(tmp_path / "data"):
        second = LocalNode(tmp_path / "data")

        with pytest.raises(NodeNotStarted, match="another node uses its data directory"):
            second.start()


def test_a_taken_port_is_told(url: str, tmp_path: Path) -> None:
    taken = int(url.rpartition(":")[2])

    with pytest.raises(NodeNotStarted, match="address is taken"):
        LocalNode(tmp_path / "data", port=taken).start()


def until(found: Callable[[], T]) -> T:
    """Return what *found* finds as soon as it is something."""
    for _ in range(400):
        result = found()
        if result:
            return result
        threading.Event().wait(0.05)
    raise AssertionError("it never came")


async def _listed(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]
