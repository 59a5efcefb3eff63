"""Lease deadlines of attempts: a node always stops an attempt before it counts as lost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.replication.authority.lease_deadlines import (
    NEVER,
    deadline,
    is_lost,
    lease_end,
    outlasting,
)
from rota.core.replication.timeouts import DRIFT_PERCENT, Timing
from rota.core.timing.instants import SECOND, Duration, Instant

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
def test_an_attempt_may_run_until_the_end_of_its_session_or_lease(
    session_end: int, leased_until: int, expected: int
) -> None:
    assert deadline(Instant(session_end), Instant(leased_until)) == expected


def test_nothing_is_lost_while_its_session_is_seen() -> None:
    assert not lost(gone_since=None)


@pytest.mark.parametrize(("gone_for_s", "expected"), [(8, False), (9, True)])
def test_a_session_has_to_be_gone_for_as_long_as_it_lives_and_the_kill_takes(
    gone_for_s: int, expected: bool
) -> None:
    gone_since = Instant(NOW - gone_for_s * S)

    assert lost(gone_since=gone_since) is expected


@pytest.mark.parametrize(("given_for_s", "expected"), [(107, False), (108, True)])
def test_a_lease_and_the_kill_have_to_be_over(given_for_s: int, expected: bool) -> None:
    given_at = Instant(NOW - given_for_s * S)

    assert lost(given_at=given_at) is expected


@pytest.mark.parametrize("given_at", [NEVER, Instant(NOW - 111 * S)])
@pytest.mark.parametrize(("opened_for_s", "expected"), [(112, False), (113, True)])
def test_the_primary_before_may_give_leases_for_as_long_as_its_session_lives(
    opened_for_s: int, expected: bool, given_at: Instant
) -> None:
    opened_at = Instant(NOW - opened_for_s * S)

    assert lost(given_at=given_at, opened_at=opened_at) is expected


@pytest.mark.parametrize(("session_s", "expected_s"), [(5, 107), (200, 203)])
def test_attempts_may_outlast_a_process_by_a_session_or_a_lease_and_the_kill(
    session_s: int, expected_s: int
) -> None:
    timing = replace(TIMING, session=Duration(session_s * S))

    assert outlasting(timing) == expected_s * S


def lost(
    *,
    gone_since: Instant | None = LONG_AGO,
    given_at: Instant = LONG_AGO,
    opened_at: Instant = LONG_AGO,
) -> bool:
    return is_lost(TIMING, gone_since=gone_since, given_at=given_at, opened_at=opened_at, now=NOW)


@given(session_s=st.integers(1, 60), kill_s=st.integers(0, 30), seen_after=st.integers(0, 10**6))
def test_an_attempt_that_only_its_session_allows_ends_before_it_is_lost(
    session_s: int, kill_s: int, seen_after: int
) -> None:
    """Its process ends just after a renewal, and its warden ends the session at the coordinator."""
    timing = Timing(session=Duration(session_s * S), kill_grace=Duration(kill_s * S))
    slow, fast = 100 / (100 - DRIFT_PERCENT), (100 + DRIFT_PERCENT) / 100
    ended_at = Instant(NOW + seen_after)
    killed_at = NOW + (timing.session_end(NOW) - NOW) * slow + timing.kill_grace

    counted = Instant(ended_at + int((killed_at - ended_at) * fast))

    assert counted <= ended_at or not is_lost(
        timing, gone_since=ended_at, given_at=NEVER, opened_at=NEVER, now=counted
    )


@given(
    session_s=st.integers(1, 60), lease_s=st.integers(1, 300), opened_after=st.integers(0, 10**8)
)
def test_an_attempt_leased_by_a_primary_that_is_cut_off_ends_before_it_is_lost(
    session_s: int, lease_s: int, opened_after: int
) -> None:
    timing = Timing(session=Duration(session_s * S), attempt_lease=Duration(lease_s * S))
    renewed_at = NOW  # Then the coordinator ends the session, and the primary is cut off.
    slow, fast = 100 / (100 - DRIFT_PERCENT), (100 + DRIFT_PERCENT) / 100
    last_lease_at = renewed_at + (timing.session_end(renewed_at) - renewed_at) * slow
    killed_at = last_lease_at + lease_end(timing, Instant(0)) * slow + timing.kill_grace
    opened_at = Instant(renewed_at + opened_after)

    counted = Instant(opened_at + int((killed_at - opened_at) * fast))

    assert counted <= opened_at or not is_lost(
        timing, gone_since=LONG_AGO, given_at=NEVER, opened_at=opened_at, now=counted
    )


@given(
    lease=st.integers(10_000, 10**9),
    asked_at=st.integers(0, 10**12),
    travelled=st.integers(0, 10**9),
    slower=st.integers(-DRIFT_PERCENT, 0),
    faster=st.integers(0, DRIFT_PERCENT),
)
def test_a_node_with_a_slow_clock_stops_before_a_primary_with_a_fast_one_declares_the_loss(
    lease: int, asked_at: int, travelled: int, slower: int, faster: int
) -> None:
    timing = Timing(attempt_lease=Duration(lease), kill_grace=Duration(0))
    lasts = lease_end(timing, Instant(asked_at)) - asked_at

    # True time since the request: the node's deadline, and the primary's earliest verdict.
    stopped_after = lasts * 100 / (100 + slower)
    counted = (stopped_after - travelled) * (100 + faster) / 100
    given_at = Instant(0)

    assert counted <= 0 or not is_lost(
        timing,
        gone_since=Instant(-(10**12)),
        given_at=given_at,
        opened_at=Instant(-(10**12)),
        now=Instant(int(counted)),
    )
