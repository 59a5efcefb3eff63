"""The principal of a forwarded request, as one node sends it to another.

Grants are not sent: the receiving node compiles them from its own documents. If it has fewer
changes of them than the sender had, it waits for them for a short time.
"""

import asyncio
import json
from dataclasses import replace

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Kind, Refused
from rota.core.timing.instants import Instant
from rota.node.access.access_table import AccessTable
from rota.node.access.attempt_identity import AttemptIdentity
from rota.node.access.authenticator import LoginFailed
from rota.node.access.principal import ANONYMOUS, Principal
from rota.node.access.refused_access import Refusal

PRINCIPAL = "Rota-Principal"
"""The header with the form; only nodes send it."""
DOCUMENTS_WAIT_S = 0.2
"""The longest wait for the documents that the sender had."""
DOCUMENTS_LOOK_S = 0.005


class _Form(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    key_id: str = ""
    subjects: tuple[str, ...] = ()
    revision: int = 0
    issuer: str = ""
    expires_at: Instant | None = None
    attempt: AttemptIdentity | None = None


def form_of(principal: Principal, revision: int) -> str:
    """Return the form of *principal*: JSON on one line, in ASCII as headers require."""
    form = _Form(
        name=principal.name,
        key_id=principal.key_id,
        subjects=principal.subjects,
        revision=revision,
        issuer=principal.issuer,
        expires_at=principal.expires_at,
        attempt=principal.attempt,
    )
    return json.dumps(msgspec.to_builtins(form), separators=(",", ":"))


async def principal_in(form: str, table: AccessTable) -> Principal:
    """Return the principal that *form* names, with the grants that this node's documents give it.

    Raises:
        Refused: The form is malformed, or the key or issuer of the principal is deleted. The sender
            may be cut off from etcd, and not know of the deletion.
    """
    try:
        found = msgspec.json.decode(form, type=_Form)
    except UNDECODABLE as error:
        raise Refused(
            Kind.UNAUTHENTICATED,
            "unauthenticated",
            f"the header {PRINCIPAL} is malformed: {error}",
        ) from error
    if not found.subjects:
        return ANONYMOUS
    await _wait_documents(table, found.revision)
    _refuse_if_revoked(found, table)
    principal = table.principal(found.name, found.key_id, found.subjects)
    principal = table.principal(found.name, found.key_id, found.subjects)
    if found.expires_at is None and found.attempt is None:
        return principal
    # The receiving node ends the streams that it serves for the caller at the same instant.
    return replace(
        principal, issuer=found.issuer, expires_at=found.expires_at, attempt=found.attempt
    )


def _refuse_if_revoked(found: _Form, table: AccessTable) -> None:
    if table.revision < found.revision:
        return  # The sender has newer documents, and has checked the caller by them.
    is_key_here = not found.key_id or bool(table.credentials(found.key_id))
    if is_key_here and (not found.issuer or table.has_issuer(found.issuer)):
        return
    raise LoginFailed(Refusal(reason="revoked", token_id=found.key_id, is_login=True))


async def _wait_documents(table: AccessTable, revision: int) -> None:
    deadline = asyncio.get_running_loop().time() + DOCUMENTS_WAIT_S
    while table.revision < revision and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - seldom, and short
        await asyncio.sleep(DOCUMENTS_LOOK_S)
