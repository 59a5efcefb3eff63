"""The export of changes to a webhook: its requests, and what counts as delivered."""

import json

import pytest

from rota.node.system.change_sinks import ExportedLine, SinkAway
from rota.node.system.clock import SystemClock
from rota.node.system.config_values import URL
from rota.node.webhooks.change_webhook import ChangeWebhook
from rota.node.webhooks.webhook_request import WebhookFailed, WebhookRequest, signature_of

LINES = [ExportedLine(f"2027-01-04T12:00:0{n}Z", b'{"number":%d}' % n) for n in range(3)]
KEYS = (b"a" * 32, b"b" * 32)
HOST = "https://audit.example.org/rota"


class Receiver:
    """A receiver that answers with *status*, or does not answer."""

    def __init__(self, status: int | None = 204) -> None:
        self.status = status
        self.requests: list[WebhookRequest] = []

    async def post(self, request: WebhookRequest) -> int:
        """Take a request."""
        self.requests.append(request)
        if self.status is None:
            raise WebhookFailed("no answer")
        return self.status


def webhook(receiver: Receiver, *keys: bytes) -> ChangeWebhook:
    return ChangeWebhook(HOST, receiver.post, SystemClock(), keys=keys)


async def test_a_batch_is_one_request_with_all_changes_in_their_order() -> None:
    receiver = Receiver()

    await webhook(receiver).send(LINES)

    [request] = receiver.requests
    assert request.url == HOST
    assert json.loads(request.body) == {
        "type": "changes",
        "timestamp": "2027-01-04T12:00:02Z",
        "data": [{"number": 0}, {"number": 1}, {"number": 2}],
    }
    assert "webhook-signature" not in request.headers


async def test_a_request_is_signed_with_each_key() -> None:
    receiver = Receiver()

    await webhook(receiver, *KEYS).send(LINES)

    [request] = receiver.requests
    at, message_id = int(request.headers["webhook-timestamp"]), request.headers["webhook-id"]
    signatures = [signature_of(key, message_id, at, request.body) for key in KEYS]
    assert request.headers["webhook-signature"].split(" ") == signatures


async def test_the_same_changes_have_the_same_id_and_others_another() -> None:
    receiver = Receiver()
    sink = webhook(receiver)

    for lines in (LINES, LINES, LINES[:2]):
        await sink.send(lines)

    first, again, other = (each.headers["webhook-id"] for each in receiver.requests)
    assert first == again
    assert first != other


@pytest.mark.parametrize("status", [None, 301, 410, 500])
async def test_changes_that_the_receiver_does_not_accept_are_not_delivered(
    status: int | None,
) -> None:
    with pytest.raises(SinkAway, match=HOST):
        await webhook(Receiver(status)).send(LINES)


@pytest.mark.parametrize(
    "text",
    ["audit.example.org", "ftp://a/b", "https://", "https://u:p@a/", "http://a:x/", "http://a b"],
)
def test_what_is_no_url_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a URL such as https://"):
        URL.parse(text)


def test_a_url_is_kept_and_nothing_is_no_webhook() -> None:
    assert (URL.parse(HOST), URL.parse("")) == (HOST, "")
