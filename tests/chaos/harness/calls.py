"""Operations of clients, each written down before it begins and when its answer is there.

All go through the client that users have, which knows all nodes. One that certainly had no effect
is a ``fail``, one of which nobody knows an ``info``.
"""

import random
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from chaos.harness.histories import History
from rota.client import AsyncClient
from rota.client.errors import NodeFailed, RequestFailed, Unreachable, WaitTimedOut
from rota.wire.documents import ExecutionView, JobView

Json = Any  # Any: what goes into a history.

ENDS_WITHIN_S = 120


class Calls:
    """What clients ask for.

    Args:
        client: That asks.
        history: Where it is written down.
        rng: Which decides who asks again.
    """

    def __init__(self, client: AsyncClient, history: History, rng: random.Random) -> None:
        self.client = client
        self._history = history
        self._rng = rng
        self._numbers = count()
        self._keys = count(1)

    def next_key(self) -> int:
        """Return a number that no other call has returned."""
        return next(self._keys)

    async def create(self, job: Json) -> None:
        """Create a job."""
        call = self.client.create_job(job)
        await self.operation("create", {"job": job}, call, lambda made: {"id": made.job_id})

    async def trigger(self, job: str) -> str | None:
        """Trigger a job; where nobody knows whether it was done, ask again now and then."""
        number = self.next_key()
        key, trace = f"key-{number}", f"00-{number:032x}-{number:016x}-01"
        while True:
            call = self.client.trigger(job, idempotency_key=key, traceparent=trace)
            outcome, told = await self.operation(
                "trigger",
                {"job": job, "key": key, "trace": trace},
                call,
                lambda made: {"execution": made.execution_id},
            )
            if outcome == "ok":
                return str(told["execution"])
            if outcome == "fail" or self._rng.random() < 0.5:
                return None

    async def cancel(self, execution_id: str) -> None:
        """Cancel an execution."""
        call = self.client.cancel(execution_id)
        await self.operation("cancel", {"execution": execution_id}, call, _attempts_of)

    async def see_end(self, execution_id: str) -> None:
        """Wait until an execution has ended."""
        call = self.client.wait(execution_id, timeout_s=ENDS_WITHIN_S)
        asked = {"execution": execution_id}
        await self.operation("see", asked, call, lambda seen: {"status": seen.status})

    async def operation(
        self,
        what: str,
        asked: Json,
        call: Awaitable[Any],  # Any: what it answers is the teller's business
        told_of: Callable[[Any], Json] = lambda answer: {},
    ) -> tuple[str, Json]:
        """Make a call; return its outcome, and what was told."""
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


def value_of(job: JobView) -> Json:
    """Return what a client sees of a register."""
    return {"value": job.labels["value"]}


def _attempts_of(execution: ExecutionView) -> Json:
    """Return how many attempts each task has on record."""
    return {
        "attempts": {name: len(task.attempts) for name, task in (execution.tasks or {}).items()}
    }
