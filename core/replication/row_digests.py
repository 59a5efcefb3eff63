"""Digests of a shard's rows, and their comparison between copies (R43).

Copies that have applied the same entries have the same rows (I3), so the digests of their rows
after the same entry are equal. The digest covers the rows of STATE and HIST, since history too is
deleted through the journal. It does not cover data that differs between copies: the journal, which
each copy trims by itself; the header, with the promised epoch; and timers, which are derived from
the state.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from struct import Struct

from rota.core.model.ids import NodeId

DIGEST_BYTES = 16

_LENGTHS = Struct(">II")


class RowsDigest:
    """The digest of rows that are added in pieces, in the order of their keys."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=DIGEST_BYTES)

    def add(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Add rows: keys without the shard, and values, each shorter than 2^32 bytes."""
        pieces: list[bytes] = []
        for key, value in rows:
            # Both lengths are added, so that different lists of rows never have the same bytes.
            pieces += (_LENGTHS.pack(len(key), len(value)), key, value)
        self._hash.update(b"".join(pieces))

    def value(self) -> bytes:
        """Return the digest of all rows added so far, `DIGEST_BYTES` long."""
        return self._hash.digest()


class Result(Enum):
    """The result of a comparison; the value is its name in metrics."""

    EQUAL = "equal"
    DIFFERENT = "different"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class DigestVerdict:
    """The result of comparing the digests of a shard's copies.

    Attributes:
        result: `INCOMPLETE` if the known digests are equal and a copy's digest is missing.
        odd: The nodes whose digest differs from that of the majority, in order; empty without a
            majority.
    """

    result: Result
    odd: tuple[NodeId, ...] = ()


def compare(digests: Mapping[NodeId, bytes], copies: Collection[NodeId]) -> DigestVerdict:
    """Compare the digests of the rows of a shard's copies after the same entry.

    Args:
        digests: The known digests, by node.
        copies: The nodes whose copies count.
    """
    counts = Counter(digests.values())
    if len(counts) > 1:
        [(most, count)] = counts.most_common(1)
        is_known = 2 * count > len(digests)
        odd = sorted(node for node, digest in digests.items() if is_known and digest != most)
        return DigestVerdict(Result.DIFFERENT, tuple(odd))
    is_complete = digests.keys() >= set(copies)
    return DigestVerdict(Result.EQUAL if is_complete else Result.INCOMPLETE)
