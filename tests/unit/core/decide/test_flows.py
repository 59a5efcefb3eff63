"""Loops, waits, conditions and templates, event by event."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.decide.dispatch import decide, pending
from rota.core.errors import Refused
from rota.core.model.attempt import Outcome
from rota.core.model.execution import ExecutionStatus, Task, TaskStatus, in_place
from rota.core.model.flow import ITEMS_MAX, Approval, Case, Foreach, Repeat, Sleep, Switch
from rota.core.model.ids import ExecutionId
from rota.core.model.job import TaskSpec
from rota.core.model.trigger_rules import TriggerRule
from rota.core.model.work import Work
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import AnswerTask, Cancel, Expire, Rerun, RerunScope, Wake
from rota.core.vocabulary.decision import Triggered
from rota.core.vocabulary.effects import Launch, SetTimer, Stop
from unit.core.shard import Shard, task

S, F, K, C = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.CANCELLED
ELSEWHERE = "store the data elsewhere, and pass its location"
TEN_SECONDS = Duration(10 * SECOND)


class Flow:
    """One execution of a flow in a shard."""

    def __init__(self, *tasks: TaskSpec, slots: int = 100, **fields: Any) -> None:
        self.shard = Shard(slots=slots)
        self.id: ExecutionId = self.shard.run(*tasks, **fields)

    def end(self, *names: str, outcome: Outcome = Outcome.SUCCEEDED, result: Any = None) -> None:
        """End the running attempts of steps."""
        for name in names:
            encoded = b"" if result is None else json.dumps(result).encode()
            self.shard.do(self.shard.report(self.id, name, outcome, result=encoded))

    def fail(self, *names: str) -> None:
        """Let the running attempts of steps fail."""
        self.end(*names, outcome=Outcome.FAILED)

    @property
    def tasks(self) -> dict[str, Task]:
        """All tasks and steps."""
        if self.id in self.shard.state.tasks:
            return self.shard.state.tasks[self.id]
        return {each.name: each for each in self.shard.read_all(Table.PAST_TASK, Task)}

    def running(self) -> list[str]:
        """Return the names of the steps that run."""
        return [name for name, one in self.tasks.items() if one.status is TaskStatus.RUNNING]

    def statuses(self, *names: str) -> list[TaskStatus]:
        """Return the statuses of tasks."""
        return [self.tasks[name].status for name in names]

    def status(self) -> ExecutionStatus:
        """Return the status of the execution."""
        return self.shard.execution(self.id).status


def rerun_of(flow: Flow) -> ExecutionId:
    """Run the failed tasks of an execution again, and return the new one."""
    past = flow.shard.execution(flow.id)
    tasks = tuple(in_place(flow.tasks.values()).values())
    reply = flow.shard.do(Rerun(past=past, tasks=tasks, scope=RerunScope.FAILED))
    assert isinstance(reply, Triggered), reply
    return reply.execution_id


def foreach(name: str, *needs: str, **fields: Any) -> TaskSpec:
    """Return a loop over items."""
    return replace(task(name, *needs), loop=Foreach(**fields))


def test_a_join_waits_for_all_items_of_a_loop() -> None:
    flow = Flow(foreach("load", items="[1,2]"), task("join", "load"))

    flow.end("load[0]", result={"rows": 5})
    before = flow.running()
    flow.end("load[1]")

    assert before == ["load[1]"]
    assert flow.running() == ["join"]
    (launch,) = flow.shard.all_effects(Launch)
    assert json.loads(launch.order.results) == {"load": [{"rows": 5}, None]}


@pytest.mark.parametrize(
    ("rule", "ended"),
    [
        (TriggerRule.ONE_SUCCESS, Outcome.SUCCEEDED),
        (TriggerRule.ONE_FAILED, Outcome.FAILED),
    ],
)
def test_no_early_rule_decides_on_a_loop_before_its_end(rule: TriggerRule, ended: Outcome) -> None:
    flow = Flow(foreach("load", items="[1,2]", tolerated=9), task("next", "load", rule=rule))

    flow.end("load[0]", outcome=ended)

    assert flow.statuses("next") == [TaskStatus.BLOCKED]


def test_a_loop_runs_few_steps_at_a_time_in_the_order_of_its_items() -> None:
    flow = Flow(foreach("load", items=json.dumps(list(range(5))), max_parallel=2))

    seen = [flow.running()]
    for number in range(4):
        flow.end(f"load[{number}]")
        seen.append(flow.running())

    assert seen == [
        ["load[0]", "load[1]"],
        ["load[1]", "load[2]"],
        ["load[2]", "load[3]"],
        ["load[3]", "load[4]"],
        ["load[4]"],
    ]


def test_a_loop_begins_no_step_after_more_failures_than_it_tolerates() -> None:
    flow = Flow(foreach("load", items="[1,2,3,4]", max_parallel=2, tolerated=1))

    flow.fail("load[0]")
    flow.fail("load[1]")
    flow.end("load[2]")

    assert "load[3]" not in flow.tasks
    assert flow.tasks["load"].reason == "2 of its 3 steps failed"
    assert flow.status() is ExecutionStatus.FAILED


def test_tolerated_failures_do_not_fail_the_execution() -> None:
    flow = Flow(foreach("load", items="[1,2]", tolerated=1), task("join", "load"))

    flow.fail("load[0]")
    flow.end("load[1]", "join")

    assert flow.status() is ExecutionStatus.SUCCESS
    assert flow.shard.execution(flow.id).reason == ""


def test_a_tolerated_failure_is_not_the_reason_of_the_execution() -> None:
    flow = Flow(foreach("load", items="[1,2]", tolerated=1), task("join", "load"))

    flow.fail("load[0]")
    flow.end("load[1]")
    flow.fail("join")

    assert flow.shard.execution(flow.id).reason == "task join failed: ended failed"


def test_the_first_failure_of_a_loop_that_fails_is_the_reason() -> None:
    flow = Flow(foreach("load", items="[1,2]", tolerated=0, max_parallel=2), task("join", "load"))

    flow.fail("load[1]")
    flow.end("load[0]")

    assert flow.shard.execution(flow.id).reason == "task load[1] failed: ended failed"


@pytest.mark.parametrize(("is_skipped", "expected"), [(True, [K, K]), (False, [S, S])])
def test_a_loop_without_items(is_skipped: bool, expected: list[TaskStatus]) -> None:
    loop = foreach("load", items="[]", is_skipped_if_empty=is_skipped)
    flow = Flow(loop, task("join", "load"))

    flow.end(*flow.running())

    assert flow.statuses("load", "join") == expected


def test_the_items_of_a_loop_come_from_a_result() -> None:
    flow = Flow(task("list"), foreach("load", "list", expression="results.list.files"))

    flow.end("list", result={"files": ["a", "b"]})

    assert [flow.tasks[name].item for name in flow.running()] == ['"a"', '"b"']


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"files": 5}, "foreach: results.list.files is not a list: 5"),
        ({}, "foreach: results.list.files: undefined value"),
        ({"files": [0] * (ITEMS_MAX + 1)}, "foreach: has 10,001 items; at most 10,000 are allowed"),
        (
            {"files": ["x" * 70_000]},
            f"foreach: item 0 has 70,002 bytes as JSON; at most 65,536 are allowed: {ELSEWHERE}",
        ),
    ],
)
def test_a_loop_over_something_else_fails_and_says_why(result: object, reason: str) -> None:
    flow = Flow(task("list"), foreach("load", "list", expression="results.list.files"))

    flow.end("list", result=result)

    assert flow.tasks["load"].reason == reason
    assert flow.status() is ExecutionStatus.FAILED


def test_a_loop_of_rounds_ends_with_its_condition() -> None:
    poll = replace(task("poll"), loop=Repeat(until="last.state == 'done'", limit=5))
    flow = Flow(poll, task("next", "poll"))

    flow.end("poll#1", result={"state": "wait"})
    flow.end("poll#2", result={"state": "done"})

    assert flow.running() == ["next"]
    assert "poll#3" not in flow.tasks


def test_a_loop_of_rounds_that_never_ends_fails_at_its_limit() -> None:
    poll = replace(task("poll"), loop=Repeat(until="index > 5", limit=2, delay=TEN_SECONDS))
    flow = Flow(poll)

    flow.end("poll#1")
    waiting = flow.running()
    flow.shard.pass_time(TEN_SECONDS)
    flow.end("poll#2")

    assert waiting == []
    assert flow.tasks["poll"].reason == "its condition was not true after 2 rounds"
    assert flow.status() is ExecutionStatus.FAILED


@pytest.mark.parametrize(("size", "expected"), [(5, [S, K]), (1, [K, S])])
def test_a_condition_chooses_a_branch(size: int, expected: list[TaskStatus]) -> None:
    big = replace(task("big", "measure"), when="results.measure > 3")
    small = replace(task("small", "measure"), when="not results.measure > 3")
    rule = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
    flow = Flow(task("measure"), big, small, task("join", "big", "small", rule=rule))

    flow.end("measure", result=size)
    flow.end(*flow.running())
    flow.end("join")

    assert flow.statuses("big", "small") == expected
    assert flow.status() is ExecutionStatus.SUCCESS


def test_a_condition_without_a_value_fails_the_task() -> None:
    flow = Flow(replace(task("a"), when="params.missing.deeper > 1"))

    assert flow.tasks["a"].reason == "when: params.missing.deeper > 1: undefined value"
    assert flow.status() is ExecutionStatus.FAILED


def test_an_execution_whose_tasks_are_all_skipped_succeeds() -> None:
    flow = Flow(replace(task("a"), when="false"), task("b", "a"))

    assert flow.statuses("a", "b") == [K, K]
    assert flow.status() is ExecutionStatus.SUCCESS


def test_templates_are_quoted_for_the_shell_and_not_elsewhere() -> None:
    work = Work(
        shell="load {{ params.file }}",
        argv=("x", "{{ params.file }}"),
        env=(("FILE", "{{ params.file }}"),),
        stdin="{{ params }}",
    )
    spec = TaskSpec(name="a", work=work, is_templated=True)
    flow = Flow(spec, parameters='{"file":"a b; rm -rf /"}')

    (launch,) = flow.shard.all_effects(Launch)
    made = launch.order.work
    assert made.shell == "load 'a b; rm -rf /'"
    assert made.argv == ("x", "a b; rm -rf /")
    assert made.env[0] == ("FILE", "a b; rm -rf /")
    assert made.stdin == '{"file":"a b; rm -rf /"}'


def test_a_template_without_a_value_fails_the_task_before_it_starts() -> None:
    spec = TaskSpec(name="a", work=Work(shell="echo {{ params.x }}"), is_templated=True)
    flow = Flow(spec)

    assert flow.tasks["a"].reason == "echo {{ params.x }}: undefined value"
    assert not flow.shard.all_effects(Launch)


def test_text_that_looks_like_a_template_in_a_job_of_an_earlier_version_stays() -> None:
    flow = Flow(TaskSpec(name="a", work=Work(shell="docker ps --format '{{.Names}}'")))

    (launch,) = flow.shard.all_effects(Launch)
    assert launch.order.work.shell == "docker ps --format '{{.Names}}'"


def test_a_sleep_takes_no_slot() -> None:
    nap = replace(task("nap"), wait=Sleep(duration=TEN_SECONDS))
    flow = Flow(nap, task("next", "nap"), slots=0)

    before = flow.statuses("nap", "next")
    flow.shard.slots = 1
    flow.shard.pass_time(TEN_SECONDS)

    assert before == [TaskStatus.WAITING, TaskStatus.BLOCKED]
    assert flow.running() == ["next"]


@pytest.mark.parametrize(
    "wait", [Sleep(duration=TEN_SECONDS), Approval(timeout=TEN_SECONDS)], ids=type
)
def test_a_new_primary_sets_the_timer_of_a_wait(wait: Sleep | Approval) -> None:
    flow = Flow(replace(task("wait"), wait=wait))

    found = [each for each in pending(flow.shard.reloaded()) if isinstance(each, SetTimer)]

    assert [(each.command, each.due) for each in found] == [
        (Wake(execution_id=flow.id, task="wait", number=1), flow.tasks["wait"].retry_at)
    ]


def answer(flow: Flow, name: str, **fields: Any) -> None:
    """Answer an approval."""
    flow.shard.do(AnswerTask(execution_id=flow.id, task=name, **fields))


@pytest.mark.parametrize(
    ("is_approved", "is_skipped", "expected"),
    [(True, False, S), (False, False, F), (False, True, K)],
)
def test_an_approval_ends_with_the_answer(
    is_approved: bool, is_skipped: bool, expected: TaskStatus
) -> None:
    ask = replace(task("ask"), wait=Approval(is_skipped_if_rejected=is_skipped))
    flow = Flow(ask)

    answer(flow, "ask", is_approved=is_approved, result=b"7")

    assert flow.statuses("ask") == [expected]
    assert flow.tasks["ask"].result == b"7"


def test_an_approval_without_an_answer_fails_in_time() -> None:
    flow = Flow(replace(task("ask"), wait=Approval(timeout=TEN_SECONDS)))

    flow.shard.pass_time(TEN_SECONDS)

    assert flow.tasks["ask"].reason == "no answer within 10s"
    with pytest.raises(Refused, match="execution"):
        answer(flow, "ask", is_approved=True)


def test_only_an_approval_can_be_answered() -> None:
    flow = Flow(task("a"))

    with pytest.raises(Refused, match="does not wait for an approval: it is running"):
        answer(flow, "a", is_approved=True)


def test_an_exit_code_of_its_choice_skips_a_task() -> None:
    flow = Flow(replace(task("a"), skip_exit_codes=(99,)), task("b", "a"))

    report = flow.shard.report(flow.id, "a", Outcome.FAILED)
    flow.shard.do(replace(report, ending=replace(report.ending, exit_code=99)))

    assert flow.statuses("a", "b") == [K, K]
    assert flow.status() is ExecutionStatus.SUCCESS


@pytest.mark.parametrize(
    ("handles", "expected"), [(True, ExecutionStatus.SUCCESS), (False, ExecutionStatus.FAILED)]
)
def test_a_failure_is_handled_by_a_task_that_says_so(
    handles: bool, expected: ExecutionStatus
) -> None:
    refund = replace(task("refund", "ship", rule=TriggerRule.ONE_FAILED), handles_failure=handles)
    flow = Flow(task("pay"), task("ship", "pay"), refund)

    flow.fail("pay")
    flow.end("refund")

    assert flow.status() is expected


@pytest.mark.parametrize("when", ["", "false"])
def test_a_handler_that_fails_or_is_skipped_handles_nothing(when: str) -> None:
    refund = task("refund", "pay", rule=TriggerRule.ONE_FAILED)
    flow = Flow(task("pay"), replace(refund, handles_failure=True, when=when))

    flow.fail("pay")
    flow.fail(*flow.running())

    assert flow.status() is ExecutionStatus.FAILED


def test_a_cancelled_execution_ends_all_its_loops_and_waits() -> None:
    nap = replace(task("nap"), wait=Sleep(duration=TEN_SECONDS))
    flow = Flow(foreach("load", items="[1,2]", max_parallel=1), nap)

    flow.shard.cancel(flow.id)
    flow.end("load[0]", outcome=Outcome.CANCELLED)

    assert flow.statuses("load", "load[0]", "nap") == [C, C, C]
    assert flow.status() is ExecutionStatus.CANCELLED


def test_ten_thousand_items_take_as_long_each_as_a_hundred() -> None:
    """The end of a step writes the same number of records, however many items there are."""
    written: list[int] = []
    for count in (100, ITEMS_MAX):
        flow = Flow(foreach("load", items=json.dumps([0] * count), max_parallel=10))
        report = flow.shard.report(flow.id, "load[0]", Outcome.SUCCEEDED)
        written.append(len(decide(flow.shard.state, report, flow.shard.situation).changes))

    assert written[0] == written[1] <= 4


# -- switches, matrices ----------------------------------------------------------------------------


def switch(name: str, *cases: tuple[str, tuple[str, ...]]) -> TaskSpec:
    """Return a switch with cases: an expression and names of tasks."""
    return replace(task(name), wait=Switch(cases=tuple(Case(*each) for each in cases)))


@pytest.mark.parametrize(
    ("size", "chosen"), [(5000, ["large", "both"]), (50, ["medium", "both"]), (5, [])]
)
def test_a_switch_runs_the_tasks_of_the_first_case_that_holds(size: int, chosen: list[str]) -> None:
    pick = switch(
        "pick",
        ("params.size > 1000", ("large", "both")),
        ("params.size > 10", ("medium", "both")),
    )
    tasks = [task(name, "pick") for name in ("large", "medium", "both", "free")]
    flow = Flow(pick, *tasks, parameters=json.dumps({"size": size}))

    assert flow.running() == [
        *(each for each in ("large", "medium", "both") if each in chosen),
        "free",
    ]
    assert json.loads(flow.tasks["pick"].result) == chosen


def test_what_a_switch_does_not_choose_is_skipped_whatever_its_rule() -> None:
    pick = switch("pick", ("", ("a",)), ("false", ("b",)))
    flow = Flow(pick, task("a", "pick"), task("b", "pick", rule=TriggerRule.ALL_DONE))

    assert flow.statuses("pick", "a", "b") == [S, TaskStatus.RUNNING, K]
    assert flow.tasks["b"].reason == "pick chose others"


def test_the_condition_of_a_task_that_a_switch_did_not_choose_is_not_evaluated() -> None:
    large = replace(task("large", "pick"), when="params.large.limit > 5")
    flow = Flow(switch("pick", ("false", ("large",))), large, parameters="{}")

    assert flow.tasks["large"].reason == "pick chose others"
    assert flow.status() is ExecutionStatus.SUCCESS


def test_a_rerun_follows_the_choice_of_a_switch_that_is_kept() -> None:
    pick = switch("pick", ("", ("a",)), ("false", ("b",)))
    b = task("b", "pick", rule=TriggerRule.ALL_DONE)
    flow = Flow(pick, task("a", "pick"), b)
    flow.fail("a")

    again = rerun_of(flow)

    assert flow.shard.statuses(again) == {"pick": "success", "a": "running", "b": "skipped"}


def test_after_a_switch_that_failed_tasks_follow_their_rules() -> None:
    alert = task("alert", "pick", rule=TriggerRule.ONE_FAILED)
    flow = Flow(switch("pick", ("params.size > 1", ("a", "alert"))), task("a", "pick"), alert)

    assert flow.statuses("pick", "a", "alert") == [F, K, TaskStatus.RUNNING]
    assert "case 0" in flow.tasks["pick"].reason


def test_a_matrix_has_an_item_for_each_combination() -> None:
    matrix = '{"os": ["linux", "mac"], "version": "params.versions"}'
    flow = Flow(foreach("test", matrix=matrix), parameters='{"versions": [3, 4]}')

    items = [json.loads(flow.tasks[f"test[{n}]"].item) for n in range(4)]
    assert items == [
        {"os": "linux", "version": 3},
        {"os": "linux", "version": 4},
        {"os": "mac", "version": 3},
        {"os": "mac", "version": 4},
    ]


@pytest.mark.parametrize(
    ("values", "reason"),
    [("range(9000)", "has 81,000,000 items"), ("params.long", "more than 8,388,608")],
)
def test_a_matrix_that_is_too_large_fails(values: str, reason: str) -> None:
    matrix = json.dumps({"a": values, "b": values})
    long = json.dumps({"long": ["x" * 1000] * 95})
    flow = Flow(foreach("test", matrix=matrix), parameters=long)

    assert flow.statuses("test") == [F]
    assert reason in flow.tasks["test"].reason


# -- teardowns -------------------------------------------------------------------------------------


def teardown(name: str, *needs: str, rule: TriggerRule = TriggerRule.ALL_SUCCESS) -> TaskSpec:
    """Return a teardown of the tasks *needs*."""
    return replace(task(name, *needs, rule=rule), is_teardown=True)


def cluster(**fields: Any) -> Flow:
    """Return a flow that makes a cluster, works on it in two tasks, and deletes it."""
    tasks = (task("make"), task("work", "make"), task("more", "work"), teardown("delete", "make"))
    return Flow(*tasks, **fields)


def test_a_teardown_starts_when_all_other_tasks_have_ended() -> None:
    flow = cluster()

    seen: list[list[str]] = []
    for name in ("make", "work", "more", "delete"):
        seen.append(flow.running())
        flow.end(name)

    assert seen == [["make"], ["work"], ["more"], ["delete"]]
    assert flow.status() is ExecutionStatus.SUCCESS


def test_a_teardown_runs_after_a_failure_and_hides_none() -> None:
    flow = cluster()
    flow.end("make")
    flow.fail("work")

    assert flow.running() == ["delete"]
    flow.end("delete")
    assert flow.status() is ExecutionStatus.FAILED


def test_a_teardown_whose_setup_failed_is_skipped() -> None:
    flow = cluster()

    flow.fail("make")

    assert flow.statuses("work", "delete") == [K, K]
    assert flow.status() is ExecutionStatus.FAILED


def test_a_teardown_runs_after_a_cancellation_with_retries() -> None:
    flow = cluster()
    flow.end("make")
    flow.shard.cancel(flow.id)
    before = flow.statuses("work", "more", "delete")
    flow.end("work", outcome=Outcome.CANCELLED)

    after = flow.statuses("work", "more", "delete")
    flow.shard.lose_node()

    assert before == [TaskStatus.RUNNING, C, TaskStatus.BLOCKED]
    assert after == [C, C, TaskStatus.RUNNING]
    assert [one.number for one in flow.tasks["delete"].attempts] == [1, 2]
    flow.end("delete")
    assert flow.statuses("delete") == [S]
    assert flow.status() is ExecutionStatus.CANCELLED


def test_a_teardown_that_runs_is_stopped_by_a_forced_cancellation_alone() -> None:
    flow = cluster()
    for name in ("make", "work", "more"):
        flow.end(name)

    flow.shard.cancel(flow.id)
    mild = [each.attempt.task for each in flow.shard.all_effects(Stop)]
    flow.shard.do(Cancel(execution_id=flow.id, is_forced=True))
    forced = [each.attempt.task for each in flow.shard.all_effects(Stop)]
    flow.end("delete", outcome=Outcome.CANCELLED)

    assert (mild, forced) == ([], ["delete"])
    assert flow.statuses("delete") == [C]
    assert flow.status() is ExecutionStatus.CANCELLED


def test_a_new_primary_does_not_stop_a_teardown_of_a_cancelled_execution() -> None:
    flow = cluster()
    flow.end("make")
    flow.shard.cancel(flow.id)
    flow.end("work", outcome=Outcome.CANCELLED)

    assert [each for each in pending(flow.shard.reloaded()) if isinstance(each, Stop)] == []


def test_an_execution_that_has_not_started_is_cancelled_with_its_teardowns() -> None:
    flow = Flow(task("make"), teardown("delete"), slots=0)

    flow.shard.cancel(flow.id)

    assert flow.statuses("make", "delete") == [C, C]


def test_a_teardown_runs_after_the_timeout_of_its_execution() -> None:
    flow = cluster(execution_timeout=TEN_SECONDS)
    flow.end("make")
    deadline = flow.shard.execution(flow.id).expires_at

    flow.shard.do(Expire(execution_id=flow.id, deadline=deadline))
    flow.end("work", outcome=Outcome.CANCELLED)

    assert flow.running() == ["delete"]
    flow.end("delete")
    assert flow.status() is ExecutionStatus.FAILED


def test_teardowns_may_need_each_other() -> None:
    first, second = (
        teardown("first"),
        teardown("second", "first", "main", rule=TriggerRule.ALL_DONE),
    )
    flow = Flow(task("main"), first, second)

    flow.fail("main")
    seen = [flow.running()]
    flow.fail("first")
    seen.append(flow.running())

    assert seen == [["first"], ["second"]]


def test_a_rerun_from_a_failure_runs_setup_and_teardown_again() -> None:
    flow = Flow(
        task("make"),
        task("done", "make"),
        task("work", "make"),
        task("other"),
        teardown("delete", "make"),
        teardown("close", "other"),
    )
    flow.end("make", "other")
    flow.end("done")
    flow.fail("work")
    flow.end("delete", "close")

    again = rerun_of(flow)

    assert flow.shard.statuses(again) == {
        "make": "running",
        "done": "success",
        "work": "blocked",
        "other": "success",
        "delete": "blocked",
        "close": "blocked",
    }


def test_a_rerun_keeps_a_setup_whose_teardown_failed() -> None:
    flow = cluster()
    flow.end("make")
    flow.fail("work")
    flow.fail("delete")

    again = rerun_of(flow)

    assert flow.shard.statuses(again) == {
        "make": "success",
        "work": "running",
        "more": "blocked",
        "delete": "blocked",
    }


def test_a_failure_stops_an_execution_that_fails_fast() -> None:
    tasks = (task("a"), task("b"), foreach("c", items="[1,2]", max_parallel=1), task("d", "b"))
    last = teardown("last", "b", rule=TriggerRule.ALL_DONE)
    flow = Flow(*tasks, last, fail_fast=True)

    flow.fail("a")
    stops = [each.attempt.task for each in flow.shard.all_effects(Stop)]
    flow.end("b", "c[0]", outcome=Outcome.CANCELLED)
    flow.end("last")

    assert stops == ["b", "c[0]"]
    assert flow.statuses("a", "b", "c", "d", "last") == [F, C, C, C, S]
    assert flow.status() is ExecutionStatus.FAILED
    assert flow.shard.execution(flow.id).reason == "was stopped, because a failed"


def test_a_round_that_waits_does_so_after_the_delay() -> None:
    nap = Sleep(duration=TEN_SECONDS)
    loop = Repeat(until="index > 1", limit=2, delay=TEN_SECONDS)
    flow = Flow(replace(task("nap"), loop=loop, wait=nap))

    seen: list[TaskStatus] = []
    for _ in range(3):
        flow.shard.pass_time(TEN_SECONDS)
        seen += flow.statuses("nap#2")

    assert seen == [TaskStatus.BACKING_OFF, TaskStatus.WAITING, S]


def test_an_allowed_failure_counts_as_a_success_but_is_shown() -> None:
    lint = replace(task("lint"), allows_failure=True)
    flow = Flow(lint, task("build", "lint"), task("alarm", "lint", rule=TriggerRule.ONE_FAILED))

    flow.fail("lint")
    flow.end("build")

    assert flow.statuses("lint", "build", "alarm") == [F, S, K]
    assert flow.status() is ExecutionStatus.SUCCESS


def test_an_allowed_failure_does_not_stop_a_flow_that_fails_fast() -> None:
    flow = Flow(replace(task("lint"), allows_failure=True), task("build"), fail_fast=True)

    flow.fail("lint")

    assert flow.running() == ["build"]


def test_a_loop_may_fail_too_but_its_steps_count_as_they_ended() -> None:
    each = replace(task("each"), loop=Foreach(items="[1, 2]"), allows_failure=True)
    flow = Flow(each, task("next", "each"))

    flow.fail("each[0]", "each[1]")

    assert flow.statuses("each", "each[0]") == [F, F]
    assert flow.running() == ["next"]
