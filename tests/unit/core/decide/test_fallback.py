"""Fires of a stand-in on its fallback shard, and their reconciliation with the shard.

*home* is the shard at its primary, *fallback* the fallback shard of a node that is cut off.
"""

from rota.core.decide.fallback import duplicate_key
from rota.core.model.attempt import Outcome
from rota.core.model.execution import ExecutionStatus
from rota.core.model.hook import Hook, HookEvent
from rota.core.model.ids import AllocationId, ExecutionId, JobId, NodeId
from rota.core.model.job import Consistency, Misfire, Overlap, SchedulePolicy, problems_of
from rota.core.model.ledger import FireOutcome
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.changes import StandInExecution, Table
from rota.core.vocabulary.commands import (
    DeleteJob,
    FollowJob,
    Forget,
    NoteLate,
    ReconcileExecution,
    ReconcileFires,
    ResumeJob,
    SaveJob,
)
from rota.core.vocabulary.effects import JobEvent, PublishFires, PublishJob
from unit.core.shard import Shard, at, every, job

AVAILABLE = Consistency.AVAILABLE
N3 = NodeId("n3")
URL = "https://hooks.example.com"
HOOKS = (Hook(event=HookEvent.FAILURE, webhook=URL), Hook(event=HookEvent.LATE, webhook=URL))


def test_a_fallback_shard_fires_a_job_under_the_ids_that_the_shard_would_give() -> None:
    home, fallback, job_id = home_and_fallback()

    home.pass_time(Duration(10 * SECOND))
    fallback.pass_time(Duration(10 * SECOND))

    assert [each.id for each in fallback.executions()] == [each.id for each in home.executions()]
    assert fallback.outcomes() == home.outcomes() == [("12:00:10", 1, "fired")]
    assert fallback.executions()[0].job_id == job_id


def test_fires_that_only_a_fallback_shard_decided_are_added_to_the_ledger() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(fallback)

    claim(home, fallback, job_id)

    assert home.outcomes() == [("12:00:10", 1, "fired"), ("12:00:20", 1, "fired")]
    assert [each.reason for each in home.ledger()] == ["decided by the stand-in n3"] * 2
    assert home.state.plans[job_id].next_fires == (at("12:00:30"),)
    assert list(home.state.stand_ins.values()) == [N3, N3]
    assert home.executions() == []
    home.ring_timers()
    assert len(home.outcomes()) == 2


def test_a_claim_of_fire_times_with_an_outcome_changes_nothing() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(fallback)
    fire_twice(home)
    before = dict(home.rows)

    claim(home, fallback, job_id)

    assert home.rows == before


def test_a_claim_that_comes_again_changes_nothing() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(fallback)
    claim(home, fallback, job_id)
    before = dict(home.rows)

    claim(home, fallback, job_id)

    assert home.rows == before


def test_of_fire_times_that_share_an_entry_only_those_without_an_outcome_are_taken() -> None:
    home, fallback, job_id = home_and_fallback(misfire=Misfire.SKIP)
    home.pass_time(Duration(10 * SECOND))
    fallback.pass_time(Duration(60 * SECOND))
    assert fallback.outcomes()[0] == ("12:00:10", 4, "missed")

    claim(home, fallback, job_id)

    assert home.outcomes()[:2] == [("12:00:10", 1, "fired"), ("12:00:20", 3, "missed")]
    assert sum(count for _, count, _ in home.outcomes()) == 6


def test_a_claim_with_a_gap_before_it_is_not_taken() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(fallback)
    whole = claim_of(fallback, job_id)
    home.clock = fallback.clock

    home.do(ReconcileFires(job_id=job_id, version=1, node_id=N3, entries=whole.entries[1:]))

    assert home.outcomes() == []
    assert home.state.plans[job_id].next_fires == (at("12:00:10"),)


def test_a_stand_in_with_a_wrong_clock_claims_no_future_fire_time() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(fallback)
    home.clock = at("12:00:15")

    home.do(claim_of(fallback, job_id))

    assert home.outcomes() == [("12:00:10", 1, "fired")]
    [published] = home.all_effects(PublishFires)
    assert (published.outcome, published.fire_at) == (FireOutcome.FIRED, at("12:00:10"))
    assert home.state.plans[job_id].next_fires == (at("12:00:20"),)


def test_a_claim_of_another_version_is_not_taken() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(fallback)
    fresh = job(schedules=every("*/10 * * * * *"), consistency=AVAILABLE, priority=1)
    home.do(SaveJob(spec=fresh, may_replace=True))

    claim(home, fallback, job_id)

    assert home.state.stand_ins == {}


def test_the_stand_ins_record_of_a_claimed_execution_becomes_the_shards() -> None:
    home, fallback, job_id = home_and_fallback()
    [execution_id] = fire_once(fallback)
    claim(home, fallback, job_id)
    fallback.finish(execution_id, outcome=Outcome.FAILED)

    home.do(record_of(fallback, execution_id))

    assert home.execution(execution_id).status is ExecutionStatus.FAILED
    assert home.execution(execution_id).stand_in == N3
    assert home.task(execution_id) == fallback.task(execution_id)
    assert home.state.stand_ins == {}
    assert home.keys(Table.DUPLICATE) == []


def test_hooks_are_run_by_the_shard_when_a_stand_ins_records_arrive() -> None:
    home, fallback, job_id = home_and_fallback(misfire=Misfire.SKIP, hooks=HOOKS)
    [execution_id] = fire_once(fallback)
    fallback.finish(execution_id, outcome=Outcome.FAILED)
    fallback.pass_time(Duration(60 * SECOND))
    assert fallback.outcomes()[1] == ("12:00:20", 4, "missed")
    assert not fallback.state.notifications
    assert [each for each in fallback.timers if isinstance(each.command, NoteLate)] == []

    claim(home, fallback, job_id)
    home.do(record_of(fallback, execution_id))

    keys = list(home.state.notifications)
    assert keys == [f"{job_id}-{at('12:00:20'):014x}-0000.late.1", f"{execution_id}.failure.0"]
    assert home.state.plans[job_id].is_failing


def test_the_stand_ins_record_of_an_execution_that_the_shard_ran_is_a_possible_duplicate() -> None:
    home, fallback, job_id = home_and_fallback()
    [execution_id] = fire_once(fallback)
    assert fire_once(home) == [execution_id]
    claim(home, fallback, job_id)
    fallback.finish(execution_id)

    home.do(record_of(fallback, execution_id))

    double = home.read(Table.DUPLICATE, duplicate_key(execution_id, N3), StandInExecution)
    assert double.execution == fallback.execution(execution_id)
    assert home.execution(execution_id).status is ExecutionStatus.RUNNING
    [event] = [each for each in home.effects if isinstance(each, PublishJob)]
    assert event.event is JobEvent.POSSIBLE_DUPLICATE
    assert execution_id in event.detail


def test_a_repeated_record_is_no_duplicate_of_itself() -> None:
    home, fallback, job_id = home_and_fallback()
    [execution_id] = fire_once(fallback)
    claim(home, fallback, job_id)
    fallback.finish(execution_id)
    home.do(record_of(fallback, execution_id))
    before = dict(home.rows)

    home.do(record_of(fallback, execution_id))

    assert home.rows == before


def test_a_fire_time_that_two_stand_ins_claim_belongs_to_one_and_the_other_is_a_duplicate() -> None:
    home, fallback, job_id = home_and_fallback()
    [execution_id] = fire_once(fallback)
    fallback.finish(execution_id)
    claim(home, fallback, job_id, NodeId("n2"))
    claim(home, fallback, job_id)

    home.do(record_of(fallback, execution_id))
    home.do(record_of(fallback, execution_id, NodeId("n2")))

    assert home.execution(execution_id).stand_in == "n2"
    assert home.keys(Table.DUPLICATE) == [duplicate_key(execution_id, N3)]


def test_jobs_that_depend_on_a_claimed_execution_get_its_success() -> None:
    home, fallback, job_id = home_and_fallback()
    home.save(name="after", dependencies=("default/job",))
    home.deliver()
    [execution_id] = fire_once(fallback)
    claim(home, fallback, job_id)
    fallback.finish(execution_id)

    home.do(record_of(fallback, execution_id))
    home.deliver()

    assert [each.job_name for each in home.state.executions.values()] == ["default/after"]


def test_a_fallback_shard_that_follows_a_job_again_does_not_repeat_its_fires() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(fallback)

    follow(home, fallback, job_id)

    assert fallback.state.plans[job_id].next_fires == (at("12:00:30"),)


def test_a_fallback_shard_continues_after_the_last_fire_of_the_shard() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(home)

    follow(home, fallback, job_id)

    assert fallback.state.plans[job_id].next_fires == (at("12:00:30"),)


def test_a_fallback_shard_continues_the_count_of_a_schedule_that_ends() -> None:
    home, fallback, job_id = home_and_fallback(most=3)
    fire_twice(home)

    follow(home, fallback, job_id)
    fire_twice(fallback)
    follow(home, fallback, job_id)
    fire_twice(fallback)

    assert fallback.outcomes() == [("12:00:30", 1, "fired")]


def test_the_fires_that_a_stand_in_claims_count_towards_the_end_of_a_schedule() -> None:
    home, fallback, job_id = home_and_fallback(most=3)
    fire_once(home)
    follow(home, fallback, job_id)
    fire_twice(fallback)

    claim(home, fallback, job_id)
    fire_twice(home)

    fired = [("12:00:10", 1, "fired"), ("12:00:20", 1, "fired"), ("12:00:30", 1, "fired")]
    assert home.outcomes() == fired
    assert home.state.plans[job_id].next_fires == (None,)


def test_a_fallback_shard_gives_the_ids_of_the_shard_after_the_clock_was_set_back_too() -> None:
    home, fallback, job_id = home_and_fallback()
    fire_twice(home)
    home.clock = at("12:00:05")
    home.do(ResumeJob(job_id=job_id))
    assert home.state.plans[job_id].round == 1
    fallback.clock = home.clock

    follow(home, fallback, job_id)
    fallback.pass_time(Duration(5 * SECOND))
    home.pass_time(Duration(5 * SECOND))

    assert [each.id for each in fallback.executions()] == [home.executions()[-1].id]


def test_an_execution_of_a_fallback_shard_keeps_its_version_when_the_job_changes() -> None:
    home, fallback, job_id = home_and_fallback()
    [execution_id] = fire_once(fallback)
    fresh = job(schedules=every("*/10 * * * * *"), consistency=AVAILABLE, priority=1)
    home.do(SaveJob(spec=fresh, may_replace=True))

    follow(home, fallback, job_id)
    fallback.finish(execution_id)

    assert fallback.execution(execution_id).job_version == 1


def test_the_overlap_policy_holds_among_the_executions_of_a_fallback_shard() -> None:
    home, fallback, _ = home_and_fallback(overlap=Overlap.SKIP)
    home.pass_time(Duration(10 * SECOND))

    fire_twice(fallback)

    assert fallback.outcomes() == [("12:00:10", 1, "fired"), ("12:00:20", 1, "skipped")]


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
    home, fallback, job_id = home_and_fallback()
    first, second = fire_twice(fallback)
    claim(home, fallback, job_id)
    assert home.state.stand_ins == {first: N3, second: N3}
    home.do(record_of(fallback, first))

    home.do(Forget(pasts=home.pasts()))

    assert home.history_keys() == []
    assert home.keys(Table.STAND_IN) == []


# -- a shard and its fallback shard ----------------------------------------------------------------


def home_and_fallback(
    *,
    misfire: Misfire = Misfire.ALL,
    overlap: Overlap = Overlap.ALLOW,
    hooks: tuple[Hook, ...] = (),
    most: int = 0,
) -> tuple[Shard, Shard, JobId]:
    """Return a shard with a job that is due every 10 s, and a fallback shard that follows it."""
    home, fallback = Shard(), Shard(node_id=N3)
    job_id = home.save(
        schedules=every("*/10 * * * * *"),
        misfire=misfire,
        overlap=overlap,
        consistency=AVAILABLE,
        hooks=hooks,
        policies=(SchedulePolicy(max_executions=most),),
        late_after=SECOND if hooks else Duration(0),
    )
    follow(home, fallback, job_id)
    return home, fallback, job_id


def follow(home: Shard, fallback: Shard, job_id: JobId) -> None:
    """Have *fallback* follow the job in the version and plan of *home*."""
    fallback.do(FollowJob(job=home.state.jobs[job_id], plan=home.state.plans[job_id]))


def fire_once(shard: Shard) -> list[ExecutionId]:
    """Have the job fire once, and return all its executions."""
    shard.pass_time(Duration(10 * SECOND))
    return [each.id for each in shard.executions()]


def fire_twice(shard: Shard) -> list[ExecutionId]:
    """Have the job fire twice, and return all its executions."""
    fire_once(shard)
    return fire_once(shard)


def claim(home: Shard, fallback: Shard, job_id: JobId, node_id: NodeId = N3) -> None:
    """Reconcile the ledger of a stand-in, after its fire times have come at home as well."""
    home.clock = max(home.clock, fallback.clock)
    home.do(claim_of(fallback, job_id, node_id))


def claim_of(fallback: Shard, job_id: JobId, node_id: NodeId = N3) -> ReconcileFires:
    """Return the command that reconciles the ledger of a stand-in."""
    version = fallback.state.jobs[job_id].version
    return ReconcileFires(
        job_id=job_id, version=version, node_id=node_id, entries=tuple(fallback.ledger())
    )


def record_of(
    fallback: Shard, execution_id: ExecutionId, node_id: NodeId = N3
) -> ReconcileExecution:
    """Return the command that reconciles an execution of a stand-in; end it first."""
    if execution_id in fallback.state.executions:
        fallback.finish(execution_id)
    execution = fallback.execution(execution_id)
    record = StandInExecution(
        node_id=node_id, execution=execution, tasks=(fallback.task(execution_id),)
    )
    return ReconcileExecution(fallback_copy=AllocationId(f"fallback of {node_id}"), ended=record)
