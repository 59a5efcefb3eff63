"""The use of namespaces on other nodes, by their reports."""

from rota.core.model.ids import NodeId, Session
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import Instant
from rota.core.vocabulary.quotas import NO_USE, Use
from rota.node.peers.messages import ReportUse
from rota.node.shards.quota_use import QuotaUse

A, B = NodeId("a"), NodeId("b")
FIRST, SECOND = Session("1"), Session("2")


def report(session: Session, jobs: int, executions: int) -> ReportUse:
    return ReportUse(session=session, uses={"team": (jobs, executions)})


def use_of(**sessions: Session) -> tuple[QuotaUse, Liveness]:
    liveness = Liveness(NodeId("self"), born_at=Instant(0))
    liveness.record_sessions({NodeId(node_id): each for node_id, each in sessions.items()})
    return QuotaUse(liveness), liveness


def test_the_newest_reports_of_all_nodes_are_added() -> None:
    use, _ = use_of(a=FIRST, b=FIRST)
    use.take(A, report(FIRST, 7, 7))
    use.take(A, report(FIRST, 3, 1))
    use.take(B, report(FIRST, 4, 0))

    assert use.in_cluster("team", []) == Use(jobs=7, executions=1)
    assert use.in_cluster("other", []) == NO_USE


def test_the_report_of_a_session_that_has_ended_does_not_count() -> None:
    use, liveness = use_of(a=FIRST, b=FIRST)
    use.take(A, report(FIRST, 3, 1))
    use.take(B, report(FIRST, 4, 0))

    liveness.record_sessions({B: FIRST})
    after_the_end = use.in_cluster("team", [])
    liveness.record_sessions({A: SECOND, B: FIRST})
    in_the_next_session = use.in_cluster("team", [])
    use.take(A, report(SECOND, 2, 0))

    assert after_the_end == in_the_next_session == Use(jobs=4)
    assert use.in_cluster("team", []) == Use(jobs=6)


def test_the_reports_of_nodes_that_have_left_are_dropped() -> None:
    use, _ = use_of(a=FIRST)
    use.take(A, report(FIRST, 3, 1))

    for number in range(100):
        use.take(NodeId(f"left-{number}"), report(FIRST, 1, 1))

    assert use.report_count <= 2
    assert use.in_cluster("team", []) == Use(jobs=3, executions=1)
