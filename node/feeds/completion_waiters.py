"""Requests that wait for the ends of executions."""

import asyncio
from collections.abc import Callable, Iterable

from rota.core.errors import Kind, Refused
from rota.core.model.execution import FINAL_EXECUTION_STATES, ExecutionStatus
from rota.core.model.ids import ExecutionId
from rota.core.vocabulary.effects import Publish

WAITED_MAX = 100_000
"""The most ends of executions that requests may wait for; further requests to wait are refused."""

OnEnd = Callable[[ExecutionId], None]


class CompletionWaiters:
    """The requests that wait for the ends of executions.

    Attributes:
        count: The number of waits, one for each request and execution.
    """

    def __init__(self) -> None:
        self._waiters: dict[ExecutionId, list[OnEnd]] = {}
        self._waits: dict[asyncio.Future[None], set[ExecutionId]] = {}
        """The executions that each request still waits for."""
        self._is_closed = False
        self.count = 0

    def publish(self, event: Publish) -> None:
        """Answer the requests that wait for the execution, if *event* is its end."""
        status = event.status
        if isinstance(status, ExecutionStatus) and status in FINAL_EXECUTION_STATES:
            for on_end in self._waiters.pop(event.execution_id, ()):
                self.count -= 1
                on_end(event.execution_id)

    async def ended(self, executions: Iterable[ExecutionId], timeout_s: float) -> bool:
        """Wait until all of *executions*, which are unfinished, have ended.

        Returns:
            False if *timeout_s*, in seconds, is over before.

        Raises:
            Refused: Requests wait for too many ends, the node stops, or another node has become the
                primary for one of *executions*.
        """
        if self._is_closed:
            raise _stopping()
        open_ones = set(executions)
        if self.count + len(open_ones) > WAITED_MAX:
            raise Refused(
                Kind.UNAVAILABLE,
                "too_many_waiters",
                f"requests already wait for {self.count} ends of executions, and this request "
                f"would wait for {len(open_ones)} more; a node's limit is {WAITED_MAX:,}: try "
                "again later, or wait for fewer executions",
                retry_after_s=5,
            )
        all_ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_end(execution_id: ExecutionId) -> None:
            open_ones.discard(execution_id)
            if not open_ones and not all_ended.done():
                all_ended.set_result(None)

        for execution_id in open_ones:
            self._waiters.setdefault(execution_id, []).append(on_end)
        self.count += len(open_ones)
        self._waits[all_ended] = open_ones
        try:
            async with asyncio.timeout(timeout_s):
                if open_ones:
                    await all_ended
            return True
        except TimeoutError:
            return False
        finally:
            del self._waits[all_ended]
            self._forget(open_ones, on_end)

    def close(self) -> None:
        """Refuse all waiting requests, which may be repeated at another node."""
        self._is_closed = True
        for wait in self._waits:
            if not wait.done():
                wait.set_exception(_stopping())

    def leave(self, is_left: Callable[[ExecutionId], bool], refusal: Refused) -> None:
        """Refuse the requests that wait for an execution of another node's shard.

        Args:
            is_left: Returns True for executions whose ends are no longer published here.
            refusal: The response to these requests.
        """
        for wait, open_ones in self._waits.items():
            if not wait.done() and any(map(is_left, open_ones)):
                wait.set_exception(refusal)

    def _forget(self, executions: Iterable[ExecutionId], on_end: OnEnd) -> None:
        for execution_id in executions:
            waiters = self._waiters[execution_id]
            waiters.remove(on_end)
            self.count -= 1
            if not waiters:
                del self._waiters[execution_id]


def _stopping() -> Refused:
    return Refused(
        Kind.UNAVAILABLE, "stopping", "this node is stopping; try again", retry_after_s=1
    )
