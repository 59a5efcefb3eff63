"""Documents of namespaces: owners, defaults that are copied into jobs, and pauses."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from rota.core.decide.dependencies import is_met
from rota.core.vocabulary.codec import decode_body
from rota.core.vocabulary.commands import RunIfMet
from rota.core.vocabulary.journal import decode_entry
from rota.node.runtime.timer_wiring import alarm_of
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.shard import Shard
from rota.node.shards.timers import Alarm
from rota.storage.memory import MemoryStore
from support.access_client import API, Access, access_to
from support.in_process import Client, running_works, serving

Json = Any  # Any: an answer of a node, examined by each test.

TEAM = f"{API}/namespaces/team-a"
JOBS = f"{API}/jobs/team-a"


@pytest.fixture
async def wiring(tmp_path: Path) -> AsyncIterator[NodeWiring]:
    async with running_works(MemoryStore(), tmp_path) as wiring:
        yield wiring


@pytest.fixture
async def client(wiring: NodeWiring) -> AsyncIterator[Client]:
    async with serving(wiring) as client:
        yield client


async def put(client: Client, **definition: Json) -> Json:
    """Write the namespace ``team-a``, and return its document."""
    status, found = await client.call("PUT", TEAM, definition)
    assert status in (200, 201), found
    return found


async def save(client: Client, name: str = "job", **fields: Json) -> Json:
    """Save a job in ``team-a``, and return its definition."""
    body = (
        fields
        if {"tasks", "python", "container"} & fields.keys()
        else {"command": "true", **fields}
    )
    status, found = await client.call("PUT", f"{JOBS}/{name}", body)
    assert status in (200, 201), found
    return found["definition"]


async def refused(client: Client, method: str, path: str, body: Json = None) -> list[str]:
    """Make a request that is refused; return its code, and the pointers and details."""
    status, problem = await client.call(method, path, body)
    assert status >= 400, problem
    return [problem["code"], *(f"{each['pointer']} {each['detail']}" for each in problem["errors"])]


async def run(client: Client, name: str = "job") -> Json:
    """Trigger a job of ``team-a``, and return its execution when it has ended."""
    status, made = await client.call("POST", f"{API}/jobs/team-a%2F{name}/trigger")
    assert status == 201, made
    _, ended = await client.call("GET", f"{API}/executions/{made['executionId']}/wait?timeout=20s")
    return ended


async def test_a_namespace_is_created_read_and_deleted(client: Client) -> None:
    definition = {"description": "batch", "owners": ["ana"], "defaults": {"retries": 2}}
    made = await put(client, **definition)

    _, found = await client.call("GET", TEAM)
    _, listed = await client.call("GET", f"{API}/namespaces")
    status, _ = await client.call("DELETE", TEAM)

    assert (made["kind"], made["name"], made["definition"]) == ("namespaces", "team-a", definition)
    assert found == made
    assert listed["items"] == [made]
    assert status == 204
    assert await refused(client, "GET", TEAM) == ["namespace_not_found"]


@pytest.mark.parametrize(
    ("definition", "pointer"),
    [
        ({"pause": {"at": "soon"}}, "/pause/at"),
        ({"owners": [" "]}, "/owners/0"),
        ({"defaults": {"command": "true"}}, "/defaults/command"),
        ({"defaults": {"name": "x"}}, "/defaults/name"),
        ({"defaults": {"retries": -1}}, "/defaults/retries"),
        ({"defaults": {"timeout": "soon"}}, "/defaults/timeout"),
        ({"defaults": {"onFailure": [{"job": "team-b/tell"}]}}, "/defaults/onFailure/0/job"),
        ({"policy": {"sandbox": "tight"}}, "/policy/sandbox"),
    ],
)
async def test_an_invalid_namespace_is_refused(
    client: Client, definition: Json, pointer: str
) -> None:
    code, *problems = await refused(client, "PUT", TEAM, definition)

    assert code == "invalid_namespace"
    assert [each.partition(" ")[0] for each in problems] == [pointer]


async def test_a_job_gets_the_defaults_of_its_namespace_and_its_own_fields_take_precedence(
    client: Client,
) -> None:
    await put(
        client,
        defaults={"retries": 3, "timeout": "1h", "labels": {"team": "a", "tier": "gold"}},
    )

    saved = await save(client, timeout="5m", labels={"tier": "silver"})
    _, other = await client.call("PUT", f"{API}/jobs/team-b/job", {"command": "true"})

    assert (saved["retries"], saved["timeout"]) == (3, "5m")
    assert saved["labels"] == {"team": "a", "tier": "silver"}
    assert "retries" not in other["definition"]


async def test_a_created_job_and_one_of_a_batch_get_the_defaults(client: Client) -> None:
    await put(client, defaults={"retries": 3})
    jobs = [{"name": name, "namespace": "team-a", "command": "true"} for name in ("a", "b")]

    _, single = await client.call("POST", f"{API}/jobs", jobs[0])
    await client.call("POST", f"{API}/jobs:batch", {"items": jobs[1:]})
    _, batched = await client.call("GET", f"{API}/jobs/team-a%2Fb")

    assert single["definition"]["retries"] == 3
    assert batched["definition"]["retries"] == 3


async def test_the_template_of_a_job_type_takes_precedence_over_the_namespace(
    client: Client,
) -> None:
    await put(client, defaults={"retries": 3, "grace": "1m"})
    template = {"command": "true", "retries": 5}
    await client.call("PUT", f"{API}/types/render", {"template": template})
    body = {"name": "job", "namespace": "team-a", "type": "render", "schedule": "@daily"}

    _, made = await client.call("POST", f"{API}/jobs", body)

    assert made["definition"]["retries"] == 5
    assert made["definition"]["grace"] == "1m"


async def test_changed_defaults_have_effect_when_a_job_is_saved_again(client: Client) -> None:
    await put(client, defaults={"retries": 3})
    await save(client)

    await put(client, defaults={"retries": 3, "grace": "1m"})
    _, before = await client.call("GET", f"{API}/jobs/team-a%2Fjob")
    after = await save(client)

    assert "grace" not in before["definition"]
    assert after["grace"] == "1m"


async def test_a_repeated_creation_is_the_same_request_after_the_defaults_have_changed(
    client: Client,
) -> None:
    await put(client, defaults={"retries": 3})
    body = {"name": "job", "namespace": "team-a", "command": "true"}
    statuses: list[int] = []

    for retries in (3, 4):
        await put(client, defaults={"retries": retries})
        async with client.session.post(
            f"{client.url}{API}/jobs", json=body, headers={"Idempotency-Key": "one"}
        ) as answer:
            statuses.append(answer.status)

    assert statuses == [201, 201]


async def test_a_default_hook_does_not_apply_to_the_job_that_it_triggers(client: Client) -> None:
    hooks = [{"job": "tell"}]
    await put(client, defaults={"onFailure": hooks, "onLate": hooks, "lateAfter": "1h"})

    target = await save(client, "tell")
    other = await save(client)

    assert "onFailure" not in target
    assert "lateAfter" not in target
    assert other["onFailure"] == [{"job": "tell"}]


async def test_defaults_may_be_what_the_policy_needs(client: Client) -> None:
    await put(client, defaults={"sandbox": "strict"}, policy={"sandbox": "strict"})

    assert (await save(client))["sandbox"] == "strict"


# -- pause -----------------------------------------------------------------------------------------


async def test_nothing_begins_in_a_paused_namespace_until_it_is_resumed(client: Client) -> None:
    await save(client, schedule="* * * * * *")
    status, paused = await client.call("POST", f"{TEAM}:pause", {"reason": "incident 7"})
    _, again = await client.call("POST", f"{TEAM}:pause", {"reason": "other"})
    # Executions that began before the pause are not counted.
    _, earlier = await client.call("GET", f"{API}/jobs/team-a%2Fjob/ledger?order=desc")
    known = len(earlier["items"])
    entries: list[Json] = []
    async with asyncio.timeout(20):
        while not any(each["outcome"] == "paused" for each in entries):
            await asyncio.sleep(0.1)
            _, ledger = await client.call("GET", f"{API}/jobs/team-a%2Fjob/ledger")
            entries = ledger["items"][known:]

    assert status == 200
    pause = paused["definition"]["pause"]
    assert (pause["by"], pause["reason"]) == (paused["changedBy"], "incident 7")
    assert pause["at"] <= paused["changedAt"]
    assert again == paused
    assert {each["outcome"] for each in entries} == {"paused"}
    assert entries[0]["reason"].startswith("namespace team-a paused since ")
    assert entries[0]["reason"].endswith(": incident 7")
    assert await refused(client, "POST", f"{API}/jobs/team-a%2Fjob/trigger") == ["namespace_paused"]

    _, job = await client.call("GET", f"{API}/jobs/team-a%2Fjob")
    _, jobs = await client.call("GET", f"{API}/jobs?status=paused")
    assert (job["status"], job["pauseReason"]) == ("paused", "namespace team-a: incident 7")
    assert [each["name"] for each in jobs["items"]] == ["job"]

    _, resumed = await client.call("POST", f"{TEAM}:resume")
    assert resumed["definition"] == {}
    assert (await run(client))["status"] == "success"


async def test_a_rerun_in_a_paused_namespace_is_refused(client: Client) -> None:
    await save(client)
    ended = await run(client)
    await client.call("POST", f"{TEAM}:pause")

    path = f"{API}/executions/{ended['executionId']}/rerun"
    assert await refused(client, "POST", path, {}) == ["namespace_paused"]


async def test_a_pause_keeps_the_rest_of_the_namespace(client: Client) -> None:
    await put(client, defaults={"retries": 3}, policy={"network": "none"})

    await client.call("POST", f"{TEAM}:pause")
    _, resumed = await client.call("POST", f"{TEAM}:resume")

    assert resumed["definition"] == {"defaults": {"retries": 3}, "policy": {"network": "none"}}
    assert await refused(client, "POST", f"{API}/namespaces/team-b:resume") == [
        "namespace_not_found"
    ]


async def test_a_replacement_keeps_the_pause_of_a_namespace_and_a_deletion_ends_it(
    client: Client,
) -> None:
    await save(client)
    _, paused = await client.call("POST", f"{TEAM}:pause", {"reason": "incident 7"})

    replaced = await put(client, description="batch")
    forged = await put(client, pause={"at": "2020-01-01T00:00:00Z", "by": "ghost"})
    trigger = await refused(client, "POST", f"{API}/jobs/team-a%2Fjob/trigger")
    await client.call("DELETE", TEAM)

    assert replaced["definition"] == {"description": "batch", **paused["definition"]}
    assert forged["definition"] == paused["definition"]
    assert trigger == ["namespace_paused"]
    assert (await run(client))["status"] == "success"


async def test_an_exported_namespace_is_created_with_its_pause(client: Client) -> None:
    _, paused = await client.call("POST", f"{TEAM}:pause", {"reason": "incident 7"})
    await client.call("DELETE", TEAM)

    assert (await put(client, **paused["definition"]))["definition"] == paused["definition"]


async def dependencies_met(
    wiring: NodeWiring, client: Client, obstacle: Awaitable[Json]
) -> tuple[Alarm, Shard, RunIfMet]:
    """Meet the only dependency of the job of ``team-a`` after *obstacle* keeps it from running.

    Returns:
        The alarm of timers, the shard of the job, and the command of its timer.
    """
    await client.call("PUT", f"{API}/jobs/default/first", {"command": "true"})
    await save(client, dependencies=["default/first"])
    await obstacle
    await client.call("POST", f"{API}/jobs/default%2Ffirst/trigger")
    shard = wiring.shards.of_name("team-a", "job")
    job_id = shard.state.names["team-a/job"]
    async with asyncio.timeout(20):
        while not is_met(shard.state.plans[job_id]):  # noqa: ASYNC110 - the shard is asked
            await asyncio.sleep(0.02)
    alarm = alarm_of(wiring.shards, wiring.fallback.stand_ins, wiring.foundation.facts)
    return alarm, shard, RunIfMet(job_id=job_id)


async def test_a_job_that_waits_for_the_end_of_a_pause_is_tried_without_an_entry_and_then_runs(
    wiring: NodeWiring, client: Client
) -> None:
    pause = client.call("POST", f"{TEAM}:pause")
    alarm, shard, command = await dependencies_met(wiring, client, pause)

    tip = shard.replica.copy.tip
    postponed = alarm(shard.id, command)
    await executions(client)
    tip_after = shard.replica.copy.tip
    await client.call("POST", f"{TEAM}:resume")
    submitted = alarm(shard.id, command)

    assert postponed is not None
    assert tip_after == tip
    assert submitted is None
    async with asyncio.timeout(20):
        while not (await executions(client))["items"]:  # noqa: ASYNC110 - the node is asked
            await asyncio.sleep(0.02)


async def executions(client: Client) -> Json:
    """Return the executions of the job of ``team-a``."""
    return (await client.call("GET", f"{API}/executions?jobId=job&namespace=team-a"))[1]


async def test_a_dry_run_pauses_nothing(client: Client) -> None:
    await client.call("POST", f"{TEAM}:pause?dryRun=true")

    assert await refused(client, "GET", TEAM) == ["namespace_not_found"]


# -- quotas ----------------------------------------------------------------------------------------


async def test_a_quota_counts_the_jobs_and_executions_of_all_shards_of_a_node(
    wiring: NodeWiring, client: Client
) -> None:
    await put(client, quota={"jobs": 3, "executions": 2})
    for number in range(3):
        await save(client, f"job-{number}", command="sleep 60")
    shards = {wiring.shards.of_name("team-a", f"job-{number}").id for number in range(3)}
    begun = [
        await client.call("POST", f"{API}/jobs/team-a%2Fjob-{number}/trigger")
        for number in range(2)
    ]

    job = await refused(client, "PUT", f"{JOBS}/job-3", {"command": "true"})
    trigger = await refused(client, "POST", f"{API}/jobs/team-a%2Fjob-2/trigger")
    _, shown = await client.call("GET", f"{TEAM}/quota")
    for _, made in begun:
        await client.call("POST", f"{API}/executions/{made['executionId']}/cancel")
        await client.call("GET", f"{API}/executions/{made['executionId']}/wait?timeout=20s")
    again, _ = await client.call("POST", f"{API}/jobs/team-a%2Fjob-2/trigger")

    assert len(shards) > 1
    assert job == trigger == ["quota_exceeded"]
    assert shown == {
        "namespace": "team-a",
        "jobs": {"most": 3, "used": 3},
        "executions": {"most": 2, "used": 2},
        "secrets": {"most": None, "used": 0},
    }
    assert again == 201


async def test_a_batch_creates_and_triggers_what_the_quota_allows(client: Client) -> None:
    await put(client, quota={"jobs": 5, "executions": 3})
    jobs = [
        {"name": f"job-{number}", "namespace": "team-a", "command": "sleep 60"}
        for number in range(8)
    ]

    _, created = await client.call("POST", f"{API}/jobs:batch", {"items": jobs})
    items = [{"job": each["jobId"]} for each in created["items"] if not each["error"]] * 2
    _, triggered = await client.call("POST", f"{API}/executions:batch", {"items": items})

    errors = [each["error"]["code"] for each in created["items"] if each["error"]]
    refusals = [each["error"]["code"] for each in triggered["items"] if each["error"]]
    assert errors == ["quota_exceeded"] * 3
    assert refusals == ["quota_exceeded"] * 7


async def test_a_quota_ends_with_its_document(client: Client) -> None:
    await put(client, quota={"executions": 0})
    await save(client)
    held = await refused(client, "POST", f"{API}/jobs/team-a%2Fjob/trigger")
    await put(client, quota={})
    _, shown = await client.call("GET", f"{TEAM}/quota")

    assert held == ["quota_exceeded"]
    assert (await run(client))["status"] == "success"
    assert shown["executions"] == {"most": None, "used": None}
    await client.call("DELETE", TEAM)
    assert await refused(client, "GET", f"{TEAM}/quota") == ["namespace_not_found"]


@pytest.mark.parametrize("quota", [{"jobs": -1}, {"jobs": "many"}, {"tasks": 1}, {"jobs": 10**10}])
async def test_a_quota_that_is_no_number_or_of_nothing_known_is_refused(
    client: Client, quota: Json
) -> None:
    code, *problems = await refused(client, "PUT", TEAM, {"quota": quota})

    assert code == "invalid_body"
    assert problems[0].startswith("/quota")


async def test_a_job_whose_dependencies_are_met_at_the_quota_is_tried_without_an_entry(
    wiring: NodeWiring, client: Client
) -> None:
    quota = put(client, quota={"executions": 0})
    alarm, shard, command = await dependencies_met(wiring, client, quota)

    tip = shard.replica.copy.tip
    postponed = alarm(shard.id, command)
    await executions(client)

    assert postponed is not None
    assert shard.replica.copy.tip == tip


# -- access ----------------------------------------------------------------------------------------


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    async with access_to(tmp_path) as access:
        await access.init()
        yield access


async def test_a_namespace_is_defined_by_administrators_of_the_cluster_alone(
    access: Access,
) -> None:
    admin_of_it = await access.key("lead", "admin", "team-a")
    foreign = await access.key("other", "admin", "team-b")
    policy = {"policy": {"sandbox": "strict"}}

    made, _ = await access.call(access.admin, "PUT", TEAM, policy)
    relaxed, problem = await access.call(admin_of_it, "PUT", TEAM, {})
    deleted, _ = await access.call(admin_of_it, "DELETE", TEAM)
    read, found = await access.call(admin_of_it, "GET", TEAM)
    hidden, _ = await access.call(foreign, "GET", TEAM)

    assert made == 201
    assert (relaxed, problem["code"], deleted) == (403, "forbidden", 403)
    assert (read, found["definition"]) == (200, policy)
    assert hidden == 404


async def test_an_operator_pauses_its_namespace_and_no_other(access: Access) -> None:
    operator = await access.key("oncall", "operator", "team-a")
    viewer = await access.key("viewer", "viewer", "team-a")

    refused, _ = await access.call(viewer, "POST", f"{TEAM}:pause")
    elsewhere, _ = await access.call(operator, "POST", f"{API}/namespaces/team-b:pause")
    paused, found = await access.call(operator, "POST", f"{TEAM}:pause", {"reason": "x"})
    _, changes = await access.call(operator, "GET", f"{TEAM}/changes")

    assert (refused, elsewhere, paused) == (403, 404, 200)
    assert found["definition"]["pause"]["by"] == "oncall"
    assert [each["by"] for each in changes["items"]] == ["oncall"]


async def test_an_entry_names_the_version_of_the_facts_with_which_it_was_decided(
    wiring: NodeWiring, client: Client
) -> None:
    await put(client, quota={"jobs": 5})
    await put(client, quota={"jobs": 6})

    await save(client)

    copy = wiring.shards.of_name("team-a", "job").replica.copy
    causes, _ = decode_body(decode_entry(copy.entry(copy.tip.index)).body)
    assert causes == ("save team-a/job", "with facts 2")
