"""The record of what users changed: its rows, its list, its check, and who may read it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.core.model.ids import JobId, ShardId
from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.core.vocabulary.change_chain import SealedChange, UserChange
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import encode_record
from rota.node.runtime.wiring import NodeWiring
from rota.node.system.background import beside
from rota.storage.memory import MemoryStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Family
from rota.storage.user_changes import UserChanges
from support.in_process import Client, running_works, serving, until

Json = Any  # Any: an answer of a node, examined by each test.
CHANGES = "/api/v1/changes"
SCRIPTED = {"type": "scripted"}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def wiring(store: MemoryStore, tmp_path: Path) -> AsyncIterator[NodeWiring]:
    async with running_works(store, tmp_path) as wiring:
        yield wiring


@pytest.fixture
async def client(wiring: NodeWiring) -> AsyncIterator[Client]:
    async with serving(wiring) as client:
        yield client


async def test_every_change_names_its_caller_and_its_request(
    wiring: NodeWiring, client: Client
) -> None:
    jobs = "/api/v1/jobs"
    await send(client, "POST", jobs, {"name": "j", **SCRIPTED})
    await send(client, "POST", f"{jobs}:batch", {"items": [{"name": "other", **SCRIPTED}]})
    await send(client, "PUT", f"{jobs}/default/j", {**SCRIPTED, "description": "new"})
    await send(client, "PATCH", f"{jobs}/j", {"description": "newer"})
    await send(client, "POST", f"{jobs}/j/pause", {"reason": "repair"})
    await send(client, "POST", f"{jobs}/j/resume")
    ended = await run(wiring, client, "j")
    again = await send(client, "POST", f"/api/v1/executions/{ended}/rerun")
    await until(lambda: not wiring.context.shards.of_id(JobId(ended)).state.executions)
    slow = await send(client, "POST", f"{jobs}/j/trigger", {"parameters": {"sleepMs": 60_000}})
    await send(client, "POST", f"/api/v1/executions/{slow['executionId']}/cancel")
    await send(client, "DELETE", f"{jobs}/j")

    found = await listed(client, "?order=asc&object=default/j")

    assert [(each["action"], each["before"], each["after"], each["detail"]) for each in found] == [
        ("job.created", None, 1, ""),
        ("job.replaced", 1, 2, ""),
        ("job.replaced", 2, 3, ""),
        ("job.paused", 3, 3, "repair"),
        ("job.resumed", 3, 3, ""),
        ("execution.rerun", 3, 3, ended),
        ("execution.cancelled", 3, 3, ""),
        ("job.deleted", 3, None, ""),
    ]
    assert [each["executionId"] for each in found][5:7] == [
        again["executionId"],
        slow["executionId"],
    ]
    found += await listed(client, "?object=default/other")
    assert [each["by"].pop("requestId") for each in found] == [
        f"POST {jobs}",
        f"PUT {jobs}/default/j",
        f"PATCH {jobs}/j",
        f"POST {jobs}/j/pause",
        f"POST {jobs}/j/resume",
        f"POST /api/v1/executions/{ended}/rerun",
        f"POST /api/v1/executions/{slow['executionId']}/cancel",
        f"DELETE {jobs}/j",
        f"POST {jobs}:batch",
    ]
    caller = {"principal": "operator", "key": None, "address": "127.0.0.1"}
    assert all(each["by"] == caller for each in found)


async def test_an_execution_names_the_caller_that_triggered_it_without_the_address(
    wiring: NodeWiring, client: Client
) -> None:
    await send(client, "POST", "/api/v1/jobs", {"name": "j", **SCRIPTED})
    ended = await run(wiring, client, "j")
    items = [{"job": "j"}]
    batch = await send(client, "POST", "/api/v1/executions:batch", {"items": items})

    for execution_id, path in (
        (ended, "/api/v1/jobs/j/trigger"),
        (batch["items"][0]["executionId"], "/api/v1/executions:batch"),
    ):
        _, shown = await client.call("GET", f"/api/v1/executions/{execution_id}")
        assert shown["triggeredBy"] == {
            "principal": "operator",
            "key": None,
            "requestId": f"POST {path}",
            "address": None,
        }
    assert [each["action"] for each in await listed(client)] == ["job.created"]


async def test_an_execution_of_a_schedule_names_no_caller(
    wiring: NodeWiring, client: Client
) -> None:
    body = {"name": "j", **SCRIPTED, "schedule": "@at 2026-01-01T00:00:00Z", "misfire": "latest"}
    await send(client, "POST", "/api/v1/jobs", body)
    await until(lambda: wiring.context.events.count >= 3)

    _, page = await client.call("GET", "/api/v1/executions")

    assert [each["triggeredBy"] for each in page["items"]] == [None]


async def test_a_dry_run_is_no_change(client: Client) -> None:
    await send(client, "POST", "/api/v1/jobs?dryRun=true", {"name": "j", **SCRIPTED})

    assert await listed(client) == []


async def test_changes_are_listed_page_by_page_in_both_orders(client: Client) -> None:
    names = [f"job-{number}" for number in range(7)]
    for name in names:
        await send(client, "POST", "/api/v1/jobs", {"name": name, **SCRIPTED})

    for order in ("asc", "desc"):
        found: list[str] = []
        query, pages = f"?limit=3&order={order}", 0
        cursor = ""
        while cursor is not None:
            _, page = await client.call("GET", f"{CHANGES}{query}{cursor}")
            found += [each["job"].removeprefix("default/") for each in page["items"]]
            cursor = page["nextCursor"] and f"&cursor={page['nextCursor']}"
            pages += 1
        assert found == (names if order == "asc" else names[::-1])
        assert pages == 3


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("namespace=billing", ["billing/a"]),
        ("by=operator", ["default/a", "billing/a"]),
        ("by=mallory", []),
        ("object=billing/a", ["billing/a"]),
        ("action=job.deleted", []),
        ("to=2026-01-01T00:00:00Z", []),
        ("from=2100-01-01T00:00:00Z", []),
    ],
)
async def test_changes_are_filtered(client: Client, query: str, expected: list[str]) -> None:
    for namespace in ("default", "billing"):
        body = {"name": "a", "namespace": namespace, **SCRIPTED}
        await send(client, "POST", "/api/v1/jobs", body)

    assert [each["job"] for each in await listed(client, f"?order=asc&{query}")] == expected


async def test_a_wrong_cursor_is_refused(client: Client) -> None:
    status, problem = await client.call("GET", f"{CHANGES}?cursor=x")

    assert (status, problem["code"]) == (422, "invalid_query")


async def test_intact_changes_have_no_fault(client: Client) -> None:
    for number in range(5):
        await send(client, "POST", "/api/v1/jobs", {"name": f"j{number}", **SCRIPTED})

    status, found = await client.call("GET", f"{CHANGES}:verify")

    assert status == 200, found
    assert {each["fault"] for each in found["items"]} == {""}
    assert sum(each["checked"] for each in found["items"]) == 5
    newest = (await listed(client))[0]
    of_shard = found["items"][newest["shard"]]
    assert (of_shard["last"], of_shard["hash"]) == (newest["number"], newest["hash"])


async def test_a_row_that_was_changed_on_the_disk_is_found(
    store: MemoryStore, client: Client
) -> None:
    await send(client, "POST", "/api/v1/jobs", {"name": "j", **SCRIPTED})
    await send(client, "POST", "/api/v1/jobs/j/pause")
    shard = ShardId((await listed(client))[0]["shard"])
    (key, row), _ = UserChanges(store).chain(shard, "", 2)
    assert row is not None
    forged = SealedChange(row.body.replace(b"operator", b"attacker"), row.hash)
    put(store, shard, key, encode_record(forged))

    _, found = await client.call("GET", f"{CHANGES}:verify")

    faults = {each["shard"]: each["fault"] for each in found["items"] if each["fault"]}
    assert faults == {shard: "change 1 does not follow the one before it: one of both was changed"}


async def test_a_row_that_cannot_be_read_is_listed_as_broken(
    store: MemoryStore, client: Client
) -> None:
    await send(client, "POST", "/api/v1/jobs", {"name": "j", **SCRIPTED})
    [made] = await listed(client)
    shard = ShardId(made["shard"])
    [(key, _)] = UserChanges(store).chain(shard, "", 2)
    put(store, shard, key, b"\x01\xc1")

    [shown] = await listed(client)

    assert (shown["action"], shown["number"], shown["at"]) == ("broken", 1, made["at"])
    assert shown["broken"] == "change 1 cannot be decoded"
    _, found = await client.call("GET", f"{CHANGES}:verify")
    assert [each["fault"] for each in found["items"] if each["fault"]] == [
        "change 1 cannot be read"
    ]


async def test_changes_of_documents_are_in_the_record_with_caller_versions_and_fields(
    wiring: NodeWiring, client: Client
) -> None:
    role = "/api/v1/roles/deployer"
    await send(client, "PUT", role, {"verbs": ["read"]})
    await send(client, "PUT", role, {"verbs": ["read", "run"]})
    await send(client, "PUT", role, {"verbs": ["read", "run"]})
    await send(client, "PUT", f"{role}?dryRun=true", {"verbs": []})
    await send(client, "DELETE", role)
    async with beside(wiring.housekeeping.keep(())):
        await until(lambda: recorded(wiring) == 3)

    found = await listed(client, "?order=asc&object=roles:deployer")

    assert [(each["action"], each["before"], each["after"], each["fields"]) for each in found] == [
        ("document.created", None, 1, []),
        ("document.replaced", 1, 2, ["verbs"]),
        ("document.deleted", 2, None, []),
    ]
    assert [each["by"]["requestId"] for each in found] == [
        f"PUT {role}",
        f"PUT {role}",
        f"DELETE {role}",
    ]
    assert {(each["kind"], each["document"], each["job"]) for each in found} == {
        ("roles", "deployer", "")
    }
    assert all(each["madeAt"] <= each["at"] for each in found)
    assert {each["by"]["address"] for each in found} == {"127.0.0.1"}
    _, chains = await client.call("GET", f"{CHANGES}:verify")
    assert sum(each["checked"] for each in chains["items"]) == 3


async def test_documents_of_a_namespace_are_found_by_it(wiring: NodeWiring, client: Client) -> None:
    await send(client, "POST", "/api/v1/jobs", {"name": "a", "namespace": "team", **SCRIPTED})
    await send(client, "PUT", "/api/v1/namespaces/team", {})
    await send(client, "PUT", "/api/v1/namespaces/other", {})
    await send(client, "PUT", "/api/v1/roles/team", {"verbs": ["read"]})
    async with beside(wiring.housekeeping.keep(())):
        await until(lambda: recorded(wiring) == 3)

    found = await listed(client, "?namespace=team")

    assert {(each["kind"], each["document"] or each["job"]) for each in found} == {
        (None, "team/a"),
        ("namespaces", "team"),
    }


def recorded(wiring: NodeWiring) -> int:
    """Return the number of recorded changes of documents."""
    found = UserChanges(wiring.foundation.environment.store).listed(
        [shard.id for shard in wiring.shards], Instant(0), LATEST_INSTANT
    )
    return sum(
        isinstance(each.change, UserChange) and each.change.document is not None for each in found
    )


def put(store: MemoryStore, shard: ShardId, key: str, value: bytes) -> None:
    batch = store.batch()
    place = shard_prefix(shard) + bytes((Table.USER_CHANGE,)) + key.encode()
    batch.put(Family.HIST, place, value)
    store.write(batch)


async def send(client: Client, method: str, path: str, body: Json = None) -> Json:
    """Make a request whose id is its method and its path."""
    headers = {"X-Request-Id": f"{method} {path}"}
    url = client.url + path
    async with client.session.request(method, url, json=body, headers=headers) as answer:
        text = await answer.text()
        assert answer.status < 300, text
        return await answer.json(content_type=None) if text else None


async def run(wiring: NodeWiring, client: Client, name: str) -> str:
    """Trigger a job, and return its execution once it has ended."""
    made = await send(client, "POST", f"/api/v1/jobs/{name}/trigger")
    execution_id: str = made["executionId"]
    await until(lambda: not wiring.context.shards.of_id(JobId(execution_id)).state.executions)
    return execution_id


async def listed(client: Client, query: str = "") -> list[Json]:
    """Return the items of a page."""
    status, page = await client.call("GET", f"{CHANGES}{query}")
    assert status == 200, page
    items: list[Json] = page["items"]
    return items
