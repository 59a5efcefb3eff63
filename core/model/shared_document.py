"""Shared documents: small definitions that every node has, such as job types.

A document is identified by its kind and its name. Each change creates the next version of the
document, and so does its deletion: the record of a deleted document is kept for some time, without
a definition, so that no copy of an earlier version is mistaken for a newer one. A higher version on
a node than at the coordinator is thus evidence that the coordinator lost the document.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from rota.core.model.author import Author, as_author
from rota.core.model.checked_fields import CheckedInstant
from rota.core.model.ids import is_full_name, is_name, namespace_of
from rota.core.timing.instants import DAY, Duration, Instant

DEFINITION_BYTES_MAX = 64 << 10
"""The maximum size of a definition as JSON, in bytes."""
SECRETS = "secrets"
"""The kind of the secrets of namespaces, whose names are ``namespace/name``."""
NAMESPACES = "namespaces"
"""The kind of the namespaces, which also have a document if they are paused only."""
BINDINGS = "bindings"
"""The kind of the bindings of roles, whose definitions list namespaces."""
SECRET_DEFINITION_BYTES_MAX = 96 << 10
"""The same for a secret: a value of 64 KiB, encrypted and in base64."""
CHANGES_MAX = 20
"""The number of changes, the newest ones, that a document keeps."""
FIELDS_MAX = 16
"""The number of changed fields that a change names."""
FIELD_LENGTH_MAX = 100
DELETED_KEPT = Duration(30 * DAY)
"""The time for which the record of a deleted document is kept."""
COPY_TRUSTED = Duration(25 * DAY)
"""The time for which a node's own copies count after their last comparison with the coordinator.

It is shorter than `DELETED_KEPT`, so a node that was away does not restore a deleted document.
"""

Definition = Mapping[str, Any]  # Any: JSON; each kind checks its definitions.


class DocumentKey(NamedTuple):
    """The kind of a document, such as ``types``, and its name."""

    kind: str
    name: str


class DocumentAction(Enum):
    """The effect of a change on a document."""

    CREATED = "created"
    REPLACED = "replaced"
    DELETED = "deleted"


class DocumentChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a document.

    Attributes:
        version: The version that the change created.
        at: The time of the change, by the clock of the node that made it.
        by: The principal who requested the change.
        author: The caller of the request; None in records of early versions.
        fields: The fields of the definition that a replacement changed, never their values; at most
            `FIELDS_MAX`, then an ellipsis.
    """

    version: int
    at: CheckedInstant
    by: str
    action: DocumentAction
    author: Author | None = None
    fields: tuple[str, ...] = ()


class SharedDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document, or the record of a deleted one.

    Attributes:
        version: The number of the version, from 1; each change increases it by 1.
        definition: The definition, as decoded JSON; None for a deleted document.
        changes: The newest `CHANGES_MAX` changes, newest first.
        owner: The namespace to whose share the document counts, also when it is deleted; empty for
            a document of the cluster.
        is_obsolete: Whether the record of a deleted document can be removed at once.
    """

    kind: str
    name: str
    version: int
    definition: dict[str, Any] | None = None  # Any: JSON; see `Definition`.
    changes: tuple[DocumentChange, ...] = ()
    owner: str = ""
    is_obsolete: bool = False

    @property
    def key(self) -> DocumentKey:
        """The kind and the name of the document."""
        return DocumentKey(self.kind, self.name)

    @property
    def changed_at(self) -> Instant:
        """The time of the newest change; 0 if there is none."""
        return self.changes[0].at if self.changes else Instant(0)


def next_version(
    key: DocumentKey,
    before: SharedDocument | None,
    definition: Definition | None,
    *,
    at: Instant,
    by: Author | str,
) -> SharedDocument:
    """Return the record after a change.

    Args:
        key: The document.
        before: The record before the change; None if there is none.
        definition: The new definition; None to delete the document.
        at: The time of the change.
        by: The caller who requested the change, or the name of its principal.
    """
    document = before or SharedDocument(kind=key.kind, name=key.name, version=0)
    version, author = document.version + 1, as_author(by)
    change = DocumentChange(
        version=version,
        at=at,
        by=author.principal,
        action=_action(document, definition),
        author=author,
        fields=changed_fields(key.kind, document.definition, definition),
    )
    return replace(
        document,
        version=version,
        definition=None if definition is None else dict(definition),
        changes=(change, *document.changes)[:CHANGES_MAX],
        owner=document.owner if definition is None else owner_of(key, definition),
    )


def owner_of(key: DocumentKey, definition: Definition) -> str:
    """Return the namespace to whose share a document counts; empty for one of the cluster.

    A binding in several namespaces counts to the first, and one in all namespaces to the cluster.
    """
    if key.kind == SECRETS:
        return namespace_of(key.name)
    if key.kind == NAMESPACES:
        return key.name
    namespaces = definition.get("namespaces") if key.kind == BINDINGS else None
    return "" if not namespaces or "*" in namespaces else str(min(namespaces))


def _action(before: SharedDocument, definition: Definition | None) -> DocumentAction:
    if definition is None:
        return DocumentAction.DELETED
    return DocumentAction.CREATED if before.definition is None else DocumentAction.REPLACED


def changed_fields(
    kind: str, before: Definition | None, after: Definition | None
) -> tuple[str, ...]:
    """Return the names of the fields in which two definitions differ, never a value.

    Fields of objects are named with the object, such as ``template.retries``. A creation or a
    deletion changes no single field.
    """
    if before is None or after is None:
        return ()
    if kind == SECRETS:  # The fields of an encrypted value mean nothing to a reader.
        return ("value",) if before.get("box") != after.get("box") else ("key",)
    names = [name[:FIELD_LENGTH_MAX] for name in _differences(before, after)]
    return tuple(names[:FIELDS_MAX]) + ("…",) * (len(names) > FIELDS_MAX)


def _differences(before: Definition, after: Definition) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            # Any: JSON, as in `Definition`.
            old, new = cast("Definition", old), cast("Definition", new)
            inner = sorted(old.keys() | new.keys())
            yield from (f"{name}.{each}" for each in inner if old.get(each) != new.get(each))
        elif old != new:
            yield name


def is_forgettable(document: SharedDocument, now: Instant) -> bool:
    """Return True if the record of a deleted document need not be kept any longer."""
    is_old = document.is_obsolete or now - document.changed_at > DELETED_KEPT
    return document.definition is None and is_old


def definition_bytes_max(kind: str) -> int:
    """Return the maximum size of a definition of *kind* as JSON, in bytes."""
    return SECRET_DEFINITION_BYTES_MAX if kind == SECRETS else DEFINITION_BYTES_MAX


def is_document_name(kind: str, name: str) -> bool:
    """Return True if *name* may name a document of *kind*."""
    return is_full_name(name) if kind == SECRETS else is_name(name)


def size_of(document: SharedDocument) -> int:
    """Return the size of the definition as JSON, in bytes; 0 for a deleted document."""
    return 0 if document.definition is None else len(msgspec.json.encode(document.definition))
