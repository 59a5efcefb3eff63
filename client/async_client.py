"""The client for programs with an event loop.

`make generate` writes the client for programs without an event loop from this file.
"""

import copy
import os
from base64 import b64encode
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from secrets import token_hex
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from rota.client import requests
from rota.client.errors import TooBusy, Unreachable
from rota.client.paging import Page, Pages, Patience
from rota.client.requests import (
    MAIN_TASK,
    Body,
    EventFilter,
    Labels,
    When,
    call,
    instant,
    label_texts,
)
from rota.client.streams.events import EventReader
from rota.client.streams.output import FollowedOutput, latest_attempt
from rota.client.streams.streams import follow_events, follow_output
from rota.client.transport.call import Call, Query, T
from rota.client.transport.connection import Connection
from rota.client.transport.credentials import Credentials
from rota.client.transport.endpoints import urls_of
from rota.client.transport.tries import REPEATS_MAX, TIMEOUT_S
from rota.client.transport.trust import Trust
from rota.wire import operations
from rota.wire.documents import (
    AnswerBody,
    BackfillBody,
    BackfillView,
    CalendarPreview,
    ChainView,
    ChangeView,
    CloudEventBody,
    ClusterView,
    CreatedItem,
    CreateKeyBody,
    DocumentChangeView,
    DocumentView,
    EventView,
    ExecutionView,
    ExplanationView,
    HookTestView,
    JobBody,
    JobView,
    Json,
    KeyRingView,
    LedgerEntryView,
    NewTokenView,
    NextFireView,
    NodeView,
    PauseBody,
    PostEventBody,
    QuotaView,
    ReceivedEventView,
    RecoveryView,
    RepairView,
    RerunBody,
    RewrapView,
    RotateKeyBody,
    SecretBody,
    SecretView,
    ShardLossView,
    StateBody,
    StateView,
    Timespan,
    TriggerBody,
    TriggeredItem,
    TriggeredView,
    TriggerItem,
    VersionView,
    WhoamiView,
)
from rota.wire.operations import Operation

Item = TypeVar("Item")


class AsyncClient:
    """A connection to rota; use it in ``async with``, or `close` it.

    Use it in one event loop. Calls may run at the same time.

    A job is named by its id, by ``namespace/name``, or by its name, which then is in *namespace* or
    in ``default``. Lists are requested page by page while they are iterated over.

    Any node accepts any call. A client stays with a working node; calls about one job go to the
    job's primary, once an answer has named that node. The client tries the next node if a node
    refuses the connection, closes it, is silent, or cannot accept the call now. It repeats only
    calls that are safe to repeat: a call that writes a job or starts an execution has an
    idempotency key, generated if none is given; any other write is repeated only if it certainly
    has not arrived. Between two tries at the same node, the client pauses for at least as long as
    the node requests.

    Within a day, the same call with the same *idempotency_key* changes nothing more and returns the
    first answer.

    With *dry_run* a call is checked and answered as usual, but changes nothing.

    Args:
        url: The addresses of nodes: one, several separated by commas, or a list;
            ``$ROTA_URL`` or http://127.0.0.1:7400 by default. Each client uses them in a random
            order of its own.
        token: The token; None for that of *token_file*.
        token_file: A file with the token; ``$ROTA_TOKEN_FILE`` by default. Without either, the
            tokens of temporary nodes of this user are sent to those.
        ca: A file with the authorities whose certificates of nodes are accepted, in PEM;
            ``$ROTA_CA`` or those of the system by default.
        cert: A file with a certificate of the client, in PEM; ``$ROTA_CERT`` by default.
        key: The key of *cert*; ``$ROTA_KEY``, or the key in the file of *cert*, by default.
        timeout_s: The time limit of a call in seconds, including all tries at all nodes. A call
            that waits may take this time in addition to the wait.
        repeats_max: The most retries at each node. A node that refuses connections, as while it
            restarts, is tried every 50 ms, for the time that these retries would take (3 s).

    Attributes:
        urls: The addresses, as given.

    Raises:
        ValueError: *url* contains something that is not the URL of a node, or both *token* and
            *token_file* are given.
        InvalidToken: The token is malformed, or its file cannot be read.
        InvalidTls: One of the files *ca*, *cert* and *key* cannot be used.
        Invalid, NotAuthenticated, NotAllowed, NotFound, Conflict, TooBusy, NodeFailed, Unreachable:
            Any call may raise these errors.

    >>> import asyncio
    >>> async def statuses() -> list[str]:
    ...     async with AsyncClient() as rota:
    ...         await rota.create_many(
    ...             [{"name": "fetch", "command": "true"}, {"name": "load", "command": "false"}]
    ...         )
    ...         made = await rota.trigger_many(["fetch", "load"])
    ...         ended = await rota.wait_many(each.execution_id for each in made)
    ...         return [execution.status for execution in ended]
    >>> asyncio.run(statuses())
    ['success', 'failed']
    """

    def __init__(
        self,
        url: str | Iterable[str] | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        timeout_s: float = TIMEOUT_S,
        repeats_max: int = REPEATS_MAX,
    ) -> None:
        self.urls = urls_of(url)
        self._timeout_s = timeout_s
        credentials = Credentials(self.urls, token, token_file)
        trust = Trust(self.urls, ca, cert, key)
        self._connection = Connection(self.urls, repeats_max, credentials, trust)

    @property
    def url(self) -> str:
        """The address of the node that answered last; before any answer, that of the first node."""
        return self._connection.endpoints.first

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
        """Close the connections and end the streams."""
        await self._connection.close()

    def within(self, timeout_s: float) -> Self:
        """Return a client with the same connections, but with another time limit for its calls.

        Closing one of the two clients closes both.
        """
        near = copy.copy(self)
        near._timeout_s = timeout_s  # noqa: SLF001 - it is of this class
        return near

    # -- jobs --------------------------------------------------------------------------------------

    async def create_job(
        self,
        job: JobBody | Body,
        *,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Create *job*; an identical existing job is returned.

        Raises:
            Conflict: A different job has the same name.
        """
        headers = {"traceparent": traceparent or ""}
        return await self._ask(
            call(
                operations.CREATE_JOB,
                body=job,
                headers=headers,
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def create_many(
        self,
        jobs: Iterable[JobBody | Body],
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> list[CreatedItem]:
        """Create each of *jobs*, and return the result of each, in their order.

        Each job succeeds or fails independently; the ``error`` of its result has pointers that
        begin with the index of the job in the request, such as ``/items/3``. One request has at
        most 1,000 jobs and 2 MiB; the next one is sent after the answer to the previous one. If a
        request fails as a whole, this call fails; repeating the call returns the jobs that were
        already created.
        """
        created: list[CreatedItem] = []
        for part in requests.create_many(jobs, key=idempotency_key, dry_run=dry_run):
            created += (await self._ask(part)).items
        return created

    async def put_many(
        self, jobs: Iterable[JobBody | Body], *, views: bool = False, dry_run: bool = False
    ) -> list[CreatedItem]:
        """Create or replace each of *jobs*, and return the result of each, in their order.

        Each job succeeds or fails independently, as in `create_many`; `change` says what was done.
        A job that is the same stays as it is, so the call may be repeated.

        Args:
            jobs: The jobs; those that they depend on must exist before the call.
            views: Whether results have the jobs as saved, with warnings and next fire times.
            dry_run: Whether nothing is changed.
        """
        saved: list[CreatedItem] = []
        for part in requests.put_many(jobs, views=views, dry_run=dry_run):
            saved += (await self._ask(part)).items
        return saved

    async def put_job(
        self,
        job: JobBody | Body,
        *,
        if_version: int | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Create *job*, or a new version of the job with its name.

        Raises:
            Conflict: The job does not have version *if_version*.
        """
        return await self._ask(
            requests.put_job(job, if_version=if_version, key=idempotency_key, dry_run=dry_run)
        )

    async def patch_job(
        self,
        job: str,
        patch: Body,
        *,
        namespace: str | None = None,
        if_version: int | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Apply the merge patch *patch* (RFC 7396) to a job's definition; None removes a field.

        Raises:
            Conflict: The job does not have version *if_version*.
        """
        return await self._ask(
            call(
                operations.PATCH_JOB,
                job,
                namespace=namespace,
                body=patch,
                if_version=if_version,
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def pause_job(
        self,
        job: str,
        *,
        namespace: str | None = None,
        reason: str = "",
        until: When | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Pause a job, so that it does not fire; unfinished executions continue.

        Args:
            job: The job, named as the class describes.
            namespace: The namespace of a job that is named without one.
            reason: The reason, which its ledger repeats.
            until: When the job is resumed by itself; None for never.
            idempotency_key: A call with the same key has no further effect.
            dry_run: Whether to check only.
        """
        return await self._ask(
            call(
                operations.PAUSE_JOB,
                job,
                namespace=namespace,
                body=PauseBody(reason=reason, until=instant(until)),
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def resume_job(
        self,
        job: str,
        *,
        namespace: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Resume a paused job, from its next fire time on.

        Schedules that skip fire times because the clock was ahead count from now again.
        """
        return await self._ask(
            call(
                operations.RESUME_JOB,
                job,
                namespace=namespace,
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def job(
        self, job: str, *, namespace: str | None = None, version: int | None = None
    ) -> JobView:
        """Return a job: its present version, or the definition of another *version*.

        Raises:
            NotFound: The job does not exist, or that version of it is not stored.
        """
        return await self._ask(
            call(operations.GET_JOB, job, namespace=namespace, query={"version": version})
        )

    def jobs(
        self,
        *,
        namespace: str | None = None,
        q: str | None = None,
        status: str | None = None,
        last_status: str | None = None,
        is_one_off: bool | None = None,
        labels: Labels | None = None,
        calendar: str | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[JobView, None]:
        """Iterate over jobs by name.

        Args:
            namespace: Only jobs in this namespace.
            q: Only jobs with this text in their name.
            status: Only jobs that are ``scheduled``, ``manual``, ``waiting``, ``running``,
                ``paused``, ``finished`` or ``broken``.
            last_status: Only jobs whose latest finished execution has the status ``success``,
                ``failed`` or ``cancelled``.
            is_one_off: True for one-off jobs, False for others; None for all.
            labels: Only jobs with all of these labels; None matches any value.
            calendar: Only jobs that name this calendar.
            limit: The most jobs.
        """
        query: Query = {
            "namespace": namespace,
            "q": q,
            "status": status,
            "lastStatus": last_status,
            "oneOff": None if is_one_off is None else str(is_one_off).lower(),
            "label": label_texts(labels or {}),
            "calendar": calendar,
        }
        return self._over_pages(operations.LIST_JOBS, query, limit)

    async def delete_job(
        self,
        job: str,
        *,
        namespace: str | None = None,
        if_version: int | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete a job; its unfinished executions are cancelled, and its history stays.

        Raises:
            Conflict: The job does not have version *if_version*.
        """
        await self._ask(
            call(
                operations.DELETE_JOB,
                job,
                namespace=namespace,
                if_version=if_version,
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def test_hooks(
        self, job: str, *, namespace: str | None = None, hook: int | None = None
    ) -> list[HookTestView]:
        """Send a sample of each webhook of a job once, or of one *hook*; return the answers."""
        answer = await self._ask(
            call(operations.TEST_HOOKS, job, namespace=namespace, query={"hook": hook})
        )
        return answer.items

    async def next_fires(
        self,
        job: str,
        *,
        namespace: str | None = None,
        count: int = 10,
        after: When | None = None,
    ) -> list[NextFireView]:
        """Return the next *count* fire times of a job, earliest first."""
        query: Query = {"count": count, "after": instant(after)}
        answer = await self._ask(call(operations.NEXT_FIRES, job, namespace=namespace, query=query))
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
    ) -> AsyncGenerator[LedgerEntryView, None]:
        """Iterate over the outcomes of the fire times of a job, oldest first.

        Args:
            job: The job; the id of a deleted job is accepted, too.
            namespace: The namespace of a job that is named without one.
            since: Only fire times from this instant on.
            until: Only fire times before this instant.
            newest_first: Whether to begin with the newest entry.
            limit: The most entries.
        """
        query: Query = {
            "namespace": namespace,
            "from": instant(since),
            "to": instant(until),
            "order": "desc" if newest_first else None,
        }
        return self._over_pages(operations.LEDGER, query, limit, job)

    async def explain(
        self, job: str, *, namespace: str | None = None, at: When | None = None
    ) -> ExplanationView:
        """Return why a job ran, did not run, will run or will not run at a time.

        Args:
            job: The job.
            namespace: The namespace of a job that is named without one.
            at: The time; None for now.
        """
        query: Query = {"at": instant(at)}
        return await self._ask(call(operations.EXPLAIN, job, namespace=namespace, query=query))

    def unfired(
        self,
        *,
        namespace: str | None = None,
        outcome: str | None = None,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[LedgerEntryView, None]:
        """Iterate over the fire times of all jobs that started no execution, the latest first.

        Args:
            namespace: Only jobs in this namespace.
            outcome: Only fire times that were ``skipped``, ``missed``, ``coalesced``, ``paused`` or
                ``excluded``.
            since: Only fire times from this instant on.
            until: Only fire times before this instant.
            limit: The most entries.
        """
        query: Query = {
            "namespace": namespace,
            "outcome": outcome,
            "from": instant(since),
            "to": instant(until),
        }
        return self._over_pages(operations.UNFIRED, query, limit)

    # -- changes -----------------------------------------------------------------------------------

    def changes(
        self,
        *,
        namespace: str | None = None,
        by: str | None = None,
        of: str | None = None,
        action: str | None = None,
        since: When | None = None,
        until: When | None = None,
        newest_first: bool = True,
        limit: int | None = None,
    ) -> AsyncGenerator[ChangeView, None]:
        """Iterate over what users changed: jobs, executions that were ended or rerun, documents.

        Args:
            namespace: Only changes of this namespace, and of jobs and secrets in this namespace.
            by: Only changes of this principal.
            of: Only changes of this job (its id, or ``namespace/name``), of this execution, or of
                this shared document (``kind:name``, such as ``types:image.render``).
            action: Only changes of this kind, such as ``job.deleted``.
            since: Only changes from this instant on.
            until: Only changes before this instant.
            newest_first: Whether the order is descending.
            limit: The most changes.
        """
        query: Query = {
            "namespace": namespace,
            "by": by,
            "object": of,
            "action": action,
            "from": instant(since),
            "to": instant(until),
            "order": "desc" if newest_first else "asc",
        }
        return self._over_pages(operations.CHANGES, query, limit)

    async def verify_changes(self) -> list[ChainView]:
        """Check that no change was altered, removed or inserted, and return the check by shard."""
        return (await self._ask(call(operations.VERIFY_CHANGES))).items

    # -- shared documents --------------------------------------------------------------------------

    def documents(
        self, kind: str, *, limit: int | None = None
    ) -> AsyncGenerator[DocumentView, None]:
        """Iterate over the shared documents of a kind, such as ``types``, by name."""
        return self._over_pages(operations.LIST_DOCUMENTS, {}, limit, kind)

    async def document(self, kind: str, name: str) -> DocumentView:
        """Return a shared document, such as ``("types", "image.render")``."""
        return await self._ask(call(operations.GET_DOCUMENT, kind, name))

    async def document_changes(self, kind: str, name: str) -> list[DocumentChangeView]:
        """Return the newest changes of a document, also of a deleted one, the newest first."""
        return (await self._ask(call(operations.DOCUMENT_CHANGES, kind, name))).items

    async def put_document(
        self,
        kind: str,
        name: str,
        definition: Body,
        *,
        if_version: int | None = None,
        dry_run: bool = False,
    ) -> DocumentView:
        """Create or replace a shared document; sending the same definition changes nothing.

        Raises:
            Conflict: The document does not have version *if_version*.
        """
        return await self._ask(
            call(
                operations.PUT_DOCUMENT,
                kind,
                name,
                body=definition,
                if_version=if_version,
                is_repeatable=if_version is None,
                dry_run=dry_run,
            )
        )

    async def preview_calendars(
        self,
        calendars: Mapping[str, Body],
        *,
        days: int = 30,
        after: When | None = None,
    ) -> CalendarPreview:
        """Return which fire times go and come if calendars are saved; nothing is saved.

        Args:
            calendars: The definitions by name; they may name each other.
            days: The number of days that are examined, at most 366.
            after: The instant after which they begin; now by default.
        """
        named = [{"name": name, "definition": each} for name, each in calendars.items()]
        query = {"days": days, "after": instant(after)}
        sent = call(operations.PREVIEW_CALENDARS, query=query, body={"calendars": named})
        return await self._ask(sent)

    async def delete_document(
        self, kind: str, name: str, *, if_version: int | None = None, dry_run: bool = False
    ) -> None:
        """Delete a shared document.

        Raises:
            Conflict: The document does not have version *if_version*.
        """
        await self._ask(
            call(operations.DELETE_DOCUMENT, kind, name, if_version=if_version, dry_run=dry_run)
        )

    async def state(self, job: str, *, namespace: str | None = None) -> list[StateView]:
        """Return the values of the state of a job, sorted by key."""
        return (await self._ask(call(operations.LIST_STATE, job, namespace=namespace))).items

    async def get_state(self, job: str, key: str, *, namespace: str | None = None) -> StateView:
        """Return a value of the state of a job.

        Raises:
            NotFound: The job has no such value.
        """
        return await self._ask(call(operations.GET_STATE, job, key, namespace=namespace))

    async def put_state(
        self,
        job: str,
        key: str,
        value: Json,
        *,
        if_revision: int | None = None,
        only_forward: bool = False,
        execution_id: str | None = None,
        task: str | None = None,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> StateView:
        """Set a value of the state of a job, and return it with its revision.

        Args:
            job: The job, named as the class describes.
            key: The name of the value.
            value: The value, at most 64 KiB as JSON.
            if_revision: The revision that it must have, 0 for a value that must not exist; None for
                any.
            only_forward: Whether a value is refused that is smaller than the one before.
            execution_id: The execution of the job with whose end the value ends; with *if_revision*
                0 the value is a lock.
            task: The task of that execution with whose end the value ends; None for none.
            namespace: The namespace of a job that is named without one.
            dry_run: Whether to check only.

        Raises:
            Conflict: The value has another revision, is held by an execution, or is not smaller.
        """
        body = StateBody(
            value=value, only_forward=only_forward, execution_id=execution_id, task=task
        )
        is_lock = if_revision == 0 and execution_id is not None
        return await self._ask(
            call(
                operations.PUT_STATE,
                job,
                key,
                namespace=namespace,
                body=body,
                headers={"If-None-Match": "*"} if if_revision == 0 else None,
                if_version=if_revision or None,
                is_repeatable=if_revision is None or is_lock,
                dry_run=dry_run,
            )
        )

    async def delete_state(
        self,
        job: str,
        key: str,
        *,
        if_revision: int | None = None,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete a value of the state of a job, which need not exist.

        Raises:
            Conflict: The value does not have *if_revision*.
        """
        await self._ask(
            call(
                operations.DELETE_STATE,
                job,
                key,
                namespace=namespace,
                if_version=if_revision,
                dry_run=dry_run,
            )
        )

    async def pause_namespace(
        self, name: str, *, reason: str = "", dry_run: bool = False
    ) -> DocumentView:
        """Pause a namespace: no execution begins in it, and unfinished ones continue."""
        return await self._ask(
            call(operations.PAUSE_NAMESPACE, name, body=PauseBody(reason=reason), dry_run=dry_run)
        )

    async def resume_namespace(self, name: str, *, dry_run: bool = False) -> DocumentView:
        """Resume a paused namespace, from the next fire times of its jobs on."""
        return await self._ask(call(operations.RESUME_NAMESPACE, name, dry_run=dry_run))

    async def namespace_quota(self, name: str) -> QuotaView:
        """Return the quota of a namespace, and its use about a second ago."""
        return await self._ask(call(operations.NAMESPACE_QUOTA, name))

    # -- access ------------------------------------------------------------------------------------

    async def whoami(self, *, verb: str | None = None, namespace: str | None = None) -> WhoamiView:
        """Return the principal of this client, and its roles.

        Args:
            verb: A verb, such as ``run``; ``allowed`` of the result has the answer.
            namespace: The namespace in which the verb is required.
        """
        return await self._ask(call(operations.WHOAMI, namespace=namespace, query={"verb": verb}))

    async def create_key(
        self,
        name: str,
        *,
        principal: str = "",
        expires_in: Timespan | None = None,
        networks: Iterable[str] = (),
        role: str = "",
        namespaces: Iterable[str] = (),
    ) -> NewTokenView:
        """Create a key, and return its token, which is shown once.

        Args:
            name: The name of the key.
            principal: The person or program that uses the token; *name* by default.
            expires_in: The time until the token expires, in seconds or as text such as ``"90d"``;
                None for a token that does not expire.
            networks: The networks from which the token is accepted; all by default.
            role: A role that the principal gets in *namespaces*.
            namespaces: The namespaces of *role*; ``*`` matches all.

        Raises:
            Conflict: The key exists.
        """
        body = CreateKeyBody(
            name=name,
            principal=principal,
            expires_in=expires_in,
            from_=list(networks),
            role=role,
            namespaces=list(namespaces),
        )
        return await self._ask(call(operations.CREATE_KEY, body=body))

    async def rotate_key(
        self, name: str, *, grace: Timespan = "1h", expires_in: Timespan | None = None
    ) -> NewTokenView:
        """Add a new token to a key, and return it; earlier tokens end after *grace*.

        The new token expires after *expires_in*; None for the end of the earlier token that ends
        last. `delete_document` with the kind ``keys`` deletes a key and ends all its tokens.
        """
        return await self._ask(
            call(
                operations.ROTATE_KEY,
                name,
                body=RotateKeyBody(grace=grace, expires_in=expires_in),
            )
        )

    # -- secrets -----------------------------------------------------------------------------------

    def secrets(
        self, *, namespace: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[SecretView, None]:
        """Iterate over secrets by namespace and name, without their values.

        Args:
            namespace: Only secrets in this namespace.
            limit: The most secrets.
        """
        return self._over_pages(operations.LIST_SECRETS, {"namespace": namespace}, limit)

    async def secret(self, name: str, *, namespace: str = "default") -> SecretView:
        """Return a secret, without its value: no request returns a value."""
        return await self._ask(call(operations.GET_SECRET, namespace, name))

    async def set_secret(
        self,
        name: str,
        value: bytes | str,
        *,
        namespace: str = "default",
        is_new: bool = False,
        dry_run: bool = False,
    ) -> SecretView:
        """Set a secret; attempts that start afterwards get the value.

        Args:
            name: The name of the secret.
            value: The value, at most 64 KiB.
            namespace: The namespace of the jobs that may name the secret.
            is_new: Whether the secret must not exist.
            dry_run: Whether to check only.

        Raises:
            Conflict: The node has no key ring; or the secret exists, with *is_new*.
        """
        content = value.encode() if isinstance(value, str) else value
        return await self._ask(
            call(
                operations.PUT_SECRET,
                namespace,
                name,
                body=SecretBody(base64=b64encode(content).decode()),
                headers={"If-None-Match": "*" if is_new else ""},
                is_repeatable=not is_new,
                dry_run=dry_run,
            )
        )

    async def delete_secret(
        self, name: str, *, namespace: str = "default", dry_run: bool = False
    ) -> None:
        """Delete a secret; attempts of jobs that name it are lost until it is set again."""
        await self._ask(call(operations.DELETE_SECRET, namespace, name, dry_run=dry_run))

    async def key_ring(self) -> KeyRingView:
        """Return the ids of the keys of the node that responds, and the number of their secrets."""
        return await self._ask(call(operations.KEY_RING))

    async def rewrap_secrets(self) -> RewrapView:
        """Encrypt the data key of each secret with the key in use of the node that responds."""
        return await self._ask(call(operations.REWRAP_SECRETS))

    # -- executions --------------------------------------------------------------------------------

    async def trigger(
        self,
        job: str,
        *,
        namespace: str | None = None,
        parameters: Json = None,
        fire_time: When | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        dry_run: bool = False,
    ) -> TriggeredView:
        """Start one execution of a job now.

        Args:
            job: The job, named as the class describes.
            namespace: The namespace of a job that is named without one.
            parameters: The parameters that replace those of the job.
            fire_time: The time for which the execution works, such as that of a missed day.
            idempotency_key: A call with the same key returns the same execution.
            traceparent: The trace (W3C) of the execution; its attempts get it, too.
            dry_run: Whether to return the answer without starting an execution.
        """
        return await self._ask(
            call(
                operations.TRIGGER_JOB,
                job,
                namespace=namespace,
                body=TriggerBody(parameters=parameters, fire_time=instant(fire_time)),
                headers={"traceparent": traceparent or ""},
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def create_backfill(
        self,
        job: str,
        *,
        since: When,
        until: When | None = None,
        reprocess: Literal["missing", "failed", "all"] = "missing",
        order: Literal["oldest", "newest"] = "oldest",
        parallel: int = 1,
        parameters: Json = None,
        namespace: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> BackfillView:
        """Run a job for the fire times of a range of the past.

        Args:
            job: The job, named as the class describes.
            since: The first instant of the range.
            until: The end of the range; None for now.
            reprocess: Which fire times run: those without an execution, also those whose newest one
                failed, or all.
            order: The oldest or the newest fire times first.
            parallel: The most unfinished executions of the backfill.
            parameters: The parameters that replace those of the job.
            namespace: The namespace of a job that is named without one.
            idempotency_key: A call with the same key returns the same backfill.
            dry_run: Whether to count the fire times only.
        """
        body = BackfillBody(
            since=instant(since) or "",
            until=instant(until),
            reprocess=reprocess,
            order=order,
            parallel=parallel,
            parameters=parameters,
        )
        return await self._ask(
            call(
                operations.CREATE_BACKFILL,
                job,
                namespace=namespace,
                body=body,
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def backfills(self, job: str, *, namespace: str | None = None) -> list[BackfillView]:
        """Return the newest backfills of a job, the newest first."""
        return (await self._ask(call(operations.LIST_BACKFILLS, job, namespace=namespace))).items

    async def backfill(
        self, job: str, backfill_id: str, *, namespace: str | None = None
    ) -> BackfillView:
        """Return a backfill with its progress."""
        return await self._ask(call(operations.GET_BACKFILL, job, backfill_id, namespace=namespace))

    async def pause_backfill(
        self, job: str, backfill_id: str, *, namespace: str | None = None, dry_run: bool = False
    ) -> BackfillView:
        """Pause a backfill; unfinished executions continue."""
        return await self._ask(
            call(operations.PAUSE_BACKFILL, job, backfill_id, namespace=namespace, dry_run=dry_run)
        )

    async def resume_backfill(
        self, job: str, backfill_id: str, *, namespace: str | None = None, dry_run: bool = False
    ) -> BackfillView:
        """Resume a paused backfill."""
        return await self._ask(
            call(operations.RESUME_BACKFILL, job, backfill_id, namespace=namespace, dry_run=dry_run)
        )

    async def cancel_backfill(
        self, job: str, backfill_id: str, *, namespace: str | None = None, dry_run: bool = False
    ) -> BackfillView:
        """Cancel a backfill; unfinished executions continue."""
        return await self._ask(
            call(operations.CANCEL_BACKFILL, job, backfill_id, namespace=namespace, dry_run=dry_run)
        )

    async def rerun(
        self,
        execution_id: str,
        *,
        tasks: Literal["failed", "all"] | None = None,
        from_task: str | None = None,
        mark_success: Sequence[str] = (),
        parameters: Json = None,
        overrides: Mapping[str, Json] | None = None,
        is_latest: bool = False,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        dry_run: bool = False,
    ) -> TriggeredView:
        """Run a finished execution again, as a new one; tasks that do not run keep their results.

        Args:
            execution_id: The finished execution.
            tasks: ``failed`` for the failed tasks and those that need them, ``all`` for all tasks;
                None without *from_task* is ``failed`` unless the execution succeeded.
            from_task: A task that runs again, with all tasks that need it.
            mark_success: Tasks that count as successful, without a result, and do not run.
            parameters: The parameters that replace those of the execution.
            overrides: The members that replace single members of the parameters.
            is_latest: Whether to run the latest definition of the job, not that of the execution.
            idempotency_key: A call with the same key returns the same execution.
            traceparent: The trace (W3C) of the new execution; its attempts get it, too.
            dry_run: Whether to return the answer without starting an execution.
        """
        body = RerunBody(
            tasks=tasks,
            from_task=from_task,
            mark_success=list(mark_success),
            parameters=parameters,
            overrides=dict(overrides or {}),
            version="latest" if is_latest else "same",
        )
        return await self._ask(
            call(
                operations.RERUN,
                execution_id,
                body=body,
                headers={"traceparent": traceparent or ""},
                key=idempotency_key,
                dry_run=dry_run,
            )
        )

    async def trigger_many(
        self, items: Iterable[TriggerItem | str], *, dry_run: bool = False
    ) -> list[TriggeredItem]:
        """Start an execution for each of *items*, and return the result of each, in their order.

        Each item succeeds or fails independently; its result has an ``error`` if it fails. An item
        that is refused for lack of capacity has an error with status 429 or 503 and may be sent
        again. One request has at most 1,000 items; the next one is sent after the answer to the
        previous one. If a request fails as a whole, this call fails; items with an idempotency key
        of their own may be sent again.
        """
        triggered: list[TriggeredItem] = []
        for part in requests.trigger_many(items, dry_run=dry_run):
            triggered += (await self._ask(part)).items
        return triggered

    async def execution(self, execution_id: str) -> ExecutionView:
        """Return an execution with its tasks."""
        return await self._ask(call(operations.GET_EXECUTION, execution_id))

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
            job: Only executions of this job.
            namespace: The namespace of a *job* that is named without one. If *job* is None, only
                executions of jobs in this namespace.
            status: Only executions that are ``queued``, ``running``, ``success``, ``failed`` or
                ``cancelled``.
            since: Only fire times from this instant on.
            until: Only fire times before this instant.
            limit: The most executions.
        """
        query: Query = {
            "jobId": job,
            "namespace": namespace,
            "status": status,
            "from": instant(since),
            "to": instant(until),
        }
        return self._over_pages(operations.LIST_EXECUTIONS, query, limit)

    async def wait(self, execution_id: str, *, timeout_s: float | None = None) -> ExecutionView:
        """Wait until an execution has ended, and return it with its tasks.

        Raises:
            WaitTimedOut: The execution has not ended after *timeout_s*.
        """
        patience = Patience(timeout_s)
        while True:
            view = await self._ask(requests.wait(execution_id, patience.poll_s))
            if view.finished_at is not None:
                return view
            patience.check([view])

    async def wait_many(
        self,
        execution_ids: Iterable[str],
        *,
        timeout_s: float | None = None,
        has_tasks: bool = True,
    ) -> list[ExecutionView]:
        """Wait until all of several executions have ended, and return them in the given order.

        Args:
            execution_ids: The executions.
            timeout_s: The maximum wait; None for no limit.
            has_tasks: Whether to return them with their tasks and the results of these, with a
                request for each execution.

        Raises:
            WaitTimedOut: Some executions have not ended after *timeout_s*.
        """
        patience = Patience(timeout_s)
        done: list[ExecutionView] = []
        for part in requests.parts(list(execution_ids)):
            while True:
                answer = await self._ask(requests.wait_many(part, patience.poll_s))
                if patience.is_over or all(view.finished_at is not None for view in answer.items):
                    break
            done += answer.items
        if any(view.finished_at is None for view in done):
            patience.check(done)
        return [await self.execution(each.execution_id) for each in done] if has_tasks else done

    async def cancel(
        self, execution_id: str, *, force: bool = False, dry_run: bool = False
    ) -> ExecutionView:
        """Cancel an execution, and return it; an execution that has ended is not changed.

        Args:
            execution_id: The execution.
            force: Whether to stop its teardowns, too.
            dry_run: Whether to check only.
        """
        query: Query = {"force": "true"} if force else {}
        return await self._ask(call(operations.CANCEL, execution_id, query=query, dry_run=dry_run))

    async def answer(
        self,
        execution_id: str,
        task: str,
        *,
        approve: bool,
        reason: str = "",
        form: Json = None,
        dry_run: bool = False,
    ) -> ExecutionView:
        """Approve or reject what a task waits for, and return the execution.

        Args:
            execution_id: The execution.
            task: The task, or a step of one: ``check[2]``.
            approve: Whether to approve.
            reason: The reason, for others.
            form: What the task's form asks for; it becomes the result of the task.
            dry_run: Whether to return the answer of the node without a change.
        """
        body = AnswerBody(approve=approve, reason=reason, form=form)
        operation = operations.ANSWER_TASK
        return await self._ask(call(operation, execution_id, task, body=body, dry_run=dry_run))

    async def post_event(
        self, execution_id: str, name: str, data: Json = None, *, dry_run: bool = False
    ) -> ExecutionView:
        """Post an event for the tasks of an execution that wait for it, now or later.

        Args:
            execution_id: The execution.
            name: The name of the event.
            data: Its data, which becomes the result of the tasks; at most 64 KiB as JSON.
            dry_run: Whether to return the answer of the node without a change.

        Raises:
            Conflict: The execution has ended, or the event was posted with other data.
        """
        body = PostEventBody(name=name, data=data)
        return await self._ask(
            call(operations.POST_EVENT, execution_id, body=body, dry_run=dry_run)
        )

    async def send_event(
        self,
        event_type: str,
        data: Json = None,
        *,
        source: str = "rota",
        event_id: str | None = None,
        subject: str | None = None,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> ReceivedEventView:
        """Send an event from outside, which starts the jobs with a trigger for it.

        Args:
            event_type: Its type, such as ``com.example.order.paid``.
            data: Its data; the whole event has at most 64 KiB as JSON.
            source: Where it comes from.
            event_id: Its id: an event with the source and the id of one that was received within a
                day changes nothing. None for a random one.
            subject: What it is about.
            namespace: The namespace of the jobs; None for ``default``.
            dry_run: Whether to return the answer of the node without a change.

        Raises:
            Invalid: The event is invalid.
            Conflict: Too many jobs have a trigger for it.
        """
        body = CloudEventBody(
            specversion="1.0",
            id=token_hex(16) if event_id is None else event_id,
            source=source,
            type=event_type,
            subject=subject,
            data=data,
        )
        operation = operations.SEND_EVENT
        return await self._ask(call(operation, namespace=namespace, body=body, dry_run=dry_run))

    @overload
    def output(
        self,
        execution_id: str,
        task: str = ...,
        *,
        attempt: int | None = ...,
        follow: Literal[False] = ...,
    ) -> Coroutine[Any, Any, bytes]: ...

    @overload
    def output(
        self,
        execution_id: str,
        task: str = ...,
        *,
        attempt: int | None = ...,
        follow: Literal[True],
    ) -> AsyncGenerator[bytes, None]: ...

    def output(
        self,
        execution_id: str,
        task: str = MAIN_TASK,
        *,
        attempt: int | None = None,
        follow: bool = False,
    ) -> Coroutine[Any, Any, bytes] | AsyncGenerator[bytes, None]:
        """Return the output of an attempt so far, or iterate over it until the attempt has ended.

        A lost connection is restored, and the output continues without repetition.

        Args:
            execution_id: The id of the execution.
            task: The name of the task.
            attempt: The number of the attempt; the latest by default.
            follow: Whether to iterate over new output until the attempt has ended.

        Raises:
            OutputBroken: After a lost connection, the beginning of the output is no longer stored.
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
    ) -> AsyncGenerator[EventView, None]:
        """Iterate over live events until the iterator or the client is closed.

        The first event is always ``stream.opened``, and every later event follows. A lost
        connection is restored, to any node, and the events since the loss follow. If some events
        may be missing, because the node was restarted, is another one, or no longer has them, the
        stream has an event ``stream.gap``; then read the jobs and executions themselves. The client
        tries to reconnect for the time limit of a call; to continue with a later call, pass the
        last event's ``id`` as *after*.

        Args:
            namespace: Only events of jobs in this namespace, and of their executions.
            job: Only events of this job, given by its id or ``namespace/name``.
            execution_id: Only events of this execution.
            types: Only events of these types, such as ``execution.failed``, or ``execution`` for
                all types that begin with ``execution.``.
            status: Only events of executions and tasks that enter this state.
            after: The id of an event after which the stream begins.

        Raises:
            Unreachable, TooBusy: No node could be reached in time.
        """
        wanted = EventFilter(
            namespace=namespace,
            job=job,
            execution_id=execution_id,
            types=[types] if isinstance(types, str) else list(types),
            status=status,
        )
        return follow_events(self._connection, EventReader(wanted, after or ""), self._timeout_s)

    async def version(self) -> VersionView:
        """Return the versions of the node that answers."""
        return await self._ask(call(operations.VERSION))

    async def ready(self) -> bool:
        """Return True if a node can be reached and accepts requests; each node is tried once."""
        try:
            await self._connection.ask(call(operations.READY), self._timeout_s, repeats_max=0)
        except (TooBusy, Unreachable):
            return False
        return True

    # -- the cluster -------------------------------------------------------------------------------

    async def cluster(self) -> ClusterView:
        """Return the nodes, the shards with their copies, and the pending moves."""
        return await self._ask(call(operations.CLUSTER))

    async def drain_node(self, node_id: str, *, dry_run: bool = False) -> NodeView:
        """Drain a node; `cluster` shows the progress.

        Raises:
            Conflict: No other node can take the copies of the node.
        """
        return await self._ask(call(operations.DRAIN_NODE, node_id, dry_run=dry_run))

    async def undrain_node(self, node_id: str, *, dry_run: bool = False) -> NodeView:
        """Return the share of the shards to a drained node."""
        return await self._ask(call(operations.UNDRAIN_NODE, node_id, dry_run=dry_run))

    async def forget_node(self, node_id: str, *, dry_run: bool = False) -> None:
        """Remove a node that is lost for good from the cluster.

        Raises:
            Conflict: The node is alive, or copies on it count.
        """
        await self._ask(call(operations.FORGET_NODE, node_id, dry_run=dry_run))

    async def repair_shard(self, shard: int, *, dry_run: bool = False) -> RepairView:
        """Repair a shard that stays closed because a copy promised an epoch that is too high.

        Raises:
            Conflict: The shard needs no repair, or a node has a newer configuration than etcd.
        """
        return await self._ask(call(operations.REPAIR_SHARD, shard, dry_run=dry_run))

    async def recover_coordination(
        self, *, without: Iterable[str] = (), accept_loss: bool = False, dry_run: bool = False
    ) -> RecoveryView:
        """Restore the configurations that etcd lost, as nodes have seen them.

        Args:
            without: Nodes that are lost for good.
            accept_loss: Whether to recover also shards whose last writes may be on missing nodes
                only.
            dry_run: Whether to return the plan without carrying it out.

        Raises:
            Conflict: etcd lost nothing, or a node of *without* is alive.
            TooBusy: A node that may have newer records did not answer, or the outcome is unknown.
        """
        query: Query = {
            "without": list(without),
            "acceptLoss": "true" if accept_loss else None,
        }
        return await self._ask(call(operations.RECOVER_COORDINATION, query=query, dry_run=dry_run))

    async def recover_shard(
        self,
        shard: int,
        source: str,
        *,
        without: Iterable[str] = (),
        accept_loss: bool = False,
        dry_run: bool = False,
    ) -> ShardLossView:
        """Open a shard from a copy that does not count, if no copy that counts is left.

        Writes acknowledged after the last entry of that copy are lost.

        Args:
            shard: The number of the shard.
            source: The node with the copy.
            without: Nodes that are lost for good.
            accept_loss: Whether to accept the loss; must be True, except for a dry run.
            dry_run: Whether to return the plan without carrying it out.

        Raises:
            Conflict: A copy that counts exists, the node has no complete copy, or the loss is not
                accepted.
            TooBusy: A node that may have a copy did not answer, or the outcome is unknown.
        """
        query: Query = {
            "from": source,
            "without": list(without),
            "acceptLoss": "true" if accept_loss else None,
        }
        return await self._ask(call(operations.RECOVER_SHARD, shard, query=query, dry_run=dry_run))

    # -- sending -----------------------------------------------------------------------------------

    async def ask(self, request: Call[T]) -> T:
        """Return the answer to a call of `rota.client.requests`, such as one page of a list."""
        return await self._ask(request)

    async def _ask(self, request: Call[T]) -> T:
        return await self._connection.ask(request, self._timeout_s)

    async def _over_pages(
        self, operation: Operation[Page[Item]], query: Query, limit: int | None, *names: str
    ) -> AsyncGenerator[Item, None]:
        pages = Pages(limit)
        while not pages.are_over:
            of_page = {**query, "limit": pages.size, "cursor": pages.cursor}
            found = await self._ask(call(operation, *names, query=of_page))
            for item in pages.items_of(found):
                yield item

    async def _follow_output(
        self, execution_id: str, task: str, attempt: int | None
    ) -> AsyncGenerator[bytes, None]:
        if attempt is None:
            # The number is explicit, so that a restored connection returns the same attempt.
            attempt = latest_attempt(await self.execution(execution_id), task)
        followed = FollowedOutput(requests.output(execution_id, task, attempt, follow=True))
        async with aclosing(follow_output(self._connection, followed, self._timeout_s)) as parts:
            async for part in parts:
                yield part
