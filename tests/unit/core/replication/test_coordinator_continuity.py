"""Loss of the coordinator's state: its detection, and a replica's refusals after it (R31)."""

import pytest
from msgspec.structs import replace

from rota.core.model.ids import AllocationId, Epoch
from rota.core.replication.coordinator_continuity import AHEAD_MAX, CoordinatorContinuity
from rota.core.replication.local_copy import PutHeader, PutSeen
from rota.core.replication.messages import Appended
from rota.core.replication.primary import Copies
from rota.core.timing.instants import SECOND
from rota.core.vocabulary.shard_configuration import (
    GENERATION_BITS,
    Configuration,
    Swapped,
    first_epoch,
    generation_of,
)
from unit.core.replication.replicas import TICK, TIMING, A, B, C, Cluster, D


def later_than(configuration: Configuration, by: int = 1) -> Configuration:
    """Return *configuration* under a later epoch."""
    return replace(configuration, epoch=Epoch(configuration.epoch + by))


# -- generations -------------------------------------------------------------------------------


def test_a_generation_begins_above_every_epoch_of_the_one_before() -> None:
    last = Epoch((1 << GENERATION_BITS) - 1)

    assert generation_of(first_epoch(0)) == generation_of(last) == 0
    assert generation_of(first_epoch(1)) == 1
    assert first_epoch(0) == 1
    assert last < first_epoch(1)


# -- what was seen -----------------------------------------------------------------------------


def test_a_promise_is_written_after_the_configuration_that_it_was_given_under() -> None:
    cluster = Cluster()
    replica = cluster.replica("a")
    replica.take_ready()

    replica.learn(later_than(cluster.configuration), cluster.now)

    kinds = [type(write) for write in replica.take_ready().writes]
    assert kinds.index(PutSeen) < kinds.index(PutHeader)


def test_the_configuration_seen_last_is_known_in_the_next_life() -> None:
    cluster = Cluster()
    before = cluster.configuration
    cluster.force(later_than(before))
    cluster.see("b")
    cluster.replica("b").learn(before, cluster.now)

    cluster.restart("b")

    assert cluster.replica("b").seen == cluster.configuration
    assert cluster.replica("b").newest is None


def test_a_node_without_a_copy_keeps_what_it_saw_too() -> None:
    cluster = Cluster()

    cluster.restart("d")

    assert cluster.replica("d").copy.allocation is None
    assert cluster.replica("d").seen == cluster.configuration


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_generation_of_a_configuration_that_was_seen_is_known_also_in_the_next_life(
    is_restarted: bool,
) -> None:
    cluster = Cluster()
    cluster.force(replace(cluster.configuration, epoch=first_epoch(3)))
    cluster.see("b")
    if is_restarted:
        cluster.restart("b")

    assert cluster.member("b").continuity.generation == 3


def test_a_restarted_node_learns_nothing_older_than_what_it_had_seen() -> None:
    cluster = Cluster()
    before = cluster.configuration
    cluster.force(later_than(before, 4))
    cluster.see("b")
    cluster.restart("b")

    cluster.replica("b").learn(before, cluster.now)
    assert cluster.replica("b").newest is None

    cluster.replica("b").learn(cluster.configuration, cluster.now)
    assert cluster.replica("b").newest == cluster.configuration


def test_what_was_seen_before_is_not_written_again() -> None:
    cluster = Cluster()
    cluster.restart("b")

    cluster.replica("b").learn(cluster.configuration, cluster.now)

    assert cluster.replica("b").take_ready().writes == ()


def test_nothing_is_committed_without_a_copy_before_the_others_have_seen_that_it_is_left_out() -> (
    None
):
    cluster = Cluster()
    index = cluster.propose("a")
    cluster.deliver(to="b")
    cluster.deliver(to="a")
    cluster.in_flight.clear()
    before = cluster.configuration
    cluster.force(replace(later_than(before), sync=before.sync[:2]))

    cluster.see("a")
    assert cluster.committed("a") < index

    cluster.settle("ab")
    assert cluster.committed("a") == index
    assert cluster.replica("b").seen == cluster.configuration


def test_nor_before_the_primarys_disk_has_it() -> None:
    cluster = Cluster()
    index = cluster.propose("a")
    cluster.deliver(to="b")
    cluster.deliver(to="a")
    cluster.in_flight.clear()
    before = cluster.configuration
    cluster.force(replace(later_than(before), sync=before.sync[:2]))
    cluster.is_syncing = False

    cluster.see("a")
    cluster.see("b")
    cluster.sync("b")
    cluster.settle("ab")
    cluster.sync("b")
    cluster.settle("ab")
    assert cluster.committed("a") < index

    cluster.sync("a")
    assert cluster.committed("a") == index


def test_a_change_that_leaves_no_copy_out_holds_no_entry_back() -> None:
    cluster = Cluster()
    index = cluster.propose("a")
    cluster.deliver(to="bc")
    cluster.force(later_than(cluster.configuration))
    cluster.see("a")

    cluster.deliver(Appended, to="a")

    assert cluster.committed("a") == index


# -- evidence ----------------------------------------------------------------------------------


def lose_newest(cluster: Cluster) -> Configuration:
    """Have all nodes see a later configuration, of which the coordinator then has no trace."""
    before = cluster.configuration
    cluster.force(later_than(before, 4))
    cluster.see()
    cluster.settle()
    cluster.coordination.current = before
    return before


def lost(cluster: Cluster, name: str) -> int | None:
    """Return the generation that a node takes for lost."""
    return cluster.member(name).continuity.lost


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_view_with_less_than_was_seen_before_it_was_requested_shows_a_loss(
    is_restarted: bool, is_empty: bool
) -> None:
    cluster = Cluster()
    lose_newest(cluster)
    if is_empty:
        cluster.coordination.current = None
    if is_restarted:
        cluster.restart("b")

    cluster.see("b")

    assert lost(cluster, "b") == 0
    assert cluster.replica("b").is_frozen


def test_a_missing_configuration_shows_the_loss_of_its_own_generation_alone() -> None:
    cluster = Cluster()
    member = cluster.member("b")
    member.continuity.generation = 1  # Of another shard, which a recovery wrote.

    member.replica.compare(None, member.continuity.known())

    assert lost(cluster, "b") == 0


def test_a_view_that_was_requested_before_the_configuration_was_seen_shows_nothing() -> None:
    cluster = Cluster()
    before, member = cluster.configuration, cluster.member("b")
    known = member.continuity.known()
    member.replica.learn(later_than(before), cluster.now)

    member.replica.compare(before, known)

    assert lost(cluster, "b") is None


def test_news_of_an_older_configuration_shows_nothing_because_they_may_be_late() -> None:
    cluster = Cluster()
    before, member = cluster.configuration, cluster.member("b")
    member.replica.learn(later_than(before), cluster.now)

    member.replica.learn(before, cluster.now)

    assert lost(cluster, "b") is None


def test_a_refusal_by_an_older_configuration_than_the_expected_shows_a_loss() -> None:
    cluster = Cluster()
    cluster.force(later_than(cluster.configuration, 4))
    cluster.see("a")
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.tick("a")
    cluster.coordination.current = replace(cluster.configuration, epoch=Epoch(1))

    cluster.answer("a")

    assert lost(cluster, "a") == 0


def test_a_refusal_by_a_newer_configuration_shows_nothing() -> None:
    cluster = Cluster()
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.tick("a")
    cluster.coordination.current = later_than(cluster.configuration)

    cluster.answer("a")

    assert lost(cluster, "a") is None


def test_two_configurations_of_one_epoch_show_a_loss() -> None:
    cluster = Cluster()
    before = cluster.configuration

    cluster.replica("b").learn(replace(before, primary=C), cluster.now)

    assert lost(cluster, "b") == 0
    assert cluster.replica("b").newest == before


def test_a_lower_revision_shows_a_loss_once() -> None:
    continuity = CoordinatorContinuity(revision=7, generation=2, revision_generation=2)

    continuity.check_revision(6, 0, continuity.known())
    assert continuity.lost == 2
    continuity.generation = 3
    continuity.check_revision(6, 3, continuity.known())

    assert (continuity.lost, continuity.revision) == (2, 6)


def test_a_lower_revision_of_a_view_requested_before_a_higher_one_was_seen_shows_nothing() -> None:
    continuity = CoordinatorContinuity(revision=5)
    known = continuity.known()
    continuity.revision = 7

    continuity.check_revision(6, 0, known)

    assert (continuity.lost, continuity.revision) == (None, 7)


def test_a_lower_revision_after_a_recovery_shows_no_loss_of_the_generation_that_it_began() -> None:
    continuity = CoordinatorContinuity()
    continuity.check_revision(512, 0, continuity.known())
    continuity.generation = 1  # Learned by an answer, before the next view.

    continuity.check_revision(16, 1, continuity.known())

    assert (continuity.lost, continuity.revision, continuity.revision_generation) == (0, 16, 1)


def test_a_lower_revision_shows_the_loss_of_the_generation_of_the_higher_one() -> None:
    # The watch is ahead of the views: the next view has the revision that the news had.
    continuity = CoordinatorContinuity(revision=5, generation=2, revision_generation=0)
    continuity.raise_revision(9, 1)
    continuity.raise_revision(8, 3)
    assert (continuity.revision, continuity.revision_generation) == (9, 1)
    continuity.check_revision(9, 2, continuity.known())

    continuity.check_revision(7, 0, continuity.known())

    assert continuity.lost == 2


def test_the_word_of_a_member_counts_unless_its_generation_is_far_above_those_known() -> None:
    continuity = CoordinatorContinuity(generation=2)

    assert not continuity.accept_report(2 + AHEAD_MAX + 1, "b")
    assert continuity.lost is None
    assert continuity.accept_report(3, "b")
    assert continuity.accept_report(1, "c")
    assert continuity.lost == 3


def test_the_word_of_a_member_counts_from_the_highest_generation_that_is_known() -> None:
    continuity = CoordinatorContinuity(generation=2)

    assert continuity.accept_report(2 + AHEAD_MAX, "b")
    assert continuity.lost == 2 + AHEAD_MAX


# -- while it is lost --------------------------------------------------------------------------


def report_loss(cluster: Cluster, *names: str) -> None:
    """Inform some nodes, or all, that the coordinator lost generation 0."""
    for name in names or "abcd":
        cluster.member(name).continuity.lose(0, "a test")


def test_what_the_coordinator_has_of_a_lost_generation_is_not_learned() -> None:
    cluster = Cluster()
    before = cluster.configuration
    report_loss(cluster, "b")

    cluster.replica("b").learn(later_than(before), cluster.now)

    assert cluster.replica("b").newest == cluster.replica("b").seen == before


def test_a_restarted_node_learns_nothing_of_a_lost_generation_either() -> None:
    cluster = Cluster()
    report_loss(cluster, "b")
    cluster.restart("b")

    cluster.see("b")

    assert cluster.replica("b").newest is None
    assert cluster.replica("b").is_frozen


def test_a_running_primary_continues_by_its_leases_and_its_backups_follow_it() -> None:
    cluster = Cluster()
    report_loss(cluster)
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.see()

    cluster.pass_time(20 * SECOND)
    index = cluster.propose("a")
    cluster.settle()

    assert cluster.has_authority("a")
    assert cluster.committed("a") == index
    assert not any(cluster.member(name).swaps for name in "abcd")


def test_a_primary_acts_by_its_session_no_more_because_a_recovery_does_not_wait_for_it() -> None:
    cluster = Cluster()
    before = cluster.has_authority("a")
    report_loss(cluster)

    cluster.sleep(TIMING.peer_lease)

    assert before
    assert not cluster.has_authority("a")


def test_a_single_copy_acts_by_its_session_because_no_other_can_be_primary() -> None:
    cluster = Cluster(copies=Copies(wanted=1, least=1), sync="a")
    report_loss(cluster)

    cluster.sleep(60 * SECOND)

    assert cluster.has_authority("a")


def test_no_backup_takes_over_after_a_loss() -> None:
    cluster = Cluster()
    report_loss(cluster, "b", "c")
    cluster.end_session("a")
    cluster.see("b", "c")

    cluster.pass_time(60 * SECOND, among="bc")

    assert cluster.configuration.primary == A
    assert not cluster.member("b").swaps
    assert not cluster.replica("b").is_candidate


def test_a_named_primary_without_its_copy_does_not_resign() -> None:
    cluster = Cluster()
    cluster.member("a").disk.wipe()
    cluster.restart("a")
    cluster.force(
        replace(cluster.configuration, primary_session=cluster.member("a").liveness.session)
    )
    cluster.see("a")
    report_loss(cluster, "a")

    cluster.tick("a")

    assert not cluster.member("a").swaps


def test_a_primary_does_not_hand_over_and_admits_work() -> None:
    cluster = Cluster()
    cluster.see()
    cluster.targets = (B, A, C)
    report_loss(cluster)

    for _ in range(50):
        cluster.pass_time(TICK)
        assert cluster.replica("a").is_admitting(cluster.now)

    assert cluster.configuration.primary == A


def test_a_primary_does_not_wait_for_a_copy_that_cannot_be_added() -> None:
    cluster = Cluster()
    cluster.see()
    cluster.targets = (A, B, D)
    report_loss(cluster)
    cluster.pass_time(4 * SECOND)  # So d has everything, and would be waited for.

    index = cluster.propose("a")
    cluster.settle("abc")

    assert cluster.committed("a") == index


def test_a_handover_that_began_is_given_up() -> None:
    cluster = Cluster()
    cluster.see()
    cluster.targets = (B, A, C)
    cluster.pass_time(4 * SECOND)
    cluster.targets = (A, B, C)
    cluster.pass_time(4 * SECOND)
    cluster.targets = (B, A, C)
    cluster.propose("a")
    while not cluster.replica("a").is_handing_over:
        cluster.sleep(TICK)
        cluster.tick("a")
    report_loss(cluster)

    cluster.deliver(to="bc")
    cluster.deliver(to="a")

    cluster.tick("a")
    assert cluster.replica("a").is_admitting(cluster.now)
    assert not cluster.primary("a").has_stepped_down
    assert not cluster.member("a").swaps


def propose_handover(cluster: Cluster) -> Configuration:
    """Have a request a handover to b; return the configuration that the coordinator had before."""
    before = cluster.configuration
    cluster.force(later_than(before, 4))
    cluster.see()
    cluster.settle()
    cluster.targets = (B, A, C)
    while not cluster.member("a").swaps:
        cluster.sleep(TICK)
        cluster.tick()
        cluster.settle()
    return before


def test_a_primary_continues_whose_handover_is_refused_by_a_coordinator_that_lost_its_state() -> (
    None
):
    cluster = Cluster()
    cluster.coordination.current = propose_handover(cluster)

    cluster.answer("a")
    cluster.settle()

    assert lost(cluster, "a") == 0
    assert cluster.has_authority("a")
    cluster.sleep(TIMING.peer_lease)
    assert not cluster.has_authority("a")


def test_a_primary_whose_handover_may_have_happened_waits_for_the_recovery() -> None:
    cluster = Cluster()
    propose_handover(cluster)
    cluster.lose_answer("a", is_done=False)
    report_loss(cluster)

    cluster.pass_time(20 * SECOND)
    assert not cluster.has_authority("a")

    cluster.force(replace(cluster.configuration, epoch=first_epoch(1)))
    cluster.see()
    cluster.settle()
    assert cluster.has_authority("a")


def test_a_shard_is_not_founded_under_a_lost_generation() -> None:
    cluster = Cluster()
    cluster.coordination.current = None
    cluster.member("d").disk.wipe()
    cluster.restart("d")
    report_loss(cluster, "d")

    cluster.replica("d").found(AllocationId("first"))
    cluster.turn("d")
    cluster.tick("d")

    assert cluster.replica("d").copy.allocation is None
    assert not cluster.member("d").swaps


def test_after_a_recovery_a_shard_is_founded_under_its_generation() -> None:
    cluster = Cluster(copies=Copies(wanted=1, least=1))
    cluster.coordination.current = None
    cluster.member("d").disk.wipe()
    cluster.restart("d")
    report_loss(cluster, "d")
    cluster.member("d").continuity.generation = 1

    cluster.replica("d").found(AllocationId("first"))
    cluster.turn("d")
    cluster.tick("d")
    cluster.answer("d")

    assert cluster.configuration.epoch == first_epoch(1)
    assert cluster.replica("d").is_active


def test_a_shard_that_was_seen_is_not_founded_again() -> None:
    cluster = Cluster()

    cluster.restart("d")
    cluster.replica("d").found(AllocationId("again"))

    assert cluster.replica("d").copy.allocation is None


def test_a_configuration_of_a_later_generation_is_followed_and_late_reports_are_not() -> None:
    cluster = Cluster()
    before = cluster.configuration
    report_loss(cluster)
    recovered = replace(before, epoch=first_epoch(1))
    cluster.force(recovered)

    cluster.see()
    cluster.settle()
    cluster.replica("b").learn(later_than(before, 9), cluster.now)
    index = cluster.propose("a")
    cluster.settle()

    assert not any(cluster.replica(name).is_frozen for name in "abcd")
    assert cluster.committed("a") == index
    assert cluster.replica("b").newest == recovered
    assert lost(cluster, "b") == 0


def test_a_swap_that_was_done_before_the_loss_was_known_counts_until_a_recovery() -> None:
    cluster = Cluster()
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.tick("a")
    (swap,) = cluster.member("a").swaps
    report_loss(cluster, "a")

    cluster.replica("a").answered(swap, Swapped(is_done=True, current=swap.fresh), cluster.now)

    assert swap in cluster.primary("a").changes
