"""Removal of a slow backup from the counted copies until it is fast again (R24)."""

from hypothesis import given
from hypothesis import strategies as st

from rota.core.model.ids import NodeId
from rota.core.replication.answer_pace import NOTED_MAX, AnswerPace
from rota.core.replication.messages import Appended
from rota.core.replication.primary import Copies
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant
from unit.core.replication.replicas import A, B, C, Cluster, D, Envelope

STEP = Duration(50 * MILLISECOND)
WINDOW = Duration(5 * SECOND)


def work(cluster: Cluster, duration: int, late: dict[str, int], *, every: Duration = STEP) -> None:
    """Have the primary write at intervals, while acknowledgements of some nodes come late."""
    held: list[tuple[Instant, Envelope]] = []
    began = cluster.now
    while cluster.now < began + duration or held:
        cluster.sleep(STEP)
        if cluster.now < began + duration and (cluster.now - began) % every == 0:
            cluster.propose("a")
        cluster.tick("a")
        cluster.answer("a")
        cluster.deliver(to="bcd")
        for envelope in cluster.in_flight:
            delay = late.get(envelope.sender, 0) if acknowledges_more(cluster, envelope) else 0
            held.append((Instant(cluster.now + delay), envelope))
        cluster.in_flight.clear()
        for at, envelope in list(held):
            if at <= cluster.now:
                held.remove((at, envelope))
                cluster.hand(envelope)


def acknowledges_more(cluster: Cluster, envelope: Envelope) -> bool:
    """Return True if a message acknowledges entries for the first time."""
    primary = cluster.primary("a")
    peer = primary.peers.get(envelope.sender) or primary.learners.get(envelope.sender)
    message = envelope.message
    return isinstance(message, Appended) and peer is not None and message.match > peer.match


def counting(cluster: Cluster) -> tuple[NodeId, ...]:
    return cluster.configuration.members


def test_a_backup_that_makes_everyone_wait_counts_no_longer_and_stays_a_learner() -> None:
    cluster = Cluster()

    work(cluster, 6 * SECOND, late={"c": 400 * MILLISECOND})

    assert counting(cluster) == (A, B)
    assert C in cluster.primary("a").learners
    assert cluster.replica("c").copy.tip == cluster.replica("a").copy.tip


def test_a_backup_that_was_slow_counts_again_when_it_is_fast() -> None:
    cluster = Cluster()
    work(cluster, 6 * SECOND, late={"c": 400 * MILLISECOND})

    work(cluster, 6 * SECOND, late={})

    assert counting(cluster) == (A, B, C)


def test_a_backup_that_stays_slow_does_not_come_and_go() -> None:
    cluster = Cluster()

    work(cluster, 60 * SECOND, late={"c": 400 * MILLISECOND})

    changes = [each.members for each in cluster.coordination.history]
    assert changes == [(A, B)]


def test_a_backup_is_slow_if_it_takes_entries_slowly_however_quick_it_is_between() -> None:
    cluster = Cluster()

    work(cluster, 7 * SECOND, late={"c": 400 * MILLISECOND}, every=Duration(3 * SECOND))

    assert counting(cluster) == (A, B)


def test_where_all_backups_are_slow_all_count() -> None:
    cluster = Cluster()

    work(cluster, 20 * SECOND, late={"b": 400 * MILLISECOND, "c": 600 * MILLISECOND})

    assert counting(cluster) == (A, B, C)


def test_a_backup_that_is_slower_than_the_other_but_not_slow_counts() -> None:
    cluster = Cluster()

    work(cluster, 20 * SECOND, late={"c": 200 * MILLISECOND})

    assert counting(cluster) == (A, B, C)


def test_one_slow_answer_takes_no_backup_out() -> None:
    cluster = Cluster()

    work(cluster, 2 * SECOND, late={})
    work(cluster, STEP, late={"c": 1_500 * MILLISECOND})
    work(cluster, 10 * SECOND, late={})

    assert counting(cluster) == (A, B, C)


def test_a_slow_backup_counts_where_too_few_would_be_left() -> None:
    cluster = Cluster(Copies(wanted=3, least=3))

    work(cluster, 10 * SECOND, late={"c": 400 * MILLISECOND})

    assert counting(cluster) == (A, B, C)


def test_a_slow_backup_is_replaced_where_too_few_would_be_left() -> None:
    cluster = Cluster(Copies(wanted=3, least=3))
    cluster.targets = (A, B, C, D)

    work(cluster, 10 * SECOND, late={"c": 400 * MILLISECOND})

    assert counting(cluster) == (A, B, D)


def test_a_slow_learner_counts_if_the_only_quick_backup_is_gone() -> None:
    cluster = Cluster()
    work(cluster, 6 * SECOND, late={"c": 400 * MILLISECOND})

    cluster.pass_time(4 * SECOND, among="ac")

    assert counting(cluster) == (A, C)


def test_a_short_slow_spell_after_a_rest_takes_no_backup_out() -> None:
    cluster = Cluster()
    cluster.pass_time(10 * SECOND)

    work(cluster, SECOND, late={"c": 400 * MILLISECOND})
    work(cluster, 5 * SECOND, late={})

    assert not cluster.coordination.history


@given(st.lists(st.integers(0, 3 * SECOND), max_size=60))
def test_a_pace_is_the_median_of_the_latest_answers(times: list[int]) -> None:
    pace, now = AnswerPace(), Instant(0)
    for took in times:
        now = Instant(now + WINDOW // NOTED_MAX)
        pace.note(Duration(took), now, WINDOW)

    median = pace.median(now, WINDOW)

    latest = sorted(times[-NOTED_MAX:])
    is_enough = len(latest) > NOTED_MAX // 2
    assert median == (latest[(len(latest) - 1) // 2] if is_enough else None)
    assert pace.median(Instant(now + WINDOW + 1), WINDOW) is None


def test_answers_that_come_at_once_are_one_to_a_pace() -> None:
    pace, now = AnswerPace(), Instant(3 * SECOND)
    for at in (0, 1, 2):
        pace.note(Duration(MILLISECOND), Instant(at * SECOND), WINDOW)

    for _ in range(100):
        pace.note(Duration(2 * SECOND), now, WINDOW)

    assert pace.median(now, WINDOW) == MILLISECOND
