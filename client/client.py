"""The client for programs without an event loop: `AsyncClient`, waited for."""

import asyncio
import copy
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from rota.client.async_client import AsyncClient
from rota.client.loop_thread import LoopStopped, LoopThread
from rota.client.requests import MAIN_TASK, Body, Labels, When
from rota.client.tries import REPEATS_MAX, TIMEOUT_S
from rota.client.wire import (
    ClusterView,
    CreatedItem,
    EventView,
    ExecutionView,
    JobBody,
    JobView,
    Json,
    LedgerEntryView,
    NextFireView,
    NodeView,
    RecoveryView,
    RepairView,
    ShardLossView,
    TriggeredItem,
    TriggeredView,
    TriggerItem,
    VersionView,
)

T = TypeVar("T")
Item = TypeVar("Item")


class Client:
    """A connection to rota; ``with`` it, or `close` it. Threads may share it.

    A job is named by its id, by ``namespace/name``, or by its name, which then is in *namespace* or
    in ``default``. What is iterated over is asked for page by page.

    Any node takes any call. A client stays with one that works, or asks the one that decides for
    the job in question once it knows which that is; it goes on to the next when one cannot be
    connected to, breaks the connection, is silent, or cannot take the call now. It sends again only
    what is safe to send twice: whatever writes a job or makes an execution carries an idempotency
    key, minted if none is given; what cannot be repeated is sent again only if it certainly has not
    arrived. Tries of the same node pause in between, at least as long as it asks for.

    With the same *idempotency_key*, within a day, the same call does nothing more and gives what it
    gave at first.

    With *dry_run* a call is checked, and answered, as it would be; nothing is done.

    Args:
        url: Where the nodes are: one address, several with commas between them, or several;
            ``$ROTA_URL`` or http://127.0.0.1:7400 if left out. Each client asks them in an order
            of its own.
        timeout_s: How long a call may take, with all its tries at all nodes. A wait may take as
            much more.
        repeats_max: How often each node is tried again.

    Attributes:
        urls: The addresses, as given.

    Raises:
        ValueError: *url* has one that is none.
        Invalid, NotAllowed, NotFound, Conflict, TooBusy, NodeFailed, Unreachable: By any call.

    >>> with Client() as rota:
    ...     job = rota.create_job({"name": "hello", "command": "echo hello"})
    ...     made = rota.trigger("hello")
    ...     rota.wait(made.execution_id).status
    'success'
    """

    def __init__(
        self,
        url: str | Iterable[str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        repeats_max: int = REPEATS_MAX,
    ) -> None:
        self._client = AsyncClient(url, timeout_s=timeout_s, repeats_max=repeats_max)
        self.urls = self._client.urls
        self._origin: Client | None = None
        self._thread = LoopThread(self._client.close)
        # Who forgets to close it leaks neither the thread nor its sockets.
        self._finalizer = weakref.finalize(self, self._thread.stop)

    @property
    def url(self) -> str:
        """Where the node is that answered last, or will be asked first."""
        return self._client.url

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
        """Close the connections; streams end, no call is possible after it."""
        self._finalizer()

    def within(self, timeout_s: float) -> Self:
        """Return this client, on the same connections, with another timeout for its calls.

        Closing one of them closes both.
        """
        near = copy.copy(self)
        near._client = self._client.within(timeout_s)  # noqa: SLF001 - it is of this class
        # The first one stops the thread when it is forgotten, which it is not before the other.
        near._origin = self  # noqa: SLF001
        return near

    # -- jobs --------------------------------------------------------------------------------------

    def create_job(
        self,
        job: JobBody | Body,
        *,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Create *job*, or find that this very job is already there.

        Raises:
            Conflict: Another job has its name.
        """
        return self._run(
            self._client.create_job(
                job, idempotency_key=idempotency_key, traceparent=traceparent, dry_run=dry_run
            )
        )

    def create_many(
        self,
        jobs: Iterable[JobBody | Body],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> list[CreatedItem]:
        """Create each of *jobs*, and return what came of each, in their order.

        Each succeeds or fails alone: look at its ``error``, whose pointers begin with its place in
        the request, such as ``/items/3``. One request takes at most 1,000 jobs and 2 MiB; the next
        is sent when the one before it is answered. If one of them fails as a whole, so does this;
        the same call again finds the jobs that are already there.
        """
        return self._run(
            self._client.create_many(jobs, idempotency_key=idempotency_key, dry_run=dry_run)
        )

    def put_job(
        self,
        job: JobBody | Body,
        *,
        if_version: int | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Create *job*, or give the one of its name its next version.

        Raises:
            Conflict: There is none of version *if_version*.
        """
        return self._run(
            self._client.put_job(
                job, if_version=if_version, idempotency_key=idempotency_key, dry_run=dry_run
            )
        )

    def patch_job(
        self,
        job: str,
        patch: Body,
        *,
        namespace: str | None = None,
        if_version: int | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Change the fields of a job that *patch* names (RFC 7396: None takes one away).

        Raises:
            Conflict: It is not of version *if_version*.
        """
        return self._run(
            self._client.patch_job(
                job,
                patch,
                namespace=namespace,
                if_version=if_version,
                idempotency_key=idempotency_key,
                dry_run=dry_run,
            )
        )

    def pause_job(
        self,
        job: str,
        *,
        namespace: str | None = None,
        reason: str = "",
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Keep a job from making executions by itself; what runs goes on."""
        return self._run(
            self._client.pause_job(
                job,
                namespace=namespace,
                reason=reason,
                idempotency_key=idempotency_key,
                dry_run=dry_run,
            )
        )

    def resume_job(
        self,
        job: str,
        *,
        namespace: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Let a paused job fire again, from its next fire time on."""
        return self._run(
            self._client.resume_job(
                job, namespace=namespace, idempotency_key=idempotency_key, dry_run=dry_run
            )
        )

    def job(self, job: str, *, namespace: str | None = None) -> JobView:
        """Return a job."""
        return self._run(self._client.job(job, namespace=namespace))

    def jobs(
        self,
        *,
        namespace: str | None = None,
        q: str | None = None,
        status: str | None = None,
        labels: Labels | None = None,
        limit: int | None = None,
    ) -> Generator[JobView, None, None]:
        """Iterate over jobs by name.

        Args:
            namespace: Only those in it.
            q: Only those with this text in their name.
            status: Only those ``scheduled``, ``running``, ``paused``, ``finished`` or ``broken``.
            labels: Only those with all of these; None as a value stands for any.
            limit: At most so many.
        """
        return self._iterate(
            self._client.jobs(namespace=namespace, q=q, status=status, labels=labels, limit=limit)
        )

    def delete_job(
        self,
        job: str,
        *,
        namespace: str | None = None,
        if_version: int | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete a job; its unfinished executions are cancelled, its history stays.

        Raises:
            Conflict: It is not of version *if_version*.
        """
        self._run(
            self._client.delete_job(
                job,
                namespace=namespace,
                if_version=if_version,
                idempotency_key=idempotency_key,
                dry_run=dry_run,
            )
        )

    def next_fires(
        self, job: str, *, namespace: str | None = None, count: int = 10, after: When | None = None
    ) -> list[NextFireView]:
        """Return the next *count* fire times of a job, earliest first."""
        return self._run(
            self._client.next_fires(job, namespace=namespace, count=count, after=after)
        )

    def ledger(
        self,
        job: str,
        *,
        namespace: str | None = None,
        since: When | None = None,
        until: When | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Generator[LedgerEntryView, None, None]:
        """Iterate over what became of the fire times of a job, oldest first.

        Args:
            job: Its id works after it is deleted too.
            namespace: See the class.
            since: Fire times from then on.
            until: Fire times before then.
            newest_first: The other way round.
            limit: At most so many entries.
        """
        return self._iterate(
            self._client.ledger(
                job,
                namespace=namespace,
                since=since,
                until=until,
                newest_first=newest_first,
                limit=limit,
            )
        )

    # -- executions --------------------------------------------------------------------------------

    def trigger(
        self,
        job: str,
        *,
        namespace: str | None = None,
        parameters: Json = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        dry_run: bool = False,
    ) -> TriggeredView:
        """Make one execution of a job now.

        Args:
            job: See the class.
            namespace: See the class.
            parameters: Override the job's.
            idempotency_key: The same one again gives the same execution.
            traceparent: The trace (W3C) that it is part of; its attempts get it too.
            dry_run: Only tell what would come of it.
        """
        return self._run(
            self._client.trigger(
                job,
                namespace=namespace,
                parameters=parameters,
                idempotency_key=idempotency_key,
                traceparent=traceparent,
                dry_run=dry_run,
            )
        )

    def trigger_many(
        self, items: Iterable[TriggerItem | str], *, dry_run: bool = False
    ) -> list[TriggeredItem]:
        """Make an execution for each of *items*, and return what came of each, in their order.

        Each succeeds or fails alone: look at its ``error``. One refused for lack of room has an
        error with status 429 or 503 and may be asked for again. One request takes at most 1,000;
        the next is sent when the one before it is answered. If one of them fails as a whole, so
        does this; items with an idempotency key of their own may be sent again.
        """
        return self._run(self._client.trigger_many(items, dry_run=dry_run))

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
    ) -> Generator[ExecutionView, None, None]:
        """Iterate over executions without their tasks, latest fire time first.

        Args:
            job: Only those of this job.
            namespace: Of *job*; see the class. Without *job*: only those of its jobs.
            status: Only those ``queued``, ``running``, ``success``, ``failed`` or ``cancelled``.
            since: Fire times from then on.
            until: Fire times before then.
            limit: At most so many.
        """
        return self._iterate(
            self._client.executions(
                job=job, namespace=namespace, status=status, since=since, until=until, limit=limit
            )
        )

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

    def cancel(self, execution_id: str, *, dry_run: bool = False) -> ExecutionView:
        """Ask for the end of an execution, and return it; one that is over stays as it is."""
        return self._run(self._client.cancel(execution_id, dry_run=dry_run))

    @overload
    def output(
        self,
        execution_id: str,
        task: str = ...,
        *,
        attempt: int | None = ...,
        follow: Literal[False] = ...,
    ) -> bytes: ...

    @overload
    def output(
        self,
        execution_id: str,
        task: str = ...,
        *,
        attempt: int | None = ...,
        follow: Literal[True],
    ) -> Generator[bytes, None, None]: ...

    def output(
        self,
        execution_id: str,
        task: str = MAIN_TASK,
        *,
        attempt: int | None = None,
        follow: bool = False,
    ) -> bytes | Generator[bytes, None, None]:
        """Return what an attempt has written by now, or iterate over it until it has ended.

        A connection lost meanwhile is made again, and what was written since follows, once.

        Args:
            execution_id: Of the execution.
            task: Its name.
            attempt: Its number; the latest if left out.
            follow: Go on while it writes, part by part as it comes.

        Raises:
            OutputBroken: After a lost connection, the output is no longer kept from its beginning.
        """
        if follow:
            return self._iterate(
                self._client.output(execution_id, task, attempt=attempt, follow=True)
            )
        return self._run(self._client.output(execution_id, task, attempt=attempt))

    # -- the node ----------------------------------------------------------------------------------

    def events(
        self,
        *,
        namespace: str | None = None,
        job: str | None = None,
        execution_id: str | None = None,
        types: Iterable[str] = (),
        status: str | None = None,
        after: str | None = None,
    ) -> Generator[EventView, None, None]:
        """Iterate over what happens, as it happens, until the iterator or the client is closed.

        The first event is always ``stream.opened``: whatever happens from then on follows. A lost
        connection is made again, to any node, and the events since follow. Where some may be
        missing, for the node began a new life, is another one, or no longer has them, there is a
        ``stream.gap``: look at the jobs and executions themselves. Going on is given up after as
        long as a call may take; the last event's ``id``, as *after*, goes on later.

        Args:
            namespace: Only of jobs in it, and their executions.
            job: Only of this job; its id or ``namespace/name``.
            execution_id: Only of this execution.
            types: Only of these, such as ``execution.failed``, or ``execution`` for all of them.
            status: Only of executions and tasks that enter this one.
            after: Id of an event; go on with the next one.

        Raises:
            Unreachable, TooBusy: No node could be reached in time, at first or again.
        """
        return self._iterate(
            self._client.events(
                namespace=namespace,
                job=job,
                execution_id=execution_id,
                types=types,
                status=status,
                after=after,
            )
        )

    def version(self) -> VersionView:
        """Return what runs there."""
        return self._run(self._client.version())

    def ready(self) -> bool:
        """Return True if a node can be reached and takes requests; each node is asked once."""
        return self._run(self._client.ready())

    # -- the cluster -------------------------------------------------------------------------------

    def cluster(self) -> ClusterView:
        """Return the nodes, the shards and who holds them, and what is to move."""
        return self._run(self._client.cluster())

    def drain_node(self, node_id: str, *, dry_run: bool = False) -> NodeView:
        """Have a node hold nothing; `cluster` tells how far it is.

        Raises:
            Conflict: No other node could hold what it holds.
        """
        return self._run(self._client.drain_node(node_id, dry_run=dry_run))

    def undrain_node(self, node_id: str, *, dry_run: bool = False) -> NodeView:
        """Have a node hold its part again."""
        return self._run(self._client.undrain_node(node_id, dry_run=dry_run))

    def forget_node(self, node_id: str, *, dry_run: bool = False) -> None:
        """Forget a node that will not come back.

        Raises:
            Conflict: It lives, or copies on it count.
        """
        self._run(self._client.forget_node(node_id, dry_run=dry_run))

    def repair_shard(self, shard: int, *, dry_run: bool = False) -> RepairView:
        """Free a shard that a copy's promise of too high an epoch keeps closed.

        Raises:
            Conflict: Nothing is wrong with it, or etcd knows less of it than a node does.
        """
        return self._run(self._client.repair_shard(shard, dry_run=dry_run))

    def recover_coordination(
        self, *, without: Iterable[str] = (), accept_loss: bool = False, dry_run: bool = False
    ) -> RecoveryView:
        """Give etcd back the configurations that it lost, as nodes have seen them.

        Args:
            without: Nodes that are lost for good, and that are not waited for.
            accept_loss: Recover shards, too, whose last writes only missing nodes may have.
            dry_run: Only say what would be done.

        Raises:
            Conflict: etcd lost nothing, or a node of *without* lives.
            TooBusy: A node that may know more did not answer, or the outcome is not known.
        """
        return self._run(
            self._client.recover_coordination(
                without=without, accept_loss=accept_loss, dry_run=dry_run
            )
        )

    def recover_shard(
        self,
        shard: int,
        source: str,
        *,
        without: Iterable[str] = (),
        accept_loss: bool = False,
        dry_run: bool = False,
    ) -> ShardLossView:
        """Open a shard from a copy that does not count, where none that counts is left.

        What was acknowledged after the last entry of that copy is lost.

        Args:
            shard: Its number.
            source: The node with the copy.
            without: Nodes that are lost for good, and that are not waited for.
            accept_loss: Has to be true, except for a dry run.
            dry_run: Only say what would be done.

        Raises:
            Conflict: A copy that counts is there, the node has no whole copy, or the loss is not
                accepted.
            TooBusy: A node that may have a copy did not answer, or the outcome is not known.
        """
        return self._run(
            self._client.recover_shard(
                shard, source, without=without, accept_loss=accept_loss, dry_run=dry_run
            )
        )

    # -- waiting for the loop ----------------------------------------------------------------------

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:  # Any: what it yields and is sent
        return self._thread.run(coroutine)

    def _iterate(self, items: AsyncGenerator[Item, None]) -> Generator[Item, None, None]:
        lock = asyncio.Lock()

        async def take() -> Item | None:
            async with lock:
                return await anext(items, None)

        async def leave() -> None:
            # After an interrupt, what took the last item may still be on its way out.
            async with lock:
                await items.aclose()

        has_begun = False
        try:
            while (item := self._run(take())) is not None:
                has_begun = True
                yield item
        except LoopStopped:
            if not has_begun:
                raise
        finally:
            with suppress(LoopStopped):
                self._run(leave())
