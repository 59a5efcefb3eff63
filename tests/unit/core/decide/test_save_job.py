"""Jobs are made, triggered and taken away."""

import pytest
from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.attempt import Outcome
from rota.core.model.ids import JobId, slot_of, slot_of_id
from rota.core.model.job import Overlap, problems_of
from rota.core.timing.instants import Duration
from rota.core.timing.schedule import Schedule, checked
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import DeleteJob, Fire, SaveJob, Trigger
from rota.core.vocabulary.decision import JobSaved, Limits
from rota.core.vocabulary.effects import ClearTimer, SetTimer, Timescale
from unit.core.shard import ONE_TASK, Shard, at, every, job, task

# --- the same name -------------------------------------------------------------------------------


def test_a_saved_job_carries_its_slot_and_its_first_version() -> None:
    shard = Shard()

    job_id = shard.save(name="report")

    saved = shard.state.jobs[job_id]
    assert (saved.version, saved.spec.full_name) == (1, "default/report")
    assert slot_of_id(job_id) == slot_of("default", "report")


def test_an_identical_job_is_the_answer_to_its_repetition() -> None:
    shard = Shard()
    first = shard.do(SaveJob(spec=job(name="report")))
    rows = dict(shard.rows)

    second = shard.do(SaveJob(spec=job(name="report")))

    assert isinstance(first, JobSaved)
    assert second == JobSaved(first.job_id, version=1, is_new=False)
    assert shard.rows == rows
    assert shard.effects == []


def test_another_job_of_the_same_name_is_refused() -> None:
    shard = Shard()
    shard.save(name="report")

    with pytest.raises(Refused, match="job_exists") as caught:
        shard.save(task("other"), name="report")

    assert caught.value.kind is Kind.CONFLICT


@pytest.mark.parametrize(
    ("due", "is_taken"),
    [("2027-01-04T11:59:49Z", False), ("2027-01-04T11:59:50Z", True), ("2027-01-05T00:00Z", True)],
)
def test_an_instant_later_than_its_grace_needs_a_misfire_policy(due: str, is_taken: bool) -> None:
    spec = job(schedules=every(f"@at {due}"))

    assert takes(Shard(), SaveJob(spec=spec, may_be_past=False)) is is_taken
    assert takes(Shard(), SaveJob(spec=spec, may_be_past=True))


def test_an_instant_that_has_passed_stays_in_a_job_that_is_replaced_and_comes_into_none() -> None:
    shard = Shard()
    past, other = every("@at 2027-01-04T11:00:00Z"), every("@at 2027-01-04T10:00:00Z")
    shard.save_spec(job(schedules=past))

    kept = SaveJob(spec=job(schedules=past, priority=1), may_replace=True, may_be_past=False)
    added = SaveJob(spec=job(schedules=past + other), may_replace=True, may_be_past=False)

    assert takes(shard, kept)
    assert not takes(shard, added)


@pytest.mark.parametrize(
    ("end_at", "is_taken"), [("2027-01-04T12:00:00Z", False), ("2027-01-04T12:01:00Z", True)]
)
def test_a_schedule_that_has_ended_needs_a_misfire_policy(end_at: str, is_taken: bool) -> None:
    ended = checked(Schedule(text="* * * * *", end_at=end_at))
    shard, spec = Shard(), job(schedules=(ended,))

    assert takes(shard, SaveJob(spec=spec, may_be_past=False)) is is_taken
    assert takes(shard, SaveJob(spec=spec, may_be_past=True))
    [plan] = shard.state.plans.values()
    assert plan.next_fires == (at("12:01") if is_taken else None,)


def takes(shard: Shard, command: SaveJob) -> bool:
    """Return True if *command* is carried out; another refusal than of past instants fails."""
    try:
        shard.do(command)
    except Refused as refusal:
        if refusal.code != "past_schedule":
            raise
        return False
    return True


def test_the_same_name_in_another_namespace_is_another_job() -> None:
    shard = Shard()

    one, other = shard.save(name="report"), shard.save(name="report", namespace="team-a")

    assert one != other


def test_a_full_shard_takes_no_more_jobs() -> None:
    shard = Shard(limits=Limits(jobs=1))
    shard.save(name="one")

    with pytest.raises(Refused, match="too_many_jobs") as caught:
        shard.save(name="two")

    assert caught.value.retry_after_s
    assert len(shard.state.jobs) == 1


def test_two_jobs_of_one_slot_get_two_ids_even_from_the_same_entropy() -> None:
    shard = Shard(entropy=7)
    first = shard.save(name="report")
    second_spec = job(name="report", namespace="default")
    shard.state.names.clear()

    second = shard.save_spec(second_spec)

    assert first != second
    assert slot_of_id(first) == slot_of_id(second)


def test_a_saved_schedule_has_its_timer() -> None:
    shard = Shard(clock=at("12:00:30"))

    job_id = shard.save(schedules=every("* * * * *"))

    fire = Fire(job_id=job_id)
    assert shard.all_effects(SetTimer) == [SetTimer(at("12:01"), fire, Timescale.WALL)]


def test_the_execution_of_a_one_off_job_begins_in_the_entry_that_creates_it() -> None:
    shard = Shard()
    due = every("@at 2027-01-04T12:00:00Z")

    shard.do(SaveJob(spec=replace(job(schedules=due), is_one_off=True)))

    [execution_id] = shard.live()
    shard.finish(execution_id)
    assert shard.status(execution_id) == "success"


def test_a_version_of_0_stands_for_no_job() -> None:
    shard = Shard()
    shard.do(SaveJob(spec=job(), may_replace=True, if_version=0))

    with pytest.raises(Refused, match="exists already, at version 1") as refused:
        shard.do(SaveJob(spec=job(), may_replace=True, if_version=0))

    assert refused.value.kind is Kind.PRECONDITION


def test_a_manual_job_has_no_timer() -> None:
    shard = Shard()

    shard.save(schedules=every("@manual"))

    assert shard.all_effects(SetTimer) == []


# --- triggers ------------------------------------------------------------------------------------


def test_a_trigger_of_no_job_is_refused() -> None:
    with pytest.raises(Refused, match="job_not_found"):
        Shard().trigger(JobId("740e000000000000"))


def test_a_full_shard_takes_no_more_triggers_until_one_has_finished() -> None:
    shard = Shard(limits=Limits(executions=1))
    job_id = shard.save()
    first = shard.trigger(job_id)
    with pytest.raises(Refused, match="too_many_executions"):
        shard.trigger(job_id)
    shard.finish(first)

    second = shard.trigger(job_id)

    assert shard.status(second) == "running"


def test_triggers_of_one_entry_make_different_executions() -> None:
    shard = Shard(entropy=7)
    job_id = shard.save()

    replies = shard.do_together(*[Trigger(job_id=job_id)] * 50)

    assert len(set(replies)) == 50
    assert len(shard.live()) == 50


# --- taking away ---------------------------------------------------------------------------------


def test_a_deleted_job_leaves_nothing_that_schedules() -> None:
    shard = Shard()
    job_id = shard.save(schedules=every("* * * * *"))

    shard.delete(job_id)

    assert {table for table, _ in shard.rows} == {Table.CHANGE_CHAIN, Table.USER_CHANGE}
    assert shard.timers == {}
    assert len(shard.all_effects(ClearTimer)) == 1


def test_no_job_cannot_be_deleted() -> None:
    shard = Shard()
    job_id = shard.save()
    shard.delete(job_id)

    with pytest.raises(Refused, match="job_not_found"):
        shard.do(DeleteJob(job_id=job_id))


def test_a_deleted_jobs_executions_are_cancelled() -> None:
    shard = Shard()
    job_id = shard.save(task("main"), task("next", "main"))
    first, second = shard.trigger(job_id), shard.trigger(job_id)

    shard.delete(job_id)
    shard.finish(first, outcome=Outcome.CANCELLED)
    shard.finish(second, outcome=Outcome.SUCCEEDED)

    assert (shard.status(first), shard.status(second)) == ("cancelled", "cancelled")
    assert shard.state.executions == {}


def test_a_deleted_jobs_definition_stays_while_something_runs_of_it() -> None:
    shard = Shard()
    job_id = shard.save()
    first, second = shard.trigger(job_id), shard.trigger(job_id)
    shard.delete(job_id)

    at_first = shard.keys(Table.VERSION)
    shard.finish(first)
    between = shard.keys(Table.VERSION)
    shard.finish(second)

    assert at_first == between == [f"{job_id}/1"]
    assert shard.keys(Table.VERSION) == []


def test_a_deleted_jobs_definition_is_dropped_at_once_if_nothing_runs_of_it() -> None:
    shard = Shard(slots=0)
    job_id = shard.save()
    shard.trigger(job_id)

    shard.delete(job_id)

    assert shard.keys(Table.VERSION) == []
    assert shard.state.executions == {}


def test_deleting_a_job_starts_none_of_its_executions() -> None:
    """The end of the one that runs must not release the one that waits for it."""
    shard = Shard(slots=0)
    job_id = shard.save(overlap=Overlap.QUEUE_ONE)
    shard.trigger(job_id)
    shard.trigger(job_id)
    shard.slots = 1

    shard.delete(job_id)

    assert {shard.status(one.id) for one in shard.executions()} == {"cancelled"}
    assert shard.started_count == 0


def test_a_name_is_free_again_after_its_job_is_deleted() -> None:
    shard = Shard()
    first = shard.save(name="report")
    shard.delete(first)

    second = shard.save(task("other"), name="report")

    assert first != second
    assert shard.state.jobs[second].version == 1


def test_history_outlives_its_job() -> None:
    shard = Shard()
    job_id = shard.save()
    execution_id = shard.trigger(job_id)
    shard.finish(execution_id)

    shard.delete(job_id)

    assert shard.status(execution_id) == "success"
    assert shard.execution(execution_id).job_name == "default/job"


# --- what is refused at the edge -----------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "report", "/report", "default/", "default/a b", "a/b/c", "default/-x", "ä/b"]
)
def test_a_dependency_that_is_no_full_name_is_refused(name: str) -> None:
    (problem,) = problems_of(job(dependencies=("default/good", name)))

    assert problem.pointer == "/dependencies/1"
    assert repr(name) in problem.detail


def test_a_sound_job_has_no_problems() -> None:
    assert list(problems_of(job(dependencies=("team-a/b.c_d", "default/x")))) == []


def test_a_job_cannot_depend_on_itself_nor_twice_on_another() -> None:
    spec = job(name="job", dependencies=("default/job", "default/x", "default/x"))

    problems = problems_of(spec)

    assert [problem.pointer for problem in problems] == ["/dependencies/0", "/dependencies/2"]


def test_every_problem_is_reported_at_once() -> None:
    spec = job(task("bad name"), task("a", "nothing"), name="-", grace=Duration(-1))

    pointers = {problem.pointer for problem in problems_of(spec)}

    assert pointers == {"/name", "/tasks/0/name", "/grace", "/tasks/1/needs/0"}
    assert list(problems_of(job(*ONE_TASK))) == []
