"""Until when an attempt may go on, and when it is lost: who runs it always stops first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.instants import SECOND, Duration, Instant
from rota.core.leases import NEVER, deadline, is_lost, lease_end
from rota.core.replication.timing import DRIFT_PERCENT, Timing

S = SECOND
TIMING = Timing(
    session=Duration(5 * S), attempt_lease=Duration(100 * S), kill_grace=Duration(3 * S)
)
LONG_AGO = Instant(S)
NOW = Instant(1_000 * S)


def test_a_lease_counts_from_when_it_was_asked_for_and_ends_early() -> None:
    assert lease_end(TIMING, NOW) == NOW + 98 * S


@pytest.mark.parametrize(
    ("session_end", "leased_until", "expected"),
    [(7, 5, 7), (5, 7, 7), (NEVER, 7, 7), (7, NEVER, 7)],
)
def test_a_session_or_a_lease_is_enough_to_go_on(
    session_end: int, leased_until: int, expected: int
) -> None:
    assert deadline(Instant(session_end), Instant(leased_until)) == expected


def test_nothing_is_lost_while_its_session_is_seen() -> None:
    assert not is_lost(TIMING, gone_since=None, trusted_at=LONG_AGO, now=NOW)


@pytest.mark.parametrize(("gone_for_s", "expected"), [(4, False), (5, True)])
def test_a_session_has_to_be_gone_for_as_long_as_it_lives(gone_for_s: int, expected: bool) -> None:
    gone_since = Instant(NOW - gone_for_s * S)

    assert is_lost(TIMING, gone_since=gone_since, trusted_at=LONG_AGO, now=NOW) is expected


@pytest.mark.parametrize(("trusted_for_s", "expected"), [(107, False), (108, True)])
def test_a_lease_and_the_kill_have_to_be_over(trusted_for_s: int, expected: bool) -> None:
    trusted_at = Instant(NOW - trusted_for_s * S)

    assert is_lost(TIMING, gone_since=LONG_AGO, trusted_at=trusted_at, now=NOW) is expected


@given(
    lease=st.integers(10_000, 10**9),
    asked_at=st.integers(0, 10**12),
    travelled=st.integers(0, 10**9),
    slower=st.integers(-DRIFT_PERCENT, 0),
    faster=st.integers(0, DRIFT_PERCENT),
)
def test_who_runs_it_stops_before_it_is_lost_though_its_clock_is_slow_and_the_others_is_fast(
    lease: int, asked_at: int, travelled: int, slower: int, faster: int
) -> None:
    timing = Timing(attempt_lease=Duration(lease), kill_grace=Duration(0))
    lasts = lease_end(timing, Instant(asked_at)) - asked_at

    # True time from the question: the worker's deadline, and when the primary may be sure.
    stopped_after = lasts * 100 / (100 + slower)
    counted = (stopped_after - travelled) * (100 + faster) / 100
    given_at = Instant(0)

    assert counted <= 0 or not is_lost(
        timing, gone_since=Instant(-(10**12)), trusted_at=given_at, now=Instant(int(counted))
    )
