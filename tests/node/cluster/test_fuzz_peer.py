"""Frames of a member, and of a stranger, with fields that no node sends, against a real node.

They are well framed: sound messages with other values in some fields. `make test` sends few;
with ``FUZZ_FRAMES=100000`` in the environment there are more. Meanwhile all nodes are asked whether
they are ready, and a job fires on another node; loops of nodes are watched from inside, and what
was seen is printed. A machine that is busy otherwise makes nodes unready too, so that is a failure
only where more frames are asked for.
"""

import asyncio
import json
import os
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - a seed makes a failure come again
from statistics import median
from typing import TypeVar

import aiohttp
import msgspec

from contract.peers.networks import dialled
from rota.core.model.ids import NodeId
from rota.core.timing.instants import Instant
from rota.node.coordination.coordinator import Member
from rota.node.links import frames, handshake
from rota.node.links.frames import Garbage, Ping
from rota.node.links.handshake_messages import NotWelcome
from rota.node.links.identity_proof import PeerCredentials, draw_bytes
from rota.node.peers.messages import NODE_KINDS, CoordinationLost
from rota.node.system.background import beside
from rota.node.system.entropy import SystemEntropy
from support.cluster import Cluster, answer
from support.etcd import needs_etcd
from support.rotad import Rotad
from unit.fuzzing import Tree, grafted
from unit.samples import SENT, fields_of

pytestmark = needs_etcd
T = TypeVar("T")
FRAMES_USUALLY = 2_000
FRAMES = int(os.environ.get("FUZZ_FRAMES", FRAMES_USUALLY))
IS_LONG = FRAMES > FRAMES_USUALLY
STRANGERS_AT_ONCE = 8
STEADY = {"name": "steady", "type": "scripted", "schedule": "@every 100ms"}
"""A job of another node that fires during the frames."""
FIRES = 50 if IS_LONG else 5
POLL_S = 0.05
WATCHED_NODE = Path(__file__).parents[2] / "fuzz/watched_node.py"
GARBAGE_SENT = 40
"""One of this many undecodable frames is sent: each of them costs a link."""
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


def mutated(chance: Random, *without: type) -> Iterator[bytes]:
    """Yield endless frames: valid ones with one or two changed fields."""
    sound = [
        (type(each) in NODE_KINDS, fields_of(each))
        for each in SENT
        if not isinstance(each, without)
    ]
    while True:
        items: list[Tree] = []
        for _ in range(chance.choice((1, 1, 3))):
            is_of_node, message = chance.choice(sound)
            for _ in range(chance.choice((0, 1, 1, 2))):
                message = grafted(message, chance.randrange(1, 1_000), chance.choice(VALUES))
            number = chance.randrange(8)
            items.append([None if is_of_node != (number == 7) else number, message])
        yield msgspec.msgpack.encode([0, items])


def is_garbage(frame: bytes) -> bool:
    try:
        decoded = frames.decode(frame)
        if isinstance(decoded, frames.Batch):
            for shard, message in decoded.items:
                frames.check_envelope(shard, message)
    except Garbage:
        return True
    return False


async def fuzz(cluster: Cluster, ours: PeerCredentials) -> tuple[int, int]:
    """Send frames to the first node as a member; return how many, and over how many links."""
    record = msgspec.json.decode(json.dumps(cluster.member("n1")), type=Member)
    port = int(record.peer_address.rpartition(":")[2])
    # A member may say that the coordinator lost its state, and shards stay as they are then (R31):
    # it has the coordinator's credentials, so it could just as well empty the coordinator.
    source, made, links, sent = mutated(Random(1), CoordinationLost), 0, 0, 0
    while made < FRAMES:
        async with dialled(port) as socket:
            await handshake.dial(socket, ours, record, draw_bytes(SystemEntropy(), 32))
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
    """Return when the node has answered a ping or ended the link."""
    await socket.send_bytes(frames.encode(Ping(sent_at=Instant(1))))
    async with asyncio.timeout(20):
        while True:
            came = await socket.receive()
            if came.type is not aiohttp.WSMsgType.BINARY:
                return
            if isinstance(frames.decode(came.data), frames.Pong):
                return


@dataclass
class Seen:
    """Observations of a cluster from outside while frames were sent to it.

    Attributes:
        asked: How often a node was asked whether it is ready.
        unready: How often it was not, or did not answer.
        before_ms: How late the steady job's fires were before that.
        during_ms: Likewise while it lasted.
    """

    asked: int = 0
    unready: int = 0
    before_ms: float = 0.0
    during_ms: float = 0.0

    async def poll(self, cluster: Cluster) -> None:
        """Request readiness of all nodes repeatedly, without end."""
        limit = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(timeout=limit) as session:
            while True:
                for node in cluster:
                    self.asked += 1
                    self.unready += not await self._is_ready(session, node)
                await asyncio.sleep(POLL_S)

    async def _is_ready(self, session: aiohttp.ClientSession, node: Rotad) -> bool:
        try:
            async with session.get(f"{node.url}/readyz") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


def start_watched(cluster: Cluster) -> Rotad:
    """Start nodes with monitored loops, and the steady job; return the node under test."""
    for node in cluster:
        node.prefix = (sys.executable, "-P", str(WATCHED_NODE))
    cluster.start()
    second = cluster.nodes[1]
    second.create(**STEADY)
    second.wait_until(lambda: len(lateness_ms(second)) >= FIRES, 60)
    return second


def watched(cluster: Cluster, sending: Awaitable[T]) -> tuple[T, Seen]:
    """Return the result of *sending*, and the observations of the cluster meanwhile."""
    seen, second = Seen(), cluster.nodes[1]

    async def send() -> T:
        async with beside(seen.poll(cluster)):
            return await sending

    seen.before_ms = median(lateness_ms(second))
    sent = asyncio.run(send())
    seen.during_ms = median(lateness_ms(second)[:FIRES])
    return sent, seen


def check_unharmed(cluster: Cluster, seen: Seen, what: str) -> None:
    """Check that nodes ran, with responsive loops, and were ready; print the observations."""
    assert [node.process.poll() for node in cluster if node.process] == [None] * 3
    for node in cluster:
        node.wait_ready(30)
    for node in cluster:
        assert node.stop(60) == 0
    logs = cluster.logs()
    held_ms = [float(each) for each in re.findall(r'"held_ms": ([\d.]+)', logs)]
    ratio = seen.during_ms / max(seen.before_ms, 0.1)
    sys.stdout.write(
        f"\n{what}: a node was not ready {seen.unready} of {seen.asked} times it was asked; loops "
        f"were held for {held_ms} ms at most; fires were {seen.during_ms:.1f} ms late, "
        f"{seen.before_ms:.1f} before: {ratio:.1f} times\n"
    )
    assert "node crashed" not in logs
    assert len(held_ms) == 3
    if IS_LONG:
        assert seen.unready == 0


def lateness_ms(node: Rotad) -> list[float]:
    """Return the lateness of the steady job's executions, largest first."""
    page = node.call("GET", "/api/v1/executions?jobId=steady&limit=1000")
    return [each["latenessMs"] for each in page["items"] if each["latenessMs"] is not None]


def test_no_frame_of_a_member_ends_a_node(own_cluster: Cluster) -> None:
    second = start_watched(own_cluster)
    first = own_cluster.nodes[0]
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

    (sent, links), seen = watched(own_cluster, fuzz(own_cluster, ours))

    assert sent > links > FRAMES / GARBAGE_SENT / 4
    second.wait_until(lambda: len(second.ledger(ticks)) >= 2)
    first.wait_ready(30)
    for node in own_cluster:
        job = {"name": f"after-{node.data_dir.name}", "command": "true"}
        made = answer(node, "POST", "/api/v1/jobs", job)["jobId"]
        assert node.ended(node.trigger(made))["status"] == "success"
    assert {entry["outcome"] for entry in second.ledger(ticks)} == {"fired"}
    check_unharmed(own_cluster, seen, f"{FRAMES} frames of a member")


def test_no_frame_of_a_stranger_ends_a_node(own_cluster: Cluster) -> None:
    start_watched(own_cluster)
    words = zip(range(FRAMES if IS_LONG else FRAMES // 10), mutated(Random(2)), strict=False)
    port = int(own_cluster.member("n1")["peer_address"].rpartition(":")[2])

    async def say() -> int:
        count = 0
        for _, word in words:
            async with dialled(port) as socket:
                await socket.send_bytes(word)
                await ended(socket)
            count += 1
        return count

    async def say_all() -> int:
        return sum(await asyncio.gather(*(say() for _ in range(STRANGERS_AT_ONCE))))

    count, seen = watched(own_cluster, say_all())

    check_unharmed(own_cluster, seen, f"{count} words of strangers")


def is_welcome(cluster: Cluster, ours: PeerCredentials) -> bool:
    async def try_it() -> bool:
        record = msgspec.json.decode(json.dumps(cluster.member("n1")), type=Member)
        async with dialled(int(record.peer_address.rpartition(":")[2])) as socket:
            try:
                await handshake.dial(socket, ours, record, draw_bytes(SystemEntropy(), 32))
            except NotWelcome:
                return False
            return True

    return asyncio.run(try_it())


def _meta(cluster: Cluster) -> dict[str, str]:
    request = {"key": f"/rota/{cluster.name}/meta".encode()}
    found = cluster.etcd.members[0].ask("/v3/kv/range", request)["kvs"][0]["value"]
    return dict(json.loads(b64decode(found)))
