"""Pages of several nodes become pages of the whole: each thing once, in order, none left out."""

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from rota.node.api.forwarding.scatter_gather import Page, merged

names = st.text("abc", min_size=1, max_size=3)
LOOKED_AT_MAX = 4


@given(
    wholes=st.lists(st.sets(names), min_size=1, max_size=4),
    wanted=st.sets(names),
    limit=st.integers(1, 5),
    is_descending=st.booleans(),
)
def test_pages_of_many_nodes_are_those_of_one(
    wholes: list[set[str]], wanted: set[str], limit: int, is_descending: bool
) -> None:
    # Each item is on one node.
    nodes: list[list[str]] = []
    for names_of in wholes:
        mine = names_of.difference(*nodes)
        nodes.append(sorted(mine, reverse=is_descending))

    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        pages = [page_of(node, wanted, cursor, limit, is_descending) for node in nodes]
        page = merged(
            pages,
            limit,
            cursor_of=lambda name: name,
            position=lambda name: (name,),
            is_descending=is_descending,
        )
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor

    everything = {name for node in nodes for name in node}
    assert found == sorted(everything & wanted, reverse=is_descending)


def page_of(
    node: list[str], wanted: set[str], after: str, limit: int, is_descending: bool
) -> Page[str]:
    """Return a node's page, which looks at a few things only: so it may end with none."""
    ordered = sorted(node)
    if is_descending:
        left = [name for name in reversed(ordered) if not after or name < after]
    else:
        left = ordered[bisect_right(ordered, after) :]
    items: list[str] = []
    for looked_at, name in enumerate(left):
        if len(items) == limit or looked_at == LOOKED_AT_MAX:
            return Page(items, left[looked_at - 1])
        if name in wanted:
            items.append(name)
    return Page(items, None)
