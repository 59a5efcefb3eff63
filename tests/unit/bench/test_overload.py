"""Judgement of a cluster under overload: what no fault explains."""

from bench.overload import Judge, Report, Step

from rota.core.model.ids import AllocationId, Epoch, NodeId, Session, ShardId
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.node.coordination.coordinator import Life, News

A, B = NodeId("a"), NodeId("b")


def lives(at_s: float, **sessions: str | None) -> Step:
    found = {
        NodeId(name): Life(session=Session(session), store_id=name) if session else None
        for name, session in sessions.items()
    }
    return Step(at_s=at_s, news=News(revision=1, lives=found))


def primary(at_s: float, shard: int, node_id: NodeId, session: str, members: str = "ab") -> Step:
    configuration = Configuration(
        epoch=Epoch(1),
        primary=node_id,
        primary_session=Session(session),
        sync=tuple(Copy(NodeId(each), AllocationId(each)) for each in members),
    )
    return Step(at_s=at_s, news=News(revision=1, configurations={ShardId(shard): configuration}))


def judged(*steps: Step, shards: int = 1) -> Judge:
    judge = Judge(shards=shards, nodes=2)
    for step in steps:
        judge.take(step)
    return judge


def test_another_primary_is_a_takeover_only_after_the_end_of_a_session() -> None:
    begun = (lives(0, a="s1", b="s2"), primary(1, 0, A, "s1"))

    handed_over = judged(*begun, primary(2, 0, B, "s2")).end(3)
    taken_over = judged(*begun, lives(2, a=None), primary(3, 0, B, "s2", "b")).end(4)

    assert (handed_over.handovers, handed_over.takeovers) == (1, 0)
    assert (taken_over.handovers, taken_over.takeovers, taken_over.removals) == (0, 1, 1)


def test_a_session_that_ended_and_the_next_of_its_node_are_counted() -> None:
    found = judged(
        lives(0, a="s1"),
        primary(1, 0, A, "s1"),
        lives(2, a=None),
        lives(3, a="s3"),
        primary(4, 0, A, "s3"),
    ).end(5)

    assert (found.sessions_lost, found.sessions_restarted, found.restarts) == (1, 1, 1)


def test_primaries_are_spread_when_all_shards_have_one_and_no_node_has_too_many() -> None:
    shards = [primary(number, number, A if number < 4 else B, "s") for number in range(6)]

    found = judged(*shards, primary(8, 4, A, "s"), primary(11, 4, B, "s"), shards=6).end(20)

    assert found.spread_s == 5
    assert found.uneven_s == 3


def test_a_run_fails_by_takeovers_ended_sessions_and_missed_fires() -> None:
    steps = (lives(0, a="s1", b="s2"), primary(1, 0, A, "s1"), lives(2, a=None))
    found = judged(*steps, primary(3, 0, B, "s2")).end(4)

    report = Report(judgement=found, expected=9, lateness_ms=[1.0], unstarted={"missed": 2})
    quiet = Report(judgement=judged().end(1), expected=9, lateness_ms=[], unstarted={"skipped": 1})

    assert report.faults() == ["1 sessions ended", "1 takeovers", "2 fires missed"]
    assert quiet.faults() == []
