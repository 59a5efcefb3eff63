"""The HTTP request of a notification, by the rules of Standard Webhooks.

https://www.standardwebhooks.com: the id is the same in every repetition, the timestamp is that of
the attempt, and the signature is an HMAC of id, timestamp and body with SHA-256.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import rota
from rota.core.model.hook import HookFormat, Notification
from rota.core.timing.instants import SECOND, Instant, format_instant
from rota.node.webhooks.chat_messages import chat_message

SHOWN_MAX = 200
"""Characters that are shown of an answer or of the reason of a failure."""
SECRET_CHARACTERS_MIN = 6
"""Characters from which a part of a URL may be a secret; shorter ones are words such as ``api``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """One attempt to deliver a notification: a POST."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class WebhookFailed(Exception):
    """An attempt got no answer; the text says why.

    Attributes:
        is_final: Whether a further attempt would fail too.
    """

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class WebhookAnswer(NamedTuple):
    """The answer to an attempt.

    Attributes:
        status: The status of HTTP.
        start: The start of the body; empty for an accepted webhook.
    """

    status: int
    start: str = ""

    @property
    def refusal(self) -> str:
        """Why the receiver did not accept the webhook; empty if it did."""
        if 200 <= self.status < 300:
            return ""
        return f"the receiver answered {self.status}" + (f": {self.start}" if self.start else "")


PostWebhook = Callable[[WebhookRequest], Awaitable[WebhookAnswer]]
"""Sends a request and returns the answer; raises `WebhookFailed`."""


async def post_nothing(request: WebhookRequest) -> WebhookAnswer:
    """Fail: this environment sends no webhooks."""
    raise WebhookFailed(f"no request is sent to {request.url} here", is_final=True)


def request_of(
    notification: Notification, keys: Sequence[bytes], *, now: Instant
) -> WebhookRequest:
    """Return the request of an attempt at *now*, signed with each of *keys*; unsigned without."""
    return signed_request(notification.url, notification.key, body_of(notification), keys, now=now)


def signed_request(
    url: str, message_id: str, body: bytes, keys: Sequence[bytes], *, now: Instant
) -> WebhookRequest:
    """Return the request that sends the message *body* at *now*; unsigned without *keys*."""
    at = now // SECOND
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"rota/{rota.__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
    }
    if keys:
        signatures = (signature_of(key, message_id, at, body) for key in keys)
        headers["webhook-signature"] = " ".join(signatures)
    return WebhookRequest(url=url, headers=headers, body=body)


def body_of(notification: Notification) -> bytes:
    """Return the body: in the format of a chat, or else type, instant and document of the event."""
    if notification.format is not HookFormat.STANDARD:
        return chat_message(notification.format, notification.document)
    kind, at = f"job.{notification.event.value}", format_instant(notification.at)
    return f'{{"type":"{kind}","timestamp":"{at}","data":{notification.document}}}'.encode()


def shown(text: str, url: str) -> str:
    """Return the start of an answer from *url*, or of an error, as one printable line.

    Path and query of a URL often hold a secret, which a receiver may repeat: they are replaced.
    """
    pieces = re.split(r"[/?&=#]", url.partition("://")[2])[1:]  # Without the host.
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= SECRET_CHARACTERS_MIN:
            text = text.replace(piece, "***")
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line[:SHOWN_MAX]


def signature_of(key: bytes, message_id: str, at_s: int, body: bytes) -> str:
    """Return the signature of a message that is sent at *at_s*, in seconds since 1970."""
    digest = hmac.new(key, f"{message_id}.{at_s}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
