"""A cluster with everything on: TLS between nodes, TLS of the API, and keys."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from rota.client import AsyncClient
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.cluster import Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.in_process import until
from support.peer_certificates import PeerAuthority
from support.rotad import Rotad

pytestmark = needs_etcd
IDS = ("n1", "n2", "n3")
TOKEN = mint(bytes([7]) * (ID_BYTES + SECRET_BYTES)).text
CALLERS = 8
ROTATIONS = 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PeerAuthority:
    return PeerAuthority(tmp_path_factory.mktemp("authority") / "certs", "whole0")


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster, authority: PeerAuthority
) -> Iterator[Cluster]:
    token_file = tmp_path_factory.mktemp("token") / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    with Cluster(tmp_path_factory.mktemp("whole"), etcd) as cluster:
        assert cluster.name == "whole0"
        for node, node_id in zip(cluster, IDS, strict=True):
            node.ca, node.token = authority.certificate, TOKEN
            node.flags += (
                *("--auth", "keys", "--bootstrap-key-file", str(token_file)),
                *authority.flags(node_id),
                *authority.api_flags(f"api-{node_id}"),
            )
        yield cluster.start()


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


@pytest.mark.timeout(180)
async def test_certificates_are_renewed_under_load_without_a_failed_request(
    whole: Cluster, authority: PeerAuthority
) -> None:
    node = whole.nodes[0]
    done: Counter[str] = Counter()
    names = [f"load-{number}" for number in range(CALLERS)]
    for name in names:
        node.create(name=name, type="scripted")

    is_over = asyncio.Event()

    async def call(name: str) -> None:
        """Trigger a job again and again, each time over a new connection to each node."""
        while not is_over.is_set():
            for each in whole:
                # Without retries: any failed request fails the test.
                async with AsyncClient(
                    each.url, token=TOKEN, ca=authority.certificate, repeats_max=0
                ) as client:
                    await client.trigger(name)
                    assert (await client.job(name)).name == name
            done[name] += 1

    async def renew() -> None:
        """Renew all certificates, and wait until each node uses its new ones, several times."""
        files = [*IDS, *(f"api-{node_id}" for node_id in IDS)]
        for number in range(1, ROTATIONS + 1):
            before = done.total()
            for name in files:
                authority.renew(name, has_new_key=number % 2 == 0)
            uses = [(each, use) for each in whole for use in ("api", "peer")]
            await until(lambda: all(replaced(*each) >= number for each in uses), 40)  # noqa: B023 - awaited here
            assert done.total() > before

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(call(name))
        await renew()
        is_over.set()

    assert sorted(done) == names
