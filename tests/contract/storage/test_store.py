"""Contract of every `Store`: RocksDB and the store in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.storage.memory import MemoryStore
from rota.storage.rocks import RocksStore
from rota.storage.store import Family, Store, StoreFailed

PAST_ALL = b"\xff" * 8


Opener = Callable[[], Store]
"""Opens the store of one test; called again after `close`, it shows what was kept."""


@pytest.fixture(params=["memory", "rocks"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    opened: list[Store] = []
    kind: Opener
    if request.param == "rocks":

        def kind() -> Store:
            return RocksStore(tmp_path / "db")
    else:

        def kind() -> Store:
            last = opened[-1] if opened else None
            return last.crash() if isinstance(last, MemoryStore) else MemoryStore()

    def open_store() -> Store:
        store = kind()
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    return opener()


def put(store: Store, *keys: bytes, value: bytes = b"v", family: Family = Family.STATE) -> int:
    batch = store.batch()
    for key in keys:
        batch.put(family, key, value)
    return store.write(batch)


def keys_in(
    store: Store,
    start: bytes = b"",
    end: bytes = PAST_ALL,
    *,
    family: Family = Family.STATE,
    reverse: bool = False,
    limit: int | None = None,
) -> list[bytes]:
    return [key for key, _ in store.scan(family, start, end, reverse=reverse, limit=limit)]


# --- one key ---


def test_a_missing_key_has_no_value(store: Store) -> None:
    assert store.get(Family.STATE, b"nothing") is None


def test_a_written_value_is_visible_before_any_sync(store: Store) -> None:
    put(store, b"k", value=b"first")

    assert store.get(Family.STATE, b"k") == b"first"


def test_a_later_value_replaces_an_earlier_one(store: Store) -> None:
    put(store, b"k", value=b"first")
    put(store, b"k", value=b"second")

    assert store.get(Family.STATE, b"k") == b"second"


def test_families_do_not_see_each_other(store: Store) -> None:
    for family in Family:
        put(store, b"k", value=family.name.encode(), family=family)

    assert [store.get(family, b"k") for family in Family] == [
        family.name.encode() for family in Family
    ]


def test_an_empty_key_and_an_empty_value_are_ordinary(store: Store) -> None:
    put(store, b"", value=b"")

    assert store.get(Family.STATE, b"") == b""
    assert list(store.scan(Family.STATE, b"", b"\0")) == [(b"", b"")]


def test_a_value_of_a_mebibyte_comes_back_whole(store: Store) -> None:
    value = bytes(range(256)) * 4096

    put(store, b"large", value=value)

    assert store.get(Family.STATE, b"large") == value
    assert list(store.scan(Family.STATE, b"large", PAST_ALL)) == [(b"large", value)]


def test_a_deleted_key_is_gone_and_deleting_it_again_is_no_error(store: Store) -> None:
    put(store, b"k")

    for _ in range(2):
        batch = store.batch()
        batch.delete(Family.STATE, b"k")
        store.write(batch)

    assert store.get(Family.STATE, b"k") is None
    assert keys_in(store) == []


# --- ranges ---


def test_keys_are_ordered_as_raw_bytes(store: Store) -> None:
    unordered = [b"b", b"a\xff", b"\xff", b"a", b"", b"\0", b"aa", b"\xff\xff", b"B", b"a\0"]

    put(store, *unordered)

    assert keys_in(store) == sorted(unordered)


def test_a_range_holds_its_start_and_not_its_end(store: Store) -> None:
    put(store, b"a", b"b", b"c", b"d")

    assert keys_in(store, b"b", b"d") == [b"b", b"c"]
    assert keys_in(store, b"aa", b"cc") == [b"b", b"c"]


def test_an_empty_or_reversed_range_holds_nothing(store: Store) -> None:
    put(store, b"a", b"b", b"c")

    assert keys_in(store, b"b", b"b") == []
    assert keys_in(store, b"c", b"a") == []
    assert keys_in(store, b"c", b"a", reverse=True) == []
    assert keys_in(store, b"", b"") == []


def test_a_reverse_scan_yields_the_same_range_backwards(store: Store) -> None:
    put(store, b"a", b"b", b"c", b"d")

    assert keys_in(store, b"b", b"d", reverse=True) == [b"c", b"b"]
    assert keys_in(store, b"aa", b"cc", reverse=True) == [b"c", b"b"]
    assert keys_in(store, reverse=True) == [b"d", b"c", b"b", b"a"]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_limit_bounds_a_scan(store: Store, reverse: bool) -> None:
    put(store, b"a", b"b", b"c", b"d")
    whole = keys_in(store, b"b", PAST_ALL, reverse=reverse)

    for limit in range(5):
        assert keys_in(store, b"b", PAST_ALL, reverse=reverse, limit=limit) == whole[:limit]


def test_a_prefix_that_ends_in_ff_is_a_range_like_any_other(store: Store) -> None:
    inside = [b"\x00\xff", b"\x00\xff\x00", b"\x00\xff\xff\xff"]
    put(store, b"\x00\xfe\xff", *inside, b"\x01", b"\x01\x00")

    assert keys_in(store, b"\x00\xff", b"\x01") == inside
    assert keys_in(store, b"\x00\xff", b"\x01", reverse=True) == inside[::-1]


def test_a_scan_yields_what_was_there_when_it_began(store: Store) -> None:
    put(store, b"a", b"b", b"c", value=b"old")

    scan = store.scan(Family.STATE, b"", PAST_ALL)
    first = next(scan)
    batch = store.batch()
    batch.delete(Family.STATE, b"b")
    batch.put(Family.STATE, b"c", b"new")
    batch.put(Family.STATE, b"d", b"new")
    store.write(batch)

    assert [first, *scan] == [(b"a", b"old"), (b"b", b"old"), (b"c", b"old")]


def test_a_scan_not_yet_advanced_does_not_see_later_writes(store: Store) -> None:
    put(store, b"a")

    scan = store.scan(Family.STATE, b"", PAST_ALL)
    put(store, b"b")

    assert [key for key, _ in scan] == [b"a"]


# --- batches ---


def test_a_scan_keeps_its_bounds_when_its_caller_has_dropped_them(store: Store) -> None:
    # rocksdict frees bounds given in its options while the cursor runs; the next data in that
    # memory became the bound.
    put(store, *(number.to_bytes(3, "big") for number in range(1_000)))
    found: list[bytes] = []

    for key, _ in store.scan(Family.STATE, bytes((0, 0, 100)), bytes((0, 0, 200))):
        found.append(key)
        assert [(index % 256).to_bytes(3, "big") for index in range(200)]

    assert found == [number.to_bytes(3, "big") for number in range(100, 200)]


def test_a_batch_is_invisible_until_it_is_written(store: Store) -> None:
    batch = store.batch()
    batch.put(Family.STATE, b"k", b"v")

    assert store.get(Family.STATE, b"k") is None


def test_a_batch_reaches_several_families_at_once(store: Store) -> None:
    put(store, b"gone", family=Family.TIMER)

    batch = store.batch()
    batch.put(Family.JOURNAL, b"1", b"entry")
    batch.put(Family.META, b"last", b"1")
    batch.delete(Family.TIMER, b"gone")
    store.write(batch)

    assert store.get(Family.JOURNAL, b"1") == b"entry"
    assert store.get(Family.META, b"last") == b"1"
    assert store.get(Family.TIMER, b"gone") is None


def test_the_last_operation_on_a_key_in_a_batch_wins(store: Store) -> None:
    batch = store.batch()
    batch.put(Family.STATE, b"a", b"1")
    batch.delete(Family.STATE, b"a")
    batch.delete_range(Family.STATE, b"b", b"c")
    batch.put(Family.STATE, b"b", b"2")
    batch.put(Family.STATE, b"d", b"3")
    batch.delete_range(Family.STATE, b"d", b"e")
    store.write(batch)

    assert list(store.scan(Family.STATE, b"", PAST_ALL)) == [(b"b", b"2")]


def test_delete_range_is_half_open_and_stays_in_its_family(store: Store) -> None:
    put(store, b"a", b"b", b"c", b"d")
    put(store, b"b", family=Family.HIST)

    batch = store.batch()
    batch.delete_range(Family.STATE, b"b", b"d")
    store.write(batch)

    assert keys_in(store) == [b"a", b"d"]
    assert keys_in(store, family=Family.HIST) == [b"b"]


def test_deleting_an_empty_range_deletes_nothing(store: Store) -> None:
    put(store, b"a")

    batch = store.batch()
    batch.delete_range(Family.STATE, b"a", b"a")
    store.write(batch)

    assert keys_in(store) == [b"a"]


def test_deleting_a_reversed_range_is_a_bug(store: Store) -> None:
    with pytest.raises(AssertionError):
        store.batch().delete_range(Family.STATE, b"b", b"a")


# --- durability ---


def test_tickets_grow_with_every_batch(store: Store) -> None:
    tickets = [put(store, b"%d" % number) for number in range(10)]

    assert tickets == sorted(set(tickets))


def test_an_empty_batch_has_the_ticket_of_the_one_before(store: Store) -> None:
    ticket = put(store, b"k")

    assert store.write(store.batch()) == ticket


def test_a_sync_covers_what_was_written_before(store: Store) -> None:
    put(store, b"a")
    second = put(store, b"b")

    assert store.sync() == second
    assert store.sync() == second
    assert put(store, b"c") > second


def test_everything_is_there_after_closing_and_opening_again(opener: Opener) -> None:
    store = opener()
    put(store, b"kept", b"dropped")
    batch = store.batch()
    batch.delete(Family.STATE, b"dropped")
    last = store.write(batch)
    store.close()

    again = opener()

    assert keys_in(again) == [b"kept"]
    assert put(again, b"more") > last


def test_a_closed_store_refuses_everything_but_closing(store: Store) -> None:
    put(store, b"k")
    scan = store.scan(Family.STATE, b"", PAST_ALL)
    batch = store.batch()
    next(scan)

    store.close()
    store.close()

    for use in (
        lambda: store.get(Family.STATE, b"k"),
        lambda: store.scan(Family.STATE, b"", b"z"),
        lambda: store.write(batch),
        store.sync,
        store.size_bytes,
        lambda: next(scan),
    ):
        with pytest.raises(StoreFailed, match="closed"):
            use()


def test_the_size_grows_with_what_is_stored(store: Store) -> None:
    before = store.size_bytes()

    put(store, *(b"%d" % number for number in range(100)), value=bytes(10_000))

    assert store.size_bytes() - before > 500_000
