"""Tokens of tasks: what a running task may do with its own token, and when the token ends."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey
from rota.core.model.ids import ExecutionId, NodeId
from rota.core.timing.instants import DAY, Duration
from rota.node.access.attempt_identity import PREFIX, AttemptIdentity, issue, parse
from rota.node.runtime.identity_wiring import runs
from support.access_client import API, Access, Json, ShiftedClock, access_to
from support.in_process import until

JOB = "team-a/actor"


class World:
    """A node, and a job whose task shows its token and runs until a file exists.

    Attributes:
        access: The client of the node.
        clock: The clocks of the node.
    """

    def __init__(self, access: Access, clock: ShiftedClock, folder: Path) -> None:
        self.access = access
        self.clock = clock
        self._shown, self._go = folder / "shown", folder / "go"

    def command(self) -> str:
        """Return the command of the task."""
        shown, go = shlex.quote(str(self._shown)), shlex.quote(str(self._go))
        return (
            f'cat "$ROTA_TOKEN_FILE" >{shown}.new; mv {shown}.new {shown}.$ROTA_ATTEMPT; '
            f"until [ -e {go}.$ROTA_ATTEMPT ]; do sleep 0.02; done; exit $(cat {go}.$ROTA_ATTEMPT)"
        )

    async def admin(self, method: str, path: str, body: Json = None) -> Json:
        """Make a request as the administrator."""
        status, found = await self.access.call(self.access.admin, method, API + path, body)
        assert status < 300, found
        return found

    async def started(self, **fields: Json) -> str:
        """Create and trigger the job; return the id of the execution."""
        namespace, name = JOB.split("/")
        body = {"name": name, "namespace": namespace, "command": self.command(), **fields}
        await self.admin("POST", "/jobs", {"identity": True, **body})
        return str((await self.admin("POST", "/jobs/team-a%2Factor/trigger", {}))["executionId"])

    async def token(self, attempt: int = 1) -> str:
        """Return the token of an attempt, once it runs."""
        file = self._shown.with_name(f"shown.{attempt}")
        await until(file.exists)
        return file.read_text()

    async def end(self, execution: str, attempt: int = 1, status: int = 0) -> None:
        """Let an attempt end, and wait until the node has recorded that."""
        self._go.with_name(f"go.{attempt}").write_text(str(status))
        key = AttemptKey(ExecutionId(execution), "main", attempt)
        await until(lambda: key not in self.access.wiring.attempts.local.orders)

    async def bind(self, role: str, *namespaces: str) -> None:
        """Give the job a role."""
        body = {"subject": f"job:{JOB}", "role": role, "namespaces": list(namespaces)}
        await self.admin("PUT", "/bindings/actor", body)

    async def status(self, token: str, method: str, path: str, body: Json = None) -> int:
        """Return the status of a request with a token."""
        return (await self.access.call(token, method, API + path, body))[0]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock = ShiftedClock()
    async with access_to(tmp_path / "data", clock=clock) as access:
        await access.init()
        yield World(access, clock, tmp_path)


async def test_a_task_is_the_caller_that_its_job_names(world: World) -> None:
    await world.bind("operator", "team-b")
    execution = await world.started()
    token = await world.token()

    status, caller = await world.access.call(
        token, "GET", f"{API}/whoami?verb=run&namespace=team-b"
    )

    assert token.startswith(PREFIX)
    assert status == 200
    assert (caller["principal"], caller["allowed"]) == (f"job:{JOB}", True)
    assert caller["bindings"] == [{"role": "operator", "namespaces": ["team-b"]}]
    assert caller["expiresAt"]
    await world.end(execution)


async def test_a_task_without_a_binding_reads_its_own_execution_alone(world: World) -> None:
    other = {"name": "other", "namespace": "team-a", "command": "true"}
    await world.admin("POST", "/jobs", other)
    foreign = (await world.admin("POST", "/jobs/team-a%2Fother/trigger", {}))["executionId"]
    own = await world.started()
    token = await world.token()

    assert await world.status(token, "GET", f"/executions/{own}") == 200
    assert await world.status(token, "GET", f"/executions/{own}/wait?timeout=0") == 200
    waiting = {"executionIds": [own], "timeout": 0}
    assert await world.status(token, "POST", "/executions:wait", waiting) == 200
    # It may know that its execution exists, so it gets the reason.
    assert await world.status(token, "POST", f"/executions/{own}/cancel") == 403
    assert await world.status(token, "GET", f"/executions/{own}/tasks/main/output") == 403
    assert await world.status(token, "GET", f"/executions/{foreign}") == 404
    assert await world.status(token, "POST", f"/executions/{foreign}/cancel") == 404
    assert await world.status(token, "GET", f"/jobs/{JOB.replace('/', '%2F')}") == 404
    assert await world.status(token, "POST", f"/jobs/{JOB.replace('/', '%2F')}/trigger", {}) == 404
    assert await world.status(token, "GET", "/keys") == 403
    await world.end(own)


async def test_a_token_is_void_when_its_attempt_has_ended(world: World) -> None:
    execution = await world.started(retries=1)
    first = await world.token(1)
    assert await world.status(first, "GET", "/whoami") == 200

    await world.end(execution, 1, status=1)
    second = await world.token(2)

    assert await world.status(first, "GET", "/whoami") == 401
    assert await world.status(second, "GET", f"/executions/{execution}") == 200
    await world.end(execution, 2)
    assert await world.status(second, "GET", "/whoami") == 401


async def test_the_primary_of_a_shard_knows_which_attempts_run_on_other_nodes(
    world: World,
) -> None:
    execution = await world.started(retries=1)
    first = _on_another_node(await world.token(1))
    shards = world.access.wiring.shards
    before = runs(first, shards)
    await world.end(execution, 1, status=1)
    second = _on_another_node(await world.token(2))

    now = [runs(each, shards) for each in (first, second, replace(second, fence="f" * 32))]
    await world.end(execution, 2)

    assert before is True
    assert now == [False, True, False]
    assert runs(second, shards) is False
    assert runs(replace(second, attempt=1_000_001), shards) is None


def _on_another_node(token: str) -> AttemptIdentity:
    found = parse(token)
    assert found is not None
    return replace(found.identity, node_id=NodeId("n2"))


async def test_a_token_of_the_nodes_key_for_another_attempt_is_refused(world: World) -> None:
    """The node itself has issued none of these, and each differs in one fact only."""
    execution = await world.started()
    found = parse(await world.token())
    assert found is not None
    key = world.access.wiring.cluster.membership.members[found.identity.node_id].task_key

    def remade(identity: AttemptIdentity) -> str:
        return issue(identity, key, "")

    assert await world.status(remade(found.identity), "GET", "/whoami") == 200
    others = [
        replace(found.identity, attempt=2),
        replace(found.identity, task="other"),
        replace(found.identity, fence="f" * 32),
        replace(found.identity, execution_id=ExecutionId(f"{execution[:-4]}7fff")),
    ]
    for other in others:
        assert await world.status(remade(other), "GET", "/whoami") == 401, other
    await world.end(execution)


async def test_a_token_ends_with_the_timeout_of_its_task(world: World) -> None:
    execution = await world.started(timeout="1h", stopGrace="1m")
    token = await world.token()
    world.clock.shift = Duration(3_600_000_000 + 60_000_000)
    assert await world.status(token, "GET", "/whoami") == 200

    world.clock.shift = Duration(world.clock.shift + 600_000_000)

    assert await world.status(token, "GET", "/whoami") == 401
    await world.end(execution)


async def test_without_a_timeout_a_token_ends_after_a_day(world: World) -> None:
    execution = await world.started()
    token = await world.token()
    world.clock.shift = Duration(DAY)
    assert await world.status(token, "GET", "/whoami") == 200

    world.clock.shift = Duration(DAY + 600_000_000)

    assert await world.status(token, "GET", "/whoami") == 401
    await world.end(execution)


async def test_a_withdrawn_binding_counts_with_the_next_request(world: World) -> None:
    await world.bind("viewer", "team-a")
    execution = await world.started()
    token = await world.token()
    assert await world.status(token, "GET", "/jobs/team-a%2Factor") == 200

    await world.admin("DELETE", "/bindings/actor")

    assert await world.status(token, "GET", "/jobs/team-a%2Factor") == 404
    await world.end(execution)


async def test_a_stream_of_events_ends_with_the_attempt(world: World) -> None:
    await world.bind("viewer", "team-a")
    execution = await world.started()
    headers = {
        "Authorization": f"Bearer {await world.token()}",
        "Accept": "application/x-ndjson",
    }
    url = f"{world.access.client.url}{API}/events"
    async with asyncio.timeout(20), world.access.client.session.get(url, headers=headers) as answer:
        assert b"stream.opened" in await answer.content.readline()

        await world.end(execution)

        lines = [line async for line in answer.content]
    assert b"stream.closed" in lines[-1]


async def test_a_task_without_identity_has_no_token(world: World) -> None:
    execution = await world.started(identity=False, env={"WANTED": "1"})

    assert await world.token() == ""

    await world.end(execution)


async def test_the_token_is_masked_and_in_no_record(world: World) -> None:
    body = {"name": "leak", "command": 'cat "$ROTA_TOKEN_FILE"', "identity": True}
    await world.admin("POST", "/jobs", body)
    made = await world.admin("POST", "/jobs/default%2Fleak/trigger", {})
    path = f"/executions/{made['executionId']}"

    shown = await world.admin("GET", f"{path}/wait?timeout=20s")
    url = f"{world.access.client.url}{API}{path}/tasks/main/output"
    headers = {"Authorization": f"Bearer {world.access.admin}"}
    async with world.access.client.session.get(url, headers=headers) as answer:
        output = await answer.text()

    assert output == "***"
    assert PREFIX not in str(shown)


async def test_changes_name_the_job_and_the_execution(world: World) -> None:
    await world.bind("operator", "team-a")
    execution = await world.started()
    token = await world.token()

    status, made = await world.access.call(token, "POST", f"{API}/jobs/team-a%2Factor/trigger", {})

    assert status == 201
    shown = await world.admin("GET", f"/executions/{made['executionId']}")
    assert shown["triggeredBy"]["principal"] == f"job:{JOB}"
    assert shown["triggeredBy"]["key"] == execution
    await world.end(execution)


async def test_a_task_of_a_testing_type_has_no_identity(world: World) -> None:
    body = {"name": "x", "type": "scripted", "identity": True}

    status, problem = await world.access.call(world.access.admin, "POST", f"{API}/jobs", body)

    assert status == 422
    assert "/identity" in str(problem)


async def test_a_job_keeps_its_identity_when_it_is_changed_in_part(world: World) -> None:
    body = {"name": "kept", "command": "true", "identity": True}
    await world.admin("POST", "/jobs", body)

    await world.admin("PATCH", "/jobs/default%2Fkept", {"description": "x"})

    shown = await world.admin("GET", "/jobs/default%2Fkept")
    assert [task["identity"] for task in shown["tasks"]] == [True]


async def test_a_task_may_differ_from_its_job(world: World) -> None:
    tasks = [
        {"name": "with", "command": "true"},
        {"name": "without", "command": "true", "identity": False},
    ]
    await world.admin("POST", "/jobs", {"name": "two", "identity": True, "tasks": tasks})

    await world.admin("PATCH", "/jobs/default%2Ftwo", {"description": "x"})

    shown = await world.admin("GET", "/jobs/default%2Ftwo")
    assert [task["identity"] for task in shown["tasks"]] == [True, False]
