"""The count of the coordinator's refusals."""

import pytest

from rota.core.timing.instants import Instant
from rota.node.cluster.coordinator_refusals import CoordinatorRefusals
from rota.node.coordination.coordinator_errors import (
    CoordinatorError,
    CoordinatorRefused,
    CoordinatorUnavailable,
    OutcomeUnknown,
    OutOfSpace,
)


@pytest.mark.parametrize(
    ("error", "count"),
    [
        (CoordinatorRefused("too many requests"), 1),
        (OutOfSpace("database space exceeded"), 1),
        (CoordinatorUnavailable("connection refused"), 0),
        (OutcomeUnknown("no answer in time"), 0),
    ],
)
def test_only_what_an_operator_has_to_mend_counts_as_a_refusal(
    error: CoordinatorError, count: int
) -> None:
    refusals = CoordinatorRefusals(lambda: Instant(0))

    refusals.note(error)

    assert refusals.count == count
