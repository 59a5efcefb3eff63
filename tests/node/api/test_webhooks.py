"""Webhooks of other services: signed deliveries become events, without a key of the API."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rota.core.model.shared_document import DocumentKey
from support.access_client import API, Access, access_to
from support.key_rings import key_ring_file

Json = Any  # Any: an answer of a node, examined by each test.

KEY = "correct horse battery staple"
BODY = {"ref": "refs/heads/main"}


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    """A node that requires keys, with the webhook ``hub`` and a job that it starts."""
    async with access_to(tmp_path / "data", keyring=key_ring_file(tmp_path)) as access:
        await access.init()
        await made(access, "secrets/team-a/hub-key", {"value": KEY + "\n"})
        webhook = {"format": "github", "namespace": "team-a", "secret": "hub-key"}
        await made(access, "webhooks/hub", webhook)
        trigger = {"event": "hub", "when": "event.subject == 'push'"}
        await made(access, "jobs/team-a/deploy", {"command": "true", "triggers": [trigger]})
        yield access


async def made(access: Access, path: str, body: Json) -> None:
    status, answer = await access.call(access.admin, "PUT", f"{API}/{path}", body)
    assert status == 201, answer


async def deliver(
    access: Access, delivery: str = "1", *, key: str = KEY, name: str = "hub", query: str = ""
) -> tuple[int, Json]:
    content = json.dumps(BODY).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": "push",
        "X-Hub-Signature-256": f"sha256={hmac.new(key.encode(), content, 'sha256').hexdigest()}",
    }
    url = f"{access.client.url}{API}/webhooks/{name}{query}"
    async with access.client.session.post(url, data=content, headers=headers) as answer:
        return answer.status, await answer.json()


async def eventually(found: Callable[[], Awaitable[Json]]) -> Json:
    """Return what *found* returns once it is true."""
    async with asyncio.timeout(10):
        while not (value := await found()):  # noqa: ASYNC110 - it asks the node
            await asyncio.sleep(0.01)
        return value


async def executions(access: Access) -> list[Json]:
    path = f"{API}/executions?namespace=team-a"
    _, found = await access.call(access.admin, "GET", path)
    return list(found["items"])


async def test_a_delivery_starts_a_job_once_and_names_its_webhook(access: Access) -> None:
    async def is_heard() -> bool:
        status, answer = await deliver(access, query="?dryRun=true")
        assert status == 202, answer
        return bool(answer["jobs"])

    await eventually(is_heard)
    first, again = await deliver(access), await deliver(access)

    assert (first[0], first[1]["jobs"], first[1]["repeated"]) == (202, 1, False)
    assert again == (202, {**first[1], "repeated": True})
    [execution] = await eventually(lambda: executions(access))
    assert execution["triggeredBy"]["principal"] == "webhook:hub"
    path = f"{API}/executions/{execution['executionId']}"
    _, whole = await access.call(access.admin, "GET", path)
    event = whole["parameters"]["event"]
    assert (event["subject"], event["data"], event["source"]) == ("push", BODY, "/webhooks/hub")


async def test_a_delivery_signed_with_another_key_is_rejected(access: Access) -> None:
    status, problem = await deliver(access, key="guessed")

    assert (status, problem["code"]) == (403, "webhook_rejected")
    assert KEY not in problem["detail"]


async def test_a_webhook_that_does_not_exist_is_named(access: Access) -> None:
    assert (await deliver(access, name="nub"))[1]["code"] == "webhook_not_found"


async def test_a_webhook_needs_a_secret_that_exists(access: Access) -> None:
    body = {"format": "stripe", "namespace": "team-a", "secret": "hub-kez"}
    status, problem = await access.call(access.admin, "PUT", f"{API}/webhooks/pay", body)

    assert (status, problem["code"]) == (422, "invalid_webhook")
    [error] = problem["errors"]
    assert error["pointer"] == "/secret"
    assert "hub-key" in error["detail"]


async def test_a_secret_without_a_key_of_the_format_is_refused(access: Access) -> None:
    body = {"format": "standard", "namespace": "team-a", "secret": "hub-key"}
    _, problem = await access.call(access.admin, "PUT", f"{API}/webhooks/pay", body)

    assert [each["pointer"] for each in problem["errors"]] == ["/secret"]
    assert "whsec_" in problem["errors"][0]["detail"]


@pytest.mark.parametrize("has_length", [True, False])
async def test_a_long_body_is_refused_before_its_end(access: Access, has_length: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(14):
            yield b" " * 10_000

    url = f"{access.client.url}{API}/webhooks/hub"
    headers = {"Content-Type": "application/json"}
    data = b" " * 140_000 if has_length else parts()
    async with access.client.session.post(url, data=data, headers=headers) as answer:
        assert (answer.status, (await answer.json())["code"]) == (413, "body_too_large")


async def test_no_other_sender_uses_up_the_id_of_a_delivery(access: Access) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/webhooks/hub", "type": "hub"}
    path = f"{API}/events?namespace=team-a"

    status, problem = await access.call(access.admin, "POST", path, event)

    assert (status, problem["errors"][0]["pointer"]) == (422, "/source")


async def test_a_webhook_of_a_later_version_is_refused_for_now(access: Access) -> None:
    definition = {"format": "gitlab", "namespace": "team-a", "secret": "hub-key"}
    key = DocumentKey("webhooks", "later")
    await access.wiring.context.documents.change(key, definition, by="test")

    status, problem = await deliver(access, name="later")

    assert (status, problem["code"]) == (503, "webhook_unavailable")


async def test_a_delivery_whose_secret_was_deleted_is_refused_for_now(access: Access) -> None:
    await access.call(access.admin, "DELETE", f"{API}/secrets/team-a/hub-key")

    status, problem = await deliver(access)

    assert (status, problem["code"]) == (503, "webhook_unavailable")
    assert "hub-key" not in problem["detail"]
