"""Operations on secrets of namespaces, and on the key ring; no response has a value or a key.

The node that a client asks handles the request, whichever node that is: a value is encrypted where
it arrives, and never sent to another node.
"""

import base64
import binascii
from bisect import bisect_right
from collections import Counter

from aiohttp import web

from rota.core.errors import Kind, Problem, Refused, invalid_fields
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.quoting import in_quotes
from rota.node.access.verbs import Verb
from rota.node.api.handlers.coordinator_refusals import coordinator_refusals
from rota.node.api.handlers.shared_documents import CHANGING, READ_AGAIN
from rota.node.api.requests.authors import author_of
from rota.node.api.requests.operations import (
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    Body,
    Operations,
    Success,
)
from rota.node.api.requests.parameters import DRY_RUN, LIMIT, text
from rota.node.api.requests.permissions import in_cluster, on_each, on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.api.requests.request_reader import (
    document,
    expected_version,
    read_body,
    written_version,
)
from rota.node.secrets.secret_store import Secret, missing
from rota.wire import operations as api
from rota.wire.documents import (
    SECRET_BYTES_MAX,
    KeyRingView,
    RewrapView,
    SecretBody,
    SecretPage,
    SecretView,
)

operations = Operations("Secrets")
ONE = "/api/v1/secrets/{namespace}/{secret}"
WITHIN = text("namespace", "Only secrets in this namespace.")
CURSOR = text("cursor", "The `nextCursor` of the previous page.")
FAILED_MAX = 100
"""The most names in the response to a rewrap."""


@operations.declare(
    api.LIST_SECRETS,
    Success(200, "A page of secrets."),
    permission=on_each(Verb.SECRET_USE),
    query=(WITHIN, LIMIT, CURSOR),
)
async def list_secrets(request: RequestContext) -> web.Response:
    """List the secrets, by namespace and name, without their values."""
    within, after, limit = WITHIN.of(request), CURSOR.of(request), LIMIT.of(request)
    found = [
        each
        for each in request.node.secrets.all()
        if (not within or each.namespace == within) and request.may_see(each.namespace)
    ]
    first = bisect_right(found, _position(after), key=_place) if after else 0
    page = found[first : first + limit]
    is_last = first + limit >= len(found)
    return document(
        SecretPage(
            items=[_view_of(each) for each in page],
            next_cursor=None if is_last else page[-1].full_name,
        )
    )


@operations.declare(
    api.GET_SECRET,
    Success(200, "The secret, without its value.", headers=(ETAG,)),
    permission=on_object(Verb.SECRET_USE),
    problems=("secret_not_found",),
)
async def get_secret(request: RequestContext) -> web.Response:
    """Show a secret: its version, when and by whom it was set. No operation returns its value."""
    namespace, name = _named(request)
    request.authorize(namespace, missing=missing(namespace, name))
    found = request.node.secrets.get(namespace, name)
    if found is None:
        raise missing(namespace, name)
    return _answer(found)


@operations.declare(
    api.PUT_SECRET,
    Success(200, "The secret, with the new value.", headers=(ETAG,)),
    Success(201, "The secret, created.", headers=(ETAG,)),
    permission=on_object(Verb.SECRET_WRITE),
    query=(DRY_RUN,),
    headers=(IF_MATCH, IF_NONE_MATCH),
    body=Body(SecretBody),
    problems=(
        "invalid_secret",
        "no_key_ring",
        "quota_exceeded",
        "too_many_secrets",
        "document_too_large",
        "too_many_documents",
        "invalid_if_none_match",
        *CHANGING,
    ),
)
async def put_secret(request: RequestContext) -> web.Response:
    """Set a secret.

    A new value is the next version, also if it equals the one before. Attempts that start
    afterwards get it; attempts that run keep the value that they have.
    """
    namespace, name = _named(request)
    request.authorize(namespace)
    body = await read_body(request, SecretBody)
    value = _checked(namespace, name, body)
    secrets = request.node.secrets
    is_new = secrets.get(namespace, name) is None
    if is_new:
        _check_quota(request, namespace, name)
    with coordinator_refusals(READ_AGAIN):
        saved = await secrets.set(
            namespace,
            name,
            value,
            by=author_of(request),
            if_version=written_version(request.http),
            is_dry=request.is_dry_run,
        )
    return _answer(saved, status=201 if is_new else 200)


@operations.declare(
    api.DELETE_SECRET,
    Success(204, "The secret is deleted."),
    permission=on_object(Verb.SECRET_WRITE),
    query=(DRY_RUN,),
    headers=(IF_MATCH,),
    problems=("secret_not_found", *CHANGING),
)
async def delete_secret(request: RequestContext) -> web.Response:
    """Delete a secret.

    Jobs that name it stay; their attempts are lost with the reason `secret_unavailable` until the
    secret is set again.
    """
    namespace, name = _named(request)
    request.authorize(namespace, missing=missing(namespace, name))
    with coordinator_refusals(READ_AGAIN):
        await request.node.secrets.delete(
            namespace,
            name,
            by=author_of(request),
            if_version=expected_version(request.http),
            is_dry=request.is_dry_run,
        )
    return web.Response(status=204)


@operations.declare(
    api.KEY_RING,
    Success(200, "The key ring of this node, without its keys."),
    permission=in_cluster(Verb.ADMIN),
)
async def get_key_ring(request: RequestContext) -> web.Response:
    """Show the ids of the keys of the node that responds, and how many secrets need each key."""
    secrets, ring = request.node.secrets, request.node.secrets.key_ring.ring
    counts = Counter(each.sealed.kek for each in secrets.all())
    return document(
        KeyRingView(
            node=request.node.config.node_id,
            in_use=ring.in_use if ring else None,
            keys=list(ring.keys) if ring else [],
            secrets_by_key=dict(sorted(counts.items())),
        )
    )


@operations.declare(
    api.REWRAP_SECRETS,
    Success(200, "The result."),
    permission=in_cluster(Verb.ADMIN),
    problems=("no_key_ring",),
)
async def rewrap_secrets(request: RequestContext) -> web.Response:
    """Encrypt the data key of each secret with the key in use of the node that responds.

    Values and versions of secrets do not change. The request may be repeated.
    """
    result = await request.node.secrets.rewrap(by=author_of(request))
    return document(
        RewrapView(
            in_use=result.in_use,
            changed=result.changed,
            failed=result.failed[:FAILED_MAX],
            failed_count=len(result.failed),
        )
    )


def _named(request: RequestContext) -> tuple[str, str]:
    """Return namespace and name in the path."""
    path = request.http.match_info
    return path["namespace"], path["secret"]


def _check_quota(request: RequestContext, namespace: str, name: str) -> None:
    """Check that the namespace may have the new secret *name*.

    Raises:
        Refused: Code ``quota_exceeded``.
    """
    most = request.node.namespaces.secrets_max_of(namespace)
    used = request.node.secrets.others_in(namespace, name)
    if most is not None and used >= most:
        raise Refused(
            Kind.CONFLICT,
            "quota_exceeded",
            f"namespace {in_quotes(namespace)} has {used} of at most {most} secrets; delete "
            "secrets that are not needed, or ask an administrator for a larger quota",
        )


def _checked(namespace: str, name: str, body: SecretBody) -> bytes:
    """Return the value in *body*.

    Raises:
        Refused: Code ``invalid_secret``. The error never has the value.
    """
    problems = [
        Problem(f"/{field}", f"{in_quotes(each)} is not a name: {NAME_RULE}")
        for field, each in (("namespace", namespace), ("name", name))
        if not is_name(each)
    ]
    value = b""
    try:
        if (body.value is None) == (body.base64 is None):
            problems.append(Problem("", "the body needs one of value and base64"))
        elif body.base64 is not None:
            value = base64.b64decode(body.base64, validate=True)
        else:
            value = (body.value or "").encode()
    except (binascii.Error, ValueError):  # A text may also have characters that are not Unicode.
        problems.append(Problem("/base64" if body.value is None else "/value", "is malformed"))
    if not value and not problems:
        problems.append(Problem("", "the value is empty; a secret has at least one byte"))
    if len(value) > SECRET_BYTES_MAX:
        detail = f"the value has {len(value)} bytes; at most {SECRET_BYTES_MAX} are allowed"
        problems.append(Problem("", detail))
    if problems:
        raise invalid_fields("invalid_secret", problems)
    return value


def _place(secret: Secret) -> tuple[str, str]:
    return secret.namespace, secret.name


def _position(cursor: str) -> tuple[str, str]:
    namespace, _, name = cursor.partition("/")
    return namespace, name


def _view_of(secret: Secret) -> SecretView:
    return SecretView(
        namespace=secret.namespace,
        name=secret.name,
        version=secret.sealed.version,
        set_at=secret.sealed.set_at,
        set_by=secret.sealed.set_by,
    )


def _answer(secret: Secret, *, status: int = 200) -> web.Response:
    headers = {"ETag": f'"{secret.document_version}"'}
    return document(_view_of(secret), status=status, headers=headers)
