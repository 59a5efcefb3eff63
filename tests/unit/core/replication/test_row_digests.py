"""Digests of rows, and their comparison among all copies (R43)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.model.ids import NodeId
from rota.core.replication.row_digests import (
    DIGEST_BYTES,
    DigestVerdict,
    Result,
    RowsDigest,
    compare,
)

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
X, Y, Z = (bytes((number,)) * DIGEST_BYTES for number in range(3))

Rows = list[tuple[bytes, bytes]]
rows = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), max_size=4)


def digest(*pieces: Rows) -> bytes:
    """Return the digest of rows that are added in pieces."""
    made = RowsDigest()
    for piece in pieces:
        made.add(piece)
    return made.value()


@given(rows, rows)
def test_digests_are_equal_exactly_where_rows_are(one: Rows, other: Rows) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@given(rows, rows)
def test_a_digest_does_not_depend_on_the_pieces_in_which_rows_come(one: Rows, other: Rows) -> None:
    assert digest(one, other) == digest([*one, *other])


@pytest.mark.parametrize(
    ("digests", "verdict"),
    [
        ({A: X, B: X, C: X}, DigestVerdict(Result.EQUAL)),
        ({A: X, B: X}, DigestVerdict(Result.INCOMPLETE)),
        ({A: X}, DigestVerdict(Result.INCOMPLETE)),
        ({}, DigestVerdict(Result.INCOMPLETE)),
        ({A: X, B: X, C: Y}, DigestVerdict(Result.DIFFERENT, odd=(C,))),
        ({A: Y, B: X, C: X}, DigestVerdict(Result.DIFFERENT, odd=(A,))),
        ({A: X, B: Y, C: Z}, DigestVerdict(Result.DIFFERENT)),
        ({A: X, B: Y}, DigestVerdict(Result.DIFFERENT)),
    ],
)
def test_what_the_digests_of_three_copies_say(
    digests: dict[NodeId, bytes], verdict: DigestVerdict
) -> None:
    assert compare(digests, (A, B, C)) == verdict


def test_of_two_copies_that_differ_none_is_odd() -> None:
    assert compare({A: X, B: Y}, (A, B)) == DigestVerdict(Result.DIFFERENT)
