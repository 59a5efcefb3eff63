"""Flows on a node: loops, conditions, templates, waits and approvals."""

import json
from typing import Any

import pytest

from support.rotad import Refusal, Rotad


def _is_waiting(node: Rotad, execution_id: str, task: str) -> bool:
    tasks = node.call("GET", f"/api/v1/executions/{execution_id}")["tasks"]
    return bool(tasks[task]["status"] == "waiting")


def test_a_loop_runs_its_task_for_each_item_of_a_result(node: Rotad) -> None:
    files = ["a b.csv", "it's", "$(id)"]
    tasks = [
        {"name": "list", "command": "cat > $ROTA_RESULT", "stdin": json.dumps(files)},
        {
            "name": "load",
            "needs": ["list"],
            "foreach": "results.list",
            "command": "echo {{ item | length }} > $ROTA_RESULT; echo {{ item }} $ROTA_INDEX",
        },
        {"name": "join", "needs": ["load"], "command": "cat $ROTA_RESULTS"},
    ]

    execution = node.run(name="mapped", tasks=tasks)

    assert execution["status"] == "success", execution
    found = execution["tasks"]
    assert list(found) == ["list", "load", "load[0]", "load[1]", "load[2]", "join"]
    assert found["load"]["steps"]["total"] == 3
    assert [found[f"load[{number}]"]["item"] for number in range(3)] == files
    assert found["load[2]"]["attempts"][0]["outputTail"] == "$(id) 2\n"
    assert json.loads(found["join"]["attempts"][0]["outputTail"]) == {"load": [7, 4, 5]}
    path = f"/api/v1/executions/{execution['executionId']}/tasks/load%5B1%5D/output"
    assert node.call("GET", path) == "it's 1\n"


def _refusal(node: Rotad, path: str, body: Any) -> str:
    """Return the code with which a request is refused."""
    with pytest.raises(Refusal) as refused:
        node.call("POST", path, body)
    return str(refused.value.problem["code"])


def test_an_approval_waits_without_a_slot_until_a_person_answers(node: Rotad) -> None:
    # Without "type", which would refuse an answer without a form, too.
    schema = {"properties": {"rate": {"type": "number"}}, "required": ["rate"]}
    node.create(
        name="release",
        tasks=[
            {"name": "check", "approval": {"message": "ship {{ params.v }}?", "form": schema}},
            {"name": "ship", "needs": ["check"], "command": "echo {{ results.check.rate }}"},
        ],
    )
    started = node.trigger("release", parameters={"v": "1.4"})
    path = f"/api/v1/executions/{started}"
    node.wait_until(lambda: _is_waiting(node, started, "check"))
    reason = node.call("GET", path)["tasks"]["check"]["reason"]

    incomplete: list[Any] = [{"approve": True, "form": {}}, {"approve": True}]
    refusals = [_refusal(node, f"{path}/tasks/check/answer", each) for each in incomplete]
    answer = {"approve": True, "form": {"rate": 0.5}}
    for _ in range(2):  # A repetition changes nothing.
        node.call("POST", f"{path}/tasks/check/answer", answer)
    other = _refusal(node, f"{path}/tasks/check/answer", {**answer, "form": {"rate": 9}})
    execution = node.ended(started)

    assert other == "not_waiting"
    assert reason == "waits for approval: ship 1.4?"
    assert refusals == ["invalid_answer"] * 2
    assert execution["status"] == "success"
    assert execution["tasks"]["check"]["answeredBy"]["principal"]
    assert execution["tasks"]["ship"]["attempts"][0]["outputTail"] == "0.5\n"


def test_waits_and_loops_go_on_after_a_restart_of_the_node(own_node: Rotad) -> None:
    own_node.start()
    own_node.create(
        name="restarted",
        tasks=[
            {"name": "nap", "sleep": "2s"},
            {"name": "ask", "approval": "all well?"},
            {"name": "each", "needs": ["nap", "ask"], "foreach": [1, 2, 3], "command": "true"},
        ],
    )
    started = own_node.trigger("restarted")
    own_node.wait_until(lambda: _is_waiting(own_node, started, "ask"))

    own_node.kill()
    own_node.start()
    path = f"/api/v1/executions/{started}/tasks/ask/answer"
    own_node.call("POST", path, {"approve": True})
    execution = own_node.ended(started)

    assert execution["status"] == "success"
    assert execution["tasks"]["each[2]"]["status"] == "success"


def test_a_python_function_skips_its_own_task(node: Rotad) -> None:
    call = {"function": "rota.client.task_functions:skip", "args": ["nothing new"]}
    tasks = [
        {"name": "load", "python": call, "retries": 3},
        {"name": "next", "needs": ["load"], "command": "true"},
    ]

    execution = node.run(name="skipping", tasks=tasks)

    found = execution["tasks"]
    assert (found["load"]["status"], found["load"]["reason"]) == (
        "skipped",
        "skipped itself: nothing new",
    )
    assert len(found["load"]["attempts"]) == 1
    assert found["next"]["status"] == "skipped"
    assert execution["status"] == "success"


def test_a_loop_hands_its_items_to_a_python_function_as_they_are(node: Rotad) -> None:
    call = {"function": "builtins:sorted", "args": ["{{ item.of }}"], "kwargs": {"reverse": True}}
    tasks = [{"name": "sort", "foreach": [{"of": [1, 3, 2]}], "python": call}]

    execution = node.run(name="sorting", tasks=tasks)

    assert execution["tasks"]["sort[0]"]["attempts"][0]["result"] == [3, 2, 1]


def test_a_teardown_runs_on_after_a_cancellation_until_a_forced_one(node: Rotad) -> None:
    tasks = [
        {"name": "make", "command": "echo made"},
        {"name": "work", "needs": ["make"], "command": "sleep 60"},
        {"name": "delete", "needs": ["make"], "teardown": True, "command": "sleep 60"},
    ]
    started = node.trigger(node.create(name="torn-down", tasks=tasks)["jobId"])
    path = f"/api/v1/executions/{started}"

    def is_running(task: str) -> bool:
        return bool(node.call("GET", path)["tasks"][task]["status"] == "running")

    node.wait_until(lambda: is_running("work"))
    node.call("POST", f"{path}/cancel")
    node.wait_until(lambda: is_running("delete"))
    again = node.call("POST", f"{path}/cancel")
    node.call("POST", f"{path}/cancel?force=true")
    execution = node.ended(started)

    assert again["tasks"]["delete"]["status"] == "running"
    found = {name: each["status"] for name, each in execution["tasks"].items()}
    assert found == {"make": "success", "work": "cancelled", "delete": "cancelled"}
    assert execution["status"] == "cancelled"


def test_the_parameters_of_a_trigger_are_checked_by_the_schema_of_the_job(node: Rotad) -> None:
    schema = {"properties": {"day": {"type": "string"}, "n": {"default": 3}}, "required": ["day"]}
    command = "echo {{ params.day }} {{ params.n }}"
    node.create(name="checked", command=command, parametersSchema=schema)

    refused: list[str] = []
    for body in ({}, {"parameters": {"dya": "mon"}}, {"parameters": {"day": 1}}):
        with pytest.raises(Refusal) as raised:
            node.call("POST", "/api/v1/jobs/checked/trigger", body)
        assert raised.value.problem["code"] == "invalid_parameters"
        refused.append(raised.value.problem["errors"][0]["pointer"])
    execution = node.ended(node.trigger("checked", parameters={"day": "mon"}))
    again = node.call("POST", f"/api/v1/executions/{execution['executionId']}/rerun", {})

    assert refused == ["/parameters", "/parameters/dya", "/parameters/day"]
    assert execution["tasks"]["main"]["attempts"][0]["outputTail"] == "mon 3\n"
    assert node.ended(again["executionId"])["status"] == "success"


def test_jobs_that_run_each_other_in_a_circle_are_refused(node: Rotad) -> None:
    for name, called in (("a", "b"), ("b", "c")):
        made = node.create(name=name, tasks=[{"name": "go", "runJob": called}])
        missing = f"task go: the job default/{called} does not exist; create it, or the task fails"
        assert made["warnings"] == [missing]

    with pytest.raises(Refusal) as refused:
        node.create(name="c", tasks=[{"name": "go", "runJob": "a"}])
    made = node.create(name="c", tasks=[{"name": "go", "runJob": "d"}])

    error = refused.value.problem["errors"][0]
    circle = "default/c -> default/a -> default/b -> default/c"
    assert (refused.value.status, error["pointer"]) == (422, "/tasks/0/runJob")
    assert f"the jobs run each other in a circle: {circle}" in error["detail"]
    assert made["name"] == "c"


def test_an_event_ends_the_wait_of_a_task_and_survives_a_restart(own_node: Rotad) -> None:
    own_node.start()
    wait = {"event": "paid", "timeout": "1h"}
    own_node.create(
        name="order",
        tasks=[
            {"name": "ask", "approval": "all well?"},
            {"name": "pay", "needs": ["ask"], "waitForEvent": wait},
            {"name": "ship", "needs": ["pay"], "command": "echo {{ results.pay.sum }}"},
        ],
    )
    started = own_node.trigger("order")
    path = f"/api/v1/executions/{started}"
    own_node.wait_until(lambda: _is_waiting(own_node, started, "ask"))
    event = {"name": "paid", "data": {"sum": 7}}
    own_node.call("POST", f"{path}/events", event)

    own_node.kill()
    own_node.start()
    own_node.call("POST", f"{path}/events", event)  # A repetition changes nothing.
    own_node.call("POST", f"{path}/tasks/ask/answer", {"approve": True})
    execution = own_node.ended(started)

    assert execution["tasks"]["ship"]["attempts"][0]["outputTail"] == "7\n"
    assert execution["tasks"]["pay"]["answeredBy"]["principal"]
    with pytest.raises(Refusal) as refused:
        own_node.call("POST", f"{path}/events", event)
    assert refused.value.problem["code"] == "not_unfinished"


@pytest.mark.parametrize(
    ("event", "pointer"),
    [({"name": "a b"}, "/name"), ({"name": "a", "data": "x" * 65_536}, "/data")],
)
def test_an_event_with_a_strange_name_or_much_data_is_refused(
    node: Rotad, event: dict[str, str], pointer: str
) -> None:
    node.create(name="waiter", tasks=[{"name": "wait", "waitForEvent": "a"}])
    started = node.trigger("waiter")

    with pytest.raises(Refusal) as refused:
        node.call("POST", f"/api/v1/executions/{started}/events", event)

    node.call("POST", f"/api/v1/executions/{started}/cancel")
    assert refused.value.problem["code"] == "invalid_event"
    assert [each["pointer"] for each in refused.value.problem["errors"]] == [pointer]
