"""Deliveries of webhooks: signed requests of other services, which become events from outside."""

import logging
from typing import Any, cast

import msgspec
from aiohttp import web

from rota.core.errors import Kind, Refused
from rota.core.model.author import Author
from rota.core.model.event_trigger import channel_of
from rota.core.timing.instants import SECOND
from rota.executor.secret_values import SecretUnavailable
from rota.node.api.handlers.outside_events import RECEIVING, Event, receive
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
    keys_in,
)
from rota.wire import operations as api
from rota.wire.bodies.json_decoding import decode_distinct
from rota.wire.documents import Json, WebhookBody, WebhookPayload

log = logging.getLogger(__name__)

operations = Operations(WEBHOOKS.title)


async def shard_of_webhook(request: RequestContext) -> Shard | None:
    """Return the shard of a webhook's channel; None if there is no such webhook."""
    name = request.http.match_info["document"]
    webhook = _webhook(request, name)
    if webhook is None:
        return None
    namespace, _, channel = channel_of(webhook.namespace, name).partition("/")
    return request.node.shards.of_name(namespace, channel)


@operations.declare(
    api.DELIVER_WEBHOOK,
    Success(202, "The delivery is kept for each job with a trigger for the webhook."),
    permission=PUBLIC,
    target=shard_of_webhook,
    query=(DRY_RUN,),
    body=Body(WebhookPayload),
    problems=("webhook_not_found", "webhook_rejected", "secret_unavailable", *RECEIVING),
)
async def deliver_webhook(request: RequestContext) -> web.Response:
    """Receive a delivery of a webhook, which needs no key of the API but a valid signature.

    It becomes an event from outside, whose type is the name of the webhook, whose `subject` is the
    sender's name for what happened, and whose `data` are the body. A delivery with the id of one
    that was received within a day changes nothing.
    """
    name = request.http.match_info["document"]
    webhook = _webhook(request, name)
    if webhook is None:
        raise WEBHOOKS.missing(name)
    content = await read_content(request)
    headers = request.http.headers
    keys = keys_in(_secret_of(request, name, webhook))
    try:
        check_signature(webhook.format, headers, content, keys, request.node.clock.now() // SECOND)
        # Any: JSON of the service. It is read only after its signature was checked.
        data = decode_distinct(content, cast("type[Json]", Any))
        delivery = delivery_of(webhook.format, headers, data)
    except DeliveryRejected as error:
        raise _rejected(name, error) from error
    event: Event = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": f"/webhooks/{name}",
        "type": name,
        "datacontenttype": "application/json",
        "data": data,
    }
    if delivery.subject:
        event["subject"] = delivery.subject
    author = Author(
        principal=f"webhook:{name}", request=request.id, address=client_address(request)
    )
    return await receive(request, webhook.namespace, event, author)


def _webhook(request: RequestContext, name: str) -> WebhookBody | None:
    found = request.node.documents.get(WEBHOOKS.key(name))
    if found is None:
        return None
    return msgspec.convert(found.definition, WebhookBody)


def _secret_of(request: RequestContext, name: str, webhook: WebhookBody) -> bytes:
    try:
        return request.node.secrets.value(webhook.namespace, webhook.secret)
    except SecretUnavailable as error:
        log.warning("delivery not checked", extra={"webhook": name, "reason": str(error)})
        detail = "this node cannot read the secret of the webhook; its log has the reason"
        raise Refused(Kind.UNAVAILABLE, "secret_unavailable", detail, retry_after_s=60) from error


def _rejected(name: str, error: DeliveryRejected) -> Refused:
    detail = f"the delivery to the webhook {name} is rejected: {error}"
    return Refused(Kind.FORBIDDEN, "webhook_rejected", detail)
