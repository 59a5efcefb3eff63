"""Job types: documents with a template and a schema, and the jobs that are made of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.core.model.shared_document import CHANGES_MAX
from rota.core.timing.instants import SECOND, Duration, later
from rota.core.vocabulary.commands import Forget
from rota.node.runtime.wiring import NodeWiring
from rota.storage.memory import MemoryStore
from support.in_process import Client, running_works, serving

Json = Any  # Any: an answer of a node, examined by each test.

TYPES = "/api/v1/types"
RENDER = {
    "description": "renders an image",
    "parameters": {
        "type": "object",
        "properties": {
            "width": {"type": "integer", "minimum": 1},
            "format": {"enum": ["png", "jpeg"], "default": "png"},
        },
        "required": ["width"],
        "additionalProperties": False,
    },
    "template": {
        "command": 'printf %s "$ROTA_PARAMETERS" > "$ROTA_RESULT"; exit 0',
        "retries": 2,
        "labels": {"team": "media", "tier": "gold"},
    },
}


@pytest.fixture
async def wiring(tmp_path: Path) -> AsyncIterator[NodeWiring]:
    async with running_works(MemoryStore(), tmp_path) as wiring:
        yield wiring


@pytest.fixture
async def client(wiring: NodeWiring) -> AsyncIterator[Client]:
    async with serving(wiring) as client:
        yield client


async def put(client: Client, name: str = "image.render", **changes: Json) -> Json:
    """Write a job type, and return its document."""
    status, found = await client.call("PUT", f"{TYPES}/{name}", {**RENDER, **changes})
    assert status in (200, 201), found
    return found


async def refused(client: Client, method: str, path: str, body: Json = None) -> list[str]:
    """Make a request that is refused; return its code, and the pointers and details."""
    status, problem = await client.call(method, path, body)
    assert status >= 400, problem
    return [problem["code"], *(f"{each['pointer']} {each['detail']}" for each in problem["errors"])]


# -- documents -------------------------------------------------------------------------------------


async def test_a_type_is_created_replaced_and_deleted(client: Client) -> None:
    first = await put(client)
    same = await put(client)
    second = await put(client, description="renders")
    status, _ = await client.call("DELETE", f"{TYPES}/image.render")

    assert (first["kind"], first["name"], first["version"]) == ("types", "image.render", 1)
    assert first["definition"] == RENDER
    assert first["changedBy"] == "operator"
    assert same == first
    assert second["version"] == 2
    assert status == 204
    assert await refused(client, "GET", f"{TYPES}/image.render") == ["type_not_found"]
    assert await refused(client, "DELETE", f"{TYPES}/image.render") == ["type_not_found"]


async def test_the_changes_of_a_type_outlive_it(client: Client) -> None:
    for number in range(CHANGES_MAX + 5):
        await put(client, description=str(number))
    await client.call("DELETE", f"{TYPES}/image.render")

    _, found = await client.call("GET", f"{TYPES}/image.render/changes")

    assert len(found["items"]) == CHANGES_MAX
    assert [(each["version"], each["action"]) for each in found["items"][:2]] == [
        (CHANGES_MAX + 6, "deleted"),
        (CHANGES_MAX + 5, "replaced"),
    ]


async def test_types_are_listed_by_name_in_pages(client: Client) -> None:
    for name in ("c", "a", "b"):
        await put(client, name)

    _, first = await client.call("GET", f"{TYPES}?limit=2")
    _, second = await client.call("GET", f"{TYPES}?limit=2&cursor={first['nextCursor']}")

    assert [each["name"] for each in first["items"]] == ["a", "b"]
    assert [each["name"] for each in second["items"]] == ["c"]
    assert second["nextCursor"] is None


async def test_a_change_may_depend_on_the_version(client: Client) -> None:
    await put(client)
    url = f"{client.url}{TYPES}/image.render"

    for headers, expected in (
        ({"If-Match": '"2"'}, 412),
        ({"If-None-Match": "*"}, 412),
        ({"If-Match": '"1"'}, 200),
    ):
        body = {**RENDER, "description": "new"}
        async with client.session.put(url, json=body, headers=headers) as answer:
            assert answer.status == expected
    async with client.session.get(url) as answer:
        assert answer.headers["ETag"] == '"2"'


async def test_a_dry_run_writes_nothing(client: Client) -> None:
    status, _ = await client.call("PUT", f"{TYPES}/image.render?dryRun=true", RENDER)

    assert status == 201
    assert await refused(client, "GET", f"{TYPES}/image.render") == ["type_not_found"]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        pytest.param({"template": {}}, "/template/tasks the job needs a command", id="no work"),
        pytest.param(
            {"template": {"comand": "x"}},
            "/template/comand unknown field 'comand'; did you mean 'command'?",
            id="unknown field",
        ),
        pytest.param(
            {"template": {"command": "x", "retries": -1}}, "/template/retries -1", id="bad value"
        ),
        pytest.param(
            {"template": {"command": "x", "schedule": "@daily"}},
            "/template/schedule belongs to the job",
            id="schedule",
        ),
        pytest.param(
            {"parameters": {"type": "integr"}}, "/parameters/type is not a JSON Schema", id="schema"
        ),
        pytest.param(
            {"parameters": {"properties": {"a": {"$ref": "#"}}}},
            "/parameters/properties/a/$ref is not supported",
            id="reference",
        ),
        pytest.param(
            {"parameters": {"$schema": "https://example.org/schema"}},
            "/parameters/$schema is not supported",
            id="another dialect",
        ),
        pytest.param(
            {"parameters": {"pattern": "(?=a)b"}}, "/parameters", id="pattern that may take long"
        ),
    ],
)
async def test_an_invalid_type_is_refused(changes: Json, pointer: str, client: Client) -> None:
    code, first, *_ = await refused(client, "PUT", f"{TYPES}/image.render", {**RENDER, **changes})

    assert code == "invalid_type"
    assert first.startswith(pointer)


async def test_a_type_cannot_have_the_name_of_a_type_of_tasks(client: Client) -> None:
    assert await refused(client, "PUT", f"{TYPES}/process", RENDER) == [
        "invalid_type",
        "/name 'process' is a built-in task type; choose another name",
    ]


async def test_a_misspelt_type_is_the_error_about_a_job_without_a_name(client: Client) -> None:
    status, problem = await client.call("POST", "/api/v1/jobs", {"type": "image.rendr"})

    assert (status, problem["code"]) == (422, "unknown_type")
    assert "no task type or job type 'image.rendr'" in problem["detail"]
    status, problem = await client.call("POST", "/api/v1/jobs", {"type": "process"})
    assert [each["pointer"] for each in problem["errors"]] == ["/command"]


async def test_a_schema_that_is_nested_too_deeply_is_refused(client: Client) -> None:
    schema: Json = {}
    for _ in range(40):
        schema = {"not": schema}

    code, _ = await refused(client, "PUT", f"{TYPES}/x", {**RENDER, "parameters": schema})

    assert code == "invalid_type"


# -- jobs of a type --------------------------------------------------------------------------------


async def test_a_job_of_a_type_has_its_template_and_the_defaults_of_its_parameters(
    client: Client,
) -> None:
    await put(client)
    body = {
        "name": "poster",
        "type": "image.render",
        "parameters": {"width": 640},
        "labels": {"tier": "silver"},
    }

    status, job = await client.call("POST", "/api/v1/jobs", body)

    assert status == 201, job
    assert (job["type"], job["status"]) == ("image.render", "manual")
    assert job["labels"] == {"team": "media", "tier": "silver"}
    assert job["definition"]["command"] == RENDER["template"]["command"]  # type: ignore[index]
    assert job["definition"]["retries"] == 2
    assert job["definition"]["parameters"] == {"width": 640, "format": "png"}


async def test_the_definition_of_such_a_job_can_be_sent_again_and_changed(client: Client) -> None:
    await put(client)
    body = {"name": "poster", "type": "image.render", "parameters": {"width": 640}}
    _, job = await client.call("POST", "/api/v1/jobs", body)

    _, same = await client.call("PUT", "/api/v1/jobs/default/poster", job["definition"])
    _, changed = await client.call("PATCH", "/api/v1/jobs/poster", {"retries": 5})
    unfit = await refused(client, "PATCH", "/api/v1/jobs/poster", {"parameters": {"width": 0}})

    assert (same["version"], changed["version"]) == (1, 2)
    assert (changed["type"], changed["definition"]["retries"]) == ("image.render", 5)
    assert unfit[0] == "invalid_job"
    assert unfit[1].startswith("/parameters/width the value is less than")


async def test_a_job_keeps_the_template_that_it_was_made_with(client: Client) -> None:
    await put(client)
    body = {"name": "poster", "type": "image.render", "parameters": {"width": 640}}
    await client.call("POST", "/api/v1/jobs", body)

    await put(client, template={"command": "another"})
    await client.call("DELETE", f"{TYPES}/image.render")
    _, job = await client.call("GET", "/api/v1/jobs/poster")

    assert job["definition"]["command"] == RENDER["template"]["command"]  # type: ignore[index]


async def test_a_job_without_a_name_and_a_type_runs_once(client: Client) -> None:
    status, job = await client.call("POST", "/api/v1/jobs", {"command": "echo 1 >$ROTA_RESULT"})
    ended = await ended_job(client, job["jobId"])

    assert status == 201, job
    assert job["name"].startswith("run-")
    assert (ended["status"], ended["result"]) == ("success", 1)
    assert ended["executionId"] == ended["lastExecution"]["executionId"]


@pytest.mark.parametrize("fields", [{"schedule": "@daily"}, {"dependencies": ["a"]}])
async def test_a_job_that_runs_more_than_once_needs_a_name_or_a_type(
    client: Client, fields: Json
) -> None:
    assert isinstance(fields, dict)
    code, first, *_ = await refused(client, "POST", "/api/v1/jobs", {"command": "true", **fields})

    assert code == "invalid_job"
    assert first.startswith("/name")


async def test_own_work_replaces_that_of_the_template(client: Client) -> None:
    await put(client)
    body = {
        "name": "poster",
        "type": "image.render",
        "parameters": {"width": 1},
        "tasks": [{"name": "one", "command": "true"}],
    }

    status, job = await client.call("POST", "/api/v1/jobs", body)

    assert status == 201, job
    assert [task["name"] for task in job["tasks"]] == ["one"]


async def test_a_template_may_have_a_type_of_tasks(client: Client) -> None:
    await put(client, "rehearsal", parameters={}, template={"type": "scripted"})
    body = {"name": "one", "type": "rehearsal", "parameters": {"outcome": "succeeded"}}

    _, job = await client.call("POST", "/api/v1/jobs", body)
    _, again = await client.call("PUT", "/api/v1/jobs/default/one", job["definition"])

    assert (job["type"], job["tasks"][0]["type"]) == ("rehearsal", "scripted")
    assert again["version"] == 1


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        (None, '/parameters "width" is a required property'),
        ({"width": "x"}, '/parameters/width the value is not of type "integer": "x"'),
        ({"width": 1, "depth": 2}, "/parameters Additional properties are not allowed"),
    ],
)
async def test_parameters_that_do_not_match_the_schema_are_refused(
    parameters: Json, problem: str, client: Client
) -> None:
    await put(client)
    body = {"name": "poster", "type": "image.render", "parameters": parameters}

    code, first, *_ = await refused(client, "POST", "/api/v1/jobs", body)

    assert code == "invalid_job"
    assert first.startswith(problem)


async def test_parameters_of_a_trigger_are_checked_and_completed(client: Client) -> None:
    await put(client)
    body = {"name": "poster", "type": "image.render", "parameters": {"width": 640}}
    await client.call("POST", "/api/v1/jobs", body)
    path = "/api/v1/jobs/poster/trigger"

    code, first = await refused(client, "POST", path, {"parameters": {"width": "x"}})
    _, made = await client.call("POST", path, {"parameters": {"width": 7}})
    _, ended = await client.call("GET", f"/api/v1/executions/{made['executionId']}/wait")

    assert (code, first.split(" ")[0]) == ("invalid_parameters", "/parameters/width")
    [attempt] = ended["tasks"]["main"]["attempts"]
    assert attempt["result"] == {"width": 7, "format": "png"}


async def test_an_unknown_type_is_refused(client: Client) -> None:
    body = {"name": "poster", "type": "image.rendre"}

    assert (await refused(client, "POST", "/api/v1/jobs", body))[0] == "unknown_type"


# -- one-off jobs ----------------------------------------------------------------------------------


async def test_a_job_of_a_type_without_a_name_runs_once_and_tells_its_end(client: Client) -> None:
    await put(client)
    body = {"type": "image.render", "parameters": {"width": 640}}

    status, job = await client.call("POST", "/api/v1/jobs", body)
    ended = await ended_job(client, job["jobId"])

    assert status == 201, job
    assert job["name"].startswith("image.render-")
    assert ended["status"] == "success"
    assert ended["result"] == {"width": 640, "format": "png"}
    assert ended["startedAt"] <= ended["endedAt"]
    assert ended["executionId"] == ended["lastExecution"]["executionId"]


async def test_a_one_off_job_that_fails_says_so(client: Client) -> None:
    await put(client, "fails", parameters={}, template={"command": "exit 3"})

    _, job = await client.call("POST", "/api/v1/jobs", {"type": "fails"})
    ended = await ended_job(client, job["jobId"])

    assert (ended["status"], ended["result"]) == ("failed", None)


async def test_the_result_of_a_one_off_job_of_several_tasks_is_that_of_its_last_ones(
    client: Client,
) -> None:
    template = {
        "tasks": [
            {"name": "first", "command": 'echo 1 > "$ROTA_RESULT"'},
            {"name": "left", "command": 'echo 2 > "$ROTA_RESULT"', "needs": ["first"]},
            {"name": "right", "command": "true", "needs": ["first"]},
        ]
    }
    await put(client, "graph", parameters={}, template=template)

    _, job = await client.call("POST", "/api/v1/jobs", {"type": "graph"})
    ended = await ended_job(client, job["jobId"])

    assert ended["result"] == {"left": 2, "right": None}


async def test_a_repeated_request_with_a_key_makes_one_job(client: Client) -> None:
    await put(client)
    url, body = f"{client.url}/api/v1/jobs", {"type": "image.render", "parameters": {"width": 1}}

    ids = list[str]()
    for _ in range(2):
        async with client.session.post(url, json=body, headers={"Idempotency-Key": "k"}) as answer:
            ids.append((await answer.json())["jobId"])
            assert answer.status == 201
        await put(client, description="changed meanwhile", template={"command": "another"})

    assert ids[0] == ids[1]


async def test_a_job_with_a_schedule_and_without_a_name_gets_a_name_only(client: Client) -> None:
    await put(client)
    body = {"type": "image.render", "parameters": {"width": 1}, "schedule": "@daily"}

    _, job = await client.call("POST", "/api/v1/jobs", body)

    assert job["name"].startswith("image.render-")
    assert (job["status"], [each["schedule"] for each in job["schedules"]]) == (
        "scheduled",
        ["@daily"],
    )


async def test_a_one_off_job_is_deleted_with_the_history_of_its_execution(
    wiring: NodeWiring, client: Client
) -> None:
    await put(client)
    body = {"type": "image.render", "parameters": {"width": 640}}
    _, job = await client.call("POST", "/api/v1/jobs", body)
    await ended_job(client, job["jobId"])
    shard = wiring.context.shards.of_id(job["jobId"])
    soon = later(wiring.context.clock.now(), Duration(60 * SECOND))
    pasts = wiring.context.history.older_than(shard.id, soon, 100)

    await wiring.context.shards.ask(shard, Forget(pasts=pasts))

    assert (await refused(client, "GET", f"/api/v1/jobs/{job['jobId']}"))[0] == "job_not_found"
    assert shard.state.names == {}


async def ended_job(client: Client, job_id: str) -> Json:
    """Return the document of a one-off job when its execution has ended."""
    job: Json = {}

    async def look() -> None:
        nonlocal job
        while job.get("endedAt") is None:
            _, job = await client.call("GET", f"/api/v1/jobs/{job_id}")
            await asyncio.sleep(0.01)

    async with asyncio.timeout(20):
        await look()
    return job
