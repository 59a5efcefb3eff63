"""Every operation, for every built-in role, on objects of its own namespace and of another one."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from rota.node.access.verbs import EVERY, ROLES, Verb
from rota.node.api.app import OPERATIONS
from rota.node.api.handlers import job_list
from rota.node.api.requests.operations import Operation
from rota.node.api.requests.permissions import Scope
from support.access_client import API, Access, Json, access_to
from support.in_process import until
from support.key_rings import key_ring_file

OWN, FOREIGN = "team-a", "team-b"
CALLERS = {
    role: EVERY if role in ("cluster-operator", "auditor", "metrics", "cluster-admin") else OWN
    for role in ROLES
} | {"no role": ""}
ALLOWED, MISSING_VERB, MISSING_OBJECT, MISSING_KEY = "allowed", "403", "404", "401"
FRESH = count()
ASKED = [each for each in OPERATIONS if each.name != "deliver_webhook"]
"""All operations but one, which asks for a signature and for no key: see `test_webhooks`."""
BODIES: dict[str, Json] = {
    "answer_task": {"approve": True},
    "post_event": {"name": "paid"},
    "put_state": {"value": 1},
    "create_backfill": {"since": "2026-01-01T00:00:00Z"},
    "put_calendar": {"weekdays": ["SUN"]},
    "preview_calendars": {"calendars": [{"name": "doomed", "definition": {"weekdays": ["SUN"]}}]},
    "patch_job": {"description": "x"},
    "put_job": {"command": "true"},
    "put_key": {"principal": "doomed", "tokens": []},
    "put_role": {"verbs": ["read"]},
    "put_secret": {"value": "hunter22"},
    "put_type": {"template": {"command": "true"}},
    "put_namespace": {"description": "of a team"},
}
LISTS = {
    "list_jobs",
    "list_unfired",
    "list_executions",
    "list_bindings",
    "list_secrets",
    "list_namespaces",
}


@dataclass
class World:
    """A node with a job and an execution in both namespaces, and one key for each caller.

    Attributes:
        access: The client of the node.
        tokens: The token of each caller.
        job_ids: The id of the job of each namespace.
        executions: The finished execution of each namespace.
    """

    access: Access
    tokens: dict[str, str]
    job_ids: dict[str, str]
    executions: dict[str, str]
    backfills: dict[str, str]

    async def admin(self, method: str, path: str, body: Json = None) -> Json:
        """Make a request as the administrator."""
        status, found = await self.access.call(self.access.admin, method, API + path, body)
        assert status < 300, (method, path, found)
        return found

    async def prepare(self, operation: Operation, namespace: str) -> None:
        """Create the objects that operations delete or change."""
        if operation.name == "delete_job":
            job = {"name": "doomed", "namespace": namespace, "command": "true"}
            await self.access.call(self.access.admin, "POST", f"{API}/jobs", job)
        if "/bindings/" in operation.path:
            body = {"subject": "principal:new", "role": "viewer", "namespaces": [namespace]}
            await self.admin("PUT", f"/bindings/doomed-{namespace}", body)
        if "/secrets/" in operation.path:
            await self.admin("PUT", f"/secrets/{namespace}/doomed", BODIES["put_secret"])
        if "/namespaces/" in operation.path:
            await self.admin("PUT", f"/namespaces/{namespace}", BODIES["put_namespace"])
        for kind, name in (
            ("keys", "key"),
            ("roles", "role"),
            ("types", "type"),
            ("calendars", "calendar"),
        ):
            if f"/{kind}/" in operation.path:
                await self.admin("PUT", f"/{kind}/doomed", BODIES[f"put_{name}"])

    def paths(self, operation: Operation, namespace: str) -> list[str]:
        """Return paths of the operation for objects of a namespace: by name, and by id."""
        name = "doomed" if operation.name == "delete_job" else "job"
        named = {"/bindings/": f"doomed-{namespace}", "/namespaces/": namespace}
        documents = [each for kind, each in named.items() if kind in operation.path]
        filled = (
            operation.path.replace("{namespace}", namespace)
            .replace("{execution}", self.executions[namespace])
            .replace("{task}", "main")
            .replace("{backfill}", self.backfills[namespace])
            .replace("{key}", "cursor")
            .replace("{document}", next(iter(documents), "doomed"))
            .replace("{secret}", "doomed")
            .replace("{node}", "n9")
            .replace("{shard}", "999")
        )
        if operation.name == "send_event":
            filled += f"?namespace={namespace}"
        jobs = [f"{namespace}%2F{name}"]
        if name == "job" and operation.name != "put_job":  # An id of another is hidden (404).
            jobs.append(self.job_ids[namespace])
        return [filled.replace("{job}", each) for each in (jobs if "{job}" in filled else ["-"])]

    def body(self, operation: Operation, namespace: str) -> Json:
        """Return a valid body of the operation, about objects of a namespace."""
        name = f"fresh-{next(FRESH)}"
        job = {"name": name, "namespace": namespace, "command": "true"}
        return {
            **BODIES,
            "create_job": job,
            "create_many": {"items": [job]},
            "put_many": {"items": [job]},
            "create_key": {"name": name},
            "trigger_many": {"items": [{"job": f"{namespace}/job"}]},
            "wait_for_many": {"executionIds": [self.executions[namespace]]},
            "put_binding": {"subject": "cert:x", "role": "viewer", "namespaces": [namespace]},
        }.get(operation.name, {} if operation.body else None)

    async def ask(
        self, caller: str | None, operation: Operation, path: str, body: Json
    ) -> tuple[int, Json]:
        """Return status and answer; of a stream only the status."""
        token = self.tokens[caller] if caller else None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.access.client.session.request(
            operation.method, self.access.client.url + path, json=body, headers=headers
        ) as answer:
            if operation.name == "follow_events" or "json" not in answer.content_type:
                return answer.status, None
            return answer.status, await answer.json()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with access_to(tmp_path / "data", keyring=key_ring_file(tmp_path)) as access:
        await access.init()
        made = World(access, {}, {}, {}, {})
        for number, (role, namespace) in enumerate(CALLERS.items()):
            given = (role, namespace) if namespace else ()
            made.tokens[role] = await access.key(f"caller-{number}", *given)
        for namespace in (OWN, FOREIGN):
            job = {"name": "job", "namespace": namespace, "command": "echo hello"}
            made.job_ids[namespace] = (await made.admin("POST", "/jobs", job))["jobId"]
            started = await made.admin("POST", f"/jobs/{namespace}%2Fjob/trigger", {})
            made.executions[namespace] = started["executionId"]
            path, body = f"/jobs/{namespace}%2Fjob/backfills", BODIES["create_backfill"]
            made.backfills[namespace] = (await made.admin("POST", path, body))["backfillId"]
            path, body = f"/jobs/{namespace}%2Fjob/state/cursor", BODIES["put_state"]
            await made.admin("PUT", path, body)
            await made.admin("GET", f"/executions/{started['executionId']}/wait?timeout=30s")
        yield made


def has(caller: str, verb: Verb | None, namespace: str) -> bool:
    """Return True if the caller has a verb in a namespace, by the table of roles alone."""
    return verb in ROLES.get(caller, ()) and CALLERS[caller] in (EVERY, namespace)


def expected(operation: Operation, caller: str, namespace: str) -> str:
    """Return what a caller has to get, by the declaration of the operation and the roles."""
    permission, verb = operation.permission, operation.permission.verb
    if operation.name == "wait_for_many":  # It waits for all of them, or for none.
        return ALLOWED if has(caller, Verb.READ, namespace) else MISSING_OBJECT
    if permission.scope in (Scope.PUBLIC, Scope.ANYONE, Scope.EACH):
        return ALLOWED
    if permission.scope is Scope.LOCAL:
        return MISSING_VERB
    if permission.scope is Scope.CLUSTER:
        verbs = (verb, *permission.alternatives)
        return ALLOWED if any(has(caller, each, EVERY) for each in verbs) else MISSING_VERB
    if "bindings" in operation.path:
        return expected_of_binding(operation, caller, namespace)
    if has(caller, verb, namespace):
        return ALLOWED
    if operation.path.startswith(f"{API}/namespaces/") and operation.method == "GET":
        return ALLOWED if has(caller, Verb.AUDIT, EVERY) else MISSING_OBJECT
    is_named = operation.name in ("create_job", "put_job", "put_secret", "send_event")
    return MISSING_VERB if is_named or has(caller, Verb.READ, namespace) else MISSING_OBJECT


def expected_of_binding(operation: Operation, caller: str, namespace: str) -> str:
    """Return what a caller has to get for a binding of the role ``viewer``."""
    if has(caller, Verb.GRANT, namespace):
        return ALLOWED
    if operation.method == "PUT":
        return MISSING_VERB
    if not has(caller, Verb.AUDIT, EVERY):
        return MISSING_OBJECT
    return ALLOWED if operation.method == "GET" else MISSING_VERB


def got(status: int) -> str:
    """Return the kind of a response; errors that concern no access count as allowed."""
    return str(status) if status in (401, 403, 404) else ALLOWED


@pytest.mark.parametrize("caller", CALLERS)
async def test_each_operation_is_allowed_to_the_roles_with_its_verb_alone(
    world: World, caller: str
) -> None:
    assert await wrong_answers(world, caller) == []


@pytest.mark.parametrize("role", ["no role", "operator", "editor", "cluster-admin"])
async def test_the_token_of_a_task_allows_what_the_bindings_of_its_job_allow(
    world: World, tmp_path: Path, role: str
) -> None:
    if CALLERS[role]:
        body = {"subject": f"job:{OWN}/actor", "role": role, "namespaces": [CALLERS[role]]}
        await world.admin("PUT", "/bindings/actor", body)
    shown = tmp_path / "shown"
    command = f'cat "$ROTA_TOKEN_FILE" >{shown}.new; mv {shown}.new {shown}; exec sleep 600'
    job = {"name": "actor", "namespace": OWN, "command": command, "identity": True}
    await world.admin("POST", "/jobs", job)
    await world.admin("POST", f"/jobs/{OWN}%2Factor/trigger", {})
    await until(shown.exists)

    world.tokens[role] = shown.read_text()

    assert await wrong_answers(world, role) == []


async def wrong_answers(world: World, caller: str) -> list[str]:
    """Make every request as *caller*, and return the answers that its role does not explain."""
    wrong: list[str] = []
    for operation in ASKED:
        for namespace in (OWN, FOREIGN):
            for path in world.paths(operation, namespace):
                await world.prepare(operation, namespace)
                body = world.body(operation, namespace)
                status, answer = await world.ask(caller, operation, path, body)
                wanted = expected(operation, caller, namespace)
                # There is no node n9 and no shard 999.
                is_absent = status == 404 and operation.permission.scope is Scope.CLUSTER
                if (ALLOWED if is_absent else got(status)) != wanted:
                    wrong.append(f"{operation.method} {path}: {status}, not {wanted}: {answer}")
    return wrong


async def test_no_operation_answers_without_a_key_but_the_public_ones(world: World) -> None:
    for operation in ASKED:
        for path in world.paths(operation, OWN):
            status, _ = await world.ask(None, operation, path, world.body(operation, OWN))

            is_public = operation.permission.scope is Scope.PUBLIC
            is_local = operation.permission.scope is Scope.LOCAL
            wanted = ALLOWED if is_public else MISSING_VERB if is_local else MISSING_KEY
            assert got(status) == wanted, path


async def test_an_object_of_another_namespace_and_one_that_does_not_exist_give_one_answer(
    world: World,
) -> None:
    foreign, absent = world.executions[FOREIGN], world.executions[FOREIGN][:-4] + "0000"

    for operation in ASKED:
        if operation.permission.scope is Scope.OBJECT and "{execution}" in operation.path:
            [path] = world.paths(operation, FOREIGN)
            body = world.body(operation, FOREIGN)
            hidden = await world.ask("editor", operation, path, body)
            missing = await world.ask("editor", operation, path.replace(foreign, absent), body)

            for _, answer in (hidden, missing):
                answer.pop("requestId")
            assert str(hidden).replace(foreign, "ID") == str(missing).replace(absent, "ID"), path


async def test_a_list_has_the_objects_of_the_callers_namespaces_alone(world: World) -> None:
    skipped = {"schedule": "@every 1s", "overlap": "skip", "command": "sleep 9"}
    for namespace in (OWN, FOREIGN):
        await world.admin("PUT", f"/jobs/{namespace}/skipping", skipped)
        body = {"subject": "principal:x", "role": "viewer", "namespaces": [namespace]}
        await world.admin("PUT", f"/bindings/of-{namespace}", body)
        await world.admin("PUT", f"/secrets/{namespace}/db", BODIES["put_secret"])
        await world.admin("PUT", f"/namespaces/{namespace}", BODIES["put_namespace"])
    async with asyncio.timeout(30):
        while not await have_skipped(world):  # noqa: ASYNC110 - the node is asked
            await asyncio.sleep(0.05)

    for name in LISTS:
        [operation] = [each for each in OPERATIONS if each.name == name]
        _, all_items = await world.ask("cluster-admin", operation, operation.path, None)
        _, items = await world.ask("admin", operation, operation.path, None)
        _, none = await world.ask("no role", operation, operation.path, None)

        assert FOREIGN in str(all_items), name
        assert OWN in str(items), name
        assert FOREIGN not in str(items), name
        assert none["items"] == [], name


async def test_a_cursor_has_the_name_of_no_job_of_another_namespace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "EXAMINED_MAX", 2)
    for name in ("a", "b", "c", "d"):
        for namespace in (FOREIGN, "a-foreign", OWN):
            job = {"name": name, "namespace": namespace, "command": "true"}
            await world.admin("POST", "/jobs", job)

    for query in (f"namespace={FOREIGN}", "", "limit=1", "q=job"):
        cursor, seen = "", list[str]()
        while True:
            path = f"{API}/jobs?{query}{cursor}"
            _, page = await world.access.call(world.tokens["viewer"], "GET", path)
            seen += [each["name"] for each in page["items"]]
            if not page["nextCursor"]:
                break
            assert page["nextCursor"].startswith(f"{OWN}/"), query
            cursor = f"&cursor={page['nextCursor']}"
        wanted = {"": "abcd job", "limit=1": "abcd job", "q=job": " job"}.get(query, "")
        assert seen == [*wanted.partition(" ")[0], *wanted.split(" ")[1:]], query


async def have_skipped(world: World) -> bool:
    """Return True if the jobs of both namespaces have fire times without an execution."""
    found = str(await world.admin("GET", "/ledger"))
    return OWN in found and FOREIGN in found


async def test_items_of_other_namespaces_fail_alone(world: World) -> None:
    jobs = [{"job": f"{namespace}/job"} for namespace in (OWN, FOREIGN)]
    new = [
        {"name": "many", "namespace": namespace, "command": "true"} for namespace in (OWN, FOREIGN)
    ]

    editor = world.tokens["editor"]
    _, triggered = await world.access.call(
        editor, "POST", f"{API}/executions:batch", {"items": jobs}
    )
    _, created = await world.access.call(editor, "POST", f"{API}/jobs:batch", {"items": new})
    ids = {"executionIds": [world.executions[OWN], world.executions[FOREIGN]]}
    waited, problem = await world.access.call(editor, "POST", f"{API}/executions:wait", ids)

    assert triggered["items"][0]["executionId"]
    assert triggered["items"][1]["error"]["code"] == "job_not_found"
    assert [each["status"] for each in created["items"]] == [201, 403]
    assert (waited, problem["code"]) == (404, "execution_not_found")


async def test_events_of_other_namespaces_are_not_sent(world: World) -> None:
    headers = {
        "Authorization": f"Bearer {world.tokens['viewer']}",
        "Accept": "application/x-ndjson",
    }
    url = f"{world.access.client.url}{API}/events"
    async with asyncio.timeout(20), world.access.client.session.get(url, headers=headers) as answer:
        lines = answer.content
        assert b"stream.opened" in await lines.readline()
        for namespace in (FOREIGN, OWN):
            job = {"name": "seen", "namespace": namespace, "command": "true"}
            await world.admin("POST", "/jobs", job)

        while b"job.created" not in (line := await lines.readline()):
            assert not line.strip()
        assert OWN in line.decode()
