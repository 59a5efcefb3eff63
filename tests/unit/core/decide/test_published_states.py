"""Published events: every new state once, with time, attempt and reason."""

from rota.core.model.attempt import Outcome
from rota.core.model.retry import Fixed, RetryPolicy
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.commands import PauseJob, ResumeJob, SaveJob
from rota.core.vocabulary.effects import Consequence, Publish, PublishJob
from unit.core.shard import Shard, job, task

RETRIED = task("main", retry=RetryPolicy(limit=1, backoff=Fixed(delay=Duration(SECOND))))


def test_every_event_has_its_job_and_the_time_of_the_decision() -> None:
    shard = Shard()
    job_id = shard.save(name="report", namespace="sales")

    execution_id = shard.trigger(job_id)

    events = shard.all_effects(Publish)
    assert {event.at for event in events} == {shard.decided_at}
    assert {event.job for event in events} == {"sales/report"}
    assert {(event.job_id, event.execution_id) for event in events} == {(job_id, execution_id)}


def test_a_retry_is_published_with_its_attempts_and_the_reason() -> None:
    shard = Shard()
    execution_id = shard.run(RETRIED)

    shard.fail(execution_id)
    failed = states_of(shard.effects)
    shard.pass_time(Duration(2 * SECOND))
    again = states_of(shard.effects)
    shard.fail(execution_id)
    over = states_of(shard.effects)

    assert failed == [("main", "backing_off", 1, "ended failed")]
    assert again == [("main", "running", 2, "")]
    assert over == [
        ("main", "failed", 2, "ended failed"),
        ("", "failed", 0, "task main failed: ended failed"),
    ]


def test_a_task_without_a_slot_is_published_as_ready_once() -> None:
    shard = Shard(slots=0)

    execution_id = shard.run()
    waits = states_of(shard.effects)
    shard.start(execution_id)
    still_waits = states_of(shard.effects)
    shard.slots = 1
    shard.start(execution_id)
    runs = states_of(shard.effects)

    assert waits == [("", "queued", 0, ""), ("main", "ready", 0, "")]
    assert still_waits == []
    assert runs == [("", "running", 0, ""), ("main", "running", 1, "")]


def test_a_lost_attempt_is_followed_by_the_next_in_the_same_entry() -> None:
    shard = Shard()
    shard.run()

    shard.lose_node()

    assert states_of(shard.effects) == [("main", "running", 2, "")]


def test_tasks_that_never_run_are_skipped_or_cancelled_without_an_attempt() -> None:
    shard = Shard()
    execution_id = shard.run(task("a"), task("b", "a"))
    other_id = shard.run(task("a"), task("b", "a"), name="other")

    shard.finish(execution_id, "a", Outcome.FAILED)
    skipped = states_of(shard.effects)
    shard.cancel(other_id)
    cancelled = states_of(shard.effects)

    assert skipped[1] == ("b", "skipped", 0, "upstream_failed")
    assert cancelled == [("b", "cancelled", 0, "")]


def test_changes_of_a_job_are_published() -> None:
    shard = Shard()

    job_id = shard.save(name="report")
    created = job_events_of(shard.effects)
    shard.do(SaveJob(spec=job(name="report", description="new"), may_replace=True))
    replaced = job_events_of(shard.effects)
    shard.do(PauseJob(job_id=job_id, by="ann", reason="moving house"))
    paused = job_events_of(shard.effects)
    shard.do(ResumeJob(job_id=job_id))
    resumed = job_events_of(shard.effects)
    shard.delete(job_id)
    deleted = job_events_of(shard.effects)

    assert [*created, *replaced, *paused, *resumed, *deleted] == [
        ("created", "version 1"),
        ("replaced", "version 2"),
        ("paused", "by ann: moving house"),
        ("resumed", ""),
        ("deleted", ""),
    ]


def test_commands_that_do_not_change_a_job_publish_nothing() -> None:
    shard = Shard()
    job_id = shard.save(name="report")

    shard.do(SaveJob(spec=job(name="report"), may_replace=True))
    saved_again = job_events_of(shard.effects)
    shard.do(ResumeJob(job_id=job_id))
    not_paused = job_events_of(shard.effects)
    shard.do(PauseJob(job_id=job_id))
    shard.do(PauseJob(job_id=job_id))
    paused_again = job_events_of(shard.effects)

    assert (saved_again, not_paused, paused_again) == ([], [], [])


def test_a_pause_is_published_with_only_a_name_or_only_a_reason() -> None:
    shard = Shard()
    one, other = shard.save(name="one"), shard.save(name="other")

    shard.do(PauseJob(job_id=one, reason="moving house"))
    nameless = job_events_of(shard.effects)
    shard.do(PauseJob(job_id=other, by="ann"))
    reasonless = job_events_of(shard.effects)

    assert (nameless, reasonless) == ([("paused", "moving house")], [("paused", "by ann")])


def test_the_deletion_of_a_job_is_published_before_the_ends_of_its_executions() -> None:
    shard = Shard()
    shard.slots = 0
    job_id = shard.save()
    shard.trigger(job_id)

    shard.delete(job_id)

    kinds = [type(each) for each in shard.effects if isinstance(each, Publish | PublishJob)]
    assert kinds == [PublishJob, Publish, Publish]


def states_of(effects: list[Consequence]) -> list[tuple[str, str, int, str]]:
    """Return the published states of executions and tasks: task, state, attempt, reason."""
    return [
        (each.task, each.status.value, each.attempt, each.detail)
        for each in effects
        if isinstance(each, Publish)
    ]


def job_events_of(effects: list[Consequence]) -> list[tuple[str, str]]:
    """Return the published events of jobs, with their details."""
    return [(each.event.value, each.detail) for each in effects if isinstance(each, PublishJob)]
