"""Replacement, patch, pause and resumption of jobs over the API."""

import asyncio
from pathlib import Path

import pytest

from rota.core.timing.instants import SECOND, Instant, format_instant, parse_instant
from support.in_process import HeldStore, running_works, save, serving, turns, until
from support.rotad import Json, Refusal, Rotad


def put(node: Rotad, job: str, headers: dict[str, str] | None = None, **body: Json) -> Json:
    return node.call("PUT", f"/api/v1/jobs/default/{job}", body, headers)


def patch(node: Rotad, job: str, headers: dict[str, str] | None = None, **body: Json) -> Json:
    return node.call("PATCH", f"/api/v1/jobs/{job}", body, headers)


def test_put_creates_and_then_replaces(node: Rotad) -> None:
    first = put(node, "put", command="echo one")
    second = put(node, "put", command="echo two")
    again = put(node, "put", command="echo two")

    assert second["jobId"] == first["jobId"]
    assert [each["version"] for each in (first, second, again)] == [1, 2, 2]
    assert node.ended(node.trigger("put"))["tasks"]["main"]["attempts"][0]["outputTail"] == "two\n"


def test_the_address_and_the_body_must_agree(node: Rotad) -> None:
    with pytest.raises(Refusal, match="in the path; they must be the same") as refused:
        put(node, "here", name="there", command="true")

    assert refused.value.status == 422
    assert refused.value.problem["errors"][0]["pointer"] == "/name"


def test_what_is_shown_can_be_sent_again(node: Rotad) -> None:
    tasks = [{"name": "a", "command": "true"}, {"name": "b", "command": ["x"], "needs": ["a"]}]
    made = put(node, "shown", tasks=tasks, schedule="@hourly", retries={"limit": 2, "jitter": 0.5})

    again = put(node, "shown", **node.call("GET", "/api/v1/jobs/shown")["definition"])

    assert again["version"] == made["version"]


def test_a_patch_changes_what_it_names(node: Rotad) -> None:
    put(
        node, "patched", command="echo hello", schedule="@hourly", labels={"team": "a", "tier": "1"}
    )

    changed = patch(node, "patched", schedule="@daily", labels={"team": None})

    assert changed["version"] == 2
    assert changed["schedules"][0]["schedule"] == "@daily"
    assert changed["labels"] == {"tier": "1"}
    assert changed["tasks"][0]["command"] == "echo hello"


def test_an_instant_that_has_passed_is_refused_by_every_write_unless_misfire_is_given(
    node: Rotad,
) -> None:
    past: Json = {"schedule": "@at 2020-01-01T00:00:00Z"}
    put(node, "passed", command="true", schedule="@hourly")
    body = {"name": "new-passed", "command": "true", **past}
    batch = {"items": [body]}

    for method, path, content in (
        ("POST", "/api/v1/jobs", body),
        ("POST", "/api/v1/jobs?dryRun=true", body),
        ("PUT", "/api/v1/jobs/default/passed", {"command": "true", **past}),
        ("PATCH", "/api/v1/jobs/passed", past),
    ):
        with pytest.raises(Refusal, match="has passed") as refused:
            node.call(method, path, content)
        assert refused.value.problem["code"] == "past_schedule"
    (made,) = node.call("POST", "/api/v1/jobs:batch", batch)["items"]
    assert made["error"]["code"] == "past_schedule"
    taken = patch(node, "passed", **past, misfire="skip")
    node.wait_until(lambda: len(node.ledger("passed")) == 1)
    kept = patch(node, "passed", description="has passed", misfire=None)

    assert [entry["outcome"] for entry in node.ledger("passed")] == ["missed"]
    assert kept["version"] == taken["version"] + 1


def test_a_patch_cannot_rename(node: Rotad) -> None:
    put(node, "fixed", command="true")

    with pytest.raises(Refusal, match="cannot be renamed") as refused:
        patch(node, "fixed", name="other")

    assert refused.value.status == 422


def test_a_wrong_patch_says_which_field(node: Rotad) -> None:
    put(node, "wrong-patch", command="true")

    with pytest.raises(Refusal) as refused:
        patch(node, "wrong-patch", retires=3)

    assert refused.value.problem["errors"][0]["pointer"] == "/retires"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_change_made_for_another_version_is_refused(node: Rotad, method: str) -> None:
    name = f"matched-{method.lower()}"
    put(node, name, command="true")
    put(node, name, command="false")
    path = f"/api/v1/jobs/default/{name}" if method == "PUT" else f"/api/v1/jobs/{name}"
    body = None if method == "DELETE" else {"command": "exit 2"}

    with pytest.raises(Refusal) as refused:
        node.call(method, path, body, {"If-Match": '"1"'})
    node.call(method, path, body, {"If-Match": '"2"'})

    assert refused.value.status == 412
    assert refused.value.problem["code"] == "version_mismatch"


def test_if_none_match_only_creates(node: Rotad) -> None:
    put(node, "only-new", {"If-None-Match": "*"}, command="true")

    for command in ("true", "false"):
        with pytest.raises(Refusal, match="version_mismatch") as refused:
            put(node, "only-new", {"If-None-Match": "*"}, command=command)
        assert refused.value.status == 412


def test_a_circle_of_jobs_is_refused_with_its_path(node: Rotad) -> None:
    put(node, "ring-a", command="true")
    put(node, "ring-b", command="true", dependencies=["ring-a"])
    put(node, "ring-c", command="true", dependencies=["ring-b", "ring-a"])
    put(node, "aside", command="true")

    with pytest.raises(Refusal, match="invalid_job") as refused:
        put(node, "ring-a", command="true", dependencies=["aside", "ring-c"])

    [error] = refused.value.problem["errors"]
    assert error["pointer"] == "/dependencies/1"
    ring = "default/ring-a -> default/ring-c -> default/ring-a"
    assert (
        error["detail"] == f"the dependencies of the jobs form a circle: {ring}; remove one of them"
    )
    with pytest.raises(Refusal, match="default/ring-a -> default/ring-b -> default/ring-a"):
        node.call("PATCH", "/api/v1/jobs/ring-a", {"dependencies": ["ring-b"]})
    put(node, "ring-c", command="false", dependencies=["ring-a", "ring-b"])


def test_a_job_that_was_deleted_does_not_come_back_into_a_circle(node: Rotad) -> None:
    put(node, "gone", command="true")
    put(node, "left", command="true", dependencies=["gone"])
    node.call("DELETE", "/api/v1/jobs/gone")

    with pytest.raises(Refusal, match="default/gone -> default/left -> default/gone"):
        node.create(name="gone", command="true", dependencies=["left"])


@pytest.mark.parametrize("path", ["two/both", "two%2Fboth", "both?namespace=two"])
def test_a_job_has_the_same_paths_for_all_methods(node: Rotad, path: str) -> None:
    bare, _, query = path.partition("?")

    def call(method: str, sub: str = "", body: Json = None) -> Json:
        return node.call(method, f"/api/v1/jobs/{bare}{sub}?{query}", body)

    assert call("PUT", body={"command": "true"})["namespace"] == "two"
    assert call("PATCH", body={"retries": 1})["version"] == 2
    assert call("GET")["name"] == "both"
    assert call("POST", "/trigger")["executionId"]
    assert call("POST", "/pause")["status"] == "paused"
    assert call("POST", "/resume")["name"] == "both"
    assert call("GET", "/next") == {"items": []}
    assert call("GET", "/ledger")["items"] == []
    call("DELETE")


def test_a_job_is_put_by_its_id_too(node: Rotad) -> None:
    job_id = put(node, "by-id", command="true")["jobId"]

    replaced = node.call("PUT", f"/api/v1/jobs/{job_id}", {"command": "false"})

    assert (replaced["name"], replaced["version"]) == ("by-id", 2)
    with pytest.raises(Refusal, match="job_not_found"):
        node.call("PUT", f"/api/v1/jobs/{job_id[::-1]}", {"command": "false"})


def test_a_paused_job_does_not_fire_and_its_ledger_says_why(node: Rotad) -> None:
    put(node, "paused", type="scripted", schedule="@every 100ms")
    node.wait_until(lambda: len(node.ledger("paused")) > 1)

    shown = node.call("POST", "/api/v1/jobs/paused/pause", {"reason": "moving house"})
    node.wait_until(lambda: node.ledger("paused")[-1]["outcome"] == "paused")
    said = node.ledger("paused")[-1]["reason"]
    node.call("POST", "/api/v1/jobs/paused/resume")
    node.wait_until(lambda: node.ledger("paused")[-1]["outcome"] == "fired")

    assert shown["status"] == "paused"
    assert shown["pauseReason"] == "moving house"
    assert said.endswith("by operator: moving house")
    assert node.call("GET", "/api/v1/jobs/paused")["pausedAt"] is None
    node.call("DELETE", "/api/v1/jobs/paused")


def test_an_execution_keeps_its_version_through_kill_9(own_node: Rotad) -> None:
    own_node.start()
    tasks = [
        {"name": "first", "type": "scripted", "parameters": {"sleepMs": 700}},
        {"name": "then", "type": "scripted", "needs": ["first"]},
    ]
    put(own_node, "job", tasks=tasks)
    execution_id = own_node.trigger("job")
    put(own_node, "job", command="true")

    own_node.kill()
    own_node.start()

    execution = own_node.ended(execution_id)
    assert execution["status"] == "success"
    assert execution["jobVersion"] == 1
    assert set(execution["tasks"]) == {"first", "then"}


@pytest.mark.parametrize("tag", ['"1"', '*, "1"', "W/*"])
def test_if_none_match_of_another_kind_is_refused_and_not_ignored(node: Rotad, tag: str) -> None:
    put(node, "no-such-tag", command="true")

    with pytest.raises(Refusal, match="invalid_if_none_match") as refused:
        put(node, "no-such-tag", {"If-None-Match": tag}, command="false")

    assert refused.value.status == 422
    assert node.call("GET", "/api/v1/jobs/no-such-tag")["version"] == 1


async def test_concurrent_patches_without_a_version_are_all_applied(tmp_path: Path) -> None:
    store = HeldStore()
    async with running_works(store, tmp_path) as wiring, serving(wiring) as client:
        await save(wiring.context.shards, "crowded")
        store.hold()
        async with asyncio.TaskGroup() as group:
            for number in range(12):
                body = {"labels": {f"label-{number}": "set"}}
                group.create_task(client.call("PATCH", "/api/v1/jobs/crowded", body))
            await until(lambda: store.held_count == 1)
            await turns()
            store.let_go()

        _, changed = await client.call("GET", "/api/v1/jobs/crowded")
        assert len(changed["labels"]) == 12


def test_a_pause_may_end_by_itself(node: Rotad) -> None:
    node.create(name="short", schedule="@yearly", command="true")
    shown = node.call("GET", "/api/v1/jobs/short")
    end = format_instant(Instant(parse_instant(shown["createdAt"]) + 2 * SECOND))

    paused = node.call("POST", "/api/v1/jobs/short/pause", {"reason": "lunch", "until": end})

    assert paused["pausedUntil"] == end
    node.wait_until(lambda: node.call("GET", "/api/v1/jobs/short")["pausedAt"] is None)


@pytest.mark.parametrize("end", ["2020-01-01T00:00:00Z", "tomorrow"])
def test_a_pause_that_has_ended_already_is_refused(node: Rotad, end: str) -> None:
    node.create(name="past", command="true")

    with pytest.raises(Refusal) as refused:
        node.call("POST", "/api/v1/jobs/past/pause", {"until": end})

    assert refused.value.problem["errors"][0]["pointer"] == "/until"
