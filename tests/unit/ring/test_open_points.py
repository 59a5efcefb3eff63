"""The next open index clockwise."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.ring.open_points import OpenPoints
from rota.ring.points import Circle
from unit.ring.memberships import members


@given(
    owner_count=st.integers(1, 5),
    closed=st.lists(st.integers(0, 4), max_size=5),
    indexes=st.lists(st.integers(0, 100), min_size=1, max_size=30),
)
@settings(max_examples=200, deadline=None)
def test_the_first_open_seat_is_the_one_found_by_looking_at_each(
    owner_count: int, closed: list[int], indexes: list[int]
) -> None:
    circle = Circle(members(*[(0.04, "")] * owner_count))
    open_points = OpenPoints(circle)
    left = set(range(owner_count)) - set(closed)
    point_count = len(circle.owners)

    for owner in closed:
        open_points.close(owner)

    assert open_points.owners() == sorted(left)
    for index in indexes:
        found = open_points.first_from(index)
        turn = range(index, index + point_count)
        expected = (each for each in turn if circle.owners[each % point_count] in left)
        assert found == next(expected, found)
        assert left or found >= index + 1
