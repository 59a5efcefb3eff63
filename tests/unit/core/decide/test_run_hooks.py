"""Hooks: webhooks and jobs that follow the events of a job."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.decide.dispatch import pending
from rota.core.decide.outbox import OUTBOX_ITEMS_MAX
from rota.core.decide.run_hooks import NOTIFICATIONS_MAX, SHARD_NOTIFICATIONS_MAX
from rota.core.model.attempt import Outcome
from rota.core.model.hook import Hook, HookEvent, HookOutcome, Notification
from rota.core.model.ids import ExecutionId, JobId, fire_execution_id
from rota.core.model.job import JobPlan, Misfire, Overlap
from rota.core.timing.instants import MINUTE, SECOND, Duration, Instant
from rota.core.vocabulary.changes import Hooked, Table
from rota.core.vocabulary.commands import (
    EndNotification,
    NoteLate,
    PauseJob,
    ReceiveMessage,
    SaveJob,
)
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.disk_space import DiskSpace
from rota.core.vocabulary.effects import PublishHook, SendWebhook, SetTimer
from unit.core.shard import ONE_RETRY, Shard, every, job, task

URL = "https://hooks.example.com/T1/secret?token=2"
EVENTS = tuple(HookEvent)
TWO_MINUTES = Duration(2 * MINUTE)


def webhooks(*events: HookEvent) -> tuple[Hook, ...]:
    """Return a webhook for each event."""
    return tuple(Hook(event=event, webhook=f"{URL}&on={event.value}") for event in events)


def waiting(shard: Shard) -> list[tuple[ExecutionId, str]]:
    """Return execution and event of the notifications that wait."""
    return [(each.execution_id, each.event.value) for each in shard.state.notifications.values()]


def document(notification: Notification) -> dict[str, Any]:
    """Return the event of a notification."""
    found: dict[str, Any] = json.loads(notification.document)
    return found


def outcomes(shard: Shard) -> list[tuple[str, HookOutcome, str]]:
    """Return target, outcome and detail of the hooks that the last command published."""
    ended = [each for each in shard.effects if isinstance(each, PublishHook)]
    return [(each.target, each.outcome, each.detail) for each in ended]


def ended(shard: Shard, job_id: JobId, *, is_failure: bool) -> ExecutionId:
    """Trigger a job and end its execution."""
    execution_id = shard.trigger(job_id)
    if is_failure:
        shard.fail(execution_id)
    else:
        shard.finish(execution_id)
    return execution_id


def receive(shard: Shard) -> str:
    """Deliver the newest message, without its confirmation; return its key."""
    key, message = list(shard.messages.items())[-1]
    shard.do(ReceiveMessage(message=message, outbox_key=key))
    return key


def test_a_failure_makes_one_notification_in_the_entry_of_the_end() -> None:
    shard = Shard()
    execution_id = shard.run(hooks=webhooks(*EVENTS), late_after=MINUTE)
    assert not shard.state.notifications
    shard.clock = Instant(shard.clock + 3 * SECOND)

    shard.fail(execution_id)

    (sent,) = (each for each in shard.effects if isinstance(each, SendWebhook))
    (notification,) = shard.state.notifications.values()
    assert sent.notification == notification
    assert notification.key == f"{execution_id}.failure.0"
    assert notification.url == f"{URL}&on=failure"
    assert document(notification) == {
        "event": "failure",
        "job": "default/job",
        "jobId": execution_id[:16],
        "executionId": execution_id,
        "status": "failed",
        "trigger": "manual",
        "fireTime": "2027-01-04T12:00:00.000002Z",
        "startedAt": "2027-01-04T12:00:00.000002Z",
        "finishedAt": "2027-01-04T12:00:03.000000Z",
        "reason": "task main failed: ended failed",
    }
    assert shard.read(Table.NOTIFICATION, notification.key, Notification) == notification


def test_a_retried_attempt_is_no_failure_of_the_execution() -> None:
    shard = Shard()
    execution_id = shard.run(task("main", retry=ONE_RETRY), hooks=webhooks(HookEvent.FAILURE))

    shard.fail(execution_id)
    assert waiting(shard) == []
    shard.pass_time(TWO_MINUTES)
    shard.fail(execution_id)

    assert waiting(shard) == [(execution_id, "failure")]


def test_a_success_after_a_failure_is_a_recovery_as_well_and_only_the_first_one() -> None:
    shard = Shard()
    job_id = shard.save(hooks=webhooks(HookEvent.SUCCESS, HookEvent.RECOVERY))
    first = ended(shard, job_id, is_failure=False)
    ended(shard, job_id, is_failure=True)
    third = ended(shard, job_id, is_failure=False)
    fourth = ended(shard, job_id, is_failure=False)

    assert waiting(shard) == [
        (first, "success"),
        (third, "success"),
        (third, "recovery"),
        (fourth, "success"),
    ]


def test_a_cancelled_execution_runs_no_hooks_and_is_no_recovery() -> None:
    shard = Shard()
    job_id = shard.save(hooks=webhooks(*EVENTS), late_after=MINUTE)
    failed = ended(shard, job_id, is_failure=True)
    execution_id = shard.trigger(job_id)

    shard.cancel(execution_id)
    shard.pass_time(TWO_MINUTES)
    shard.finish(execution_id)
    assert waiting(shard) == [(failed, "failure")]
    recovered = ended(shard, job_id, is_failure=False)

    assert waiting(shard)[1:] == [(recovered, "success"), (recovered, "recovery")]


def test_a_job_that_fails_stays_so_when_it_is_replaced_and_gets_hooks() -> None:
    shard = Shard()
    job_id = shard.save()
    ended(shard, job_id, is_failure=True)
    assert shard.state.plans[job_id].is_failing

    shard.do(SaveJob(spec=job(hooks=webhooks(HookEvent.RECOVERY)), may_replace=True))
    execution_id = ended(shard, job_id, is_failure=False)

    assert waiting(shard) == [(execution_id, "recovery")]
    assert not shard.state.plans[job_id].is_failing


def test_the_plan_is_not_written_where_the_job_goes_on_as_before() -> None:
    shard = Shard()
    job_id = shard.save()
    before = shard.read(Table.PLAN, job_id, JobPlan)
    ended(shard, job_id, is_failure=False)
    plain = shard.change_count

    ended(shard, job_id, is_failure=False)
    assert shard.change_count == plain
    assert shard.read(Table.PLAN, job_id, JobPlan) == before
    ended(shard, job_id, is_failure=True)
    assert shard.change_count == plain + 1
    ended(shard, job_id, is_failure=True)
    assert shard.change_count == plain


def test_hooks_are_those_of_the_newest_definition() -> None:
    shard = Shard()
    execution_id = shard.run(hooks=webhooks(HookEvent.SUCCESS))

    shard.do(SaveJob(spec=job(hooks=webhooks(HookEvent.FAILURE)), may_replace=True))
    shard.fail(execution_id)

    assert waiting(shard) == [(execution_id, "failure")]


def test_an_execution_that_has_not_ended_in_time_is_late_once() -> None:
    shard = Shard()
    execution_id = shard.run(hooks=webhooks(HookEvent.LATE), late_after=MINUTE)
    shard.pass_time(Duration(59 * SECOND))
    assert waiting(shard) == []

    shard.pass_time(SECOND)
    assert waiting(shard) == [(execution_id, "late")]
    (notification,) = shard.state.notifications.values()
    assert document(notification)["status"] == "running"
    assert "finishedAt" not in document(notification)
    assert shard.execution(execution_id).late_at == 0
    shard.do(EndNotification(key=notification.key, outcome=HookOutcome.DELIVERED))
    shard.pass_time(TWO_MINUTES)

    assert waiting(shard) == []


def test_an_execution_that_ends_late_before_its_timer_rings_is_late_too() -> None:
    shard = Shard()
    execution_id = shard.run(hooks=webhooks(HookEvent.LATE), late_after=MINUTE)
    in_time = shard.run(name="other", hooks=webhooks(HookEvent.LATE), late_after=MINUTE)
    shard.clock = shard.execution(in_time).late_at
    shard.finish(in_time)
    assert waiting(shard) == []

    shard.clock = Instant(shard.clock + SECOND)
    shard.finish(execution_id)
    shard.pass_time(TWO_MINUTES)

    assert waiting(shard) == [(execution_id, "late")]


def test_an_execution_whose_teardown_runs_after_its_timeout_is_late() -> None:
    shard = Shard()
    execution_id = shard.run(
        task("work"),
        replace(task("delete"), is_teardown=True),
        hooks=webhooks(HookEvent.LATE),
        late_after=MINUTE,
        execution_timeout=SECOND,
    )
    shard.pass_time(SECOND)
    shard.finish(execution_id, "work", outcome=Outcome.CANCELLED)

    shard.pass_time(MINUTE)

    assert waiting(shard) == [(execution_id, "late")]


def test_a_timer_of_an_earlier_deadline_does_nothing() -> None:
    shard = Shard()
    execution_id = shard.run(hooks=webhooks(HookEvent.LATE), late_after=MINUTE)

    shard.do(NoteLate(execution_id=execution_id, deadline=Instant(1)))

    assert waiting(shard) == []


def test_an_execution_that_waits_for_a_slot_is_late_too() -> None:
    shard = Shard(slots=0)
    shard.save(schedules=every("@every 1h"), hooks=webhooks(HookEvent.LATE), late_after=MINUTE)
    shard.pass_time(Duration(61 * MINUTE))

    (execution_id,) = shard.live()
    assert waiting(shard) == [(execution_id, "late")]


def test_a_new_primary_sets_the_timer_again_and_sends_what_waits() -> None:
    shard = Shard()
    job_id = shard.save(hooks=webhooks(HookEvent.LATE, HookEvent.FAILURE), late_after=MINUTE)
    failed = ended(shard, job_id, is_failure=True)
    execution_id = shard.trigger(job_id)

    effects = list(pending(shard.state))

    (timer,) = (each for each in effects if isinstance(each, SetTimer))
    late_at = shard.execution(execution_id).late_at
    assert timer.due == late_at
    assert timer.command == NoteLate(execution_id=execution_id, deadline=late_at)
    (sent,) = (each for each in effects if isinstance(each, SendWebhook))
    assert sent.notification.execution_id == failed


def test_missed_fire_times_run_the_hooks_for_lateness_once_for_all_of_them() -> None:
    shard = Shard()
    job_id = shard.save(
        schedules=every("@every 1m"),
        misfire=Misfire.SKIP,
        hooks=webhooks(HookEvent.LATE),
        late_after=Duration(60 * MINUTE),
    )
    shard.clock = Instant(shard.clock + 10 * MINUTE + 30 * SECOND)
    shard.ring_timers()

    (entry,) = (each for each in shard.ledger() if each.outcome.value == "missed")
    assert entry.count == 10
    (notification,) = shard.state.notifications.values()
    assert notification.execution_id == fire_execution_id(job_id, entry.fire_at, 0)
    assert document(notification)["status"] == "missed"
    assert document(notification)["reason"] == entry.reason


def test_fire_times_missed_for_want_of_disk_space_run_no_hooks() -> None:
    shard = Shard(space=DiskSpace.SCARCE)
    shard.save(schedules=every("@every 1m"), hooks=webhooks(HookEvent.LATE), late_after=MINUTE)

    shard.pass_time(TWO_MINUTES)

    assert {each.outcome.value for each in shard.ledger()} == {"missed"}
    assert waiting(shard) == []


@pytest.mark.parametrize("outcome", [HookOutcome.DELIVERED, HookOutcome.FAILED])
def test_the_end_of_a_delivery_deletes_the_notification_and_is_published(
    outcome: HookOutcome,
) -> None:
    shard = Shard()
    shard.fail(shard.run(hooks=webhooks(HookEvent.FAILURE)))
    (key,) = shard.state.notifications
    end = EndNotification(key=key, outcome=outcome, detail="the receiver answered 500")

    shard.do(end)

    assert outcomes(shard) == [("https://hooks.example.com", outcome, end.detail)]
    assert not shard.state.notifications
    assert not shard.state.notification_counts
    assert shard.keys(Table.NOTIFICATION) == []
    shard.do(end)
    assert outcomes(shard) == []


def test_notifications_outlive_their_job() -> None:
    shard = Shard()
    job_id = shard.save(hooks=webhooks(HookEvent.FAILURE))
    execution_id = ended(shard, job_id, is_failure=True)

    shard.delete(job_id)

    assert waiting(shard) == [(execution_id, "failure")]


def test_a_job_whose_notifications_cannot_be_delivered_drops_the_newest() -> None:
    shard = Shard()
    job_id = shard.save(hooks=webhooks(HookEvent.FAILURE))
    other = shard.save(name="other", hooks=webhooks(HookEvent.FAILURE))
    for _ in range(NOTIFICATIONS_MAX):
        ended(shard, job_id, is_failure=True)
        assert outcomes(shard) == []

    ended(shard, job_id, is_failure=True)
    assert [each[:2] for each in outcomes(shard)] == [
        ("https://hooks.example.com", HookOutcome.DROPPED)
    ]
    assert len(shard.state.notifications) == NOTIFICATIONS_MAX
    ended(shard, other, is_failure=True)
    assert len(shard.state.notifications) == NOTIFICATIONS_MAX + 1


def test_a_shard_has_a_limit_of_waiting_notifications_for_all_of_its_jobs() -> None:
    shard = Shard()
    job_id = shard.save(hooks=webhooks(HookEvent.FAILURE))
    ended(shard, job_id, is_failure=True)
    (notification,) = shard.state.notifications.values()
    for number in range(SHARD_NOTIFICATIONS_MAX - 2):
        shard.state.notifications[f"other{number}"] = notification

    ended(shard, job_id, is_failure=True)
    assert outcomes(shard) == []
    ended(shard, job_id, is_failure=True)

    assert [each[1] for each in outcomes(shard)] == [HookOutcome.DROPPED]


# -- hooks that trigger a job ---------------------------------------------------------------------

NOTIFY = (Hook(event=HookEvent.FAILURE, job="default/notify"),)


def test_a_hook_triggers_a_job_with_the_event_as_parameters() -> None:
    shard = Shard()
    notify = shard.save(name="notify")
    execution_id = shard.run(hooks=NOTIFY)

    shard.fail(execution_id)
    (message,) = shard.messages.values()
    assert isinstance(message, Hooked)
    receive(shard)

    (triggered,) = shard.live()
    found = shard.execution(triggered)
    assert (found.job_id, found.origin.value) == (notify, "hook")
    assert json.loads(found.parameters)["executionId"] == execution_id
    assert outcomes(shard) == [("default/notify", HookOutcome.DELIVERED, "")]
    receive(shard)
    assert list(shard.live()) == [triggered]


def test_an_execution_that_a_hook_began_runs_no_hooks() -> None:
    shard = Shard()
    back = (Hook(event=HookEvent.FAILURE, job="default/job"),)
    shard.save(
        name="notify",
        hooks=(*back, *webhooks(HookEvent.FAILURE, HookEvent.LATE)),
        late_after=MINUTE,
    )
    shard.fail(shard.run(hooks=NOTIFY))
    key = receive(shard)
    (triggered,) = shard.live()

    shard.pass_time(TWO_MINUTES)
    shard.fail(triggered)

    assert list(shard.messages) == [key]
    assert waiting(shard) == []


def test_a_job_that_cannot_run_drops_the_event_with_the_reason() -> None:
    shard = Shard()
    job_id = shard.save(hooks=NOTIFY)

    def dropped() -> str:
        ended(shard, job_id, is_failure=True)
        receive(shard)
        ((target, outcome, detail),) = outcomes(shard)
        assert (target, outcome) == ("default/notify", HookOutcome.DROPPED)
        assert not list(shard.live())
        return detail

    assert dropped() == "there is no job default/notify"
    notify = shard.save(name="notify")
    shard.do(PauseJob(job_id=notify))
    assert dropped() == "job default/notify is paused"


def test_a_full_shard_and_a_forbidden_overlap_drop_the_event() -> None:
    shard = Shard()
    notify = shard.save(name="notify", overlap=Overlap.SKIP)
    job_id = shard.save(hooks=NOTIFY)
    running = shard.trigger(notify)
    ended(shard, job_id, is_failure=True)
    receive(shard)
    ((_, outcome, detail),) = outcomes(shard)
    assert outcome is HookOutcome.DROPPED
    assert detail == f"{running} had not finished; the overlap policy is skip"
    ended(shard, job_id, is_failure=True)
    shard.finish(running)
    shard.limits = Limits(executions=0)

    receive(shard)

    ((_, outcome, detail),) = outcomes(shard)
    assert outcome is HookOutcome.DROPPED
    assert detail == "0 executions of its shard have not finished"


def test_an_execution_of_a_hook_may_wait_for_the_one_before() -> None:
    shard = Shard()
    notify = shard.save(name="notify", overlap=Overlap.QUEUE_ONE)
    job_id = shard.save(hooks=NOTIFY)
    running = shard.trigger(notify)
    ended(shard, job_id, is_failure=True)

    receive(shard)

    held = [each for each in shard.live() if each != running]
    assert [shard.execution(each).hold.value for each in held] == ["overlap"]


def test_a_closed_shard_gets_at_most_so_many_messages_of_a_job() -> None:
    shard = Shard()
    job_id = shard.save(hooks=NOTIFY)
    shard.state.outbox_counts["default/job", "default/notify"] = OUTBOX_ITEMS_MAX

    ended(shard, job_id, is_failure=True)

    assert outcomes(shard)[0][:2] == ("default/notify", HookOutcome.DROPPED)
    assert not shard.messages
