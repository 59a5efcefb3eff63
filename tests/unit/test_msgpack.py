"""An independent implementation of msgpack reads what rota writes, and writes what rota reads.

The other implementation is the ``msgpack`` package. It is given, and gives, plain values: the
fields of a message, in the order and under the names in which they are sent.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no types
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.ids import Epoch, Index, ShardId
from rota.core.replication.messages import Part
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Change, JobMessage, Record, Table
from rota.core.vocabulary.codec import (
    RECORD_VERSION,
    TYPES,
    decode_body,
    decode_change,
    decode_timer_command,
    encode_body,
    encode_change,
    encode_timer_command,
)
from rota.core.vocabulary.commands import (
    ReceiveMessage,
    ReconcileExecution,
    ReconcileFires,
    TimerCommand,
)
from rota.core.vocabulary.journal import ORIGIN, Entry, EntryKind, encode_entry, follow
from rota.executor.warden import messages as warden
from rota.node.links import frames, handshake_messages
from rota.node.peers.messages import Deliver, DeliveredCommand, Sent
from unit.core.vocabulary.test_codec import EXECUTION, JOB, NOON, RECORDS
from unit.samples import FIRED, SENT, TO_NODE, TO_WARDEN
from unit.values import Overrides, kinds_of, values_of

other: Any = msgpack  # Any: it has no types.
Plain = Any  # Any: numbers, texts, bytes, and lists and maps of them.

ACCOUNT = next(record for table, record in RECORDS if table is Table.DUPLICATE)
OVERRIDES: Overrides = {
    (Order, "key"): st.builds(AttemptKey, st.just(EXECUTION), st.just("main"), st.integers(0, 9)),
    (ReconcileFires, "job_id"): st.just(JOB),
    (ReconcileFires, "entries"): st.lists(st.just(FIRED), max_size=3).map(tuple),
    (ReconcileExecution, "ended"): st.just(ACCOUNT),
    (Part, "rows"): st.lists(st.tuples(st.binary(min_size=1), st.binary())).map(tuple),
}
"""Fields with checks against other fields, or stricter than their types."""


def plain(value: object) -> Plain:
    """Return the wire form of *value* as plain values, with lists for tuples."""
    return listed(msgspec.to_builtins(value, builtin_types=(bytes,)))


def listed(value: Plain) -> Plain:
    kind: object = value.__class__
    return LISTED[kind](value) if kind in LISTED else value


def _fields(fields: dict[Plain, Plain]) -> Plain:
    return {name: listed(each) for name, each in fields.items()}


def _items(items: Iterable[Plain]) -> Plain:
    return [listed(each) for each in items]


LISTED: dict[object, Callable[[Plain], Plain]] = {dict: _fields, list: _items, tuple: _items}


def read_by_other(value: bytes) -> Plain:
    return other.unpackb(value, strict_map_key=False)


def written_by_other(value: Plain) -> bytes:
    packed = other.packb(value)
    assert isinstance(packed, bytes)
    return packed


def assert_same(found: Plain, wanted: Plain) -> None:
    """Raise if two plain values differ, in type or in the order of fields too."""
    assert repr(found) == repr(wanted)


def assert_agreed(
    value: object, encode: Callable[[Any], bytes], decode: Callable[[bytes], object]
) -> None:
    """Raise unless each implementation reads the other's output."""
    assert_same(read_by_other(encode(value)), plain(value))
    assert decode(written_by_other(plain(value))) == value


# -- between nodes ---------------------------------------------------------------------------------


def in_item(message: Sent) -> bytes:
    return frames.encode_item(ShardId(7), message)


def in_batch(message: Sent) -> bytes:
    return frames.batch_of([in_item(message)] * 3)


def test_every_kind_of_message_has_a_sample() -> None:
    carried = [command for each in SENT if isinstance(each, Deliver) for command in each.commands]
    messages = [each.message for each in carried if isinstance(each, ReceiveMessage)]

    assert {type(each) for each in SENT} == set(kinds_of(Sent))
    assert {type(each) for each in carried} == set(kinds_of(DeliveredCommand))
    assert {type(each) for each in messages} == set(kinds_of(JobMessage))


def assert_message_agreed(message: Sent) -> None:
    item, batch = [7, plain(message)], [0, [[7, plain(message)]] * 3]
    assert_same(read_by_other(in_item(message)), item)
    assert_same(read_by_other(in_batch(message)), batch)
    assert frames.decode_item(written_by_other(item)) == (7, message)
    assert frames.decode(written_by_other(batch)) == frames.Batch([(ShardId(7), message)] * 3)


@pytest.mark.parametrize("message", SENT, ids=lambda each: type(each).__name__)
def test_a_message_between_nodes_is_msgpack(message: Sent) -> None:
    assert_message_agreed(message)


@pytest.mark.parametrize("kind", kinds_of(Sent), ids=lambda each: each.__name__)
def test_any_message_between_nodes_is_msgpack(kind: type[Sent]) -> None:
    @settings(max_examples=25, deadline=None)
    @given(values_of(kind, OVERRIDES))
    def check(message: Sent) -> None:
        assert_message_agreed(message)

    check()


@pytest.mark.parametrize(
    "frame",
    [
        frames.Chunk(frames.Lane.BULK, is_last=True, piece=bytes(70_000)),
        frames.Ping(NOON),
        frames.Pong(NOON),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_frame_without_messages_is_msgpack(frame: frames.Frame) -> None:
    assert_agreed(frame, frames.encode, frames.decode)


def test_every_kind_of_frame_is_checked_here() -> None:
    checked = {frames.Batch, frames.Chunk, frames.Ping, frames.Pong}

    assert set(kinds_of(frames.Frame)) == checked


@pytest.mark.parametrize(
    "kind",
    [handshake_messages.Hello, handshake_messages.HelloResponse, handshake_messages.Proof],
    ids=lambda each: each.__name__,
)
def test_a_word_of_the_handshake_is_msgpack(kind: type[handshake_messages.Word]) -> None:
    @settings(max_examples=25, deadline=None)
    @given(values_of(kind, OVERRIDES))
    def check(word: handshake_messages.Word) -> None:
        assert_agreed(word, handshake_messages.encode, handshake_messages.decode)

    check()


def test_a_refusal_in_the_handshake_is_msgpack() -> None:
    refusal = handshake_messages.Refusal(reason="no common version")

    assert_same(read_by_other(handshake_messages.encode(refusal)), plain(refusal))
    with pytest.raises(handshake_messages.NotWelcome, match="no common version"):
        handshake_messages.decode(written_by_other(plain(refusal)))


# -- in the journal --------------------------------------------------------------------------------


def read_of_record(value: bytes | None) -> Plain:
    return None if value is None else read_by_other(value[1:])


def written_as_record(value: Plain) -> bytes | None:
    return None if value is None else bytes([RECORD_VERSION]) + written_by_other(value)


def assert_entry_agreed(kind: EntryKind, changes: list[Change]) -> None:
    """Raise unless both implementations read an entry with *changes* that either wrote."""
    causes = ["fire", "a/b"]
    wanted = [[int(table), key, plain(record)] for table, key, record in changes]

    found_causes, found = read_by_other(encode_body(causes, map(encode_change, changes)))
    assert_same(found_causes, causes)
    assert_same([[*where, read_of_record(value)] for *where, value in found], wanted)

    raw = [[*where, written_as_record(value)] for *where, value in wanted]
    body = written_by_other([causes, raw])
    entry = Entry(kind, Epoch(1), Index(1), Instant(5), ORIGIN.hash, body)
    _, read = decode_body(follow(ORIGIN, encode_entry(entry))[0].body)
    assert [decode_change(each) for each in read] == changes


@pytest.mark.parametrize("kind", EntryKind, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("table", "record"), RECORDS, ids=lambda value: type(value).__name__)
def test_an_entry_is_msgpack(kind: EntryKind, table: Table, record: Record) -> None:
    assert_entry_agreed(kind, [Change(table, "key", record), Change(table, "other", None)])


@pytest.mark.parametrize("table", TYPES, ids=lambda table: table.name)
def test_any_entry_is_msgpack(table: Table) -> None:
    @settings(max_examples=15, deadline=None)
    @given(values_of(TYPES[table], OVERRIDES))
    def check(record: Record) -> None:
        assert_entry_agreed(EntryKind.CHANGES, [Change(table, "key", record)])

    check()


@pytest.mark.parametrize("kind", kinds_of(TimerCommand), ids=lambda each: each.__name__)
def test_a_timer_is_msgpack(kind: type[TimerCommand]) -> None:
    @settings(max_examples=25, deadline=None)
    @given(values_of(kind, OVERRIDES))
    def check(command: TimerCommand) -> None:
        assert_agreed(command, encode_timer_command, decode_timer_command)

    check()


# -- to and from the warden ------------------------------------------------------------------------


def test_every_kind_of_message_of_the_warden_has_a_sample() -> None:
    assert {type(each) for each in TO_WARDEN} == set(kinds_of(warden.ToWarden))
    assert {type(each) for each in TO_NODE} == set(kinds_of(warden.ToNode))


def test_frames_to_and_from_the_warden_are_msgpack() -> None:
    for sent, reader in ((TO_WARDEN, warden.warden_reader()), (TO_NODE, warden.node_reader())):
        [frame] = warden.frames(sent)
        other = written_by_other(plain(sent))

        assert_same(read_by_other(frame[4:]), plain(sent))
        assert list(reader.feed(len(other).to_bytes(4, "big") + other)) == sent
