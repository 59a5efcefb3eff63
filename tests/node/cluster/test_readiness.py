"""A balancer leaves out a node that others can stand in for, and not all when one is lost."""

from support.cluster import Cluster
from support.etcd import needs_etcd
from support.rotad import Refusal, Rotad

pytestmark = needs_etcd

FOR_BALANCERS = "/readyz?exclude=cluster"


def why(node: Rotad, path: str) -> str:
    """Return why a node says that it is not ready; empty if it is."""
    try:
        node.call("GET", path)
    except Refusal as refusal:
        return str(refusal.problem["detail"])
    return ""


def test_the_loss_of_a_node_does_not_take_the_others_out(own_cluster: Cluster) -> None:
    first, second, third = own_cluster.start()

    third.vanish()
    own_cluster.wait_until(lambda: bool(why(first, "/readyz")), "nobody notices the loss")

    assert [why(node, FOR_BALANCERS) for node in (first, second)] == ["", ""]


def test_a_node_without_any_other_is_left_out(own_cluster: Cluster) -> None:
    first, second, third = own_cluster.start()

    second.vanish()
    third.vanish()

    own_cluster.wait_until(
        lambda: why(first, FOR_BALANCERS) == "no other node can be reached",
        "it believes that it can answer",
    )


def test_a_node_that_is_alone_is_ready_for_balancers_too(node: Rotad) -> None:
    assert why(node, FOR_BALANCERS) == ""


def test_only_what_the_cluster_is_the_cause_of_can_be_left_out(node: Rotad) -> None:
    assert "cluster" in why(node, "/readyz?exclude=disk")
