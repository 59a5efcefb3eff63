"""The load of a run: requests of clients."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from chaos.harness.calls import Calls, value_of
from chaos.harness.definitions import (
    AVAILABLE,
    GRAPHS,
    LONG,
    RACED,
    SINKS,
    TRIGGERED,
    Definitions,
)
from chaos.harness.histories import History
from rota.client import AsyncClient

Json = Any  # Any: the body of a job.

IN_FLIGHT_MAX = 2_000
"""Above it nothing is submitted; at 50 a second it takes 40 s without answers."""
REGISTERS = 4


@dataclass(frozen=True)
class Rates:
    """Rates of requests.

    Attributes:
        fires: Scheduled jobs, each of which fires once a second.
        submissions: Triggers and one-shot jobs in a second.
        graphs: Executions of graphs in a second.
        long: Executions of long tasks in a second.
        changes: Changes of registers in a second.
        races: Executions in a second that are triggered, and cancelled at once by two.
        many: Jobs that fire every 5 s; if there are any, there is no other load.
    """

    fires: int = 100
    submissions: float = 50.0
    graphs: float = 0.25
    long: float = 0.3
    changes: float = 2.0
    races: float = 0.5
    many: int = 0


class Load:
    """The clients of a run.

    Args:
        urls: Of the nodes.
        rates: Of the requests.
        seed: Determines the requests and their order.
        definitions: Of the jobs.
        history: Record of the operations.

    Attributes:
        shed: Submissions that were left out because too many were without an answer.
    """

    def __init__(
        self, urls: list[str], rates: Rates, seed: int, definitions: Definitions, history: History
    ) -> None:
        self.shed = 0
        self._urls = urls
        self._rates = rates
        self._rng = random.Random(f"load {seed}")
        self._definitions = definitions
        self._history = history
        self._in_flight = 0
        self._is_over = False
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._calls: Calls

    def stop(self) -> None:
        """Submit nothing more; `run` ends when all answers have arrived."""
        self._is_over = True
        self._loop.call_soon_threadsafe(self._over.set)

    async def run(self, ready: Callable[[], None]) -> None:
        """Create the jobs, call *ready*, submit until `stop`, then pause the jobs that fire."""
        rates, self._loop = self._rates, asyncio.get_running_loop()
        async with AsyncClient(self._urls) as client:
            self._calls = Calls(client, self._history, self._rng)
            firing = list(self._definitions.many(rates.many))
            if not firing:
                firing = [
                    *self._definitions.scheduled(rates.fires),
                    *self._definitions.raced(RACED),
                    *self._definitions.available(AVAILABLE),
                ]
                await self._create_all(self._definitions.unscheduled())
            await self._create_all(firing)
            ready()
            async with asyncio.TaskGroup() as group:
                if not rates.many:
                    self._submit_all(group)
                await self._over.wait()
            await self._pause_all([job["name"] for job in firing])

    def _submit_all(self, group: asyncio.TaskGroup) -> None:
        rates = self._rates
        group.create_task(self._at_rate(group, rates.submissions, self._submit))
        group.create_task(self._at_rate(group, rates.graphs, self._run_graph))
        group.create_task(self._at_rate(group, rates.long, self._run_long))
        group.create_task(self._at_rate(group, rates.races, self._run_and_cancel))
        for number in range(REGISTERS):
            group.create_task(self._change_register(number))
        for number in range(RACED):
            group.create_task(self._hold_and_release(f"race-{number}"))
        for number in range(SINKS):
            group.create_task(self._keep_running(f"sink-{number}"))

    async def _create_all(self, jobs: Iterable[Json]) -> None:
        for job in jobs:
            await self._calls.create(job)

    async def _at_rate(
        self,
        group: asyncio.TaskGroup,
        per_s: float,
        act: Callable[[], Coroutine[Any, Any, None]],  # Any: what a coroutine is sent
    ) -> None:
        """Begin *per_s* operations a second, whether or not earlier ones have been answered."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._is_over and per_s:
            if self._in_flight < IN_FLIGHT_MAX:
                group.create_task(self._counted(act()))
            else:
                self.shed += 1
            due += 1 / per_s
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _counted(self, act: Coroutine[Any, Any, None]) -> None:
        self._in_flight += 1
        try:
            await act
        finally:
            self._in_flight -= 1

    # -- operations --------------------------------------------------------------------------------

    async def _submit(self) -> None:
        if self._rng.random() < 0.2:
            at = datetime.now(UTC) + timedelta(seconds=self._rng.uniform(1, 4))
            text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            await self._calls.create(self._definitions.once(self._calls.next_key(), text))
            return
        execution = await self._calls.trigger(f"run-{self._rng.randrange(TRIGGERED)}")
        if execution and self._rng.random() < 0.1:
            await self._calls.see_end(execution)

    async def _run_graph(self) -> None:
        execution = await self._calls.trigger(f"graph-{self._rng.randrange(GRAPHS)}")
        if execution:
            await self._calls.see_end(execution)

    async def _run_long(self) -> None:
        is_cancelled = self._rng.random() < 0.2
        execution = await self._calls.trigger(f"long-{self._rng.randrange(LONG)}")
        if execution and is_cancelled:
            await asyncio.sleep(2)
            await self._calls.cancel(execution)
        if execution:
            await self._calls.see_end(execution)

    async def _keep_running(self, job: str) -> None:
        """Trigger a job whenever it does not run."""
        while not self._is_over:
            execution = await self._calls.trigger(job)
            if execution:
                await self._calls.see_end(execution)
            await asyncio.sleep(1)

    async def _run_and_cancel(self) -> None:
        """Trigger a job, and cancel it twice at once, perhaps before it began or after it ended."""
        execution = await self._calls.trigger(f"race-{self._rng.randrange(RACED)}")
        if execution:
            await asyncio.gather(self._calls.cancel(execution), self._calls.cancel(execution))

    async def _hold_and_release(self, job: str) -> None:
        """Pause and resume a job that fires, again and again."""
        client = self._calls.client
        while not self._is_over:
            await self._calls.operation("hold", {"job": job}, client.pause_job(job))
            await asyncio.sleep(self._rng.uniform(0.2, 3))
            await self._calls.operation("release", {"job": job}, client.resume_job(job))
            await asyncio.sleep(self._rng.uniform(0.5, 4))

    async def _change_register(self, number: int) -> None:
        """Write, read and delete one job, one after the other."""
        name, client = f"register-{number}", self._calls.client
        while not self._is_over and self._rates.changes:
            asked: Json = {"register": name}
            match self._rng.choice(("put", "get", "get", "delete")):
                case "put":
                    value = self._calls.next_key()
                    put = client.put_job(self._definitions.register(number, value))
                    await self._calls.operation("put", {**asked, "value": str(value)}, put)
                case "get":
                    await self._calls.operation("get", asked, client.job(name), value_of)
                case _:
                    await self._calls.operation("delete", asked, client.delete_job(name))
            await asyncio.sleep(REGISTERS / self._rates.changes)

    async def _pause_all(self, names: list[str]) -> None:
        patient = self._calls.client.within(90)
        async with asyncio.TaskGroup() as group:
            for name in names:
                paused = self._calls.operation("pause", {"job": name}, patient.pause_job(name))
                group.create_task(paused)
