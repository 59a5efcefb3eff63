"""A cluster with everything on: TLS between nodes, TLS of the API, and keys."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path

import pytest

from rota.client import AsyncClient
from rota.wire.key_rings import KEY_BYTES, KeyRing, content_of, id_of, read_key_ring
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.cluster import COPIES, SHARDS, Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.in_process import until
from support.peer_certificates import PeerAuthority
from support.rotad import Json, Rotad

pytestmark = needs_etcd
IDS = ("n1", "n2", "n3")
TOKEN = mint(bytes([7]) * (ID_BYTES + SECRET_BYTES)).text
CALLERS = 8
CALLS = 20
"""The number of repetitions over one connection."""
ROTATIONS = 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PeerAuthority:
    return PeerAuthority(tmp_path_factory.mktemp("authority") / "certs", "whole0")


@pytest.fixture(scope="module")
def key_rings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the files of the key rings of the nodes, which have the same content."""
    folder, key = tmp_path_factory.mktemp("keys"), os.urandom(KEY_BYTES)
    files = [folder / node_id for node_id in IDS]
    for file in files:
        file.touch(mode=0o600)
        file.write_bytes(content_of(KeyRing(id_of(key), {id_of(key): key})))
    return files


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
    etcd: EtcdCluster,
    authority: PeerAuthority,
    key_rings: list[Path],
) -> Iterator[Cluster]:
    token_file = tmp_path_factory.mktemp("token") / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    with Cluster(tmp_path_factory.mktemp("whole"), etcd) as cluster:
        assert cluster.name == "whole0"
        for node, node_id, file in zip(cluster, IDS, key_rings, strict=True):
            node.ca, node.token = authority.certificate, TOKEN
            node.flags += (
                *("--keyring", str(file)),
                *("--session-ttl", "60s"),  # Under load on a busy machine, 10 s are too short.
                *("--auth", "keys", "--bootstrap-key-file", str(token_file)),
                *authority.flags(node_id),
                *authority.api_flags(f"api-{node_id}"),
            )
        cluster.start()
        # Until then, nodes hand shards over to the nodes that the ring assigns.
        cluster.wait_until(lambda: is_settled(cluster), "copies and primaries are not spread")
        yield cluster


def is_settled(cluster: Cluster) -> bool:
    """Return True if each shard has all copies, and no change of them is pending."""
    found = cluster.configurations().values()
    are_whole = len(found) == SHARDS and all(len(each["sync"]) == COPIES for each in found)
    return are_whole and cluster.nodes[0].call("GET", "/api/v1/cluster")["moves"] == []


def replaced(node: Rotad, use: str) -> int:
    """Return how many certificates of a use a node has replaced."""
    lines = [json.loads(line) for line in node.log().splitlines() if line.startswith("{")]
    return sum(line["event"] == "certificate replaced" and line.get("use") == use for line in lines)


def test_any_node_answers_for_any_job(whole: Cluster) -> None:
    for number in range(6):
        node = whole.nodes[number % 3]
        node.create(name=f"job-{number}", command="echo secured")
    for number in range(6):
        node = whole.nodes[(number + 1) % 3]
        execution = node.ended(node.trigger(f"job-{number}"))
        assert execution["status"] == "success"
        output = node.call(
            "GET", f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
        )
        assert output == "secured\n"
    assert len(whole.nodes[0].call("GET", "/api/v1/jobs")["items"]) == 6


async def test_events_of_all_nodes_are_followed(whole: Cluster, authority: PeerAuthority) -> None:
    node = whole.nodes[0]
    async with AsyncClient(node.url, token=TOKEN, ca=authority.certificate) as client:
        events = client.events(types="job")
        assert (await anext(events)).type == "stream.opened"
        names = [f"seen-{number}" for number in range(6)]
        for name in names:
            await client.create_job({"name": name, "command": "true"})
        async with asyncio.timeout(20):
            seen = {(await anext(events)).job for _ in names}
        await events.aclose()

    assert seen == {f"default/{name}" for name in names}


class Load:
    """Callers that trigger jobs and read them, over connections that are used for a while.

    No request is repeated: the first that fails ends its caller, and the test.

    Attributes:
        token: The token of the next connections.
        done: The number of requests that succeeded, by job.
    """

    def __init__(self, cluster: Cluster, authority: PeerAuthority, token: str) -> None:
        self._cluster = cluster
        self._authority = authority
        self._is_over = False
        self.token = token
        self.done: Counter[str] = Counter()

    async def call(self, name: str) -> None:
        """Trigger a job and read it at each node, again and again, until `end`."""
        while not self._is_over:
            for each in self._cluster:
                async with AsyncClient(
                    each.url, token=self.token, ca=self._authority.certificate, repeats_max=0
                ) as client:
                    for _ in range(CALLS):
                        await client.trigger(name)
                        assert (await client.job(name)).name == name
                        self.done[name] += 2

    def end(self) -> None:
        """Let the callers end."""
        self._is_over = True


async def renew_certificates(cluster: Cluster, authority: PeerAuthority) -> None:
    """Renew all certificates twice, and wait until each node uses its new ones."""
    files = [*IDS, *(f"api-{node_id}" for node_id in IDS)]
    for number in range(1, ROTATIONS + 1):
        for name in files:
            authority.renew(name, has_new_key=number % 2 == 0)
        uses = [(each, use) for each in cluster for use in ("api", "peer")]
        await until(lambda: all(replaced(*each) >= number for each in uses), 40)  # noqa: B023 - awaited here


async def rotate_tokens(admin: AsyncClient, load: Load) -> None:
    """Give the callers new tokens of their key; the earlier one ends soon afterwards."""
    for _ in range(ROTATIONS):
        load.token = (await admin.rotate_key("load", grace="20s")).token


async def replace_key_of_secrets(
    cluster: Cluster, authority: PeerAuthority, admin: AsyncClient, files: list[Path]
) -> None:
    """Replace the key of the secrets: add a key, use it, and encrypt the secrets with it."""
    before, key = read_key_ring(files[0]), os.urandom(KEY_BYTES)
    both = {**before.keys, id_of(key): key}
    for in_use in (before.in_use, id_of(key)):
        for file in files:
            file.write_bytes(content_of(KeyRing(in_use, both)))
        for node in cluster:
            async with AsyncClient(node.url, token=TOKEN, ca=authority.certificate) as client:
                await until_async(lambda: has_keys(client, in_use, both), 20)  # noqa: B023 - awaited here
    assert (await admin.rewrap_secrets()).failed == []
    assert {*(await admin.key_ring()).secrets_by_key} == {id_of(key)}


async def has_keys(client: AsyncClient, in_use: str, keys: Mapping[str, bytes]) -> bool:
    """Return True if a node uses the key *in_use* and has all *keys*."""
    found = await client.key_ring()
    return (found.in_use, {*found.keys}) == (in_use, {*keys})


async def until_async(is_so: Callable[[], Awaitable[bool]], within_s: float) -> None:
    """Wait until *is_so*, for at most *within_s* seconds."""
    async with asyncio.timeout(within_s):
        while not await is_so():  # noqa: ASYNC110 - a node has no event for this
            await asyncio.sleep(0.1)


async def both(*steps: Coroutine[None, None, None]) -> None:
    """Take steps at the same time."""
    async with asyncio.TaskGroup() as group:
        for step in steps:
            group.create_task(step)


def primaries(cluster: Cluster) -> dict[int, tuple[Json, Json]]:
    """Return the primary of each shard, and its session."""
    found = cluster.configurations().items()
    return {number: (each["primary"], each["primary_session"]) for number, each in found}


@pytest.mark.timeout(240)
async def test_everything_is_rotated_under_load_without_a_failed_request_or_a_takeover(
    whole: Cluster, authority: PeerAuthority, key_rings: list[Path]
) -> None:
    node = whole.nodes[0]
    names = [f"load-{number}" for number in range(CALLERS)]
    for name in names:
        node.create(name=name, type="scripted")
    async with AsyncClient(node.url, token=TOKEN, ca=authority.certificate) as admin:
        await admin.set_secret("word", "unchanged")
        await admin.create_job(
            {"name": "secret", "command": 'echo "$WORD"', "secrets": {"env": {"WORD": "word"}}}
        )
        first = await admin.create_key("load", role="operator", namespaces=["*"])
        load = Load(whole, authority, first.token)
        before = primaries(whole)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(load.call(name))
            steps = [
                rotate_tokens(admin, load),
                # At the same time, since nodes look at files of both every ten seconds.
                both(
                    renew_certificates(whole, authority),
                    replace_key_of_secrets(whole, authority, admin, key_rings),
                ),
            ]
            for step in steps:
                count = load.done.total()
                await step
                await until(lambda: load.done.total() > count + CALLERS)  # noqa: B023 - awaited here
            load.end()

    assert sorted(load.done) == names
    assert primaries(whole) == before
    execution = node.ended(node.trigger("secret"))
    path = f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
    assert "unchanged" not in node.call("GET", path)  # Values of secrets are masked.
    assert execution["status"] == "success"
