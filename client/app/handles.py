"""Handles of submitted calls: their results, states and cancellation."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Generic, Literal, Self, TypeVar, overload

from rota.client.app.errors import CallCancelled, InvalidArgument, TaskFailed, WrongResult
from rota.client.client import Client
from rota.client.errors import NotYetRunning, WaitTimedOut
from rota.client.given_times import GivenDuration, duration_of
from rota.core.timing.instants import SECOND
from rota.wire.documents import ExecutionView, JobView, TaskView

T_co = TypeVar("T_co", covariant=True)

PAUSE_S_MIN = 0.02
PAUSE_S_MAX = 1.0
"""The pauses between two looks for an execution that does not exist yet; they double."""
THREAD_S = 5.0
"""How long a thread of `Handle.aresult` waits at a time, so that none outlives it for long."""

Kept = tuple[Callable[..., Any], tuple[Any, ...]]  # Any: as pickle stores objects.
"""A function that makes a handle or a group again in another process, and its arguments."""


class Handle(Generic[T_co]):
    """A submitted call of a task, or an execution of a flow that was started.

    It can be pickled if its task or flow can be imported; `Task.handle` and `Flow.handle` make one
    of its id, too.

    Attributes:
        id: The id of its job, which has this one execution; of a flow, the id of the execution.
    """

    def __init__(
        self,
        client: Client,
        id: str,  # noqa: A002 - as the attribute
        read: Callable[[ExecutionView], T_co],
        kept: Callable[[], Kept],
    ) -> None:
        self.id = id
        self._client = client
        self._read = read
        self._kept = kept
        self._execution_id = id if "-" in id else ""
        self._is_deleted = False

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"

    def __reduce__(self) -> Kept:
        """Return what pickle needs to make the handle again.

        Raises:
            PicklingError: No module has its task or flow.
        """
        return self._kept()

    def result(self, timeout: GivenDuration | None = None) -> T_co:
        """Return what the function returned, once the call has ended.

        Args:
            timeout: The longest wait, in seconds or as text such as ``1m``; None for no limit.

        Raises:
            TaskFailed: The call failed after its last retry, or was cancelled.
            CallCancelled: This handle cancelled the call before it was due.
            WrongResult: The function returned what is not of its annotated type.
            WaitTimedOut, NotYetRunning: The call has not ended, or not begun, in this time.
            NotFound: The node has deleted the call with its history.
            InvalidArgument: *timeout* is no duration.
        """
        return self.result_by(Deadline.after(timeout))

    async def aresult(self, timeout: GivenDuration | None = None) -> T_co:  # noqa: ASYNC109 - as result
        """Return the result as `result` does, without blocking the event loop."""
        return await self.aresult_by(Deadline.after(timeout))

    def status(self) -> str:
        """Return ``scheduled`` before the time of the call, then the status of its execution.

        Those are ``queued``, ``running``, ``success``, ``failed`` and ``cancelled``.
        """
        execution = self.execution()
        return execution.status if execution else "cancelled" if self._is_deleted else "scheduled"

    def execution(self) -> ExecutionView | None:
        """Return its execution with its attempts; None before it begins."""
        execution_id = self._look()
        return self._client.execution(execution_id) if execution_id else None

    def cancel(self) -> None:
        """Cancel the call; a call that has ended is not changed, one not yet due is deleted."""
        execution_id = self._look()
        if execution_id:
            self._client.cancel(execution_id)
        elif not self._is_deleted:
            self._client.delete_job(self.id)
            self._is_deleted = True

    def result_by(self, deadline: "Deadline") -> T_co:
        """Return the result as `result` does."""
        ended = self.ended(deadline)
        if ended.status != "success":
            raise TaskFailed(ended.job, ended)
        return self._read(ended)

    async def aresult_by(self, deadline: "Deadline") -> T_co:
        """Return the result as `aresult` does."""
        while True:
            part = deadline.at_most(THREAD_S)
            try:
                return await asyncio.to_thread(self.result_by, part)
            except (WaitTimedOut, NotYetRunning):
                if part is deadline:
                    raise

    def ended(self, deadline: "Deadline") -> ExecutionView:
        """Return its execution, once that has ended, with any status.

        Raises:
            CallCancelled, WaitTimedOut, NotYetRunning, NotFound: As of `result`.
        """
        execution_id = self._started(deadline)
        try:
            return self._client.wait(execution_id, timeout_s=deadline.left_s())
        except WaitTimedOut as error:
            raise WaitTimedOut(error.executions, round(deadline.passed_s(), 1)) from None

    def _started(self, deadline: "Deadline") -> str:
        """Return the id of the execution, once it exists."""
        pause_s = PAUSE_S_MIN
        while not (execution_id := self._look()):
            if self._is_deleted:
                raise CallCancelled(f"the call {self.id} was cancelled before it was due")
            left_s = deadline.left_s()
            if left_s == 0.0:
                raise NotYetRunning(self.id, self.id, round(deadline.passed_s(), 1))
            time.sleep(pause_s if left_s is None else min(pause_s, left_s))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return execution_id

    def _look(self) -> str:
        """Return the id of the execution; empty if it does not exist yet."""
        if not self._execution_id and not self._is_deleted:
            self._execution_id = _execution_of(self._client.job(self.id))
        return self._execution_id


class Group(Generic[T_co]):
    """Several submitted calls; ``len`` is their number, and a loop yields their results in order.

    It can be pickled as its handles can.

    Attributes:
        handles: The handles of their executions, each of up to 1,000 calls, in order.
    """

    def __init__(
        self,
        handles: Sequence[Handle[list[T_co]]],
        names: Sequence[Sequence[str]],
        read: Callable[[TaskView], T_co],
        kept: Callable[[], Kept],
    ) -> None:
        self.handles = tuple(handles)
        self._names = names
        self._read = read
        self._kept = kept

    def __repr__(self) -> str:
        return f"Group({', '.join(each.id for each in self.handles)})"

    def __reduce__(self) -> Kept:
        """Return what pickle needs to make the group again, as of `Handle`."""
        return self._kept()

    def __len__(self) -> int:
        return sum(map(len, self._names))

    def __iter__(self) -> Iterator[T_co]:
        """Yield the results in order, each after the end of the calls of its execution."""
        for handle in self.handles:
            yield from handle.result()

    @overload
    def results(
        self, timeout: GivenDuration | None = None, *, return_exceptions: Literal[False] = False
    ) -> list[T_co]: ...

    @overload
    def results(
        self, timeout: GivenDuration | None = None, *, return_exceptions: bool
    ) -> "list[T_co | TaskFailed | CallCancelled | WrongResult]": ...

    def results(
        self, timeout: GivenDuration | None = None, *, return_exceptions: bool = False
    ) -> "list[T_co] | list[T_co | TaskFailed | CallCancelled | WrongResult]":
        """Return the results of all calls, in the order of the items.

        Args:
            timeout: The longest wait for all of them, as of `Handle.result`.
            return_exceptions: Whether a call without a result has its exception in the list.

        Raises:
            TaskFailed: A call failed; its ``execution`` has the results of the others.
            CallCancelled, WrongResult, WaitTimedOut, NotYetRunning, NotFound, InvalidArgument: As
                of `Handle.result`.
        """
        deadline = Deadline.after(timeout)
        if return_exceptions:
            return [each for part in self._parts(deadline) for each in part]
        return [result for each in self.handles for result in each.result_by(deadline)]

    async def aresults(self, timeout: GivenDuration | None = None) -> list[T_co]:  # noqa: ASYNC109
        """Return the results as `results` does, without blocking the event loop."""
        deadline = Deadline.after(timeout)
        return [result for each in self.handles for result in await each.aresult_by(deadline)]

    def status(self) -> dict[str, int]:
        """Return the number of calls in each status, as of `Handle.status` and of tasks."""
        counts: Counter[str] = Counter()
        for handle, names in zip(self.handles, self._names, strict=True):
            tasks = _tasks_of(handle)
            whole = "" if tasks else handle.status()
            counts.update(tasks[name].status if tasks else whole for name in names)
        return dict(counts)

    def cancel(self) -> None:
        """Cancel the calls that have not ended."""
        for each in self.handles:
            each.cancel()

    def _parts(
        self, deadline: "Deadline"
    ) -> "Iterator[list[T_co | TaskFailed | CallCancelled | WrongResult]]":
        for handle, names in zip(self.handles, self._names, strict=True):
            try:
                ended = handle.ended(deadline)
            except CallCancelled as error:
                yield [error] * len(names)
            else:
                yield [self._outcome(ended, name) for name in names]

    def _outcome(
        self, ended: ExecutionView, name: str
    ) -> "T_co | TaskFailed | CallCancelled | WrongResult":
        task = (ended.tasks or {})[name]
        if task.status != "success":
            return TaskFailed(f"{ended.job} {name}", ended, task)
        try:
            return self._read(task)
        except WrongResult as error:
            return error


@dataclass(frozen=True)
class Deadline:
    """The end of a wait.

    Attributes:
        begin_s: The begin, in seconds of `perf_counter`.
        end_s: The end; None for no limit.
    """

    begin_s: float
    end_s: float | None

    @classmethod
    def after(cls, timeout: GivenDuration | None) -> Self:
        """Return the deadline of a wait of *timeout* that begins now.

        Raises:
            InvalidArgument: *timeout* is no duration.
        """
        now_s = perf_counter()
        if timeout is None:
            return cls(now_s, None)
        try:
            return cls(now_s, now_s + duration_of(timeout) / SECOND)
        except ValueError as error:
            raise InvalidArgument(f"the timeout: {error}") from error

    def left_s(self) -> float | None:
        """Return the seconds until the end, at least 0; None for no limit."""
        return None if self.end_s is None else max(0.0, self.end_s - perf_counter())

    def passed_s(self) -> float:
        """Return the seconds since the begin."""
        return perf_counter() - self.begin_s

    def at_most(self, wait_s: float) -> "Deadline":
        """Return this deadline, or that in *wait_s* if it is earlier."""
        soon_s = perf_counter() + wait_s
        is_sooner = self.end_s is None or soon_s < self.end_s
        return replace(self, end_s=soon_s) if is_sooner else self


def _tasks_of(handle: Handle[Any]) -> dict[str, TaskView] | None:  # Any: of calls of any result
    execution = handle.execution()
    return execution.tasks if execution else None


def _execution_of(job: JobView) -> str:
    if job.execution_id or job.last_execution is None:
        return job.execution_id or ""
    return job.last_execution.execution_id
