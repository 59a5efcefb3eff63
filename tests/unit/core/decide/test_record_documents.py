"""Each change of a shared document has one row, even if an outdated node records it."""

from msgspec.structs import replace

from rota.core.decide.record_documents import unrecorded
from rota.core.model.author import Author
from rota.core.model.shared_document import (
    DocumentChange,
    DocumentKey,
    SharedDocument,
    next_version,
)
from rota.core.timing.instants import DAY, SECOND, Instant
from rota.core.vocabulary.change_chain import Action, ChangedDocument
from rota.core.vocabulary.changes import RecordedDocument, Table
from rota.core.vocabulary.commands import RecordDocument
from unit.core.shard import Shard

KEY = DocumentKey("roles", "deployer")
ALICE = Author(principal="alice", key="3fGh81Qz", request="018f6a0e", address="10.12.7.31")
START = Instant(1_700_000_000 * SECOND)


def test_each_change_is_recorded_once_with_its_author_versions_and_fields() -> None:
    shard = Shard()
    created = changed(None, {"verbs": ["run"]})
    replaced = changed(created, {"verbs": ["read"]})
    deleted = changed(replaced, None)

    record(shard, created)
    record(shard, created)
    record(shard, deleted)
    record(shard, replaced)  # A late command, of a node without the deletion.

    found = shard.user_changes()
    assert [(each.action, each.before, each.after, each.author) for each in found] == [
        (Action.DOCUMENT_CREATED, 0, 1, ALICE),
        (Action.DOCUMENT_REPLACED, 1, 2, ALICE),
        (Action.DOCUMENT_DELETED, 2, 0, ALICE),
    ]
    assert [each.document for each in found] == [
        ChangedDocument(kind="roles", name="deployer", made_at=START, fields=fields)
        for fields in ((), ("verbs",), ())
    ]
    assert (shard.chain_check().count, shard.chain_check().fault) == (3, "")


def test_changes_that_a_document_no_longer_has_are_named_as_missing() -> None:
    shard = Shard()
    document = changed(None, {"verbs": ["run"]})
    record(shard, document)
    for number in range(25):
        document = changed(document, {"verbs": ["run"], "number": number})

    record(shard, document)

    found = shard.user_changes()
    assert [each.after for each in found] == [1, *range(7, 27)]
    assert found[1].detail == "versions 2 to 6 are not in this record"
    assert {each.detail for each in found[2:]} == {""}


def test_a_later_document_of_the_same_name_is_recorded_from_its_beginning() -> None:
    shard = Shard()
    document = changed(changed(changed(None, {"a": 1}), {"a": 2}), None)
    record(shard, document)

    record(shard, changed(None, {"a": 3}, at=Instant(START + 40 * DAY)))

    assert [each.action for each in shard.user_changes()][-1] is Action.DOCUMENT_CREATED
    assert len(shard.user_changes()) == 4


def test_an_outdated_copy_has_nothing_to_record_whatever_its_clock() -> None:
    old = changed(None, {"a": 1}, at=Instant(START + 3_600 * SECOND))

    assert list(unrecorded(old.changes, RecordedDocument(2, START))) == []


def test_two_changes_to_the_same_version_are_both_recorded() -> None:
    one = changed(None, {"a": 1})
    other = changed(None, {"a": 2}, at=Instant(START + SECOND))
    shard = Shard()

    record(shard, one)
    record(shard, other)

    assert [each.after for each in shard.user_changes()] == [1, 1]


def test_changes_after_the_coordinator_lost_several_versions_are_recorded() -> None:
    early = changed(None, {"a": 1})
    late = changed(changed(changed(early, {"a": 2}), {"a": 3}), {"a": 4})
    shard = Shard()
    record(shard, late)
    again = changed(early, {"a": 5}, at=Instant(START + 2 * DAY))

    record(shard, again)
    record(shard, again)
    record(shard, changed(again, {"a": 6}, at=Instant(START + 3 * DAY)))

    assert [each.after for each in shard.user_changes()] == [1, 2, 3, 4, 2, 3]
    assert shard.chain_check().fault == ""


def test_a_change_by_a_node_whose_clock_was_far_ahead_is_recorded_once() -> None:
    ahead = changed(changed(None, {"a": 1}), {"a": 2}, at=Instant(START + 9 * DAY))
    document = changed(ahead, {"a": 3}, at=Instant(START + SECOND))
    shard = Shard()

    for _ in range(3):
        record(shard, document)

    assert [each.after for each in shard.user_changes()] == [1, 2, 3]


def test_a_change_of_an_early_version_names_its_principal() -> None:
    document = changed(None, {"a": 1})
    early = tuple(replace(each, author=None) for each in document.changes)
    shard = Shard()

    shard.do(RecordDocument(key=KEY, changes=early))

    assert [each.author for each in shard.user_changes()] == [Author(principal="alice")]


def test_a_document_that_no_longer_exists_is_forgotten() -> None:
    shard = Shard()
    record(shard, changed(None, {"a": 1}))

    shard.do(RecordDocument(key=KEY, changes=()))

    assert shard.state.recorded_documents == {}
    assert not [key for table, key in shard.rows if table is Table.RECORDED_DOCUMENT]


def changed(
    before: SharedDocument | None, definition: dict[str, object] | None, *, at: Instant = START
) -> SharedDocument:
    return next_version(KEY, before, definition, at=at, by=ALICE)


def record(shard: Shard, document: SharedDocument) -> None:
    changes: tuple[DocumentChange, ...] = document.changes
    shard.do(RecordDocument(key=KEY, changes=changes))
