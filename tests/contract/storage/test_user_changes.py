"""The list of the changes of all shards, its cursors, and the changes that expire."""

import pytest

from rota.core.model.author import Author
from rota.core.model.ids import JobId, ShardId
from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.core.vocabulary.change_chain import (
    NO_CHANGES,
    Action,
    SealedChange,
    UserChange,
    change_key,
    sealed,
)
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import encode_record
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from rota.storage.user_changes import ChangePosition, UnreadableChange, UserChanges

ONE, TWO, THREE = ShardId(1), ShardId(2), ShardId(3)
INSTANTS = {ONE: (10, 20, 30), TWO: (20, 25), THREE: (20,)}
"""The instants of the changes of each shard."""
IN_ORDER = [(10, ONE), (20, ONE), (20, TWO), (20, THREE), (25, TWO), (30, ONE)]


def test_the_changes_of_several_shards_are_in_the_order_of_time() -> None:
    changes = UserChanges(store_of(INSTANTS))

    oldest_first = list(changes.listed(INSTANTS, Instant(0), LATEST_INSTANT))
    newest_first = list(changes.listed(INSTANTS, Instant(0), LATEST_INSTANT, newest_first=True))

    assert [(each.position.at, each.position.shard) for each in oldest_first] == IN_ORDER
    assert newest_first == oldest_first[::-1]


def test_a_list_is_limited_to_shards_and_to_a_time() -> None:
    changes = UserChanges(store_of(INSTANTS))

    found = list(changes.listed([ONE, TWO], Instant(20), Instant(30)))

    assert [(each.position.at, each.position.shard) for each in found] == [
        (20, ONE),
        (20, TWO),
        (25, TWO),
    ]
    assert list(changes.listed([ONE], Instant(30), Instant(20))) == []


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
def test_a_list_continues_after_each_of_its_changes(newest_first: bool) -> None:
    changes = UserChanges(store_of(INSTANTS))
    everything = list(
        changes.listed(INSTANTS, Instant(0), LATEST_INSTANT, newest_first=newest_first)
    )

    for number, last in enumerate(everything, 1):
        rest = changes.listed(
            INSTANTS,
            Instant(0),
            LATEST_INSTANT,
            beyond=last.position,
            newest_first=newest_first,
        )
        assert list(rest) == everything[number:]


def test_a_change_that_cannot_be_read_is_listed_with_its_place() -> None:
    store = store_of({ONE: (10,)})
    put(store, ONE, change_key(Instant(20), 2), b"\x01\xc1")
    put(store, ONE, change_key(Instant(30), 3), encode_record(SealedChange(b"\xc1", b"")))

    found = list(UserChanges(store).listed([ONE], Instant(20), LATEST_INSTANT))

    assert [each.position for each in found] == [
        ChangePosition(Instant(20), ONE, 2),
        ChangePosition(Instant(30), ONE, 3),
    ]
    assert all(isinstance(each.change, UnreadableChange) for each in found)


def test_the_rows_of_a_chain_are_read_in_pages() -> None:
    changes = UserChanges(store_of(INSTANTS))

    first = changes.chain(ONE, "", 2)
    second = changes.chain(ONE, first[-1][0], 2)

    assert [key for key, _ in first + second] == [
        change_key(Instant(at), number) for number, at in enumerate(INSTANTS[ONE], 1)
    ]


def test_the_oldest_changes_expire_in_order_and_leave_the_hash_of_the_newest_of_them() -> None:
    store = store_of(INSTANTS)
    changes = UserChanges(store)
    rows = changes.chain(ONE, "", 3)

    all_old, one_old = (
        changes.older_than(ONE, Instant(30), 10),
        changes.older_than(ONE, Instant(30), 1),
    )

    assert all_old is not None
    assert all_old.keys == (rows[0][0], rows[1][0])
    assert rows[1][1] is not None
    assert (all_old.last, all_old.hash) == (2, rows[1][1].hash)
    assert one_old is not None
    assert one_old.keys == (rows[0][0],)
    assert changes.older_than(ONE, Instant(10), 10) is None


def test_a_change_that_cannot_be_read_expires_without_a_hash() -> None:
    store = store_of({ONE: (10,)})
    put(store, ONE, change_key(Instant(20), 2), b"\x01\xc1")

    found = UserChanges(store).older_than(ONE, Instant(30), 10)

    assert found is not None
    assert (found.last, found.hash, len(found.keys)) == (2, b"", 2)


def store_of(instants: dict[ShardId, tuple[int, ...]]) -> MemoryStore:
    store = MemoryStore()
    for shard, of_shard in instants.items():
        chain = NO_CHANGES
        for number, at in enumerate(of_shard, 1):
            change = UserChange(
                number=number,
                at=Instant(at),
                action=Action.JOB_CREATED,
                author=Author(principal="alice"),
                job="default/job",
                job_id=JobId("740e000000000001"),
                after=1,
            )
            row, chain = sealed(chain, change)
            put(store, shard, change_key(Instant(at), number), encode_record(row))
    return store


def put(store: MemoryStore, shard: ShardId, key: str, value: bytes) -> None:
    batch = store.batch()
    batch.put(Family.HIST, shard_prefix(shard) + bytes((Table.USER_CHANGE,)) + key.encode(), value)
    store.write(batch)
