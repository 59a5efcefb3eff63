"""The author of the changes of a request."""

from hashlib import blake2b

from rota.core.model.author import (
    ADDRESS_LENGTH_MAX,
    KEY_LENGTH_MAX,
    PRINCIPAL_LENGTH_MAX,
    Author,
)
from rota.node.access.principal import Principal
from rota.node.api.requests.node_headers import CLIENT_ADDRESS
from rota.node.api.requests.request_context import RequestContext


def author_of(request: RequestContext) -> Author:
    """Return the caller of *request*, as changes record it."""
    return Author(
        principal=request.principal.name[:PRINCIPAL_LENGTH_MAX],
        key=_key_of(request.principal),
        request=request.id,
        address=client_address(request),
    )


def _key_of(principal: Principal) -> str:
    """Return the id of the caller's token, execution of a task, or subject of an issuer's token.

    A long subject ends with its hash, so that two subjects never look alike.
    """
    if principal.attempt:
        return principal.attempt.execution_id
    key = principal.identity if principal.issuer else principal.key_id
    if len(key) <= KEY_LENGTH_MAX:
        return key
    digest = blake2b(key.encode(), digest_size=8).hexdigest()
    return f"{key[: KEY_LENGTH_MAX - len(digest) - 1]}~{digest}"


def client_address(request: RequestContext) -> str:
    """Return the address of the client; empty for a unix socket.

    Behind a proxy, it is that of the proxy: clients can write anything into X-Forwarded-For.
    """
    if request.is_forwarded:
        given = request.http.headers.get(CLIENT_ADDRESS, "")[:ADDRESS_LENGTH_MAX]
        # Bytes that are not text arrive as lone surrogates, which no record can have.
        return given if given.isascii() and given.isprintable() else ""
    return (request.http.remote or "")[:ADDRESS_LENGTH_MAX]
