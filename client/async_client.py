"""The client for programs that have an event loop."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import aiohttp
from yarl import URL

from rota.client import requests
from rota.client.errors import (
    RequestFailed,
    TooBusy,
    Unreachable,
    WaitTimedOut,
)
from rota.client.requests import (
    DEFAULT_URL,
    POLL_S,
    REPEATS_MAX,
    TIMEOUT_S,
    URL_VARIABLE,
    Answer,
    Body,
    Call,
    When,
    base_url,
)
from rota.client.wire import (
    ITEMS_MAX,
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

CONNECT_S = 5.0
"""A node on the same continent accepts in a tenth of a second, or is gone."""
CONNECTIONS_MAX = 1_000
"""Each wait holds one; a smaller number would keep other calls out while many wait."""
PAGE = 200
"""Items that an iterator asks for at once."""
MAIN_TASK = "main"
"""The only task of a job that has a command and no tasks."""


class AsyncClient:
    """A connection to a node; ``async with`` it, or `close` it.

    Use it in one event loop. Calls may run at the same time. A job is named by its id, by
    ``namespace/name``, or by its name, which then is in *namespace* or in ``default``.

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
        self.url = base_url(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)
        self._timeout_s = timeout_s
        self._repeats_max = repeats_max
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; a call would open new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- jobs --------------------------------------------------------------------------------------

    async def create_job(
        self, job: JobBody | Body, *, idempotency_key: str | None = None
    ) -> JobView:
        """Create *job*, or find that this very job is already there.

        Raises:
            Conflict: Another job has its name.
        """
        return await self._ask(requests.create_job(job, idempotency_key))

    async def put_job(self, job: JobBody | Body) -> JobView:
        """Create *job*, or give the one of its name its next version."""
        return await self._ask(requests.put_job(job))

    async def patch_job(self, job: str, patch: Body, *, namespace: str | None = None) -> JobView:
        """Change the fields of a job that *patch* names (RFC 7396: None takes one away)."""
        return await self._ask(requests.patch_job(job, namespace, patch))

    async def pause_job(
        self, job: str, *, namespace: str | None = None, reason: str = ""
    ) -> JobView:
        """Keep a job from making executions by itself; what runs goes on."""
        return await self._ask(requests.pause_job(job, namespace, reason))

    async def resume_job(self, job: str, *, namespace: str | None = None) -> JobView:
        """Let a paused job fire again, from its next fire time on."""
        return await self._ask(requests.resume_job(job, namespace))

    async def job(self, job: str, *, namespace: str | None = None) -> JobView:
        """Return a job."""
        return await self._ask(requests.job(job, namespace))

    def jobs(
        self, *, namespace: str | None = None, q: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[JobView, None]:
        """Iterate over jobs by name.

        Args:
            namespace: Only those in it.
            q: Only those with this text in their name.
            limit: At most so many.
        """

        async def page(size: int, cursor: str | None) -> "_Page[JobView]":
            found = await self._ask(requests.jobs(namespace, q, size, cursor))
            return _Page(found.items, found.next_cursor)

        return _over_pages(page, limit)

    async def delete_job(self, job: str, *, namespace: str | None = None) -> None:
        """Delete a job; its unfinished executions are cancelled, its history stays."""
        await self._ask(requests.delete_job(job, namespace))

    async def next_fires(
        self,
        job: str,
        *,
        namespace: str | None = None,
        count: int = 10,
        after: When | None = None,
    ) -> list[NextFireView]:
        """Return the next *count* fire times of a job, earliest first."""
        return (await self._ask(requests.next_fires(job, namespace, count, after))).items

    def ledger(
        self,
        job: str,
        *,
        namespace: str | None = None,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[LedgerEntryView, None]:
        """Iterate over what became of the fire times of a job, oldest first.

        Args:
            job: Its id works after it is deleted too.
            namespace: See the class.
            since: Fire times from then on.
            until: Fire times before then.
            limit: At most so many entries.
        """

        async def page(size: int, cursor: str | None) -> "_Page[LedgerEntryView]":
            call = requests.ledger(
                job, namespace=namespace, since=since, until=until, limit=size, cursor=cursor
            )
            found = await self._ask(call)
            return _Page(found.items, found.next_cursor)

        return _over_pages(page, limit)

    # -- executions --------------------------------------------------------------------------------

    async def trigger(
        self,
        job: str,
        *,
        namespace: str | None = None,
        parameters: Json = None,
        idempotency_key: str | None = None,
    ) -> TriggeredView:
        """Make one execution of a job now; *parameters* override the job's."""
        return await self._ask(requests.trigger(job, namespace, parameters, idempotency_key))

    async def trigger_many(self, items: Iterable[TriggerItem | str]) -> list[TriggeredItem]:
        """Make an execution for each of *items*, and return what came of each, in their order.

        Each succeeds or fails alone: look at its ``error``. One refused for lack of room has an
        error with status 429 or 503 and may be asked for again.
        """
        triggered: list[TriggeredItem] = []
        for part in _parts(list(items)):
            triggered += (await self._ask(requests.trigger_many(part))).items
        return triggered

    async def execution(self, execution_id: str) -> ExecutionView:
        """Return an execution with its tasks."""
        return await self._ask(requests.execution(execution_id))

    def executions(
        self,
        *,
        job: str | None = None,
        namespace: str | None = None,
        status: str | None = None,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[ExecutionView, None]:
        """Iterate over executions without their tasks, latest fire time first.

        Args:
            job: Only those of this job.
            namespace: Of *job*; see the class.
            status: Only those ``queued``, ``running``, ``success``, ``failed`` or ``cancelled``.
            since: Fire times from then on.
            until: Fire times before then.
            limit: At most so many.
        """

        async def page(size: int, cursor: str | None) -> "_Page[ExecutionView]":
            call = requests.executions(
                job=job,
                namespace=namespace,
                status=status,
                since=since,
                until=until,
                limit=size,
                cursor=cursor,
            )
            found = await self._ask(call)
            return _Page(found.items, found.next_cursor)

        return _over_pages(page, limit)

    async def wait(self, execution_id: str, *, timeout_s: float | None = None) -> ExecutionView:
        """Return an execution, with its tasks, when it has ended.

        Raises:
            WaitTimedOut: It has not, after *timeout_s*.
        """
        patience = _Patience(timeout_s)
        while True:
            view = await self._ask(requests.wait(execution_id, patience.poll_s))
            if view.finished_at is not None:
                return view
            patience.check([view])

    async def wait_many(
        self, execution_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> list[ExecutionView]:
        """Return executions, without their tasks, in the order given, when all have ended.

        Raises:
            WaitTimedOut: Some have not, after *timeout_s*.
        """
        patience = _Patience(timeout_s)
        done: list[ExecutionView] = []
        for part in _parts(list(execution_ids)):
            while True:
                found = (await self._ask(requests.wait_many(part, patience.poll_s))).items
                if patience.is_over or all(view.finished_at is not None for view in found):
                    break
            done += found
        if any(view.finished_at is None for view in done):
            patience.check(done)
        return done

    async def cancel(self, execution_id: str) -> ExecutionView:
        """Ask for the end of an execution, and return it; one that is over stays as it is."""
        return await self._ask(requests.cancel(execution_id))

    async def output(
        self, execution_id: str, task: str = MAIN_TASK, *, attempt: int | None = None
    ) -> bytes:
        """Return what an attempt, the latest if none is named, has written by now."""
        return await self._ask(requests.output(execution_id, task, attempt, follow=False))

    async def follow_output(
        self, execution_id: str, task: str = MAIN_TASK, *, attempt: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Iterate over what an attempt writes, from its beginning until it has ended."""
        call = requests.output(execution_id, task, attempt, follow=True)
        # What is silent for long may still write: only connecting has a limit.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        try:
            async with self._request(call, timeout) as response:
                if response.status != 200:
                    raise requests.failure_of(Answer(response.status, await response.read()))
                async for part in response.content.iter_any():
                    yield part
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error

    # -- the node ----------------------------------------------------------------------------------

    async def version(self) -> VersionView:
        """Return what runs there."""
        return await self._ask(requests.version())

    async def ready(self) -> bool:
        """Tell whether the node can be reached and takes requests; asked once."""
        try:
            await self._send_once(requests.ready(), self._timeout_s)
        except (TooBusy, Unreachable):
            return False
        return True

    # -- sending -----------------------------------------------------------------------------------

    async def _ask(self, call: Call[T]) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s + call.waits_s
        repeat = 0
        while True:
            try:
                return await self._send_once(call, deadline - loop.time())
            except RequestFailed as failure:
                pause_s = requests.pause_s(call, failure, repeat)
                if (
                    pause_s is None
                    or repeat >= self._repeats_max
                    or loop.time() + pause_s >= deadline
                ):
                    raise
            await asyncio.sleep(pause_s)
            repeat += 1

    async def _send_once(self, call: Call[T], timeout_s: float) -> T:
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        try:
            async with self._request(call, timeout) as response:
                answer = Answer(
                    status=response.status,
                    body=await response.read(),
                    retry_after=response.headers.get("Retry-After", ""),
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error
        return requests.result_of(call, answer)

    def _request(
        self, call: Call[Any], timeout: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX)
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=jar)
            # aiohttp would repeat by itself, and we would take a deletion's second answer, that
            # there is no such job, for the first. It has no public switch for it; a test watches.
            self._session._retry_connection = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # see above
        return self._session.request(
            call.method,
            URL(self.url + call.target, encoded=True),
            data=call.body,
            headers=call.headers,
            timeout=timeout,
            allow_redirects=False,
        )

    def _unreachable(self, error: Exception) -> Unreachable:
        never_arrived = isinstance(
            error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
        )
        return Unreachable(
            f"no answer from {self.url}: {_what_went_wrong(error)}",
            may_have_arrived=not never_arrived,
        )


def _what_went_wrong(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "it took too long"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int(number))) if number > 0:
            return os.strerror(number)
        case aiohttp.ClientConnectorError(os_error=cause):
            # Names that cannot be resolved have negative numbers.
            return str(cause.strerror or cause)
        case _:
            return str(error) or type(error).__name__


class _Page(NamedTuple, Generic[Item]):
    """A page, and where the next one begins."""

    items: Sequence[Item]
    next_cursor: str | None


async def _over_pages(
    page: Callable[[int, str | None], Awaitable[_Page[Item]]], limit: int | None
) -> AsyncGenerator[Item, None]:
    cursor = None
    left = limit
    while left is None or left > 0:
        items, cursor = await page(PAGE if left is None else min(left, PAGE), cursor)
        # A page of the ledger may be longer than asked for: it ends between fire times.
        for item in items[:left]:
            yield item
        if cursor is None:
            return
        if left is not None:
            left -= len(items)


class _Patience:
    """How long a wait goes on, and how long each of its requests may stay open."""

    def __init__(self, timeout_s: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else self._loop.time() + timeout_s

    @property
    def poll_s(self) -> float:
        if self._deadline is None:
            return POLL_S
        return min(max(self._deadline - self._loop.time(), 0.0), POLL_S)

    @property
    def is_over(self) -> bool:
        return self._deadline is not None and self._loop.time() >= self._deadline

    def check(self, unfinished: Sequence[ExecutionView]) -> None:
        if self.is_over:
            raise WaitTimedOut(unfinished, self._timeout_s or 0.0)


def _parts(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[start : start + ITEMS_MAX] for start in range(0, len(items), ITEMS_MAX)]
