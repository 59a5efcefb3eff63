"""The record of the coordinator's past states, in one row of a node's store.

META     continuity                 the generation that was lost, the highest revision seen
"""

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.storage.store import Batch, Family, Store, StoreDamaged

_KEY = b"continuity"


class _Row(msgspec.Struct, frozen=True, array_like=True):
    lost: int | None
    revision: int
    revision_generation: int = 0


_decoder = msgspec.msgpack.Decoder(_Row)


def stored_continuity(store: Store) -> CoordinatorContinuity:
    """Return the stored record; an empty one if none was written.

    Raises:
        StoreDamaged: The row cannot be read.
    """
    value = store.get(Family.META, _KEY)
    if value is None:
        return CoordinatorContinuity()
    try:
        row = _decoder.decode(value)
    except UNDECODABLE as error:
        raise StoreDamaged(
            f"the record of the coordinator's past states cannot be read: {error}. The data "
            "directory cannot be trusted: restore it from a backup, or move it away to start with "
            "an empty one"
        ) from error
    return CoordinatorContinuity(
        lost=row.lost, revision=row.revision, revision_generation=row.revision_generation
    )


def put_continuity(batch: Batch, continuity: CoordinatorContinuity) -> None:
    """Add the record of *continuity* to *batch*, to be read when the node starts again."""
    row = _Row(continuity.lost, continuity.revision, continuity.revision_generation)
    batch.put(Family.META, _KEY, msgspec.msgpack.encode(row))
