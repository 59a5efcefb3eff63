"""Epochs without a coordinator: none is promised, and `rota shard repair` repairs old promises."""

import asyncio
import os
import urllib.request
from contextlib import closing

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from rota.client.client import Client
from rota.client.errors import Conflict
from rota.core.errors import Refused
from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.local_copy import PutHeader
from rota.core.replication.messages import Append, Query
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import ORIGIN
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.node.coordination.coordinator import Member
from rota.node.links.identity_proof import KEY_BYTES, PeerCredentials
from rota.node.links.link_pool import Links
from rota.node.peers.death_proof import Left
from rota.node.peers.messages import Sent
from rota.node.recovery.shard_repair import EPOCH_MAX, repaired
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy
from rota.node.system.metrics import LinkMetrics
from rota.storage.directory import DataDirectory, identity_in
from rota.storage.rocks import RocksStore
from rota.storage.shards import ShardFile
from rota.wire.documents import PromiseView
from support import runbook
from support.cluster import SHARDS, Cluster, answer
from support.etcd import needs_etcd
from support.rota_program import Rota
from support.rotad import Rotad

FAR = Epoch(2**40)
SHARD = ShardId(0)
FORGER = NodeId("n0")
"""Lower than the others, and so the one that dials."""


# -- forged epochs ---------------------------------------------------------------------------------


async def forge(cluster: Cluster, *messages: Sent) -> None:
    """Send messages about `SHARD` to all nodes, as a member of record."""
    identity = identity_in(cluster.nodes[0].data_dir)
    assert identity is not None
    credentials = PeerCredentials(
        cluster=identity.cluster,
        node_id=FORGER,
        store_id="forger",
        life="forger",
        key=os.urandom(KEY_BYTES),
    )
    record = Member(
        node_id=FORGER, store_id="forger", address="", state="draining", key=credentials.key
    )
    etcd = cluster.etcd.members[0]
    etcd.put(f"/rota/{cluster.name}/node/{FORGER}", msgspec.json.encode(record).decode())
    links = Links(
        credentials,
        shard_count=SHARDS,
        clock=SystemClock(),
        entropy=SystemEntropy(),
        metrics=LinkMetrics(CollectorRegistry()),
    )
    async with links.running("127.0.0.1", 0, DeafReceiver()):
        members = {each: msgspec.convert(cluster.member(each), Member) for each in cluster.ids}
        links.set_members(members | {FORGER: record})
        async with asyncio.timeout(20):
            while len(links.peers) < len(cluster.ids):  # noqa: ASYNC110 - no event for all three
                await asyncio.sleep(0.01)
        for node_id in cluster.ids:
            for message in messages:
                links.send(node_id, SHARD, message)
        async with asyncio.timeout(20):
            while min(map(refused, cluster)) < len(messages):  # noqa: ASYNC110 - metrics of nodes
                await asyncio.sleep(0.1)


class DeafReceiver:
    """Drops what links bring (`rota.node.links.link_connector.LinkReceiver`)."""

    def receive(self, number: ShardId | None, sender: NodeId, message: Sent) -> None:
        """Drop a message."""

    def linked(self, node_id: NodeId) -> None:
        """Do nothing about a new link."""

    def saw_death(self, node_id: NodeId, session: Session, left: Left | None) -> None:
        """Do nothing about a death."""


def metrics(node: Rotad) -> str:
    """Return a node's metrics."""
    with urllib.request.urlopen(f"{node.url}/metrics", timeout=5) as page:
        return str(page.read(), "utf-8")


def refused(node: Rotad) -> float:
    """Return how many messages a node has refused."""
    lines = [line for line in metrics(node).splitlines() if "messages_refused_total{" in line]
    return sum(float(line.split()[-1]) for line in lines)


@needs_etcd
def test_an_epoch_that_a_member_made_up_ends_no_shard(own_cluster: Cluster) -> None:
    cluster = own_cluster.start()
    held = cluster.configurations()[SHARD]
    forged = msgspec.convert(held | {"epoch": FAR, "primary": FORGER}, Configuration)
    victim = cluster.node(held["primary"])
    append = Append(
        configuration=forged,
        allocation=AllocationId(held["sync"][0][1]),
        previous=Index(0),
        previous_hash=ORIGIN.hash,
        entries=(),
        committed=Index(0),
        sent_at=Instant(0),
    )

    asyncio.run(forge(cluster, Query(epoch=FAR, sent_at=Instant(0)), append))
    victim.kill()

    others = [node for node in cluster if node is not victim]
    cluster.wait_until(
        lambda: opened(others[0]) and cluster.configurations()[SHARD]["primary"] != held["primary"],
        "no node takes the shard over",
    )
    assert cluster.configurations()[SHARD]["epoch"] < 1_000
    for node in others:
        assert answer(node, "GET", f"/api/v1/shards/{SHARD}/promise")["promised"] < 1_000


def opened(node: Rotad) -> bool:
    """Return True if the shard is open, according to a node."""
    return bool(answer(node, "GET", "/api/v1/cluster")["shards"][SHARD]["isOpen"])


# -- repair ----------------------------------------------------------------------------------------


def promise(node: Rotad, epoch: Epoch) -> None:
    """Write a promise into the data directory of a node that does not run."""
    identity = identity_in(node.data_dir)
    assert identity is not None
    with (
        DataDirectory.open(
            node.data_dir,
            store_id=identity.store_id,
            shard_count=identity.shard_count,
            cluster=identity.cluster,
        ) as directory,
        closing(RocksStore(directory.store_path)) as store,
    ):
        file, batch = ShardFile(store, SHARD), store.batch()
        file.write(batch, [PutHeader(epoch, file.stored().allocation)])
        store.write(batch)
        store.sync()


@needs_etcd
def test_a_repair_opens_a_shard_that_a_promise_keeps_closed(
    own_cluster: Cluster, rota_alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = own_cluster.start()
    with pytest.raises(Conflict, match="nothing to repair"), Client(cluster.nodes[1].url) as client:
        client.repair_shard(SHARD)
    primary = cluster.configurations()[SHARD]["primary"]
    for node in cluster:
        node.stop()
    backup = next(each for each in cluster if each.data_dir.name != primary)
    for node in (cluster.node(primary), backup):
        promise(node, FAR)
    for node in cluster:
        node.spawn()
    for node in cluster:
        node.wait_logged("node started")
        node.is_ready()  # Which finds its address; the frozen ones are not.
    cluster.wait_until(lambda: any(map(frozen, cluster)), "no node raises the alarm")

    monkeypatch.setenv("ROTA_URL", cluster.nodes[1].url)
    heading = "A shard closed by a promise"
    dry, done = runbook.follow(heading, rota_alone, words={"17": str(SHARD)})

    assert f"promised epoch {FAR}, wrote" in dry.err
    assert f"to {FAR + 1}\n" in dry.err
    assert (dry.status, done.status) == (0, 0)
    cluster.wait_whole()
    assert cluster.configurations()[SHARD]["epoch"] > FAR
    assert not any(frozen(node) for node in cluster)


def frozen(node: Rotad) -> float:
    """Return how many shards a node has frozen."""
    lines = [line for line in metrics(node).splitlines() if line.startswith("rota_shards_frozen ")]
    return float(lines[0].split()[-1])


# -- refused repairs -------------------------------------------------------------------------------

CURRENT = Configuration(
    epoch=Epoch(5),
    primary=NodeId("a"),
    primary_session=Session("s"),
    sync=(Copy(NodeId("a"), AllocationId("1")), Copy(NodeId("b"), AllocationId("2"))),
)


def promises_of(**promised: int) -> dict[NodeId, PromiseView]:
    """Return the views of nodes that promised these epochs, with the known epoch 5."""
    return {
        NodeId(each): PromiseView(node_id=each, promised=epoch, written=4, known=5)
        for each, epoch in promised.items()
    }


def ahead(node_id: str, *, written: int = 4, known: int = 5) -> dict[NodeId, PromiseView]:
    """Return the view of a node with other written or known epochs."""
    view = PromiseView(node_id=node_id, promised=9, written=written, known=known)
    return {NodeId(node_id): view}


def test_a_repair_raises_the_epoch_above_all_promises_and_changes_nothing_else() -> None:
    assert repaired(SHARD, CURRENT, promises_of(a=5, b=7, c=9)) == msgspec.structs.replace(
        CURRENT, epoch=Epoch(10)
    )


@pytest.mark.parametrize(
    ("current", "promises", "code"),
    [
        (None, promises_of(a=9), "shard_sound"),
        (CURRENT, promises_of(a=5, b=5), "shard_sound"),
        (CURRENT, promises_of(a=9), "copies_unreached"),
        (CURRENT, promises_of(a=EPOCH_MAX, b=5), "epochs_exhausted"),
        (CURRENT, promises_of(a=9, b=5) | ahead("b", written=6), "coordinator_behind"),
        (CURRENT, promises_of(a=9, b=5) | ahead("b", known=6), "coordinator_behind"),
        (CURRENT, promises_of(a=9, b=5) | ahead("c", written=6), "coordinator_behind"),
    ],
)
def test_a_repair_is_refused_where_it_mends_nothing_or_is_not_certain(
    current: Configuration | None, promises: dict[NodeId, PromiseView], code: str
) -> None:
    with pytest.raises(Refused) as refusal:
        repaired(SHARD, current, promises)

    assert refusal.value.code == code
