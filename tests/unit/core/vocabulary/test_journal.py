"""Journal entries: what is written is read, what was damaged or put elsewhere is not."""

from struct import pack_into
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.core.model.ids import Epoch, Index
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import (
    ORIGIN,
    DamagedEntry,
    Entry,
    EntryKind,
    Tip,
    decode_entry,
    encode_entry,
    follow,
    hash_of,
)

FIRST = Entry(EntryKind.TAKEOVER, Epoch(1), Index(1), Instant(1_000), ORIGIN.hash, b"first")

entries = st.builds(
    Entry,
    kind=st.sampled_from(EntryKind),
    epoch=st.integers(0, 2**64 - 1).map(Epoch),
    index=st.integers(0, 2**64 - 1).map(Index),
    at=st.integers(-(2**63), 2**63 - 1).map(Instant),
    previous_hash=st.binary(min_size=8, max_size=8),
    body=st.binary(max_size=200),
)


def journal(count: int) -> list[bytes]:
    """Return the first *count* encoded entries of a journal."""
    values: list[bytes] = []
    tip = ORIGIN
    for number in range(1, count + 1):
        at = Instant(1_000 * number)
        entry = Entry(EntryKind.CHANGES, Epoch(1), Index(number), at, tip.hash, b"%d" % number)
        values.append(encode_entry(entry))
        _, tip = follow(tip, values[-1])
    return values


def tip_after(values: list[bytes]) -> Tip:
    tip = ORIGIN
    for value in values:
        _, tip = follow(tip, value)
    return tip


@given(entries)
@settings(max_examples=100, deadline=None)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


def test_an_entry_has_the_bytes_of_every_rota_before() -> None:
    head = "01020000000000000001000000000000000100000000000003e80000000000000000"

    assert encode_entry(FIRST) == bytes.fromhex(head + "5c8a880a") + b"first"


def test_every_flipped_bit_is_noticed() -> None:
    value = encode_entry(FIRST)

    unnoticed = [bit for bit in range(8 * len(value)) if _is_read(_flipped(value, bit))]

    assert unnoticed == []


def test_every_cut_is_noticed() -> None:
    value = encode_entry(FIRST)

    unnoticed = [length for length in range(len(value)) if _is_read(value[:length])]

    assert unnoticed == []


def test_an_entry_of_a_future_format_is_refused_and_says_so() -> None:
    value = _sealed(encode_entry(FIRST), offset=0, byte=2)

    with pytest.raises(DamagedEntry, match="format 2"):
        decode_entry(value)


def test_an_entry_of_a_kind_from_the_future_is_refused_and_says_so() -> None:
    value = _sealed(encode_entry(FIRST), offset=1, byte=77)

    with pytest.raises(DamagedEntry, match="kind 77"):
        decode_entry(value)


def test_a_journal_is_followed_from_its_origin() -> None:
    values = journal(3)

    tip = tip_after(values)

    assert tip == Tip(Epoch(1), Index(3), Instant(3_000), hash_of(values[2]))


def test_a_left_out_entry_is_noticed() -> None:
    first, _, third = journal(3)

    with pytest.raises(DamagedEntry, match="is entry 3 instead of entry 2"):
        tip_after([first, third])


def test_a_repeated_entry_is_noticed() -> None:
    first, second = journal(2)

    with pytest.raises(DamagedEntry, match="is entry 2 instead of entry 3"):
        tip_after([first, second, second])


def test_a_whole_entry_of_another_history_is_noticed() -> None:
    first, second = journal(2)
    other = encode_entry(replace(decode_entry(first), body=b"another"))

    with pytest.raises(DamagedEntry, match="chain hash"):
        tip_after([other, second])


@pytest.mark.parametrize(
    "backwards", [{"epoch": Epoch(0)}, {"at": Instant(999)}], ids=["epoch", "time"]
)
def test_an_entry_that_goes_back_is_refused(backwards: dict[str, int]) -> None:
    first, second = journal(2)
    value = encode_entry(replace(decode_entry(second), **backwards))

    with pytest.raises(DamagedEntry, match="lower epoch or an earlier time"):
        tip_after([first, value])


def _is_read(value: bytes) -> bool:
    try:
        decode_entry(value)
    except DamagedEntry:
        return False
    return True


def _flipped(value: bytes, bit: int) -> bytes:
    flipped = bytearray(value)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def _sealed(value: bytes, *, offset: int, byte: int) -> bytes:
    """Return *value* with one byte of its head changed and a checksum that agrees."""
    changed = bytearray(value)
    changed[offset] = byte
    pack_into(">I", changed, 34, crc32(changed[38:], crc32(changed[:34])))
    return bytes(changed)
