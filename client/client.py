# Generated from client/async_client.py by `make generate`; change that file instead.
"""The client for programs without an event loop."""

import copy
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeVar, overload

from rota.client import requests
from rota.client.blocking_connection import BlockingConnection, follow_events, follow_output
from rota.client.errors import TooBusy, Unreachable
from rota.client.paging import Page, Pages, Patience
from rota.client.requests import MAIN_TASK, Body, EventFilter, Labels, When
from rota.client.streams.events import EventReader
from rota.client.streams.output import FollowedOutput, latest_attempt
from rota.client.transport.call import Call
from rota.client.transport.endpoints import urls_of
from rota.client.transport.tries import REPEATS_MAX, TIMEOUT_S
from rota.wire.documents import (
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
    """A connection to rota; use it in ``with``, or `close` it.

    Threads may share it.

    A job is named by its id, by ``namespace/name``, or by its name, which then is in *namespace* or
    in ``default``. Lists are requested page by page while they are iterated over.

    Any node takes any call. A client stays with a node that works, or asks the primary of the job
    in question once it knows which node that is. It goes on to the next node when one refuses the
    connection, breaks it, is silent, or cannot take the call now. It sends again only what is safe
    to send twice: a call that writes a job or makes an execution carries an idempotency key, minted
    if none is given; a call that cannot be repeated is sent again only if it certainly has not
    arrived. Between two tries at the same node is a pause, at least as long as the node asks for.

    With the same *idempotency_key*, within a day, the same call does nothing more and returns what
    it returned at first.

    With *dry_run* a call is checked and answered as usual, and nothing is done.

    Args:
        url: Where the nodes are: one address, several with commas between them, or several;
            ``$ROTA_URL`` or http://127.0.0.1:7400 if left out. Each client asks them in a random
            order of its own.
        timeout_s: How long a call may take, with all its tries at all nodes. A wait may take as
            much more.
        repeats_max: How often each node is tried again.

    Attributes:
        urls: The addresses, as given.

    Raises:
        ValueError: *url* holds something that is not the URL of a node.
        Invalid, NotAllowed, NotFound, Conflict, TooBusy, NodeFailed, Unreachable: By any call.

    >>> def statuses() -> list[str]:
    ...     with Client() as rota:
    ...         rota.create_many(
    ...             [{"name": "fetch", "command": "true"}, {"name": "load", "command": "false"}]
    ...         )
    ...         made = rota.trigger_many(["fetch", "load"])
    ...         ended = rota.wait_many(each.execution_id for each in made)
    ...         return [execution.status for execution in ended]
    >>> statuses()
    ['success', 'failed']
    """

    def __init__(
        self,
        url: str | Iterable[str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        repeats_max: int = REPEATS_MAX,
    ) -> None:
        self.urls = urls_of(url)
        self._timeout_s = timeout_s
        self._connection = BlockingConnection(self.urls, repeats_max)

    @property
    def url(self) -> str:
        """The address of the node that answered last, or is asked first."""
        return self._connection.endpoints.first

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
        """Close the connections and end the streams; make no calls after it."""
        self._connection.close()

    def within(self, timeout_s: float) -> Self:
        """Return this client, on the same connections, with another timeout for its calls.

        Closing one of them closes both.
        """
        near = copy.copy(self)
        near._timeout_s = timeout_s  # noqa: SLF001 - it is of this class
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
        call = requests.create_job(
            job, key=idempotency_key, traceparent=traceparent, dry_run=dry_run
        )
        return self._ask(call)

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
        created: list[CreatedItem] = []
        for call in requests.create_many(jobs, key=idempotency_key, dry_run=dry_run):
            answer = self._ask(call)
            created += answer.items
        return created

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
        call = requests.put_job(job, if_version=if_version, key=idempotency_key, dry_run=dry_run)
        return self._ask(call)

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
        call = requests.patch_job(
            job, namespace, patch, if_version=if_version, key=idempotency_key, dry_run=dry_run
        )
        return self._ask(call)

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
        call = requests.pause_job(job, namespace, reason, key=idempotency_key, dry_run=dry_run)
        return self._ask(call)

    def resume_job(
        self,
        job: str,
        *,
        namespace: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Let a paused job fire again, from its next fire time on."""
        call = requests.resume_job(job, namespace, key=idempotency_key, dry_run=dry_run)
        return self._ask(call)

    def job(self, job: str, *, namespace: str | None = None) -> JobView:
        """Return a job."""
        return self._ask(requests.job(job, namespace))

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
        page = partial(requests.jobs, namespace=namespace, q=q, status=status, labels=labels or {})
        return self._over_pages(page, limit)

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
        call = requests.delete_job(
            job, namespace, if_version=if_version, key=idempotency_key, dry_run=dry_run
        )
        self._ask(call)

    def next_fires(
        self,
        job: str,
        *,
        namespace: str | None = None,
        count: int = 10,
        after: When | None = None,
    ) -> list[NextFireView]:
        """Return the next *count* fire times of a job, earliest first."""
        answer = self._ask(requests.next_fires(job, namespace, count, after))
        return answer.items

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
        page = partial(
            requests.ledger,
            job,
            namespace=namespace,
            since=since,
            until=until,
            newest_first=newest_first,
        )
        return self._over_pages(page, limit)

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
        call = requests.trigger(
            job,
            namespace=namespace,
            parameters=parameters,
            key=idempotency_key,
            traceparent=traceparent,
            dry_run=dry_run,
        )
        return self._ask(call)

    def trigger_many(
        self, items: Iterable[TriggerItem | str], *, dry_run: bool = False
    ) -> list[TriggeredItem]:
        """Make an execution for each of *items*, and return what came of each, in their order.

        Each succeeds or fails alone: look at its ``error``. One refused for lack of room has an
        error with status 429 or 503 and may be asked for again. One request takes at most 1,000;
        the next is sent when the one before it is answered. If one of them fails as a whole, so
        does this; items with an idempotency key of their own may be sent again.
        """
        triggered: list[TriggeredItem] = []
        for call in requests.trigger_many(items, dry_run=dry_run):
            answer = self._ask(call)
            triggered += answer.items
        return triggered

    def execution(self, execution_id: str) -> ExecutionView:
        """Return an execution with its tasks."""
        return self._ask(requests.execution(execution_id))

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
        page = partial(
            requests.executions,
            job=job,
            namespace=namespace,
            status=status,
            since=since,
            until=until,
        )
        return self._over_pages(page, limit)

    def wait(self, execution_id: str, *, timeout_s: float | None = None) -> ExecutionView:
        """Return an execution, with its tasks, when it has ended.

        Raises:
            WaitTimedOut: It has not, after *timeout_s*.
        """
        patience = Patience(timeout_s)
        while True:
            view = self._ask(requests.wait(execution_id, patience.poll_s))
            if view.finished_at is not None:
                return view
            patience.check([view])

    def wait_many(
        self, execution_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> list[ExecutionView]:
        """Return executions, without their tasks, in the order given, when all have ended.

        Raises:
            WaitTimedOut: Some have not, after *timeout_s*.
        """
        patience = Patience(timeout_s)
        done: list[ExecutionView] = []
        for part in requests.parts(list(execution_ids)):
            while True:
                answer = self._ask(requests.wait_many(part, patience.poll_s))
                if patience.is_over or all(view.finished_at is not None for view in answer.items):
                    break
            done += answer.items
        if any(view.finished_at is None for view in done):
            patience.check(done)
        return done

    def cancel(self, execution_id: str, *, dry_run: bool = False) -> ExecutionView:
        """Ask for the end of an execution, and return it; one that is over stays as it is."""
        return self._ask(requests.cancel(execution_id, dry_run=dry_run))

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
            return self._follow_output(execution_id, task, attempt)
        return self._ask(requests.output(execution_id, task, attempt, follow=False))

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
        wanted = EventFilter(
            namespace=namespace,
            job=job,
            execution_id=execution_id,
            types=[types] if isinstance(types, str) else list(types),
            status=status,
        )
        return follow_events(self._connection, EventReader(wanted, after or ""), self._timeout_s)

    def version(self) -> VersionView:
        """Return what runs there."""
        return self._ask(requests.version())

    def ready(self) -> bool:
        """Return True if a node can be reached and takes requests; each node is asked once."""
        try:
            self._connection.ask(requests.ready(), self._timeout_s, repeats_max=0)
        except (TooBusy, Unreachable):
            return False
        return True

    # -- the cluster -------------------------------------------------------------------------------

    def cluster(self) -> ClusterView:
        """Return the nodes, the shards and who holds them, and what is to move."""
        return self._ask(requests.cluster())

    def drain_node(self, node_id: str, *, dry_run: bool = False) -> NodeView:
        """Have a node hold nothing; `cluster` tells how far it is.

        Raises:
            Conflict: No other node could hold what it holds.
        """
        return self._ask(requests.drain_node(node_id, dry_run=dry_run))

    def undrain_node(self, node_id: str, *, dry_run: bool = False) -> NodeView:
        """Have a node hold its part again."""
        return self._ask(requests.undrain_node(node_id, dry_run=dry_run))

    def forget_node(self, node_id: str, *, dry_run: bool = False) -> None:
        """Forget a node that will not come back.

        Raises:
            Conflict: It lives, or copies on it count.
        """
        self._ask(requests.forget_node(node_id, dry_run=dry_run))

    def repair_shard(self, shard: int, *, dry_run: bool = False) -> RepairView:
        """Free a shard that a copy's promise of too high an epoch keeps closed.

        Raises:
            Conflict: Nothing is wrong with it, or etcd knows less of it than a node does.
        """
        return self._ask(requests.repair_shard(shard, dry_run=dry_run))

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
        return self._ask(
            requests.recover_coordination(without=without, accept_loss=accept_loss, dry_run=dry_run)
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
        return self._ask(
            requests.recover_shard(
                shard, source, without=without, accept_loss=accept_loss, dry_run=dry_run
            )
        )

    # -- sending -----------------------------------------------------------------------------------

    def _ask(self, call: Call[T]) -> T:
        return self._connection.ask(call, self._timeout_s)

    def _over_pages(
        self, page: Callable[..., Call[Page[Item]]], limit: int | None
    ) -> Generator[Item, None, None]:
        pages = Pages(limit)
        while not pages.are_over:
            found = self._ask(page(limit=pages.size, cursor=pages.cursor))
            yield from pages.items_of(found)

    def _follow_output(
        self, execution_id: str, task: str, attempt: int | None
    ) -> Generator[bytes, None, None]:
        if attempt is None:
            # Named, so that a connection made again leads to the same attempt.
            attempt = latest_attempt(self.execution(execution_id), task)
        call = requests.output(execution_id, task, attempt, follow=True)
        with closing(
            follow_output(self._connection, FollowedOutput(call), self._timeout_s)
        ) as parts:
            yield from parts
