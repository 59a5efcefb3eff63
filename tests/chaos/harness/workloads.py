"""What clients do during a run, and what they write down of it.

All goes through the client that users have, which knows all nodes. An operation is written down
before it begins and when its answer is there; one that certainly had no effect is a ``fail``, one
of which nobody knows an ``info``.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from chaos.harness.definitions import Definitions
from chaos.harness.histories import History
from rota.client import AsyncClient
from rota.client.errors import NodeFailed, RequestFailed, Unreachable, WaitTimedOut
from rota.client.wire import JobView

Json = Any  # Any: what goes into a history.

IN_FLIGHT_MAX = 2_000
"""Beyond it nothing is submitted: with 50 a second, no answer for 40 s."""
REGISTERS = 4
GRAPHS = 4
LONG = 8
TRIGGERED = 20


@dataclass(frozen=True)
class Rates:
    """How much is asked for.

    Attributes:
        fires: Scheduled jobs, each of which fires once a second.
        submissions: Triggers and one-shot jobs in a second.
        graphs: Executions of graphs in a second.
        long: Executions of long tasks in a second.
        changes: Changes of registers in a second.
    """

    fires: int = 100
    submissions: float = 50.0
    graphs: float = 0.25
    long: float = 0.3
    changes: float = 2.0


class Load:
    """The clients of a run.

    Args:
        urls: Where the nodes are.
        rates: How much.
        seed: From which follows what is asked for, in which order.
        definitions: Of the jobs.
        history: Where operations are written down.

    Attributes:
        shed: Submissions that were left out because too many waited for answers.
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
        self._numbers = count()
        self._keys = count(1)
        self._in_flight = 0
        self._is_over = False
        self._client: AsyncClient

    def stop(self) -> None:
        """Submit nothing more; `run` ends when all answers are there."""
        self._is_over = True

    async def run(self, ready: Callable[[], None]) -> None:
        """Create the jobs, call *ready*, submit until `stop`, then pause what fires."""
        async with AsyncClient(self._urls) as self._client:
            ticking = list(self._definitions.scheduled(self._rates.fires))
            await self._create_all(ticking)
            await self._create_all(self._definitions.triggered(TRIGGERED))
            await self._create_all(self._definitions.graphs(GRAPHS))
            await self._create_all(self._definitions.long(LONG))
            ready()
            async with asyncio.TaskGroup() as group:
                rates = self._rates
                group.create_task(self._at_rate(group, rates.submissions, self._submit))
                group.create_task(self._at_rate(group, rates.graphs, self._run_graph))
                group.create_task(self._at_rate(group, rates.long, self._run_long))
                for number in range(REGISTERS):
                    group.create_task(self._change_register(number))
            await self._pause_all([job["name"] for job in ticking])

    async def _create_all(self, jobs: Any) -> None:  # Any: an iterable of bodies
        for job in jobs:
            await self._create(job)

    async def _at_rate(
        self,
        group: asyncio.TaskGroup,
        per_s: float,
        act: Callable[[], Coroutine[Any, Any, None]],  # Any: what a coroutine is sent
    ) -> None:
        """Begin *per_s* of it a second, whether or not those before have been answered."""
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

    # -- what they do ------------------------------------------------------------------------------

    async def _submit(self) -> None:
        if self._rng.random() < 0.2:
            at = datetime.now(UTC) + timedelta(seconds=self._rng.uniform(1, 4))
            text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            await self._create(self._definitions.once(next(self._keys), text))
            return
        told = await self._trigger(f"run-{self._rng.randrange(TRIGGERED)}")
        if told and self._rng.random() < 0.1:
            await self._see_end(told)

    async def _run_graph(self) -> None:
        told = await self._trigger(f"graph-{self._rng.randrange(GRAPHS)}")
        if told:
            await self._see_end(told)

    async def _run_long(self) -> None:
        is_cancelled = self._rng.random() < 0.2
        told = await self._trigger(f"long-{self._rng.randrange(LONG)}")
        if told and is_cancelled:
            await asyncio.sleep(2)
            asked = {"execution": told}
            await self._operation("cancel", asked, self._client.cancel(told), _nothing_told)
        if told:
            await self._see_end(told)

    async def _change_register(self, number: int) -> None:
        """Write, read and delete one job, one after the other."""
        name = f"register-{number}"
        while not self._is_over and self._rates.changes:
            value = next(self._keys)
            match self._rng.choice(("put", "get", "get", "delete")):
                case "put":
                    put = self._client.put_job(self._definitions.register(number, value))
                    asked = {"register": name, "value": str(value)}
                    await self._operation("put", asked, put, _nothing_told)
                case "get":
                    got = self._client.job(name)
                    await self._operation("get", {"register": name}, got, _value_of)
                case _:
                    gone = self._client.delete_job(name)
                    await self._operation("delete", {"register": name}, gone, _nothing_told)
            await asyncio.sleep(REGISTERS / self._rates.changes)

    async def _create(self, job: Json) -> None:
        await self._operation(
            "create", {"job": job}, self._client.create_job(job), lambda made: {"id": made.job_id}
        )

    async def _trigger(self, job: str) -> str | None:
        """Trigger a job; where nobody knows whether it was done, ask again now and then."""
        number = next(self._keys)
        key, trace = f"key-{number}", f"00-{number:032x}-{number:016x}-01"
        while True:
            call = self._client.trigger(job, idempotency_key=key, traceparent=trace)
            outcome, told = await self._operation(
                "trigger",
                {"job": job, "key": key, "trace": trace},
                call,
                lambda made: {"execution": made.execution_id},
            )
            if outcome == "ok":
                return str(told["execution"])
            if outcome == "fail" or self._rng.random() < 0.5 or self._is_over:
                return None

    async def _see_end(self, execution_id: str) -> None:
        call = self._client.wait(execution_id, timeout_s=120)
        await self._operation(
            "see", {"execution": execution_id}, call, lambda seen: {"status": seen.status}
        )

    async def _pause_all(self, names: list[str]) -> None:
        patient = self._client.within(90)
        async with asyncio.TaskGroup() as group:
            for name in names:
                call = patient.pause_job(name)
                group.create_task(self._operation("pause", {"job": name}, call, _nothing_told))

    async def _operation(
        self,
        what: str,
        asked: Json,
        call: Awaitable[Any],  # Any: what it answers is the teller's business
        told_of: Callable[[Any], Json],
    ) -> tuple[str, Json]:
        number = next(self._numbers)
        self._history.add(op=number, event="invoke", what=what, asked=asked)
        try:
            outcome, told = "ok", told_of(await call)
        except Unreachable as error:
            outcome = "info" if error.may_have_arrived else "fail"
            told = {"code": error.code, "detail": error.detail[:300]}
        except (NodeFailed, WaitTimedOut) as error:
            outcome, told = "info", {"code": error.code, "detail": str(error)[:300]}
        except RequestFailed as error:
            outcome, told = "fail", {"code": error.code, "detail": error.detail[:300]}
        self._history.add(op=number, event=outcome, what=what, told=told)
        return outcome, told


def _nothing_told(answer: object) -> Json:
    del answer
    return {}


def _value_of(job: JobView) -> Json:
    return {"value": job.labels["value"]}
