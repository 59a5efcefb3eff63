"""Requests of the methods of the clients, without IO.

`AsyncClient` and `Client` combine these with a connection (`rota.client.transport.connection`,
`rota.client.blocking_connection`). *named* is a job's id, ``namespace/name``, or its name in
*namespace*.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from typing import TypeVar
from urllib.parse import quote

import msgspec

from rota.client.transport.call import Call, Query, as_json
from rota.core.model.ids import (
    ExecutionId,
    JobId,
    Slot,
    is_execution_id,
    is_full_name,
    is_job_id,
    slot_of,
    slot_of_id,
)
from rota.wire.documents import (
    ITEMS_MAX,
    ChainList,
    ChangePage,
    ClusterView,
    CreatedManyView,
    CreateKeyBody,
    DocumentChangesView,
    DocumentPage,
    DocumentView,
    ExecutionList,
    ExecutionView,
    InitBody,
    JobBody,
    JobList,
    JobView,
    Json,
    KeyRingView,
    LedgerPage,
    NewTokenView,
    NextFires,
    NodeView,
    PauseBody,
    QuotaView,
    RecoveryView,
    RepairView,
    RerunBody,
    RewrapView,
    RotateKeyBody,
    SealedTextView,
    SecretBody,
    SecretPage,
    SecretView,
    ShardLossView,
    TriggerBody,
    TriggeredManyView,
    TriggeredView,
    TriggerItem,
    TriggerManyBody,
    VersionView,
    WaitManyBody,
    WhoamiView,
)

T = TypeVar("T")
Item = TypeVar("Item")

MAIN_TASK = "main"
"""The only task of a job that has a command and no tasks."""
BATCH_BYTES_MAX = 2 << 20
"""The most bytes of one batch: half of a node's default limit of one request."""

When = datetime | str
"""An instant: an aware datetime or RFC 3339 text."""
Body = Mapping[str, object]
Labels = Mapping[str, str | None]
"""Required labels; the value None stands for any value."""


# -- jobs ------------------------------------------------------------------------------------------


def create_job(
    job: JobBody | Body, *, key: str | None, traceparent: str | None, dry_run: bool
) -> Call[JobView]:
    """Return the call that creates *job*."""
    return Call(
        "POST",
        _JOBS,
        _as(JobView),
        query=_dry(dry_run),
        body=as_json(job),
        headers=_traced(traceparent),
        key=key or _mint_key(),
        is_write=not dry_run,
    )


def create_many(
    jobs: Iterable[JobBody | Body], *, key: str | None, dry_run: bool
) -> Iterator[Call[CreatedManyView]]:
    """Yield the calls that create *jobs*, with as many jobs in each call as its limits allow.

    Raises:
        Invalid: A job contains something that JSON cannot express.
    """
    key = key or _mint_key()
    start = 0
    for part in _batches([as_json(job) for job in jobs]):
        yield Call(
            "POST",
            f"{_JOBS}:batch",
            _as(CreatedManyView),
            query=_dry(dry_run),
            body=b'{"items":[%s]}' % b",".join(part),
            # The node adds the index within the request, which starts at 0 in each request.
            key=f"{key}/{start}" if start else key,
            is_write=not dry_run,
        )
        start += len(part)


def put_job(
    job: JobBody | Body, *, if_version: int | None, key: str | None, dry_run: bool
) -> Call[JobView]:
    """Return the call that creates *job*, or replaces the job with its name."""
    content = as_json(job)
    fields: Body = msgspec.json.decode(content)
    namespace, name = fields.get("namespace") or "default", fields.get("name") or ""
    path = f"{_JOBS}/{_quoted(str(namespace))}/{_quoted(str(name))}"
    return _change(
        "PUT",
        path,
        _as(JobView),
        slot=_slot(str(name), str(namespace)),
        body=content,
        if_version=if_version,
        key=key or _mint_key(),
        dry_run=dry_run,
    )


def patch_job(
    named: str,
    namespace: str | None,
    patch: Body,
    *,
    if_version: int | None,
    key: str | None,
    dry_run: bool,
) -> Call[JobView]:
    """Return the call that changes some fields of a job."""
    return _change(
        "PATCH",
        _job_path(named),
        _as(JobView),
        namespace=namespace,
        slot=_slot(named, namespace),
        body=as_json(patch),
        if_version=if_version,
        key=key or _mint_key(),
        dry_run=dry_run,
    )


def delete_job(
    named: str, namespace: str | None, *, if_version: int | None, key: str | None, dry_run: bool
) -> Call[None]:
    """Return the call that deletes a job."""
    return _change(
        "DELETE",
        _job_path(named),
        _nothing,
        namespace=namespace,
        slot=_slot(named, namespace),
        if_version=if_version,
        key=key or _mint_key(),
        dry_run=dry_run,
    )


def pause_job(
    named: str, namespace: str | None, reason: str, *, key: str | None, dry_run: bool
) -> Call[JobView]:
    """Return the call that pauses a job."""
    return _change(
        "POST",
        f"{_job_path(named)}/pause",
        _as(JobView),
        namespace=namespace,
        slot=_slot(named, namespace),
        body=as_json(PauseBody(reason=reason)),
        key=key or _mint_key(),
        dry_run=dry_run,
    )


def resume_job(
    named: str, namespace: str | None, *, key: str | None, dry_run: bool
) -> Call[JobView]:
    """Return the call that resumes a paused job."""
    return _change(
        "POST",
        f"{_job_path(named)}/resume",
        _as(JobView),
        namespace=namespace,
        slot=_slot(named, namespace),
        key=key or _mint_key(),
        dry_run=dry_run,
    )


def job(named: str, namespace: str | None, version: int | None = None) -> Call[JobView]:
    """Return the call that reads a job, or one of its versions."""
    query: Query = {"namespace": namespace, "version": version}
    slot = _slot(named, namespace)
    return Call("GET", _job_path(named), _as(JobView), query=query, slot=slot)


def jobs(
    *,
    namespace: str | None,
    q: str | None,
    status: str | None,
    last_status: str | None,
    labels: Labels,
    limit: int,
    cursor: str | None,
) -> Call[JobList]:
    """Return the call that reads a page of jobs."""
    query: Query = {
        "namespace": namespace,
        "q": q,
        "status": status,
        "lastStatus": last_status,
        "label": [key if value is None else f"{key}={value}" for key, value in labels.items()],
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", _JOBS, _as(JobList), query=query)


def next_fires(
    named: str, namespace: str | None, count: int, after: When | None
) -> Call[NextFires]:
    """Return the call that previews fire times."""
    query: Query = {"namespace": namespace, "count": count, "after": _instant(after)}
    slot = _slot(named, namespace)
    return Call("GET", f"{_job_path(named)}/next", _as(NextFires), query=query, slot=slot)


def ledger(
    named: str,
    *,
    namespace: str | None,
    since: When | None,
    until: When | None,
    newest_first: bool,
    limit: int,
    cursor: str | None,
) -> Call[LedgerPage]:
    """Return the call that reads a page of a job's ledger."""
    query: Query = {
        "namespace": namespace,
        "from": _instant(since),
        "to": _instant(until),
        "order": "desc" if newest_first else None,
        "limit": limit,
        "cursor": cursor,
    }
    slot = _slot(named, namespace)
    return Call("GET", f"{_job_path(named)}/ledger", _as(LedgerPage), query=query, slot=slot)


def unfired(
    *,
    namespace: str | None,
    outcome: str | None,
    since: When | None,
    until: When | None,
    limit: int,
    cursor: str | None,
) -> Call[LedgerPage]:
    """Return the call that reads a page of all fire times that started no execution."""
    query: Query = {
        "namespace": namespace,
        "outcome": outcome,
        "from": _instant(since),
        "to": _instant(until),
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", "/api/v1/ledger", _as(LedgerPage), query=query)


# -- changes ---------------------------------------------------------------------------------------


def changes(
    *,
    namespace: str | None,
    by: str | None,
    of: str | None,
    action: str | None,
    since: When | None,
    until: When | None,
    newest_first: bool,
    limit: int,
    cursor: str | None,
) -> Call[ChangePage]:
    """Return the call that reads a page of what users changed."""
    query: Query = {
        "namespace": namespace,
        "by": by,
        "object": of,
        "action": action,
        "from": _instant(since),
        "to": _instant(until),
        "order": "desc" if newest_first else "asc",
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", "/api/v1/changes", _as(ChangePage), query=query)


def verify_changes() -> Call[ChainList]:
    """Return the call that checks the changes of all shards."""
    return Call("GET", "/api/v1/changes:verify", _as(ChainList))


# -- shared documents ------------------------------------------------------------------------------


def documents(kind: str, *, limit: int, cursor: str | None) -> Call[DocumentPage]:
    """Return the call that reads a page of the documents of a kind, such as ``types``."""
    query: Query = {"limit": limit, "cursor": cursor}
    return Call("GET", _of_kind(kind), _as(DocumentPage), query=query)


def document(kind: str, name: str) -> Call[DocumentView]:
    """Return the call that reads a document."""
    return Call("GET", _document_path(kind, name), _as(DocumentView))


def document_changes(kind: str, name: str) -> Call[DocumentChangesView]:
    """Return the call that reads the changes of a document."""
    return Call("GET", f"{_document_path(kind, name)}/changes", _as(DocumentChangesView))


def put_document(
    kind: str, name: str, definition: Body, *, if_version: int | None, dry_run: bool
) -> Call[DocumentView]:
    """Return the call that creates or replaces a document."""
    return _change(
        "PUT",
        _document_path(kind, name),
        _as(DocumentView),
        body=as_json(definition),
        if_version=if_version,
        dry_run=dry_run,
        is_repeatable=if_version is None,
    )


def delete_document(kind: str, name: str, *, if_version: int | None, dry_run: bool) -> Call[None]:
    """Return the call that deletes a document."""
    return _change(
        "DELETE",
        _document_path(kind, name),
        _nothing,
        if_version=if_version,
        dry_run=dry_run,
        is_repeatable=False,
    )


def pause_namespace(name: str, reason: str, *, dry_run: bool) -> Call[DocumentView]:
    """Return the call that pauses a namespace."""
    body = as_json(PauseBody(reason=reason))
    path = f"{_document_path('namespaces', name)}:pause"
    return _change("POST", path, _as(DocumentView), body=body, dry_run=dry_run)


def resume_namespace(name: str, *, dry_run: bool) -> Call[DocumentView]:
    """Return the call that resumes a paused namespace."""
    path = f"{_document_path('namespaces', name)}:resume"
    return _change("POST", path, _as(DocumentView), dry_run=dry_run)


def namespace_quota(name: str) -> Call[QuotaView]:
    """Return the call that reads the quota of a namespace and its use."""
    return Call("GET", f"{_document_path('namespaces', name)}/quota", _as(QuotaView))


def _of_kind(kind: str) -> str:
    return f"/api/v1/{_quoted(kind)}"


def _document_path(kind: str, name: str) -> str:
    return f"{_of_kind(kind)}/{_quoted(name)}"


# -- access ----------------------------------------------------------------------------------------


def whoami(verb: str | None, namespace: str | None) -> Call[WhoamiView]:
    """Return the call that reads the caller, and if it has a verb in a namespace."""
    query: Query = {"verb": verb, "namespace": namespace}
    return Call("GET", "/api/v1/whoami", _as(WhoamiView), query=query)


def create_key(body: CreateKeyBody) -> Call[NewTokenView]:
    """Return the call that creates a key; a repetition would find the key and get no token."""
    return _minting(_of_kind("keys"), body)


def rotate_key(name: str, body: RotateKeyBody) -> Call[NewTokenView]:
    """Return the call that adds a token to a key; a repetition would add a second one."""
    return _minting(f"{_document_path('keys', name)}/rotate", body)


def init_auth(body: InitBody) -> Call[NewTokenView]:
    """Return the call that creates the first key, for the socket in the data directory."""
    return _minting("/api/v1/auth:init", body)


def _minting(path: str, body: CreateKeyBody | RotateKeyBody | InitBody) -> Call[NewTokenView]:
    return Call(
        "POST",
        path,
        _as(NewTokenView),
        body=as_json(body),
        is_write=True,
        is_repeatable=False,
    )


# -- secrets ---------------------------------------------------------------------------------------


def secrets(*, namespace: str | None, limit: int, cursor: str | None) -> Call[SecretPage]:
    """Return the call that reads a page of secrets, without their values."""
    query: Query = {"namespace": namespace, "limit": limit, "cursor": cursor}
    return Call("GET", "/api/v1/secrets", _as(SecretPage), query=query)


def secret(namespace: str, name: str) -> Call[SecretView]:
    """Return the call that reads a secret, without its value."""
    return Call("GET", _secret_path(namespace, name), _as(SecretView))


def set_secret(
    namespace: str, name: str, value: bytes, *, is_new: bool, dry_run: bool
) -> Call[SecretView]:
    """Return the call that sets a secret."""
    return Call(
        "PUT",
        _secret_path(namespace, name),
        _as(SecretView),
        query={**_dry(dry_run)},
        body=as_json(SecretBody(base64=b64encode(value).decode())),
        headers={"If-None-Match": "*"} if is_new else {},
        is_write=not dry_run,
        is_repeatable=dry_run or not is_new,
    )


def delete_secret(namespace: str, name: str, *, dry_run: bool) -> Call[None]:
    """Return the call that deletes a secret."""
    return _change(
        "DELETE", _secret_path(namespace, name), _nothing, dry_run=dry_run, is_repeatable=False
    )


def seal_text(namespace: str, text: str) -> Call[SealedTextView]:
    """Return the call that encrypts a text for the jobs of a namespace."""
    path = f"/api/v1/secrets/{_quoted(namespace)}:seal"
    body = as_json(SecretBody(base64=b64encode(text.encode()).decode()))
    return Call("POST", path, _as(SealedTextView), body=body)


def key_ring() -> Call[KeyRingView]:
    """Return the call that reads the ids of a node's key ring."""
    return Call("GET", "/api/v1/keyring", _as(KeyRingView))


def rewrap_secrets() -> Call[RewrapView]:
    """Return the call that encrypts the data keys of all secrets with the key in use."""
    return Call("POST", "/api/v1/keyring:rewrap", _as(RewrapView), is_write=True)


def _secret_path(namespace: str, name: str) -> str:
    return f"/api/v1/secrets/{_quoted(namespace)}/{_quoted(name)}"


# -- executions ------------------------------------------------------------------------------------


def trigger(
    named: str,
    *,
    namespace: str | None,
    parameters: Json,
    key: str | None,
    traceparent: str | None,
    dry_run: bool,
) -> Call[TriggeredView]:
    """Return the call that starts an execution."""
    return _starting(
        f"{_job_path(named)}/trigger",
        TriggerBody(parameters=parameters),
        query={"namespace": namespace, **_dry(dry_run)},
        key=key,
        traceparent=traceparent,
        is_write=not dry_run,
        slot=_slot(named, namespace),
    )


def rerun(
    execution_id: str,
    body: RerunBody,
    *,
    key: str | None,
    traceparent: str | None,
    dry_run: bool,
) -> Call[TriggeredView]:
    """Return the call that runs an execution again."""
    return _starting(
        f"{_execution_path(execution_id)}/rerun",
        body,
        query=_dry(dry_run),
        key=key,
        traceparent=traceparent,
        is_write=not dry_run,
        slot=_slot_of_execution(execution_id),
    )


def _starting(
    path: str,
    body: TriggerBody | RerunBody,
    *,
    query: Query,
    key: str | None,
    traceparent: str | None,
    is_write: bool,
    slot: Slot | None,
) -> Call[TriggeredView]:
    return Call(
        "POST",
        path,
        _as(TriggeredView),
        query=query,
        body=as_json(body),
        headers=_traced(traceparent),
        key=key or _mint_key(),
        is_write=is_write,
        slot=slot,
    )


def trigger_many(
    items: Iterable[TriggerItem | str], *, dry_run: bool
) -> Iterator[Call[TriggeredManyView]]:
    """Yield calls that start one execution for each item; a call has at most `ITEMS_MAX` items.

    An item without an idempotency key gets a random one.
    """
    for part in parts([_with_key(item) for item in items]):
        yield Call(
            "POST",
            f"{_EXECUTIONS}:batch",
            _as(TriggeredManyView),
            query=_dry(dry_run),
            body=as_json(TriggerManyBody(items=list(part))),
            is_write=not dry_run,
        )


def execution(execution_id: str) -> Call[ExecutionView]:
    """Return the call that reads an execution."""
    path = _execution_path(execution_id)
    return Call("GET", path, _as(ExecutionView), slot=_slot_of_execution(execution_id))


def executions(
    *,
    job: str | None,
    namespace: str | None,
    status: str | None,
    since: When | None,
    until: When | None,
    limit: int,
    cursor: str | None,
) -> Call[ExecutionList]:
    """Return the call that reads a page of executions."""
    query: Query = {
        "jobId": job,
        "namespace": namespace,
        "status": status,
        "from": _instant(since),
        "to": _instant(until),
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", _EXECUTIONS, _as(ExecutionList), query=query)


def wait(execution_id: str, timeout_s: float) -> Call[ExecutionView]:
    """Return the call that waits for the end of an execution."""
    return Call(
        "GET",
        f"{_execution_path(execution_id)}/wait",
        _as(ExecutionView),
        query={"timeout": _seconds_text(timeout_s)},
        waits_s=timeout_s,
        slot=_slot_of_execution(execution_id),
    )


def wait_many(execution_ids: Sequence[str], timeout_s: float) -> Call[ExecutionList]:
    """Return the call that waits for the ends of executions."""
    body = WaitManyBody(execution_ids=list(execution_ids), timeout=round(timeout_s, 6))
    return Call(
        "POST", f"{_EXECUTIONS}:wait", _as(ExecutionList), body=as_json(body), waits_s=timeout_s
    )


def cancel(execution_id: str, *, dry_run: bool) -> Call[ExecutionView]:
    """Return the call that cancels an execution; it may be repeated."""
    path, slot = f"{_execution_path(execution_id)}/cancel", _slot_of_execution(execution_id)
    return _change("POST", path, _as(ExecutionView), slot=slot, dry_run=dry_run)


def output(execution_id: str, task: str, attempt: int | None, *, follow: bool) -> Call[bytes]:
    """Return the call that reads the output of an attempt."""
    path = f"{_execution_path(execution_id)}/tasks/{_quoted(task)}/output"
    query: Query = {"attempt": attempt, "follow": 1 if follow else None}
    return Call("GET", path, bytes, query=query, slot=_slot_of_execution(execution_id))


# -- the node --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """A filter of events; a field that is None or empty matches all events.

    Attributes:
        namespace: The namespace of the jobs.
        job: The id of the job, or its ``namespace/name``.
        execution_id: The id of the execution.
        types: The types of events, or their first words, such as ``execution``.
        status: The state that executions and tasks enter.
    """

    namespace: str | None = None
    job: str | None = None
    execution_id: str | None = None
    types: Sequence[str] = ()
    status: str | None = None


def events(wanted: EventFilter, after: str) -> Call[None]:
    """Return the call that opens the stream of events after the event with the id *after*."""
    query: Query = {
        "namespace": wanted.namespace,
        "jobId": wanted.job,
        "executionId": wanted.execution_id,
        "type": list(wanted.types),
        "status": wanted.status,
    }
    headers = {"Accept": "application/x-ndjson"}
    if after:
        headers["Last-Event-ID"] = after
    return Call("GET", "/api/v1/events", _nothing, query=query, headers=headers)


def cluster() -> Call[ClusterView]:
    """Return the call that reads the cluster."""
    return Call("GET", "/api/v1/cluster", _as(ClusterView))


def drain_node(node_id: str, *, dry_run: bool) -> Call[NodeView]:
    """Return the call that drains a node."""
    return _change("POST", f"{_node_path(node_id)}:drain", _as(NodeView), dry_run=dry_run)


def undrain_node(node_id: str, *, dry_run: bool) -> Call[NodeView]:
    """Return the call that undrains a node."""
    return _change("POST", f"{_node_path(node_id)}:undrain", _as(NodeView), dry_run=dry_run)


def forget_node(node_id: str, *, dry_run: bool) -> Call[None]:
    """Return the call that removes a node; a repetition would not find the node."""
    path = _node_path(node_id)
    return _change("DELETE", path, _nothing, dry_run=dry_run, is_repeatable=False)


def repair_shard(shard: int, *, dry_run: bool) -> Call[RepairView]:
    """Return the call that repairs a shard; a repetition would be refused as needless."""
    path = f"/api/v1/shards/{shard}:repair"
    return _change("POST", path, _as(RepairView), dry_run=dry_run, is_repeatable=False)


def recover_coordination(
    *, without: Iterable[str], accept_loss: bool, dry_run: bool
) -> Call[RecoveryView]:
    """Return the call that recovers a cluster; a repetition would be refused as needless."""
    return Call(
        "POST",
        "/api/v1/cluster/recovery",
        _as(RecoveryView),
        query={"without": list(without), **_accepting(accept_loss), **_dry(dry_run)},
        is_write=not dry_run,
        is_repeatable=dry_run,
    )


def recover_shard(
    shard: int, source: str, *, without: Iterable[str], accept_loss: bool, dry_run: bool
) -> Call[ShardLossView]:
    """Return the call that opens a shard from one copy; a repetition would be refused."""
    return Call(
        "POST",
        f"/api/v1/shards/{shard}:recover",
        _as(ShardLossView),
        query={
            "from": source,
            "without": list(without),
            **_accepting(accept_loss),
            **_dry(dry_run),
        },
        is_write=not dry_run,
        is_repeatable=dry_run,
    )


def version() -> Call[VersionView]:
    """Return the call that reads the version of a node."""
    return Call("GET", "/version", _as(VersionView))


def ready() -> Call[None]:
    """Return the call that checks whether requests are accepted."""
    return Call("GET", "/readyz", _nothing)


# -- parts of calls --------------------------------------------------------------------------------

_JOBS = "/api/v1/jobs"
_EXECUTIONS = "/api/v1/executions"
_NODES = "/api/v1/nodes"


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield *items* in parts of at most `ITEMS_MAX`, which fit into one request."""
    for start in range(0, len(items), ITEMS_MAX):
        yield items[start : start + ITEMS_MAX]


def _batches(items: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield *items* in parts that fit into one request, by count and by bytes."""
    start = size = 0
    for end, item in enumerate(items):
        is_full = end - start == ITEMS_MAX or size + len(item) > BATCH_BYTES_MAX
        if is_full and end > start:
            yield items[start:end]
            start, size = end, 0
        size += len(item) + 1
    if items[start:]:
        yield items[start:]


def _change(
    method: str,
    path: str,
    read: Callable[[bytes], T],
    *,
    namespace: str | None = None,
    slot: Slot | None = None,
    body: bytes | None = None,
    if_version: int | None = None,
    key: str = "",
    dry_run: bool,
    is_repeatable: bool = True,
) -> Call[T]:
    return Call(
        method,
        path,
        read,
        query={"namespace": namespace, **_dry(dry_run)},
        body=body,
        headers={} if if_version is None else {"If-Match": f'"{if_version}"'},
        key=key,
        is_write=not dry_run,
        is_repeatable=dry_run or is_repeatable,
        slot=slot,
    )


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "true"} if dry_run else {}


def _accepting(loss: bool) -> dict[str, str]:
    return {"acceptLoss": "true"} if loss else {}


def _traced(traceparent: str | None) -> dict[str, str]:
    return {"traceparent": traceparent} if traceparent else {}


def _job_path(named: str) -> str:
    return f"{_JOBS}/{_quoted(named)}"


def _slot(named: str, namespace: str | None) -> Slot | None:
    """Return the hash slot of the job *named*; None if *named* is not a valid name."""
    if is_job_id(named):
        return slot_of_id(JobId(named))
    within, _, name = named.rpartition("/")
    within = within or namespace or "default"
    return slot_of(within, name) if is_full_name(f"{within}/{name}") else None


def _slot_of_execution(execution_id: str) -> Slot | None:
    return slot_of_id(ExecutionId(execution_id)) if is_execution_id(execution_id) else None


def _execution_path(execution_id: str) -> str:
    return f"{_EXECUTIONS}/{_quoted(execution_id)}"


def _node_path(node_id: str) -> str:
    return f"{_NODES}/{_quoted(node_id)}"


def _quoted(text: str) -> str:
    """Return *text* as a part of a path; undecodable characters become ?, as no name has one."""
    return quote(text, safe="", errors="replace")


def _as(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def _nothing(body: bytes) -> None:
    del body


def _with_key(item: TriggerItem | str) -> TriggerItem:
    if isinstance(item, str):
        return TriggerItem(job=item, idempotency_key=_mint_key())
    if item.idempotency_key:
        return item
    return msgspec.structs.replace(item, idempotency_key=_mint_key())


def _mint_key() -> str:
    return token_hex(16)


def _instant(when: When | None) -> str | None:
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ValueError(f"{when} has no time zone; pass an aware datetime, with a tzinfo")
        return when.isoformat()
    return when


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
