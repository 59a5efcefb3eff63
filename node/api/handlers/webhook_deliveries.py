"""Deliveries of webhooks: signed requests of other services, which become events from outside."""

from typing import Any, cast

import msgspec
from aiohttp import web

from rota.core.errors import Kind, Refused
from rota.core.model.author import Author
from rota.core.model.event_trigger import channel_of
from rota.core.model.flow import EVENT_BYTES_MAX
from rota.core.timing.instants import SECOND
from rota.executor.secret_values import SecretUnavailable
from rota.node.api.handlers.outside_events import RECEIVING, WEBHOOK_SOURCES, Event, receive
from rota.node.api.kinds.webhooks import WEBHOOKS
from rota.node.api.requests.authors import client_address
from rota.node.api.requests.operations import Body, Operations, Success
from rota.node.api.requests.parameters import DRY_RUN
from rota.node.api.requests.permissions import PUBLIC
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import read_content
from rota.node.shards.shard import Shard
from rota.node.webhooks.incoming_webhook import (
    DeliveryRejected,
    check_signature,
    delivery_of,
    key_rule,
    keys_in,
)
from rota.wire import operations as api
from rota.wire.bodies.json_decoding import decode_distinct
from rota.wire.documents import Json, WebhookBody, WebhookPayload

operations = Operations(WEBHOOKS.title)
BODY_MAX = 2 * EVENT_BYTES_MAX
"""The most bytes of a body, some of which may be white space between the values of the event."""


async def shard_of_webhook(request: RequestContext) -> Shard:
    """Return the shard of the channel of a delivery.

    A delivery that is not valid is refused here, so it stays on the node that received it.

    Raises:
        Refused: As for the operation.
    """
    webhook, _ = await _checked(request)
    name = request.http.match_info["document"]
    namespace, _, channel = channel_of(webhook.namespace, name).partition("/")
    return request.node.shards.of_name(namespace, channel)


@operations.declare(
    api.DELIVER_WEBHOOK,
    Success(202, "The delivery is kept for each job with a trigger for the webhook."),
    permission=PUBLIC,
    target=shard_of_webhook,
    query=(DRY_RUN,),
    body=Body(WebhookPayload),
    problems=("webhook_not_found", "webhook_rejected", "webhook_unavailable", *RECEIVING),
)
async def deliver_webhook(request: RequestContext) -> web.Response:
    """Receive a delivery of a webhook, which needs no key of the API but a valid signature.

    It becomes an event from outside, whose type is the name of the webhook, whose `subject` is the
    sender's name for what happened, and whose `data` are the body. A delivery with the id of one
    that was received within a day changes nothing.
    """
    webhook, event = await _checked(request)
    name = request.http.match_info["document"]
    author = Author(
        principal=f"webhook:{name}", request=request.id, address=client_address(request)
    )
    return await receive(request, webhook.namespace, event, author)


async def _checked(request: RequestContext) -> tuple[WebhookBody, Event]:
    """Return the webhook of a delivery and its event, after the check of its signature.

    Raises:
        Refused: There is no such webhook, it cannot be used, or the delivery is not valid.
    """
    name, headers = request.http.match_info["document"], request.http.headers
    # Its keys are looked up after the body arrived: the webhook may be deleted meanwhile.
    _webhook(request, name)
    content = await read_content(request, most=BODY_MAX)
    webhook = _webhook(request, name)
    keys, now_s = _keys_of(request, webhook), request.node.clock.now() // SECOND
    try:
        check_signature(webhook.format, headers, content, keys, now_s)
        # Any: JSON of the service. It is read only after its signature was checked.
        data = decode_distinct(content, cast("type[Json]", Any))
        delivery = delivery_of(webhook.format, headers, data)
    except DeliveryRejected as error:
        detail = f"the delivery to the webhook {name} is rejected: {error}"
        raise Refused(Kind.FORBIDDEN, "webhook_rejected", detail) from error
    event: Event = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": f"{WEBHOOK_SOURCES}{name}",
        "type": name,
        "datacontenttype": "application/json",
        "data": data,
    }
    if delivery.subject:
        event["subject"] = delivery.subject
    return webhook, event


def _webhook(request: RequestContext, name: str) -> WebhookBody:
    found = request.node.documents.get(WEBHOOKS.key(name))
    if found is None:
        raise WEBHOOKS.missing(name)
    try:
        return msgspec.convert(found.definition, WebhookBody)
    except msgspec.ValidationError as error:
        raise _unavailable(f"a later version of rota wrote it: {error}") from error


def _keys_of(request: RequestContext, webhook: WebhookBody) -> list[bytes]:
    try:
        secret = request.node.secrets.value(webhook.namespace, webhook.secret)
    except SecretUnavailable as error:  # Its text has the name of the secret.
        raise _unavailable("this node cannot read its secret, or there is none") from error
    keys = keys_in(webhook.format, secret)
    if not keys:
        raise _unavailable(f"its secret has no line with {key_rule(webhook.format)}")
    return keys


def _unavailable(reason: str) -> Refused:
    detail = f"the webhook cannot be used now: {reason}"
    return Refused(Kind.UNAVAILABLE, "webhook_unavailable", detail, retry_after_s=60)
