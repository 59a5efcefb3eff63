"""Idempotency keys over HTTP: a repeated write gets the first answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from rota.node.access.principal import OPERATOR, Principal
from rota.node.api.handlers.idempotency import idempotency_of
from rota.node.api.requests.body_memory import BodyMemory
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import BODY_MEMORY
from support.in_process import Client, HeldStore, running_works, serving, until
from support.request_contexts import without_node

Json = Any  # Any: an answer of a node, examined by each test.
KEY = {"Idempotency-Key": "k"}
ONE, TWO = {"command": "echo one"}, {"command": "echo two"}
JOB = "/jobs/default/job"


class Said(NamedTuple):
    """An answer: its status, its headers about a job, its document."""

    status: int
    etag: str | None
    location: str | None
    body: Json


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        yield client


async def ask(
    client: Client, method: str, path: str, body: Json = None, headers: dict[str, str] | None = None
) -> Said:
    url = f"{client.url}/api/v1{path}"
    async with client.session.request(method, url, json=body, headers=headers) as answer:
        etag, location = answer.headers.get("ETag"), answer.headers.get("Location")
        return Said(answer.status, etag, location, await answer.json(content_type=None))


WRITES: list[tuple[str, str, Json, dict[str, str], int]] = [
    ("PUT", "/jobs/default/new", ONE, {}, 201),
    ("PUT", JOB, TWO, {}, 200),
    ("PUT", JOB, TWO, {"If-Match": '"1"'}, 200),
    ("PUT", "/jobs/default/new", ONE, {"If-None-Match": "*"}, 201),
    ("PATCH", "/jobs/job", TWO, {}, 200),
    ("PATCH", "/jobs/job", TWO, {"If-Match": '"1"'}, 200),
    ("POST", "/jobs/job/pause", {"reason": "moving house"}, {}, 200),
    ("POST", "/jobs/job/resume", None, {}, 200),
    ("DELETE", "/jobs/job", None, {}, 204),
    ("DELETE", "/jobs/job", None, {"If-Match": '"1"'}, 204),
    ("POST", "/jobs", {"name": "new", **ONE}, {}, 201),
    ("POST", "/jobs/job/trigger", None, {}, 201),
]


@pytest.mark.parametrize(("method", "path", "body", "headers", "status"), WRITES)
async def test_a_repetition_is_answered_as_at_first(
    client: Client, method: str, path: str, body: Json, headers: dict[str, str], status: int
) -> None:
    await ask(client, "PUT", JOB, ONE)

    first = await ask(client, method, path, body, headers | KEY)
    again = await ask(client, method, path, body, headers | KEY)

    assert first.status == status
    assert again == first


@pytest.mark.parametrize(("method", "path", "body", "headers", "status"), WRITES)
async def test_a_dry_run_of_a_repetition_gives_the_first_answer(
    client: Client, method: str, path: str, body: Json, headers: dict[str, str], status: int
) -> None:
    await ask(client, "PUT", JOB, ONE)

    tried_before = await ask(client, method, f"{path}?dryRun=true", body, headers | KEY)
    first = await ask(client, method, path, body, headers | KEY)
    tried_after = await ask(client, method, f"{path}?dryRun=true", body, headers | KEY)

    assert tried_before.status == status
    assert tried_after == first


async def test_a_repetition_keeps_its_version_after_later_changes(client: Client) -> None:
    first = await ask(client, "PUT", JOB, ONE, KEY)
    await ask(client, "PUT", JOB, TWO)

    again = await ask(client, "PUT", JOB, ONE, KEY)
    shown = await ask(client, "GET", "/jobs/job")

    assert (again.status, again.etag, again.body["version"]) == (201, first.etag, 1)
    assert (shown.etag, shown.body["version"]) == ('"2"', 2)
    assert again.body["definition"] == shown.body["definition"]


async def test_a_patch_merges_once(client: Client) -> None:
    await ask(client, "PUT", JOB, {**ONE, "labels": {"a": "1"}})
    patch = {"labels": {"a": None}}
    await ask(client, "PATCH", "/jobs/job", patch, KEY)
    await ask(client, "PATCH", "/jobs/job", {"labels": {"a": "2"}})

    again = await ask(client, "PATCH", "/jobs/job", patch, KEY)

    assert (again.status, again.etag) == (200, '"2"')
    assert (await ask(client, "GET", "/jobs/job")).body["labels"] == {"a": "2"}


async def test_a_late_deletion_does_not_find_the_job_that_has_the_name_since(
    client: Client,
) -> None:
    await ask(client, "PUT", JOB, ONE)
    await ask(client, "DELETE", "/jobs/job", None, KEY)
    made = await ask(client, "PUT", JOB, ONE)

    late = await ask(client, "DELETE", "/jobs/job", None, KEY)

    assert late.status == 204
    assert (await ask(client, "GET", "/jobs/job")).body["jobId"] == made.body["jobId"]


async def test_a_repetition_of_what_made_a_job_that_is_gone_says_so(client: Client) -> None:
    await ask(client, "PUT", JOB, ONE, KEY)
    await ask(client, "DELETE", "/jobs/job")

    again = await ask(client, "PUT", JOB, ONE, KEY)

    assert (again.status, again.body["code"]) == (404, "job_not_found")
    assert (await ask(client, "GET", "/jobs/job")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("PUT", JOB, TWO, {}),
        ("PUT", JOB, ONE, {"If-Match": '"1"'}),
        ("PATCH", "/jobs/job", ONE, {}),
        ("DELETE", "/jobs/job", None, {}),
        ("POST", "/jobs/job/pause", None, {}),
        ("POST", "/jobs/job/resume", None, {}),
        ("POST", "/jobs/job/trigger", None, {}),
    ],
)
async def test_a_key_used_for_another_request_is_refused_and_nothing_done(
    client: Client, method: str, path: str, body: Json, headers: dict[str, str]
) -> None:
    first = await ask(client, "PUT", JOB, ONE, KEY)

    other = await ask(client, method, path, body, headers | KEY)

    assert (other.status, other.body["code"]) == (422, "idempotency_key_reused")
    assert (await ask(client, "GET", "/jobs/job")).body == first.body


async def test_a_refused_write_leaves_its_key_unused(client: Client) -> None:
    await ask(client, "PUT", JOB, ONE)
    refused = await ask(client, "PUT", JOB, TWO, {"If-Match": '"2"', **KEY})

    taken = await ask(client, "PUT", JOB, TWO, KEY)

    assert (refused.status, taken.status, taken.etag) == (412, 200, '"2"')


async def test_a_repetition_is_not_answered_before_the_first_is_committed(tmp_path: Path) -> None:
    store = HeldStore()
    async with (
        running_works(store, tmp_path) as wiring,
        serving(wiring) as client,
        asyncio.TaskGroup() as group,
    ):
        made = await ask(client, "PUT", JOB, ONE)
        shard = wiring.context.shards.of_id(made.body["jobId"])
        store.hold()
        first = group.create_task(ask(client, "DELETE", "/jobs/job", None, KEY))
        await until(lambda: not shard.state.jobs)

        again = group.create_task(ask(client, "DELETE", "/jobs/job", None, KEY))
        for _ in range(3):
            await client.call("GET", "/version")
        is_early = again.done()
        store.let_go()

        assert (await first).status == (await again).status == 204
        assert not is_early


async def test_a_key_belongs_to_its_caller() -> None:
    ours = await idempotency_of(said())
    theirs = await idempotency_of(said(principal=Principal(name="ann", grants=OPERATOR.grants)))

    assert ours is not None
    assert theirs is not None
    assert ours.digest == theirs.digest
    assert ours.scoped_key != theirs.scoped_key


async def test_every_part_of_a_request_counts_for_its_digest() -> None:
    requests = [
        said(),
        said(method="POST"),
        said(path="/jobs/b"),
        said(path="/jobs/a?namespace=other"),
        said(headers={"If-Match": '"1"'}),
        said(headers={"If-None-Match": '"1"'}),
        said(body=b"{}"),
    ]

    prints = [ask.digest for request in requests if (ask := await idempotency_of(request))]
    tried = await idempotency_of(said(path="/jobs/a?dryRun=true"))

    assert len(set(prints)) == len(requests)
    assert tried is not None
    assert tried.digest == prints[0]


def said(
    *,
    method: str = "DELETE",
    path: str = "/jobs/a",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    principal: Principal = OPERATOR,
) -> RequestContext:
    """Return a request with a key."""
    payload = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1 << 16)
    payload.feed_data(body)
    payload.feed_eof()
    app = web.Application()
    app[BODY_MEMORY] = BodyMemory(largest=1 << 20)
    given = {**KEY, **(headers or {})}
    http = make_mocked_request(method, path, given, payload=payload, app=app)
    return without_node(http, principal)
