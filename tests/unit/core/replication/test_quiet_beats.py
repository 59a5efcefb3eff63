"""Shards without entries: one heartbeat for all that two nodes have in common (PROTOCOL R44)."""

from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.authority.health_conditions import HealthCondition
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.messages import (
    Append,
    Appended,
    Mismatch,
    QuietBeat,
    QuietCopy,
    QuietResponse,
)
from rota.core.replication.peer_copy import PeerCopy
from rota.core.replication.quiet_beats import QUIET_BEATS, UNANSWERED_MAX, QuietBeats
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.core.vocabulary.journal import EntryKind
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Copy
from unit.core.replication.replicas import SHARD, TICK, TIMING, A, B, C, Cluster, D, Envelope

UNTIL_QUIET = Duration((QUIET_BEATS + 2) * TIMING.beat)


def quiet() -> Cluster:
    """Return a cluster whose shard is quiet: a is its primary, b and c follow."""
    cluster = Cluster()
    cluster.pass_time(UNTIL_QUIET)
    assert cluster.primary("a").is_at_rest(cluster.now)
    return cluster


def sent_in(cluster: Cluster, duration: int) -> list[object]:
    """Let time pass for all nodes, and return the messages that they sent."""
    sent: list[object] = []
    end = cluster.now + duration
    while cluster.now < end:
        cluster.sleep(TICK)
        cluster.tick()
        while found := cluster.deliver():
            sent += found
    return sent


def next_beat(cluster: Cluster, to: str) -> QuietBeat:
    """Tick the primary until it sends a heartbeat to *to*, which stays in flight."""
    cluster.in_flight.clear()
    while True:
        cluster.sleep(TICK)
        cluster.tick("a")
        for envelope in cluster.in_flight:
            if isinstance(envelope.message, QuietBeat) and envelope.receiver == to:
                return envelope.message


# -- which shards are quiet ------------------------------------------------------------------------


def test_a_quiet_shard_has_no_heartbeats_of_its_own() -> None:
    cluster = quiet()

    sent = sent_in(cluster, 4 * TIMING.beat)

    assert {type(message) for message in sent} == {QuietBeat, QuietResponse}
    assert sum(isinstance(message, QuietBeat) for message in sent) == 2 * 4


def test_a_heartbeat_lists_the_copy_as_it_is() -> None:
    cluster = quiet()
    last = cluster.committed("a")

    beat = next_beat(cluster, "b")

    assert beat.session == cluster.member("a").liveness.session
    assert beat.copies == (QuietCopy(SHARD, Epoch(1), AllocationId("b1"), last),)


def test_a_new_entry_ends_the_quiet_and_is_sent_at_once() -> None:
    cluster = quiet()

    cluster.propose("a")
    sent = cluster.deliver()

    assert [type(message) for message in sent] == [Append, Append]
    assert cluster.member("a").quiet_beats.quiet_counts == {}
    cluster.settle()
    cluster.pass_time(UNTIL_QUIET)
    assert cluster.member("a").quiet_beats.quiet_counts == {B: 1, C: 1}


def test_a_busy_shard_is_not_quiet() -> None:
    cluster = Cluster()
    for _ in range(5):
        cluster.propose("a")
        cluster.settle()
        cluster.pass_time(TIMING.beat)

        assert cluster.member("a").quiet_beats.quiet_counts == {}


def test_a_copy_that_answers_and_lacks_an_entry_is_not_quiet() -> None:
    cluster = quiet()
    cluster.propose("a")
    for _ in range(4 * QUIET_BEATS):
        cluster.in_flight = [each for each in cluster.in_flight if not has_entries(each, to=C)]
        while cluster.deliver(to="bc") or cluster.deliver(Mismatch, Appended):
            cluster.in_flight = [each for each in cluster.in_flight if not has_entries(each, to=C)]
        cluster.sleep(TIMING.beat)
        cluster.tick("a")

    assert cluster.primary("a").peers[C].answered_to > cluster.primary("a").peers[C].woken_at
    assert C not in cluster.member("a").quiet_beats.quiet_counts


def has_entries(envelope: Envelope, *, to: NodeId) -> bool:
    """Return True if a message to *to* has entries."""
    message = envelope.message
    return envelope.receiver == to and isinstance(message, Append) and bool(message.entries)


def test_a_learner_is_not_quiet() -> None:
    cluster = Cluster()
    cluster.pass_time(2 * TICK)
    cluster.targets = (A, B, C, D)

    cluster.pass_time(3 * SECOND)

    assert D in cluster.primary("a").learners
    assert D not in cluster.member("a").quiet_beats.quiet_counts
    assert not cluster.primary("a").is_at_rest(cluster.now)


@pytest.mark.parametrize("reason", ["unfit", "leaving", "no session"])
def test_a_primary_that_must_limit_its_leases_sends_heartbeats_for_each_shard(reason: str) -> None:
    cluster = quiet()
    liveness = cluster.member("a").liveness
    match reason:
        case "unfit":
            liveness.record_conditions(frozenset({HealthCondition.CLOCK}))
        case "leaving":
            liveness.begin_leaving(cluster.now)
        case _:
            liveness.end_session()

    cluster.sleep(TIMING.beat)
    cluster.tick("a")

    assert cluster.member("a").quiet_beats.quiet_counts == {}
    assert not any(isinstance(each.message, QuietBeat) for each in cluster.in_flight)


def test_a_primary_that_is_replaced_sends_no_more_heartbeats_for_the_shard() -> None:
    cluster = quiet()
    current = cluster.configuration
    session = cluster.member("b").liveness.session
    fresh = replace(current, epoch=Epoch(2), primary=B, primary_session=session)
    cluster.force(fresh)

    cluster.see("a")

    assert cluster.member("a").quiet_beats.quiet_counts == {}


# -- leases ----------------------------------------------------------------------------------------


def test_a_quiet_primary_without_a_session_acts_by_leases_until_they_end() -> None:
    cluster = quiet()
    beat = next_beat(cluster, "b")
    asked_at = cluster.now
    cluster.deliver()
    cluster.deliver(QuietResponse)
    cluster.member("a").liveness.session_end = cluster.now

    cluster.sleep(TIMING.lease_end(asked_at) - 1 - cluster.now)
    is_acting = cluster.has_authority("a")
    cluster.sleep(1)

    assert is_acting
    assert beat.number > 0
    assert not cluster.has_authority("a")


def test_a_backup_keeps_the_promise_that_it_gave_to_a_quiet_primary() -> None:
    cluster = quiet()
    next_beat(cluster, "b")
    cluster.deliver(QuietBeat)
    cluster.end_session("a")
    cluster.see("b", "c")

    cluster.sleep(TIMING.grace - 1)
    cluster.tick("b")
    before = list(cluster.member("b").swaps)
    cluster.sleep(1)
    cluster.tick("b")

    assert before == []
    assert cluster.member("b").swaps


def test_a_lease_counts_from_the_heartbeat_and_not_from_the_response() -> None:
    cluster = quiet()
    next_beat(cluster, "b")
    asked_at = cluster.now
    cluster.deliver(QuietBeat)
    cluster.sleep(300_000)

    cluster.deliver(QuietResponse)

    assert cluster.primary("a").peers[B].lease_end == TIMING.lease_end(asked_at)


def test_a_candidate_gives_no_lease() -> None:
    cluster = quiet()
    session = cluster.end_session("a")
    cluster.see("b")
    cluster.sleep(10 * SECOND)
    cluster.tick("b")
    assert cluster.replica("b").is_candidate
    copy = description(cluster)

    assert not cluster.replica("b").follow_quietly(copy, A, session, cluster.now)


def test_a_copy_that_waits_for_the_disk_gives_no_lease() -> None:
    cluster = quiet()
    session = cluster.member("a").liveness.session
    copy = replace(description(cluster), index=Index(cluster.committed("a") + 1))
    cluster.is_syncing = False
    cluster.propose("a")
    cluster.sync("a")
    cluster.deliver(Append)
    b = cluster.replica("b")
    b.copy.commit(copy.index)

    before = b.follow_quietly(copy, A, session, cluster.now)
    cluster.sync("b")

    assert not before
    assert b.follow_quietly(copy, A, session, cluster.now)


def description(cluster: Cluster) -> QuietCopy:
    """Return the true description of the copy on b."""
    return QuietCopy(SHARD, Epoch(1), AllocationId("b1"), cluster.committed("a"))


@pytest.mark.parametrize(
    "wrong", ["epoch", "allocation", "index", "primary", "session", "promise", "commit"]
)
def test_a_false_description_gets_no_lease(wrong: str) -> None:
    cluster = quiet()
    copy, primary = description(cluster), A
    session = cluster.member("a").liveness.session
    b = cluster.replica("b")
    assert b.follow_quietly(copy, primary, session, cluster.now)
    match wrong:
        case "epoch":
            copy = replace(copy, epoch=Epoch(2))
        case "allocation":
            copy = replace(copy, allocation=AllocationId("b0"))
        case "index":
            copy = replace(copy, index=Index(copy.index + 1))
        case "primary":
            primary = C
        case "session":
            session = Session("another")
        case "commit":  # It has the entry, and does not know that the entry is committed.
            b.copy.append(b"", cluster.now, EntryKind.CHANGES)
            cluster.turn("b")
            copy = replace(copy, index=b.copy.tip.index)
        case _:
            b.copy.promise(Epoch(2))
            cluster.turn("b")  # Makes the promise durable.

    assert not b.follow_quietly(copy, primary, session, cluster.now)


def test_a_backup_that_follows_quietly_knows_its_primary() -> None:
    cluster = quiet()
    since = cluster.now

    cluster.pass_time(2 * TIMING.beat)

    assert cluster.replica("b").served_by(since) == A


def test_a_node_without_the_coordinators_configuration_follows_no_primary_quietly() -> None:
    cluster = quiet()
    session = cluster.member("a").liveness.session
    cluster.restart("b")

    assert not cluster.replica("b").follow_quietly(description(cluster), A, session, cluster.now)


def test_a_refused_copy_gets_heartbeats_of_its_own_again() -> None:
    cluster = quiet()
    cluster.restart("b")  # It has no configuration until it reads one.
    next_beat(cluster, "b")
    cluster.deliver(QuietBeat)
    lease_end = cluster.primary("a").peers[B].lease_end

    cluster.deliver(QuietResponse)
    cluster.sleep(TICK)
    cluster.tick("a")

    assert cluster.primary("a").peers[B].lease_end == lease_end
    assert cluster.member("a").quiet_beats.quiet_counts == {C: 1}
    assert [each.receiver for each in cluster.in_flight if isinstance(each.message, Append)] == [B]


def test_a_refused_copy_is_quiet_only_after_an_answer_to_a_heartbeat_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = quiet()
    cluster.restart("b")
    cluster.has_news = False
    began: list[NodeId] = []
    begin = QuietBeats.begin

    def note(beats: QuietBeats, node_id: NodeId, *rest: Any) -> None:
        began.append(node_id)
        begin(beats, node_id, *rest)

    monkeypatch.setattr(QuietBeats, "begin", note)
    cluster.pass_time(4 * TIMING.beat)  # The claims of a are early for b, which answers none.

    assert began == []
    assert cluster.member("a").quiet_beats.quiet_counts == {C: 1}
    cluster.see("b")
    cluster.pass_time(2 * TIMING.beat)
    assert cluster.member("a").quiet_beats.quiet_counts == {B: 1, C: 1}


# -- responses -------------------------------------------------------------------------------------


class Pair:
    """The heartbeats of one node, with one quiet shard towards b."""

    def __init__(self) -> None:
        self.now = Instant(100 * SECOND)
        self.liveness = Liveness(A, born_at=self.now, session=Session("s"))
        self.beats = QuietBeats(self.liveness, TIMING)
        self.beats.tick(self.now)
        self.first = self.quiet(0)

    def quiet(self, shard: int) -> PeerCopy:
        """Make a shard quiet; return the record of its copy on b."""
        peer = PeerCopy(AllocationId("b1"), next=Index(1), heard_at=self.now)
        copy = QuietCopy(ShardId(shard), Epoch(1), peer.allocation, Index(1))
        self.beats.begin(B, peer, copy, self.now)
        return peer

    def beat(self) -> QuietBeat:
        """Return the next heartbeat."""
        while True:
            for _, message in self.beats.take_outbox():
                assert isinstance(message, QuietBeat)
                return message
            self.now = Instant(self.now + TICK)
            self.beats.tick(self.now)

    def respond(self, beat: QuietBeat, *refused: int, sender: NodeId = B) -> bool:
        """Give the node a response to *beat*."""
        shards = tuple(map(ShardId, refused))
        response = QuietResponse(session=beat.session, number=beat.number, refused=shards)
        return self.beats.receive_response(response, sender, self.now)


def test_a_response_gives_no_lease_for_a_shard_that_its_heartbeat_did_not_list() -> None:
    pair = Pair()
    beat = pair.beat()
    second = pair.quiet(1)

    assert pair.respond(beat)

    assert pair.first.lease_end > pair.now
    assert second.lease_end == 0


def test_a_response_gives_no_lease_for_a_shard_that_was_not_quiet_all_the_time() -> None:
    pair = Pair()
    beat = pair.beat()
    pair.beats.end(B, pair.first)
    pair.first.match = Index(2)
    again = QuietCopy(ShardId(0), Epoch(1), pair.first.allocation, Index(2))
    pair.beats.begin(B, pair.first, again, pair.now)

    assert pair.respond(beat)

    assert pair.first.lease_end == 0


@pytest.mark.parametrize("wrong", ["number", "session", "sender", "repeated"])
def test_a_response_that_belongs_to_no_heartbeat_is_refused(wrong: str) -> None:
    pair = Pair()
    beat, sender = pair.beat(), B
    match wrong:
        case "number":
            beat = replace(beat, number=beat.number + 1)
        case "session":
            beat = replace(beat, session=Session("t"))
        case "sender":
            sender = C
        case _:
            assert pair.respond(beat)
            pair.first.lease_end = Instant(0)

    assert not pair.respond(beat, sender=sender)

    assert pair.first.lease_end == 0


def test_a_response_to_a_heartbeat_of_an_earlier_session_changes_nothing() -> None:
    pair = Pair()
    beat, heard_at = pair.beat(), pair.first.heard_at
    pair.liveness.session = Session("t")

    assert pair.respond(beat)

    assert (pair.first.lease_end, pair.first.heard_at) == (0, heard_at)


def test_responses_may_come_later_than_the_next_heartbeats() -> None:
    pair = Pair()
    first, second = pair.beat(), pair.beat()

    assert pair.respond(first)
    assert pair.respond(second)


def test_a_response_answers_messages_up_to_its_heartbeat_only() -> None:
    pair = Pair()
    beat, sent_at = pair.beat(), pair.now
    pair.now = Instant(pair.now + TICK)

    pair.respond(beat)

    assert (pair.first.answered_to, pair.first.heard_at) == (sent_at, pair.now)


def test_refused_shards_are_woken_and_the_others_are_not() -> None:
    pair = Pair()
    second = pair.quiet(1)

    pair.respond(pair.beat(), 0, 7)

    assert pair.beats.take_woken() == {ShardId(0)}
    assert pair.first.quiet is None
    assert second.quiet is not None
    assert second.lease_end > pair.now


def test_the_number_of_heartbeats_whose_responses_are_awaited_is_limited() -> None:
    pair = Pair()
    first = pair.beat()
    later: list[QuietBeat] = []
    for _ in range(UNANSWERED_MAX):
        pair.beats.linked(B)
        later.append(pair.beat())

    assert not pair.respond(first)
    assert all(map(pair.respond, later))


def test_a_new_link_brings_a_heartbeat_at_the_next_tick() -> None:
    pair = Pair()
    pair.respond(pair.beat())

    pair.beats.linked(B)
    pair.beats.tick(Instant(pair.now + TICK))

    assert pair.beats.take_outbox()


# -- silence ---------------------------------------------------------------------------------------


def test_a_silent_node_has_its_copies_removed_as_soon_as_those_of_a_busy_shard() -> None:
    cluster = quiet()
    began_at = cluster.now
    while cluster.configuration.members == (A, B, C):
        cluster.pass_time(TICK, among="ac")

    assert cluster.configuration.members == (A, C)
    assert cluster.now - began_at <= TIMING.silence + 2 * TICK


def test_heartbeats_without_a_response_wake_all_shards_towards_that_node() -> None:
    pair = Pair()
    pair.quiet(1)
    pair.respond(pair.beat())
    heard_at = pair.now

    while pair.now - heard_at <= TIMING.silence // 2:
        assert pair.first.quiet is not None
        pair.now = Instant(pair.now + TICK)
        pair.beats.tick(pair.now)

    assert pair.beats.take_woken() == {ShardId(0), ShardId(1)}
    assert pair.first.heard_at == heard_at


def test_silence_before_a_shard_is_quiet_counts() -> None:
    cluster = Cluster()
    cluster.pass_time(TIMING.beat)
    cluster.propose("a")
    cluster.pass_time(TIMING.beat // 2)
    died_at = cluster.now
    while cluster.configuration.members == (A, B, C):
        cluster.pass_time(TICK, among="ac")

    assert cluster.configuration.members == (A, C)
    assert cluster.now - died_at <= TIMING.silence + 2 * TICK


def test_late_responses_that_do_not_count_for_a_copy_do_not_hide_its_silence() -> None:
    pair = Pair()
    early = [pair.beat() for _ in range(3)]
    late = pair.quiet(1)
    silent_since = late.heard_at
    while late.quiet is not None and pair.now - silent_since <= TIMING.silence:
        pair.now = Instant(pair.now + TICK)
        pair.beats.tick(pair.now)
        if early:
            pair.respond(early.pop(0))

    assert pair.now - silent_since <= TIMING.silence // 2 + 2 * TICK
    assert late.heard_at == silent_since


def test_a_node_that_was_stalled_does_not_take_the_others_for_silent() -> None:
    cluster = quiet()
    cluster.sleep(10 * SECOND)

    cluster.tick("a")
    cluster.pass_time(TIMING.silence // 2)

    assert cluster.configuration.members == (A, B, C)
    assert cluster.member("a").swaps == []


# -- rest ------------------------------------------------------------------------------------------


def test_a_primary_that_rested_does_not_take_the_others_for_silent() -> None:
    cluster = quiet()
    for _ in range(100):  # As `Shards.tick` does with a replica at rest.
        cluster.sleep(TICK)
        cluster.member("a").quiet_beats.tick(cluster.now)
        cluster.turn("a")
        cluster.settle()

    cluster.primary("a").peers[B].heard_at = Instant(cluster.now - TIMING.silence - 1)
    cluster.member("a").quiet_beats.end(B, cluster.primary("a").peers[B])
    cluster.primary("a").peers[B].heard_at = Instant(cluster.now - TIMING.silence - 1)
    cluster.tick("a")

    # Its ticks were not late, so the silence of b counts.
    assert cluster.member("a").swaps


@pytest.mark.parametrize(
    "event", ["targets", "order", "unfit", "slow", "leaving", "dead", "session", "entry"]
)
def test_a_primary_with_work_for_a_tick_is_not_at_rest(event: str) -> None:
    cluster = quiet()
    a, liveness = cluster.primary("a"), cluster.member("a").liveness
    match event:
        case "targets":
            a.targets = (A, B, D)
        case "order":
            a.targets = (B, A, C)
        case "unfit":
            liveness.record_conditions(frozenset({HealthCondition.DISK}))
        case "slow":
            liveness.slow.add(C)
        case "leaving":
            liveness.leaving.add(C)
        case "dead":
            session = cluster.end_session("c")
            cluster.see("a")
            liveness.saw_death(C, session, cluster.now, grace=TIMING.grace)
        case "session":
            liveness.session = Session("another")
        case _:
            cluster.is_syncing = False
            cluster.propose("a")

    assert not a.is_at_rest(cluster.now)


def test_a_backup_is_at_rest_while_the_session_of_its_primary_lives() -> None:
    cluster = quiet()
    before = cluster.replica("b").is_at_rest(cluster.now)
    cluster.end_session("a")
    cluster.see("b")

    assert before
    assert not cluster.replica("b").is_at_rest(cluster.now)


def test_a_backup_of_a_primary_that_resigned_is_not_at_rest() -> None:
    cluster = quiet()
    cluster.force(replace(cluster.configuration, epoch=Epoch(2), primary_session=NO_SESSION))
    cluster.see("b")

    assert not cluster.replica("b").is_at_rest(cluster.now)


def test_a_node_that_is_named_as_primary_is_not_at_rest_before_it_is_one() -> None:
    cluster = quiet()
    fresh = Configuration(
        epoch=Epoch(2),
        primary=B,
        primary_session=cluster.member("b").liveness.session,
        sync=(Copy(A, AllocationId("a1")), Copy(B, AllocationId("b0"))),
    )
    cluster.force(fresh)
    cluster.see("b")

    assert not cluster.replica("b").is_at_rest(cluster.now)


@pytest.mark.parametrize(
    "change",
    ["session", "conditions", "leaving_since", "coordinator", "sessions", "unfit", "slow", "dead"],
)
def test_each_change_of_the_view_of_nodes_changes_the_circumstances(change: str) -> None:
    liveness = Liveness(A, born_at=Instant(0), session=Session("s"))
    before = liveness.circumstances()
    match change:
        case "session":
            liveness.end_session()
        case "conditions":
            liveness.record_conditions(frozenset({HealthCondition.LOOP}))
        case "leaving_since":
            liveness.begin_leaving(Instant(0))
        case "coordinator":
            liveness.record_coordinator(is_reached=False)
        case "sessions":
            liveness.record_sessions({B: Session("t")})
        case "unfit":
            liveness.record_peer(B, is_fit=False, is_prompt=True, is_leaving=False)
        case "slow":
            liveness.record_peer(B, is_fit=True, is_prompt=False, is_leaving=False)
        case _:
            liveness.saw_death(B, Session("t"), Instant(0), grace=TIMING.grace)

    assert liveness.circumstances() != before
