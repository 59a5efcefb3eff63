"""An unfit primary, which is slow or has a wrong wall clock (R19, R20)."""

import msgspec
import pytest

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId
from rota.core.replication.authority.health_conditions import (
    LOOP_LAG_MAX,
    SYNC_TIME_MAX,
    WELL_AFTER,
    HealthCondition,
    HealthConditions,
)
from rota.core.replication.messages import Append, Appended, Beacon, Fenced
from rota.core.timing.instants import MILLISECOND, SECOND, Instant
from rota.core.vocabulary.shard_configuration import Swapped
from unit.core.replication.replicas import TIMING, A, B, C, Cluster

NOON = Instant(12 * 3_600 * SECOND)
SLOW = frozenset({HealthCondition.DISK})
WRONG = frozenset({HealthCondition.CLOCK})
FULL = frozenset({HealthCondition.SPACE})
SESSION = 2 * TIMING.grace


def make_unfit(cluster: Cluster, name: str, conditions: frozenset[HealthCondition]) -> None:
    """Make a node unfit, and have all nodes informed of it."""
    for member in cluster.members.values():
        if member.id == name:
            member.liveness.conditions = conditions
        else:
            member.liveness.unfit.add(NodeId(name))
            if HealthCondition.DISK in conditions:
                member.liveness.slow.add(NodeId(name))


def make_others_unfit(cluster: Cluster) -> None:
    """Leave no node that could take a's place."""
    cluster.member("a").liveness.unfit |= {B, C}


# -- health conditions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lag", "sync_time", "conditions"),
    [
        (LOOP_LAG_MAX, SYNC_TIME_MAX, set[HealthCondition]()),
        (LOOP_LAG_MAX + 1, 0, {HealthCondition.LOOP}),
        (0, SYNC_TIME_MAX + 1, {HealthCondition.DISK}),
        # News of the sync waited as long as the tick did.
        (LOOP_LAG_MAX + 1, SYNC_TIME_MAX + 1, {HealthCondition.LOOP}),
    ],
)
def test_a_node_that_is_slower_than_the_limits_has_a_health_condition(
    lag: int, sync_time: int, conditions: set[HealthCondition]
) -> None:
    found = HealthConditions()

    found.record_delays(lag=lag, sync_time=sync_time, now=NOON)

    assert found.at(NOON) == conditions


def test_a_health_condition_ends_when_it_has_not_been_observed_for_a_while() -> None:
    found = HealthConditions()
    found.record_delays(lag=SECOND, sync_time=0, now=NOON)
    found.record_delays(lag=0, sync_time=0, now=Instant(NOON + WELL_AFTER - 1))

    assert found.at(Instant(NOON + WELL_AFTER - 1)) == {HealthCondition.LOOP}
    assert not found.at(Instant(NOON + WELL_AFTER))


def test_a_wrong_clock_stays_wrong_while_no_verdict_is_possible() -> None:
    found = HealthConditions()
    found.record_clock(is_wrong=True, now=NOON)

    for seconds in range(60):
        found.record_clock(is_wrong=None, now=Instant(NOON + seconds * SECOND))
    later = Instant(NOON + 59 * SECOND + WELL_AFTER)
    between = found.at(Instant(later - 1))
    found.record_clock(is_wrong=False, now=later)

    assert between == {HealthCondition.CLOCK}
    assert not found.at(later)


def test_a_clock_without_a_verdict_counts_as_right() -> None:
    found = HealthConditions()

    found.record_clock(is_wrong=None, now=NOON)

    assert not found.at(NOON)


def test_low_disk_space_is_a_health_condition_until_there_has_been_enough_for_a_while() -> None:
    found = HealthConditions()
    found.record_space(is_low=True, now=NOON)
    found.record_space(is_low=False, now=Instant(NOON + WELL_AFTER - 1))

    assert found.at(Instant(NOON + WELL_AFTER - 1)) == FULL
    assert not found.at(Instant(NOON + WELL_AFTER))


# -- handing over ----------------------------------------------------------------------------------


@pytest.mark.parametrize("conditions", [SLOW, WRONG, FULL, frozenset({HealthCondition.LOOP})])
def test_an_unfit_primary_hands_over_to_the_first_that_is_fit(
    conditions: frozenset[HealthCondition],
) -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "a", conditions)
    cluster.member("a").liveness.unfit.add(B)

    cluster.pass_time(1 * SECOND)

    assert cluster.configuration.primary == C
    assert cluster.replica("c").is_active


def test_an_unfit_primary_leaves_repairs_to_its_successor() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "a", WRONG)
    cluster.primary("a").peers[C].is_broken = True

    cluster.tick("a")
    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.primary == B
    assert cluster.configuration.members == (A, B, C)


def test_an_unfit_primary_does_not_wait_for_its_own_disk() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "a", SLOW)
    cluster.is_syncing = False
    index = cluster.propose("a")
    cluster.deliver(Append)
    for name in "bc":
        cluster.sync(name)
    cluster.deliver(Appended)
    assert cluster.committed("a") < index

    cluster.tick("a")
    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.primary == B
    assert cluster.configuration.members == (B, C)  # Nor does the next one wait for it.
    cluster.is_syncing = True
    cluster.see("b", "c")
    cluster.pass_time(1 * SECOND, among="bc")
    assert cluster.committed("b") > index  # It was on b's disk, and is committed after all.


def test_an_unfit_primary_does_not_wait_long_for_its_successor() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    index = cluster.propose("a")
    cluster.in_flight.clear()
    make_unfit(cluster, "a", SLOW)
    before = cluster.committed("a")

    cluster.tick("a")
    cluster.sleep(TIMING.handover)
    cluster.tick("a")
    cluster.answer("a")
    cluster.settle("bc")

    assert cluster.configuration.primary == B
    assert (
        cluster.committed("a") == before < index
    )  # No client got an answer, so the entry may be lost.


def test_a_primary_whose_handover_was_refused_for_certain_is_primary_still() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "a", WRONG)
    cluster.tick("a")
    cluster.tick("a")
    (swap,) = cluster.member("a").swaps
    stepped_down = not cluster.has_authority("a")

    refusal = Swapped(is_done=False, current=cluster.configuration)
    cluster.replica("a").answered(swap, refusal, cluster.now)

    assert stepped_down
    assert cluster.has_authority("a")


def test_a_primary_whose_handover_has_an_unknown_outcome_has_no_authority() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "a", WRONG)
    cluster.tick("a")
    cluster.tick("a")
    cluster.lose_answer("a", is_done=False)
    cluster.tick("a")
    (bump,) = cluster.member("a").swaps

    refusal = Swapped(is_done=False, current=cluster.configuration)
    cluster.replica("a").answered(bump, refusal, cluster.now)

    assert not cluster.has_authority("a")


def test_a_shard_is_not_handed_back_to_a_node_that_is_unfit() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "a", SLOW)
    cluster.pass_time(1 * SECOND)
    assert cluster.configuration.primary == B

    cluster.pass_time(30 * SECOND)
    between = cluster.configuration.primary
    cluster.member("a").liveness.conditions = frozenset()
    for name in "bc":
        cluster.member(name).liveness.unfit.clear()
        cluster.member(name).liveness.slow.clear()
    cluster.pass_time(10 * SECOND)

    assert between == B
    assert cluster.configuration.primary == A


def test_a_backup_with_a_slow_disk_counts_no_more_until_it_is_well() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "c", SLOW)
    cluster.pass_time(10 * SECOND)
    between = cluster.configuration.members

    for name in "ab":
        cluster.member(name).liveness.slow.clear()
    cluster.pass_time(10 * SECOND)

    assert between == (A, B)
    assert cluster.configuration.members == (A, B, C)


@pytest.mark.parametrize("conditions", [WRONG, frozenset({HealthCondition.LOOP})])
def test_a_backup_counts_on_that_is_unfit_for_another_reason(
    conditions: frozenset[HealthCondition],
) -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)

    make_unfit(cluster, "c", conditions)
    cluster.pass_time(10 * SECOND)

    assert cluster.configuration.members == (A, B, C)


def test_a_slow_backup_counts_on_where_too_few_would_remain() -> None:
    cluster = Cluster(sync="ab")
    cluster.pass_time(1 * SECOND)

    make_unfit(cluster, "b", SLOW)
    cluster.pass_time(10 * SECOND)

    assert cluster.configuration.members == (A, B)


def test_a_slow_primary_takes_no_backup_out_for_being_slow() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    for name in "abc":
        make_unfit(cluster, name, SLOW)

    cluster.pass_time(10 * SECOND)

    assert cluster.configuration.members == (A, B, C)


def test_a_dead_backup_is_taken_out_before_a_slow_one() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    make_unfit(cluster, "b", SLOW)
    cluster.propose("a")  # The shard is no longer quiet.
    cluster.settle()
    cluster.primary("a").peers[C].heard_at = Instant(0)

    cluster.pass_time(5 * SECOND, among="ab")

    assert cluster.configuration.members == (A, B)


def test_an_unfit_node_takes_over_only_if_no_other_node_does() -> None:
    cluster = Cluster()
    cluster.sleep(10 * SECOND)
    make_unfit(cluster, "b", SLOW)
    cluster.end_session("a")
    cluster.see("b", "c")

    cluster.tick("b", "c")
    cluster.sleep(2 * TIMING.takeover_step - MILLISECOND)
    cluster.tick("b")
    asked_early = list(cluster.member("b").swaps)
    cluster.sleep(TIMING.takeover_step)
    cluster.tick("b")

    assert not asked_early
    assert cluster.member("b").swaps


# -- admission -------------------------------------------------------------------------------------


def test_a_slow_primary_admits_nothing_while_another_can_take_its_place() -> None:
    cluster = Cluster()

    make_unfit(cluster, "a", SLOW)

    assert cluster.has_authority("a")
    assert not cluster.replica("a").is_admitting(cluster.now)


def test_a_slow_primary_continues_where_no_node_can_take_its_place() -> None:
    cluster = Cluster()
    make_unfit(cluster, "a", SLOW)
    make_others_unfit(cluster)

    cluster.pass_time(10 * SECOND)

    assert cluster.configuration.primary == A
    assert cluster.replica("a").is_admitting(cluster.now)


def test_a_slow_primary_continues_while_the_coordinator_is_unreachable() -> None:
    cluster = Cluster()
    make_unfit(cluster, "a", SLOW)

    cluster.member("a").liveness.reaches_coordinator = False

    assert cluster.replica("a").is_admitting(cluster.now)


def test_a_primary_with_a_wrong_clock_admits_nothing_even_if_no_node_can_take_its_place() -> None:
    cluster = Cluster()
    make_unfit(cluster, "a", WRONG)
    make_others_unfit(cluster)

    cluster.pass_time(10 * SECOND)

    assert cluster.has_authority("a")
    assert not cluster.replica("a").is_admitting(cluster.now)


def test_a_fenced_primary_asks_for_no_time_beyond_its_session() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    liveness = cluster.member("a").liveness
    liveness.session_end = Instant(cluster.now + SESSION)
    make_unfit(cluster, "a", SLOW)

    last_at = cluster.now
    for _ in range(60):
        cluster.sleep(100 * MILLISECOND)
        cluster.tick("a")
        if any(isinstance(envelope.message, Append) for envelope in cluster.in_flight):
            last_at = cluster.now
        cluster.in_flight.clear()
        cluster.member("a").swaps.clear()

    assert last_at <= liveness.session_end - TIMING.grace


def test_a_fenced_primary_takes_no_node_for_dead_that_it_did_not_ask() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    liveness = cluster.member("a").liveness
    cluster.sleep(TIMING.silence)
    make_unfit(cluster, "a", SLOW)
    liveness.session_end = cluster.now

    for _ in range(60):
        cluster.sleep(100 * MILLISECOND)
        cluster.tick("a")
    liveness.conditions = frozenset()
    cluster.tick("a")

    assert not cluster.member("a").swaps


# -- on the wire -----------------------------------------------------------------------------------


class Earlier(msgspec.Struct, frozen=True, kw_only=True, tag="appended"):
    """An answer, as nodes of earlier versions declare it: without beacons."""

    epoch: Epoch
    allocation: AllocationId
    match: Index
    gives_lease: bool
    sent_at: Instant


def test_versions_with_and_without_beacons_decode_each_others_answers() -> None:
    fields = {"epoch": 1, "allocation": "a1", "match": 7, "gives_lease": True, "sent_at": 5}
    beacon = Beacon(wall=NOON, at=Instant(1), echo=None, is_fit=True)
    earlier = msgspec.convert(fields, Earlier)
    plain = msgspec.convert(fields, Appended)
    with_beacon = msgspec.structs.replace(plain, beacon=beacon)

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(with_beacon), type=Earlier) == earlier
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(earlier), type=Appended) == plain
    assert msgspec.msgpack.encode(plain) == msgspec.msgpack.encode(earlier)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(with_beacon), type=Appended) == with_beacon


def test_an_answer_that_waited_for_the_disk_does_not_go_to_a_primary_that_is_fenced_by_now() -> (
    None
):
    cluster = Cluster()
    cluster.see()
    cluster.settle()
    cluster.is_syncing = False
    cluster.propose("a")
    [asked, *_] = cluster.deliver(Append, to="b")
    assert isinstance(asked, Append)
    epoch = Epoch(asked.configuration.epoch + 1)
    newer = msgspec.structs.replace(asked.configuration, epoch=epoch, primary=C)
    cluster.replica("b").learn(newer, cluster.now)
    cluster.replica("b").copy.promise(epoch)
    cluster.in_flight.clear()

    cluster.sync("b")

    assert not [
        envelope for envelope in cluster.in_flight if isinstance(envelope.message, Appended)
    ]


def test_a_stale_primary_gets_the_newest_epoch_that_is_known_not_only_the_promised_one() -> None:
    cluster = Cluster()
    cluster.see()
    cluster.settle()
    cluster.propose("a")
    claim = next(each.message for each in cluster.in_flight if isinstance(each.message, Append))
    cluster.in_flight.clear()
    first = claim.configuration
    of_a, of_c = (
        msgspec.structs.replace(first, epoch=Epoch(first.epoch + number), primary=primary)
        for number, primary in ((1, A), (2, C))
    )
    replica = cluster.replica("b")
    replica.learn(of_c, cluster.now)

    replica.receive(msgspec.structs.replace(claim, configuration=of_a), A, cluster.now)

    assert replica.copy.epoch < of_a.epoch
    assert (A, Fenced(epoch=of_c.epoch)) in replica.take_ready().sends
