"""A primary whose disk was set back: other copies detect it and keep their entries (R8)."""

import copy

import pytest
from msgspec.structs import replace

from rota.core.model.ids import AllocationId, Epoch, Index
from rota.core.replication.local_copy import Diverged
from rota.core.replication.messages import Append, Holding, Mismatch, Part, Query
from rota.core.timing.instants import SECOND
from unit.core.replication.replicas import TIMING, A, B, C, Cluster, D, Envelope


def set_back(name: str, count: int = 5) -> Cluster:
    """Return a cluster that committed entries after which a copy's disk is set back."""
    cluster = Cluster()
    disk = cluster.member(name).disk
    before = copy.deepcopy((disk.now, disk.durable))
    for number in range(count):
        cluster.propose("a", value=b"%d" % number)
        cluster.settle()
    cluster.pass_time(SECOND)
    cluster.end_session("a")
    disk.now, disk.durable = before
    cluster.restart(name)
    cluster.see("b", "c")
    return cluster


def test_a_backup_refuses_a_primary_that_has_another_committed_entry_and_keeps_its_own() -> None:
    cluster = set_back("b")
    committed, disk = cluster.committed("c"), cluster.member("c").disk
    had = dict(disk.durable.entries)

    with pytest.raises(Diverged, match=rf"entry \d+ .* up to {committed} are committed"):
        cluster.pass_time(10 * SECOND, among="bc")

    assert disk.durable.entries == had
    assert not cluster.has_authority("b")


def backup_set_back() -> Cluster:
    """Return a cluster in which b has begun again, its disk as it was before an entry."""
    cluster = Cluster()
    disk = cluster.member("b").disk
    before = disk.durable.copy()
    cluster.propose("a")
    cluster.settle()
    cluster.pass_time(SECOND)
    disk.durable, disk.now = before.copy(), before.copy()
    cluster.start("b")
    cluster.see()
    return cluster


def test_a_backup_that_was_set_back_counts_no_more_as_soon_as_it_has_answered() -> None:
    cluster = backup_set_back()

    counting: list[bool] = []
    for _ in range(20):
        cluster.pass_time(TIMING.beat // 20)
        counting.append(B in cluster.configuration.members)

    assert not all(counting)


def test_a_shard_is_not_handed_to_a_backup_that_was_set_back() -> None:
    cluster = backup_set_back()
    cluster.member("a").liveness.leaving_since = cluster.now

    cluster.pass_time(2 * TIMING.beat)

    assert cluster.configuration.primary == C


def test_a_handover_that_began_ends_when_the_successor_turns_out_to_be_set_back() -> None:
    cluster = Cluster()
    cluster.see()
    cluster.propose("a")
    cluster.settle()
    cluster.targets = (B, A, C)
    cluster.replica("a").set_postponed(has_postponed=True)
    while not cluster.replica("a").is_handing_over:
        cluster.pass_time(TIMING.beat)
    peer = cluster.primary("a").peers[B]
    had = peer.match

    lacks = Mismatch(
        epoch=cluster.configuration.epoch,
        allocation=peer.allocation,
        previous=had,
        last=Index(had - 1),
        committed=Index(had - 1),
        gives_lease=True,
        sent_at=cluster.now,
    )
    cluster.hand(Envelope(B, A, lacks))
    cluster.replica("a").set_postponed(has_postponed=False)
    cluster.turn("a")

    assert not cluster.member("a").swaps
    assert not cluster.primary("a").has_stepped_down


def test_the_entry_before_those_sent_is_compared_as_well() -> None:
    cluster = Cluster()
    index = cluster.propose("a")
    cluster.settle()
    cluster.pass_time(SECOND)
    beat = Append(
        configuration=cluster.configuration,
        allocation=AllocationId("b1"),
        previous=index,
        previous_hash=b"another!",
        entries=(),
        committed=index,
        sent_at=cluster.now,
    )

    with pytest.raises(Diverged):
        cluster.hand(Envelope(A, B, beat))


def test_entries_that_are_not_committed_are_still_cut_away() -> None:
    cluster = Cluster()
    cluster.propose("a")
    cluster.in_flight.clear()  # No other node has the entry.
    cluster.end_session("a")
    cluster.see("b", "c")
    cluster.pass_time(10 * SECOND, among="bc")
    cluster.see("a")
    cluster.pass_time(10 * SECOND)

    assert cluster.has_authority("b")
    assert cluster.committed("a") == cluster.committed("b")


def test_a_primary_does_not_overwrite_a_copy_that_has_more_committed_than_it_has_entries() -> None:
    cluster = Cluster()
    far, sent_at = Index(2**40), cluster.now
    one, epoch = Index(1), cluster.configuration.epoch
    answers = (
        Holding(epoch=epoch, allocation=AllocationId("d1"), committed=far, sent_at=sent_at),
        Mismatch(
            epoch=epoch,
            allocation=AllocationId("c1"),
            previous=one,
            last=far,
            committed=far,
            gives_lease=True,
            sent_at=sent_at,
        ),
    )
    cluster.targets = (A, B, C, D)
    cluster.tick("a")
    cluster.in_flight.clear()
    cluster.hand(Envelope(D, A, answers[0]))
    cluster.hand(Envelope(C, A, answers[1]))

    assert cluster.replica("a").refused == {"holding": 1, "mismatch": 1}
    assert not [envelope for envelope in cluster.in_flight if isinstance(envelope.message, Part)]


def test_a_snapshot_that_lacks_what_is_committed_here_replaces_nothing() -> None:
    cluster = Cluster()
    cluster.propose("a")
    cluster.settle()
    cluster.pass_time(SECOND)
    rest = tuple(each for each in cluster.configuration.sync if each.node_id != C)
    cluster.force(replace(cluster.configuration, epoch=Epoch(2), sync=rest))
    cluster.see("c")
    query = Query(epoch=Epoch(2), sent_at=cluster.now)
    cluster.hand(Envelope(A, C, query))
    [holding] = [each.message for each in cluster.in_flight if isinstance(each.message, Holding)]
    stale = Part(
        configuration=cluster.configuration,
        allocation=AllocationId("new"),
        replaces=holding.allocation,
        since=holding.since,
        number=0,
        base=replace(cluster.replica("a").copy.base(), index=Index(0)),
        rows=(),
        is_last=True,
        sent_at=cluster.now,
    )

    cluster.hand(Envelope(A, C, stale))
    assert cluster.replica("c").copy.allocation == AllocationId("c1")

    whole = replace(stale, base=cluster.replica("a").copy.base())
    cluster.hand(Envelope(A, C, whole))
    assert cluster.replica("c").copy.allocation == AllocationId("new")
