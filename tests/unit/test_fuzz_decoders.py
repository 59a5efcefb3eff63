"""Every decoder of bytes takes what it can read and refuses the rest, in the way it documents.

What reaches them is garbage, a sample that was damaged, or one that is sound but says nonsense.
Decoders of files are in ``tests/contract/test_fuzz_files.py``.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from zlib import crc32

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.client.errors import NodeFailed, RequestFailed
from rota.client.requests import EventFilter, call
from rota.client.streams.events import EventReader
from rota.client.transport.call import Response, failure_of, result_of
from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import Epoch, Index, Session, ShardId
from rota.core.replication.messages import (
    Part,
)
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Change, Table
from rota.core.vocabulary.codec import (
    Undecodable,
    decode_body,
    decode_change,
    decode_record,
    decode_timer_command,
    encode_body,
    encode_change,
    encode_timer_command,
)
from rota.core.vocabulary.commands import Fire, Wake
from rota.core.vocabulary.journal import (
    ORIGIN,
    DamagedEntry,
    Entry,
    EntryKind,
    encode_entry,
    follow,
)
from rota.executor.python import worker_protocol
from rota.executor.warden import messages as warden
from rota.node.coordination import etcd_messages as etcd
from rota.node.coordination.coordinator import Cluster, Life, Member
from rota.node.coordination.coordinator_errors import CoordinatorError
from rota.node.coordination.etcd_keys import Keys, read
from rota.node.links import frames, handshake_messages
from rota.node.peers import death_proof
from rota.wire import operations
from rota.wire.documents import EventView, VersionView
from unit.core.vocabulary.test_codec import EXECUTION, JOB, NOON, RECORDS
from unit.fuzzing import PIECES, Damage, Tree, damaged, damages, grafted, trees
from unit.samples import CONFIGURATION, NAME, NODE, ORDER, SENT, TO_NODE, TO_WARDEN

# -- samples ---------------------------------------------------------------------------------------

BODY = encode_body(["fire"], [encode_change(Change(Table.NAME, "key", NAME))])
HELLO = handshake_messages.Hello(
    versions=handshake_messages.SPOKEN, node_id=NODE, wants=NODE, life="1f", nonce=bytes(32)
)
ANSWER = handshake_messages.HelloResponse(
    versions=handshake_messages.SPOKEN, life="1f", nonce=bytes(32)
)
DEATH = death_proof.DeathProof(cluster="one", node_id=NODE, session=Session("5e55"), secret="5e")
MEMBER = Member(node_id=NODE, store_id="s", address="a:1", labels={"disk": "fast"}, key=bytes(32))
EVENT = EventView(id="5f0c91aa-7", type="task.running", at="2027-01-01T00:00:00.000000Z")
KEYS = Keys("default")
ETCD_PAIR = b'{"key":"L3JvdGE=","value":"e30=","mod_revision":"7","lease":"12"}'
ETCD_HEADER = b'{"cluster_id":"14841639068965178418","revision":"42"}'

# -- decoders --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """Format of a document, whatever its contents."""

    encode: Callable[[object], bytes]
    decode: Callable[[bytes], Tree]


MSGPACK = Form(msgspec.msgpack.encode, msgspec.msgpack.decode)
JSON = Form(msgspec.json.encode, msgspec.json.decode)


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A decoder and its sample documents.

    Attributes:
        decode: Takes bytes, and raises *refuses* for those that it cannot read.
        form: Of its documents.
        documents: Sound ones.
        wrap: Puts around a document what belongs there: a length, a checksum.
    """

    name: str
    decode: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...]
    form: Form
    documents: tuple[bytes, ...]
    wrap: Callable[[bytes], bytes] = bytes


def with_length(document: bytes) -> bytes:
    return len(document).to_bytes(4, "big") + document


def in_entry(body: bytes) -> bytes:
    return encode_entry(
        Entry(EntryKind.CHANGES, Epoch(1), Index(1), Instant(1_000), ORIGIN.hash, body)
    )


def in_chunks(item: bytes, *, size: int) -> frames.Item:
    """Return the message that *item* is, handed over in chunks."""
    joining = frames.Joining(frames.Partials())
    for start in range(0, len(item), size):
        is_last = start + size >= len(item)
        found = joining.add(frames.Chunk(frames.Lane.BULK, is_last, item[start : start + size]))
        if found is not None:
            return found
    raise frames.Garbage("there is nothing")


def changes_of(entry: bytes) -> object:
    _, changes = decode_body(follow(ORIGIN, entry)[0].body)
    return [decode_change(change) for change in changes]


def in_json(*records: object) -> tuple[bytes, ...]:
    return tuple(msgspec.json.encode(record) for record in records)


def in_msgpack(*records: object) -> tuple[bytes, ...]:
    return tuple(msgspec.msgpack.encode(record) for record in records)


def record_decoder(table: Table) -> Decoder:
    return Decoder(
        name=f"record of {table.name}",
        decode=lambda value: decode_record(table, value),
        refuses=(Undecodable,),
        form=MSGPACK,
        documents=in_msgpack(*(record for its, record in RECORDS if its is table)),
        wrap=lambda document: b"\x01" + document,
    )


def etcd_decoder(kind: type[object], document: bytes) -> Decoder:
    return Decoder(
        name=f"etcd {kind.__name__}",
        decode=lambda value: etcd.decode(value, kind),
        refuses=UNDECODABLE,
        form=JSON,
        documents=(document,),
    )


DECODERS = [
    Decoder(
        name="frame",
        decode=frames.decode,
        refuses=(frames.Garbage,),
        form=MSGPACK,
        documents=(
            *(frames.batch_of([frames.encode_item(ShardId(1), message)]) for message in SENT),
            frames.encode(frames.Chunk(frames.Lane.BULK, True, b"piece")),
            frames.encode(frames.Ping(NOON)),
            frames.encode(frames.Pong(NOON)),
        ),
    ),
    Decoder(
        name="message in chunks",
        decode=lambda item: in_chunks(item, size=10),
        refuses=(frames.Garbage,),
        form=MSGPACK,
        documents=tuple(frames.encode_item(ShardId(1), message) for message in SENT),
    ),
    Decoder(
        name="hello",
        decode=handshake_messages.decode,
        refuses=(handshake_messages.NotWelcome,),
        form=MSGPACK,
        documents=in_msgpack(HELLO, ANSWER, handshake_messages.Proof(mac=bytes(32))),
    ),
    Decoder(
        name="death",
        decode=lambda posted: death_proof.life_of(death_proof.decode(posted)[0].secret),
        refuses=UNDECODABLE,
        form=MSGPACK,
        documents=(
            msgspec.msgpack.encode((death_proof.encode(DEATH), [ORDER.key])),
            msgspec.msgpack.encode((death_proof.encode(DEATH), None)),
        ),
    ),
    Decoder(
        name="journal entry",
        decode=changes_of,
        refuses=(DamagedEntry, Undecodable),
        form=MSGPACK,
        documents=(BODY,),
        wrap=in_entry,
    ),
    *map(record_decoder, dict.fromkeys(table for table, _ in RECORDS)),
    Decoder(
        name="timer",
        decode=decode_timer_command,
        refuses=(Undecodable,),
        form=MSGPACK,
        documents=(
            encode_timer_command(Fire(job_id=JOB)),
            encode_timer_command(Wake(execution_id=EXECUTION, task="main", number=2)),
        ),
    ),
    Decoder(
        name="frame to the warden",
        decode=lambda value: list(warden.warden_reader().feed(value)),
        refuses=UNDECODABLE,
        form=MSGPACK,
        documents=in_msgpack(*([message] for message in TO_WARDEN)),
        wrap=with_length,
    ),
    Decoder(
        name="frame of the warden",
        decode=lambda value: list(warden.node_reader().feed(value)),
        refuses=UNDECODABLE,
        form=MSGPACK,
        documents=in_msgpack(*([message] for message in TO_NODE)),
        wrap=with_length,
    ),
    Decoder(
        name="frame of a python worker",
        decode=lambda value: list(worker_protocol.Frames().messages(value)),
        refuses=(worker_protocol.Garbled,),
        form=JSON,
        documents=in_json(
            worker_protocol.Ready(),
            worker_protocol.TaskReport(percent=5),
            worker_protocol.Ended(result="{}"),
        ),
        wrap=with_length,
    ),
    Decoder(
        name="member in etcd",
        decode=lambda value: KEYS.records([(KEYS.member(NODE), value)]),
        refuses=(CoordinatorError,),
        form=JSON,
        documents=in_json(MEMBER),
    ),
    Decoder(
        name="life in etcd",
        decode=lambda value: KEYS.records([(KEYS.life(NODE), value)]),
        refuses=(CoordinatorError,),
        form=JSON,
        documents=in_json(Life(session=Session("5e55"), store_id="s")),
    ),
    Decoder(
        name="configuration in etcd",
        decode=lambda value: KEYS.records([(KEYS.configuration(ShardId(3)), value)]),
        refuses=(CoordinatorError,),
        form=JSON,
        documents=in_json(CONFIGURATION),
    ),
    Decoder(
        name="cluster in etcd",
        decode=lambda value: read(KEYS.meta, value, Cluster),
        refuses=(CoordinatorError,),
        form=JSON,
        documents=in_json(Cluster(id="one", shards=64, replicas=3)),
    ),
    etcd_decoder(
        etcd.RangeResponse, b'{"header":%b,"kvs":[%b],"count":"1"}' % (ETCD_HEADER, ETCD_PAIR)
    ),
    etcd_decoder(
        etcd.TxnResponse,
        b'{"header":%b,"responses":[{"response_txn":{"succeeded":true}},'
        b'{"response_range":{"kvs":[%b]}}]}' % (ETCD_HEADER, ETCD_PAIR),
    ),
    etcd_decoder(
        etcd.WatchLine,
        b'{"result":{"header":%b,"events":[{"kv":%b},{"type":"DELETE","kv":%b}]}}'
        % (ETCD_HEADER, ETCD_PAIR, ETCD_PAIR),
    ),
    etcd_decoder(etcd.KeepaliveLine, b'{"result":{"header":%b,"ID":"12","TTL":"5"}}' % ETCD_HEADER),
    etcd_decoder(etcd.Failure, b'{"message":"etcdserver: no leader","code":14}'),
    Decoder(
        name="events at the client",
        decode=lambda part: list(EventReader(EventFilter()).read(part)),
        refuses=(NodeFailed,),
        form=JSON,
        documents=in_json(EVENT),
        wrap=lambda document: document + b"\n",
    ),
    Decoder(
        name="answer at the client",
        decode=lambda body: result_of(call(operations.VERSION), Response(status=200, body=body)),
        refuses=(RequestFailed,),
        form=JSON,
        documents=in_json(
            VersionView(version="1", node_id="a", cluster="c", shards=64, python="3.11")
        ),
    ),
]

each_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
few_examples = settings(max_examples=30, deadline=None)


def decode_or_refuse(decoder: Decoder, value: bytes) -> None:
    """Run a decoder, which may return or refuse; any other exception fails the test."""
    with suppress(*decoder.refuses):
        decoder.decode(value)


# -- what they are fed with ------------------------------------------------------------------------


@each_decoder
def test_what_is_sound_is_taken(decoder: Decoder) -> None:
    for document in decoder.documents:
        decoder.decode(decoder.wrap(document))


@each_decoder
@few_examples
@given(value=st.binary(max_size=60), is_wrapped=st.booleans())
def test_garbage_is_refused(decoder: Decoder, value: bytes, *, is_wrapped: bool) -> None:
    decode_or_refuse(decoder, decoder.wrap(value) if is_wrapped else value)


@each_decoder
@few_examples
@given(number=st.integers(0, 99), by=damages(), is_wrapped=st.booleans())
def test_damage_is_refused_or_does_no_harm(
    decoder: Decoder, number: int, by: list[Damage], *, is_wrapped: bool
) -> None:
    document = decoder.documents[number % len(decoder.documents)]

    if is_wrapped:  # What a sender does: the length and the checksum are right.
        decode_or_refuse(decoder, decoder.wrap(damaged(document, by)))
    else:
        decode_or_refuse(decoder, damaged(decoder.wrap(document), by))


@each_decoder
@few_examples
@given(number=st.integers(0, 99), place=st.integers(0, 999), scion=trees())
def test_nonsense_is_refused_or_taken(
    decoder: Decoder, number: int, place: int, scion: Tree
) -> None:
    tree = decoder.form.decode(decoder.documents[number % len(decoder.documents)])

    decode_or_refuse(decoder, decoder.wrap(decoder.form.encode(grafted(tree, place, scion))))


@pytest.fixture
def tracing() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@each_decoder
def test_memory_does_not_follow_a_claimed_length(decoder: Decoder, tracing: None) -> None:
    """No memory is allocated for four thousand million claimed items or bytes."""
    del tracing
    for document in decoder.documents:
        for at in range(len(document)):
            for piece in (each for each in PIECES if len(each) == 5):
                value = decoder.wrap(document[:at] + piece)
                assert bytes_allocated(decoder, value) < 1 << 20, (document, at, piece)


def bytes_allocated(decoder: Decoder, value: bytes) -> int:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with suppress(*decoder.refuses):
        decoder.decode(value)
    return tracemalloc.get_traced_memory()[1] - before


# -- what a document cannot say --------------------------------------------------------------------


@given(head=st.binary(min_size=34, max_size=34), by=damages(), is_damaged=st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_head_with_a_right_checksum_makes_an_entry_of_another_place(
    head: bytes, by: list[Damage], *, is_damaged: bool
) -> None:
    sound = in_entry(BODY)
    head = damaged(sound[:34], by) if is_damaged else head
    value = head + crc32(BODY, crc32(head)).to_bytes(4, "big") + BODY

    try:
        entry, tip = follow(ORIGIN, value)
    except DamagedEntry:
        return

    assert (entry.index, entry.previous_hash, entry.body) == (1, ORIGIN.hash, BODY)
    assert (tip.epoch, tip.index, tip.at) == (entry.epoch, entry.index, entry.at)


@given(lanes=st.lists(st.sampled_from(frames.Lane), max_size=80), size=st.integers(5, 50))
@settings(max_examples=50, deadline=None)
def test_chunks_of_two_lanes_make_whole_messages_however_they_take_turns(
    lanes: list[frames.Lane], size: int
) -> None:
    item = frames.encode_item(ShardId(1), SENT[0])
    joining = frames.Joining(frames.Partials())
    places = dict.fromkeys(frames.Lane, 0)

    for lane in lanes:
        start, places[lane] = places[lane], places[lane] + size
        is_last = places[lane] >= len(item)
        whole = joining.add(frames.Chunk(lane, is_last, item[start : start + size]))
        if is_last:
            places[lane] = 0
        assert whole == ((1, SENT[0]) if is_last else None)


def test_a_row_without_a_key_is_garbage() -> None:
    [part] = [each for each in SENT if isinstance(each, Part)]
    sound = frames.encode_item(ShardId(1), part)
    key = part.rows[0][0]
    keyless = sound.replace(b"\xc4" + bytes([len(key)]) + key, b"\xc4\x00", 1)

    assert frames.decode_item(sound) == (1, part)
    with pytest.raises(frames.Garbage, match="a row has no key"):
        frames.decode_item(keyless)


def test_chunks_without_content_take_no_memory() -> None:
    joining = frames.Joining(frames.Partials())
    chunk = frames.Chunk(frames.Lane.BULK, is_last=False, piece=b"")
    tracemalloc.start()

    for _ in range(10_000):
        joining.add(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10_000


@given(
    folder=st.sampled_from([b"shard", b"sess", b"node", b"other"]) | st.binary(max_size=8),
    name=st.binary(max_size=8),
    value=st.none() | st.binary(max_size=60),
)
@settings(max_examples=200, deadline=None)
def test_keys_of_others_in_etcd_are_refused_or_passed_over(
    folder: bytes, name: bytes, value: bytes | None
) -> None:
    own = (KEYS.member(NODE), msgspec.json.encode(MEMBER))

    try:
        found = KEYS.records([(KEYS.prefix + folder + b"/" + name, value), own])
    except CoordinatorError:
        return

    assert found.members[NODE] == MEMBER


@given(status=st.integers(300, 599), by=damages(), retry_after=st.text(max_size=8))
@settings(max_examples=100, deadline=None)
def test_every_failure_is_reported_whatever_its_body_contains(
    status: int, by: list[Damage], retry_after: str
) -> None:
    sound = b'{"type":"urn:x","title":"Busy","status":503,"code":"busy","detail":"Come again."}'
    body = damaged(sound, by)

    failure = failure_of(Response(status=status, body=body, retry_after=retry_after))

    assert str(failure)
