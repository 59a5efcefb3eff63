"""Limits of concurrent snapshots at sender and receiver; no room is ever lost (R23)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from rota.core.model.ids import Index
from rota.core.replication.local_copy import Rows
from rota.core.replication.messages import Holding, Part
from rota.core.replication.peer_copy import NEVER
from rota.core.replication.transfer_limits import (
    HANDING_OVER_MAX,
    SENDING_MAX,
    TAKING_MAX,
    TransferLimits,
)
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant
from sim.protocol.disk import Disk
from unit.core.replication.replicas import A, B, C, Cluster, D, Envelope

ROUND = Duration(100 * MILLISECOND)
LARGE, SMALL = 10, 2
"""Rows; the simulated disk reads three of them for a part."""


def shards(
    count: int,
    rows: int = LARGE,
    *,
    sharing: str = "",
    shared: Mapping[str, TransferLimits] | None = None,
) -> list[Cluster]:
    """Return shards that have copies on a and b and are to have one on d.

    Args:
        count: Number of shards.
        rows: Number of rows in each.
        sharing: Nodes whose limits all these shards share; other limits are per shard.
        shared: Limits, by node, that these shards share with others.
    """
    places = {name: TransferLimits() for name in sharing} | dict(shared or {})
    found = [
        Cluster(
            sync="ab", transfers={name: TransferLimits() for name in "abcd"} | places, seed=seed
        )
        for seed in range(count)
    ]
    for cluster in found:
        put(cluster, rows)
        cluster.targets = (A, B, D)
    return found


def put(cluster: Cluster, rows: int) -> None:
    """Put rows, and trim the journal, so that a new copy needs a snapshot."""
    for number in range(rows):
        cluster.propose("a", f"k{number}")
        cluster.settle()
    image = cluster.member("a").disk.now
    image.before_first = image.tip_at(image.applied)
    image.entries.clear()
    cluster.replica("a").copy.trimmed(image.before_first)


def rounds(
    clusters: Sequence[Cluster],
    count: int = 300,
    *,
    idle: Sequence[Cluster] = (),
    cut_off: str = "",
) -> Iterator[int]:
    """Deliver the messages in flight, in rounds; messages that they cause arrive a round later.

    Args:
        clusters: Shards of the same nodes, whose clocks agree.
        count: Largest number of rounds; the number of each round is yielded after it.
        idle: Members of *clusters* that get no ticks, answers and messages.
        cut_off: Nodes; all messages from and to them are lost.
    """
    for number in range(count):
        for cluster in clusters:
            cluster.sleep(ROUND)
            if cluster not in idle:
                cluster.tick()
                cluster.answer()
                cluster.in_flight = [
                    envelope
                    for envelope in cluster.in_flight
                    if envelope.receiver not in cut_off and envelope.sender not in cut_off
                ]
                cluster.deliver()
        yield number


def sending(clusters: Iterable[Cluster]) -> int:
    return sum(cluster.replica("a").sending_count for cluster in clusters)


def taking(clusters: Iterable[Cluster], name: str) -> int:
    return sum(cluster.replica(name).is_taking(cluster.now) for cluster in clusters)


def is_done(cluster: Cluster, *names: str) -> bool:
    """Return True if the copies on these nodes count and equal the primary's."""
    rows = cluster.member("a").disk.now.rows
    return all(
        name in cluster.configuration.members and cluster.member(name).disk.now.rows == rows
        for name in names
    )


def test_a_node_sends_two_snapshots_at_once_and_all_in_the_end() -> None:
    clusters = shards(6, sharing="a")
    for number, cluster in enumerate(clusters):
        cluster.targets = (A, B, C if number % 2 else D)

    most = max(sending(clusters) for _ in rounds(clusters))

    assert most == SENDING_MAX
    assert all(len(cluster.configuration.members) == 3 for cluster in clusters)


def test_a_node_takes_two_snapshots_at_once_and_all_in_the_end() -> None:
    clusters = shards(6, sharing="d")

    most = max(taking(clusters, "d") for _ in rounds(clusters))

    assert most == TAKING_MAX
    assert all(is_done(cluster, "d") for cluster in clusters)


def test_a_node_without_a_place_is_asked_now_and_then_and_sent_nothing() -> None:
    *busy, last = clusters = shards(3, sharing="d")
    assert any(taking(busy, "d") == TAKING_MAX for _ in rounds(clusters, idle=[last]))

    sent = [type(each.message) for _ in rounds(clusters, 40, idle=busy) for each in last.in_flight]

    assert 1 < sent.count(Holding) < 10
    assert Part not in sent


def test_a_node_without_room_to_send_sends_no_query() -> None:
    *busy, last = clusters = shards(3, sharing="a")
    assert any(sending(busy) == SENDING_MAX for _ in rounds(clusters, idle=[last]))

    sent = [type(each.message) for _ in rounds(clusters, 40, idle=busy) for each in last.in_flight]

    assert sent.count(Holding) == 1  # It might have needed no snapshot.
    assert Part not in sent


def test_a_shard_that_waits_for_room_to_send_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *busy, last = clusters = shards(3, sharing="d")
    assert any(taking(busy, "d") == TAKING_MAX for _ in rounds(clusters, idle=[last]))
    disk, read = last.member("a").disk, list[bytes | None]()

    def rows(after: bytes | None, size_max: int) -> Rows:
        read.append(after)
        return Disk.rows(disk, after, size_max)

    monkeypatch.setattr(disk, "rows", rows)
    list(rounds(clusters, 40, idle=busy))

    assert read == [None]


def test_what_fits_into_one_part_needs_no_place() -> None:
    large = shards(2, sharing="ad")
    small = shards(6, SMALL, shared={name: large[0].member(name).transfers for name in "ad"})
    clusters = [*large, *small]
    assert any(taking(large, "d") == TAKING_MAX for _ in rounds(clusters, idle=small))

    list(rounds(clusters, 30, idle=large))

    assert sending(large) == taking(large, "d") == TAKING_MAX
    assert all(is_done(cluster, "d") for cluster in small)


def test_places_at_the_sender_come_back_from_a_receiver_that_died() -> None:
    *stuck, last = clusters = shards(3, sharing="a")
    last.targets = (A, B, C)
    assert any(sending(stuck) == SENDING_MAX for _ in rounds(clusters, idle=[last]))

    list(rounds(clusters, 200, cut_off="d"))

    assert is_done(last, "c")
    assert sending(clusters) == 0


def test_places_at_the_receiver_come_back_from_senders_that_died() -> None:
    *stuck, last = clusters = shards(3, sharing="d")
    assert any(taking(stuck, "d") == TAKING_MAX for _ in rounds(clusters, idle=[last]))

    list(rounds(clusters, 100, idle=stuck))

    assert is_done(last, "d")
    assert taking(clusters, "d") == 0


def test_a_primary_that_was_replaced_has_no_places() -> None:
    [cluster] = shards(1)
    assert any(sending([cluster]) == 1 for _ in rounds([cluster]))

    cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    cluster.answer("b")
    cluster.see("a")

    assert cluster.replica("a").primary is None
    assert sending([cluster]) == 0


def test_a_snapshot_that_lost_its_room_starts_again_as_another_copy() -> None:
    late, *others = clusters = shards(3, sharing="d")
    assert any(taking([late], "d") == 1 for _ in rounds(clusters, idle=others))
    allocation = late.primary("a").learners[D].allocation
    late.propose("a", "k0", b"newer")
    late.settle("ab")
    # Nothing of it arrives until it counts as given up, and others have the places.
    list(rounds(clusters, 51, idle=clusters))
    assert any(taking(others, "d") == TAKING_MAX for _ in rounds(clusters, idle=[late]))

    list(rounds(clusters, 12, idle=others))
    is_waiting = D not in late.primary("a").learners
    list(rounds(clusters))

    assert is_waiting
    assert all(is_done(cluster, "d") for cluster in clusters)
    assert late.configuration.allocation_of(D) != allocation


def test_a_refusal_that_was_overtaken_does_not_end_a_snapshot() -> None:
    [cluster] = shards(1)
    assert any(sending([cluster]) == 1 for _ in rounds([cluster]))
    snapshot = cluster.primary("a").learners[D].snapshot
    assert snapshot is not None
    overtaken = Holding(
        epoch=cluster.configuration.epoch,
        allocation=None,
        committed=Index(0),
        since=cluster.member("d").liveness.born_at,
        sent_at=Instant(snapshot.part.sent_at - 1),
        has_room=False,
    )

    cluster.hand(Envelope(D, A, overtaken))

    assert sending([cluster]) == 1


# -- handing over (R27) --------------------------------------------------------------------------


def giving_away(clusters: Iterable[Cluster]) -> int:
    return sum(cluster.replica("a").is_giving_away for cluster in clusters)


def to_be_handed_over(count: int) -> list[Cluster]:
    """Return shards of one node that are assigned to another."""
    place = TransferLimits()
    found = [Cluster(transfers=dict.fromkeys("abcd", place)) for _ in range(count)]
    for cluster in found:
        cluster.pass_time(6 * SECOND)  # A new primary keeps its shard for some time.
        cluster.targets = (B, A, C)
    return found


def hand_over(clusters: Sequence[Cluster], *, stuck: Sequence[Cluster] = ()) -> Iterator[int]:
    """Let time pass, and yield how many are under way; the coordinator answers none of *stuck*."""
    for _ in range(30):
        for cluster in clusters:
            cluster.sleep(ROUND)
            cluster.tick()
        yield giving_away(clusters)
        for cluster in clusters:
            if cluster not in stuck:
                cluster.answer()
                cluster.settle()


def test_for_balance_some_shards_are_handed_over_at_once_and_all_in_the_end() -> None:
    clusters = to_be_handed_over(3 * HANDING_OVER_MAX)

    assert max(hand_over(clusters)) == HANDING_OVER_MAX
    assert {cluster.configuration.primary for cluster in clusters} == {B}


def test_a_handover_that_is_done_or_came_to_nothing_gives_its_place_back() -> None:
    clusters = to_be_handed_over(3 * HANDING_OVER_MAX)
    stuck, rest = clusters[:HANDING_OVER_MAX], clusters[HANDING_OVER_MAX:]

    assert set(hand_over(clusters, stuck=stuck)) == {HANDING_OVER_MAX}
    assert {cluster.configuration.primary for cluster in rest} == {A}

    for cluster in stuck:
        cluster.lose_answer("a", is_done=False)
    assert max(hand_over(clusters)) == HANDING_OVER_MAX
    assert {cluster.configuration.primary for cluster in clusters} == {B}


def test_a_node_that_stops_hands_all_its_shards_over_at_once() -> None:
    clusters = to_be_handed_over(3 * HANDING_OVER_MAX)
    for cluster in clusters:
        cluster.member("a").liveness.leaving_since = NEVER

    assert next(hand_over(clusters)) == len(clusters)
