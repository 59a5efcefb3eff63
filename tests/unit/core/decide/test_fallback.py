"""A stand-in fires a job on a side of its own, and the shard takes note of it afterwards.

*home* is the shard at its primary, *side* what a node that is cut off makes of its copy.
"""

from rota.core.decide.fallback import duplicate_key
from rota.core.model.attempt import Outcome
from rota.core.model.execution import ExecutionStatus
from rota.core.model.ids import AllocationId, ExecutionId, JobId, NodeId
from rota.core.model.job import Consistency, Misfire, Overlap, problems_of
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.changes import StandInExecution, Table
from rota.core.vocabulary.commands import (
    DeleteJob,
    FollowJob,
    Forget,
    ReconcileExecution,
    ReconcileFires,
    SaveJob,
)
from rota.core.vocabulary.effects import JobEvent, PublishJob
from unit.core.shard import Shard, at, every, job

AVAILABLE = Consistency.AVAILABLE
N3 = NodeId("n3")


def test_a_side_fires_a_job_it_follows_under_the_ids_that_the_shard_would_give() -> None:
    home, side, job_id = parted()

    home.pass_time(Duration(10 * SECOND))
    side.pass_time(Duration(10 * SECOND))

    assert [each.id for each in side.executions()] == [each.id for each in home.executions()]
    assert side.outcomes() == home.outcomes() == [("12:00:10", 1, "fired")]
    assert side.executions()[0].job_id == job_id


def test_what_a_side_decided_and_the_shard_did_not_becomes_the_ledgers() -> None:
    home, side, job_id = parted()
    fire_twice(side)

    claim(home, side, job_id)

    assert home.outcomes() == [("12:00:10", 1, "fired"), ("12:00:20", 1, "fired")]
    assert [each.reason for each in home.ledger()] == ["decided by n3, which stood in"] * 2
    assert home.state.plans[job_id].next_fires == (at("12:00:30"),)
    assert list(home.state.stand_ins.values()) == [N3, N3]
    assert home.executions() == []
    home.ring_timers()
    assert len(home.outcomes()) == 2


def test_a_claim_of_what_has_an_outcome_changes_nothing() -> None:
    home, side, job_id = parted()
    fire_twice(side)
    fire_twice(home)
    before = dict(home.rows)

    claim(home, side, job_id)

    assert home.rows == before


def test_a_claim_that_comes_again_changes_nothing() -> None:
    home, side, job_id = parted()
    fire_twice(side)
    claim(home, side, job_id)
    before = dict(home.rows)

    claim(home, side, job_id)

    assert home.rows == before


def test_of_fire_times_that_share_an_entry_only_those_without_an_outcome_are_taken() -> None:
    home, side, job_id = parted(misfire=Misfire.SKIP)
    home.pass_time(Duration(10 * SECOND))
    side.pass_time(Duration(60 * SECOND))
    assert side.outcomes()[0] == ("12:00:10", 4, "missed")

    claim(home, side, job_id)

    assert home.outcomes()[:2] == [("12:00:10", 1, "fired"), ("12:00:20", 3, "missed")]
    assert sum(count for _, count, _ in home.outcomes()) == 6


def test_a_claim_with_a_gap_before_it_is_not_taken() -> None:
    home, side, job_id = parted()
    fire_twice(side)
    whole = claim_of(side, job_id)
    home.clock = side.clock

    home.do(ReconcileFires(job_id=job_id, version=1, node_id=N3, entries=whole.entries[1:]))

    assert home.outcomes() == []
    assert home.state.plans[job_id].next_fires == (at("12:00:10"),)


def test_what_is_still_to_come_is_not_claimed_by_a_stand_in_with_a_wrong_calendar() -> None:
    home, side, job_id = parted()
    fire_twice(side)
    home.clock = at("12:00:15")

    home.do(claim_of(side, job_id))

    assert home.outcomes() == [("12:00:10", 1, "fired")]
    assert home.state.plans[job_id].next_fires == (at("12:00:20"),)


def test_a_claim_of_another_version_is_not_taken() -> None:
    home, side, job_id = parted()
    fire_twice(side)
    fresh = job(schedules=every("*/10 * * * * *"), consistency=AVAILABLE, priority=1)
    home.do(SaveJob(spec=fresh, may_replace=True))

    claim(home, side, job_id)

    assert home.state.stand_ins == {}


def test_the_account_of_a_claimed_execution_is_its_record() -> None:
    home, side, job_id = parted()
    [execution_id] = fire_once(side)
    claim(home, side, job_id)
    side.finish(execution_id, outcome=Outcome.FAILED)

    home.do(account_of(side, execution_id))

    assert home.execution(execution_id).status is ExecutionStatus.FAILED
    assert home.execution(execution_id).stand_in == N3
    assert home.task(execution_id) == side.task(execution_id)
    assert home.state.stand_ins == {}
    assert home.keys(Table.DUPLICATE) == []


def test_the_account_of_what_the_shard_ran_itself_is_kept_as_a_possible_duplicate() -> None:
    home, side, job_id = parted()
    [execution_id] = fire_once(side)
    assert fire_once(home) == [execution_id]
    claim(home, side, job_id)
    side.finish(execution_id)

    home.do(account_of(side, execution_id))

    double = home.read(Table.DUPLICATE, duplicate_key(execution_id, N3), StandInExecution)
    assert double.execution == side.execution(execution_id)
    assert home.execution(execution_id).status is ExecutionStatus.RUNNING
    [event] = [each for each in home.effects if isinstance(each, PublishJob)]
    assert event.event is JobEvent.POSSIBLE_DUPLICATE
    assert execution_id in event.detail


def test_an_account_that_comes_again_is_no_duplicate_of_itself() -> None:
    home, side, job_id = parted()
    [execution_id] = fire_once(side)
    claim(home, side, job_id)
    side.finish(execution_id)
    home.do(account_of(side, execution_id))
    before = dict(home.rows)

    home.do(account_of(side, execution_id))

    assert home.rows == before


def test_of_two_stand_ins_that_claim_a_fire_time_one_has_it_and_the_others_is_a_duplicate() -> None:
    home, side, job_id = parted()
    [execution_id] = fire_once(side)
    side.finish(execution_id)
    claim(home, side, job_id, NodeId("n2"))
    claim(home, side, job_id)

    home.do(account_of(side, execution_id))
    home.do(account_of(side, execution_id, NodeId("n2")))

    assert home.execution(execution_id).stand_in == "n2"
    assert home.keys(Table.DUPLICATE) == [duplicate_key(execution_id, N3)]


def test_jobs_that_depend_on_a_claimed_execution_are_told_of_its_success() -> None:
    home, side, job_id = parted()
    home.save(name="after", dependencies=("default/job",))
    home.deliver()
    [execution_id] = fire_once(side)
    claim(home, side, job_id)
    side.finish(execution_id)

    home.do(account_of(side, execution_id))
    home.deliver()

    assert [each.job_name for each in home.state.executions.values()] == ["default/after"]


def test_a_side_that_follows_a_job_anew_does_not_fire_again_what_it_fired() -> None:
    home, side, job_id = parted()
    fire_twice(side)

    follow(home, side, job_id)

    assert side.state.plans[job_id].next_fires == (at("12:00:30"),)


def test_a_side_goes_on_where_the_shard_has_come_meanwhile() -> None:
    home, side, job_id = parted()
    fire_twice(home)

    follow(home, side, job_id)

    assert side.state.plans[job_id].next_fires == (at("12:00:30"),)


def test_an_execution_of_a_side_keeps_its_version_when_the_job_is_followed_in_another() -> None:
    home, side, job_id = parted()
    [execution_id] = fire_once(side)
    fresh = job(schedules=every("*/10 * * * * *"), consistency=AVAILABLE, priority=1)
    home.do(SaveJob(spec=fresh, may_replace=True))

    follow(home, side, job_id)
    side.finish(execution_id)

    assert side.execution(execution_id).job_version == 1


def test_overlap_is_kept_on_a_side_among_its_own() -> None:
    home, side, _ = parted(overlap=Overlap.SKIP)
    home.pass_time(Duration(10 * SECOND))

    fire_twice(side)

    assert side.outcomes() == [("12:00:10", 1, "fired"), ("12:00:20", 1, "skipped")]


def test_the_available_jobs_of_a_shard_are_found_without_reading_the_others() -> None:
    shard = Shard()
    shard.save(name="strict")
    gone = shard.save(name="gone", consistency=AVAILABLE)
    changed = shard.save(name="changed", consistency=AVAILABLE)
    kept = shard.save(name="kept", consistency=AVAILABLE)

    shard.do(DeleteJob(job_id=gone))
    shard.do(SaveJob(spec=job(name="changed"), may_replace=True))

    assert shard.keys(Table.AVAILABLE) == [kept]
    assert list(shard.state.available) == [kept]
    assert changed in shard.state.jobs


def test_an_available_job_cannot_depend_on_others() -> None:
    [problem] = problems_of(job(dependencies=("default/other",), consistency=AVAILABLE))

    assert problem.pointer == "/consistency"


def test_claims_and_duplicates_go_by_age_like_all_history() -> None:
    home, side, job_id = parted()
    first, second = fire_twice(side)
    claim(home, side, job_id)
    assert home.state.stand_ins == {first: N3, second: N3}
    home.do(account_of(side, first))

    home.do(Forget(pasts=home.pasts()))

    assert not [key for key in home.rows if key[0] > Table.HISTORY or key[0] is Table.STAND_IN]


# -- a shard and a side ----------------------------------------------------------------------------


def parted(
    *, misfire: Misfire = Misfire.ALL, overlap: Overlap = Overlap.ALLOW
) -> tuple[Shard, Shard, JobId]:
    """Return a shard with an available job, due each ten seconds, and a side that follows it."""
    home, side = Shard(), Shard(node_id=N3)
    job_id = home.save(
        schedules=every("*/10 * * * * *"), misfire=misfire, overlap=overlap, consistency=AVAILABLE
    )
    follow(home, side, job_id)
    return home, side, job_id


def follow(home: Shard, side: Shard, job_id: JobId) -> None:
    """Have *side* follow the job as *home* has it."""
    side.do(FollowJob(job=home.state.jobs[job_id], plan=home.state.plans[job_id]))


def fire_once(shard: Shard) -> list[ExecutionId]:
    """Let the job fire once more, and return all of its executions."""
    shard.pass_time(Duration(10 * SECOND))
    return [each.id for each in shard.executions()]


def fire_twice(shard: Shard) -> list[ExecutionId]:
    """Likewise, twice; the first ends in between unless it waits for another."""
    fire_once(shard)
    return fire_once(shard)


def claim(home: Shard, side: Shard, job_id: JobId, node_id: NodeId = N3) -> None:
    """Have a stand-in tell of its ledger, when its time has come at home as well."""
    home.clock = max(home.clock, side.clock)
    home.do(claim_of(side, job_id, node_id))


def claim_of(side: Shard, job_id: JobId, node_id: NodeId = N3) -> ReconcileFires:
    """Return what a stand-in tells of its ledger."""
    version = side.state.jobs[job_id].version
    return ReconcileFires(
        job_id=job_id, version=version, node_id=node_id, entries=tuple(side.ledger())
    )


def account_of(side: Shard, execution_id: ExecutionId, node_id: NodeId = N3) -> ReconcileExecution:
    """Return what a stand-in tells of an execution, ended by now."""
    if execution_id in side.state.executions:
        side.finish(execution_id)
    execution = side.execution(execution_id)
    account = StandInExecution(
        node_id=node_id, execution=execution, tasks=(side.task(execution_id),)
    )
    return ReconcileExecution(fallback_copy=AllocationId(f"side of {node_id}"), ended=account)
