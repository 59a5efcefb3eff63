"""Secrets in a cluster: set at one node, used on all, in the data of none."""

import re
from pathlib import Path

from rota.wire.key_rings import content_of
from support.cluster import Cluster
from support.etcd import EtcdCluster
from support.key_rings import key_ring_file, new_key, ring_of

VALUE = "MARKER-of-a-cluster-0c51"
JOBS = 12


def test_a_secret_is_used_on_all_nodes_and_is_in_the_data_of_none(
    etcd: EtcdCluster, tmp_path: Path
) -> None:
    ring = ring_of(new_key())
    file = key_ring_file(tmp_path, ring)
    with Cluster(tmp_path, etcd, 3, "--keyring", str(file)).start() as cluster:
        first, *others = cluster
        first.call("PUT", "/api/v1/secrets/default/db", {"value": VALUE})
        for number in range(JOBS):
            # Saved at once, and decided by the node of each job's primary.
            others[number % 2].create(
                name=f"j{number}",
                command=f'echo "$DB"; test "$DB" = "{VALUE[:6]}""{VALUE[6:]}"',
                secrets={"env": {"DB": "db"}},
                retries=0,
            )
        ended = [first.ended(first.trigger(f"j{number}")) for number in range(JOBS)]
        ran_on = {each["tasks"]["main"]["attempts"][-1]["nodeId"] for each in ended}
        etcd_rows = cluster.documents("secrets")
        rows = [
            str(path)
            for node in cluster
            for path in (*node.data_dir.rglob("*"), node.log_path)
            if path.is_file() and re.search(VALUE.encode(), path.read_bytes())
        ]

    assert {each["status"] for each in ended} == {"success"}
    assert len(ran_on) > 1
    assert list(etcd_rows) == ["default/db"]
    assert VALUE not in str(etcd_rows)
    assert rows == []
    assert content_of(ring) == file.read_bytes()
