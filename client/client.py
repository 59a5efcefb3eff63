"""The client for programs without an event loop: `AsyncClient`, waited for."""

import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from rota.client.async_client import MAIN_TASK, AsyncClient
from rota.client.loop_thread import LoopThread
from rota.client.requests import REPEATS_MAX, TIMEOUT_S, Body, When
from rota.client.wire import (
    ExecutionView,
    JobBody,
    JobView,
    Json,
    LedgerEntryView,
    NextFireView,
    TriggeredItem,
    TriggeredView,
    TriggerItem,
    VersionView,
)

T = TypeVar("T")
Item = TypeVar("Item")


class Client:
    """A connection to a node; ``with`` it, or `close` it.

    Threads may share it. A job is named by its id, by ``namespace/name``, or by its name, which
    then is in *namespace* or in ``default``.

    Args:
        url: Where the node is; ``$ROTA_URL`` or http://127.0.0.1:7400 if left out.
        timeout_s: How long a call may take, its repeats included. A wait may take as much more.
        repeats_max: How often a call that was refused for lack of room, or got no answer, is sent
            again. Only what is safe to send twice is: new jobs and executions carry an idempotency
            key.

    Raises:
        ValueError: *url* is none.
        Invalid, NotAllowed, NotFound, Conflict, TooBusy, NodeFailed, Unreachable: By any call.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        repeats_max: int = REPEATS_MAX,
    ) -> None:
        self._client = AsyncClient(url, timeout_s=timeout_s, repeats_max=repeats_max)
        self.url = self._client.url
        self._thread = LoopThread(self._client.close)
        # Who forgets to close it leaks neither the thread nor its sockets.
        self._finalizer = weakref.finalize(self, self._thread.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; no call is possible after it."""
        self._finalizer()

    # -- jobs --------------------------------------------------------------------------------------

    def create_job(self, job: JobBody | Body, *, idempotency_key: str | None = None) -> JobView:
        """Create *job*, or find that this very job is already there.

        Raises:
            Conflict: Another job has its name.
        """
        return self._run(self._client.create_job(job, idempotency_key=idempotency_key))

    def put_job(self, job: JobBody | Body) -> JobView:
        """Create *job*, or give the one of its name its next version."""
        return self._run(self._client.put_job(job))

    def patch_job(self, job: str, patch: Body, *, namespace: str | None = None) -> JobView:
        """Change the fields of a job that *patch* names (RFC 7396: None takes one away)."""
        return self._run(self._client.patch_job(job, patch, namespace=namespace))

    def pause_job(self, job: str, *, namespace: str | None = None, reason: str = "") -> JobView:
        """Keep a job from making executions by itself; what runs goes on."""
        return self._run(self._client.pause_job(job, namespace=namespace, reason=reason))

    def resume_job(self, job: str, *, namespace: str | None = None) -> JobView:
        """Let a paused job fire again, from its next fire time on."""
        return self._run(self._client.resume_job(job, namespace=namespace))

    def job(self, job: str, *, namespace: str | None = None) -> JobView:
        """Return a job."""
        return self._run(self._client.job(job, namespace=namespace))

    def jobs(
        self, *, namespace: str | None = None, q: str | None = None, limit: int | None = None
    ) -> Iterator[JobView]:
        """Iterate over jobs by name.

        Args:
            namespace: Only those in it.
            q: Only those with this text in their name.
            limit: At most so many.
        """
        return self._iterate(self._client.jobs(namespace=namespace, q=q, limit=limit))

    def delete_job(self, job: str, *, namespace: str | None = None) -> None:
        """Delete a job; its unfinished executions are cancelled, its history stays."""
        self._run(self._client.delete_job(job, namespace=namespace))

    def next_fires(
        self,
        job: str,
        *,
        namespace: str | None = None,
        count: int = 10,
        after: When | None = None,
    ) -> list[NextFireView]:
        """Return the next *count* fire times of a job, earliest first."""
        fires = self._client.next_fires(job, namespace=namespace, count=count, after=after)
        return self._run(fires)

    def ledger(
        self,
        job: str,
        *,
        namespace: str | None = None,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
    ) -> Iterator[LedgerEntryView]:
        """Iterate over what became of the fire times of a job, oldest first.

        Args:
            job: Its id works after it is deleted too.
            namespace: See the class.
            since: Fire times from then on.
            until: Fire times before then.
            limit: At most so many entries.
        """
        entries = self._client.ledger(
            job, namespace=namespace, since=since, until=until, limit=limit
        )
        return self._iterate(entries)

    # -- executions --------------------------------------------------------------------------------

    def trigger(
        self,
        job: str,
        *,
        namespace: str | None = None,
        parameters: Json = None,
        idempotency_key: str | None = None,
    ) -> TriggeredView:
        """Make one execution of a job now; *parameters* override the job's."""
        triggered = self._client.trigger(
            job, namespace=namespace, parameters=parameters, idempotency_key=idempotency_key
        )
        return self._run(triggered)

    def trigger_many(self, items: Iterable[TriggerItem | str]) -> list[TriggeredItem]:
        """Make an execution for each of *items*, and return what came of each, in their order.

        Each succeeds or fails alone: look at its ``error``. One refused for lack of room has an
        error with status 429 or 503 and may be asked for again.
        """
        return self._run(self._client.trigger_many(items))

    def execution(self, execution_id: str) -> ExecutionView:
        """Return an execution with its tasks."""
        return self._run(self._client.execution(execution_id))

    def executions(
        self,
        *,
        job: str | None = None,
        namespace: str | None = None,
        status: str | None = None,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
    ) -> Iterator[ExecutionView]:
        """Iterate over executions without their tasks, latest fire time first.

        Args:
            job: Only those of this job.
            namespace: Of *job*; see the class.
            status: Only those ``queued``, ``running``, ``success``, ``failed`` or ``cancelled``.
            since: Fire times from then on.
            until: Fire times before then.
            limit: At most so many.
        """
        found = self._client.executions(
            job=job, namespace=namespace, status=status, since=since, until=until, limit=limit
        )
        return self._iterate(found)

    def wait(self, execution_id: str, *, timeout_s: float | None = None) -> ExecutionView:
        """Return an execution, with its tasks, when it has ended.

        Raises:
            WaitTimedOut: It has not, after *timeout_s*.
        """
        return self._run(self._client.wait(execution_id, timeout_s=timeout_s))

    def wait_many(
        self, execution_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> list[ExecutionView]:
        """Return executions, without their tasks, in the order given, when all have ended.

        Raises:
            WaitTimedOut: Some have not, after *timeout_s*.
        """
        return self._run(self._client.wait_many(execution_ids, timeout_s=timeout_s))

    def cancel(self, execution_id: str) -> ExecutionView:
        """Ask for the end of an execution, and return it; one that is over stays as it is."""
        return self._run(self._client.cancel(execution_id))

    def output(
        self, execution_id: str, task: str = MAIN_TASK, *, attempt: int | None = None
    ) -> bytes:
        """Return what an attempt, the latest if none is named, has written by now."""
        return self._run(self._client.output(execution_id, task, attempt=attempt))

    def follow_output(
        self, execution_id: str, task: str = MAIN_TASK, *, attempt: int | None = None
    ) -> Iterator[bytes]:
        """Iterate over what an attempt writes, from its beginning until it has ended."""
        return self._iterate(self._client.follow_output(execution_id, task, attempt=attempt))

    # -- the node ----------------------------------------------------------------------------------

    def version(self) -> VersionView:
        """Return what runs there."""
        return self._run(self._client.version())

    def ready(self) -> bool:
        """Tell whether the node can be reached and takes requests; asked once."""
        return self._run(self._client.ready())

    # -- waiting for the loop ----------------------------------------------------------------------

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:  # Any: what it yields and is sent
        return self._thread.run(coroutine)

    def _iterate(self, items: AsyncGenerator[Item, None]) -> Iterator[Item]:
        async def take() -> Item | None:
            return await anext(items, None)

        async def leave() -> None:
            await items.aclose()

        try:
            while (item := self._run(take())) is not None:
                yield item
        finally:
            self._run(leave())
