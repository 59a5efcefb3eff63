"""This node's copies of the shared documents, each in one row of its store.

META     document/<kind>/<name>     SharedDocument
         documents compared         when all copies were last compared with the coordinator
"""

from collections.abc import Iterator

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.checked_fields import CheckedInstant
from rota.core.model.shared_document import DocumentKey, SharedDocument
from rota.core.timing.instants import Instant
from rota.storage.store import Batch, Family, Store, StoreDamaged

_PREFIX = b"document/"
_END = b"document0"
_COMPARED = b"documents compared"

_document = msgspec.msgpack.Decoder(SharedDocument)
_instant = msgspec.msgpack.Decoder(CheckedInstant)


def stored_documents(store: Store) -> Iterator[SharedDocument]:
    """Yield the stored copies.

    Raises:
        StoreDamaged: A row cannot be read.
    """
    for key, value in store.scan(Family.META, _PREFIX, _END):
        try:
            yield _document.decode(value)
        except UNDECODABLE as error:
            raise _damaged(key, error) from error


def compared_at(store: Store) -> Instant:
    """Return when the copies were last compared with the coordinator; 0 if never.

    Raises:
        StoreDamaged: The row cannot be read.
    """
    value = store.get(Family.META, _COMPARED)
    if value is None:
        return Instant(0)
    try:
        return _instant.decode(value)
    except UNDECODABLE as error:
        raise _damaged(_COMPARED, error) from error


def put_document(batch: Batch, document: SharedDocument) -> None:
    """Add a copy to *batch*."""
    batch.put(Family.META, _key(document.key), msgspec.msgpack.encode(document))


def delete_document(batch: Batch, key: DocumentKey) -> None:
    """Add the deletion of a copy to *batch*."""
    batch.delete(Family.META, _key(key))


def put_compared(batch: Batch, at: Instant) -> None:
    """Add the time of a comparison with the coordinator to *batch*."""
    batch.put(Family.META, _COMPARED, msgspec.msgpack.encode(at))


def _key(key: DocumentKey) -> bytes:
    return _PREFIX + f"{key.kind}/{key.name}".encode()


def _damaged(key: bytes, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"the row {key.decode(errors='replace')!r} cannot be read: {error}. The data directory "
        "cannot be trusted: restore it from a backup, or move it away to start with an empty one"
    )
