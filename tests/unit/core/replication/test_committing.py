"""Commitment of entries, and the contents of answers (R7 to R13)."""

import msgspec
import pytest

from rota.core.model.ids import AllocationId, Epoch, Index
from rota.core.replication.messages import Append, Appended, Mismatch
from rota.core.replication.primary import WINDOW, WINDOW_BYTES, Copies
from rota.core.vocabulary.codec import encode_body
from rota.core.vocabulary.journal import EntryKind
from rota.core.vocabulary.shard_configuration import Copy
from unit.core.replication.replicas import B, Cluster, Envelope


def test_an_entry_is_committed_once_every_copy_that_counts_has_it() -> None:
    cluster = Cluster()
    index = cluster.propose("a")

    cluster.deliver(to="b")
    cluster.deliver(Appended)

    assert cluster.committed("a") == index - 1

    cluster.deliver(to="c")
    cluster.deliver(Appended)

    assert cluster.committed("a") == index


def test_an_entry_is_not_committed_before_it_is_durable_at_the_primary() -> None:
    cluster = Cluster()
    cluster.is_syncing = False
    index = cluster.propose("a")
    cluster.deliver(Append)
    cluster.sync("b")
    cluster.sync("c")
    cluster.deliver(Appended)

    assert cluster.committed("a") == index - 1

    cluster.sync("a")

    assert cluster.committed("a") == index


def test_a_backup_answers_only_when_what_it_got_is_durable() -> None:
    cluster = Cluster()
    cluster.is_syncing = False
    cluster.propose("a")

    cluster.deliver(Append, to="b")

    assert not [envelope for envelope in cluster.in_flight if envelope.sender == B]

    cluster.sync("b")

    assert [envelope for envelope in cluster.in_flight if envelope.sender == B]


def test_nothing_is_committed_with_fewer_copies_than_the_least() -> None:
    cluster = Cluster(Copies(wanted=3, least=2), sync="a")

    cluster.pass_time(3_000_000, among="a")

    assert not cluster.replica("a").is_active


def test_one_copy_is_enough_where_one_is_the_least() -> None:
    cluster = Cluster(Copies(wanted=1, least=1), sync="a")

    index = cluster.propose("a")

    assert cluster.committed("a") == index


def test_a_proposed_copy_has_to_have_what_is_committed_from_then_on() -> None:
    cluster = Cluster(sync="ab")
    cluster.targets = tuple(cluster.members[name].id for name in "abc")
    while not cluster.member("a").swaps:
        cluster.sleep(100_000)
        cluster.tick()
        cluster.settle()
    cluster.lose_answer("a", is_done=True)
    index = cluster.propose("a")

    cluster.settle("ab")

    assert cluster.committed("a") == index - 1
    assert Copy(
        cluster.members["c"].id, cluster.replica("c").copy.allocation or AllocationId("")
    ) in (cluster.configuration.sync)


def test_entries_that_do_not_follow_are_refused_and_then_sent_from_where_they_do() -> None:
    cluster = Cluster()
    cluster.propose("a")
    cluster.in_flight.clear()
    index = cluster.propose("a")

    cluster.deliver(Append, to="b")

    assert [type(envelope.message) for envelope in cluster.in_flight if envelope.sender == B] == [
        Mismatch
    ]

    cluster.settle()

    assert cluster.replica("b").copy.tip.index == index


def test_an_entry_that_was_damaged_on_its_way_is_sent_again() -> None:
    cluster = Cluster()
    index = cluster.propose("a")
    [sent] = [each for each in cluster.in_flight if each.receiver == B]
    cluster.in_flight.clear()
    assert isinstance(sent.message, Append)
    damaged = msgspec.structs.replace(
        sent.message, entries=tuple(entry[:-1] + b"?" for entry in sent.message.entries)
    )

    cluster.hand(Envelope(sent.sender, B, damaged))

    assert cluster.replica("b").copy.tip.index == index - 1

    cluster.settle()
    cluster.propose("a")
    cluster.settle()

    assert cluster.replica("b").copy.tip.index == index + 1
    assert cluster.committed("a") == index + 1


def test_a_refusal_that_was_overtaken_breaks_nothing() -> None:
    cluster = Cluster()
    cluster.propose("a")
    cluster.propose("a")
    first, second = (each for each in cluster.in_flight if each.receiver == B)
    cluster.in_flight.clear()
    cluster.hand(second)
    cluster.hand(first)
    refused, appended = cluster.in_flight
    cluster.in_flight.clear()

    cluster.hand(appended)
    cluster.hand(refused)

    assert not cluster.primary("a").peers[B].is_broken


def test_a_backup_that_lost_what_it_acknowledged_is_not_asked_again_and_again() -> None:
    cluster = Cluster()
    before = cluster.member("b").disk.durable.copy()
    for _ in range(3):
        cluster.propose("a")
        cluster.settle()
    disk = cluster.member("b").disk
    disk.durable, disk.now = before.copy(), before.copy()
    cluster.start("b")
    cluster.propose("a")

    sent = 0
    while cluster.in_flight:
        sent += len(cluster.deliver(to="ab", of="ab"))
        cluster.in_flight = [
            each for each in cluster.in_flight if B in (each.sender, each.receiver)
        ]

    assert sent <= 2


def test_what_an_earlier_primary_left_behind_is_cut_away() -> None:
    cluster = Cluster()
    cluster.propose("a", value=b"of a")
    cluster.deliver(Append, to="b")
    cluster.in_flight.clear()
    cluster.end_session("a")
    cluster.see("b", "c")
    cluster.sleep(3_000_000)
    cluster.pass_time(1_000_000, among="bc")
    cluster.settle("bc")

    entries = {
        name: [cluster.replica(name).copy.entry(Index(index)) for index in (1, 2)] for name in "bc"
    }

    assert cluster.replica("b").is_active or cluster.replica("c").is_active
    assert entries["b"] == entries["c"]


def test_the_window_closes_with_so_many_entries_and_opens_with_each_that_is_committed() -> None:
    cluster = Cluster()
    for _ in range(WINDOW):
        cluster.propose("a")

    assert not cluster.replica("a").is_admitting(cluster.now)

    cluster.settle()

    assert cluster.replica("a").is_admitting(cluster.now)


def test_the_window_of_bytes_opens_though_it_is_never_empty() -> None:
    cluster = Cluster()
    half = encode_body((), ((0, "key", bytes(WINDOW_BYTES // 2)),))
    replica = cluster.replica("a")
    for _ in range(2):
        replica.propose(half, replica.copy.shard_time(cluster.now), cluster.now)
        cluster.turn("a")
    assert not replica.is_admitting(cluster.now)
    on_the_way, cluster.in_flight = cluster.in_flight, []
    for envelope in on_the_way[:2]:
        cluster.hand(envelope)

    cluster.deliver(Appended)

    assert replica.copy.committed < replica.copy.tip.index
    assert replica.is_admitting(cluster.now)


def test_shard_time_only_grows() -> None:
    cluster = Cluster()
    copy = cluster.replica("a").copy
    at = copy.shard_time(cluster.now)
    cluster.replica("a").propose(b"", at, cluster.now, EntryKind.CHANGES)

    assert copy.shard_time(cluster.now) > at


@pytest.mark.parametrize("name", ["b", "c"])
def test_a_backup_learns_what_is_committed_with_the_next_message(name: str) -> None:
    cluster = Cluster()
    index = cluster.propose("a")
    cluster.settle()

    cluster.pass_time(1_000_000)

    assert cluster.committed(name) == index
    assert cluster.member(name).disk.now.rows == {b"key": b"value"}


def test_what_was_lost_for_want_of_a_link_goes_again_as_soon_as_there_is_one() -> None:
    cluster = Cluster()
    index = cluster.propose("a")
    cluster.in_flight = [
        envelope for envelope in cluster.in_flight if envelope.receiver != B
    ]  # No link to b.
    cluster.tick("a")
    before = [envelope for envelope in cluster.in_flight if envelope.receiver == B]

    cluster.replica("a").linked(B)
    cluster.tick("a")
    cluster.settle()

    assert not before
    assert cluster.committed("a") == index


# -- more than one term ----------------------------------------------------------------------------


def appoint(cluster: Cluster, name: str) -> None:
    """Have the coordinator name another primary, and all nodes read that configuration."""
    before, member = cluster.configuration, cluster.member(name)
    cluster.coordination.current = msgspec.structs.replace(
        before,
        epoch=Epoch(before.epoch + 1),
        primary=member.id,
        primary_session=member.liveness.session,
    )
    cluster.see()


def test_an_answer_to_an_earlier_term_of_the_same_primary_does_not_count() -> None:
    cluster = Cluster()
    for _ in range(9):
        cluster.propose("a")
    cluster.deliver(Append, to="b")
    late = [envelope for envelope in cluster.in_flight if isinstance(envelope.message, Appended)]
    cluster.in_flight.clear()  # C never got those entries, so b and a remove them.
    appoint(cluster, "c")
    cluster.settle()
    appoint(cluster, "a")
    cluster.settle()
    before = cluster.committed("a")
    for _ in range(20):
        cluster.propose("a")
    cluster.deliver(Append, to="c")
    cluster.deliver(Appended, of="c")
    cluster.in_flight.clear()  # B has none of the new entries.

    for envelope in late:
        cluster.hand(envelope)

    assert isinstance(late[-1].message, Appended)
    assert late[-1].message.match > before
    assert cluster.committed("a") == before


def test_a_backup_commits_no_more_than_what_it_has_compared() -> None:
    """Its entries after those may come from a primary that never committed them."""
    cluster = Cluster()
    for _ in range(3):
        cluster.propose("a", value=b"of a")
    cluster.deliver(Append, to="b")
    cluster.in_flight.clear()
    appoint(cluster, "c")
    for _ in range(3):
        cluster.propose("c", value=b"of c")
    first = next(envelope for envelope in cluster.in_flight if envelope.receiver == B)
    assert isinstance(first.message, Append)
    # Sent again with a full window: all entries are committed, and the message contains none.
    full = msgspec.structs.replace(
        first.message, entries=(), committed=cluster.replica("c").copy.tip.index
    )
    known = cluster.committed("b")

    cluster.hand(Envelope(first.sender, B, full))

    assert cluster.replica("b").copy.tip.index > known
    assert cluster.committed("b") == known
    assert cluster.member("b").disk.now.rows == {}
