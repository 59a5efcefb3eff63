"""Tables of access for tests, filled from definitions."""

from typing import Any

from rota.core.model.shared_document import BINDINGS, DocumentKey, SharedDocument
from rota.node.access.access_table import KEYS, ROLES_KIND, AccessTable
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, Token, mint

Json = Any  # Any: definitions of documents, which the table decodes.


def token(number: int) -> Token:
    """Return one of many different tokens."""
    return mint(number.to_bytes(ID_BYTES, "big") * (1 + SECRET_BYTES // ID_BYTES))


def stored(found: Token, **fields: Json) -> Json:
    """Return a token as a key has it."""
    return {"id": found.id, "hash": found.hash, **fields}


def put(
    table: AccessTable, kind: str, name: str, definition: Json | None, version: int = 1
) -> None:
    """Put a document into the table; without a definition, the record of a deletion."""
    document = SharedDocument(kind=kind, name=name, version=version, definition=definition)
    table.changed(DocumentKey(kind, name), document)


def put_key(table: AccessTable, principal: str, *tokens: Json, **fields: Json) -> None:
    """Put a key with the name of its principal into the table."""
    put(table, KEYS, principal, {"principal": principal, "tokens": list(tokens), **fields})


def bind(
    table: AccessTable, subject: str, role: str, *namespaces: str, name: str = "binding"
) -> None:
    """Put a binding into the table."""
    body = {"subject": subject, "role": role, "namespaces": list(namespaces)}
    put(table, BINDINGS, name, body)


def define_role(table: AccessTable, name: str, *verbs: str) -> None:
    """Put a role into the table."""
    put(table, ROLES_KIND, name, {"verbs": list(verbs)})
