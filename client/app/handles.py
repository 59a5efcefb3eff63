"""Handles of submitted calls: their results, states and cancellation."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeVar

from rota.client.app.errors import TaskFailed
from rota.client.client import Client
from rota.client.errors import NotYetRunning
from rota.wire.documents import ExecutionView, JobView

T_co = TypeVar("T_co", covariant=True)

PAUSE_S_MIN = 0.02
PAUSE_S_MAX = 1.0
"""The pauses between two looks for an execution that does not exist yet; they double."""


class Handle(Generic[T_co]):
    """A submitted call of a task, or an execution of a flow that was started.

    Attributes:
        id: The id of its job, which has this one execution; of a flow, the id of the execution.
    """

    def __init__(
        self,
        client: Client,
        job_id: str,
        read: Callable[[ExecutionView], T_co],
        execution_id: str = "",
    ) -> None:
        self.id = job_id
        self._client = client
        self._read = read
        self._execution_id = execution_id

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"

    def result(self, timeout: float | None = None) -> T_co:
        """Return what the function returned, once the call has ended.

        Args:
            timeout: The longest wait in seconds; None for no limit.

        Raises:
            TaskFailed: The call failed after its last retry, or was cancelled.
            WaitTimedOut, NotYetRunning: The call has not ended, or not begun, in this time.
            NotFound: The node has deleted the call with its history.
        """
        deadline = _deadline(timeout)
        execution_id = self._started(deadline)
        ended = self._client.wait(execution_id, timeout_s=_left(deadline))
        if ended.status != "success":
            raise TaskFailed(ended.job, ended)
        return self._read(ended)

    def status(self) -> str:
        """Return ``scheduled`` before the time of the call, then the status of its execution.

        Those are ``queued``, ``running``, ``success``, ``failed`` and ``cancelled``.
        """
        execution_id = self._look()
        return self._client.execution(execution_id).status if execution_id else "scheduled"

    def cancel(self) -> None:
        """Cancel the call; a call that has ended is not changed, one not yet due is deleted."""
        execution_id = self._look()
        if execution_id:
            self._client.cancel(execution_id)
        else:
            self._client.delete_job(self.id)

    def _started(self, deadline: float | None) -> str:
        """Return the id of the execution, once it exists."""
        began, pause_s = perf_counter(), PAUSE_S_MIN
        while not (execution_id := self._look()):
            left = _left(deadline)
            if left == 0.0:
                raise NotYetRunning(self.id, self.id, perf_counter() - began)
            time.sleep(pause_s if left is None else min(pause_s, left))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return execution_id

    def _look(self) -> str:
        """Return the id of the execution; empty if it does not exist yet."""
        if not self._execution_id:
            self._execution_id = _execution_of(self._client.job(self.id))
        return self._execution_id


@dataclass(frozen=True)
class Group(Generic[T_co]):
    """Several submitted calls.

    Attributes:
        handles: The handles of their executions, each of up to 1,000 calls, in order.
    """

    handles: tuple[Handle[list[T_co]], ...]

    def results(self, timeout: float | None = None) -> list[T_co]:
        """Return the results of all calls, in the order of the items.

        Args:
            timeout: The longest wait for all of them in seconds; None for no limit.

        Raises:
            TaskFailed: A call failed; its ``execution`` has the results of the others.
            WaitTimedOut, NotYetRunning: A call has not ended, or not begun, in this time.
        """
        deadline = _deadline(timeout)
        return [result for each in self.handles for result in each.result(_left(deadline))]


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else perf_counter() + timeout


def _left(deadline: float | None) -> float | None:
    """Return the seconds until *deadline*, at least 0."""
    return None if deadline is None else max(0.0, deadline - perf_counter())


def _execution_of(job: JobView) -> str:
    if job.execution_id or job.last_execution is None:
        return job.execution_id or ""
    return job.last_execution.execution_id
