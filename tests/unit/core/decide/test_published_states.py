"""Whoever watches is told of every new state, once, with when, which attempt and why."""

from rota.core.model.attempt import Outcome
from rota.core.model.retry import Fixed, RetryPolicy
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.commands import PauseJob, ResumeJob, SaveJob
from rota.core.vocabulary.effects import Consequence, Publish, PublishJob
from unit.core.shard import Shard, job, task

RETRIED = task("main", retry=RetryPolicy(limit=1, backoff=Fixed(delay=Duration(SECOND))))


def test_every_event_tells_its_job_and_when_it_was_decided() -> None:
    shard = Shard()
    job_id = shard.save(name="report", namespace="sales")

    execution_id = shard.trigger(job_id)

    events = shard.all_effects(Publish)
    assert {event.at for event in events} == {shard.decided_at}
    assert {event.job for event in events} == {"sales/report"}
    assert {(event.job_id, event.execution_id) for event in events} == {(job_id, execution_id)}


def test_a_retry_is_told_with_its_attempts_and_the_reason() -> None:
    shard = Shard()
    execution_id = shard.run(RETRIED)

    shard.fail(execution_id)
    failed = told(shard.effects)
    shard.pass_time(Duration(2 * SECOND))
    again = told(shard.effects)
    shard.fail(execution_id)
    over = told(shard.effects)

    assert failed == [("main", "backing_off", 1, "ended failed")]
    assert again == [("main", "running", 2, "")]
    assert over == [
        ("main", "failed", 2, "ended failed"),
        ("", "failed", 0, "task main failed: ended failed"),
    ]


def test_a_task_without_a_place_is_ready_and_told_so_once() -> None:
    shard = Shard(slots=0)

    execution_id = shard.run()
    waits = told(shard.effects)
    shard.start(execution_id)
    still_waits = told(shard.effects)
    shard.slots = 1
    shard.start(execution_id)
    runs = told(shard.effects)

    assert waits == [("", "queued", 0, ""), ("main", "ready", 0, "")]
    assert still_waits == []
    assert runs == [("", "running", 0, ""), ("main", "running", 1, "")]


def test_a_lost_attempt_is_followed_by_the_next_in_the_same_entry() -> None:
    shard = Shard()
    shard.run()

    shard.lose_node()

    assert told(shard.effects) == [("main", "running", 2, "")]


def test_tasks_that_never_run_are_skipped_or_cancelled_without_an_attempt() -> None:
    shard = Shard()
    execution_id = shard.run(task("a"), task("b", "a"))
    other_id = shard.run(task("a"), task("b", "a"), name="other")

    shard.finish(execution_id, "a", Outcome.FAILED)
    skipped = told(shard.effects)
    shard.cancel(other_id)
    cancelled = told(shard.effects)

    assert skipped[1] == ("b", "skipped", 0, "upstream_failed")
    assert cancelled == [("b", "cancelled", 0, "")]


def test_what_is_done_to_a_job_is_told() -> None:
    shard = Shard()

    job_id = shard.save(name="report")
    created = jobs_told(shard.effects)
    shard.do(SaveJob(spec=job(name="report", description="new"), may_replace=True))
    replaced = jobs_told(shard.effects)
    shard.do(PauseJob(job_id=job_id, by="ann", reason="moving house"))
    paused = jobs_told(shard.effects)
    shard.do(ResumeJob(job_id=job_id))
    resumed = jobs_told(shard.effects)
    shard.delete(job_id)
    deleted = jobs_told(shard.effects)

    assert [*created, *replaced, *paused, *resumed, *deleted] == [
        ("created", "version 1"),
        ("replaced", "version 2"),
        ("paused", "by ann: moving house"),
        ("resumed", ""),
        ("deleted", ""),
    ]


def test_what_changes_nothing_of_a_job_is_not_told() -> None:
    shard = Shard()
    job_id = shard.save(name="report")

    shard.do(SaveJob(spec=job(name="report"), may_replace=True))
    saved_again = jobs_told(shard.effects)
    shard.do(ResumeJob(job_id=job_id))
    not_paused = jobs_told(shard.effects)
    shard.do(PauseJob(job_id=job_id))
    shard.do(PauseJob(job_id=job_id))
    paused_again = jobs_told(shard.effects)

    assert (saved_again, not_paused, paused_again) == ([], [], [])


def test_a_pause_without_a_name_or_a_reason_is_told_with_what_there_is() -> None:
    shard = Shard()
    one, other = shard.save(name="one"), shard.save(name="other")

    shard.do(PauseJob(job_id=one, reason="moving house"))
    nameless = jobs_told(shard.effects)
    shard.do(PauseJob(job_id=other, by="ann"))
    reasonless = jobs_told(shard.effects)

    assert (nameless, reasonless) == ([("paused", "moving house")], [("paused", "by ann")])


def test_a_deleted_job_is_told_before_the_ends_of_its_executions() -> None:
    shard = Shard()
    shard.slots = 0
    job_id = shard.save()
    shard.trigger(job_id)

    shard.delete(job_id)

    kinds = [type(each) for each in shard.effects if isinstance(each, Publish | PublishJob)]
    assert kinds == [PublishJob, Publish, Publish]


def told(effects: list[Consequence]) -> list[tuple[str, str, int, str]]:
    """Return what is told of executions and tasks: task, state, attempt, why."""
    return [
        (each.task, each.status.value, each.attempt, each.detail)
        for each in effects
        if isinstance(each, Publish)
    ]


def jobs_told(effects: list[Consequence]) -> list[tuple[str, str]]:
    """Return what is told of jobs: what was done, and more about it."""
    return [(each.event.value, each.detail) for each in effects if isinstance(each, PublishJob)]
