"""Authority of a primary and its end; the earliest time of a takeover (R2 to R6, R14 to R18)."""

from msgspec.structs import replace

from rota.core.model.ids import Epoch, Session
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.backup import Promises
from rota.core.replication.messages import Append, Appended, Fenced, Query
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later
from rota.core.vocabulary.shard_configuration import NO_SESSION, Swapped
from unit.core.replication.replicas import TIMING, A, B, Cluster, D, Envelope

LEASE = TIMING.lease_end(Cluster().now) - Cluster().now


def only_leases(cluster: Cluster) -> None:
    """End a's session, so that its authority comes from the leases of its backups alone."""
    cluster.lose_session("a")
    cluster.see("b", "c")


# -- authority ---------------------------------------------------------------------------------


def test_a_session_is_enough_to_act() -> None:
    cluster = Cluster()

    cluster.sleep(60 * SECOND)

    assert cluster.has_authority("a")


def test_a_session_that_is_not_the_configurations_is_not_enough() -> None:
    cluster = Cluster()
    cluster.lose_session("a")
    cluster.begin_session("a")

    cluster.sleep(60 * SECOND)

    assert not cluster.has_authority("a")


def test_without_a_session_every_backups_lease_is_needed() -> None:
    cluster = Cluster()
    only_leases(cluster)
    cluster.pass_time(1 * SECOND)
    assert cluster.has_authority("a")

    cluster.sleep(LEASE - 500 * MILLISECOND)
    cluster.tick("a")
    cluster.deliver(Append, to="b")
    cluster.deliver(Appended)
    cluster.sleep(1 * SECOND)

    assert not cluster.has_authority("a")


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    cluster = Cluster()
    only_leases(cluster)
    cluster.sleep(10 * SECOND)
    cluster.tick("a")
    cluster.deliver(Append)

    cluster.sleep(LEASE)
    cluster.deliver(Appended)

    assert not cluster.has_authority("a")


def test_a_primary_that_was_paused_may_not_act() -> None:
    cluster = Cluster()
    cluster.member("a").liveness.session_end = later(cluster.now, Duration(5 * SECOND))

    cluster.sleep(20 * SECOND)

    assert not cluster.has_authority("a")
    assert not cluster.replica("a").is_admitting(cluster.now)


def test_a_primary_may_not_act_before_its_takeover_is_committed() -> None:
    cluster = Cluster()
    cluster.end_session("a")
    cluster.see("b", "c")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.answer("b")

    assert cluster.primary("b").configuration.primary == B
    assert not cluster.has_authority("b")

    cluster.settle("bc")

    assert cluster.has_authority("b")


# -- epochs ------------------------------------------------------------------------------------


def promise_5(cluster: Cluster) -> None:
    """Have b promise epoch 5, which the coordinator has given."""
    cluster.force(replace(cluster.configuration, epoch=Epoch(5)))
    query = Query(epoch=Epoch(5), sent_at=cluster.now)
    cluster.hand(Envelope(A, B, query))


def test_a_lower_epoch_is_fenced() -> None:
    cluster = Cluster()
    cluster.propose("a")
    (late,) = (envelope for envelope in cluster.in_flight if envelope.receiver == B)
    cluster.in_flight.clear()
    promise_5(cluster)
    cluster.in_flight.clear()

    cluster.hand(late)

    assert [envelope.message for envelope in cluster.in_flight] == [Fenced(epoch=Epoch(5))]


def test_a_promised_epoch_is_durable_before_anyone_is_answered() -> None:
    cluster = Cluster()
    cluster.is_syncing = False

    promise_5(cluster)

    assert not cluster.in_flight

    cluster.sync("b")

    assert cluster.in_flight
    assert cluster.member("b").disk.durable.epoch == 5


def test_an_answer_that_waited_for_the_disk_is_not_given_under_an_older_epoch() -> None:
    cluster = Cluster()
    cluster.is_syncing = False
    cluster.propose("a")
    cluster.deliver(Append, to="b")
    promise_5(cluster)
    cluster.in_flight.clear()

    cluster.sync("b")

    assert not [
        envelope for envelope in cluster.in_flight if isinstance(envelope.message, Appended)
    ]


def test_a_primary_that_stepped_down_does_not_begin_again_under_its_epoch() -> None:
    cluster = Cluster()
    before, session_b = cluster.configuration, cluster.member("b").liveness.session
    cluster.force(replace(before, epoch=Epoch(5), primary=B, primary_session=session_b))
    cluster.see("a")

    cluster.replica("a").learn(before, cluster.now)
    cluster.pass_time(5 * SECOND, among="a")

    assert cluster.replica("a").primary is None


def test_a_configuration_below_the_promised_epoch_makes_no_primary() -> None:
    """It was read late: since then another node has been primary, and this node has obeyed it."""
    cluster = Cluster()
    before, session_b = cluster.configuration, cluster.member("b").liveness.session
    cluster.force(replace(before, epoch=Epoch(5), primary=B, primary_session=session_b))
    cluster.hand(Envelope(B, A, Query(epoch=Epoch(5), sent_at=cluster.now)))
    cluster.member("a").disk.durable.seen = before  # Otherwise it refuses older ones.
    cluster.restart("a")
    session = cluster.member("a").liveness.session
    cluster.coordination.current = replace(before, epoch=Epoch(2), primary_session=session)

    cluster.see("a")
    cluster.tick("a")

    assert cluster.replica("a").primary is None
    assert cluster.replica("a").epoch == 5


def test_a_coordinator_behind_the_epoch_promised_before_a_restart_freezes_the_shard() -> None:
    cluster = Cluster()
    before = cluster.configuration
    promise_5(cluster)
    cluster.member("b").disk.durable.seen = before  # Earlier versions stored none.
    cluster.restart("b")
    cluster.coordination.current = before

    cluster.see("b")
    assert cluster.replica("b").is_frozen
    assert not cluster.replica("b").is_lost

    cluster.force(replace(before, epoch=Epoch(6)))
    cluster.see("b")
    assert not cluster.replica("b").is_frozen


# -- taking over -------------------------------------------------------------------------------


def test_no_backup_takes_over_while_the_session_lives() -> None:
    cluster = Cluster()
    cluster.see()

    cluster.pass_time(60 * SECOND, among="bc")

    assert cluster.configuration.primary == A


def test_no_backup_takes_over_before_its_promise_has_expired() -> None:
    cluster = Cluster()
    cluster.pass_time(1 * SECOND)
    cluster.end_session("a")
    cluster.see("b", "c")

    cluster.pass_time(LEASE - 500 * MILLISECOND, among="bc")

    assert cluster.configuration.primary == A

    cluster.pass_time(1 * SECOND, among="bc")

    assert cluster.configuration.primary == B
    assert cluster.has_authority("b")


def test_the_proof_that_a_process_is_dead_ends_the_promise_to_it() -> None:
    cluster = Cluster()
    cluster.sleep(5 * SECOND)
    cluster.tick("a")
    cluster.settle()
    session = cluster.end_session("a")
    cluster.see("b", "c")
    for name in "bc":
        liveness = cluster.member(name).liveness
        liveness.saw_death(A, session, cluster.now, grace=TIMING.grace)

    cluster.tick("b", "c")
    cluster.answer()

    assert cluster.configuration.primary == B


def test_the_proof_that_a_process_is_dead_says_nothing_of_another_life() -> None:
    cluster = Cluster()
    session = cluster.end_session("a")
    cluster.begin_session("a")
    cluster.see()
    cluster.pass_time(5 * SECOND, among="abc")
    for name in "bc":
        liveness = cluster.member(name).liveness
        liveness.saw_death(A, session, cluster.now, grace=TIMING.grace)
    cluster.end_session("a")
    cluster.see("b", "c")

    cluster.tick("b", "c")
    cluster.answer()

    assert cluster.configuration.primary == A


def test_proofs_of_death_are_kept_as_long_as_promises_last_and_do_not_pile_up() -> None:
    liveness = Liveness(B, born_at=Instant(0))
    deaths = [Session(f"s{number}") for number in range(100)]

    for number, session in enumerate(deaths):
        now = Instant(number * TIMING.grace // 2)
        liveness.saw_death(A, session, now, grace=TIMING.grace)

    assert [session for _, session in liveness.dead] == deaths[-2:]


def test_a_restarted_node_waits_as_long_as_for_the_promises_of_its_previous_process() -> None:
    cluster = Cluster()
    cluster.end_session("a")
    cluster.sleep(60 * SECOND)
    cluster.restart("b")
    cluster.see("b")

    cluster.pass_time(TIMING.grace - 200 * MILLISECOND, among="b")

    assert cluster.configuration.primary == A

    cluster.pass_time(1 * SECOND, among="b")

    assert cluster.configuration.primary == B


def test_the_second_backup_waits_a_little_for_the_first() -> None:
    cluster = Cluster()
    cluster.end_session("a")
    cluster.see("b", "c")
    cluster.sleep(10 * SECOND)

    cluster.tick("b", "c")

    assert cluster.member("b").swaps
    assert not cluster.member("c").swaps

    cluster.sleep(TIMING.takeover_step)
    cluster.tick("c")

    assert cluster.member("c").swaps


def test_a_promise_under_the_primarys_previous_session_allows_no_takeover() -> None:
    """The new session ends at once, and the primary still acts by leases of the old one."""
    cluster = Cluster()
    cluster.sleep(10 * SECOND)
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.tick("a")
    cluster.deliver(Append)
    cluster.deliver(Appended)
    cluster.lose_answer("a", is_done=True)
    cluster.end_session("a")
    cluster.see("b", "c")

    cluster.tick("b", "c")
    cluster.answer("b", "c")

    assert cluster.has_authority("a")
    assert cluster.configuration.primary == A


def test_every_promise_counts_not_only_the_last() -> None:
    promises = Promises()
    promises.give(A, Session("first"), Instant(20))
    promises.give(A, Session("second"), Instant(10))

    assert not promises.have_run_out(Instant(15), dead=())
    assert promises.have_run_out(Instant(15), dead={(A, Session("first"))})
    assert promises.have_run_out(Instant(20), dead=())


def test_a_new_primary_that_was_restarted_waits_for_the_lease_given_after_the_restart() -> None:
    """B takes over, is restarted before the answer arrives, and then gives a lease to a again."""
    cluster = Cluster()
    only_leases(cluster)
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.lose_answer("b", is_done=True)
    cluster.restart("b")
    cluster.sleep(1 * SECOND)
    cluster.tick("a")
    cluster.settle("abc")
    assert cluster.has_authority("a")

    cluster.see("b")
    cluster.pass_time(LEASE - 300 * MILLISECOND, among="bc")

    assert not cluster.has_authority("b")

    cluster.pass_time(1 * SECOND, among="bc")

    assert cluster.has_authority("b")
    assert not cluster.has_authority("a")


def test_a_new_primary_that_was_restarted_twice_waits_for_the_lease_given_in_between() -> None:
    """As above, but b is restarted once more and has no record of the lease that it gave to a."""
    cluster = Cluster()
    only_leases(cluster)
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.lose_answer("b", is_done=True)
    cluster.restart("b")
    cluster.tick("a")
    cluster.settle("abc")
    cluster.sleep(300 * MILLISECOND)
    cluster.restart("b")
    cluster.see("b")

    cluster.pass_time(500 * MILLISECOND, among="bc")
    assert cluster.has_authority("a")
    assert not cluster.has_authority("b")

    cluster.pass_time(3 * SECOND, among="bc")
    assert cluster.has_authority("b")
    assert not cluster.has_authority("a")


def test_a_restarted_primary_whose_epoch_was_durable_does_not_wait() -> None:
    cluster = Cluster()
    cluster.restart("a")
    cluster.see("a")

    cluster.pass_time(300 * MILLISECOND)

    assert cluster.has_authority("a")


def test_a_candidate_whose_takeover_was_refused_for_certain_gives_leases_again() -> None:
    cluster = Cluster()
    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.begin_session("a")
    was_candidate = cluster.replica("b").is_candidate

    # The coordinator did not carry it out, and cannot be reached now.
    (swap,) = cluster.member("b").swaps
    refused = Swapped(is_done=False, current=swap.expected)
    cluster.replica("b").answered(swap, refused, cluster.now)
    cluster.tick("a")
    cluster.deliver(Append, to="b")
    (answer,) = cluster.deliver(Appended, of="b")

    assert was_candidate
    assert not cluster.replica("b").is_candidate
    assert isinstance(answer, Appended)
    assert answer.gives_lease


def test_a_view_is_read_after_a_request_whose_outcome_is_unknown() -> None:
    cluster = Cluster()
    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    (swap,) = cluster.member("b").swaps

    cluster.replica("b").answered(swap, None, cluster.now)

    assert cluster.replica("b").take_ready().wants_view


def test_a_node_without_a_session_requests_no_change() -> None:
    cluster = Cluster()
    cluster.targets = (A, B, D)
    cluster.lose_session("a")

    for _ in range(20):
        cluster.sleep(SECOND)
        cluster.tick("a")
        cluster.settle("abd")

    assert cluster.member("a").swaps == []


def test_a_candidate_gives_no_time_and_the_primary_makes_its_takeover_impossible() -> None:
    cluster = Cluster()
    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.lose_answer("b", is_done=False)
    assert cluster.replica("b").is_candidate
    cluster.begin_session("a")
    cluster.see("a")

    cluster.tick("a")
    cluster.deliver(Append, to="b")
    (answer,) = cluster.deliver(Appended, of="b")
    cluster.answer("a")
    cluster.tick("a")
    cluster.answer("a")
    cluster.settle("abc")

    assert isinstance(answer, Appended)
    assert not answer.gives_lease
    assert cluster.configuration.epoch > 1
    assert not cluster.replica("b").is_candidate


def test_a_refused_lease_makes_another_configuration_though_nothing_else_needs_one() -> None:
    cluster = Cluster()
    session = cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.lose_answer("b", is_done=False)
    cluster.coordination.begin_session(A, cluster.now, session)  # B's view was wrong.
    cluster.see("a")
    cluster.tick("a")
    assert not cluster.member("a").swaps

    cluster.deliver(Append, to="b")
    cluster.deliver(Appended, of="b")
    cluster.tick("a")
    cluster.answer("a")
    cluster.settle("abc")

    assert cluster.configuration.epoch == 2
    assert cluster.configuration.primary == A
    assert not cluster.replica("b").is_candidate


def test_no_lease_given_under_an_older_epoch_makes_no_other_configuration() -> None:
    cluster = Cluster()
    late = Appended(
        epoch=Epoch(1),
        allocation=cluster.primary("a").peers[B].allocation,
        match=cluster.committed("b"),
        gives_lease=False,
        sent_at=cluster.now,
    )
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.tick("a")
    cluster.answer("a")
    cluster.settle("abc")

    cluster.replica("a").receive(late, B, cluster.now)
    cluster.tick("a")

    assert not cluster.member("a").swaps


def test_a_change_of_unknown_outcome_is_settled_by_another_change() -> None:
    cluster = Cluster()
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.tick("a")
    cluster.lose_answer("a", is_done=False)
    assert cluster.primary("a").changes
    cluster.see()

    assert cluster.primary("a").changes

    cluster.tick("a")
    cluster.answer("a")

    assert not cluster.primary("a").changes
    assert cluster.configuration.epoch == 2


def test_a_restarted_primary_begins_under_a_new_epoch() -> None:
    cluster = Cluster()
    cluster.propose("a")
    cluster.settle()

    cluster.restart("a")
    cluster.see()
    cluster.tick("a")
    cluster.answer("a")
    cluster.settle("abc")

    assert cluster.configuration.epoch == 2
    assert cluster.configuration.primary == A
    assert cluster.has_authority("a")


def test_a_node_named_for_a_copy_that_it_lost_resigns() -> None:
    cluster = Cluster()
    cluster.member("a").disk.wipe()
    session = cluster.member("a").liveness.session
    cluster.start("a")
    cluster.coordination.begin_session(A, cluster.now, session)
    cluster.member("a").liveness.session = session
    cluster.see()

    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.primary_session == NO_SESSION

    cluster.see()
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.answer("b")

    assert cluster.configuration.primary == B


def test_two_copies_that_are_left_keep_the_dead_one_until_there_is_another() -> None:
    cluster = Cluster(sync="ab")
    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)

    cluster.tick("b")
    cluster.answer("b")

    assert cluster.configuration.primary == B
    assert cluster.configuration.members == (A, B)


def test_a_coordinator_behind_the_promised_epoch_gets_no_requests() -> None:
    cluster = Cluster()
    before = cluster.configuration
    cluster.lose_session("a")
    cluster.begin_session("a")
    cluster.tick("a")
    cluster.answer("a")
    cluster.settle("abc")
    cluster.coordination.current = before
    cluster.lose_session("a")
    cluster.begin_session("a")

    cluster.tick("a")
    (answer,) = cluster.answer("a")
    cluster.tick("a")

    assert answer == Swapped(is_done=False, current=before)
    assert cluster.replica("a").is_frozen
    assert not cluster.member("a").swaps
