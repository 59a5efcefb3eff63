"""A node that is about to stop: handover of its shards, removal of its copies."""

from rota.core.replication.messages import Append, Appended
from rota.core.replication.peer_copy import NEVER
from rota.core.replication.primary import Copies
from rota.core.timing.instants import SECOND
from unit.core.replication.replicas import TIMING, A, B, C, Cluster, D


def leaving(*names: str, copies: Copies | None = None, sync: str = "abc") -> Cluster:
    """Return a cluster whose nodes are informed that some of them are about to stop."""
    cluster = Cluster(copies, sync)
    cluster.see()
    cluster.pass_time(SECOND)
    for name in names:
        own = cluster.member(name).liveness
        own.leaving_since = NEVER
        for other in "abcd":
            if other != name:
                cluster.member(other).liveness.unfit.add(own.node_id)
                cluster.member(other).liveness.leaving.add(own.node_id)
    return cluster


def test_its_shard_goes_to_the_next_in_line_and_its_copy_counts_no_more() -> None:
    cluster = leaving("a")

    cluster.tick("a")
    cluster.answer("a")
    cluster.settle()

    assert cluster.configuration.primary == B
    assert cluster.configuration.members == (B, C)
    assert cluster.has_authority("b")


def test_entries_from_before_the_handover_are_committed_first() -> None:
    cluster = leaving("a")
    index = cluster.propose("a")

    cluster.tick("a")
    before = list(cluster.member("a").swaps)
    cluster.deliver(Append, to="bc")
    cluster.deliver(Appended)
    # The handover does not wait for a tick, because work is refused until then.
    cluster.answer("a")

    assert before == []
    assert cluster.committed("a") == index
    assert cluster.configuration.primary == B


def test_a_node_without_a_session_gives_a_handover_up_and_continues_by_its_leases() -> None:
    cluster = leaving("a")
    cluster.propose("a")
    cluster.tick("a")

    cluster.lose_session("a")
    cluster.deliver(Append, to="bc")
    cluster.deliver(Appended)

    # It can request no change, so it would be closed until it has a session again.
    assert cluster.member("a").swaps == []
    assert cluster.has_authority("a")


def test_a_handover_that_waits_for_the_own_disk_ends_with_the_sync() -> None:
    cluster = leaving("a")
    cluster.is_syncing = False
    cluster.propose("a")
    cluster.deliver(Append, to="bc")
    for name in "bc":
        cluster.sync(name)
    cluster.deliver(Appended)
    cluster.tick("a")
    before = list(cluster.member("a").swaps)

    cluster.sync("a")
    cluster.answer("a")

    assert before == []
    assert cluster.configuration.primary == B


def test_a_shard_is_not_handed_over_before_committed_entries_are_answered_and_carried_out() -> None:
    cluster = leaving("a")
    cluster.propose("a")
    cluster.deliver(Append, to="bc")
    replica = cluster.replica("a")
    cluster.take_in("a")

    replica.tick(cluster.now, 0, cluster.targets)
    may_reply = replica.has_authority(cluster.now)
    cluster.turn("a")
    cluster.answer("a")

    assert may_reply
    assert cluster.configuration.primary == B


def test_an_entry_that_waits_for_an_ended_copy_is_committed_without_that_copy() -> None:
    cluster = leaving("a")
    index = cluster.propose("a")

    cluster.pass_time(TIMING.silence + 2 * TIMING.handover, among="ab")

    assert cluster.committed("a") >= index
    assert cluster.configuration.primary == B


def test_the_successor_of_a_leaving_node_has_answered_since_then() -> None:
    cluster = leaving("a")
    cluster.member("a").liveness.leaving_since = cluster.now

    cluster.pass_time(2 * TIMING.beat, among="ac")

    assert cluster.configuration.primary == C


def test_a_leaving_node_admits_work_until_the_handover() -> None:
    cluster = leaving("a")

    assert cluster.replica("a").is_admitting(cluster.now)
    assert cluster.has_authority("a")


def test_a_leaving_node_without_a_successor_continues() -> None:
    cluster = leaving("a", "b", "c")

    cluster.pass_time(5 * SECOND)

    assert cluster.configuration.primary == A
    assert cluster.replica("a").is_admitting(cluster.now)


def test_its_copy_of_anothers_shard_counts_no_more_while_enough_remain() -> None:
    cluster = leaving("c")

    cluster.tick("a")
    cluster.answer("a")

    assert cluster.configuration.members == (A, B)


def test_too_few_copies_are_not_left() -> None:
    cluster = leaving("b", copies=Copies(wanted=2, least=2), sync="ab")

    cluster.pass_time(5 * SECOND)

    assert cluster.configuration.members == (A, B)


def test_it_gets_no_copy_and_no_shard() -> None:
    cluster = leaving("d")
    cluster.targets = (D, A, B)

    cluster.pass_time(20 * SECOND)

    assert cluster.configuration.members == (A, B, C)
    assert cluster.configuration.primary == A


def test_back_again_it_counts_as_soon_as_it_has_what_it_missed() -> None:
    cluster = leaving("c")
    cluster.pass_time(SECOND)
    cluster.propose("a")
    cluster.settle("ab")
    before = list(cluster.configuration.members)
    cluster.restart("c")
    for name in "abd":
        cluster.member(name).liveness.leaving.discard(C)

    cluster.see()
    cluster.pass_time(5 * SECOND)

    assert before == [A, B]
    assert cluster.configuration.members == (A, B, C)
