"""Webhooks by HTTP whose names hang or are malformed."""

import asyncio
import socket
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from rota.node.webhooks import http_post
from rota.node.webhooks.http_post import LOOKUPS_MAX, HttpPost
from rota.node.webhooks.permitted_hosts import PermittedHosts
from rota.node.webhooks.webhook_request import WebhookFailed, WebhookRequest

MORE_THAN_THE_LOOP_HAS = 100
"""More than the threads of a loop's default executor."""


def request(url: str) -> WebhookRequest:
    return WebhookRequest(url=url, headers={}, body=b"{}")


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """A name server that answers once the event is set, and has no name."""
    answers = Event()

    def look_up(*_: Any) -> None:
        answers.wait()
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(http_post, "LOOKUP_S", 0.2)
    yield answers
    answers.set()


async def failure(http: HttpPost, url: str) -> str:
    """Return why a webhook is not delivered."""
    with pytest.raises(WebhookFailed) as raised:
        await http.post(request(url))
    return str(raised.value)


async def test_names_that_hang_occupy_few_threads_and_none_of_the_loop(name_server: Event) -> None:
    async with HttpPost.open(PermittedHosts()) as http, asyncio.TaskGroup() as group:
        posts = [
            group.create_task(failure(http, f"http://n{number}.example/"))
            for number in range(MORE_THAN_THE_LOOP_HAS)
        ]
        try:
            async with asyncio.timeout(10):
                assert await asyncio.to_thread(str, "free") == "free"
                failures = await asyncio.gather(*posts)
        finally:
            name_server.set()

    assert len(failures) > LOOKUPS_MAX
    assert all("the name was not found in time" in each for each in failures)


async def test_a_name_that_does_not_exist_is_tried_again(name_server: Event) -> None:
    name_server.set()

    async with HttpPost.open(PermittedHosts()) as http:
        with pytest.raises(WebhookFailed, match=r"n\.example: Name or service not known") as raised:
            await http.post(request("http://n.example/"))

    assert not raised.value.is_final


@pytest.mark.parametrize(
    "url", ["http://a..b/", f"http://{'a' * 70}.example/", "http://[::1/", "http://a b/", "x"]
)
async def test_a_strange_url_fails_like_a_receiver_that_does_not_answer(url: str) -> None:
    async with HttpPost.open(PermittedHosts()) as http:
        with pytest.raises(WebhookFailed):
            await http.post(request(url))
