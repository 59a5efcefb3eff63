"""Fair share of shards of each node."""

from math import fsum

import pytest
from hypothesis import given, settings

from rota.ring.fair_shares import fair_shares, zone_limit
from unit.ring.memberships import holder_lists, members


@pytest.mark.parametrize(
    ("zones", "copies", "limit"),
    [
        ("abc", 3, 1),
        ("aabbcc", 3, 1),
        ("aaabbb", 3, 2),
        ("aaaaab", 3, 2),
        ("aaaa", 3, 3),
        ("aaaab", 4, 3),
        ("aabb", 1, 1),
        ("aaabbc", 5, 2),
        ("aaaabc", 5, 3),
    ],
)
def test_a_zone_holds_the_fewest_copies_with_which_all_find_a_node(
    zones: str, copies: int, limit: int
) -> None:
    assert zone_limit(members(*((1, zone) for zone in zones)), copies) == limit


def test_shares_follow_weights() -> None:
    holders = members((1, ""), (2, ""), (0.5, ""), (0.5, ""))

    assert fair_shares(holders, 100, 1) == pytest.approx([25, 50, 12.5, 12.5])


def test_a_node_has_a_share_of_at_most_one_copy_of_each_shard() -> None:
    holders = members((10, ""), (2, ""), (1, ""), (1, ""))

    assert fair_shares(holders, 100, 3) == pytest.approx([100, 100, 50, 50])


def test_a_zone_has_a_share_of_at_most_its_limit_and_the_rest_goes_by_weight() -> None:
    holders = members((5, "a"), (5, "a"), (2, "b"), (1, "c"), (1, "d"))

    shares = fair_shares(holders, 100, 3)

    # Zone a has a share of 214 of 300 and a limit of 100; b then gets 100 of 200, c and d the rest.
    assert shares == pytest.approx([50, 50, 100, 50, 50])


def test_a_zone_that_fills_up_may_fill_up_another() -> None:
    holders = members((8, "a"), (4, "b"), (1, "c"), (1, "d"), (1, "e"))

    # Without a's surplus b would have a share of 80 of 100, with it 114.
    assert fair_shares(holders, 100, 3) == pytest.approx([100, 100, *[100 / 3] * 3])


def test_primaries_go_by_weight_where_copies_cannot() -> None:
    holders = members((5, "a"), (5, "a"), (1, "b"), (1, "c"))

    assert fair_shares(holders, 120, 1) == pytest.approx([50, 50, 10, 10])
    assert fair_shares(holders, 120, 3) == pytest.approx([60, 60, 120, 120])


@given(drawn=holder_lists())
@settings(max_examples=200, deadline=None)
def test_shares_make_up_all_copies_within_what_nodes_and_zones_may_hold(
    drawn: tuple[list[tuple[float, str]], int],
) -> None:
    described, copies = drawn
    holders = members(*described)

    shares = fair_shares(holders, 64, copies)

    limit = zone_limit(holders, copies)
    assert fsum(shares) == pytest.approx(64 * copies)
    assert all(0 < share <= 64 * (1 + 1e-9) for share in shares)
    for zone in {zone for _, zone in described}:
        held = fsum(s for s, each in zip(shares, holders, strict=True) if each.zone == zone)
        assert held <= 64 * limit * (1 + 1e-6)
