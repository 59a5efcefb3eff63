"""Readiness for balancers: they exclude a node that others can replace, but never all nodes."""

from support.cluster import Cluster
from support.etcd import needs_etcd
from support.rotad import Refusal, Rotad

pytestmark = needs_etcd

FOR_BALANCERS = "/readyz?exclude=cluster"


def why(node: Rotad, path: str) -> str:
    """Return the reason why a node is unready; empty if it is ready."""
    try:
        node.call("GET", path)
    except Refusal as refusal:
        return str(refusal.problem["detail"])
    return ""


def test_the_loss_of_a_node_does_not_take_the_others_out(own_cluster: Cluster) -> None:
    first, second, third = own_cluster.start()

    third.vanish()
    own_cluster.wait_until(lambda: bool(why(first, "/readyz")), "the loss is not noticed")

    assert [why(node, FOR_BALANCERS) for node in (first, second)] == ["", ""]


def test_a_node_without_any_other_is_left_out(own_cluster: Cluster) -> None:
    first, second, third = own_cluster.start()

    second.vanish()
    third.vanish()

    own_cluster.wait_until(
        lambda: why(first, FOR_BALANCERS) == "no other node can be reached",
        "it is still ready for balancers",
    )


def test_a_node_that_is_alone_is_ready_for_balancers_too(node: Rotad) -> None:
    assert why(node, FOR_BALANCERS) == ""


def test_only_causes_in_the_cluster_can_be_excluded(node: Rotad) -> None:
    assert "cluster" in why(node, "/readyz?exclude=disk")
