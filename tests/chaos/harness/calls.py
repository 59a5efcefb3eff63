"""Operations of clients, each recorded before it begins and when its answer arrives.

All operations use the public client, which has the URLs of all nodes. An operation that certainly
had no effect is a ``fail``; one whose effect is unknown is an ``info``.
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
    """Requests of clients.

    Args:
        client: Sends the requests.
        history: Record of the operations.
        rng: Decides which requests are repeated.
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
        """Trigger a job; where the effect is unknown, repeat the request in some cases."""
        number = self.next_key()
        key, trace = f"key-{number}", f"00-{number:032x}-{number:016x}-01"
        while True:
            call = self.client.trigger(job, idempotency_key=key, traceparent=trace)
            outcome, answer = await self.operation(
                "trigger",
                {"job": job, "key": key, "trace": trace},
                call,
                lambda made: {"execution": made.execution_id},
            )
            if outcome == "ok":
                return str(answer["execution"])
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
        call: Awaitable[Any],  # Any: read by *answer_of* alone
        answer_of: Callable[[Any], Json] = lambda result: {},
    ) -> tuple[str, Json]:
        """Make a call; return its outcome and the answer."""
        number = next(self._numbers)
        self._history.add(op=number, event="invoke", what=what, asked=asked)
        try:
            outcome, answer = "ok", answer_of(await call)
        except Unreachable as error:
            outcome = "info" if error.may_have_arrived else "fail"
            answer = {"code": error.code, "detail": error.detail[:300]}
        except (NodeFailed, WaitTimedOut) as error:
            outcome, answer = "info", {"code": error.code, "detail": str(error)[:300]}
        except RequestFailed as error:
            outcome, answer = "fail", {"code": error.code, "detail": error.detail[:300]}
        self._history.add(op=number, event=outcome, what=what, answer=answer)
        return outcome, answer


def value_of(job: JobView) -> Json:
    """Return the value of a register in a job's document."""
    return {"value": job.labels["value"]}


def _attempts_of(execution: ExecutionView) -> Json:
    """Return the number of recorded attempts of each task."""
    return {
        "attempts": {name: len(task.attempts) for name, task in (execution.tasks or {}).items()}
    }
