"""The first key of a cluster: created once, whichever nodes and programs try it.

The binding is created first and the key second, so that a key without rights is never left over.
The key always has the name `BOOTSTRAP`: the compare-and-set of this one document decides which of
several concurrent tries succeeds. A try that finds the binding of another one, which may have
ended before its key, uses the principal of that binding; the binding thus belongs to the key,
whichever try creates it.
"""

import asyncio
import logging

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Kind, Refused
from rota.core.model.shared_document import BINDINGS, DocumentKey, SharedDocument
from rota.node.access.access_table import KEYS, AccessTable
from rota.node.access.verbs import EVERY
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.coordination.coordinator_errors import CoordinatorError
from rota.wire.documents import BindingBody, KeyBody, TokenBody
from rota.wire.tokens import Token

log = logging.getLogger(__name__)

BOOTSTRAP = "bootstrap"
"""The name of the first key and of its binding."""
ROLE = "cluster-admin"
_PRINCIPAL = "principal:"
CURRENT_WAIT_S = 3.0
RETRY_S = 1.0
TRIES_MAX = 5


class AlreadyInitialized(Refused):
    """The cluster has, or had, a key."""

    def __init__(self) -> None:
        super().__init__(
            Kind.CONFLICT,
            "already_initialized",
            "this cluster already has, or had, a key; more keys are created with one of an "
            "administrator: `rota key create`. If none is left, run `rotad auth-reset` with the "
            "settings of a node, on its machine",
        )


async def create_first_key(
    documents: SharedDocuments, table: AccessTable, token: Token, *, principal: str, by: str
) -> str:
    """Create the first key, for an administrator of the cluster; return its principal.

    Args:
        documents: The shared documents of this node.
        table: The table of access of this node.
        token: The token of the key.
        principal: The principal of the key, unless an earlier try created a binding.
        by: The principal that is recorded as the author of the change.

    Raises:
        AlreadyInitialized: There is, or was, a key.
        Refused: Code ``not_ready``: the node has not read the documents yet; or as for
            `SharedDocuments.change`.
        CoordinatorError: As for `SharedDocuments.change`.
    """
    await _wait_current(documents)
    principal = await _bind(documents, table, principal, by)
    body = KeyBody(principal=principal, tokens=[TokenBody(id=token.id, hash=token.hash)])
    if table.is_initialized:
        raise AlreadyInitialized
    try:
        await documents.change(
            DocumentKey(KEYS, BOOTSTRAP), msgspec.to_builtins(body), by=by, if_version=0
        )
    except Refused as refusal:
        if refusal.code == "version_mismatch":
            raise AlreadyInitialized from refusal
        raise
    return principal


async def _wait_current(documents: SharedDocuments) -> None:
    try:
        async with asyncio.timeout(CURRENT_WAIT_S):
            await documents.wait_current()
    except TimeoutError as error:
        raise Refused(
            Kind.UNAVAILABLE,
            "not_ready",
            "this node has not read the keys from etcd yet; check that etcd responds, and repeat "
            "the request",
            retry_after_s=1,
        ) from error


async def _bind(documents: SharedDocuments, table: AccessTable, principal: str, by: str) -> str:
    """Create the binding of the first key, and return its principal."""
    key = DocumentKey(BINDINGS, BOOTSTRAP)
    body = BindingBody(subject=f"{_PRINCIPAL}{principal}", role=ROLE, namespaces=[EVERY])
    for _ in range(TRIES_MAX):
        if table.is_initialized:
            raise AlreadyInitialized
        found = documents.get(key)
        bound = _principal_of(found) if found else ""
        if bound:
            return bound
        version = found.version if found else 0
        try:
            await documents.change(key, msgspec.to_builtins(body), by=by, if_version=version)
        except Refused as refusal:
            if refusal.code != "version_mismatch":
                raise
            continue
        return principal
    raise Refused(
        Kind.CONFLICT,
        "contention",
        f"the binding {BOOTSTRAP!r} was changed {TRIES_MAX} times during the request; try again",
        retry_after_s=1,
    )


def _principal_of(found: SharedDocument) -> str:
    """Return the principal of an earlier try's binding; empty if it is another binding."""
    try:
        body = msgspec.convert(found.definition, BindingBody)
    except UNDECODABLE:
        return ""
    is_of_try = body.role == ROLE and body.namespaces == [EVERY]
    is_of_try = is_of_try and body.subject.startswith(_PRINCIPAL)
    return body.subject.removeprefix(_PRINCIPAL) if is_of_try else ""


class BootstrapKey:
    """Creates the first key from a given token, once the coordinator can be used.

    Args:
        documents: The shared documents of this node.
        table: The table of access of this node.
        token: The token, from the setting ``bootstrap_key_file``.
    """

    def __init__(self, documents: SharedDocuments, table: AccessTable, token: Token) -> None:
        self._documents = documents
        self._table = table
        self._token = token

    async def run(self) -> None:
        """Try to create the key until there is one."""
        await self._documents.wait_current()
        while not self._table.is_initialized:
            try:
                principal = await create_first_key(
                    self._documents,
                    self._table,
                    self._token,
                    principal=BOOTSTRAP,
                    by="bootstrap_key_file",
                )
                log.info(
                    "first key created", extra={"principal": principal, "token_id": self._token.id}
                )
            except AlreadyInitialized:
                return
            except (CoordinatorError, Refused) as error:
                log.warning("first key not created yet", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)
