"""Metrics of shards, copies and sessions in a cluster."""

import re

import pytest

from rota.core.model.ids import NodeId
from rota.node.system.metric_definitions import METRICS
from support.cluster import SHARDS, Cluster
from support.etcd import needs_etcd
from support.rotad import Rotad

pytestmark = needs_etcd
each_node = pytest.mark.parametrize("node_id", ["n1", "n2", "n3"])


def metrics(node: Rotad) -> dict[str, float]:
    """Return all samples of a node."""
    lines = re.findall(r"^([^#\s]\S*) (\S+)$", node.call("GET", "/metrics"), re.MULTILINE)
    return {name: float(value) for name, value in lines}


def labels_of(node: Rotad) -> set[tuple[str, str, str]]:
    """Return metric, label and value of every label of a node, except bounds of buckets."""
    found: set[tuple[str, str, str]] = set()
    for sample in metrics(node):
        name, _, labels = sample.rstrip("}").partition("{")
        if not name.endswith(("_bucket", "_created")):
            found |= {(name, *each) for each in re.findall(r'(\w+)="([^"]*)"', labels)}
    return found


def role_changes(node: Rotad, to: str = "primary") -> float:
    """Return the number of changes to a role; a label appears with its first change."""
    return metrics(node).get(f'rota_role_changes_total{{to="{to}"}}', 0)


def test_metrics_count_a_primary_for_every_shard_and_all_copies(cluster: Cluster) -> None:
    wanted = {"primary": SHARDS, "opening": 0, "backup": 2 * SHARDS}

    def counted() -> dict[str, float]:
        samples = [metrics(node) for node in cluster]
        return {
            role: sum(each[f'rota_shards{{role="{role}"}}'] for each in samples) for role in wanted
        }

    cluster.wait_until(lambda: counted() == wanted, f"counted: {counted()}")


def test_labels_match_their_declarations(cluster: Cluster) -> None:
    cluster.nodes[0].run(name="labelled", command="true")

    labels = {label for node in cluster for label in labels_of(node)}

    named = {(name, label) for name, label, _ in labels}
    assert named >= {
        ("rota_shards", "role"), ("rota_executions_total", "status"),
        ("rota_peer_frames_total", "direction"), ("rota_http_requests_total", "method"),
    }  # fmt: skip
    for name, label_name, value in labels:
        [label] = [each for each in METRICS[name].labels if each.name == label_name]
        assert label.text or value in label.values, (name, value)


@each_node
def test_each_node_reports_the_lag_of_the_others(cluster: Cluster, node_id: NodeId) -> None:
    node = cluster.node(node_id)
    others = set(cluster.ids) - {node_id}
    lags = {f'rota_replication_lag_entries{{node="{each}"}}' for each in others}

    def reported() -> dict[str, float | None]:
        return {name: metrics(node).get(name) for name in lags}

    cluster.wait_until(lambda: reported() == dict.fromkeys(lags, 0), f"reported: {reported()}")


def test_commits_are_measured_where_they_are_decided(cluster: Cluster) -> None:
    before = {node: metrics(node)["rota_commit_seconds_count"] for node in cluster}

    cluster.nodes[0].create(name="measured", command="true")

    primary = cluster.primary_of("measured")
    assert metrics(primary)["rota_commit_seconds_count"] > before[primary]
    cluster.wait_until(
        lambda: metrics(primary)["rota_entries_uncommitted"] == 0, "entries stay uncommitted"
    )


@each_node
def test_a_session_is_as_old_as_its_last_renewal(cluster: Cluster, node_id: NodeId) -> None:
    node = cluster.node(node_id)
    ages = [metrics(node)["rota_session_age_seconds"]]

    def is_renewed() -> bool:
        ages.append(metrics(node)["rota_session_age_seconds"])
        return ages[-1] < ages[-2]

    cluster.wait_until(is_renewed, "the session is not renewed")


def test_changes_of_roles_are_counted(own_cluster: Cluster) -> None:
    own_cluster.start()
    first, second, third = own_cluster
    own_cluster.wait_until(
        lambda: all(metrics(node)['rota_shards{role="opening"}'] == 0 for node in own_cluster),
        "the shards are not open",
    )
    held = metrics(first)['rota_shards{role="primary"}']
    before = {node: role_changes(node) for node in own_cluster}

    own_cluster.drain(first)

    own_cluster.wait_until(
        lambda: (
            sum(metrics(node)['rota_shards{role="primary"}'] for node in (second, third)) == SHARDS
        ),
        "the shards are not open elsewhere",
    )
    gained = sum(role_changes(node) - before[node] for node in (second, third))
    assert gained == held > 0
    assert role_changes(first, "backup") >= held
