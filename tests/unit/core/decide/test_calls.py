"""Tasks that run another job and wait for its end."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.model.attempt import Outcome
from rota.core.model.execution import LINKS_MAX, Execution, Origin, Task, TaskStatus
from rota.core.model.flow import CALL_BYTES_MAX, Foreach, RunJob
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import Overlap, TaskSpec
from rota.core.vocabulary.commands import (
    Cancel,
    ConfirmDelivery,
    DeleteJob,
    PauseJob,
    ReceiveMessage,
)
from unit.core.shard import Shard, task

CHILD = "default/child"


def call(name: str = "call", *needs: str, parameters: Any = None) -> TaskSpec:
    """Return a task that runs the job ``child``."""
    text = "" if parameters is None else json.dumps(parameters)
    return replace(task(name, *needs), wait=RunJob(job=CHILD, parameters=text))


class Pair:
    """A job that calls another one in the same shard."""

    def __init__(self, *tasks: TaskSpec, **child: Any) -> None:
        self.shard = Shard()
        self.child: JobId = self.shard.save(name="child", **child)
        self.parent: JobId = self.shard.save(*(tasks or (call(),)), name="parent")

    def start(self, parameters: str = "") -> ExecutionId:
        """Run the calling job, and deliver what it sends."""
        execution_id = self.shard.trigger(self.parent, parameters=parameters)
        self.shard.deliver()
        return execution_id

    def children(self) -> list[Execution]:
        """Return the unfinished executions of the called job."""
        live = map(self.shard.execution, self.shard.live())
        return [one for one in live if one.job_id == self.child]

    def task(self, execution_id: ExecutionId, name: str = "call") -> Task:
        """Return a task of an execution."""
        return self.shard.task(execution_id, name)


def test_a_task_runs_another_job_and_waits_until_that_has_succeeded() -> None:
    pair = Pair(parameters='{"of": "child"}')
    parent = pair.start()

    (child,) = pair.children()
    waiting = pair.task(parent)
    pair.shard.finish(child.id, result=b"7")
    pair.shard.deliver()

    assert (waiting.status, waiting.called) == (TaskStatus.WAITING, child.id)
    assert (child.origin, child.parameters) == (Origin.TASK, '{"of": "child"}')
    assert child.caller is not None
    assert (child.caller.execution_id, child.caller.task) == (parent, "call")
    assert pair.shard.status(parent) == "success"
    result = json.loads(pair.task(parent).own_result)
    assert result == {"executionId": child.id, "status": "success", "results": {"main": 7}}


def test_the_parameters_of_a_call_are_templates_and_replace_those_of_the_job() -> None:
    pair = Pair(call(parameters={"day": "{{ params.day }}"}), parameters='{"of": "child"}')

    pair.start('{"day": "2026-11-29"}')

    assert [json.loads(child.parameters) for child in pair.children()] == [{"day": "2026-11-29"}]


def test_a_failure_of_the_called_job_is_one_of_its_task() -> None:
    pair = Pair()
    parent = pair.start()
    (child,) = pair.children()

    pair.shard.finish(child.id, outcome=Outcome.FAILED)
    pair.shard.deliver()

    assert pair.shard.status(parent) == "failed"
    assert f"execution {child.id} failed" in pair.task(parent).reason
    assert json.loads(pair.task(parent).own_result)["status"] == "failed"


def test_each_item_of_a_loop_may_run_a_job() -> None:
    loop = replace(call(parameters={"n": "{{ item }}"}), loop=Foreach(items="[1, 2]"))
    pair = Pair(loop, overlap=Overlap.ALLOW)
    parent = pair.start()

    children = pair.children()
    for child in children:
        pair.shard.finish(child.id)
    pair.shard.deliver()

    assert sorted(child.parameters for child in children) == ['{"n":1}', '{"n":2}']
    assert pair.shard.status(parent) == "success"


def test_a_cancellation_of_the_task_cancels_the_execution_that_it_waits_for() -> None:
    pair = Pair()
    parent = pair.start()
    (child,) = pair.children()

    pair.shard.do(Cancel(execution_id=parent))
    pair.shard.deliver()
    pair.shard.finish(child.id, outcome=Outcome.CANCELLED)
    pair.shard.deliver()

    assert (pair.shard.status(parent), pair.shard.status(child.id)) == ("cancelled", "cancelled")
    assert (
        f"cancelled with task call of execution {parent}" in pair.shard.execution(child.id).reason
    )


def test_a_cancellation_before_the_other_job_has_begun_reaches_it_too() -> None:
    pair = Pair()
    parent = pair.shard.trigger(pair.parent)

    pair.shard.do(Cancel(execution_id=parent))
    pair.shard.deliver()

    (child,) = pair.children()
    assert child.cancelled_at


def test_a_cancellation_of_one_caller_leaves_the_executions_of_others_alone() -> None:
    pair = Pair(overlap=Overlap.ALLOW)
    first, second = pair.start(), pair.start()

    pair.shard.do(Cancel(execution_id=second))
    pair.shard.deliver()

    (cancelled,) = (child for child in pair.children() if child.cancelled_at)
    assert cancelled.caller is not None
    assert cancelled.caller.execution_id == second
    assert pair.shard.status(first) == "running"


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("deleted", "there is no job default/child"),
        ("paused", "job default/child is paused"),
        ("busy", "the overlap policy is skip"),
    ],
)
def test_a_job_that_cannot_run_fails_the_task_with_the_reason(why: str, reason: str) -> None:
    pair = Pair(overlap=Overlap.SKIP)
    if why == "deleted":
        pair.shard.do(DeleteJob(job_id=pair.child))
    elif why == "paused":
        pair.shard.do(PauseJob(job_id=pair.child))
    else:
        pair.shard.trigger(pair.child)

    parent = pair.start()

    assert pair.shard.status(parent) == "failed"
    assert reason in pair.task(parent).reason


def test_a_queued_execution_of_the_other_job_is_waited_for() -> None:
    pair = Pair(overlap=Overlap.QUEUE_ONE)
    before = pair.shard.trigger(pair.child)
    parent = pair.start()
    waiting = pair.task(parent)

    pair.shard.finish(before)
    (child,) = pair.children()
    pair.shard.finish(child.id)
    pair.shard.deliver()

    assert waiting.status is TaskStatus.WAITING
    assert waiting.called == child.id
    assert pair.shard.status(parent) == "success"


def test_results_that_are_too_large_are_left_out_with_a_reason() -> None:
    pair = Pair()
    parent = pair.start()
    (child,) = pair.children()

    pair.shard.finish(child.id, result=json.dumps("x" * CALL_BYTES_MAX).encode())
    pair.shard.deliver()

    done = pair.task(parent)
    assert done.status is TaskStatus.SUCCESS
    assert json.loads(done.own_result)["results"] is None
    assert "are left out" in done.reason


def test_parameters_that_become_too_large_fail_the_task() -> None:
    pair = Pair(call(parameters={"all": ["{{ params.text }}"] * 2}))

    parent = pair.start(json.dumps({"text": "x" * (CALL_BYTES_MAX * 2 // 3)}))

    assert pair.shard.status(parent) == "failed"
    assert "at most 65,536 are allowed" in pair.task(parent).reason


def test_two_jobs_that_run_each_other_end_with_a_failure() -> None:
    shard = Shard()
    there = replace(task("call"), wait=RunJob(job="default/b"))
    back = replace(task("call"), wait=RunJob(job="default/a"))
    first = shard.save(there, name="a", overlap=Overlap.ALLOW)
    shard.save(back, name="b", overlap=Overlap.ALLOW)

    begun = shard.trigger(first)
    for _ in range(2 * LINKS_MAX + 4):
        shard.deliver()

    assert shard.status(begun) == "failed"
    assert not shard.live()


def test_repeated_messages_change_nothing() -> None:
    pair = Pair(overlap=Overlap.ALLOW)
    parent = pair.shard.trigger(pair.parent)
    deliver_twice(pair.shard)

    (child,) = pair.children()
    deliver_twice(pair.shard)
    pair.shard.finish(child.id)
    deliver_twice(pair.shard)

    assert not pair.children()
    assert pair.shard.status(parent) == "success"


def deliver_twice(shard: Shard) -> None:
    """Deliver all messages that wait, each twice, as a sender that has died in between."""
    for item in list(shard.state.outbox.values()):
        repetition = ReceiveMessage(message=item.message, outbox_key=item.key)
        shard.do(repetition)
        shard.do(repetition)
        shard.do(ConfirmDelivery(key=item.key))
    shard.messages.clear()
