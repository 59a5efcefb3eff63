"""The changes of shared documents, recorded by the primaries of their shards."""

from collections import defaultdict

from rota.core.decide.record_documents import unrecorded
from rota.core.model.ids import Epoch, ShardId
from rota.core.model.shared_document import DocumentChange, DocumentKey, SharedDocument
from rota.core.state.shard_state import document_key
from rota.core.timing.instants import MINUTE, Duration, Instant, later
from rota.core.vocabulary.commands import RecordDocument
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard
from rota.node.system.clock import Clock

RECORDED_PER_ROUND = 20
"""The most documents whose changes one shard records in one round."""
LOOK_EVERY = Duration(10 * MINUTE)
"""The period in which all documents of a shard are compared with what it has recorded."""


class DocumentRecorder:
    """The record of the changes of shared documents.

    The shard of a document is that of a job with its kind as namespace, and its name. All documents
    of a shard are compared when it opens, so that a new primary records what the last one did not.

    Args:
        shards: The shards of this node.
        documents: The shared documents of this node.
        clock: The clock of this node.
    """

    def __init__(self, shards: Shards, documents: SharedDocuments, clock: Clock) -> None:
        self._shards = shards
        self._documents = documents
        self._clock = clock
        self._keys: defaultdict[ShardId, set[DocumentKey]] = defaultdict(set)
        self._due: defaultdict[ShardId, set[DocumentKey]] = defaultdict(set)
        self._looked: dict[ShardId, tuple[Epoch, Instant]] = {}
        """The epoch of the last comparison of all documents of a shard; when the next is due."""
        self._waiting: set[DocumentKey] = set()
        """Documents with a record under way: before its commit, it would be made again."""
        documents.listen(self._changed)

    def record(self, shard: Shard) -> None:
        """Record what is not recorded yet of the documents of an open shard."""
        self._look(shard)
        due = self._due.get(shard.id)
        if not due:
            return
        for key in sorted(due - self._waiting)[:RECORDED_PER_ROUND]:
            changes = self._unrecorded(shard, key)
            if changes is None:
                due.discard(key)
            else:
                self._submit(shard, key, changes)

    def _changed(self, key: DocumentKey, document: SharedDocument | None) -> None:
        shard = self._shards.of_name(key.kind, key.name).id
        self._due[shard].add(key)
        if document is not None:
            self._keys[shard].add(key)
        else:
            self._keys[shard].discard(key)

    def _look(self, shard: Shard) -> None:
        """Make all documents of a shard due, at most once in `LOOK_EVERY` and epoch."""
        epoch, due_at = self._looked.get(shard.id, (None, Instant(0)))
        now = self._clock.elapsed()
        if epoch == shard.epoch and now < due_at:
            return
        self._looked[shard.id] = shard.epoch, later(now, LOOK_EVERY)
        due = self._keys[shard.id]
        if self._documents.is_current:  # Before, a recorded document may be unknown here.
            due = due | {_key_of(each) for each in shard.state.recorded_documents}
        self._due[shard.id] = set(due)

    def _unrecorded(self, shard: Shard, key: DocumentKey) -> tuple[DocumentChange, ...] | None:
        """Return the changes to be recorded; none to forget the document; None for nothing."""
        recorded = shard.state.recorded_documents.get(document_key(key))
        document = self._documents.record(key)
        if document is None:
            return () if recorded is not None and self._documents.is_current else None
        return document.changes if unrecorded(document.changes, recorded) else None

    def _submit(self, shard: Shard, key: DocumentKey, changes: tuple[DocumentChange, ...]) -> None:
        def recorded(answer: Answer) -> None:
            del answer  # If it was refused, the document is still due.
            self._waiting.discard(key)

        self._waiting.add(key)
        self._shards.submit(shard, RecordDocument(key=key, changes=changes), recorded)


def _key_of(text: str) -> DocumentKey:
    kind, _, name = text.partition("/")
    return DocumentKey(kind, name)
