"""Pending changes of a shard's copies, and the figures of a cluster."""

import msgspec
import pytest

from rota.client.cli.cluster.cluster_views import left_to_drain, status_of
from rota.core.replication.primary import Copies
from rota.node.api.documents.cluster_status import moves_of
from rota.wire.documents import ClusterView, LoadView, MoveView, NodeView, ReplicaView, ShardView


def shard(
    *sync: str,
    target: str,
    learners: dict[str, int | None] | None = None,
    is_open: bool | None = True,
) -> ShardView:
    """Return a shard whose copies that count are on *sync*, the primary's first."""
    primary, *backups = sync
    return ShardView(
        shard=7,
        epoch=3,
        primary=primary,
        is_open=is_open,
        replicas=[
            ReplicaView(node_id=primary, role="primary", lag=0),
            *(ReplicaView(node_id=each, role="backup", lag=2) for each in backups),
            *(
                ReplicaView(node_id=each, role="learner", lag=lag)
                for each, lag in (learners or {}).items()
            ),
        ],
        target=target.split(),
    )


def moves(view: ShardView, copies: int = 3) -> list[tuple[str, str | None, str | None, bool]]:
    """Return the moves of a shard in short."""
    found = moves_of(view, Copies(wanted=copies, least=2))
    return [(each.change, each.source, each.target, each.is_running) for each in found]


def test_a_shard_that_is_where_it_ought_to_be_does_not_move() -> None:
    assert moves(shard("a", "b", "c", target="a c b")) == []


def test_a_copy_is_to_be_made_before_the_one_that_it_replaces_goes() -> None:
    assert moves(shard("a", "b", "c", target="a b d")) == [
        ("copy", None, "d", False),
        ("removal", "c", None, False),
    ]
    assert moves(shard("a", "b", "c", target="a b d", learners={"d": None})) == [
        ("copy", None, "d", True),
        ("removal", "c", None, False),
    ]
    assert moves(shard("a", "b", "c", "d", target="a b d")) == [("removal", "c", None, True)]


def test_another_node_decides_once_it_has_a_copy() -> None:
    assert moves(shard("a", "b", "c", target="d b c")) == [
        ("copy", None, "d", False),
        ("handover", "a", "d", False),
        ("removal", "a", None, False),
    ]
    assert moves(shard("a", "b", "c", target="b a c")) == [("handover", "a", "b", True)]


def test_a_primary_that_is_to_go_is_handed_over_first() -> None:
    assert moves(shard("a", "b", "c", "d", target="b c d")) == [
        ("handover", "a", "b", True),
        ("removal", "a", None, False),
    ]


def test_a_copy_for_which_there_is_no_other_place_goes_while_enough_remain() -> None:
    assert moves(shard("a", "b", "c", target="a b")) == [("removal", "c", None, True)]
    assert moves(shard("a", "c", target="a b")) == [
        ("copy", None, "b", False),
        ("removal", "c", None, False),
    ]


def test_a_copy_without_which_too_few_would_remain_stays() -> None:
    assert moves(shard("a", "b", target="a")) == []
    assert moves(shard("a", "b", "c", target="a")) == [("removal", "b", None, True)]


def test_the_lag_of_a_new_copy_is_shown() -> None:
    [move] = moves_of(shard("a", "b", target="a b c", learners={"c": 12}), Copies())

    assert (move.change, move.lag) == ("copy", 12)


def test_a_shard_without_a_configuration_is_to_get_all_its_copies() -> None:
    unmade = ShardView(shard=7, epoch=0, primary=None, is_open=None, replicas=[], target=["a", "b"])

    assert moves(unmade, copies=2) == [("copy", None, "a", False), ("copy", None, "b", False)]


# -- in a few figures -----------------------------------------------------------------------------


def node(node_id: str, state: str = "active", running: int = 0) -> NodeView:
    return NodeView(
        node_id=node_id, state=state, is_draining=state == "draining", session="s", zone="",
        weight=1, labels={}, address="", peer_address="", version="",
        load=LoadView(running=running, slots=8, waiting=0), primaries=0, backups=0,
    )  # fmt: skip


def view(
    shards: list[ShardView],
    nodes: list[NodeView] | None = None,
    moves: list[MoveView] | None = None,
) -> ClusterView:
    return ClusterView(
        cluster="c", node_id="a", replicas=3, nodes=nodes or [node("a"), node("b"), node("c")],
        shards=shards, moves=moves or [],
    )  # fmt: skip


WELL = shard("a", "b", "c", target="a b c")
MOVE = MoveView(shard=7, change="copy", source=None, target="c", is_running=True)


def with_modes(**modes: str) -> list[NodeView]:
    """Return a node of each name with the mode of access control."""
    return [msgspec.structs.replace(node(name), auth=mode) for name, mode in modes.items()]


def test_nodes_that_refuse_nothing_or_have_other_modes_are_warned_of() -> None:
    mixed = status_of(view([WELL], with_modes(a="keys", b="open", c="observe", d="open")))

    observing, open_ones, different = mixed.warnings
    assert observing.startswith("c: auth = observe: refusals are only logged")
    assert open_ones == "b, d: auth = open: every request has all rights"
    assert "(a: auth = keys; c: auth = observe; b, d: auth = open)" in different
    assert mixed.is_whole


def test_nodes_that_require_keys_or_are_gone_are_not_warned_of() -> None:
    gone = msgspec.structs.replace(node("c", "gone"), auth="open")
    earlier = node("d")

    assert status_of(view([WELL], [*with_modes(a="keys", b="keys"), gone, earlier])).warnings == []


def troubled(name: str, *troubles: str) -> NodeView:
    """Return a node that has these troubles."""
    return msgspec.structs.replace(node(name), troubles=list(troubles))


def test_a_cluster_is_whole_when_all_are_there_and_all_is_where_it_ought_to_be() -> None:
    status = status_of(view([WELL]))

    assert status.is_whole
    assert (status.open, status.lag_max, status.short_of_copies) == (1, 2, 0)


@pytest.mark.parametrize(
    "unwell",
    [
        pytest.param(view([WELL], moves=[MOVE]), id="something moves"),
        pytest.param(view([WELL], [node("a"), node("b", "gone")]), id="a node is gone"),
        pytest.param(
            view([WELL, shard("a", "b", "c", target="a b c", is_open=False)]), id="not open"
        ),
        pytest.param(
            view([WELL, shard("a", "b", "c", target="a b c", is_open=None)]), id="not known"
        ),
        pytest.param(view([WELL], [troubled("a", "disk")]), id="a node has a trouble"),
    ],
)
def test_a_cluster_is_not_whole_when(unwell: ClusterView) -> None:
    assert not status_of(unwell).is_whole


def test_a_trouble_of_several_nodes_is_one_line() -> None:
    nodes = [troubled("a", "no etcd"), troubled("b", "no etcd", "disk"), node("c")]

    assert status_of(view([WELL], nodes)).troubles == ["a, b: no etcd", "b: disk"]


def test_shards_are_counted_by_what_is_wrong_with_them() -> None:
    shards = [
        WELL,
        shard("a", "b", target="a b c", learners={"c": None}),
        shard("a", "b", "c", target="a b c", is_open=None),
        shard("a", "b", "c", target="a b c", is_open=False),
    ]

    status = status_of(view(shards))

    assert (status.open, status.unknown, status.closed) == (2, 1, 1)
    assert status.short_of_copies == 1


def test_copies_that_a_draining_node_keeps_are_counted() -> None:
    third = msgspec.structs.replace(node("c", "draining"), backups=3)
    goes = MoveView(shard=1, change="removal", source="c", target=None, is_running=False)

    status = status_of(view([WELL], [node("a"), third], [goes]))

    assert status.kept == 2


# -- what is left to be done until a node is drained ----------------------------------------------


def test_a_node_is_drained_when_nothing_goes_from_it_and_nothing_runs_there() -> None:
    assert left_to_drain(view([WELL], [node("a"), node("c", "draining")]), "c") == ""


def test_until_then_it_is_counted_what_is_left() -> None:
    to_go = [
        MoveView(shard=1, change="handover", source="c", target="a", is_running=True),
        MoveView(shard=1, change="removal", source="c", target=None, is_running=False),
        MoveView(shard=2, change="removal", source="c", target=None, is_running=False),
        MoveView(shard=2, change="removal", source="b", target=None, is_running=False),
    ]

    left = left_to_drain(view([WELL], [node("c", "draining", running=1)], to_go), "c")

    assert left == "1 shard to be handed over, 2 copies to be removed, 1 attempt running"


def test_a_drain_that_not_all_nodes_have_received_has_no_count() -> None:
    assert (
        left_to_drain(view([WELL], [node("c")]), "c") == "not all nodes have received the request"
    )
    assert (
        left_to_drain(view([WELL], [node("a")]), "c") == "not all nodes have received the request"
    )
