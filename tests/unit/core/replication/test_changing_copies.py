"""Creation of copies, changes of the counted copies, handover of a shard (R22 to R27)."""

from msgspec.structs import replace

from rota.core.model.ids import AllocationId, Epoch, Index
from rota.core.replication.messages import (
    Append,
    Appended,
    Holding,
    Message,
    Part,
    PartTaken,
    Query,
    QuietMessage,
    Succeed,
)
from rota.core.replication.primary import Copies
from rota.core.replication.reconfiguration import HANDOVER_PAUSE
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.shard_configuration import Configuration
from unit.core.replication.replicas import TICK, TIMING, A, B, C, Cluster, D, Envelope


def full(cluster: Cluster, count: int = 10) -> None:
    """Put some rows, enough for a snapshot of several parts, and trim the journal before them."""
    for number in range(count):
        cluster.propose("a", f"k{number}", b"%d" % number)
        cluster.settle()
    image = cluster.member("a").disk.now
    image.before_first = image.tip_at(image.applied)
    image.entries.clear()
    cluster.replica("a").copy.trimmed(image.before_first)


def want(cluster: Cluster, names: str) -> None:
    """Have the ring assign copies to some nodes, the primary first."""
    cluster.targets = tuple(cluster.member(name).id for name in names)


def has_lost(cluster: Cluster, name: str) -> None:
    """Have a node lose its disk."""
    cluster.member(name).disk.wipe()
    cluster.start(name)
    cluster.see(name)


def holds_nothing(cluster: Cluster) -> Holding:
    """Return the answer of a node without a copy to a query that is sent now."""
    return Holding(
        epoch=Epoch(1),
        allocation=None,
        committed=Index(0),
        since=cluster.now,
        sent_at=cluster.now,
    )


def a_part(
    cluster: Cluster,
    allocation: str,
    *,
    replaces: str | None,
    since: Instant,
    number: int = 0,
    is_last: bool = True,
) -> Part:
    """Return a part without rows, sent now by the primary a."""
    return Part(
        configuration=cluster.configuration,
        allocation=AllocationId(allocation),
        replaces=AllocationId(replaces) if replaces else None,
        since=since,
        number=number,
        base=cluster.replica("a").copy.base(),
        rows=(),
        is_last=is_last,
        sent_at=cluster.now,
    )


# -- removing ----------------------------------------------------------------------------------


def test_a_silent_backup_counts_no_longer() -> None:
    cluster = Cluster()

    cluster.pass_time(3 * SECOND, among="ab")

    assert cluster.configuration.members == (A, B)


def test_no_backup_is_removed_because_the_primary_itself_was_paused() -> None:
    cluster = Cluster()

    cluster.sleep(60 * SECOND)
    cluster.tick("a")

    assert not cluster.member("a").swaps


def test_the_last_copies_are_not_removed() -> None:
    cluster = Cluster(sync="ab")

    cluster.pass_time(10 * SECOND, among="a")

    assert cluster.configuration.members == (A, B)


def test_a_backup_that_lost_its_copy_counts_no_longer() -> None:
    cluster = Cluster()
    has_lost(cluster, "c")

    cluster.tick("a")
    cluster.settle()
    cluster.sleep(TIMING.beat)
    cluster.tick("a")
    cluster.settle()
    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.members == (A, B)


def test_a_backup_whose_disk_was_set_back_counts_again_only_when_it_has_everything() -> None:
    cluster = Cluster()
    before = cluster.member("b").disk.durable.copy()
    cluster.propose("a")
    cluster.settle()
    disk = cluster.member("b").disk
    disk.durable, disk.now = before.copy(), before.copy()
    cluster.start("b")

    counted: list[bool] = []
    for _ in range(40):
        cluster.pass_time(100_000)
        counted.append(B in cluster.configuration.members)

    assert not all(counted)
    assert counted[-1]
    assert cluster.replica("b").copy.tip == cluster.replica("a").copy.tip


def test_entries_for_another_copy_are_not_taken() -> None:
    cluster = Cluster()
    cluster.propose("a")
    (sent,) = (each for each in cluster.in_flight if each.receiver == B)
    assert isinstance(sent.message, Append)
    misdirected = replace(sent.message, allocation=AllocationId("another"))
    before = cluster.replica("b").copy.tip

    cluster.hand(Envelope(A, B, misdirected))

    assert cluster.replica("b").copy.tip == before


# -- learners ----------------------------------------------------------------------------------


def test_a_copy_is_made_from_a_snapshot_and_the_entries_after_it() -> None:
    cluster = Cluster(sync="ab")
    full(cluster)
    want(cluster, "abd")

    cluster.pass_time(3 * SECOND)
    cluster.propose("a", "after", b"1")
    cluster.pass_time(1 * SECOND)

    assert cluster.configuration.members == (A, B, D)
    assert cluster.member("d").disk.now.rows == cluster.member("a").disk.now.rows
    assert len(cluster.member("d").disk.now.rows) == 11


def test_a_snapshot_begins_where_its_rows_are_though_more_is_committed() -> None:
    cluster = Cluster(sync="ab")
    full(cluster)
    before = cluster.committed("a")
    copy = cluster.replica("a").copy
    index = cluster.replica("a").propose(b"", copy.shard_time(cluster.now), cluster.now)
    copy.take_writes()
    copy.commit(index)

    assert copy.base().index == before


def test_a_node_that_is_near_needs_no_snapshot() -> None:
    cluster = Cluster()
    cluster.pass_time(3 * SECOND, among="ab")
    cluster.propose("a")
    cluster.settle("ab")

    sent: list[Message | QuietMessage] = []
    for _ in range(20):
        cluster.sleep(100_000)
        cluster.tick()
        cluster.answer()
        while found := cluster.deliver():
            sent += found

    assert cluster.configuration.members == (A, B, C)
    assert not [message for message in sent if isinstance(message, Part)]


def test_a_part_that_was_not_answered_is_sent_again() -> None:
    cluster = Cluster(sync="ab")
    full(cluster)
    want(cluster, "abd")
    cluster.tick("a")
    cluster.deliver(to="d")
    cluster.deliver(Holding)
    cluster.in_flight.clear()

    cluster.pass_time(4 * SECOND)

    assert cluster.configuration.members == (A, B, D)


def test_a_part_that_comes_twice_changes_nothing() -> None:
    cluster = Cluster(sync="ab")
    full(cluster)
    want(cluster, "abd")
    cluster.tick("a")
    cluster.deliver(to="d")
    cluster.deliver(Holding)
    (first,) = (envelope for envelope in cluster.in_flight if isinstance(envelope.message, Part))
    cluster.settle()

    cluster.hand(first)
    cluster.pass_time(2 * SECOND)

    assert len(cluster.member("d").disk.now.rows) == 10


def test_a_part_is_not_acknowledged_while_one_before_it_is_missing() -> None:
    cluster = Cluster(sync="ab")
    born_at = cluster.member("d").liveness.born_at
    parts = [
        a_part(cluster, "new", replaces=None, since=born_at, number=number, is_last=number == 2)
        for number in range(3)
    ]
    cluster.hand(Envelope(A, D, parts[0]))
    cluster.in_flight.clear()

    cluster.hand(Envelope(A, D, parts[2]))

    assert not cluster.in_flight
    assert cluster.replica("d").copy.allocation is None
    cluster.hand(Envelope(A, D, parts[1]))
    cluster.hand(Envelope(A, D, parts[2]))
    assert cluster.replica("d").copy.allocation == AllocationId("new")


def test_a_part_that_comes_once_more_makes_no_copy_on_a_disk_that_was_lost_meanwhile() -> None:
    cluster = Cluster(sync="ab")
    want(cluster, "abd")
    cluster.tick("a")
    (query,) = (envelope for envelope in cluster.in_flight if isinstance(envelope.message, Query))
    cluster.deliver(Query)
    cluster.deliver(Holding)
    (part,) = (envelope for envelope in cluster.in_flight if isinstance(envelope.message, Part))
    cluster.pass_time(1 * SECOND)
    assert D in cluster.configuration.members
    cluster.member("d").disk.wipe()
    cluster.start("d")

    cluster.hand(query)
    cluster.hand(part)

    assert cluster.replica("d").copy.allocation is None


def test_a_part_of_a_copy_that_was_given_up_does_not_restore_it() -> None:
    cluster = Cluster(sync="ab")
    born_at = cluster.member("d").liveness.born_at
    first = a_part(cluster, "first", replaces=None, since=born_at)
    cluster.sleep(1)
    began_at = cluster.now
    cluster.hand(Envelope(A, D, first))
    cluster.sleep(1)
    second = a_part(cluster, "second", replaces="first", since=began_at, is_last=False)
    cluster.hand(Envelope(A, D, second))

    cluster.hand(Envelope(A, D, first))
    cluster.hand(Envelope(A, D, replace(second, number=1, is_last=True)))

    assert cluster.replica("d").copy.allocation == "second"


def test_a_copy_that_was_given_up_answers_no_more() -> None:
    cluster = Cluster(sync="ab")
    born_at = cluster.member("d").liveness.born_at
    cluster.sleep(1)
    began_at = cluster.now
    cluster.hand(Envelope(A, D, a_part(cluster, "first", replaces=None, since=born_at)))
    cluster.in_flight.clear()
    cluster.propose("a")
    (entry,) = (
        envelope.message for envelope in cluster.in_flight if isinstance(envelope.message, Append)
    )
    cluster.is_syncing = False
    cluster.hand(Envelope(A, D, replace(entry, allocation=AllocationId("first"))))
    assert cluster.replica("d").copy.tip.index == entry.previous + 1

    cluster.hand(Envelope(A, D, a_part(cluster, "second", replaces="first", since=began_at)))
    cluster.sync("d")

    answers = [envelope.message for envelope in cluster.in_flight if envelope.sender == D]
    assert [type(answer) for answer in answers] == [PartTaken]


def test_a_learner_that_is_restarted_while_it_is_filled_is_filled_again_at_once() -> None:
    cluster = Cluster(sync="ab")
    full(cluster)
    want(cluster, "abd")
    cluster.tick("a")
    cluster.deliver(Query)
    cluster.deliver(Holding)
    cluster.deliver(Part)
    cluster.sleep(1)
    cluster.restart("d")

    cluster.pass_time(2 * SECOND)

    assert cluster.configuration.members == (A, B, D)


def test_a_copy_that_counts_is_not_given_up_for_a_snapshot() -> None:
    cluster = Cluster()
    born_at = cluster.member("b").liveness.born_at

    cluster.hand(Envelope(A, B, a_part(cluster, "new", replaces="b1", since=born_at)))

    assert cluster.replica("b").copy.allocation == "b1"


def test_a_learner_that_was_proposed_is_not_given_up_for_an_answer_that_came_late() -> None:
    cluster = Cluster(sync="ab")
    want(cluster, "abc")
    while not cluster.member("a").swaps:
        cluster.sleep(100_000)
        cluster.tick()
        cluster.settle()
    allocation = cluster.primary("a").learners[C].allocation
    holding = holds_nothing(cluster)

    cluster.sleep(1)
    late = holds_nothing(cluster)
    cluster.hand(Envelope(C, A, holding))
    cluster.hand(Envelope(C, A, late))

    assert cluster.primary("a").learners[C].allocation == allocation


def test_an_answer_that_was_overtaken_does_not_make_a_copy_count_as_lost() -> None:
    cluster = Cluster()
    late = holds_nothing(cluster)
    cluster.pass_time(1 * SECOND)

    cluster.hand(Envelope(B, A, late))

    assert not cluster.primary("a").peers[B].is_broken


def test_a_learner_that_is_always_a_little_behind_is_waited_for() -> None:
    cluster = Cluster(sync="ab")
    want(cluster, "abd")
    cluster.pass_time(100_000)
    held: list[Envelope] = []
    for _ in range(30):
        cluster.sleep(100_000)
        cluster.propose("a")
        behind, held = held, [envelope for envelope in cluster.in_flight if envelope.receiver == D]
        cluster.in_flight = [envelope for envelope in cluster.in_flight if envelope.receiver != D]
        while cluster.deliver(to="ab"):
            pass
        for envelope in behind:
            cluster.hand(envelope)
        cluster.deliver(Appended, PartTaken, Holding)
        cluster.tick("a")
        cluster.answer("a")

    assert cluster.configuration.members == (A, B, D)


def test_while_taking_over_a_learner_needs_all_that_an_earlier_primary_may_have_committed() -> None:
    cluster = Cluster(sync="ab")
    index = cluster.propose("a")
    cluster.deliver(Append, to="b")
    cluster.deliver(Appended)
    assert cluster.committed("a") == index
    cluster.in_flight.clear()
    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.answer("b")
    primary = cluster.primary("b")

    assert cluster.committed("b") < index
    assert primary.perhaps_committed == index


def test_a_dead_copy_is_swapped_for_a_learner_before_the_takeover_is_committed() -> None:
    cluster = Cluster(sync="ab")
    index = cluster.propose("a")
    cluster.settle("ab")
    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    want(cluster, "bd")

    cluster.pass_time(5 * SECOND, among="bd")

    assert cluster.configuration.members == (B, D)
    assert cluster.has_authority("b")
    assert cluster.replica("d").copy.tip.index > index


def test_a_copy_whose_process_was_seen_to_end_is_taken_out_at_once() -> None:
    cluster = Cluster()
    session = cluster.end_session("c")
    cluster.see()
    liveness = cluster.member("a").liveness
    liveness.saw_death(C, session, cluster.now, grace=TIMING.grace)

    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.members == (A, B)


def test_a_copy_whose_process_was_seen_to_end_does_not_come_again_while_it_is_dead() -> None:
    cluster = Cluster()
    cluster.propose("a")
    cluster.settle()
    liveness = cluster.member("a").liveness
    liveness.saw_death(C, cluster.end_session("c"), cluster.now, grace=TIMING.grace)
    cluster.see("a")

    cluster.pass_time(5 * SECOND, among="ab")

    assert cluster.configuration.members == (A, B)
    assert cluster.configuration.epoch == 2  # One change, and none after it.


def test_a_copy_of_a_restarted_node_is_not_taken_out_for_the_death_of_the_previous_process() -> (
    None
):
    cluster = Cluster()
    session = cluster.end_session("c")
    cluster.restart("c")
    cluster.see()
    liveness = cluster.member("a").liveness
    liveness.saw_death(C, session, cluster.now, grace=TIMING.grace)

    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.members == (A, B, C)


def test_a_session_that_is_over_proves_no_death_of_a_copy() -> None:
    cluster = Cluster()
    cluster.end_session("c")
    cluster.see()

    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.members == (A, B, C)


def test_no_other_copies_count_before_the_new_primarys_epoch_is_durable() -> None:
    cluster = Cluster(sync="ab")
    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.is_syncing = False
    cluster.tick("b")
    cluster.answer("b")
    want(cluster, "bd")

    for _ in range(20):
        cluster.pass_time(100_000, among="bd")
        cluster.sync("d")
        cluster.settle("bd")

    assert cluster.configuration.members == (A, B)

    cluster.is_syncing = True
    cluster.sync("b")
    cluster.pass_time(3 * SECOND, among="bd")

    assert cluster.configuration.members == (B, D)


def test_a_superfluous_copy_is_removed_only_after_its_replacement_counts() -> None:
    cluster = Cluster(Copies(wanted=3, least=2))
    want(cluster, "abd")
    sizes: list[int] = []
    configurations: list[Configuration] = []
    for _ in range(50):
        cluster.pass_time(100_000)
        sizes.append(len(cluster.configuration.sync))
        configurations.append(cluster.configuration)

    assert min(sizes) == 3
    assert configurations[-1].members == (A, B, D)


def test_all_is_kept_that_a_learner_still_needs() -> None:
    cluster = Cluster(sync="ab")
    full(cluster)
    base = cluster.committed("a")
    want(cluster, "abd")
    cluster.tick("a")
    cluster.deliver(to="d")
    cluster.deliver(Holding)
    cluster.propose("a")
    cluster.deliver(to="b")
    cluster.deliver(Appended)

    assert cluster.committed("a") == base + 1
    assert cluster.replica("a").needed_from == base + 1


def test_a_node_that_founds_again_does_so_with_the_copy_it_had() -> None:
    cluster = Cluster()
    cluster.coordination.current = None
    cluster.member("d").disk.wipe()  # It saw that the shard has copies.
    cluster.restart("d")
    cluster.replica("d").found(AllocationId("first"))
    cluster.turn("d")
    cluster.tick("d")
    (swap,) = cluster.member("d").swaps
    cluster.restart("d")

    cluster.replica("d").found(AllocationId("second"))

    assert swap.fresh.allocation_of(D) == "first"
    assert cluster.replica("d").copy.allocation == "first"


def test_a_shard_that_has_a_configuration_is_not_founded() -> None:
    cluster = Cluster()

    cluster.replica("d").found(AllocationId("another"))

    assert cluster.replica("d").copy.allocation is None


# -- handing over ------------------------------------------------------------------------------


def test_the_primary_hands_over_to_the_preferred_node() -> None:
    cluster = Cluster()
    cluster.see()
    want(cluster, "bac")

    cluster.pass_time(7 * SECOND)

    assert cluster.configuration.primary == B
    assert cluster.configuration.members == (A, B, C)
    assert cluster.has_authority("b")
    assert not cluster.has_authority("a")


def test_the_preferred_node_becomes_primary_a_little_after_its_copy_counts() -> None:
    cluster = Cluster(sync="ac")
    cluster.pass_time(6 * SECOND)
    want(cluster, "bac")
    while B not in cluster.configuration.members:
        cluster.pass_time(TICK)

    cluster.pass_time(TIMING.settled - TICK)
    assert cluster.configuration.primary == A
    cluster.pass_time(3 * TICK)
    assert cluster.configuration.primary == B


def test_while_handing_over_nothing_is_admitted_and_then_again_if_it_fails() -> None:
    cluster = Cluster()
    cluster.see()
    want(cluster, "bac")
    cluster.pass_time(HANDOVER_PAUSE * TIMING.handover - 2 * TICK)
    cluster.propose("a")
    while cluster.primary("a").handover is None:
        cluster.sleep(100_000)
        cluster.tick("a")
    cluster.in_flight.clear()

    assert not cluster.replica("a").is_admitting(cluster.now)

    cluster.sleep(TIMING.handover)
    cluster.tick("a")

    assert cluster.replica("a").is_admitting(cluster.now)


def test_a_primary_that_proposed_a_handover_does_not_act_until_it_is_confirmed_as_primary() -> None:
    cluster = Cluster()
    cluster.see()
    want(cluster, "bac")
    while not cluster.member("a").swaps:
        cluster.sleep(100_000)
        cluster.tick("a")
        cluster.settle()
    cluster.lose_answer("a", is_done=False)

    assert not cluster.has_authority("a")

    cluster.tick("a")
    cluster.answer("a")

    assert cluster.has_authority("a")


def test_the_successor_gets_a_notice_of_the_handover() -> None:
    cluster = Cluster()
    cluster.see()
    want(cluster, "bac")
    while not cluster.member("a").swaps:
        cluster.sleep(100_000)
        cluster.tick("a")
        cluster.settle()

    cluster.answer("a")
    notices = cluster.deliver(Succeed)
    cluster.settle()

    assert len(notices) == 1
    assert cluster.has_authority("b")


def test_a_copy_on_a_drained_node_goes_without_another_while_enough_remain() -> None:
    cluster = Cluster()
    cluster.see()
    want(cluster, "ab")

    cluster.pass_time(2 * SECOND)

    assert cluster.configuration.members == (A, B)

    want(cluster, "a")
    cluster.pass_time(2 * SECOND)

    assert cluster.configuration.members == (A, B)


def test_a_copy_on_a_drained_node_stays_until_the_assigned_copies_count() -> None:
    cluster = Cluster(Copies(wanted=4, least=2))
    cluster.see()
    want(cluster, "abd")
    cluster.pass_time(2 * SECOND, among="abc")

    assert cluster.configuration.members == (A, B, C)

    cluster.pass_time(5 * SECOND)

    assert cluster.configuration.members == (A, B, D)
