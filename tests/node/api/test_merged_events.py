"""Followed events and output over lost connections and nodes."""

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rota.client import AsyncClient, Client
from rota.client.dev.local_node import LocalNode
from rota.client.errors import Invalid, NotFound, OutputBroken, Unreachable
from rota.wire.documents import EventView
from support.rotad import Rotad
from support.strange_servers import Strange, passing_on, sending_lines, serving, without_chance

T = TypeVar("T")
WAIT_S = 20.0


@pytest.fixture(scope="module")
def client(node: Rotad) -> Iterator[Client]:
    with Client(node.url) as client:
        yield client


def opened(events: Iterator[EventView]) -> Iterator[EventView]:
    """Return *events* after the opening of their stream."""
    assert next(events).type == "stream.opened"
    return events


# -- events ----------------------------------------------------------------------------------------


def test_events_of_a_job_come_in_order(client: Client) -> None:
    with closing(client.events(namespace="ordered")) as events:
        opened(events)
        job = client.create_job({"name": "job", "namespace": "ordered", "command": "true"})
        made = client.trigger("ordered/job")

        received = [next(events) for _ in range(6)]

    assert [event.type for event in received] == [
        "job.created",
        "execution.queued",
        "execution.running",
        "task.running",
        "task.success",
        "execution.success",
    ]
    assert {(event.job, event.job_id) for event in received} == {("ordered/job", job.job_id)}
    assert {event.execution_id for event in received[1:]} == {made.execution_id}


def test_only_matching_events_are_delivered(client: Client) -> None:
    for name in ("wanted", "unwanted"):
        client.create_job({"name": name, "namespace": "chosen", "command": "false"})

    with closing(client.events(job="chosen/wanted", types=["execution", "job.paused"])) as events:
        opened(events)
        client.trigger("chosen/unwanted")
        client.wait(client.trigger("chosen/wanted").execution_id)
        client.pause_job("chosen/wanted")
        received = [next(events).type for _ in range(4)]

    assert received == ["execution.queued", "execution.running", "execution.failed", "job.paused"]


def test_an_execution_is_followed_by_status(client: Client) -> None:
    client.create_job({"name": "by-status", "command": "sleep 0.1"})

    with closing(client.events(types="execution", status="success")) as events:
        opened(events)
        made = client.trigger("by-status")

        assert next(events).execution_id == made.execution_id


def test_a_stream_continues_after_a_given_event(client: Client) -> None:
    with closing(client.events(types="job")) as events:
        opened(events)
        client.create_job({"name": "before", "namespace": "later", "command": "true"})
        last = next(events)
    client.create_job({"name": "meanwhile", "namespace": "later", "command": "true"})

    with closing(client.events(types="job", after=last.id)) as events:
        assert next(opened(events)).job == "later/meanwhile"


@pytest.mark.parametrize("filters", [{"types": ["exekution"]}, {"after": "what?"}])
def test_a_stream_with_invalid_filters_is_refused(
    client: Client,
    filters: dict[str, Any],  # Any: of two types
) -> None:
    with pytest.raises(Invalid):
        next(client.events(**filters))


async def test_an_event_comes_once_though_the_connection_was_lost(node: Rotad) -> None:
    opening_and_a_bit_more = 200
    proxy = Strange(passing_on(node.url, cut_after=opening_and_a_bit_more), passing_on(node.url))

    async with (
        serving(proxy) as url,
        AsyncClient(url) as client,
        aclosing(client.events(namespace="lost")) as events,
        AsyncClient(node.url) as direct,
    ):
        assert (await anext(events)).type == "stream.opened"
        await direct.create_job({"name": "one", "namespace": "lost", "command": "true"})
        await direct.create_job({"name": "two", "namespace": "lost", "command": "true"})
        received = [await anext(events) for _ in range(2)]

    assert [event.job for event in received] == ["lost/one", "lost/two"]
    assert len(proxy.asked) == 2


@pytest.mark.parametrize("word", ["dropped", "closed"])
async def test_a_connection_that_a_node_has_ended_is_made_again(word: str) -> None:
    last_word, news = event(7, f"stream.{word}"), event(8, "job.created")
    strange = Strange(sending_lines(event(0, "stream.opened"), last_word), sending_lines(news))

    async with (
        serving(strange) as url,
        AsyncClient(url) as client,
        aclosing(client.events()) as events,
    ):
        received = [(await anext(events)).type for _ in range(2)]

    assert received == ["stream.opened", "job.created"]
    assert strange.asked[1].headers["Last-Event-ID"] == "life-7"


async def test_a_silent_connection_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.client.streams.streams.EVENTS_SILENCE_S", 0.1)
    silent = sending_lines(event(0, "stream.opened"), is_over=False)
    strange = Strange(silent, sending_lines(event(1, "job.created")))

    async with (
        serving(strange) as url,
        AsyncClient(url) as client,
        aclosing(client.events()) as events,
    ):
        assert (await anext(events)).type == "stream.opened"
        assert (await anext(events)).type == "job.created"


@pytest.mark.timeout(20)
async def test_connections_without_anything_new_are_given_up() -> None:
    strange = Strange(sending_lines(event(0, "stream.opened")))

    async with (
        serving(strange) as url,
        AsyncClient(url, timeout_s=0.3) as client,
        aclosing(client.events()) as events,
    ):
        assert (await anext(events)).type == "stream.opened"
        with pytest.raises(Unreachable, match="lost soon after it was opened"):
            await anext(events)


def _kill(node: LocalNode) -> None:
    assert node.process is not None
    node.process.kill()


def _put_all(events: Iterator[EventView], received: "queue.Queue[EventView]") -> None:
    for event in events:
        received.put(event)


@pytest.mark.parametrize("end", [LocalNode.stop, _kill])
def test_events_continue_after_a_restart_of_the_node(
    tmp_path: Path, end: Callable[[LocalNode], object]
) -> None:
    with LocalNode(tmp_path / "data", flags=("--drain", "0s")) as node, Client(node.url) as client:
        received: queue.Queue[EventView] = queue.Queue()
        events = opened(client.events(types="job"))
        listening = threading.Thread(target=_put_all, args=(events, received))
        listening.start()
        client.create_job({"name": "before", "command": "true"})
        before = received.get(timeout=WAIT_S)

        end(node)
        node.stop()
        with LocalNode(node.data_dir, port=node.port, flags=("--drain", "0s")):
            gap = received.get(timeout=WAIT_S)
            client.create_job({"name": "after", "command": "true"})
            after = received.get(timeout=WAIT_S)
            client.close()
            listening.join(WAIT_S)

    assert [before.job, gap.type, after.job] == ["default/before", "stream.gap", "default/after"]
    assert not listening.is_alive()


def test_events_continue_at_another_node_with_a_gap(
    own_node: Rotad, node: Rotad, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_chance(monkeypatch)
    own_node.start()
    with (
        Client([own_node.url, node.url]) as client,
        closing(client.events(namespace="elsewhere")) as events,
        Client(node.url) as direct,
    ):
        opened(events)

        own_node.kill()
        gap = next(events)
        direct.create_job({"name": "job", "namespace": "elsewhere", "command": "true"})

        assert gap.type == "stream.gap"
        assert next(events).job == "elsewhere/job"


@pytest.mark.timeout(30)
def test_events_are_given_up_when_no_node_comes_back(own_node: Rotad) -> None:
    own_node.start()
    with Client(own_node.url, timeout_s=0.5) as client:
        events = opened(client.events())

        own_node.kill()

        with pytest.raises(Unreachable, match="Connection refused"):
            next(events)


def test_events_end_after_the_client_is_closed(node: Rotad) -> None:
    client = Client(node.url)
    events = opened(client.events(namespace="closed"))

    client.close()

    assert list(events) == []


async def test_a_lost_connection_is_made_again_at_the_same_node_first(
    node: Rotad, own_node: Rotad, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_chance(monkeypatch)
    own_node.start()
    proxy = Strange(passing_on(node.url, cut_after=200), passing_on(node.url))

    async with (
        serving(proxy) as url,
        AsyncClient([url, own_node.url]) as client,
        aclosing(client.events(namespace="stays")) as events,
        AsyncClient(node.url) as direct,
    ):
        assert (await anext(events)).type == "stream.opened"
        await direct.create_job({"name": "one", "namespace": "stays", "command": "true"})

        assert (await anext(events)).job == "stays/one"


async def test_events_end_when_the_client_is_closed(node: Rotad) -> None:
    client = AsyncClient(node.url)
    events = client.events(namespace="closing")
    assert (await anext(events)).type == "stream.opened"

    async with asyncio.TaskGroup() as tasks:
        rest = tasks.create_task(_listed(events))
        await asyncio.sleep(0)
        await client.close()

    assert rest.result() == []


async def test_a_client_that_is_closed_stops_looking_for_a_node() -> None:
    async with serving(Strange(sending_lines(event(0, "stream.opened")))) as url:
        client = AsyncClient(url)
        events = client.events()
        assert (await anext(events)).type == "stream.opened"

    async with asyncio.TaskGroup() as tasks:
        rest = tasks.create_task(_listed(events))
        # The client is then between two tries; it must end at any point.
        await asyncio.sleep(0.3)
        await client.close()

    assert rest.result() == []


# -- output ----------------------------------------------------------------------------------------


def test_output_is_followed_until_the_attempt_has_ended(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo last"
    client.create_job({"name": "followed", "command": command})
    execution_id = client.trigger("followed").execution_id
    until(lambda: (client.execution(execution_id).tasks or {})["main"].attempts)

    context = client.output(execution_id, follow=True)
    first = next(context)
    gate.touch()

    assert first == b"first\n"
    assert b"".join(context) == b"last\n"


def test_a_follower_may_leave_early(client: Client) -> None:
    client.create_job({"name": "left", "command": "echo here; sleep 60"})
    execution_id = client.trigger("left").execution_id
    until(lambda: (client.execution(execution_id).tasks or {})["main"].attempts)

    for part in client.output(execution_id, follow=True):
        assert part == b"here\n"
        break

    assert client.cancel(execution_id).execution_id == execution_id


async def test_output_comes_once_though_the_connection_was_lost(node: Rotad) -> None:
    execution = node.run(name="cut", command="seq 100000")
    proxy = Strange(
        passing_on(node.url),
        passing_on(node.url, cut_after=100_000),
        passing_on(node.url, cut_after=50_000),
        passing_on(node.url),
    )

    async with serving(proxy) as url, AsyncClient(url) as client:
        context = [part async for part in client.output(execution["executionId"], follow=True)]

    assert b"".join(context) == b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert len(proxy.asked) == 4


async def test_output_is_followed_of_one_attempt_though_the_next_has_begun(node: Rotad) -> None:
    retries = {"limit": 1, "backoff": "fixed", "delay": 0}
    command = 'echo "attempt $ROTA_ATTEMPT"; exit 1'
    execution = node.run(name="again", command=command, retries=retries)
    proxy = Strange(passing_on(node.url, cut_after=5), passing_on(node.url))

    async with serving(proxy) as url, AsyncClient(url) as client:
        output = client.output(execution["executionId"], attempt=1, follow=True)
        context = [part async for part in output]

    assert b"".join(context) == b"attempt 1\n"


async def test_the_latest_attempt_stays_the_one_that_is_followed(node: Rotad) -> None:
    execution = node.run(name="pinned", command="echo out")
    proxy = Strange(passing_on(node.url))

    async with serving(proxy) as url, AsyncClient(url) as client:
        _ = [part async for part in client.output(execution["executionId"], follow=True)]

    assert proxy.asked[-1].query["attempt"] == "1"


async def test_output_that_is_silent_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.client.streams.streams.OUTPUT_SILENCE_S", 0.1)
    strange = Strange(sending_lines("first", is_over=False), sending_lines("first", "last"))

    async with serving(strange) as url, AsyncClient(url) as client:
        context = [part async for part in client.output("e", attempt=1, follow=True)]

    assert b"".join(context) == b"first\nlast\n"


async def test_output_without_its_beginning_is_not_continued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.client.streams.streams.OUTPUT_SILENCE_S", 0.1)
    strange = Strange(sending_lines("first", is_over=False), sending_lines("last"))

    async with serving(strange) as url, AsyncClient(url) as client:
        output = client.output("e", attempt=1, follow=True)
        assert await anext(output) == b"first\n"
        with pytest.raises(OutputBroken, match="no longer stores the output"):
            await anext(output)


def test_output_continues_after_a_restart_of_its_node(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with LocalNode(tmp_path / "data", flags=("--drain", "0s")) as node, Client(node.url) as client:
        line = f"echo first; until test -e {gate}; do sleep 0.02; done; echo last"
        client.create_job({"name": "cut-off", "command": line})
        execution_id = client.trigger("cut-off").execution_id
        until(lambda: (client.execution(execution_id).tasks or {})["main"].attempts)
        context = client.output(execution_id, attempt=1, follow=True)
        assert next(context) == b"first\n"

        _kill(node)
        node.stop()
        with LocalNode(node.data_dir, port=node.port, flags=("--drain", "0s")):
            gate.touch()
            assert b"".join(context) == b"last\n"


def test_output_of_nothing_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        next(client.output("nothing", follow=True))


def event(number: int, kind: str) -> str:
    """Return an event in the JSON of a node."""
    at = "2027-01-01T00:00:00.000000Z"
    return json.dumps({"id": f"life-{number}", "type": kind, "at": at})


def until(found: Callable[[], T]) -> T:
    """Return the result of *found* as soon as it is true."""
    for _ in range(400):
        result = found()
        if result:
            return result
        threading.Event().wait(0.05)
    raise AssertionError("the condition was never met")


async def _listed(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]
