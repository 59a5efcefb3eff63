"""Memberships for the tests of the ring."""

from hypothesis import strategies as st

from rota.core.model.ids import NodeId
from rota.ring.membership import Member


def members(*described: tuple[float, str]) -> list[Member]:
    """Return members n01, n02, ... by weight and zone."""
    return [
        Member(id=NodeId(f"n{number:02}"), weight=weight, zone=zone)
        for number, (weight, zone) in enumerate(described, 1)
    ]


def plain_members(count: int, zone_count: int = 1, first: int = 1) -> list[Member]:
    """Return *count* members n1, n2, ... of weight 1, taking turns among the zones."""
    return [
        Member(id=NodeId(f"n{number}"), zone=f"z{number % zone_count}" if zone_count > 1 else "")
        for number in range(first, first + count)
    ]


@st.composite
def holder_lists(draw: st.DrawFn) -> tuple[list[tuple[float, str]], int]:
    """Return weights and zones of some nodes, and a number of copies that they can hold."""
    described = draw(
        st.lists(
            st.tuples(st.sampled_from((1.0, 1.0, 0.3, 0.01, 2.5, 7.0)), st.sampled_from("abcde")),
            min_size=1,
            max_size=12,
        )
    )
    return described, draw(st.integers(1, min(5, len(described))))
