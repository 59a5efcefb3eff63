"""Files that a start reads, with arbitrary content: accepted, or refused as documented."""

import asyncio
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.executor.executor_host import EXECUTION_ID, FIRE_AT, TOKEN
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.model.ids import AllocationId, Epoch, JobId, NodeId, Session, ShardId
from rota.core.model.work import Work
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Name, Table
from rota.core.vocabulary.codec import Undecodable, encode_record
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.executor.warden.journal import Ended, Forgotten, Journal, Record, Started
from rota.node.coordination.coordinator import Cluster, Member
from rota.node.coordination.embedded import CoordinationFailed, EmbeddedCoordinator
from rota.node.system.entropy import SystemEntropy
from rota.storage.memory import MemoryStore
from rota.storage.shards import ShardFile, shard_prefix
from rota.storage.store import Family, StoreDamaged
from unit.fuzzing import Damage, Tree, damaged, damages, grafted, trees

NODE, SHARD = NodeId("node-a"), ShardId(7)
CONFIGURATION = Configuration(
    epoch=Epoch(7),
    primary=NODE,
    primary_session=Session("5e55"),
    sync=(Copy(NODE, AllocationId("a1")),),
)
COORDINATION = msgspec.json.encode(
    {
        "cluster": Cluster(id="one", shards=64, replicas=1),
        "members": {NODE: Member(node_id=NODE, store_id="s", address="127.0.0.1:7400")},
        "shards": {"1": CONFIGURATION},
    }
)
NAME = encode_record(Name(JobId("740e000000000001")))


def order_of(name: str) -> Order:
    key = AttemptKey(EXECUTION_ID, name, 1)
    return Order(key=key, token=TOKEN, work=Work(argv=("true",)), fire_at=FIRE_AT)


FIRST, SECOND = order_of("first"), order_of("second")
ENDING = Ending(outcome=Outcome.SUCCEEDED, started_at=Instant(1), finished_at=Instant(2))
RECORDS: list[Record] = [
    Started("7/session", SECOND),
    Ended(SECOND.key, ENDING),
    Forgotten(SECOND.key),
]
in_files = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


# -- the coordination of a node that is alone ------------------------------------------------------


def open_or_refuse(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with suppress(CoordinationFailed):
        EmbeddedCoordinator(path, SystemEntropy())


@given(by=damages())
@in_files
def test_damaged_coordination_is_refused_or_read(tmp_path: Path, by: list[Damage]) -> None:
    open_or_refuse(tmp_path / "COORDINATION", damaged(COORDINATION, by))


@given(place=st.integers(0, 99), scion=trees())
@in_files
def test_nonsensical_coordination_is_refused_or_read(
    tmp_path: Path, place: int, scion: Tree
) -> None:
    tree = grafted(msgspec.json.decode(COORDINATION), place, scion)

    open_or_refuse(tmp_path / "COORDINATION", msgspec.json.encode(tree))


# -- the journal of a warden -----------------------------------------------------------------------


def sealed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def kept_in(path: Path, content: bytes) -> list[str]:
    """Return the tasks of the attempts that a warden finds in *content*."""

    async def read() -> list[str]:
        journal = Journal(path)
        journal.close()
        return [each.order.key.task for each in journal.kept]

    path.write_bytes(content)
    return asyncio.run(read())


@given(number=st.integers(0, 2), by=damages(), is_sealed=st.booleans())
@in_files
def test_damage_costs_a_warden_nothing_that_came_before_it(
    tmp_path: Path, number: int, by: list[Damage], *, is_sealed: bool
) -> None:
    before = sealed(msgspec.msgpack.encode(Started("7/session", FIRST)))
    record = msgspec.msgpack.encode(RECORDS[number])
    after = sealed(damaged(record, by)) if is_sealed else damaged(sealed(record), by)

    kept = kept_in(tmp_path / "journal", before + after)

    assert kept[0] == "first"


@given(number=st.integers(0, 2), place=st.integers(0, 99), scion=trees())
@in_files
def test_nonsense_costs_a_warden_nothing_that_comes_after_it(
    tmp_path: Path, number: int, place: int, scion: Tree
) -> None:
    tree = grafted(msgspec.msgpack.decode(msgspec.msgpack.encode(RECORDS[number])), place, scion)
    after = sealed(msgspec.msgpack.encode(Started("7/session", FIRST)))

    kept = kept_in(tmp_path / "journal", sealed(msgspec.msgpack.encode(tree)) + after)

    assert kept[-1] == "first"


# -- a shard in a store ----------------------------------------------------------------------------


def store_with(family: Family, key: bytes, value: bytes) -> MemoryStore:
    store = MemoryStore()
    batch = store.batch()
    batch.put(family, shard_prefix(SHARD) + key, value)
    store.write(batch)
    return store


@given(table=st.sampled_from([each for each in Table if each < Table.HISTORY]), by=damages())
@in_files
def test_a_damaged_row_is_refused_or_read(table: Table, by: list[Damage]) -> None:
    file = ShardFile(store_with(Family.STATE, bytes((table,)) + b"key", damaged(NAME, by)), SHARD)

    try:
        changes = list(file.changes())
    except Undecodable:
        return

    assert [(change.table, change.key) for change in changes] == [(table, "key")]


@given(index=st.integers(1, (1 << 64) - 1), value=st.binary(max_size=80))
@in_files
def test_a_journal_of_anything_is_refused(index: int, value: bytes) -> None:
    store = store_with(Family.JOURNAL, index.to_bytes(8, "big"), value)

    with pytest.raises(StoreDamaged, match=f"shard 7: journal entry {index} "):
        ShardFile(store, SHARD)
