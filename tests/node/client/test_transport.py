"""Busy, broken, slow and missing nodes: repetitions, deadlines, errors and addresses."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from rota.client import AsyncClient
from rota.client.errors import (
    Conflict,
    Invalid,
    NodeFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RequestFailed,
    TooBusy,
    Unreachable,
)
from rota.client.transport.call import Response, failure_of
from rota.client.transport.endpoints import urls_of
from support.strange_servers import Strange, hang_up, problem, refusing, serving


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


async def test_a_node_that_stays_busy_is_an_error() -> None:
    strange = Strange(refusing(429))

    async with asking(strange, repeats_max=2) as client:
        with pytest.raises(TooBusy, match="refused_by_test"):
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
    # aiohttp repeats such a request by default: the second one would not find the node.
    assert len(strange.asked) == 1


async def test_an_answer_that_is_not_json_is_a_failure_of_the_node() -> None:
    async with asking(Strange(not_json)) as client:
        with pytest.raises(NodeFailed, match="check that the URL is that of a rota node"):
            await client.version()


async def test_a_slow_node_is_given_up_in_time() -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with asking(Strange(never), timeout_s=0.1) as client:
        with pytest.raises(Unreachable, match="too long"):
            await client.version()


async def test_an_unreachable_node_is_reported() -> None:
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
        (401, NotAuthenticated),
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
    explained = failure_of(Response(status, json.dumps(problem(status, "x")).encode()))
    unexplained = failure_of(Response(status, b"<html>"))

    assert type(explained) is type(unexplained) is kind
    assert (explained.code, unexplained.code) == ("x", "unexplained")


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
def test_an_invalid_url_is_refused_at_once(url: str | list[str]) -> None:
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
