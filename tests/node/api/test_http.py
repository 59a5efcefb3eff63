"""The API under junk, vanished clients, a slow disk and a stop."""

import asyncio
import select
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.model.execution import Execution, ExecutionStatus, Origin
from rota.core.model.ids import ExecutionId, JobId, ShardId, instant_of, trigger_execution_id
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.changes import Pointer, Table, past_key
from rota.core.vocabulary.codec import encode_record
from rota.core.vocabulary.commands import DeleteJob, Forget, Trigger
from rota.executor.executor import CLOSE_GRACE, READ_BYTES, Ended, Output, Reported
from rota.executor.secret_values import NO_SECRETS, SecretValues
from rota.executor.warden.proxies import RightOf
from rota.node.attempts.local_attempts import AttemptExecutors
from rota.storage.history import History
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from support.in_process import (
    Client,
    HeldStore,
    running_works,
    save,
    serving,
    submit,
    trigger,
    turns,
    until,
)
from support.raw_http import (
    bare_request,
    connection,
    document_of,
    exchange,
    headers_of,
    request_of,
    status_of,
)
from support.rotad import Refusal, Rotad

LONG = {"sleepMs": 10**9}
NINES = "9" * 5_000
ANY_ID = "0" * 16 + "-" + "0" * 14 + "-0000"


# -- junk ------------------------------------------------------------------------------------------

JUNK = st.one_of(
    st.text(max_size=12),
    st.binary(max_size=8).map(quote),
    st.sampled_from(
        [
            *("", "-1", "0", "1e9", "nan", "inf", NINES, f"{NINES}s", "\u0663"),
            *("\0", "%", "..", "a/b/c", ANY_ID, "f" * 16, f"{'f' * 16}-{'f' * 14}-ffff"),
            "9999-12-31T23:59:59Z",
        ]
    ),
)
QUERIES = {
    "/api/v1/jobs": ("namespace", "q", "limit", "cursor"),
    "/api/v1/jobs/{}": ("namespace",),
    "/api/v1/jobs/{}/next": ("namespace", "count", "after"),
    "/api/v1/jobs/{}/ledger": ("namespace", "from", "to", "limit", "cursor"),
    "/api/v1/executions": ("jobId", "namespace", "status", "from", "to", "limit", "cursor"),
    "/api/v1/executions/{}": (),
    f"/api/v1/executions/{ANY_ID}/tasks/{{}}/output": ("attempt", "follow"),
}


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_path_and_no_query_is_too_strange_for_an_answer(
    node: Rotad, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(sorted(QUERIES)))
    named = data.draw(st.one_of(st.just("junk"), JUNK))
    query = "&".join(
        f"{name}={quote(data.draw(JUNK), safe='%')}"
        for name in data.draw(st.sets(st.sampled_from(QUERIES[path] or ("x",))))
    )
    method = data.draw(st.sampled_from(["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PATCH"]))

    answer = exchange(node, request_of(method, path.format(quote(named)) + f"?{query}"))

    assert status_of(answer) < 500


def test_a_job_that_junk_is_asked_of_answers(node: Rotad) -> None:
    node.create(name="junk", type="scripted", schedule="0 0 29 2 *", timezone="Europe/Berlin")

    for path, query in [
        ("/api/v1/jobs/junk/next", f"count={NINES}"),
        ("/api/v1/jobs/junk/next", "after=9999-12-31T23:59:59Z"),
        ("/api/v1/jobs/junk/ledger", f"limit={NINES}"),
        ("/api/v1/jobs", f"limit={NINES}"),
        ("/api/v1/executions", f"limit={NINES}"),
    ]:
        assert status_of(exchange(node, request_of("GET", f"{path}?{query}"))) in (200, 422), path


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/jobs", b'{"name":"deep","type":"scripted","parameters":' + DEEP + b"}"),
        ("/api/v1/jobs/x/trigger", b'{"parameters":' + DEEP + b"}"),
        ("/api/v1/executions:batch", b'{"items":[{"job":"x","parameters":' + DEEP + b"}]}"),
        ("/api/v1/jobs", b'{"name":"\xff\xfe","command":"x"}'),
        ("/api/v1/jobs", b'{"name":"\\ud800","command":"x"}'),
        ("/api/v1/jobs", b'{"name":"x","command":"x","timeout":1e999}'),
        ("/api/v1/jobs", b'{"name":"x","command":"x","retries":' + NINES.encode() + b"}"),
        ("/api/v1/jobs", b'{"name":"x","type":"scripted","parameters":' + NINES.encode() + b"}"),
        ("/api/v1/jobs", b"null"),
        ("/api/v1/executions:wait", b'{"executionIds":[],"timeout":1}'),
    ],
)
def test_no_body_is_too_strange_for_an_answer(node: Rotad, path: str, body: bytes) -> None:
    if "/x/" in path:
        node.create(name="x", type="scripted")

    answer = exchange(node, request_of("POST", path, body))

    assert 400 <= status_of(answer) < 500
    assert document_of(answer)["code"]


def test_a_key_that_is_not_text_is_refused_and_the_node_lives(node: Rotad) -> None:
    node.create(name="keyed", type="scripted")
    headers = b"Idempotency-Key: \xff\xfe\r\n"

    answer = exchange(node, request_of("POST", "/api/v1/jobs/keyed/trigger", b"{}", headers))

    assert document_of(answer)["code"] == "invalid_idempotency_key"
    assert node.ended(node.trigger("keyed"))["status"] == "success"


def test_a_key_in_a_batch_is_checked_as_one_in_a_header(node: Rotad) -> None:
    node.create(name="batched", type="scripted")
    items = [{"job": "batched", "idempotencyKey": key} for key in ("k" * 256, "\0", "good")]

    results = node.call("POST", "/api/v1/executions:batch", {"items": items})["items"]

    codes = [each["error"] and each["error"]["code"] for each in results]
    assert codes == ["invalid_idempotency_key", "invalid_idempotency_key", None]


@pytest.mark.parametrize("path", ["/livez", "/nothing"])
def test_a_request_id_that_is_not_text_is_replaced(node: Rotad, path: str) -> None:
    answer = exchange(node, request_of("GET", path, headers=b"X-Request-Id: \xff\xfe\r\n"))

    assert status_of(answer) in (200, 404)
    assert b"X-Request-Id: " in answer
    assert b"\xff" not in answer


def test_parameters_are_measured_in_bytes(node: Rotad) -> None:
    with pytest.raises(Refusal) as raised:
        node.create(name="wide", type="scripted", parameters="\u20ac" * 100_000)

    assert "has 300,002 bytes" in raised.value.problem["detail"]


# -- lists -----------------------------------------------------------------------------------------


def test_executions_of_a_deleted_job_are_listed_by_its_id(node: Rotad) -> None:
    job = node.create(name="gone", type="scripted")
    execution_id = node.trigger("gone")
    node.ended(execution_id)

    node.call("DELETE", "/api/v1/jobs/gone")
    page = node.call("GET", f"/api/v1/executions?jobId={job['jobId']}")

    assert [each["executionId"] for each in page["items"]] == [execution_id]


def test_a_ledger_is_found_by_a_name_that_looks_like_an_id(node: Rotad) -> None:
    node.create(name="0123456789abcdef", type="scripted", schedule="@every 100ms")

    node.wait_until(lambda: bool(node.ledger("0123456789abcdef")))
    node.call("DELETE", "/api/v1/jobs/0123456789abcdef")


def test_executions_of_one_namespace_are_listed_alone(node: Rotad) -> None:
    for namespace in ("here", "there"):
        node.create(name="job", namespace=namespace, type="scripted")
        node.ended(node.trigger(f"{namespace}%2Fjob"))

    items = node.call("GET", "/api/v1/executions?namespace=here")["items"]

    assert [each["job"] for each in items] == ["here/job"]


async def test_executions_kept_beyond_their_age_are_in_the_list_of_their_job_alone(
    tmp_path: Path,
) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        job_id = await save(wiring.context.shards, "job")
        ids = [await run_to_end(client) for _ in range(5)]
        shard = wiring.context.shards.of_id(job_id)
        await wiring.context.shards.settled(shard)
        later_than_all = Instant(wiring.context.clock.now() + 60 * SECOND)
        pasts = wiring.context.history.older_than(shard.id, later_than_all, 100)
        await wiring.context.shards.ask(shard, Forget(pasts=(), kept=pasts[:3]))
        newest = await run_to_end(client)

        assert await listed(client, "limit=100") == [newest, *ids[:2:-1]]
        assert await listed(client, "limit=1") == [newest, *ids[:2:-1]]
        assert await listed(client, f"limit=1&jobId={job_id}") == [newest, *ids[::-1]]


async def run_to_end(client: Client) -> str:
    """Trigger the job, and return the id of its execution when that has ended."""
    _, made = await client.call("POST", "/api/v1/jobs/job/trigger", {})
    path = f"/api/v1/executions/{made['executionId']}/wait?timeout=20s"
    _, ended = await client.call("GET", path)
    assert ended["finishedAt"], ended
    return str(made["executionId"])


async def listed(client: Client, query: str) -> list[str]:
    """Return the ids on all pages of a list of executions."""
    found: list[str] = []
    cursor = ""
    while True:
        _, page = await client.call("GET", f"/api/v1/executions?{query}{cursor}")
        found += [each["executionId"] for each in page["items"]]
        if not page["nextCursor"]:
            return found
        cursor = f"&cursor={page['nextCursor']}"


def past(number: int, job_id: JobId) -> Execution:
    at = Instant(number)
    return Execution(
        id=trigger_execution_id(job_id, at, 0),
        job_id=job_id,
        job_name="default/job",
        job_version=1,
        status=ExecutionStatus.SUCCESS,
        origin=Origin.MANUAL,
        fire_at=at,
        queued_at=at,
        open_count=0,
    )


def remember(store: MemoryStore, executions: Iterator[Execution]) -> None:
    batch = store.batch()
    prefix = shard_prefix(ShardId(0))
    for execution in executions:
        pointer = Pointer(Table.PAST_EXECUTION, execution.id)
        for table, key, record in (
            (Table.PAST_EXECUTION, execution.id, execution),
            (Table.PAST, past_key(execution.fire_at, pointer), pointer),
        ):
            batch.put(Family.HIST, prefix + bytes((table,)) + key.encode(), encode_record(record))
    store.write(batch)


def test_the_history_of_a_job_ends_with_its_oldest_execution_and_not_before() -> None:
    store, job_id = MemoryStore(), JobId("0" * 16)
    remember(store, (past(number, job_id) for number in range(10_100)))

    found = list(History(store, range(1)).executions_of(ShardId(0), job_id, None))

    assert [instant_of(each.id) for each in found] == list(reversed(range(10_100)))


@pytest.mark.parametrize("other", ["0" * 16, "2" * 16])
def test_a_cursor_of_another_job_does_not_lead_to_its_executions(other: str) -> None:
    store, job_id = MemoryStore(), JobId("1" * 16)
    remember(store, (past(1, JobId(each * 16)) for each in "012"))
    cursor = ExecutionId(f"{other}-{'f' * 14}-ffff")

    found = list(History(store, range(1)).executions_of(ShardId(0), job_id, cursor))

    assert all(each.job_id == job_id for each in found)


# -- what is not yet committed ---------------------------------------------------------------------


async def test_a_deletion_is_visible_after_its_commit(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, serving(wiring) as client:
        job_id = await save(wiring.context.shards, "job")
        store.hold()
        submit(wiring.context.shards, job_id, DeleteJob(job_id=job_id))
        await until(lambda: store.held_count == 1)

        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(client.call("GET", "/api/v1/jobs/job")),
                group.create_task(
                    client.call("POST", "/api/v1/executions:batch", {"items": [{"job": "job"}]})
                ),
            ]
            early, _ = await asyncio.wait(asked, timeout=0.1)
            store.let_go()

        assert not early
        assert (await asked[0])[0] == 404
        assert (await asked[1])[1]["items"][0]["error"]["code"] == "job_not_found"


async def test_a_refused_recovery_waits_for_no_commit(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, serving(wiring) as client:
        job_id = await save(wiring.context.shards, "job")
        store.hold()
        submit(wiring.context.shards, job_id, DeleteJob(job_id=job_id))
        await until(lambda: store.held_count == 1)

        try:
            async with asyncio.timeout(10):
                status, problem = await client.call("POST", "/api/v1/cluster/recovery")
        finally:
            store.let_go()

        assert (status, problem["code"]) == (409, "coordination_sound")


async def test_a_created_job_is_shown_without_what_is_not_yet_committed(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        store.hold()
        async with asyncio.TaskGroup() as group:
            body = {"name": "job", "type": "scripted", "parameters": LONG}
            asked = group.create_task(client.call("POST", "/api/v1/jobs", body))
            await until(lambda: store.held_count == 1)
            [job_id] = [each for shard in shards for each in shard.state.jobs]
            submit(shards, job_id, Trigger(job_id=job_id))
            await turns()

            store.let_one_go()
            await until(lambda: store.held_count == 2)
            early, _ = await asyncio.wait([asked], timeout=0.1)
            store.let_go()

        shown = (await asked)[1]
        assert not early or shown["executionId"] is None


async def test_what_has_ended_is_not_refused_to_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, serving(wiring) as client:
        shards, attempts = wiring.context.shards, wiring.context.attempts
        job_id = await save(shards, "job", parameters=LONG)
        execution_id = await trigger(shards, job_id)
        # Its end waits to be decided, behind a disk that is behind; the cancel waits behind that.
        monkeypatch.setattr("rota.node.shards.shard_loop.FLIGHT_BYTES_MAX", 1)
        store.hold()
        submit(shards, job_id, Trigger(job_id=job_id))
        await turns()
        attempts.ended(AttemptKey(execution_id, "main", 1), succeeded())

        async with asyncio.TaskGroup() as group:
            path = f"/api/v1/executions/{execution_id}/cancel"
            asked = group.create_task(client.call("POST", path))
            await until(lambda: shards.inbox_length == 2)
            store.let_go()

        status, shown = await asked
        assert (status, shown["status"]) == (202, "success")


# -- output ----------------------------------------------------------------------------------------


def succeeded(output: bytes = b"") -> Ending:
    now = Instant(1)
    return Ending(outcome=Outcome.SUCCEEDED, started_at=now, finished_at=now, output=output)


class BrokenOutput:
    """An output whose disk fails after the first part."""

    is_complete = True

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """Return the first part, and then fail."""
        del limit
        if offset:
            raise OSError("the disk is gone")
        return b"first part"

    async def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield the first part, and then fail."""
        while True:
            part = await self.read(offset)
            offset += len(part)
            yield part


class HandMade:
    """An executor whose attempts end, and whose outputs are, as the test says."""

    def __init__(self, ended: Ended, output: Output | None) -> None:
        self._ended = ended
        self._output = output

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Do nothing: it runs until its output is asked for."""

    def resume(self, order: Order) -> None:
        """Do nothing."""

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Do nothing."""

    async def output(self, key: AttemptKey) -> Output | None:
        """End the attempt in the very moment in which its output is asked for."""
        if self._output is None:
            self._ended(key, succeeded(b"all of it"))
        return self._output

    async def expire(self, before: Instant) -> int:
        """Keep everything."""
        del before
        return 0

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Do nothing."""


async def test_the_output_of_an_attempt_that_ends_as_it_is_asked_for_is_not_lost(
    tmp_path: Path,
) -> None:
    def executors(ended: Ended, reported: Reported, right_of: RightOf) -> AttemptExecutors:
        del reported, right_of
        return AttemptExecutors(own={"hand": HandMade(ended, None)})

    store = HeldStore()
    running = running_works(store, tmp_path, executors=executors)
    async with running as wiring, serving(wiring) as client:
        job_id = await save(wiring.context.shards, "job", type="hand")
        execution_id = await trigger(wiring.context.shards, job_id)

        path = f"{client.url}/api/v1/executions/{execution_id}/tasks/main/output"
        async with client.session.get(path) as answer:
            text = await answer.text()

        assert text == "all of it"


async def test_an_output_that_breaks_off_ends_the_connection(tmp_path: Path) -> None:
    def executors(ended: Ended, reported: Reported, right_of: RightOf) -> AttemptExecutors:
        del reported, right_of
        return AttemptExecutors(own={"hand": HandMade(ended, BrokenOutput())})

    store = HeldStore()
    running = running_works(store, tmp_path, executors=executors)
    async with running as wiring, serving(wiring) as client:
        job_id = await save(wiring.context.shards, "job", type="hand")
        execution_id = await trigger(wiring.context.shards, job_id)

        context = urlsplit(client.url)
        reader, writer = await asyncio.open_connection(context.hostname, context.port)
        path = f"/api/v1/executions/{execution_id}/tasks/main/output?follow=1"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()

        assert answer.count(b"HTTP/1.1") == 1, "no second answer within the first"
        assert b"first part" in answer
        assert not answer.endswith(b"0\r\n\r\n"), "it is not passed off as whole"


def test_the_head_of_a_followed_output_does_not_follow(node: Rotad) -> None:
    node.create(name="silent", command="sleep 600")
    execution_id = node.trigger("silent")

    path = f"/api/v1/executions/{execution_id}/tasks/main/output?follow=1"
    answer = exchange(node, request_of("HEAD", path))

    assert status_of(answer) == 200
    node.call("POST", f"/api/v1/executions/{execution_id}/cancel")


# -- clients that go, and a node that stops --------------------------------------------------------


def waits(node: Rotad) -> int:
    text = node.call("GET", "/metrics")
    [value] = [line for line in text.splitlines() if line.startswith("rota_waits ")]
    return int(float(value.split()[1]))


def test_a_client_that_goes_away_is_no_longer_waited_for(node: Rotad) -> None:
    node.create(name="endless", command="sleep 600")
    execution_id = node.trigger("endless")

    with connection(node) as connected:
        path = f"/api/v1/executions/{execution_id}/wait?timeout=300"
        connected.sendall(request_of("GET", path))
        node.wait_until(lambda: waits(node) == 1)

    node.wait_until(lambda: waits(node) == 0, timeout_s=5)
    node.call("POST", f"/api/v1/executions/{execution_id}/cancel")


def test_a_wait_on_a_stopping_node_is_answered_with_a_retry_time(own_node: Rotad) -> None:
    own_node.start()
    own_node.create(name="endless", command="sleep 600")
    execution_id = own_node.trigger("endless")
    path = f"/api/v1/executions/{execution_id}/wait?timeout=300"

    with ThreadPoolExecutor(1) as pool, connection(own_node) as follower:
        waiting = pool.submit(exchange, own_node, request_of("GET", path))
        follow = f"/api/v1/executions/{execution_id}/tasks/main/output?follow=1"
        follower.sendall(request_of("GET", follow))
        own_node.wait_until(lambda: waits(own_node) == 1)

        assert own_node.process is not None
        own_node.process.send_signal(signal.SIGTERM)
        answer = waiting.result(timeout=10)
        status = own_node.exit_status()

    assert status_of(answer) == 503
    assert document_of(answer)["code"] == "stopping"
    assert b"Retry-After: 1" in answer
    assert status == 0
    assert "never retrieved" not in own_node.log()


def test_clients_that_create_the_same_job_at_once_get_the_same_job(node: Rotad) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = [
            pool.submit(node.create, name="raced", type="scripted", description="the same")
            for _ in range(16)
        ]
        ids = {each.result()["jobId"] for each in made}

    assert len(ids) == 1


HELD = request_of("POST", "/api/v1/jobs", b" " * (4 << 20))[:-1]
"""A request whose body lacks its last byte."""


def test_bodies_that_never_come_take_no_memory(own_node: Rotad) -> None:
    own_node.start()

    with ExitStack() as stack:
        for _ in range(70):
            stack.enter_context(connection(own_node)).sendall(HELD[:1_000])
        own_node.call("GET", "/readyz")

        own_node.create(name="one-more", command="true")


def test_bodies_that_one_address_never_completes_leave_room_for_others(own_node: Rotad) -> None:
    own_node.start()

    with ExitStack() as stack:
        senders = [stack.enter_context(connection(own_node, "127.0.0.2")) for _ in range(35)]
        for sender in senders:
            with suppress(OSError):  # The node closes a connection that it has refused.
                sender.sendall(HELD)
        own_node.wait_until(lambda: bool(answered(senders)))
        refused = answered(senders)[0].recv(65_536)

        own_node.create(name="of-another", command="true")

    assert status_of(refused) == 503
    assert headers_of(refused)["retry-after"]


def answered(connections: list[socket.socket]) -> list[socket.socket]:
    """Return those on which an answer has come."""
    return select.select(connections, [], [], 0)[0]


def test_a_question_with_a_body_is_refused_and_its_body_not_counted(own_node: Rotad) -> None:
    own_node.start()
    follow = bare_request(
        "GET /api/v1/events HTTP/1.1", "Host: localhost", "Content-Length: 4194304"
    )

    with ExitStack() as stack:
        asked = [stack.enter_context(connection(own_node)) for _ in range(70)]
        for connected in asked:
            connected.sendall(follow)
        answers = [connected.recv(65_536) for connected in asked]

        own_node.create(name="meanwhile", command="true")

    assert {status_of(answer) for answer in answers} == {400}
    assert all(headers_of(answer)["connection"] == "close" for answer in answers)
    assert b'"unexpected_body"' in answers[0]


def test_a_condition_of_two_lines_is_not_taken_for_its_first(node: Rotad) -> None:
    body = b'{"command": "true"}'
    exchange(node, request_of("PUT", "/api/v1/jobs/default/two-lines", body))

    answer = exchange(
        node,
        request_of(
            "PUT",
            "/api/v1/jobs/default/two-lines",
            b'{"command": "false"}',
            b'If-Match: "1"\r\nIf-Match: "7"\r\n',
        ),
    )

    assert b"invalid_if_match" in answer
    assert node.call("GET", "/api/v1/jobs/two-lines")["version"] == 1
