"""Definition of percentiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.client.slo.percentiles import percentile

SAMPLES = st.lists(st.floats(0, 1e9), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 50), (0.07, 7), (0.29, 29), (0.99, 99), (1.0, 100)]
)
def test_a_percentile_of_a_hundred_samples_is_one_of_them(share: float, expected: int) -> None:
    samples = range(1, 101)

    assert percentile(samples, share) == expected


@given(SAMPLES, st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_at_least_that_share_does_not_exceed_it_and_less_would_not_do(
    samples: list[float], share: float
) -> None:
    ordered = sorted(samples)

    found = percentile(ordered, share)

    assert sum(each <= found for each in ordered) >= share * len(ordered) - 1e-6
    assert sum(each < found for each in ordered) < max(share * len(ordered), 1)
