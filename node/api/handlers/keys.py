"""Operations that create and rotate keys; both show a new token, once."""

from collections.abc import Iterable, Sequence

import msgspec
from aiohttp import web
from msgspec.structs import replace

from rota.core.errors import Kind, Problem, Refused, invalid
from rota.core.model.shared_document import Definition, SharedDocument
from rota.core.quoting import in_quotes
from rota.core.timing.instants import (
    LATEST_INSTANT,
    Duration,
    Instant,
    format_instant,
    later,
    parse_instant,
)
from rota.node.access.verbs import Verb
from rota.node.api.handlers.coordinator_refusals import coordinator_refusals
from rota.node.api.handlers.shared_documents import CHANGING, READ_AGAIN
from rota.node.api.kinds.bindings import BINDINGS
from rota.node.api.kinds.keys import KEYS
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.operations import LOCATION, Body, Operations, Success
from rota.node.api.requests.permissions import in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import document, read_body
from rota.node.links.identity_proof import draw_bytes
from rota.wire import operations as api
from rota.wire.bodies.field_reader import Reader
from rota.wire.documents import (
    BindingBody,
    CreateKeyBody,
    KeyBody,
    NewTokenView,
    RotateKeyBody,
    Timespan,
    TokenBody,
)
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, Token, mint

operations = Operations(KEYS.title)
BINDING_PREFIX = "key-"
LIMITS = ("invalid_key", "document_too_large", "too_many_documents")


@operations.declare(
    api.CREATE_KEY,
    Success(201, "The key, with its token.", headers=(LOCATION,)),
    permission=in_cluster(Verb.ADMIN),
    body=Body(CreateKeyBody),
    problems=("key_exists", "invalid_binding", *LIMITS, *CHANGING),
)
async def create_key(request: RequestContext) -> web.Response:
    """Create a key with one token, which is shown only here.

    With a `role`, a binding `key-NAME` gives the principal that role in the `namespaces`.
    """
    body = await read_body(request, CreateKeyBody)
    documents, reader = request.node.documents, Reader()
    principal, token = body.principal or body.name, new_token(request)
    expires_at = _end(request, reader, body.expires_in, "/expiresIn")
    stored = _stored(token, expires_at)
    definition = KEYS.checked(
        body.name, KeyBody(principal=principal, tokens=[stored], from_=body.from_)
    )
    problems = [*reader.problems, *_problems_of_role(body)]
    if problems:
        raise invalid("invalid_key", "; ".join(map(str, problems)), *problems)
    if documents.get(KEYS.key(body.name)) is not None:
        raise _exists(body.name)
    with coordinator_refusals(READ_AGAIN):
        if body.role:
            # First, so that there is no key without its rights; a key of this name has no token.
            await _bind(request, body, principal)
        try:
            await documents.change(
                KEYS.key(body.name), definition, by=author_of(request), if_version=0
            )
        except Refused as refusal:
            if refusal.code == "version_mismatch":
                raise _exists(body.name) from refusal
            raise
    view = _view(body.name, principal, token, stored)
    return document(view, status=201, headers={"Location": f"/api/v1/keys/{body.name}"})


@operations.declare(
    api.ROTATE_KEY,
    Success(200, "The key, with its new token."),
    permission=in_cluster(Verb.ADMIN),
    body=Body(RotateKeyBody, is_optional=True),
    problems=("key_not_found", *LIMITS, *CHANGING),
)
async def rotate_key(request: RequestContext) -> web.Response:
    """Give a key a new token, which is shown only here; the old tokens end after the grace.

    Tokens that have ended are removed from the key. A key has at most 10 tokens.
    """
    body = await read_body(request, RotateKeyBody, if_empty=RotateKeyBody())
    name, documents, reader = request.http.match_info["document"], request.node.documents, Reader()
    found = documents.get(KEYS.key(name))
    if found is None:
        raise KEYS.missing(name)
    key = msgspec.convert(found.definition, KeyBody)
    now, token = request.node.clock.now(), new_token(request)
    grace_ends_at = _after(now, reader.timespan(body.grace, "/grace"))
    alive = [each for each in key.tokens if _ends_at(each) > now]
    ends_at = _end(request, reader, body.expires_in, "/expiresIn")
    if body.expires_in is None and alive:
        ends_at = _finite(max(map(_ends_at, alive)))
    if reader.problems:
        raise invalid("invalid_key", "; ".join(map(str, reader.problems)), *reader.problems)
    stored = _stored(token, ends_at)
    tokens = [stored, *_ending_by(alive, grace_ends_at, now)]
    await _save_rotated(request, found, KEYS.checked(name, replace(key, tokens=tokens)))
    return document(_view(name, key.principal, token, stored))


def new_token(request: RequestContext) -> Token:
    """Return a new token."""
    return mint(draw_bytes(request.node.entropy, ID_BYTES + SECRET_BYTES))


async def _bind(request: RequestContext, body: CreateKeyBody, principal: str) -> None:
    name = BINDING_PREFIX + body.name
    binding = BindingBody(
        subject=f"principal:{principal}", role=body.role, namespaces=body.namespaces
    )
    definition = BINDINGS.checked_to_save(request, name, binding, None)
    await request.node.documents.change(BINDINGS.key(name), definition, by=author_of(request))


def _problems_of_role(body: CreateKeyBody) -> Sequence[Problem]:
    if bool(body.role) == bool(body.namespaces):
        return []
    missing, given = ("namespaces", "role") if body.role else ("role", "namespaces")
    return [Problem(f"/{missing}", f"is missing; give it together with {given}, or neither")]


async def _save_rotated(
    request: RequestContext, before: SharedDocument, definition: Definition
) -> None:
    with coordinator_refusals(READ_AGAIN):
        await request.node.documents.change(
            before.key, definition, by=author_of(request), if_version=before.version
        )


def _ending_by(tokens: Iterable[TokenBody], ends_at: Instant, now: Instant) -> Iterable[TokenBody]:
    """Return *tokens* with ends at *ends_at*, or earlier as before; none if it has passed."""
    if ends_at <= now:
        return []
    return [
        replace(each, expires_at=format_instant(min(ends_at, _ends_at(each)))) for each in tokens
    ]


def _end(
    request: RequestContext, reader: Reader, given: Timespan | None, pointer: str
) -> Instant | None:
    """Return the end of a new token; None for never."""
    if given is None:
        return None
    duration = reader.timespan(given, pointer)
    if duration <= 0 and not reader.problems:
        reader.problems.append(Problem(pointer, "the token would have ended already"))
    return _finite(_after(request.node.clock.now(), duration))


def _after(now: Instant, duration: Duration) -> Instant:
    return min(later(now, duration), LATEST_INSTANT)


def _finite(instant: Instant) -> Instant | None:
    return None if instant >= LATEST_INSTANT else instant


def _ends_at(token: TokenBody) -> Instant:
    return parse_instant(token.expires_at) if token.expires_at else LATEST_INSTANT


def _stored(token: Token, expires_at: Instant | None) -> TokenBody:
    text = None if expires_at is None else format_instant(expires_at)
    return TokenBody(id=token.id, hash=token.hash, expires_at=text)


def _view(name: str, principal: str, token: Token, stored: TokenBody) -> NewTokenView:
    return NewTokenView(
        name=name,
        principal=principal,
        token=token.text,
        token_id=token.id,
        expires_at=stored.expires_at,
    )


def _exists(name: str) -> Refused:
    return Refused(
        Kind.CONFLICT,
        "key_exists",
        f"there is a key {in_quotes(name)}; choose another name, or give it a new token with "
        f"`rota key rotate {name}`",
    )
