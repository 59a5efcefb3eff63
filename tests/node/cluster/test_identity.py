"""Tokens of tasks in a cluster: every node verifies those of all others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.cluster import Cluster
from support.etcd import EtcdCluster, needs_etcd
from support.rotad import Refusal, Rotad

pytestmark = needs_etcd
ADMIN = mint(bytes([6]) * (ID_BYTES + SECRET_BYTES)).text
JOB, SUBJECT = "default%2Factor", "job:default/actor"


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdCluster) -> Iterator[Cluster]:
    (tmp_path / "admin").write_text(ADMIN)
    flags = ("--auth", "keys", "--bootstrap-key-file", str(tmp_path / "admin"))
    with Cluster(tmp_path, etcd, 3, *flags) as cluster:
        for node in cluster:
            node.token = ADMIN
        yield cluster.start()


def status(node: Rotad, token: str, path: str) -> int:
    """Return the status of a read with a token."""
    try:
        node.call("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
    except Refusal as refusal:
        return refusal.status
    return 200


def test_a_token_is_valid_on_all_nodes_until_its_attempt_ends(
    cluster: Cluster, tmp_path: Path
) -> None:
    first = cluster.nodes[0]
    shown, go = tmp_path / "shown", tmp_path / "go"
    command = (
        f'cat "$ROTA_TOKEN_FILE" >{shown}.new; mv {shown}.new {shown}; '
        f"until [ -e {go} ]; do sleep 0.05; done"
    )
    first.create(name="actor", command=command, identity=True)
    binding = {"subject": SUBJECT, "role": "viewer", "namespaces": ["default"]}
    first.call("PUT", "/api/v1/bindings/actor", binding)
    execution = first.trigger("actor")
    first.wait_until(shown.exists)
    token = shown.read_text()
    read = f"/executions/{execution}"

    # 1. Each node verifies the token, and so does the node that it forwards the request to.
    for node in cluster:
        node.wait_until(lambda node=node: status(node, token, f"/jobs/{JOB}") == 200)  # type: ignore[misc]  # a default is no argument
        assert status(node, token, read) == 200

    # 2. A token outlives the process of the node that has issued it.
    attempt = first.call("GET", f"/api/v1{read}")["tasks"]["main"]["attempts"][-1]
    runner = cluster.node(attempt["nodeId"])
    runner.kill()
    runner.start()
    cluster.wait_whole()
    for node in cluster:
        node.wait_until(lambda node=node: status(node, token, read) == 200)  # type: ignore[misc]  # a default is no argument

    # 3. A binding that was withdrawn at one node counts at no node.
    first.call("DELETE", "/api/v1/bindings/actor")
    for node in cluster:
        node.wait_until(lambda node=node: status(node, token, f"/jobs/{JOB}") == 404, 1)  # type: ignore[misc]  # a default is no argument
        assert status(node, token, read) == 200

    # 4. The end of the attempt counts at its node, and for what its shard's primary decides.
    go.touch()
    first.ended(execution)
    assert status(runner, token, "/whoami") == 401
    for node in cluster:
        assert status(node, token, read) == 401
