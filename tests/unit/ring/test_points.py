"""The hash circle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.ids import NodeId
from rota.ring.membership import Member
from rota.ring.points import CIRCLE, POINTS, Circle, point_count, points_of, position_of


def test_points_are_part_of_what_nodes_of_all_versions_agree_on() -> None:
    assert points_of(NodeId("n1"), 9) == GOLDEN_POINTS


def test_a_heavier_node_keeps_the_points_it_had() -> None:
    light, heavy = points_of(NodeId("n1"), 100), points_of(NodeId("n1"), 203)

    assert heavy[:100] == light
    assert len(set(heavy)) == 203


def test_a_node_has_points_by_its_weight_and_at_least_one() -> None:
    assert [point_count(weight) for weight in (1.0, 2.5, 0.5, 0.001)] == [
        POINTS,
        POINTS * 5 // 2,
        POINTS // 2,
        1,
    ]


def test_the_circle_is_in_order_and_has_all_points_of_all_nodes() -> None:
    holders = [Member(id=NodeId("a")), Member(id=NodeId("b"), weight=0.5)]

    circle = Circle(holders)

    assert circle.positions == sorted(circle.positions)
    assert [circle.owners.count(owner) for owner in (0, 1)] == [POINTS, POINTS // 2]


def test_the_first_point_at_a_position_may_be_on_it_or_past_the_last() -> None:
    circle = Circle([Member(id=NodeId("a"))])
    third = circle.positions[3]

    assert circle.first_at(third) == 3
    assert circle.first_at(third + 1) == 4
    assert circle.first_at(CIRCLE - 1) in (POINTS - 1, POINTS)


def test_the_arcs_of_all_nodes_are_the_whole_circle_by_weight() -> None:
    holders = [Member(id=NodeId(f"n{number}"), weight=weight) for number, weight in WEIGHTS]

    arcs = Circle(holders).arcs()

    assert sum(arcs) == pytest.approx(1)
    assert arcs == pytest.approx([weight / 4 for _, weight in WEIGHTS], rel=0.25)


@given(bits=st.integers(0, 13), shard=st.integers(0, 2**13 - 1))
@settings(max_examples=100, deadline=None)
def test_shards_stand_at_equal_distances_and_stay_when_their_number_doubles(
    bits: int, shard: int
) -> None:
    shard_count = 1 << bits
    shard %= shard_count

    position = position_of(shard, shard_count)

    assert position == shard * (CIRCLE // shard_count)
    assert position_of(2 * shard, 2 * shard_count) == position


WEIGHTS = ((1, 1.0), (2, 2.0), (3, 0.5), (4, 0.5))
GOLDEN_POINTS = [
    1083218302487542715, 12221787715082499801, 7199287725433463126, 8613447733844697644,
    11261722822543462091, 18160642938551245757, 2140766859466058924, 16508453621075602629,
    13070819159061037426,
]  # fmt: skip
