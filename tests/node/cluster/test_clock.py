"""Changes of the wall clock under a running node."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.core.timing.instants import HOUR, MILLISECOND, Duration, Instant, parse_instant
from rota.node.runtime.node import Node
from rota.node.shards import fire_checks
from rota.node.system.clock import SystemClock
from rota.node.system.config import NodeConfig
from rota.node.system.config_values import Address

EVERY = Duration(200 * MILLISECOND)


class SettableClock(SystemClock):
    """The machine's clocks, with a wall clock that can be set as by ``date -s``."""

    def __init__(self) -> None:
        self.offset = Duration(0)

    def now(self) -> Instant:
        """Return the time of the wall clock."""
        return Instant(super().now() + self.offset)


class Client:
    """Client of one node."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request that has to succeed."""
        async with self._session.request(method, self._url + path, json=body) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def text(self, path: str) -> str:
        """Return the text at *path*."""
        async with self._session.get(self._url + path) as answer:
            return await answer.text()

    async def troubles(self) -> list[str]:
        """Return the troubles of the node."""
        status = await self.call("GET", "/api/v1/cluster")
        return list(status["nodes"][0]["troubles"])

    async def next_fire(self, job: str) -> Instant:
        """Return the next fire time of a job."""
        found = await self.call("GET", f"/api/v1/jobs/{job}")
        return parse_instant(found["nextFireAt"])

    async def ledger(self, job: str) -> list[Any]:
        """Return a job's ledger."""
        page = await self.call("GET", f"/api/v1/jobs/{job}/ledger?limit=1000")
        return list(page["items"])

    async def wait_for_entries(self, job: str, count: int) -> list[Any]:
        """Wait until a job's ledger has *count* entries."""
        async with asyncio.timeout(20):
            while len(entries := await self.ledger(job)) < count:  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.02)
        return entries


@asynccontextmanager
async def running_node(data_dir: Path, clock: SettableClock) -> AsyncGenerator[Client]:
    listen = Address("127.0.0.1", 0)
    config = NodeConfig(
        data_dir=data_dir,
        listen=listen,
        drain=Duration(0),
        on_stop="end",
        testing_executors=True,
        auth="open",
    )
    node = Node(config, clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        await node.started.wait()
        async with aiohttp.ClientSession() as session:
            yield Client(session, f"http://{node.address}")
        node.stop()


async def test_a_wall_clock_set_back_and_forth_leaves_every_fire_one_outcome(
    tmp_path: Path,
) -> None:
    clock = SettableClock()
    async with running_node(tmp_path / "data", clock) as client:
        body = {"name": "tick", "schedule": "@every 200ms", "type": "scripted", "misfire": "skip"}
        await client.call("POST", "/api/v1/jobs", body)
        await client.wait_for_entries("tick", 3)

        clock.offset = Duration(HOUR)
        ahead = await client.wait_for_entries("tick", 8)
        clock.offset = Duration(0)
        # A recorded hour is not repeated: the fires of the job wait for their time.
        await client.call("POST", "/api/v1/jobs", {**body, "name": "later"})
        await client.wait_for_entries("later", 4)
        back = await client.ledger("tick")
        clock.offset = Duration(HOUR + EVERY * 10)
        forth = await client.wait_for_entries("tick", len(back) + 3)

    assert any(entry["outcome"] == "missed" for entry in ahead), "the hour that was skipped"
    assert len(back) <= len(ahead) + 2, "fires in time that had passed already"
    expected = None
    for entry in forth:
        first, last = parse_instant(entry["fireTime"]), parse_instant(entry["until"])
        assert expected in (None, first), entry
        assert last - first == (entry["count"] - 1) * EVERY, entry
        expected = last + EVERY


async def test_a_retry_does_not_wait_for_a_wall_clock_that_was_set_back(tmp_path: Path) -> None:
    clock = SettableClock()
    async with running_node(tmp_path / "data", clock) as client:
        retries = {"limit": 1, "backoff": "fixed", "delay": "300ms"}
        parameters = {"failTimes": 1}
        body = {"name": "flaky", "type": "scripted", "parameters": parameters, "retries": retries}
        await client.call("POST", "/api/v1/jobs", body)
        made = await client.call("POST", "/api/v1/jobs/flaky/trigger")

        clock.offset = Duration(-HOUR)
        path = f"/api/v1/executions/{made['executionId']}/wait?timeout=10"
        execution = await client.call("GET", path)

    assert execution["status"] == "success"
    assert len(execution["tasks"]["main"]["attempts"]) == 2


async def test_jobs_that_a_clock_ahead_silenced_are_named_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fire_checks, "LOOK_EVERY", Duration(0))
    clock = SettableClock()
    async with running_node(tmp_path / "data", clock) as client:
        body = {"name": "tick", "schedule": "@every 1s", "type": "scripted"}
        await client.call("POST", "/api/v1/jobs", body)
        clock.offset = Duration(HOUR)
        async with asyncio.timeout(20):
            while await client.next_fire("tick") <= clock.now():  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.02)
        clock.offset = Duration(0)

        async with asyncio.timeout(20):
            while not (troubles := await client.troubles()):  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.05)
        job = await client.call("GET", "/api/v1/jobs/tick")
        coming = await client.call("GET", "/api/v1/jobs/tick/next?count=1")
        metrics = await client.text("/metrics")
        before = len(await client.ledger("tick"))
        await client.call("POST", "/api/v1/jobs/tick/resume")
        await client.wait_for_entries("tick", before + 2)
        async with asyncio.timeout(20):
            while await client.troubles():  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.05)

    assert "default/tick" in troubles[0]
    assert coming["items"][0]["at"] == job["nextFireAt"]
    assert parse_instant(job["nextFireAt"]) > clock.now() + HOUR // 2
    assert "rota_jobs_silent 1.0" in metrics
    assert [record for record in caplog.records if "jobs are silent" in record.message]
