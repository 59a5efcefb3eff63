"""Claims to be primary: a copy accepts only those that the coordinator confirms (R41)."""

import pytest
from msgspec.structs import replace

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session
from rota.core.replication.messages import (
    Append,
    Appended,
    Base,
    Fenced,
    Holding,
    Message,
    Mismatch,
    Part,
    PartTaken,
    Query,
    Succeed,
    name_of,
)
from rota.core.replication.primary_claims import (
    WAITING_BYTES_MAX,
    WAITING_FOR,
    WAITING_MAX,
    Claim,
    ClaimVerdict,
    EarlyClaims,
    judge,
)
from rota.core.timing.instants import SECOND, Instant, later
from rota.core.vocabulary.journal import ORIGIN
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from unit.core.replication.replicas import A, B, C, Cluster, D, Envelope

FAR = Epoch(2**40)
BEFORE = Configuration(
    epoch=Epoch(3),
    primary=A,
    primary_session=Session("a3"),
    sync=(Copy(A, AllocationId("a1")), Copy(B, AllocationId("b1"))),
)
NEWEST = replace(BEFORE, epoch=Epoch(5), primary=B, primary_session=Session("b5"))
FORGED = replace(NEWEST, primary=C, sync=(Copy(C, AllocationId("c1")),))


def claims_of(configuration: Configuration) -> tuple[Claim, ...]:
    """Return a message of each kind that only a primary may send."""
    base = Base(Epoch(0), Index(0), Instant(0), ORIGIN.hash)
    return (
        append_of(configuration, AllocationId("b1")),
        Part(
            configuration=configuration,
            allocation=AllocationId("x"),
            replaces=None,
            number=0,
            base=base,
            rows=(),
            is_last=True,
            sent_at=Instant(0),
        ),
        Query(epoch=configuration.epoch, sent_at=Instant(0)),
        Succeed(configuration=configuration),
    )


def append_of(configuration: Configuration, to: AllocationId, *entries: bytes) -> Append:
    """Return a beat, or some entries, under a configuration."""
    return Append(
        configuration=configuration,
        allocation=to,
        previous=Index(0),
        previous_hash=ORIGIN.hash,
        entries=entries,
        committed=Index(0),
        sent_at=Instant(0),
    )


# -- the verdict -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Append, Part, Query, Succeed])
@pytest.mark.parametrize(
    ("configuration", "sender", "expected"),
    [
        (NEWEST, B, ClaimVerdict.VALID),
        (NEWEST, A, ClaimVerdict.FORBIDDEN),
        (NEWEST, D, ClaimVerdict.FORBIDDEN),
        (FORGED, C, ClaimVerdict.FORBIDDEN),
        (BEFORE, A, ClaimVerdict.VALID),
        (BEFORE, B, ClaimVerdict.FORBIDDEN),
        (replace(NEWEST, epoch=Epoch(4)), B, ClaimVerdict.STALE),
        (replace(NEWEST, epoch=Epoch(2)), B, ClaimVerdict.STALE),
        (replace(NEWEST, epoch=Epoch(6)), B, ClaimVerdict.EARLY),
        (replace(NEWEST, epoch=FAR), C, ClaimVerdict.EARLY),
    ],
)
def test_a_claim_is_worth_what_the_coordinator_confirms(
    kind: type[Claim], configuration: Configuration, sender: NodeId, expected: ClaimVerdict
) -> None:
    (claim,) = (each for each in claims_of(configuration) if isinstance(each, kind))
    verdict = judge(claim, sender, known=(BEFORE, NEWEST), promised=Epoch(3))

    if kind is Succeed and configuration in (BEFORE, NEWEST):
        assert verdict is ClaimVerdict.VALID  # The previous primary sends it.
    elif kind is Query and configuration is FORGED:
        assert verdict is ClaimVerdict.FORBIDDEN  # It names no configuration, and its sender is C.
    else:
        assert verdict is expected


def test_under_a_promised_epoch_the_configuration_before_is_stale() -> None:
    for claim in claims_of(BEFORE):
        assert judge(claim, A, known=(BEFORE, NEWEST), promised=Epoch(4)) is ClaimVerdict.STALE


def test_before_the_coordinator_gave_anything_every_claim_is_early() -> None:
    for claim in claims_of(NEWEST):
        assert judge(claim, B, known=(), promised=Epoch(0)) is ClaimVerdict.EARLY


# -- epochs that no coordinator gave -----------------------------------------------------------


@pytest.mark.parametrize("forger", "acd")
@pytest.mark.parametrize("number", range(4))
def test_an_epoch_that_the_coordinator_did_not_give_is_never_promised(
    forger: str, number: int
) -> None:
    cluster = Cluster()
    forged = replace(cluster.configuration, epoch=FAR, primary=NodeId(forger))
    message = claims_of(forged)[number]

    for name in {"a", "b"} - {forger}:
        cluster.hand(Envelope(NodeId(forger), NodeId(name), message))
    cluster.pass_time(10 * SECOND)

    for name in "abc":
        assert cluster.replica(name).epoch < 100
        assert cluster.member(name).disk.durable.epoch < 100
    assert cluster.has_authority("a")
    index = cluster.propose("a")
    cluster.pass_time(1 * SECOND)
    assert cluster.committed("b") == index


def test_a_message_under_a_configuration_not_yet_known_takes_effect_when_it_is() -> None:
    cluster = Cluster()
    cluster.has_news = False
    cluster.force(replace(cluster.configuration, epoch=Epoch(2)))
    cluster.see("a")

    cluster.deliver(Append, to="b")
    assert cluster.replica("b").epoch == 1
    assert not cluster.in_flight or all(envelope.sender == A for envelope in cluster.in_flight)

    cluster.see("b")

    assert cluster.replica("b").epoch == 2
    (answer,) = (envelope.message for envelope in cluster.in_flight if envelope.sender == B)
    assert isinstance(answer, Appended)
    assert answer.epoch == 2


def test_an_unconfirmed_claim_causes_a_request_to_the_coordinator_and_is_dropped_in_the_end() -> (
    None
):
    cluster = Cluster()
    replica = cluster.replica("b")
    replica.receive(Query(epoch=FAR, sent_at=cluster.now), C, cluster.now)

    replica.tick(cluster.now, 0)
    assert replica.take_ready().wants_view

    cluster.sleep(WAITING_FOR)
    replica.tick(cluster.now, 0)
    assert not replica.take_ready().wants_view
    assert replica.refused == {"query": 1}


def test_claims_of_a_node_that_is_not_primary_of_the_configuration_are_refused_and_counted() -> (
    None
):
    cluster = Cluster()
    for claim in claims_of(cluster.configuration)[:3]:
        cluster.hand(Envelope(C, B, claim))

    assert cluster.replica("b").refused == {"append": 1, "part": 1, "query": 1}
    assert not cluster.in_flight


# -- what waits is bounded ---------------------------------------------------------------------


def test_early_claims_are_bounded_in_number() -> None:
    early = EarlyClaims()
    for number in range(2 * WAITING_MAX):
        early.put(Query(epoch=Epoch(7), sent_at=Instant(number)), A, Instant(0))

    taken = [each.claim for each in early.take(Epoch(7))]
    assert taken == [Query(epoch=Epoch(7), sent_at=Instant(each)) for each in range(WAITING_MAX)]
    assert not early.waiting


def test_early_claims_are_bounded_in_bytes_and_their_room_comes_back() -> None:
    early = EarlyClaims()
    half = append_of(NEWEST, AllocationId("b1"), bytes(WAITING_BYTES_MAX // 2 + 1))
    for _ in range(3):
        early.put(half, B, Instant(0))
        early.put(half, B, Instant(0))
        assert len(early.take(NEWEST.epoch)) == 1
    early.put(half, B, Instant(0))
    assert len(early.expire(later(Instant(0), WAITING_FOR))) == 1
    early.put(half, B, Instant(0))
    assert early.waiting


def test_what_is_still_early_keeps_waiting_from_when_it_came() -> None:
    early = EarlyClaims()
    early.put(Query(epoch=FAR, sent_at=Instant(0)), C, Instant(0))
    assert not early.take(Epoch(5))

    assert early.expire(later(Instant(0), WAITING_FOR))


# -- answers that cannot be true ---------------------------------------------------------------


def answers(
    cluster: Cluster, *, epoch: Epoch | None = None, sent_at: Instant | None = None
) -> tuple[Message, ...]:
    """Return what b may answer to a's messages, or what it may not."""
    epoch = epoch or cluster.primary("a").configuration.epoch
    sent_at, allocation, one = sent_at or cluster.now, AllocationId("b1"), Index(1)
    return (
        Appended(epoch=epoch, allocation=allocation, match=one, gives_lease=True, sent_at=sent_at),
        Mismatch(
            epoch=epoch,
            allocation=allocation,
            previous=one,
            last=one,
            committed=one,
            gives_lease=True,
            sent_at=sent_at,
        ),
        Holding(epoch=epoch, allocation=allocation, committed=one, sent_at=sent_at),
        PartTaken(epoch=epoch, allocation=allocation, number=0, sent_at=sent_at),
    )


@pytest.mark.parametrize(
    ("epoch", "sent_at"), [(FAR, None), (None, Instant(2**50))], ids=["epoch", "sent_at"]
)
def test_an_answer_to_what_was_never_sent_is_refused(
    epoch: Epoch | None, sent_at: Instant | None
) -> None:
    cluster = Cluster()
    peer = cluster.primary("a").peers[B]
    before = repr(peer)

    for answer in answers(cluster, epoch=epoch, sent_at=sent_at):
        cluster.hand(Envelope(B, A, answer))

    assert sum(cluster.replica("a").refused.values()) == 4
    assert repr(peer) == before


def appended_by_b(cluster: Cluster) -> Appended:
    """Return an answer of b that promises time."""
    (appended,) = (each for each in answers(cluster) if isinstance(each, Appended))
    return appended


def test_a_match_beyond_the_journal_is_refused_and_ends_nothing() -> None:
    cluster = Cluster()
    appended = replace(appended_by_b(cluster), match=Index(2**40))
    cluster.hand(Envelope(B, A, appended))

    assert cluster.replica("a").refused == {name_of(appended): 1}
    assert cluster.primary("a").peers[B].match < 100


def test_a_lease_is_never_longer_than_one_that_was_asked_for_now() -> None:
    cluster = Cluster()
    ahead = replace(appended_by_b(cluster), sent_at=Instant(cluster.now + 3600 * SECOND))
    cluster.hand(Envelope(B, A, ahead))
    cluster.hand(Envelope(C, A, replace(ahead, allocation=AllocationId("c1"))))
    cluster.lose_session("a")
    cluster.sleep(60 * SECOND)

    assert not cluster.has_authority("a")


def test_being_fenced_causes_a_request_to_the_coordinator_and_nothing_else() -> None:
    cluster = Cluster()
    cluster.replica("a").receive(Fenced(epoch=FAR), C, cluster.now)

    ready = cluster.replica("a").take_ready()
    assert ready.wants_view
    assert not ready.writes
    assert cluster.has_authority("a")


def test_after_the_only_copy_was_given_up_nothing_under_its_configuration_is_obeyed() -> None:
    cluster = Cluster()
    replica = cluster.replica("d")
    base = Base(Epoch(7), Index(3), Instant(0), ORIGIN.hash)
    replica.begin_alone(base, AllocationId("d1"), cluster.now)
    own = replica.newest
    assert own is not None

    replica.give_up_alone()
    replica.receive(Query(epoch=own.epoch, sent_at=cluster.now), D, cluster.now)
    replica.tick(later(cluster.now, WAITING_FOR), 0)

    assert replica.refused == {"query": 1}
