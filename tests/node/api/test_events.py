"""Live events: each event once and in order; slow readers do not affect others."""

import asyncio
import json
import re
import socket
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from rota.core.errors import Refused
from rota.core.model.ids import JobId
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.commands import DeleteJob, PauseJob, ResumeJob
from rota.core.vocabulary.effects import JobEvent, PublishJob
from rota.node.feeds.events import TYPES, EventId, Events, Filter, parse_seen
from rota.node.runtime.wiring import NodeWiring
from rota.node.system.clock import SystemClock
from rota.storage.memory import MemoryStore
from support.in_process import (
    Client,
    HeldStore,
    running_works,
    save,
    serving,
    trigger,
    turns,
    until,
)
from support.rotad import Rotad

Json = Any  # Any: an answer of a node, examined by each test.

NDJSON = {"Accept": "application/x-ndjson"}
FOLLOW = "/api/v1/events"


# -- published events ------------------------------------------------------------------------------


async def test_events_of_an_execution_with_a_retry_are_in_order(node: Rotad) -> None:
    job = node.create(name="flaky", command="exit 3", retries={"limit": 1, "delay": "10ms"})
    async with following(node.url) as stream:
        opened = await stream.next()
        execution_id = node.trigger("flaky")
        delivered = await stream.until("execution.failed")

    assert opened["type"] == "stream.opened"
    assert [
        (each["type"], each["task"], each["attempt"], each["detail"]) for each in delivered
    ] == [
        ("execution.queued", None, None, ""),
        ("execution.running", None, None, ""),
        ("task.running", "main", 1, ""),
        ("task.backing_off", "main", 1, "exited with code 3"),
        ("task.running", "main", 2, ""),
        ("task.failed", "main", 2, "exited with code 3"),
        ("execution.failed", None, None, "task main failed: exited with code 3"),
    ]
    assert [each["status"] for each in delivered] == [
        each["type"].split(".")[1] for each in delivered
    ]
    assert {(each["jobId"], each["job"]) for each in delivered} == {(job["jobId"], "default/flaky")}
    assert {each["executionId"] for each in delivered} == {execution_id}
    assert [each["at"] for each in delivered] == sorted(each["at"] for each in delivered)
    assert numbers(delivered) == list(range(numbers([opened])[0] + 1, numbers([opened])[0] + 8))


async def test_changes_of_a_job_are_published(wiring: NodeWiring, client: Client) -> None:
    async with following(client.url) as stream:
        await stream.next()
        job_id = await save(wiring.context.shards, "job")
        for command in (PauseJob(job_id=job_id, reason="broken"), ResumeJob(job_id=job_id)):
            await wiring.context.shards.ask(wiring.context.shards.of_id(job_id), command)
        await wiring.context.shards.ask(
            wiring.context.shards.of_id(job_id), DeleteJob(job_id=job_id)
        )
        delivered = await stream.until("job.deleted")

    assert [(each["type"], each["detail"]) for each in delivered] == [
        ("job.created", "version 1"),
        ("job.paused", "broken"),
        ("job.resumed", ""),
        ("job.deleted", ""),
    ]
    assert {(each["jobId"], each["job"]) for each in delivered} == {(job_id, "default/job")}
    nothing = {"executionId": None, "task": None, "attempt": None, "status": None}
    assert all(each.items() >= nothing.items() for each in delivered)


async def test_fire_times_without_an_execution_are_published_and_counted(
    wiring: NodeWiring, client: Client
) -> None:
    async with following(client.url) as stream:
        await stream.next()
        job_id = await created(client, name="rests", schedule="* * * * * *")
        await client.call("POST", "/api/v1/jobs/rests/pause", {"reason": "inventory"})
        delivered = await stream.until("fire.paused")

    event = delivered[-1]
    assert (event["jobId"], event["job"], event["count"]) == (job_id, "default/rests", 1)
    assert event["fireAt"] <= event["at"]
    assert event["detail"].endswith(": inventory")
    nothing = {"executionId": None, "task": None, "attempt": None, "status": None}
    assert event.items() >= nothing.items()
    assert 'rota_fires_total{outcome="paused"} 1.0' in wiring.context.metrics.text().decode()


async def test_a_fire_time_that_fired_is_counted_and_has_the_events_of_its_execution_only(
    wiring: NodeWiring, client: Client
) -> None:
    async with following(client.url) as stream:
        await stream.next()
        await created(client, name="works", schedule="* * * * * *")
        delivered = await stream.until("execution.queued")
        await stream.until("execution.success")

    assert [each["type"] for each in delivered] == ["job.created", "execution.queued"]
    assert 'rota_fires_total{outcome="fired"}' in wiring.context.metrics.text().decode()
    assert 'rota_fires_total{outcome="fired"} 0.0' not in wiring.context.metrics.text().decode()


async def test_no_event_is_published_before_its_commit(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, serving(wiring) as client:
        job_id = await save(wiring.context.shards, "job")
        async with following(client.url) as stream:
            await stream.next()
            store.hold()
            async with asyncio.TaskGroup() as group:
                group.create_task(trigger(wiring.context.shards, job_id))
                await until(lambda: store.held_count > 0)
                count = wiring.context.events.count
                store.let_go()
            delivered = await stream.until("execution.success")

    assert delivered[0]["type"] == "execution.queued"
    assert numbers(delivered)[0] == count + 1


async def test_server_sent_events_are_the_default_form(wiring: NodeWiring, client: Client) -> None:
    async with client.session.get(client.url + FOLLOW) as answer:
        job_id = await save(wiring.context.shards, "job")
        wiring.context.events.close()
        text = await answer.text()

    frames = [dict(line.split(": ", 1) for line in frame.split("\n")) for frame in blocks(text)]
    documents = [json.loads(frame["data"]) for frame in frames]
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Request-Id"]
    assert [frame["event"] for frame in frames] == ["stream.opened", "job.created", "stream.closed"]
    assert [frame["id"] for frame in frames] == [each["id"] for each in documents]
    assert documents[1]["jobId"] == job_id


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("*/*", "text/event-stream"),
        ("application/json", "text/event-stream"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("text/html, Application/X-NDJSON; q=0.9, text/event-stream", "application/x-ndjson"),
    ],
)
async def test_the_first_form_accepted_is_given(client: Client, accept: str, given: str) -> None:
    async with client.session.head(client.url + FOLLOW, headers={"Accept": accept}) as answer:
        assert answer.content_type == given


async def test_a_head_request_is_answered_at_once(wiring: NodeWiring, client: Client) -> None:
    async with client.session.head(client.url + FOLLOW) as answer:
        body = await answer.read()

    assert (answer.status, answer.content_type, body) == (200, "text/event-stream", b"")
    assert wiring.context.events.reader_count == 0


# -- filters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("type=job", "created created"),
        ("type=execution.failed,job.created", "created created failed"),
        ("type=execution.failed&type=execution.success", "success failed"),
        ("status=success", "success success"),
        ("status=succeeded", "success success"),
        ("type=task.succeeded", "success"),
        ("status=failed,queued", "queued queued failed failed"),
        ("type=task&status=failed", "failed"),
        ("type=job&status=failed", ""),
        ("namespace=other", "created queued running running failed failed"),
        ("namespace=othe", ""),
        ("jobId=good&type=job,execution", "created queued running success"),
        ("jobId=bad&namespace=other&type=execution", "queued running failed"),
        ("jobId=other/bad&type=execution", "queued running failed"),
        ("jobId=default/good&namespace=other&type=execution", "queued running success"),
        ("jobId={bad_job}&type=execution", "queued running failed"),
        ("executionId={bad_execution}", "queued running running failed failed"),
    ],
)
async def test_a_filter_passes_the_matching_events(
    wiring: NodeWiring, client: Client, query: str, expected: str
) -> None:
    good = await created(client, name="good")
    bad = await created(client, name="bad", namespace="other", parameters={"exitCode": 1})
    await wiring.context.waiters.ended([await trigger(wiring.context.shards, good)], 10)
    execution_id = await trigger(wiring.context.shards, bad)
    await wiring.context.waiters.ended([execution_id], 10)

    asked = query.format(bad_job=bad, bad_execution=execution_id)
    start = EventId(wiring.context.events.life, 0)
    async with following(client.url, f"{asked}&lastEventId={start}") as stream:
        wiring.context.events.close()
        delivered = await stream.rest()

    assert [each["type"] for each in (delivered[0], delivered[-1])] == [
        "stream.opened",
        "stream.closed",
    ]
    assert " ".join(each["type"].split(".")[1] for each in delivered[1:-1]) == expected


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("jobId=absent", 404, "job_not_found"),
        ("executionId=nothing", 404, "execution_not_found"),
        (f"executionId={'0' * 16}-{'0' * 14}-0000", 404, "execution_not_found"),
        ("type=execution.done", 422, "invalid_query"),
        ("type=", 422, "invalid_query"),
        ("status=blocked", 422, "invalid_query"),
        ("lastEventId=7", 422, "invalid_query"),
        ("since=yesterday", 422, "invalid_query"),
    ],
)
async def test_a_filter_that_can_never_match_is_refused(
    wiring: NodeWiring, client: Client, query: str, status: int, code: str
) -> None:
    answered, problem = await client.call("GET", f"{FOLLOW}?{query}")

    assert (answered, problem["code"]) == (status, code)
    assert wiring.context.events.reader_count == 0


async def test_an_unknown_status_is_answered_with_the_valid_ones(client: Client) -> None:
    _, problem = await client.call("GET", f"{FOLLOW}?status=succes")

    assert problem["detail"] == (
        "status: 'succes' is not one of queued, running, success, failed, cancelled, ready, "
        "backing_off, waiting, skipped"
    )


# -- continuation ----------------------------------------------------------------------------------


async def test_a_client_that_reconnects_gets_every_event_once(node: Rotad) -> None:
    node.create(name="quick", type="scripted")
    async with following(node.url, "jobId=quick") as stream:
        await stream.next()
        node.trigger("quick")
        before = [await stream.next() for _ in range(3)]
    for _ in range(3):
        node.ended(node.trigger("quick"))

    last_id = before[-1]["id"]
    async with following(node.url, "jobId=quick", {"Last-Event-ID": last_id}) as stream:
        opened = await stream.next()
        after = [await stream.next() for _ in range(17)]

    assert (opened["type"], opened["id"]) == ("stream.opened", last_id)
    whole = numbers([*before, *after])
    assert whole == list(range(whole[0], whole[0] + 20))
    assert [each["type"] for each in [*before, *after]] == [
        "execution.queued",
        "execution.running",
        "task.running",
        "task.success",
        "execution.success",
    ] * 4


async def test_the_header_of_a_reconnecting_client_overrides_its_query(
    wiring: NodeWiring, client: Client
) -> None:
    for name in ("one", "two", "three"):
        await save(wiring.context.shards, name)
    life = wiring.context.events.life

    query, headers = f"lastEventId={life}-1", {"Last-Event-ID": f"{life}-2"}
    async with following(client.url, query, headers) as stream:
        delivered = await stream.until("job.created")

    assert [each["id"] for each in delivered] == [f"{life}-2", f"{life}-3"]


async def test_after_a_restart_there_is_a_gap(own_node: Rotad) -> None:
    own_node.start()
    async with following(own_node.url) as stream:
        own_node.create(name="job", type="scripted")
        seen = (await stream.until("job.created"))[-1]["id"]
    own_node.stop()
    own_node.start()

    async with following(own_node.url, "", {"Last-Event-ID": seen}) as stream:
        delivered = [await stream.next() for _ in range(2)]
        own_node.trigger("job")
        delivered.append(await stream.next())

    assert [each["type"] for each in delivered] == [
        "stream.opened",
        "stream.gap",
        "execution.queued",
    ]
    assert delivered[0]["id"] == delivered[1]["id"]
    assert delivered[0]["id"].split("-")[0] != seen.split("-")[0]


@pytest.mark.parametrize(
    ("number", "has_gap"),
    [(0, True), (4, True), (5, False), (13, False), (14, True), (10**17, True)],
)
async def test_an_id_that_is_not_in_memory_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, number: int, has_gap: bool
) -> None:
    monkeypatch.setattr("rota.node.feeds.events.KEPT", 8)
    events = Events("0000abcd", SystemClock())
    publish(events, 13)

    with events.reader(Filter(), {"0000abcd": number}) as reader:
        opening = await anext(reader.batches())

    words = ["stream.opened", "stream.gap"] if has_gap else ["stream.opened"]
    assert [each.type for each in opening] == words
    assert {each.id for each in opening} == {f"0000abcd-{13 if has_gap else number}"}


async def test_an_id_of_another_life_is_a_gap() -> None:
    events = Events("0000abcd", SystemClock())
    publish(events, 13)

    with events.reader(Filter(), {"0000abce": 13}) as reader:
        opening = await anext(reader.batches())

    assert [each.type for each in opening] == ["stream.opened", "stream.gap"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "abcd-1",
        "0000ABCD-1",
        "0000abcd-01",
        "0000abcd--1",
        "0000abcd-1 ",
        "0000abcd-²",
        "0000abcd-1,",
        "0000abcd-1,0000abcd-2",
    ],
)
async def test_an_invalid_event_id_is_refused(client: Client, text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of an event"):
        parse_seen(text)


async def test_an_invalid_event_id_in_a_header_is_refused(client: Client) -> None:
    async with client.session.get(client.url + FOLLOW, headers={"Last-Event-ID": "x"}) as answer:
        problem = await answer.json(content_type=None)

    assert (answer.status, problem["code"]) == (422, "invalid_event_id")
    assert problem["errors"][0]["pointer"] == "/headers/Last-Event-ID"


# -- slow readers ----------------------------------------------------------------------------------


async def test_a_slow_reader_is_dropped_without_effect_on_others(
    wiring: NodeWiring, client: Client
) -> None:
    events = wiring.context.events
    job_id = await save(wiring.context.shards, "job")
    published = 20_000
    async with following(client.url) as quick, slow_connection(client.url) as slow:
        await until(lambda: events.reader_count == 2)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(quick.until("job.deleted"))
            for _ in range(published // 100):
                publish(events, 100, detail="x" * 1_000)
                await turns(5)
            execution_id = await trigger(wiring.context.shards, job_id)
            is_over = await wiring.context.waiters.ended([execution_id], 10)
            publish(events, 1, JobEvent.DELETED)
            delivered = await watching
        received = await read_all(slow)

    lines = [json.loads(line) for line in received.splitlines() if line.startswith(b"{")]
    assert is_over
    assert numbers(delivered[1:]) == list(
        range(numbers(delivered)[0] + 1, numbers(delivered)[-1] + 1)
    )
    assert len(delivered) > published
    assert lines[-1]["type"] == "stream.dropped"
    assert lines[-1]["id"] == lines[-2]["id"]
    # Unread events were not kept for the reader: 20 MB were published.
    assert len(received) < 2_000_000


async def test_a_reader_that_takes_nothing_is_cut_off(
    wiring: NodeWiring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.api.handlers.events.BLOCKED_S", 0.1)
    events = wiring.context.events

    async with slow_connection(client.url) as stuck:
        await until(lambda: events.reader_count == 1)
        for _ in range(20):
            publish(events, 100, detail="x" * 1_000)
            await turns(5)
        await until(lambda: events.reader_count == 0)
        received = await read_all(stuck)

    # In the middle of a line: the data ready for the reader is discarded.
    assert received.startswith(b"HTTP/1.1 200")
    assert not received.endswith(b"\r\n")


async def test_a_reader_may_be_far_behind_only_for_a_while() -> None:
    clock = SteppedClock()
    events = Events("0000abcd", clock)
    with events.reader(Filter()) as reader:
        batches = reader.batches()
        await anext(batches)
        publish(events, 3_000)
        behind = [await anext(batches)]

        clock.step(5 * SECOND)
        behind.append(await anext(batches))
        clock.step(1)
        last = await anext(batches)

        assert [len(batch) for batch in behind] == [256, 256]
        assert [each.type for each in last] == ["stream.dropped"]
        assert last[0].id == behind[-1][-1].id
        assert [batch async for batch in batches] == []


async def test_readers_that_one_event_wakes_proceed_in_different_turns_of_the_loop() -> None:
    events, turns = Events("0000abcd", SystemClock()), Counter[int]()
    turn = 0

    async def read_one() -> None:
        with events.reader(Filter()) as reader:
            batches = reader.batches()
            await anext(batches)
            await anext(batches)
            turns[turn] += 1

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(read_one())
        await until(lambda: events.reader_count == 20)
        await asyncio.sleep(0)
        publish(events, 1)
        while events.reader_count:
            turn += 1
            await asyncio.sleep(0)

    assert turns.total() == 20
    assert max(turns.values()) == 1


async def test_a_reader_that_has_caught_up_may_fall_behind_again() -> None:
    clock = SteppedClock()
    events = Events("0000abcd", clock)
    with events.reader(Filter()) as reader:
        batches = reader.batches()
        await anext(batches)
        for _ in range(3):
            publish(events, 3_000)
            while reader.seen < events.count:
                assert await anext(batches)
            clock.step(60 * SECOND)

        assert reader.seen == 9_000


async def test_a_reader_may_be_a_little_behind_for_ever() -> None:
    clock = SteppedClock()
    events = Events("0000abcd", clock)
    with events.reader(Filter()) as reader:
        batches = reader.batches()
        await anext(batches)
        publish(events, 1_000)
        for _ in range(20):
            clock.step(60 * SECOND)
            batch = await anext(batches)
            publish(events, len(batch))

        assert events.count - reader.seen == 1_000


async def test_a_reader_whose_next_event_is_gone_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.node.feeds.events.KEPT", 8)
    events = Events("0000abcd", SystemClock())
    with events.reader(Filter()) as punctual, events.reader(Filter()) as late:
        both = [reader.batches() for reader in (punctual, late)]
        for batches in both:
            await anext(batches)
        publish(events, 8)
        on_time = await anext(both[0])
        publish(events, 1)

        too_late = await anext(both[1])

        assert [each.id for each in on_time] == [f"0000abcd-{number}" for number in range(1, 9)]
        assert [(each.type, each.id) for each in too_late] == [("stream.dropped", "0000abcd-0")]


# -- readers that connect, stay and leave ----------------------------------------------------------


async def test_the_number_of_readers_is_limited(
    wiring: NodeWiring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.feeds.events.READERS_MAX", 2)
    async with (
        following(client.url),
        following(client.url),
        client.session.get(client.url + FOLLOW) as answer,
    ):
        problem = await answer.json(content_type=None)

    await until(lambda: wiring.context.events.reader_count == 0)
    async with following(client.url) as stream:
        opened = await stream.next()

    assert (answer.status, problem["code"]) == (503, "too_many_readers")
    assert int(answer.headers["Retry-After"]) > 0
    assert opened["type"] == "stream.opened"


async def test_a_principal_with_too_many_readers_is_refused_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.node.feeds.events.READERS_PER_PRINCIPAL_MAX", 1)
    events = Events("0000abcd", SystemClock())

    with events.reader(Filter(), principal="ann"), events.reader(Filter(), principal="bob"):
        with (
            pytest.raises(Refused, match="1 requests follow events, which is the limit of 'ann'"),
            events.reader(Filter(), principal="ann"),
        ):
            pass
        with events.reader(Filter()), events.reader(Filter()):
            assert events.reader_count == 4
    with events.reader(Filter(), principal="ann"):
        assert events.reader_count == 1


async def test_a_client_that_disconnects_is_removed(wiring: NodeWiring, client: Client) -> None:
    async with slow_connection(client.url) as connection:
        await until(lambda: wiring.context.events.reader_count == 1)
        connection.close()

        await until(lambda: wiring.context.events.reader_count == 0)


@pytest.mark.parametrize(
    ("headers", "sign"), [({}, b": keep-alive\n\n"), (NDJSON, b"\n")], ids=["sse", "ndjson"]
)
async def test_a_silent_stream_gives_signs_of_life(
    wiring: NodeWiring,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    sign: bytes,
) -> None:
    monkeypatch.setattr("rota.node.feeds.events.KEEP_ALIVE_S", 0.05)
    url = f"{client.url}{FOLLOW}?type=execution"
    async with client.session.get(url, headers=headers) as answer:
        async with asyncio.timeout(10):
            await answer.content.readuntil(b"\n" if headers else b"\n\n")
            # Events outside the filter count as silence too.
            publish(wiring.context.events, 10)
            signs = await answer.content.readexactly(2 * len(sign))

    assert signs == 2 * sign


async def test_a_document_is_made_once_for_all_readers() -> None:
    events = Events("0000abcd", SystemClock())
    with events.reader(Filter()) as one, events.reader(Filter()) as other:
        both = [reader.batches() for reader in (one, other)]
        for batches in both:
            await anext(batches)
        publish(events, 1)

        (first,), (second,) = [await anext(batches) for batches in both]

        assert first.document is second.document


async def test_a_stopping_node_closes_streams_and_does_not_wait_for_readers(
    own_node: Rotad,
) -> None:
    own_node.start()
    async with following(own_node.url) as stream, slow_connection(own_node.url):
        own_node.create(name="job", type="scripted")
        await stream.until("job.created")

        status = await asyncio.to_thread(own_node.stop)
        delivered = await stream.rest()

    assert status == 0
    assert [each["type"] for each in delivered] == ["stream.closed"]


async def test_readers_get_what_happened_before_the_stop() -> None:
    events = Events("0000abcd", SystemClock())
    with events.reader(Filter()) as reader:
        publish(events, 300)
        events.close()
        publish(events, 5)

        batches = [batch async for batch in reader.batches()]

    assert [len(batch) for batch in batches] == [1, 256, 44, 1]
    assert [(each.type, each.id) for each in batches[-1]] == [("stream.closed", "0000abcd-300")]
    with pytest.raises(Refused, match="stopping"), events.reader(Filter()):
        pass


# -- the reference ---------------------------------------------------------------------------------


def test_the_reference_lists_exactly_the_event_types() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "events.md").read_text()
    documented = re.findall(r"^\| `(\w+\.\w+)` \|", page, re.MULTILINE)

    words = ("opened", "gap", "dropped", "closed")
    assert documented == [*TYPES.values(), *(f"stream.{word}" for word in words)]


# -- helpers ---------------------------------------------------------------------------------------


@pytest.fixture
async def wiring(tmp_path: Path) -> AsyncIterator[NodeWiring]:
    async with running_works(MemoryStore(), tmp_path) as running:
        yield running


@pytest.fixture
async def client(wiring: NodeWiring) -> AsyncIterator[Client]:
    async with serving(wiring) as asking:
        yield asking


class Stream:
    """A stream of events, one JSON document a line."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    async def next(self) -> Json:
        """Return the next event."""
        async with asyncio.timeout(20):
            line = await self._content.readline()
            while line == b"\n":
                line = await self._content.readline()
        assert line, "the stream ended"
        return json.loads(line)

    async def until(self, kind: str) -> list[Json]:
        """Return the events up to the first of that type."""
        delivered = [await self.next()]
        while delivered[-1]["type"] != kind:
            delivered.append(await self.next())
        return delivered

    async def rest(self) -> list[Json]:
        """Return the events up to the end of the stream."""
        async with asyncio.timeout(20):
            return [json.loads(line) for line in (await self._content.read()).splitlines() if line]


@asynccontextmanager
async def following(
    url: str, query: str = "", headers: dict[str, str] | None = None
) -> AsyncGenerator[Stream]:
    """Follow the events of the node at *url*."""
    async with aiohttp.ClientSession(read_bufsize=1 << 20) as session:
        asked = f"{url}{FOLLOW}?{query}".rstrip("?")
        async with session.get(asked, headers={**NDJSON, **(headers or {})}) as answer:
            assert answer.status == 200, await answer.text()
            yield Stream(answer.content)


@asynccontextmanager
async def slow_connection(url: str) -> AsyncGenerator[socket.socket]:
    """Follow the events of the node at *url* over a connection that is not read yet."""
    context = urlsplit(url)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect((context.hostname, context.port))
        connection.sendall(
            f"GET {FOLLOW} HTTP/1.1\r\nHost: [::1]\r\nAccept: application/x-ndjson\r\n\r\n".encode()
        )
        connection.setblocking(False)
        yield connection


async def read_all(connection: socket.socket) -> bytes:
    """Return all bytes from *connection* until it ends or breaks."""
    received = b""
    async with asyncio.timeout(20):
        try:
            while part := await asyncio.get_running_loop().sock_recv(connection, 1 << 16):
                received += part
        except ConnectionResetError:
            pass
    return received


class SteppedClock(SystemClock):
    """A clock that the test advances."""

    def __init__(self) -> None:
        self._elapsed = 0

    def elapsed(self) -> Instant:
        """Return the elapsed time."""
        return Instant(self._elapsed)

    def step(self, microseconds: int) -> None:
        """Advance the clock."""
        self._elapsed += microseconds


async def created(client: Client, **fields: Json) -> JobId:
    """Create a job with scripted tasks."""
    status, job = await client.call("POST", "/api/v1/jobs", {"type": "scripted", **fields})
    assert status == 201, job
    return JobId(job["jobId"])


def publish(
    events: Events, count: int, event: JobEvent = JobEvent.REPLACED, detail: str = ""
) -> None:
    """Publish *count* events of a job."""
    for _ in range(count):
        events.publish(
            PublishJob(
                at=Instant(0), job_id=JobId("job"), job="default/job", event=event, detail=detail
            )
        )


def numbers(delivered: list[Json]) -> list[int]:
    """Return the numbers in the ids of events."""
    return [int(each["id"].split("-")[1]) for each in delivered]


def blocks(text: str) -> list[str]:
    """Return the parts of *text* between empty lines."""
    return [block for block in text.split("\n\n") if block]
