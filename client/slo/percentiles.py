"""Exact percentiles of all samples, without buckets."""

from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of *ordered* that at least *share* of them do not exceed.

    Args:
        ordered: The samples in ascending order, at least one.
        share: The percentile as a fraction from 0 to 1; 0.99 for the 99th percentile.
    """
    assert 0 <= share <= 1, share
    # Rounded first: 0.07 * 100 is a little more than 7, and would select the eighth sample.
    rank = -int(-round(share * len(ordered), 6) // 1)
    return ordered[max(rank, 1) - 1]
