"""Requests that create or trigger many jobs: one answer for each item, all in one turn."""

from pathlib import Path
from typing import Any

import pytest

from support.in_process import HeldStore, running_works, serving
from support.rotad import Refusal, Rotad

JOBS = "/api/v1/jobs:batch"
EXECUTIONS = "/api/v1/executions:batch"


def create_many(node: Rotad, items: list[Any], **headers: str) -> list[Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return list(node.call("POST", JOBS, {"items": items}, named)["items"])


def test_each_item_has_the_answer_that_it_would_have_alone(node: Rotad) -> None:
    node.create(name="same", command="true")
    node.create(name="other", command="true")

    results = create_many(
        node,
        [
            {"name": "new", "namespace": "team", "command": "true"},
            {"name": "same", "command": "true"},
            {"name": "other", "command": "false"},
            {"name": "bad", "command": "true", "schedule": "61 * * * *"},
            {"name": "bad", "comand": "true"},
            {"name": "bad", "type": "nope"},
            5,
        ],
        X_Request_Id="asked",
    )

    assert [each["status"] for each in results] == [201, 200, 409, 422, 422, 422, 422]
    assert (results[0]["job"], results[0]["version"]) == ("team/new", 1)
    assert node.call("GET", f"/api/v1/jobs/{results[0]['jobId']}")["name"] == "new"
    codes = [each["error"] and each["error"]["code"] for each in results]
    assert codes == [
        None, None, "job_exists", "invalid_job", "invalid_body", "unknown_type", "invalid_body",
    ]  # fmt: skip
    pointers = [each["error"]["errors"][0]["pointer"] for each in results[3:]]
    assert pointers == ["/items/3/schedule", "/items/4/comand", "/items/5/type", "/items/6"]
    assert {each["error"]["requestId"] for each in results[2:]} == {"asked"}
    assert all(each["error"]["status"] == each["status"] for each in results[2:])


def test_jobs_are_created_or_replaced_and_each_result_says_which(node: Rotad) -> None:
    node.create(name="same-again", command="true")
    node.create(name="changed", command="true")
    items = [
        {"name": "same-again", "command": "true"},
        {"name": "changed", "command": "false", "schedule": "@hourly"},
        {"name": "fresh", "command": "true"},
        {"name": "bad", "command": "true", "schedule": "61 * * * *"},
    ]

    tried = node.call("PUT", f"{JOBS}?dryRun=true", {"items": items})["items"]
    saved = node.call("PUT", f"{JOBS}?views=true", {"items": items})["items"]
    again = node.call("PUT", JOBS, {"items": items[:3]})["items"]

    changes = ["unchanged", "replaced", "created", None]
    assert [each["change"] for each in tried] == [each["change"] for each in saved] == changes
    assert [each["status"] for each in saved] == [200, 200, 201, 422]
    assert [each["version"] for each in saved] == [1, 2, 1, None]
    assert [each["change"] for each in again] == ["unchanged"] * 3
    assert saved[3]["error"]["errors"][0]["pointer"] == "/items/3/schedule"
    view = saved[1]["view"]
    assert view["definition"]["command"] == "false"
    assert len(view["nextFires"]) == 5
    assert saved[3]["view"] is tried[1]["view"] is None


def test_schedules_of_a_batch_are_counted_before_they_are_read(node: Rotad) -> None:
    items = [
        {"name": f"many-{number}", "command": "true", "schedules": ["61 * * * *"] * 64}
        for number in range(32)
    ]

    *_, read, counted = create_many(node, items)

    assert "has minute 61" in read["error"]["detail"]
    assert "the batch has more than 2,000 schedules" in counted["error"]["detail"]


def test_a_few_unknown_zones_of_a_batch_get_a_hint(node: Rotad) -> None:
    items = [
        {"name": "job", "command": "true", "timezone": f"Europe/Paris{number}"}
        for number in range(5)
    ]

    results = create_many(node, items)

    hinted = ["did you mean Europe/Paris" in each["error"]["detail"] for each in results]
    assert hinted == [True, True, True, False, False]


def test_a_batch_is_made_once_however_often_it_is_sent_with_its_key(node: Rotad) -> None:
    items = [{"name": f"keyed-{number}", "type": "scripted"} for number in range(3)]

    first = create_many(node, items, Idempotency_Key="batch-1")
    again = create_many(node, items, Idempotency_Key="batch-1")
    other = create_many(
        node, [items[0], {**items[1], "priority": 1}, items[2]], Idempotency_Key="batch-1"
    )

    assert [each["status"] for each in first] == [201] * 3
    assert again == first
    assert [each["status"] for each in other] == [201, 422, 201]
    assert other[1]["error"]["code"] == "idempotency_key_reused"


def test_an_item_of_a_repetition_keeps_the_version_that_it_made(node: Rotad) -> None:
    items = [{"name": "kept", "type": "scripted"}]
    first = create_many(node, items, Idempotency_Key="kept")
    node.call("PATCH", "/api/v1/jobs/kept", {"priority": 1})

    again = create_many(node, items, Idempotency_Key="kept")

    assert again == first


def test_an_item_of_a_repetition_whose_job_is_gone_is_not_found(node: Rotad) -> None:
    items = [{"name": "gone", "type": "scripted"}]
    create_many(node, items, Idempotency_Key="gone")
    node.call("DELETE", "/api/v1/jobs/gone")

    [again] = create_many(node, items, Idempotency_Key="gone")

    assert (again["status"], again["error"]["code"]) == (404, "job_not_found")


def test_triggers_of_a_batch_take_its_key_or_their_own(node: Rotad) -> None:
    node.create(name="batched", type="scripted")
    items: list[Any] = [{"job": "batched"}, {"job": "batched", "idempotencyKey": "own"}]
    key = {"Idempotency-Key": "triggers"}

    first = node.call("POST", EXECUTIONS, {"items": items}, key)["items"]
    again = node.call("POST", EXECUTIONS, {"items": items}, key)["items"]
    alone = node.call("POST", "/api/v1/jobs/batched/trigger", {}, {"Idempotency-Key": "triggers/0"})
    own = node.call("POST", "/api/v1/jobs/batched/trigger", {}, {"Idempotency-Key": "own"})

    assert again == first
    assert alone["executionId"] == first[0]["executionId"]
    assert own["executionId"] == first[1]["executionId"]


def test_a_bad_trigger_says_where_and_harms_no_other(node: Rotad) -> None:
    node.create(name="fine", type="scripted")
    items = [{"job": "fine"}, {"job": "fine", "parameter": 1}, {"job": "absent"}, {}]

    answer = node.call("POST", EXECUTIONS, {"items": items}, {"X-Request-Id": "asked"})

    good, *bad = answer["items"]
    assert node.ended(good["executionId"])["status"] == "success"
    assert [each["error"]["code"] for each in bad] == [
        "invalid_body", "job_not_found", "invalid_body",
    ]  # fmt: skip
    pointers = [[error["pointer"] for error in each["error"]["errors"]] for each in bad]
    assert pointers == [["/items/1/parameter"], [], ["/items/3/job"]]
    assert {each["error"]["requestId"] for each in bad} == {"asked"}
    assert bad[0]["error"]["detail"].startswith("/items/1/parameter: ")


NO_BATCHES: list[tuple[Any, int, str]] = [
    ({"items": []}, 422, "no_items"),
    ({"items": [{}] * 1_001}, 422, "too_many_items"),
    ({}, 422, "invalid_body"),
    ({"items": [], "item": []}, 422, "invalid_body"),
    (b'{"items": [{', 400, "malformed_json"),
]


@pytest.mark.parametrize("path", [JOBS, EXECUTIONS])
@pytest.mark.parametrize(("body", "status", "code"), NO_BATCHES)
def test_a_batch_that_is_none_is_refused_whole(
    node: Rotad, path: str, body: Any, status: int, code: str
) -> None:
    with pytest.raises(Refusal) as raised:
        node.call("POST", path, body)

    assert (raised.value.status, raised.value.problem["code"]) == (status, code)


def test_waiting_for_no_execution_says_that_there_are_none(node: Rotad) -> None:
    with pytest.raises(Refusal) as raised:
        node.call("POST", "/api/v1/executions:wait", {"executionIds": []})

    assert raised.value.problem["code"] == "no_items"


async def test_a_whole_batch_is_one_entry_of_each_shard(tmp_path: Path) -> None:
    async with running_works(HeldStore(), tmp_path) as wiring, serving(wiring) as client:
        shards = wiring.context.shards
        items = [{"name": f"job-{number}", "type": "scripted"} for number in range(1_000)]
        before = shards.entry_count, shards.decision_count

        status, answer = await client.call("POST", JOBS, {"items": items})

        assert status == 200
        assert {each["status"] for each in answer["items"]} == {201}
        assert shards.entry_count - before[0] == len(shards)
        assert shards.decision_count - before[1] == len(items)
