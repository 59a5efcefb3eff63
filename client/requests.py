"""What each call asks, how its answer reads, and when to ask again: all without IO.

`Client` and `AsyncClient` are this module and a way to send bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from secrets import randbelow, token_hex
from typing import Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from rota.client.errors import (
    Conflict,
    Invalid,
    NodeFailed,
    NotAllowed,
    NotFound,
    RequestFailed,
    TooBusy,
    Unreachable,
)
from rota.client.wire import (
    ExecutionList,
    ExecutionView,
    JobBody,
    JobList,
    JobView,
    Json,
    LedgerPage,
    NextFires,
    PauseBody,
    ProblemView,
    TriggerBody,
    TriggeredManyView,
    TriggeredView,
    TriggerItem,
    TriggerManyBody,
    VersionView,
    WaitManyBody,
)

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:7400"
URL_VARIABLE = "ROTA_URL"
TIMEOUT_S = 30.0
"""How long a call may take with all its repeats; a wait may take this and what it waits."""
REPEATS_MAX = 5
"""With `PAUSE_S` and `PAUSE_S_MAX`, about 3 s: a node that restarts is back by then."""
PAUSE_S = 0.1
PAUSE_S_MAX = 2.0
POLL_S = 30.0
"""How long one request of a wait stays open. Middleboxes cut what is silent for a minute."""

When = datetime | str
"""An instant: an aware datetime or RFC 3339 text."""
Query = Mapping[str, str | int | None]
Body = Mapping[str, object]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request.

    Attributes:
        path: From the root of the API, quoted.
        read: Makes the result of a successful answer's body.
        query: What is None is left out.
        body: JSON, or None.
        key: The idempotency key.
        is_repeatable: Whether sending it twice does what sending it once does.
        waits_s: How long the node is asked to keep it open.
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Query = field(default_factory=dict[str, str | int | None])
    body: bytes | None = None
    key: str = ""
    is_repeatable: bool = True
    waits_s: float = 0.0

    @property
    def target(self) -> str:
        """Path and query."""
        given = {name: value for name, value in self.query.items() if value is not None}
        return f"{self.path}?{urlencode(given)}" if given else self.path

    @property
    def headers(self) -> dict[str, str]:
        """The headers it needs."""
        headers: dict[str, str] = {}
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        if self.key:
            headers["Idempotency-Key"] = self.key
        return headers


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        retry_after: The header of that name, or empty.
    """

    status: int
    body: bytes
    retry_after: str = ""


def base_url(text: str) -> str:
    """Return *text*, the address of a node, without a slash at its end.

    Raises:
        ValueError: It is no http or https URL.
    """
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError(f"{text!r} is not the URL of a node; write it as {DEFAULT_URL}")
    return text.rstrip("/")


def result_of(call: Call[T], answer: Answer) -> T:
    """Return what *answer* gives for *call*.

    Raises:
        RequestFailed: In the class that fits.
    """
    if not 200 <= answer.status < 300:
        raise failure_of(answer)
    try:
        return call.read(answer.body)
    except msgspec.DecodeError as error:
        detail = (
            f"the answer to {call.method} {call.path} cannot be read: {error}; "
            "is there a rota node, and is it as new as this client?"
        )
        raise NodeFailed(_problem(answer.status, "unreadable_answer", detail)) from error


def failure_of(answer: Answer) -> RequestFailed:
    """Return the error that an unsuccessful answer stands for."""
    try:
        problem = msgspec.json.decode(answer.body, type=ProblemView)
    except msgspec.DecodeError:
        said = answer.body[:200].decode(errors="replace").strip()
        detail = f"HTTP status {answer.status}, without a document about it: {said or 'empty'}"
        problem = _problem(answer.status, "unexplained", detail)
    if answer.status in (429, 503):
        return TooBusy(problem, retry_after_s=_seconds(answer.retry_after))
    return _FAILURES.get(answer.status, _failure_class(answer.status))(problem)


def pause_s(call: Call[T], failure: RequestFailed, repeat: int) -> float | None:
    """Return how long to wait before sending *call* again, or None: it is not to be sent again.

    Args:
        call: What failed.
        failure: How.
        repeat: How often it was sent again already.
    """
    backoff_s = min(PAUSE_S * (1 << repeat), PAUSE_S_MAX)
    # Up to half of it by chance: clients cut off together shall not come back together.
    pause = backoff_s * (1 - randbelow(512) / 1024)
    match failure:
        case TooBusy(retry_after_s=asked_s):
            return max(pause, asked_s or 0.0)
        case Unreachable(may_have_arrived=may_have_arrived):
            return pause if call.is_repeatable or not may_have_arrived else None
        case _:
            return None


# -- the calls -------------------------------------------------------------------------------------


def create_job(job: JobBody | Body, key: str | None) -> Call[JobView]:
    """Return the call that creates *job*."""
    return Call("POST", _JOBS, _as(JobView), body=_json(job), key=key or _mint_key())


def put_job(job: JobBody | Body) -> Call[JobView]:
    """Return the call that creates *job* or replaces the one of its name."""
    fields: Body = msgspec.to_builtins(job)
    namespace, name = fields.get("namespace") or "default", fields.get("name") or ""
    path = f"{_JOBS}/{quote(str(namespace), safe='')}/{quote(str(name), safe='')}"
    return Call("PUT", path, _as(JobView), body=_json(fields))


def patch_job(named: str, namespace: str | None, patch: Body) -> Call[JobView]:
    """Return the call that changes some fields of a job."""
    query: Query = {"namespace": namespace}
    return Call("PATCH", _job_path(named), _as(JobView), query=query, body=_json(patch))


def pause_job(named: str, namespace: str | None, reason: str) -> Call[JobView]:
    """Return the call that pauses a job."""
    return Call(
        "POST",
        f"{_job_path(named)}/pause",
        _as(JobView),
        query={"namespace": namespace},
        body=_json(PauseBody(reason=reason)),
    )


def resume_job(named: str, namespace: str | None) -> Call[JobView]:
    """Return the call that lets a paused job fire again."""
    query: Query = {"namespace": namespace}
    return Call("POST", f"{_job_path(named)}/resume", _as(JobView), query=query)


def job(named: str, namespace: str | None) -> Call[JobView]:
    """Return the call that reads a job."""
    return Call("GET", _job_path(named), _as(JobView), query={"namespace": namespace})


def jobs(namespace: str | None, q: str | None, limit: int, cursor: str | None) -> Call[JobList]:
    """Return the call that reads a page of jobs."""
    query: Query = {"namespace": namespace, "q": q, "limit": limit, "cursor": cursor}
    return Call("GET", _JOBS, _as(JobList), query=query)


def delete_job(named: str, namespace: str | None) -> Call[None]:
    """Return the call that deletes a job; twice, it would not find it."""
    return Call(
        "DELETE", _job_path(named), _nothing, query={"namespace": namespace}, is_repeatable=False
    )


def trigger(
    named: str, namespace: str | None, parameters: Json, key: str | None
) -> Call[TriggeredView]:
    """Return the call that makes an execution."""
    return Call(
        "POST",
        f"{_job_path(named)}/trigger",
        _as(TriggeredView),
        query={"namespace": namespace},
        body=_json(TriggerBody(parameters=parameters)),
        key=key or _mint_key(),
    )


def trigger_many(items: Sequence[TriggerItem | str]) -> Call[TriggeredManyView]:
    """Return the call that makes many executions, each with a key of its own."""
    body = TriggerManyBody(items=[_with_key(item) for item in items])
    return Call("POST", f"{_EXECUTIONS}:batch", _as(TriggeredManyView), body=_json(body))


def execution(execution_id: str) -> Call[ExecutionView]:
    """Return the call that reads an execution."""
    return Call("GET", _execution_path(execution_id), _as(ExecutionView))


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
    )


def wait_many(execution_ids: Sequence[str], timeout_s: float) -> Call[ExecutionList]:
    """Return the call that waits for the ends of executions."""
    body = WaitManyBody(execution_ids=list(execution_ids), timeout=round(timeout_s, 6))
    return Call(
        "POST", f"{_EXECUTIONS}:wait", _as(ExecutionList), body=_json(body), waits_s=timeout_s
    )


def cancel(execution_id: str) -> Call[ExecutionView]:
    """Return the call that asks for the end of an execution."""
    return Call("POST", f"{_execution_path(execution_id)}/cancel", _as(ExecutionView))


def output(execution_id: str, task: str, attempt: int | None, *, follow: bool) -> Call[bytes]:
    """Return the call that reads what an attempt wrote."""
    path = f"{_execution_path(execution_id)}/tasks/{quote(task, safe='')}/output"
    query: Query = {"attempt": attempt, "follow": 1 if follow else None}
    return Call("GET", path, bytes, query=query)


def next_fires(
    named: str, namespace: str | None, count: int, after: When | None
) -> Call[NextFires]:
    """Return the call that previews fire times."""
    query: Query = {"namespace": namespace, "count": count, "after": _instant(after)}
    return Call("GET", f"{_job_path(named)}/next", _as(NextFires), query=query)


def ledger(
    named: str,
    *,
    namespace: str | None,
    since: When | None,
    until: When | None,
    limit: int,
    cursor: str | None,
) -> Call[LedgerPage]:
    """Return the call that reads a page of a job's ledger."""
    query: Query = {
        "namespace": namespace,
        "from": _instant(since),
        "to": _instant(until),
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", f"{_job_path(named)}/ledger", _as(LedgerPage), query=query)


def version() -> Call[VersionView]:
    """Return the call that asks what runs there."""
    return Call("GET", "/version", _as(VersionView))


def ready() -> Call[None]:
    """Return the call that asks whether requests are taken."""
    return Call("GET", "/readyz", _nothing)


# -- parts of calls --------------------------------------------------------------------------------

_JOBS = "/api/v1/jobs"
_EXECUTIONS = "/api/v1/executions"
_FAILURES: dict[int, type[RequestFailed]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: Conflict,
}


def _failure_class(status: int) -> type[RequestFailed]:
    return Invalid if 400 <= status < 500 else NodeFailed


def _job_path(named: str) -> str:
    return f"{_JOBS}/{quote(named, safe='')}"


def _execution_path(execution_id: str) -> str:
    return f"{_EXECUTIONS}/{quote(execution_id, safe='')}"


def _as(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def _nothing(body: bytes) -> None:
    del body


def _json(body: object) -> bytes:
    """Return *body* as JSON.

    Raises:
        Invalid: It holds something that JSON cannot express.
    """
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        detail = f"the body cannot be written as JSON: {error}"
        raise Invalid(_problem(0, "not_json", detail)) from error


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
            raise ValueError(f"{when} has no time zone; make it aware, as datetime.now(UTC) is")
        return when.isoformat()
    return when


def _seconds(text: str) -> float | None:
    """Return the seconds of a ``Retry-After``; its other form, a date, is not worth a clock."""
    return float(text) if text.isascii() and text.isdecimal() else None


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _problem(status: int, code: str, detail: str) -> ProblemView:
    return ProblemView(
        type=f"urn:rota:problem:{code}", title="Failed", status=status, code=code, detail=detail
    )
