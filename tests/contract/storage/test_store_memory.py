"""Crashes and failures that the store in memory simulates on request."""

import pytest

from rota.storage.memory import MemoryStore
from rota.storage.store import Family, StoreFailed, StoreFull, StoreStalled

PAST_ALL = b"\xff" * 8


def put(store: MemoryStore, key: bytes) -> None:
    batch = store.batch()
    batch.put(Family.META, key, b"v")
    store.write(batch)


def keys_in(store: MemoryStore) -> list[bytes]:
    return [key for key, _ in store.scan(Family.META, b"", PAST_ALL)]


def test_a_crash_takes_what_was_not_synced() -> None:
    store = MemoryStore()
    put(store, b"synced")
    store.sync()
    put(store, b"unsynced")

    found = store.crash()

    assert keys_in(found) == [b"synced"]


def test_a_crash_may_leave_some_of_what_was_not_synced_oldest_first() -> None:
    store = MemoryStore()
    for key in (b"1", b"2", b"3"):
        put(store, key)
    assert store.unsynced_count == 3

    found = store.crash(keep=2)

    assert keys_in(found) == [b"1", b"2"]
    assert found.unsynced_count == 0
    assert keys_in(found.crash()) == [b"1", b"2"]


def test_a_crash_takes_a_batch_whole_or_not_at_all() -> None:
    store = MemoryStore()
    batch = store.batch()
    batch.put(Family.META, b"a", b"v")
    batch.put(Family.META, b"b", b"v")
    store.write(batch)

    found = store.crash(keep=1)

    assert keys_in(found) == [b"a", b"b"]


def test_a_crashed_store_cannot_be_used() -> None:
    store = MemoryStore()
    store.crash()

    with pytest.raises(StoreFailed, match="crashed"):
        put(store, b"k")


def test_a_failed_write_changes_nothing_and_finishes_the_store() -> None:
    store = MemoryStore()
    put(store, b"before")
    store.fail_next_write(StoreFailed("the disk is gone"))

    with pytest.raises(StoreFailed, match="the disk is gone"):
        put(store, b"after")

    with pytest.raises(StoreFailed, match="unusable: the disk is gone"):
        store.get(Family.META, b"before")
    assert keys_in(store.crash(keep=9)) == [b"before"]


def test_a_failed_sync_makes_nothing_durable_and_finishes_the_store() -> None:
    store = MemoryStore()
    put(store, b"k")
    store.fail_next_sync(StoreFailed("fsync failed"))

    with pytest.raises(StoreFailed, match="fsync failed"):
        store.sync()

    with pytest.raises(StoreFailed, match="unusable: fsync failed"):
        store.sync()
    assert keys_in(store.crash()) == []


def test_a_full_store_refuses_to_write() -> None:
    store = MemoryStore()
    store.is_full = True

    with pytest.raises(StoreFull):
        put(store, b"k")
    with pytest.raises(StoreFailed):
        store.sync()


def test_a_stalled_write_changes_nothing_and_the_next_one_succeeds() -> None:
    store = MemoryStore()
    store.fail_next_write(StoreStalled("the disk is behind"))

    with pytest.raises(StoreStalled):
        put(store, b"refused")
    put(store, b"accepted")

    assert keys_in(store) == [b"accepted"]
