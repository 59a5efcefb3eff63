"""The calls of a load, with the least possible cost of a client in Python.

The load generator shares the machine with the measured nodes, so it decodes only the fields that it
needs. Scenarios with little load use `rota.client`.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import aiohttp

from rota.client.transport.owners import Owners
from rota.core.model.ids import Slot, slot_of
from rota.core.timing.instants import Instant
from rota.wire.documents import ITEMS_MAX

T = TypeVar("T")
Json = Any  # Any: the response of a node, which the scenario reads.
NOT_NOW = (429, 503)
AGAIN_S = 0.05
PATIENCE_S = 600.0
WAIT_S = 300
"""The longest time in seconds that a node holds a waiting request."""


class Api:
    """Calls to the nodes of a cluster, which take turns.

    A request for an execution of a job is sent to the primary, as by rota's clients, if an earlier
    response has named the primary; or to any node, as through a load balancer, if requested.

    A request that a node cannot accept now (429, 503) is repeated and counted: many of them mean an
    overloaded cluster. Its latency still counts from the first try.

    Attributes:
        refused_count: The number of these refusals.
    """

    def __init__(self, session: aiohttp.ClientSession, urls: Sequence[str]) -> None:
        self.refused_count = 0
        self._session = session
        self._urls = urls
        self._next = 0
        self._owners = Owners(urls)

    @property
    def _url(self) -> str:
        self._next += 1
        return self._urls[self._next % len(self._urls)]

    async def post(self, path: str, body: Json = None, slot: Slot | None = None) -> Json:
        """Make a POST request that has to succeed, at the primary of *slot* if it is known."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                url = self._owners.endpoint_of(slot) or self._url
                async with self._session.post(f"{url}/api/v1{path}", json=body or {}) as answer:
                    text = await answer.text()
                if slot is not None:
                    self._owners.record(url, slot, answer.headers)
                if answer.status not in NOT_NOW:
                    assert answer.status < 300, text
                    return json.loads(text)
                self.refused_count += 1
                await asyncio.sleep(AGAIN_S)

    async def get(self, path: str) -> Json:
        """Make a GET request that has to succeed, and return its response."""
        async with self._session.get(f"{self._url}/api/v1{path}") as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def create(self, jobs: Sequence[Json]) -> None:
        """Create jobs, as many as possible with each request."""
        for start in range(0, len(jobs), ITEMS_MAX):
            await self._create_some(jobs[start : start + ITEMS_MAX])

    async def _create_some(self, jobs: Sequence[Json]) -> None:
        made = await self.post("/jobs:batch", {"items": jobs})
        if again := await self._refused_now(jobs, made["items"]):
            await self._create_some(again)

    async def trigger(self, job: str, *, of_anybody: bool = False) -> str:
        """Request an execution, and return its id; with *of_anybody*, from any node."""
        slot = None if of_anybody else slot_of("default", job)
        return str((await self.post(f"/jobs/{job}/trigger", slot=slot))["executionId"])

    async def trigger_many(self, jobs: Sequence[str]) -> list[str]:
        """Request an execution of each job, at most 1,000, in one request; return their ids."""
        made = await self.post("/executions:batch", {"items": [{"job": job} for job in jobs]})
        ids = [item["executionId"] for item in made["items"] if not item["error"]]
        if again := await self._refused_now(jobs, made["items"]):
            ids += await self.trigger_many(again)
        return ids

    async def _refused_now(self, asked: Sequence[T], items: Sequence[Json]) -> list[T]:
        """Return the refused items of *asked* after a pause, and count them.

        A single item may be refused, if its shard has no primary for a moment.
        """
        refused = [item["error"] for item in items if item["error"]]
        assert {each["status"] for each in refused} <= set(NOT_NOW), refused
        if refused:
            self.refused_count += len(refused)
            await asyncio.sleep(AGAIN_S)
        return [each for each, item in zip(asked, items, strict=True) if item["error"]]

    async def ended(self, ids: Sequence[str]) -> list[Json]:
        """Wait until executions, at most 1,000, have succeeded; return them without their tasks."""
        body = {"executionIds": list(ids), "timeout": WAIT_S}
        items = (await self.post("/executions:wait", body))["items"]
        assert all(each["status"] == "success" for each in items), items[0]
        return list(items)

    async def all_ended(self, ids: Sequence[str]) -> list[Json]:
        """Wait until any number of executions have succeeded; return them without their tasks."""
        found: list[Json] = []
        for start in range(0, len(ids), ITEMS_MAX):
            found += await self.ended(ids[start : start + ITEMS_MAX])
        return found

    async def counters(self) -> dict[str, float]:
        """Return the metrics of all nodes by name and labels, added up."""
        total: defaultdict[str, float] = defaultdict(float)
        for url in self._urls:
            async with self._session.get(f"{url}/metrics") as answer:
                for name, value in samples(await answer.text()):
                    total[name] += value
        return total


def samples(text: str) -> Iterable[tuple[str, float]]:
    """Yield the names, with labels, and the values in Prometheus's text format."""
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield name, float(value)


def now() -> Instant:
    """Return the time of the wall clock, which the nodes of this machine share."""
    return Instant(time.time_ns() // 1_000)
