"""Frames of a member, and of a stranger, with fields that no node sends, against a real node.

They are well framed: sound messages with other values in some fields. `make test` sends few;
with ``FUZZ_FRAMES=100000`` in the environment there are more.
"""

import asyncio
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from random import Random  # noqa: TID251 - a seed makes a failure come again

import aiohttp
import msgspec

from cluster import Cluster, answer
from contract.networks import dialled
from etcd import needs_etcd
from rota.core.ids import NodeId
from rota.core.instants import Instant
from rota.node.coordination.coordinator import Member
from rota.node.entropy import SystemEntropy
from rota.node.links import frames, greeting
from rota.node.links.frames import Garbage, Ping
from rota.node.links.hello import NotWelcome
from rota.node.links.proof import PeerCredentials, draw_bytes
from unit.fuzzing import Tree, grafted
from unit.samples import SENT, fields_of

pytestmark = needs_etcd
FRAMES = int(os.environ.get("FUZZ_FRAMES", "2000"))
GARBAGE_SENT = 40
"""Of the frames that cannot be decoded, one in so many is sent: each of them costs a link."""
MEMBER = NodeId("a-fuzzer")
SCALARS: list[Tree] = [
    *(None, True, -1, 0, 1, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63)),
    *(float("nan"), float("inf"), 0.5, "", "n1", "x" * 200, "../..", "\x00", "default/x"),
    *(b"", b"\x00" * 8, b"\xff" * 100),
]
ZEROES: list[Tree] = [0] * 100
LISTS: list[Tree] = [list[Tree](), ZEROES]
MAPS: list[Tree] = [dict[str, Tree](), dict[str, Tree](type="query")]
VALUES = SCALARS + LISTS + MAPS


def mutated(chance: Random) -> Iterator[bytes]:
    """Yield frames without end: sound ones, with one or two fields that are otherwise."""
    sound = [fields_of(each) for each in SENT]
    while True:
        items: list[Tree] = []
        for _ in range(chance.choice((1, 1, 3))):
            message: Tree = chance.choice(sound)
            for _ in range(chance.choice((0, 1, 1, 2))):
                message = grafted(message, chance.randrange(1, 1_000), chance.choice(VALUES))
            items.append([chance.randrange(8), message])
        yield msgspec.msgpack.encode([0, items])


def is_garbage(frame: bytes) -> bool:
    try:
        frames.decode(frame)
    except Garbage:
        return True
    return False


async def fuzz(cluster: Cluster, ours: PeerCredentials) -> tuple[int, int]:
    """Send frames to the first node as a member; return how many, and over how many links."""
    record = msgspec.json.decode(json.dumps(cluster.member("n1")), type=Member)
    port = int(record.peer_address.rpartition(":")[2])
    source, made, links, sent = mutated(Random(1)), 0, 0, 0
    while made < FRAMES:
        async with dialled(port) as socket:
            await greeting.dial(socket, ours, record, draw_bytes(SystemEntropy(), 32))
            links += 1
            while made < FRAMES and not socket.closed:
                frame = next(source)
                made += 1
                bad = is_garbage(frame)
                if bad and made % GARBAGE_SENT:
                    continue
                sent += 1
                await socket.send_bytes(frame)
                if bad:
                    await ended(socket)
                    break
                if made % 100 == 0:
                    await echoed(socket)
    return sent, links


async def ended(socket: aiohttp.ClientWebSocketResponse) -> None:
    async with asyncio.timeout(20):
        while (await socket.receive()).type is aiohttp.WSMsgType.BINARY:
            pass


async def echoed(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Return when the node has come as far as a ping, or has ended the link."""
    await socket.send_bytes(frames.encode(Ping(sent_at=Instant(1))))
    async with asyncio.timeout(20):
        while True:
            came = await socket.receive()
            if came.type is not aiohttp.WSMsgType.BINARY:
                return
            if isinstance(frames.decode(came.data), frames.Pong):
                return


def test_no_frame_of_a_member_ends_a_node(own_cluster: Cluster) -> None:
    own_cluster.start()
    first, second, _ = own_cluster
    ours = PeerCredentials(
        cluster=_meta(own_cluster)["id"],
        node_id=MEMBER,
        store_id="store of the fuzzer",
        life="1",
        key=draw_bytes(SystemEntropy(), 32),
    )
    record = {
        "node_id": MEMBER, "store_id": ours.store_id, "address": "127.0.0.1:1",
        "peer_address": "127.0.0.1:1", "state": "draining", "key": b64encode(ours.key).decode(),
    }  # fmt: skip
    own_cluster.etcd.members[0].put(f"/rota/{own_cluster.name}/node/{MEMBER}", json.dumps(record))
    first.wait_until(lambda: is_welcome(own_cluster, ours))
    ticks = second.create(name="ticks", command="true", schedule="* * * * * *")["jobId"]

    sent, links = asyncio.run(fuzz(own_cluster, ours))

    assert sent > links > FRAMES / GARBAGE_SENT / 4
    second.wait_until(lambda: len(second.ledger(ticks)) >= 2)
    assert [node.process.poll() for node in own_cluster if node.process] == [None] * 3
    assert "node crashed" not in own_cluster.logs()
    first.wait_ready(30)
    for node in own_cluster:
        job = {"name": f"after-{node.data_dir.name}", "command": "true"}
        made = answer(node, "POST", "/api/v1/jobs", job)["jobId"]
        assert node.ended(node.trigger(made))["status"] == "success"
    assert {entry["outcome"] for entry in second.ledger(ticks)} == {"fired"}


def test_no_word_of_a_stranger_ends_a_node(own_cluster: Cluster) -> None:
    first = own_cluster.start().nodes[0]
    port = int(own_cluster.member("n1")["peer_address"].rpartition(":")[2])

    async def say(word: bytes) -> None:
        async with dialled(port) as socket:
            await socket.send_bytes(word)
            await ended(socket)

    async def say_all() -> None:
        for _, word in zip(range(FRAMES // 10), mutated(Random(2)), strict=False):
            await say(word)

    asyncio.run(say_all())

    assert "node crashed" not in own_cluster.logs()
    first.wait_ready(30)


def is_welcome(cluster: Cluster, ours: PeerCredentials) -> bool:
    async def try_it() -> bool:
        record = msgspec.json.decode(json.dumps(cluster.member("n1")), type=Member)
        async with dialled(int(record.peer_address.rpartition(":")[2])) as socket:
            try:
                await greeting.dial(socket, ours, record, draw_bytes(SystemEntropy(), 32))
            except NotWelcome:
                return False
            return True

    return asyncio.run(try_it())


def _meta(cluster: Cluster) -> dict[str, str]:
    request = {"key": f"/rota/{cluster.name}/meta".encode()}
    found = cluster.etcd.members[0].ask("/v3/kv/range", request)["kvs"][0]["value"]
    return dict(json.loads(b64decode(found)))
