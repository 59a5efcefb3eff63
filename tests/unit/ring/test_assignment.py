"""Assignment of shards to nodes: spread, bounds, and the figures that docs promise."""

from collections import Counter
from math import ceil, floor
from random import Random  # noqa: TID251 - shuffled by a seed that hypothesis gives

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.ids import NodeId
from rota.ring.assignment import Assignment, Slack, assign, bounds_of, slack_of
from rota.ring.fair_shares import zone_limit
from rota.ring.membership import Member, MemberState
from unit.ring.memberships import holder_lists, members, plain_members


def ratios(assignment: Assignment) -> list[float]:
    """Return the load of each node as a part of its share."""
    loads = assignment.loads()
    return [loads[node] / share for node, share in assignment.shares.items()]


def primary_ratios(assignment: Assignment) -> list[float]:
    """Return how many shards each node is the primary of, as a part of its share of them."""
    loads = assignment.primary_loads()
    return [loads[node] / share for node, share in assignment.primary_shares.items()]


# -- spread ----------------------------------------------------------------------------------------


@given(drawn=holder_lists())
@settings(max_examples=150, deadline=None)
def test_no_two_copies_share_a_node_and_no_zone_has_more_than_it_must(
    drawn: tuple[list[tuple[float, str]], int],
) -> None:
    described, copies = drawn
    holders = members(*described)
    zones = {member.id: member.zone for member in holders}

    assignment = assign(holders, 64, copies)

    limit = zone_limit(holders, copies)
    assert assignment.zone_limit == limit
    for replicas in assignment.replica_sets:
        assert len(set(replicas)) == len(replicas) == copies
        assert max(Counter(zones[node] for node in replicas).values()) <= limit


def test_copies_are_in_different_zones_while_zones_suffice() -> None:
    holders = members(*[(1, "a")] * 6, *[(1, "b")] * 2, (1, "c"))
    zones = {member.id: member.zone for member in holders}

    assignment = assign(holders, 256, 3)

    assert {frozenset(zones[node] for node in each) for each in assignment.replica_sets} == {
        frozenset("abc")
    }


def test_with_two_zones_no_shard_is_in_one_alone() -> None:
    holders = members(*[(1, "a")] * 6, *[(1, "b")] * 2)
    zones = {member.id: member.zone for member in holders}

    assignment = assign(holders, 256, 3)

    assert all(len({zones[node] for node in each}) == 2 for each in assignment.replica_sets)


def test_fewer_nodes_than_copies_hold_one_each() -> None:
    assignment = assign(plain_members(2), 64, 3)

    assert assignment.copies == 2
    assert {frozenset(each) for each in assignment.replica_sets} == {frozenset(("n1", "n2"))}


def test_without_a_node_nothing_is_placed() -> None:
    drained = Member(id=NodeId("a"), state=MemberState.DRAINING)

    assignment = assign([drained], 64, 3)

    assert assignment.copies == 0
    assert assignment.replica_sets == ((),) * 64


def test_a_node_that_drains_is_placed_as_if_it_were_not_there() -> None:
    some = plain_members(5)
    drained = Member(id=NodeId("n9"), state=MemberState.DRAINING)

    assert assign([drained, *some], 64, 3) == assign(some, 64, 3)


# -- what it depends on ----------------------------------------------------------------------------


@given(drawn=holder_lists(), seed=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_the_order_of_members_does_not_matter(
    drawn: tuple[list[tuple[float, str]], int], seed: int
) -> None:
    described, copies = drawn
    some = members(*described)
    others = list(some)
    Random(seed).shuffle(others)

    assert assign(some, 64, copies) == assign(others, 64, copies)


def test_an_assignment_is_what_nodes_of_all_versions_agree_on() -> None:
    """If this fails, an upgrade would move shards, and nodes of two versions would disagree."""
    some = members((1, "a"), (2, "b"), (0.5, "b"), (1, "c"))

    assignment = assign(some, 8, 2)

    assert [" ".join(each) for each in assignment.replica_sets] == GOLDEN


# -- bounds ----------------------------------------------------------------------------------------


@given(
    weights=st.lists(st.sampled_from((0.5, 1.0, 1.0, 1.0, 2.0)), min_size=6, max_size=16),
    zone_count=st.sampled_from((1, 4, 5)),
)
@settings(max_examples=60, deadline=None)
def test_loads_stay_within_their_slack(weights: list[float], zone_count: int) -> None:
    some = members(*((weight, f"z{n % zone_count}") for n, weight in enumerate(weights)))

    assignment = assign(some, 256, 3)

    primary_slack, slack = slack_of(256 * 3 / len(some))
    loads, primary_loads = assignment.loads(), assignment.primary_loads()
    for node, share in assignment.shares.items():
        assert loads[node] <= max(ceil(share), floor(share * (1 + slack.above)))
        assert loads[node] >= floor(share * (1 - slack.below))
    for node, share in assignment.primary_shares.items():
        assert primary_loads[node] <= max(ceil(share), floor(share * (1 + slack.above)))
        assert primary_loads[node] >= floor(share * (1 - primary_slack.below))


def test_the_slack_grows_as_copies_get_fewer_within_limits() -> None:
    above = [slack_of(mean)[1].above for mean in (100_000, 307.2, 61.44, 30, 2)]

    assert above == pytest.approx([0.07, 0.0713, 0.1595, 0.2282, 0.25], abs=1e-4)


def test_what_fits_nowhere_goes_to_the_node_with_the_most_room() -> None:
    zones = members(
        (3, "b"), (0.5, "b"), (0.5, "a"), (3, "b"), (1, "b"), (3, "c"), (3, "b"), (3, "a")
    )  # fmt: skip

    assignment = assign(zones, 64, 3)

    loads = assignment.loads()
    assert max(loads[node] - share for node, share in assignment.shares.items()) < 2


def test_a_share_of_few_copies_can_be_rounded_up() -> None:
    bounds = bounds_of([1.2, 2.0, 61.44], Slack(above=0.16, below=0.2))

    assert bounds.most == [2, 2, 71]
    assert bounds.least == [0, 1, 49]


# -- the figures of docs/explanation/ring.md -------------------------------------------------------


def test_ten_nodes_are_within_ten_percent_of_their_share() -> None:
    assignment = assign(plain_members(10), 1024, 3)

    assert max(ratios(assignment)) <= 1.08
    assert min(ratios(assignment)) >= 0.90
    assert max(primary_ratios(assignment)) <= 1.08
    assert min(primary_ratios(assignment)) >= 0.80


def test_fifty_nodes_in_five_zones_have_at_most_a_sixth_too_much() -> None:
    assignment = assign(plain_members(50, zone_count=5), 1024, 3)

    assert max(ratios(assignment)) <= 1.16
    assert min(ratios(assignment)) >= 0.75
    assert max(primary_ratios(assignment)) <= 1.15


def test_weights_are_honoured_within_ten_percent() -> None:
    some = members(*((weight, "") for weight in (0.5, 0.5, 1, 1, 1, 1, 1.5, 2, 2, 3)))

    assignment = assign(some, 1024, 3)

    assert assignment.shares[NodeId("n10")] == pytest.approx(1024 * 3 * 3 / 13.5)
    assert max(ratios(assignment)) <= 1.10
    assert min(ratios(assignment)) >= 0.90


def test_weights_are_honoured_within_ten_percent_of_what_zones_allow() -> None:
    some = members((1, "a"), (2, "a"), (3, "a"), (4, "a"), *[(1, "b")] * 3, *[(1, "c")] * 4)

    assignment = assign(some, 1024, 3)

    # Each zone has a copy of each shard, whatever its weight; inside, nodes have by theirs.
    assert assignment.shares[NodeId("n04")] == pytest.approx(1024 * 0.4)
    assert max(ratios(assignment)) <= 1.10
    assert min(ratios(assignment)) >= 0.90


def test_a_thousand_nodes_hold_sixteen_thousand_shards() -> None:
    assignment = assign(plain_members(1000, zone_count=5), 16_384, 3)

    assert max(ratios(assignment)) <= 1.18
    assert sum(assignment.loads().values()) == 3 * 16_384


GOLDEN = ["n02 n04", "n03 n01", "n02 n01", "n01 n02", "n04 n01", "n04 n03", "n02 n04", "n01 n02"]
