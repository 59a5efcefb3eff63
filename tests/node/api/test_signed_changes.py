"""Signatures of the newest changes: what is signed, and what a signature shows."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.model.ids import ShardId
from rota.core.timing.instants import Duration
from rota.core.vocabulary.change_chain import (
    NO_CHANGES,
    SealedChange,
    SignedHead,
    change_key,
    opened,
    sealed,
)
from rota.core.vocabulary.changes import Change, Table
from rota.core.vocabulary.codec import encode_record
from rota.core.vocabulary.commands import ForgetRequests
from rota.node.runtime import head_signer
from rota.node.runtime.head_signer import HeadSigner
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.shard import Shard
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from rota.storage.user_changes import UserChanges
from rota.wire.key_rings import KeyRing
from support.in_process import Client, running_works, serving, until
from support.key_rings import key_ring_file, new_key, ring_of

Json = Any  # Any: an answer of a node, examined by each test.
KEY, LATER_KEY = new_key(), new_key()
RING = ring_of(KEY)
JOBS = "/api/v1/jobs"


@pytest.fixture(autouse=True)
def without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_signer, "SIGN_EVERY", Duration(0))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def wiring(store: MemoryStore, tmp_path: Path) -> AsyncIterator[NodeWiring]:
    folder = tmp_path / "node"
    folder.mkdir()
    ring = key_ring_file(tmp_path, RING)
    async with running_works(store, folder, keyring=ring) as wiring:
        yield wiring


@pytest.fixture
async def client(wiring: NodeWiring) -> AsyncIterator[Client]:
    async with serving(wiring) as client:
        yield client


async def test_the_newest_change_is_signed_and_the_signature_is_valid(
    wiring: NodeWiring, client: Client
) -> None:
    shard = await shard_with_changes(wiring, client)
    before = await checked(client, shard)

    head = await sign(wiring, shard)

    after = await checked(client, shard)
    assert (before["signature"], before["signed"]) == ("none", None)
    assert (after["signature"], after["signed"], after["fault"]) == ("valid", 3, "")
    assert (head.number, head.hash.hex(), head.signer) == (3, after["hash"], RING.in_use)


async def test_a_head_is_signed_once_with_each_key(wiring: NodeWiring, client: Client) -> None:
    shard = await shard_with_changes(wiring, client)
    first = await sign(wiring, shard)

    signer_of(wiring).sign(shard)
    await decided(wiring, shard)
    assert shard.state.signed_head is first

    rotated = ring_of(LATER_KEY, KEY)
    signer_of(wiring, rotated).sign(shard)
    await decided(wiring, shard)
    again = shard.state.signed_head
    assert again is not None
    assert (again.number, again.signer) == (3, rotated.in_use)


async def test_nothing_is_signed_without_a_key_ring(wiring: NodeWiring, client: Client) -> None:
    shard = await shard_with_changes(wiring, client)

    signer_of(wiring, None).sign(shard)
    await decided(wiring, shard)

    assert shard.state.signed_head is None


async def test_a_chain_that_was_rewritten_whole_is_found_and_not_signed(
    wiring: NodeWiring, store: MemoryStore, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    shard = await shard_with_changes(wiring, client)
    head = await sign(wiring, shard)
    rewrite(store, shard, count=3, reason="forged")
    await call(client, "POST", f"{JOBS}/j/pause")

    signer_of(wiring).sign(shard)
    await decided(wiring, shard)

    view = await checked(client, shard)
    assert view["fault"] == "change 3 is not the one that was signed: it was rewritten"
    assert shard.state.signed_head == head
    assert [each.getMessage() for each in caplog.records].count("changes not signed") == 1


async def test_a_chain_that_was_cut_is_found_and_not_signed(
    wiring: NodeWiring, store: MemoryStore, client: Client
) -> None:
    shard = await shard_with_changes(wiring, client)
    head = await sign(wiring, shard)
    rewrite(store, shard, count=2)

    signer_of(wiring).sign(shard)
    await decided(wiring, shard)

    view = await checked(client, shard)
    assert view["fault"] == (
        "the record was cut at its end: its newest change is 2, and change 3 was signed"
    )
    assert shard.state.signed_head == head


async def test_a_change_that_was_inserted_at_the_end_is_not_signed(
    wiring: NodeWiring, store: MemoryStore, client: Client
) -> None:
    shard = await shard_with_changes(wiring, client)
    head = await sign(wiring, shard)
    insert(store, shard, number=4)

    signer_of(wiring, ring_of(LATER_KEY, KEY)).sign(shard)
    await decided(wiring, shard)

    assert shard.state.signed_head == head


async def test_a_newest_change_that_the_state_does_not_name_is_not_signed(
    wiring: NodeWiring, store: MemoryStore, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    shard = await shard_with_changes(wiring, client)
    chain = shard.state.chain
    rewrite(store, shard, count=3, reason="forged")
    shard.state.apply(Change(Table.CHANGE_CHAIN, "", chain))

    signer_of(wiring).sign(shard)
    await decided(wiring, shard)

    assert shard.state.signed_head is None
    (line,) = (each for each in caplog.records if each.getMessage() == "changes not signed")
    assert vars(line)["reason"] == "change 3 is not the one that the shard's state names"


async def test_changes_without_an_earlier_signature_are_signed_with_a_line_in_the_audit_log(
    wiring: NodeWiring, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    shard = await shard_with_changes(wiring, client)
    await sign(wiring, shard)
    await call(client, "POST", f"{JOBS}/j/pause")
    signer_of(wiring).sign(shard)
    await decided(wiring, shard)

    (line,) = (each for each in caplog.records if each.name == "rota.audit")
    assert line.getMessage() == "changes signed for the first time"
    assert (vars(line)["shard"], vars(line)["number"]) == (shard.id, 3)


async def test_a_forged_signature_is_found(wiring: NodeWiring, client: Client) -> None:
    shard = await shard_with_changes(wiring, client)
    head = await sign(wiring, shard)
    forged = replace(head, mac=bytes(32))
    shard.state.apply(Change(Table.SIGNED_HEAD, "", forged))

    view = await checked(client, shard)

    assert (view["signature"], view["fault"]) == ("wrong", "the signature of change 3 is wrong")


async def decided(wiring: NodeWiring, shard: Shard) -> None:
    """Wait until everything that was submitted before is decided."""
    await wiring.shards.ask(shard, ForgetRequests())


async def shard_with_changes(wiring: NodeWiring, client: Client) -> Shard:
    """Make three changes of a job, and return its shard."""
    await call(client, "POST", JOBS, {"name": "j", "type": "scripted"})
    await call(client, "POST", f"{JOBS}/j/pause", {"reason": "repair"})
    await call(client, "POST", f"{JOBS}/j/resume")
    return wiring.shards.of_name("default", "j")


def signer_of(wiring: NodeWiring, ring: KeyRing | None = RING) -> HeadSigner:
    base = wiring.foundation
    return HeadSigner(
        wiring.shards,
        UserChanges(base.environment.store),
        lambda: ring,
        base.clock,
        cluster=base.config.cluster,
        keep_for=base.config.audit_retention,
    )


async def sign(wiring: NodeWiring, shard: Shard) -> SignedHead:
    signer_of(wiring).sign(shard)
    await until(lambda: shard.state.signed_head is not None)
    await wiring.shards.settled(shard)
    head = shard.state.signed_head
    assert head is not None
    return head


def rewrite(store: MemoryStore, shard: Shard, *, count: int, reason: str | None = None) -> None:
    """Write the first changes of a shard again, with hashes that fit, another reason and no more.

    This is what a person can do who writes to the disks of all copies.
    """
    chain, batch = NO_CHANGES, store.batch()
    for key, row in UserChanges(store).chain(shard.id, "", 100):
        change = opened(row) if row else None
        assert change is not None
        if change.number > count:
            batch.delete(Family.HIST, place(shard.id, key))
            continue
        if change.detail and reason is not None:
            change = replace(change, detail=reason)
        fresh, chain = sealed(chain, change)
        put = encode_record(SealedChange(fresh.body, fresh.hash))
        batch.put(Family.HIST, place(shard.id, change_key(change.at, change.number)), put)
    store.write(batch)
    shard.state.apply(Change(Table.CHANGE_CHAIN, "", chain))


def insert(store: MemoryStore, shard: Shard, *, number: int) -> None:
    """Insert a change after the newest one, which follows from it."""
    [*_, (_, row)] = UserChanges(store).chain(shard.id, "", 100)
    change = opened(row) if row else None
    assert change is not None
    fresh, _ = sealed(shard.state.chain, replace(change, number=number))
    batch = store.batch()
    put = encode_record(SealedChange(fresh.body, fresh.hash))
    batch.put(Family.HIST, place(shard.id, change_key(change.at, number)), put)
    store.write(batch)


def place(shard: ShardId, key: str) -> bytes:
    return shard_prefix(shard) + bytes((Table.USER_CHANGE,)) + key.encode()


async def checked(client: Client, shard: Shard) -> Json:
    _, found = await client.call("GET", "/api/v1/changes:verify")
    return next(each for each in found["items"] if each["shard"] == shard.id)


async def call(client: Client, method: str, path: str, body: Json = None) -> None:
    status, found = await client.call(method, path, body)
    assert status < 300, found
