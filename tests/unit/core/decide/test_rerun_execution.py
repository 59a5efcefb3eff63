"""Reruns of finished executions."""

import re

import pytest
from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.attempt import Outcome
from rota.core.model.author import Author
from rota.core.model.execution import Execution, Task, in_place, task_key
from rota.core.model.flow import Approval
from rota.core.model.ids import ExecutionId
from rota.core.model.job import JobSpec, Overlap, TaskSpec
from rota.core.model.trigger_rules import TriggerRule
from rota.core.timing.instants import DAY, Duration
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import AnswerTask, Forget, Rerun, RerunScope, SaveJob
from rota.core.vocabulary.decision import JobSaved, Limits, Triggered
from rota.core.vocabulary.effects import Launch
from unit.core.shard import ONE_RETRY, TEN_SECONDS, Shard, job, task

AUTHOR = Author(principal="alice")
CHAIN = (task("extract"), task("transform", "extract"), task("load", "transform"))


def past(shard: Shard, execution_id: ExecutionId, names: tuple[str, ...]) -> Rerun:
    """Return a rerun of the failed tasks of an execution in the history of *shard*."""
    found = shard.read(Table.PAST_EXECUTION, execution_id, Execution)
    tasks = [shard.read(Table.PAST_TASK, task_key(execution_id, name), Task) for name in names]
    return Rerun(past=found, tasks=tuple(in_place(tasks).values()), scope=RerunScope.FAILED)


def failed_at_transform(shard: Shard, tasks: tuple[TaskSpec, ...] = CHAIN) -> Rerun:
    """Return a rerun of an execution of *tasks* of which ``extract`` succeeded."""
    execution_id = shard.run(*tasks, parameters='{"day": 1}')
    shard.finish(execution_id, "extract", result=b"41")
    shard.fail(execution_id, "transform")
    assert shard.status(execution_id) == "failed"
    return past(shard, execution_id, tuple(each.name for each in tasks))


def rerun(shard: Shard, command: Rerun) -> ExecutionId:
    """Carry out a rerun."""
    reply = shard.do(command)
    assert isinstance(reply, Triggered)
    return reply.execution_id


def refusal(shard: Shard, command: Rerun) -> str:
    """Return the code of the refusal of a rerun."""
    with pytest.raises(Refused) as raised:
        shard.do(command)
    return raised.value.code


def test_failed_tasks_and_those_that_need_them_run_again_with_the_results_of_the_others() -> None:
    shard = Shard()
    command = failed_at_transform(shard)

    execution_id = rerun(shard, command)

    assert shard.statuses(execution_id) == {
        "extract": "success",
        "transform": "running",
        "load": "blocked",
    }
    (launch,) = shard.all_effects(Launch)
    assert launch.order.results == b'{"extract":41}'
    assert launch.order.work.parameters == '{"day": 1}'
    kept = shard.task(execution_id, "extract")
    assert kept.kept_from == command.past.id
    assert shard.task(execution_id, "transform").kept_from == ""
    shard.finish(execution_id, "transform")
    shard.finish(execution_id, "load")
    ended = shard.read(Table.PAST_EXECUTION, execution_id, Execution)
    assert (ended.status.value, ended.rerun_of, ended.result_bytes) == (
        "success",
        command.past.id,
        2,
    )


def test_a_rerun_of_a_rerun_names_the_execution_in_which_the_task_ran() -> None:
    shard = Shard()
    first = failed_at_transform(shard)
    second = rerun(shard, first)
    shard.fail(second, "transform")

    third = rerun(shard, past(shard, second, ("extract", "transform", "load")))

    assert shard.task(third, "extract").kept_from == first.past.id
    assert shard.statuses(third)["transform"] == "running"


def test_a_rerun_works_for_the_same_time_and_is_due_at_the_request() -> None:
    shard = Shard()
    command = failed_at_transform(shard)
    shard.pass_time(Duration(3 * DAY))

    execution = shard.execution(rerun(shard, command))

    (launch,) = shard.all_effects(Launch)
    assert launch.order.fire_at == execution.fire_at == command.past.fire_at
    assert execution.due_at == execution.queued_at == shard.decided_at
    assert execution.started_at == shard.decided_at


def test_a_rerun_from_a_task_runs_that_task_and_those_after_it() -> None:
    shard = Shard()
    execution_id = shard.run(*CHAIN)
    for name in ("extract", "transform", "load"):
        shard.finish(execution_id, name)
    command = past(shard, execution_id, ("extract", "transform", "load"))

    again = rerun(shard, replace(command, scope=RerunScope.FROM, first="load"))

    assert shard.statuses(again) == {
        "extract": "success",
        "transform": "success",
        "load": "running",
    }
    assert refusal(shard, command) == "nothing_to_rerun"
    unknown = replace(command, scope=RerunScope.FROM, first="nope")
    assert refusal(shard, unknown) == "task_not_found"


@pytest.mark.parametrize(
    ("first", "hint"),
    [
        ("tranfsorm", "has no task 'tranfsorm'; did you mean 'transform'?"),
        ("nope", "has no task 'nope'; its tasks are extract, transform, load"),
    ],
)
def test_a_rerun_from_an_unknown_task_suggests_a_similar_one_or_lists_the_tasks(
    first: str, hint: str
) -> None:
    shard = Shard()
    execution_id = shard.run(*CHAIN)
    for name in ("extract", "transform", "load"):
        shard.finish(execution_id, name)
    command = past(shard, execution_id, ("extract", "transform", "load"))

    with pytest.raises(Refused, match=re.escape(hint)):
        shard.do(replace(command, scope=RerunScope.FROM, first=first))


def test_a_task_that_a_user_marks_as_successful_does_not_run_and_those_after_it_do() -> None:
    shard = Shard()
    command = replace(failed_at_transform(shard), marked=("transform",), author=AUTHOR)

    execution_id = rerun(shard, command)

    marked = shard.task(execution_id, "transform")
    assert (marked.status.value, marked.attempts, marked.answered_by) == ("success", (), AUTHOR)
    assert shard.statuses(execution_id)["load"] == "running"
    shard.finish(execution_id, "load")
    assert shard.status(execution_id) == "success"


def test_the_task_from_which_a_rerun_starts_cannot_be_marked() -> None:
    shard = Shard()
    command = replace(failed_at_transform(shard), scope=RerunScope.FROM, first="transform")

    assert refusal(shard, replace(command, marked=("transform",))) == "invalid_rerun"
    assert rerun(shard, replace(command, marked=("load",)))


def test_only_a_task_of_the_job_can_be_marked() -> None:
    shard = Shard()
    command = replace(failed_at_transform(shard), marked=("trnsform",))

    with pytest.raises(Refused, match=r"task_not_found: .* has no task 'trnsform'; did you mean"):
        shard.do(command)


def test_a_rerun_of_all_tasks_keeps_nothing() -> None:
    shard = Shard()
    command = failed_at_transform(shard)

    execution_id = rerun(shard, replace(command, scope=RerunScope.ALL, parameters="7"))

    assert shard.statuses(execution_id)["extract"] == "running"
    (launch,) = shard.all_effects(Launch)
    assert launch.order.work.parameters == "7"


def test_an_alert_that_ran_because_of_the_failure_is_decided_again() -> None:
    tasks = (*CHAIN[:2], task("alert", "transform", rule=TriggerRule.ONE_FAILED))
    shard = Shard()
    execution_id = shard.run(*tasks)
    shard.finish(execution_id, "extract")
    shard.fail(execution_id, "transform")
    shard.finish(execution_id, "alert")
    names = tuple(each.name for each in tasks)

    again = rerun(shard, past(shard, execution_id, names))
    shard.finish(again, "transform")

    assert shard.status(again) == "success"
    ended = shard.read(Table.PAST_TASK, task_key(again, "alert"), Task)
    assert ended.status.value == "skipped"


def test_a_task_that_a_kept_failure_forbids_is_skipped_at_once_with_all_that_follow() -> None:
    tasks = (
        task("broken"),
        task("fine"),
        task("joined", "broken", "fine"),
        task("after", "joined"),
        task("report", "fine"),
    )
    shard = Shard()
    execution_id = shard.run(*tasks)
    shard.finish(execution_id, "fine")
    shard.finish(execution_id, "report")
    shard.fail(execution_id, "broken")
    command = past(shard, execution_id, tuple(each.name for each in tasks))

    again = rerun(shard, replace(command, scope=RerunScope.FROM, first="fine"))

    assert shard.statuses(again) == {
        "broken": "failed",
        "fine": "running",
        "joined": "skipped",
        "after": "skipped",
        "report": "blocked",
    }
    shard.finish(again, "fine")
    shard.finish(again, "report")
    assert shard.status(again) == "failed"
    joined = replace(command, scope=RerunScope.FROM, first="joined")
    assert refusal(shard, joined) == "nothing_to_rerun"


def replaced(shard: Shard, command: Rerun, *tasks: TaskSpec) -> JobSpec:
    """Replace the job of a rerun; return its definition before, from the history."""
    spec = job(*tasks)
    saved = shard.do(SaveJob(spec=spec, may_replace=True))
    assert isinstance(saved, JobSaved)
    assert saved.job_id == command.past.job_id
    return shard.read(Table.PAST_VERSION, f"{saved.job_id}/1", JobSpec)


def test_a_rerun_uses_the_newest_definition_or_the_one_of_the_execution() -> None:
    shard = Shard()
    command = failed_at_transform(shard)
    before = replaced(shard, command, *CHAIN[:2], task("added"))

    newest = rerun(shard, command)
    original = rerun(shard, replace(command, definition=before))

    assert shard.statuses(newest) == {
        "extract": "success",
        "transform": "running",
        "added": "running",
    }
    assert shard.statuses(original) == {
        "extract": "success",
        "transform": "running",
        "load": "blocked",
    }
    assert [shard.execution(each).job_version for each in (newest, original)] == [2, 1]
    shard.finish(original, "transform")
    shard.finish(original, "load")
    assert shard.status(original) == "success"
    assert shard.keys(Table.VERSION) == []


def test_the_history_keeps_the_newest_replaced_definitions_until_they_expire() -> None:
    shard = Shard()
    job_id = shard.save()
    for number in range(25):
        shard.do(SaveJob(spec=job(task(f"task-{number}")), may_replace=True))

    assert len(shard.keys(Table.PAST_VERSION)) == 20
    assert shard.keys(Table.VERSION) == []
    assert shard.state.versions == {}
    shard.do(Forget(pasts=shard.pasts()))
    assert shard.keys(Table.PAST_VERSION) == []
    assert shard.state.jobs[job_id].version == 26


def test_a_rerun_obeys_the_overlap_policy() -> None:
    shard = Shard()
    job_id = shard.save(*CHAIN, overlap=Overlap.QUEUE_ONE)
    execution_id = shard.trigger(job_id)
    shard.fail(execution_id, "extract")
    command = past(shard, execution_id, ("extract", "transform", "load"))
    running = shard.trigger(job_id)

    waiting = rerun(shard, command)

    assert shard.statuses(waiting)["extract"] == "blocked"
    assert refusal(shard, command) == "overlap"
    shard.finish(running, "extract", Outcome.FAILED)
    assert shard.statuses(waiting)["extract"] == "running"


def test_a_rerun_of_a_deleted_job_is_refused() -> None:
    shard = Shard()
    command = failed_at_transform(shard)
    shard.delete(command.past.job_id)

    assert refusal(shard, command) == "job_not_found"


def test_a_kept_task_has_only_its_last_attempt_without_output() -> None:
    shard = Shard()
    execution_id = shard.run(task("extract", retry=ONE_RETRY), *CHAIN[1:])
    shard.fail(execution_id, "extract")
    shard.pass_time(TEN_SECONDS)
    report = shard.report(execution_id, "extract", result=b"41")
    shard.do(replace(report, ending=replace(report.ending, output=b"said")))
    shard.fail(execution_id, "transform")

    again = rerun(shard, past(shard, execution_id, ("extract", "transform", "load")))

    (attempt,) = shard.task(again, "extract").attempts
    assert attempt.number == 2
    assert attempt.ending is not None
    assert (attempt.ending.result, attempt.ending.output) == (b"41", b"")


def test_a_rerun_has_the_trace_of_its_request_and_no_reason_of_the_past() -> None:
    shard = Shard()
    command = failed_at_transform(shard)

    execution_id = rerun(shard, replace(command, traceparent="00-trace"))

    execution = shard.execution(execution_id)
    assert (execution.traceparent, execution.reason) == ("00-trace", "")


def test_a_rerun_has_a_start_deadline_of_its_own() -> None:
    shard = Shard()
    execution_id = shard.run(*CHAIN, start_deadline=TEN_SECONDS)
    shard.fail(execution_id, "extract")
    command = past(shard, execution_id, ("extract", "transform", "load"))
    shard.slots = 0

    again = rerun(shard, command)
    shard.pass_time(TEN_SECONDS)

    assert shard.status(again) == "failed"


def test_a_rerun_is_refused_while_the_shard_is_full() -> None:
    shard = Shard()
    command = failed_at_transform(shard)
    shard.limits = Limits(executions=0)

    assert refusal(shard, command) == "too_many_executions"


@pytest.mark.parametrize(("parameters", "is_kept"), [("", True), ('{"day": 2}', False)])
def test_an_approval_is_kept_for_what_was_approved_alone(parameters: str, is_kept: bool) -> None:
    shard = Shard()
    ask = replace(task("ask"), wait=Approval())
    execution_id = shard.run(ask, task("ship", "ask"), parameters='{"day": 1}')
    shard.do(AnswerTask(execution_id=execution_id, task="ask", is_approved=True))
    shard.fail(execution_id, "ship")
    command = replace(past(shard, execution_id, ("ask", "ship")), parameters=parameters)

    again = rerun(shard, command)

    expected = ("success", "running") if is_kept else ("waiting", "blocked")
    assert tuple(shard.statuses(again).values()) == expected
