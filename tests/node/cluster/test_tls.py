"""Clusters whose nodes use TLS between each other: real nodes, etcd and wardens."""

import json
from collections.abc import Iterator

import pytest

from support.cluster import Cluster, answer
from support.etcd import EtcdCluster
from support.peer_certificates import PeerAuthority
from support.rota_program import Rota
from support.rotad import Refusal, Rotad

IDS = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PeerAuthority:
    return PeerAuthority(tmp_path_factory.mktemp("authority") / "certs", "secured0")


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, etcd: EtcdCluster, authority: PeerAuthority
) -> Iterator[Cluster]:
    """Three nodes that require TLS of each other."""
    with Cluster(tmp_path_factory.mktemp("secured"), etcd) as cluster:
        assert cluster.name == "secured0"
        for node, node_id in zip(cluster, IDS, strict=True):
            node.flags += authority.flags(node_id)
        yield cluster.start()


def lines(node: Rotad, event: str) -> list[dict[str, object]]:
    """Return the lines of a node's log about an event."""
    found = [json.loads(line) for line in node.log().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def test_jobs_run_on_every_node(secured: Cluster) -> None:
    for number in range(6):
        node = secured.nodes[number % 3]
        body = {"name": f"secured-{number}", "command": "echo secured"}
        job = answer(node, "POST", "/api/v1/jobs", body)
        assert node.ended(node.trigger(job["jobId"]))["status"] == "success"


def test_the_end_of_a_certificate_is_measured(secured: Cluster) -> None:
    text = secured.nodes[0].call("GET", "/metrics")

    [line] = [each for each in text.splitlines() if each.startswith("rota_certificate_expiry")]
    name, value = line.split()
    assert name == 'rota_certificate_expiry_seconds{use="peer"}'
    assert 364 * 86_400 < float(value) < 366 * 86_400


def test_a_renewal_is_used_without_a_restart_or_a_lost_link(
    secured: Cluster, authority: PeerAuthority
) -> None:
    node, before = secured.nodes[1], [len(lines(each, "peer linked")) for each in secured]

    authority.renew("n2", has_new_key=True)
    secured.wait_until(
        lambda: bool(lines(node, "certificate replaced")), "the certificate is not replaced"
    )

    assert [len(lines(each, "peer linked")) for each in secured] == before


def test_a_killed_process_is_reported_by_its_warden(secured: Cluster) -> None:
    victim, *others = secured.nodes

    victim.kill()
    secured.wait_until(
        lambda: all(lines(node, "peer dead") for node in others), "no proof of death arrived"
    )

    victim.spawn()
    secured.wait_whole()


@pytest.mark.timeout(180)
def test_a_cluster_changes_to_tls_and_keys_node_by_node(
    own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, rota_alone: Rota
) -> None:
    authority = PeerAuthority(tmp_path_factory.mktemp("change") / "certs", own_cluster.name)
    peer = {node_id: authority.flags(node_id)[:-1] for node_id in IDS}
    api = {node_id: authority.api_flags(f"api-{node_id}") for node_id in IDS}
    plain = {node_id: node.flags for node_id, node in zip(IDS, own_cluster, strict=True)}
    own_cluster.start()
    own_cluster.nodes[0].create(name="changed", command="true")

    for node_id, node in zip(IDS, own_cluster, strict=True):
        restart(own_cluster, node, (*plain[node_id], *peer[node_id], "accept", "--auth", "observe"))
        run_everywhere(own_cluster)
    assert sum(map(would_be_refused, own_cluster)) > 0

    made = rota_alone("auth", "init", "--data-dir", str(own_cluster.nodes[0].data_dir))
    assert made.status == 0, made.err
    for node in own_cluster:
        node.token = made.out.strip()
    own_cluster.wait_until(
        lambda: all(
            node.call("GET", "/api/v1/whoami")["principal"] == "admin" for node in own_cluster
        ),
        "the key does not reach all nodes",
    )
    counted = [would_be_refused(node) for node in own_cluster]
    run_everywhere(own_cluster)
    assert [would_be_refused(node) for node in own_cluster] == counted

    for node_id, node in zip(IDS, own_cluster, strict=True):
        node.ca = authority.certificate
        restart(
            own_cluster,
            node,
            (*plain[node_id], *peer[node_id], "require", *api[node_id], "--auth", "keys"),
        )
        run_everywhere(own_cluster)

    assert {own_cluster.member(node_id)["peer_tls"] for node_id in IDS} == {"require"}
    for node in own_cluster:
        node.token = ""
        with pytest.raises(Refusal, match="401"):
            node.call("GET", "/api/v1/jobs")


def restart(cluster: Cluster, node: Rotad, flags: tuple[str, ...]) -> None:
    """Restart a node with other flags, and wait until all shards have their copies."""
    assert node.stop() == 0
    node.flags = flags
    node.spawn()
    cluster.wait_whole()


def run_everywhere(cluster: Cluster) -> None:
    """Run the job by a request to each node; any node forwards to the job's primary."""
    for node in cluster:
        assert node.ended(node.trigger("changed"))["status"] == "success"


def would_be_refused(node: Rotad) -> int:
    """Return the number of requests that a node with `observe` would have refused."""
    lines = node.call("GET", "/metrics").splitlines()
    values = [
        each.split()[1] for each in lines if each.startswith("rota_access_would_refuse_total")
    ]
    return int(float(values[0])) if values else 0
