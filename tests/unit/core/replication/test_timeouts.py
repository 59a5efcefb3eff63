"""Every wait outlasts the right that it waits for, however wrong two clocks run (R14 to R16)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.core.replication.messages import Append, Appended
from rota.core.replication.timeouts import DRIFT_PERCENT, Timing
from rota.core.timing.instants import HOUR, SECOND, Duration, Instant
from unit.core.replication.replicas import TICK, TIMING, B, Cluster

LEASE = Duration(TIMING.lease_end(Instant(0)))
SLOWEST, FASTEST = -DRIFT_PERCENT, DRIFT_PERCENT

durations = st.integers(SECOND // 2, HOUR).map(Duration)
drifts = st.integers(SLOWEST, FASTEST)


def true_time(duration: int, drift_percent: int) -> float:
    """Return how long a clock takes to show *duration* that runs fast by so much."""
    return duration * 100 / (100 + drift_percent)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("session", 0, "session is 0 us; it has to be at least 1 us"),
        ("kill_grace", -1, "kill_grace is -1 us; it has to be at least 0 us"),
        ("peer_lease", 400_000, "beat is 400000 us; it has to be shorter than peer_lease, 400000"),
        ("silence", 300_000, "beat is 400000 us; it has to be shorter than silence, 300000 us"),
    ],
)
def test_a_duration_that_makes_no_sense_is_refused(name: str, value: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Timing(**{name: Duration(value)})


def test_all_problems_of_the_durations_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match=r"^session is 0 us; .*; query is -1 us; [^;]*$"):
        Timing(session=Duration(0), query=Duration(-1))


def test_delays_that_may_be_left_out_may_be_zero() -> None:
    timing = Timing(takeover_step=Duration(0), settled=Duration(0), kill_grace=Duration(0))

    assert timing.grace > timing.peer_lease


# -- two clocks ------------------------------------------------------------------------------------


@given(peer_lease=durations, primary=drifts, backup=drifts)
@example(peer_lease=Duration(HOUR), primary=SLOWEST, backup=FASTEST)
def test_a_promise_outlasts_the_lease_that_it_gives(
    peer_lease: Duration, primary: int, backup: int
) -> None:
    timing = Timing(peer_lease=peer_lease)
    # Both from the question, which is the earliest instant at which the promise can begin.
    lease = timing.lease_end(Instant(0))

    assert true_time(lease, primary) <= true_time(timing.grace, backup)


@given(ttl=durations, node=drifts)
@example(ttl=Duration(HOUR), node=SLOWEST)
def test_a_session_gives_authority_for_less_than_the_coordinator_keeps_it(
    ttl: Duration, node: int
) -> None:
    end = Timing(session=ttl).session_end(Instant(0))

    assert true_time(end, node) <= ttl


@pytest.mark.parametrize("seconds", [2, 60, 3_600])
def test_each_side_gives_two_percent_away_by_itself(seconds: int) -> None:
    duration = Duration(seconds * SECOND)
    timing = Timing(peer_lease=duration, session=duration)

    assert timing.lease_end(Instant(0)) <= duration * 98 // 100
    assert timing.grace >= duration * 102 // 100
    assert timing.session_end(Instant(0)) < duration * 98 // 100


# -- the waits of a backup -------------------------------------------------------------------------


def test_a_backup_waits_for_the_whole_of_its_promise() -> None:
    cluster = Cluster()
    cluster.sleep(10 * SECOND)
    cluster.tick("a")
    cluster.deliver(Append)
    cluster.end_session("a")
    cluster.see("b", "c")

    cluster.sleep(TIMING.grace - 1)
    cluster.tick("b")

    assert not cluster.member("b").swaps

    cluster.sleep(1)
    cluster.tick("b")

    assert cluster.member("b").swaps


def test_a_node_that_was_just_restarted_waits_as_long_as_for_a_promise() -> None:
    cluster = Cluster()
    cluster.end_session("a")
    cluster.sleep(60 * SECOND)
    cluster.restart("b")
    cluster.see("b")

    cluster.sleep(TIMING.grace - 1)
    cluster.tick("b")

    assert not cluster.member("b").swaps

    cluster.sleep(1)
    cluster.tick("b")

    assert cluster.member("b").swaps


# -- the leases of a primary -----------------------------------------------------------------------


def primary_by_leases() -> Cluster:
    """Return a cluster whose primary has no session, and acts by its backups' leases."""
    cluster = Cluster()
    cluster.lose_session("a")
    cluster.see("b", "c")
    cluster.sleep(10 * SECOND)
    return cluster


def ask_for_leases(cluster: Cluster) -> None:
    cluster.tick("a")
    cluster.deliver(Append)


@pytest.mark.parametrize(("after", "expected"), [(LEASE - 1, True), (LEASE, False)])
def test_a_primary_stops_at_the_end_of_the_shortened_lease(after: int, expected: bool) -> None:
    cluster = primary_by_leases()
    ask_for_leases(cluster)
    cluster.deliver(Appended)

    cluster.sleep(after)

    assert cluster.has_authority("a") is expected
    assert TIMING.peer_lease > LEASE


def test_an_answer_that_was_overtaken_shortens_no_lease() -> None:
    cluster = primary_by_leases()
    ask_for_leases(cluster)
    late = [envelope for envelope in cluster.in_flight if envelope.sender == B]
    cluster.in_flight.clear()
    cluster.sleep(SECOND)
    ask_for_leases(cluster)
    cluster.deliver(Appended)

    for envelope in late:
        cluster.hand(envelope)
    cluster.sleep(LEASE - TICK)

    assert late
    assert cluster.has_authority("a")
