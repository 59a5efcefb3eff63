"""Jobs on virtual time, as tests of users see them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.testing import AttemptEnd, AttemptStart, InvalidFile, Refused, VirtualScheduler

FLAKY = {
    "name": "flaky",
    "command": ["sync"],
    "retries": {"limit": 2, "backoff": "exponential", "delay": "1m"},
}
FLOW = {
    "name": "etl",
    "tasks": [
        {"name": "count", "command": ["count"]},
        {
            "name": "load",
            "command": ["load", "{{ results.count.rows }}"],
            "needs": ["count"],
            "when": "results.count.rows > 0",
        },
        {"name": "report", "command": ["report"], "needs": ["load"], "triggerRule": "none_failed"},
    ],
}


def at(text: str) -> datetime:
    """Return an instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_daily_job_keeps_its_local_time_over_a_clock_change() -> None:
    scheduler = VirtualScheduler("2027-03-26T12:00:00Z")
    scheduler.save(
        {
            "name": "report",
            "schedule": "30 3 * * *",
            "timezone": "Europe/Berlin",
            "command": ["report"],
        }
    )

    scheduler.advance("3d")

    times = [each.fire_time for each in scheduler.executions("report")]
    assert times == [at("2027-03-27 02:30"), at("2027-03-28 01:30"), at("2027-03-29 01:30")]
    assert [each.outcome for each in scheduler.ledger("report")] == ["fired"] * 3


def test_what_is_due_at_the_end_has_happened() -> None:
    scheduler = VirtualScheduler("2027-01-01T00:00:00Z", duration="1h")
    scheduler.save({"name": "report", "schedule": "0 3 * * *", "command": ["report"]})

    scheduler.run_until(at("2027-01-01 03:00"))
    [begun] = scheduler.executions("report")
    scheduler.advance(timedelta(hours=1))
    [ended] = scheduler.executions("report")

    assert (begun.status, begun.finished_at) == ("running", None)
    assert begun.tasks["main"].attempts[0].outcome is None
    assert (ended.status, ended.finished_at) == ("success", at("2027-01-01 04:00"))
    assert scheduler.now == at("2027-01-01 04:00")


def test_a_failed_attempt_is_retried_after_its_delay() -> None:
    def fail_twice(attempt: AttemptStart) -> AttemptEnd:
        return AttemptEnd(outcome="failed" if attempt.number < 3 else "success", exit_code=3)

    scheduler = VirtualScheduler(duration="10s")
    scheduler.save(FLAKY)
    scheduler.on("flaky", fail_twice)

    execution_id = scheduler.trigger("flaky")
    scheduler.advance("1h")

    found = scheduler.execution(execution_id)
    attempts = found.tasks["main"].attempts
    starts = [each.started_at - found.queued_at for each in attempts]
    assert found.status == "success"
    assert [each.outcome for each in attempts] == ["failed", "failed", "success"]
    assert starts[0] == timedelta(0)
    # The rest of each delay is the jitter.
    assert timedelta(minutes=1) <= starts[1] - timedelta(seconds=10) <= timedelta(minutes=2)


def test_an_execution_fails_when_no_retry_is_left() -> None:
    scheduler = VirtualScheduler()
    scheduler.save(FLAKY)
    scheduler.on("flaky", outcome="failed", exit_code=4, reason="no route")

    execution_id = scheduler.trigger("flaky")
    scheduler.advance("1h")

    found = scheduler.execution(execution_id)
    assert found.status == "failed"
    assert [each.exit_code for each in found.tasks["main"].attempts] == [4, 4, 4]
    assert found.tasks["main"].reason == "no route"


def test_results_flow_and_decide_conditions() -> None:
    seen: list[AttemptStart] = []
    scheduler = VirtualScheduler()
    scheduler.save(FLOW)
    scheduler.on("etl", task="count", result={"rows": 5})
    scheduler.on("etl", seen.append, task="load")

    full = scheduler.trigger("etl")
    scheduler.advance("1m")
    scheduler.on("etl", task="count", result={"rows": 0})
    empty = scheduler.trigger("etl")
    scheduler.advance("1m")

    assert scheduler.execution(full).tasks["count"].result == {"rows": 5}
    assert [(each.argv, each.results) for each in seen] == [(("load", "5"), {"count": {"rows": 5}})]
    statuses = [each.status for each in scheduler.execution(empty).tasks.values()]
    assert statuses == ["success", "skipped", "success"]


def test_a_fire_time_is_skipped_while_an_execution_runs() -> None:
    scheduler = VirtualScheduler()
    scheduler.save(
        {"name": "slow", "schedule": "*/10 * * * *", "overlap": "skip", "command": ["slow"]}
    )
    scheduler.on("slow", duration="15m")

    scheduler.advance("1h")

    outcomes = [each.outcome for each in scheduler.ledger("slow")]
    assert outcomes == ["fired", "skipped", "fired", "skipped", "fired", "skipped"]
    first, second = scheduler.ledger("slow")[:2]
    assert second.execution_id == first.execution_id


def test_a_lost_attempt_starts_again_and_costs_no_retry() -> None:
    scheduler = VirtualScheduler(duration="10m")
    scheduler.save({"name": "load", "command": ["load"]})
    execution_id = scheduler.trigger("load")

    scheduler.advance("4m")
    lost = scheduler.lose_running()
    scheduler.advance("10m")

    found = scheduler.execution(execution_id)
    first, second = found.tasks["main"].attempts
    assert lost == 1
    assert (first.outcome, second.outcome, found.status) == ("lost", "success", "success")
    assert second.started_at == first.finished_at == at("2027-01-01 00:04")
    assert found.finished_at == at("2027-01-01 00:14")


def test_an_attempt_alone_can_be_lost() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "command": ["load"]})
    scheduler.on("load", lambda each: AttemptEnd(outcome="lost") if each.number == 1 else None)

    scheduler.trigger("load")
    scheduler.advance("1m")

    [found] = scheduler.executions("load")
    assert [each.outcome for each in found.tasks["main"].attempts] == ["lost", "success"]


def test_an_attempt_that_takes_too_long_is_timed_out() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "command": ["load"], "timeout": "5m"})
    scheduler.on("load", duration="6m", result=1)

    scheduler.trigger("load")
    scheduler.advance("5m")

    [found] = scheduler.executions("load")
    [attempt] = found.tasks["main"].attempts
    assert (found.status, attempt.outcome) == ("failed", "timed_out")
    assert attempt.finished_at == at("2027-01-01 00:05")
    assert found.tasks["main"].result is None


def test_attempts_wait_for_slots() -> None:
    scheduler = VirtualScheduler(duration="1m", slots=1)
    scheduler.save({"name": "load", "command": ["load"]})
    for _ in range(3):
        scheduler.trigger("load")

    scheduler.advance("90s")

    statuses = [each.tasks["main"].status for each in scheduler.executions("load")]
    assert statuses == ["success", "running", "ready"]


def test_triggers_of_one_instant_are_executions_of_their_own() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "command": ["load"]})

    ids = {scheduler.trigger("load") for _ in range(500)}

    assert len(ids) == 500


def test_a_dependent_job_runs_after_the_other_one() -> None:
    scheduler = VirtualScheduler(duration="5m")
    scheduler.save({"name": "load", "schedule": "0 1 * * *", "command": ["load"]})
    scheduler.save({"name": "report", "dependencies": ["load"], "command": ["report"]})

    scheduler.advance("2h")

    [found] = scheduler.executions("report")
    assert (found.trigger, found.started_at) == ("dependencies", at("2027-01-01 01:05"))


def test_a_paused_job_does_not_fire_and_a_trigger_still_runs_it() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "schedule": "0 * * * *", "command": ["load"]})

    scheduler.pause("load")
    scheduler.advance("2h")
    scheduler.trigger("load")
    scheduler.resume("load")
    scheduler.advance("1h")

    fires = [(each.outcome, each.count) for each in scheduler.ledger("load")]
    assert fires == [("paused", 1), ("paused", 1), ("fired", 1)]
    assert [each.trigger for each in scheduler.executions("load")] == ["manual", "schedule"]


def test_a_cancelled_attempt_ends_at_once() -> None:
    scheduler = VirtualScheduler(duration="1h")
    scheduler.save({"name": "load", "command": ["load"]})
    execution_id = scheduler.trigger("load")

    scheduler.advance("5m")
    scheduler.cancel(execution_id)

    found = scheduler.execution(execution_id)
    [attempt] = found.tasks["main"].attempts
    assert (found.status, attempt.outcome) == ("cancelled", "cancelled")
    assert (attempt.started_at, attempt.finished_at) == (
        at("2027-01-01 00:00"),
        at("2027-01-01 00:05"),
    )


def test_a_person_approves() -> None:
    scheduler = VirtualScheduler()
    tasks: list[dict[str, object]] = [
        {"name": "ask", "approval": {}},
        {"name": "go", "command": ["go"], "needs": ["ask"]},
    ]
    scheduler.save({"name": "release", "tasks": tasks})
    execution_id = scheduler.trigger("release")

    scheduler.advance("1d")
    waiting = scheduler.execution(execution_id).tasks["ask"].status
    scheduler.answer(execution_id, "ask", result={"by": "ada"})
    scheduler.advance("1m")

    found = scheduler.execution(execution_id)
    assert (waiting, found.status) == ("waiting", "success")
    assert found.tasks["ask"].result == {"by": "ada"}


def test_an_event_ends_a_wait() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "wait", "tasks": [{"name": "paid", "waitForEvent": {"event": "paid"}}]})
    execution_id = scheduler.trigger("wait")

    scheduler.post_event(execution_id, "paid", {"euros": 5})

    assert scheduler.execution(execution_id).tasks["paid"].result == {"euros": 5}


def test_parameters_are_those_of_the_trigger_with_the_defaults_of_the_schema() -> None:
    scheduler = VirtualScheduler()
    schema = {"properties": {"day": {"type": "string"}, "rows": {"type": "integer", "default": 10}}}
    scheduler.save({"name": "load", "command": ["load"], "parametersSchema": schema})
    seen: list[AttemptStart] = []
    scheduler.on("load", seen.append)

    scheduler.trigger("load", day="monday")
    with pytest.raises(Refused, match="/parameters/day"):
        scheduler.trigger("load", day=1)

    assert [each.parameters for each in seen] == [{"day": "monday", "rows": 10}]


def test_a_rule_of_a_task_goes_before_one_of_its_job() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "a", "tasks": [{"name": "x", "command": ["x"]}, {
        "name": "y", "foreach": [1, 2], "command": ["y"]}]})  # fmt: skip
    scheduler.on("a", outcome="failed")
    scheduler.on("a", task="y", result="all")
    scheduler.on("a", task="y[1]", result="one")

    scheduler.trigger("a")
    scheduler.advance("1m")

    [found] = scheduler.executions("a")
    assert found.tasks["x"].status == "failed"
    assert (found.tasks["y[0]"].result, found.tasks["y[1]"].result) == ("all", "one")


def test_jobs_and_calendars_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "kind: calendars\nname: closed\ndefinition:\n  weekdays: [saturday, sunday]\n---\n"
        "name: report\nschedule: 0 3 * * *\nexceptCalendars: [closed]\ncommand: report\n"
    )
    scheduler = VirtualScheduler("2027-01-01T00:00:00Z")

    scheduler.load(file)
    scheduler.advance("4d")

    outcomes = [each.outcome for each in scheduler.ledger("report")]
    assert outcomes == ["fired", "excluded", "excluded", "fired"]


def test_a_job_is_replaced_and_deleted() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "load", "schedule": "0 * * * *", "command": ["load"]})
    scheduler.save({"name": "load", "schedule": "0 6 * * *", "command": ["load"]})

    scheduler.advance("1d")
    scheduler.delete("load")
    scheduler.advance("1d")

    assert [each.fire_time.hour for each in scheduler.executions("load")] == [6]


def test_two_runs_are_the_same() -> None:
    def history() -> object:
        scheduler = VirtualScheduler()
        scheduler.save({**FLAKY, "schedule": "*/7 * * * *"})
        scheduler.on("flaky", outcome="failed")
        scheduler.advance("1d")
        return scheduler.executions("flaky")

    assert history() == history()


Mistake = Callable[[VirtualScheduler], object]
MISTAKES: list[tuple[Mistake, str]] = [
    (lambda each: each.advance("-1d"), "is not a duration"),
    (lambda each: each.advance(timedelta(days=-1)), "-1d is negative"),
    (lambda each: each.run_until("2026-12-31T00:00:00Z"), "is before 2027-01-01"),
    (lambda each: each.run_until(datetime(2027, 2, 1)), "has no time zone"),  # noqa: DTZ001
    (lambda each: each.on("load", outcome="broken"), "give success, failed, timed_out, lost"),
    (lambda each: each.on("load", duration="soon"), "is not a duration"),
    (lambda each: each.on("load", outcome="failed", result=1), "has no result"),
    (lambda each: each.on("load", result=object()), "cannot be written as JSON"),
    (lambda each: each.on("load", lambda _: None, result=1), "not both"),
    (lambda each: each.trigger("laod"), "did you mean 'default/load'"),
    (lambda each: each.executions("other"), "saved are: default/load"),
    (lambda each: each.ledger("other/load"), "there is no job 'other/load'"),
    (lambda each: each.on("load", task="mian"), "did you mean 'main'"),
    (lambda each: each.execution("nothing"), "lists those of a job"),
    (lambda each: each.call_functions("load"), "no task of default/load is a Python function"),
    (lambda each: each.save({"name": "a b", "command": "x"}), "job 'a b'"),
    (lambda each: each.save({"name": "a"}), "needs a command"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_a_mistake_is_explained(call: Mistake, message: str) -> None:
    scheduler = VirtualScheduler("2027-01-01T00:00:00Z")
    scheduler.save({"name": "load", "command": ["load"]})

    with pytest.raises((ValueError, Refused, InvalidFile)) as caught:
        call(scheduler)

    assert message in str(caught.value)


def test_a_task_finds_a_node_with_its_labels() -> None:
    scheduler = VirtualScheduler(duration="1m", slots=1)
    scheduler.save({"name": "train", "nodeSelector": {"gpu": "yes"}, "command": ["train"]})

    scheduler.trigger("train")
    scheduler.trigger("train")
    scheduler.advance("2m")

    starts = [each.started_at for each in scheduler.executions("train")]
    assert starts == [at("2027-01-01 00:00"), at("2027-01-01 00:01")]


def test_a_similar_name_is_suggested_once() -> None:
    scheduler = VirtualScheduler()
    scheduler.save({"name": "alpha", "command": "x"})
    scheduler.trigger("alpha")

    with pytest.raises(Refused, match=r"; did you mean 'default/alpha'\?$"):
        scheduler.executions("alpah")


def test_a_scheduler_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="slots is 0, but no attempt would run"):
        VirtualScheduler(slots=0)


@pytest.mark.parametrize("given", [timedelta(minutes=1), 60, "1m"])
def test_time_passes_by_durations_of_any_form(given: Any) -> None:
    scheduler = VirtualScheduler("2027-01-01T00:00:00Z")

    scheduler.advance(given)

    assert scheduler.now.isoformat() == "2027-01-01T00:01:00+00:00"


def test_what_is_no_time_is_refused() -> None:
    scheduler: Any = VirtualScheduler()

    with pytest.raises(ValueError, match="None is no duration; give seconds, text"):
        scheduler.advance(None)
    with pytest.raises(ValueError, match="7 is no instant; give text such as"):
        scheduler.run_until(7)
