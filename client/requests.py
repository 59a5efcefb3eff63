"""Requests of the clients, without IO: the operations of the API with arguments.

`AsyncClient` and `Client` combine these with a connection (`rota.client.transport.connection`,
`rota.client.blocking_connection`). A job is named by its id, by ``namespace/name``, or by its name
in *namespace*.
"""

import re
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
from rota.wire import operations
from rota.wire.documents import (
    ITEMS_MAX,
    CreatedManyView,
    EventView,
    ExecutionList,
    ExecutionView,
    JobBody,
    JobView,
    TriggeredManyView,
    TriggerItem,
    TriggerManyBody,
    WaitManyBody,
)
from rota.wire.operations import Operation, Repetition

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


def call(
    operation: Operation[T],
    *names: str | int,
    namespace: str | None = None,
    query: Query | None = None,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    key: str | None = None,
    if_version: int | None = None,
    is_repeatable: bool = True,
    dry_run: bool = False,
    waits_s: float = 0.0,
) -> Call[T]:
    """Return the call of an operation.

    Args:
        operation: The operation.
        names: The variable parts of its path, in their order.
        namespace: The namespace of a job that is named without one.
        query: Further parameters of the query.
        body: The document in the body; None for no body.
        headers: Further headers.
        key: The idempotency key, if the operation has one; None for a random one.
        if_version: The version that the resource must have; None for any.
        is_repeatable: Whether this call may be repeated, if the operation may.
        dry_run: Whether to check only, if the operation changes anything.
        waits_s: How many seconds the node is requested to keep the request open.

    Raises:
        Invalid: *body* contains something that JSON cannot express, or a header is not printable.
    """
    parts = dict(zip(_PART.findall(operation.path), names, strict=True))
    repetition = operation.repetition
    extra = {} if if_version is None else {"If-Match": f'"{if_version}"'}
    return Call(
        operation.method,
        _PART.sub(lambda part: _quoted(str(parts[part[1]])), operation.path),
        _reader_of(operation.view),
        query={"namespace": namespace, **(query or {}), **({"dryRun": "true"} if dry_run else {})},
        body=None if body is None else as_json(body),
        headers={**extra, **{name: each for name, each in (headers or {}).items() if each}},
        key=(key or _mint_key()) if repetition is Repetition.KEYED else "",
        is_write=repetition is not Repetition.READS and not dry_run,
        is_repeatable=dry_run or (is_repeatable and repetition is not Repetition.UNSAFE),
        waits_s=waits_s,
        slot=_slot_in(parts, namespace),
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
        # The node adds the index within the request, which starts at 0 in each request.
        key_of_part = f"{key}/{start}" if start else key
        items = {"items": [msgspec.Raw(each) for each in part]}
        yield call(operations.CREATE_JOBS, body=items, key=key_of_part, dry_run=dry_run)
        start += len(part)


def put_many(
    jobs: Iterable[JobBody | Body], *, views: bool, dry_run: bool
) -> Iterator[Call[CreatedManyView]]:
    """Yield the calls that create or replace *jobs*, with as many in each as its limits allow.

    Raises:
        Invalid: A job contains something that JSON cannot express.
    """
    query: Query = {"views": "true"} if views else {}
    for part in _batches([as_json(job) for job in jobs]):
        items = {"items": [msgspec.Raw(each) for each in part]}
        yield call(operations.PUT_JOBS, body=items, query=query, dry_run=dry_run)


def put_job(
    job: JobBody | Body, *, if_version: int | None, key: str | None, dry_run: bool
) -> Call[JobView]:
    """Return the call that creates *job*, or replaces the job with its name."""
    content = as_json(job)
    fields: Body = msgspec.json.decode(content)
    name = f"{fields.get('namespace') or 'default'}/{fields.get('name') or ''}"
    return call(
        operations.PUT_JOB,
        name,
        body=msgspec.Raw(content),
        if_version=if_version,
        key=key,
        dry_run=dry_run,
    )


def trigger_many(
    items: Iterable[TriggerItem | str], *, dry_run: bool
) -> Iterator[Call[TriggeredManyView]]:
    """Yield calls that start one execution for each item; a call has at most `ITEMS_MAX` items.

    An item without an idempotency key gets a random one.
    """
    for part in parts([_with_key(item) for item in items]):
        body = TriggerManyBody(items=list(part))
        yield call(operations.TRIGGER_JOBS, body=body, dry_run=dry_run)


def wait(execution_id: str, timeout_s: float) -> Call[ExecutionView]:
    """Return the call that waits for the end of an execution."""
    query: Query = {"timeout": _seconds_text(timeout_s)}
    return call(operations.WAIT, execution_id, query=query, waits_s=timeout_s)


def wait_many(execution_ids: Sequence[str], timeout_s: float) -> Call[ExecutionList]:
    """Return the call that waits for the ends of executions."""
    ids = list(map(_checked_id, execution_ids))
    body = WaitManyBody(execution_ids=ids, timeout=round(timeout_s, 6))
    return call(operations.WAIT_FOR_MANY, body=body, waits_s=timeout_s)


def output(execution_id: str, task: str, attempt: int | None, *, follow: bool) -> Call[bytes]:
    """Return the call that reads the output of an attempt."""
    query: Query = {"attempt": attempt, "follow": 1 if follow else None}
    return call(operations.OUTPUT, execution_id, task, query=query)


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


def events(wanted: EventFilter, after: str) -> Call[EventView]:
    """Return the call that opens the stream of events after the event with the id *after*."""
    query: Query = {
        "jobId": wanted.job,
        "executionId": wanted.execution_id,
        "type": list(wanted.types),
        "status": wanted.status,
    }
    headers = {"Accept": "application/x-ndjson", "Last-Event-ID": after}
    return call(operations.EVENTS, namespace=wanted.namespace, query=query, headers=headers)


def instant(when: When | None) -> str | None:
    """Return an instant as text; None for None.

    Raises:
        ValueError: *when* has no time zone.
    """
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ValueError(f"{when} has no time zone; pass an aware datetime, with a tzinfo")
        return when.isoformat()
    return when


def label_texts(labels: Labels) -> list[str]:
    """Return required labels as parameters of a query."""
    return [key if value is None else f"{key}={value}" for key, value in labels.items()]


# -- parts of calls --------------------------------------------------------------------------------

_PART = re.compile(r"{(\w+)}")


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


def _slot_in(parts: Mapping[str, str | int], namespace: str | None) -> Slot | None:
    """Return the hash slot of the one job that a call concerns; None for several jobs, or none."""
    if "job" in parts:
        return _slot(str(parts["job"]), namespace)
    if "execution" in parts:
        execution_id = _checked_id(parts["execution"])
        return slot_of_id(ExecutionId(execution_id)) if is_execution_id(execution_id) else None
    return None


def _slot(named: str, namespace: str | None) -> Slot | None:
    """Return the hash slot of the job *named*; None if *named* is not a valid name."""
    if is_job_id(named):
        return slot_of_id(JobId(named))
    within, _, name = named.rpartition("/")
    within = within or namespace or "default"
    return slot_of(within, name) if is_full_name(f"{within}/{name}") else None


def _checked_id(execution_id: object) -> str:
    """Return *execution_id*, which may be None in a program that no type checker has checked.

    Raises:
        TypeError: It is not text.
    """
    if not isinstance(execution_id, str):
        raise TypeError(
            f"the id of an execution is text, not {execution_id!r}; the `execution_id` of a job is "
            "None unless it has an unfinished execution"
        )
    return execution_id


def _quoted(text: str) -> str:
    """Return *text* as a part of a path; undecodable characters become ?, as no name has one."""
    return quote(text, safe="", errors="replace")


def _reader_of(view: type[T]) -> Callable[[bytes], T]:
    """Return the function that decodes the body of an answer; it ignores a body without a view."""
    if view is type(None):
        return lambda body: msgspec.convert(None, view)
    return view if issubclass(view, bytes) else msgspec.json.Decoder(view).decode


def _with_key(item: TriggerItem | str) -> TriggerItem:
    if isinstance(item, str):
        return TriggerItem(job=item, idempotency_key=_mint_key())
    if item.idempotency_key:
        return item
    return msgspec.structs.replace(item, idempotency_key=_mint_key())


def _mint_key() -> str:
    return token_hex(16)


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
