"""Events from outside over HTTP, in the structured and the binary mode of CloudEvents 1.0."""

import re
from base64 import b64decode
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from aiohttp import web
from msgspec.structs import fields

from rota.core.errors import Problem, Refused, invalid_fields
from rota.core.model.author import Author
from rota.core.model.event_trigger import channel_of
from rota.core.model.flow import EVENT_BYTES_MAX
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.quoting import in_quotes
from rota.core.timing.instants import parse_instant
from rota.core.vocabulary.commands import Idempotency, ReceiveEvent
from rota.core.vocabulary.decision import Received
from rota.node.access.verbs import Verb
from rota.node.api.handlers.idempotency import earlier_reply
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.error_codes import DECIDING
from rota.node.api.requests.operations import Body, Operations, Success
from rota.node.api.requests.parameters import DRY_RUN, text
from rota.node.api.requests.permissions import on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document, read_content, read_object
from rota.node.api.requests.writes import write
from rota.node.shards.shard import Shard
from rota.wire import operations as api
from rota.wire.bodies.json_decoding import PROBLEMS_MAX, decode_distinct
from rota.wire.documents import CloudEventBody, Json, ReceivedEventView

operations = Operations("Events")
NAMESPACE = text(
    "namespace", "The namespace of the jobs that the event may start; `default` if omitted."
)
TEXT_MAX = {"id": 255, "source": 2_000}
ATTRIBUTE_MAX = 2_000
"""The most characters of any other attribute."""
REQUIRED = ("specversion", "id", "source", "type")
DATA = ("data", "data_base64")
RECEIVING = ("invalid_event", "too_many_listeners", "outbox_full", *DECIDING)
"""The codes of the refusals of an event."""
WEBHOOK_SOURCES = "/webhooks/"
"""The sources of events of webhooks, whose ids no other sender can use up."""
_NAME = re.compile(r"[a-z0-9]{1,20}", re.ASCII)
_FIELDS = frozenset(each.name for each in fields(CloudEventBody))

Event = dict[str, Any]  # Any: JSON.


async def shard_of_event(request: RequestContext) -> Shard | None:
    """Return the shard of the event's channel; None for a request that its handler refuses."""
    try:
        event = await _given(request)
    except Refused:
        return None
    kind = event.get("type")
    if not isinstance(kind, str) or not is_name(kind) or not is_name(_namespace_of(request)):
        return None
    namespace, _, name = channel_of(_namespace_of(request), kind).partition("/")
    return request.node.shards.of_name(namespace, name)


@operations.declare(
    api.SEND_EVENT,
    Success(202, "The event is kept for each job with a trigger for it."),
    permission=on_object(Verb.RUN),
    target=shard_of_event,
    query=(NAMESPACE, DRY_RUN),
    body=Body(CloudEventBody),
    problems=RECEIVING,
)
async def send_event(request: RequestContext) -> web.Response:
    """Send an event from outside to the jobs of a namespace that have a trigger for its type.

    The body is a CloudEvent in JSON, as `application/cloudevents+json` or `application/json`; or,
    with headers `ce-…` for the attributes, its data as JSON.
    An event with the source and the id of one that was received within a day changes nothing.
    """
    namespace = _namespace_of(request)
    request.authorize(namespace, of=channel_of(namespace, "*"))
    if not is_name(namespace):
        detail = f"{in_quotes(namespace)} is not a namespace: {NAME_RULE}"
        raise invalid_fields("invalid_event", [Problem("/namespace", detail)])
    event = await _given(request)
    if str(event.get("source")).startswith(WEBHOOK_SOURCES):
        detail = f"begins with {WEBHOOK_SOURCES}, as only the events of webhooks do"
        raise invalid_fields("invalid_event", [Problem("/source", detail)])
    return await receive(request, namespace, event, author_of(request))


async def receive(
    request: RequestContext, namespace: str, event: Event, author: Author
) -> web.Response:
    """Check an event, give it to the jobs of a namespace, and return the answer to its sender.

    Args:
        request: The request, of which this node has the shard of the channel.
        namespace: The namespace, a name.
        event: The event, unchecked.
        author: Its sender.

    Raises:
        Refused: With one of the codes `RECEIVING`.
    """
    if problems := _problems_of(event):
        raise invalid_fields("invalid_event", problems)
    channel = channel_of(namespace, event["type"])
    command = ReceiveEvent(
        channel=channel,
        event=msgspec.json.encode(event).decode(),
        idempotency=_identity(channel, event),
        author=author,
    )
    is_repeated = earlier_reply(request, command.idempotency) is not None
    reply, _ = await write(request, request.shard, command)
    assert isinstance(reply, Received), reply
    view = ReceivedEventView(
        id=event["id"],
        source=event["source"],
        type=event["type"],
        namespace=namespace,
        jobs=reply.jobs,
        repeated=is_repeated,
    )
    return document(view, status=202)


def _namespace_of(request: RequestContext) -> str:
    return NAMESPACE.of(request) or "default"


def _identity(channel: str, event: Event) -> Idempotency:
    """Return what repetitions of an event have in common, also those of other callers."""
    digest = blake2b(digest_size=16)
    for part in (event["source"], event["id"]):
        digest.update(b"%d/%b" % (len(part), part.encode()))
    # A client's key has printable characters alone.
    return Idempotency(key=f"\x7f{digest.hexdigest()}", caller=channel, digest="")


async def _given(request: RequestContext) -> Event:
    """Return the event of a request, whose attributes are unchecked.

    Raises:
        Refused: The body cannot be received, or is no JSON of the required form.
    """
    if not any(name.lower().startswith("ce-") for name in request.http.headers):
        return await read_object(request)
    attributes = _attributes_in(request.http.headers)
    content = await read_content(request)
    if content.strip():
        attributes["data"] = decode_distinct(content, cast("type[Json]", Any))
        attributes.setdefault("datacontenttype", request.http.content_type)
    return attributes


def _attributes_in(headers: Mapping[str, str]) -> Event:
    """Return the attributes in headers ``ce-…``.

    Raises:
        Refused: One is given twice, is no text in UTF-8, or is the data.
    """
    found: Event = {}
    problems: list[Problem] = []
    for header, value in headers.items():
        name = header.lower().removeprefix("ce-")
        if not header.lower().startswith("ce-"):
            continue
        try:
            text = unquote(value, errors="strict")
            text.encode()
        except UnicodeError:
            problems.append(Problem(f"/{name}", "is no text in UTF-8"))
            continue
        if name in found or name in DATA:
            detail = "is given twice" if name in found else "belongs into the body"
            problems.append(Problem(f"/{name}", f"the header {detail}"))
        found[name] = text
    if problems:
        raise invalid_fields("invalid_event", problems[:PROBLEMS_MAX])
    return found


def _problems_of(event: Event) -> list[Problem]:
    missing = [name for name in REQUIRED if event.get(name) is None]
    if missing:
        return [Problem(f"/{name}", "the attribute is missing; add it") for name in missing]
    if event["specversion"] != "1.0":
        version = in_quotes(str(event["specversion"]))
        return [Problem("/specversion", f"{version} is not supported; send an event of 1.0")]
    try:
        found = msgspec.convert(event, CloudEventBody)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        return [Problem(path.rstrip("`").replace(".", "/"), detail)]
    problems = [
        Problem(f"/{name}", f"has {len(text):,} characters; 1 to {most:,} are allowed")
        for name, most in TEXT_MAX.items()
        for text in (getattr(found, name),)
        if not 0 < len(text) <= most
    ]
    if not is_name(found.type):
        detail = f"{in_quotes(found.type)} is not the type of an event: {NAME_RULE}"
        problems.append(Problem("/type", detail))
    if found.data is not None and found.data_base64 is not None:
        problems.append(Problem("/data_base64", "is given beside data; give one of them"))
    if found.time is not None:
        try:
            parse_instant(found.time)
        except (ValueError, OverflowError):
            detail = f"{in_quotes(found.time)} is not a time such as 2027-01-01T09:00:00Z"
            problems.append(Problem("/time", detail))
    if found.data_base64 is not None and not _is_base64(found.data_base64):
        problems.append(Problem("/data_base64", "is not base64"))
    problems += _problems_of_attributes(event)
    size = len(msgspec.json.encode(event))
    if size > EVENT_BYTES_MAX:
        detail = f"has {size:,} bytes as JSON; at most {EVENT_BYTES_MAX:,} are allowed"
        problems.append(Problem("", detail))
    return problems


def _problems_of_attributes(event: Event) -> list[Problem]:
    """Return the errors in attributes other than the data: CloudEvents 1.0, 3.1."""
    problems: list[Problem] = []
    for name, value in event.items():
        if name in DATA:
            continue
        if name not in _FIELDS and not _NAME.fullmatch(name):
            detail = "is not the name of an attribute: 1 to 20 lower-case letters and digits"
            problems.append(Problem(f"/{name}", detail))
        elif not isinstance(value, str | bool | int | None):
            problems.append(Problem(f"/{name}", "is not a text, a number or a truth value"))
        elif isinstance(value, str) and len(value) > ATTRIBUTE_MAX and name not in TEXT_MAX:
            detail = f"has {len(value):,} characters; at most {ATTRIBUTE_MAX:,} are allowed"
            problems.append(Problem(f"/{name}", detail))
    return problems[:PROBLEMS_MAX]


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True
