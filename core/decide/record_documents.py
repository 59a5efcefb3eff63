"""The changes of shared documents in the record of what users change.

A document is changed at the coordinator, together with the list of its newest changes. The shard of
the document then records those that it has not recorded yet, so that they are kept as long as the
changes of jobs, in the same chain. A command may come late, twice, or from a node whose copy of the
document is outdated: each change is recorded once.
"""

from collections.abc import Sequence

from rota.core.model.author import as_author
from rota.core.model.ids import JobId
from rota.core.model.shared_document import DocumentAction, DocumentChange, DocumentKey
from rota.core.state.draft import Draft
from rota.core.state.shard_state import document_key
from rota.core.timing.instants import DAY
from rota.core.vocabulary.change_chain import (
    Action,
    ChangedDocument,
    UserChange,
    change_key,
    sealed,
)
from rota.core.vocabulary.changes import RecordedDocument, Table
from rota.core.vocabulary.commands import RecordDocument

ACTIONS = {
    DocumentAction.CREATED: Action.DOCUMENT_CREATED,
    DocumentAction.REPLACED: Action.DOCUMENT_REPLACED,
    DocumentAction.DELETED: Action.DOCUMENT_DELETED,
}
CLOCKS_APART_MAX = DAY
"""The most by which the clocks of nodes differ, so that a change later than this after the recorded
one is none of an outdated copy."""


def unrecorded(
    changes: Sequence[DocumentChange], recorded: RecordedDocument | None
) -> Sequence[DocumentChange]:
    """Return the changes that are not recorded yet, newest first.

    Args:
        changes: The newest changes of a document, newest first.
        recorded: The newest change that is recorded; None if none is.
    """
    if recorded is None:
        return changes
    for place, each in enumerate(changes):
        if (each.version, each.at) == (recorded.version, recorded.at):
            changes = changes[:place]  # The others were made before it, whatever their clocks.
            break
    return [
        each
        for each in changes
        if each.version > recorded.version
        # Two changes may create the same version if the coordinator lost one of them.
        or (each.version == recorded.version and each.at != recorded.at)
        # The coordinator lost more than one version, or forgot a deleted document, and versions
        # are used again.
        or each.at > recorded.at + CLOCKS_APART_MAX
    ]


def record_document(draft: Draft, command: RecordDocument) -> None:
    """Record the changes of a document that are not recorded yet."""
    key = document_key(command.key)
    if not command.changes:
        draft.drop(Table.RECORDED_DOCUMENT, key)
        return
    recorded = draft.state.recorded_documents.get(key)
    missing = unrecorded(command.changes, recorded)
    if not missing:
        return
    chain, version = draft.state.chain, recorded.version if recorded else 0
    for each in reversed(missing):
        change = _user_change(draft, chain.last + 1, command.key, each, version)
        row, chain = sealed(chain, change)
        draft.put(Table.USER_CHANGE, change_key(change.at, change.number), row)
        version = each.version
    draft.put(Table.CHANGE_CHAIN, "", chain)
    newest = missing[0]
    draft.put(Table.RECORDED_DOCUMENT, key, RecordedDocument(newest.version, newest.at))


def _user_change(
    draft: Draft, number: int, key: DocumentKey, change: DocumentChange, recorded_version: int
) -> UserChange:
    is_new = change.action is DocumentAction.CREATED
    is_deleted = change.action is DocumentAction.DELETED
    return UserChange(
        number=number,
        at=draft.now,
        action=ACTIONS[change.action],
        author=change.author or as_author(change.by),
        job="",
        job_id=JobId(""),
        before=0 if is_new else change.version - 1,
        after=0 if is_deleted else change.version,
        detail=_gap(recorded_version + 1, change.version - 1),
        document=ChangedDocument(
            kind=key.kind, name=key.name, made_at=change.at, fields=change.fields
        ),
    )


def _gap(first: int, last: int) -> str:
    """Return which versions are missing, because a document keeps its newest changes only."""
    if first > last:
        return ""
    versions = f"version {first} is" if first == last else f"versions {first} to {last} are"
    return f"{versions} not in this record"
