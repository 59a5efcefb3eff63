"""Requests that may be repeated: the answer to an idempotency key is kept for a day.

A client that hears nothing sends its request again, and the first copy may still be under way. It
then comes late, after whatever the client, or others, did next. As the second has taken effect
under the same key, the first is the repetition: it changes nothing. A request that was refused
leaves its key unused.
"""

from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.ids import ExecutionId, JobId, is_execution_id
from rota.core.state.draft import Draft
from rota.core.state.shard_state import State
from rota.core.timing.instants import DAY, Instant, later
from rota.core.vocabulary.changes import Request, Table
from rota.core.vocabulary.commands import Ask, ForgetRequests
from rota.core.vocabulary.decision import Done, JobSaved, Reply, Triggered

REQUEST_TTL = DAY
FORGOTTEN_AT_ONCE = 1_000


def answered(state: State, ask: Ask | None, now: Instant) -> Reply | None:
    """Return the answer that was given to *ask* before, if it was.

    Raises:
        Refused: Code ``idempotency_key_reused``: the key was used for another request.
    """
    request = state.requests.get(ask.key) if ask else None
    if ask is None or request is None or request.expires_at <= now:
        return None
    if request.print != ask.print:
        raise Refused(
            Kind.INVALID,
            "idempotency_key_reused",
            f"Idempotency-Key {ask.key!r} was used for another request; choose a new one",
        )
    return _reply(request)


def remember(draft: Draft, ask: Ask | None, reply: Reply) -> None:
    """Keep *reply* for repetitions of *ask*."""
    if ask is None:
        return
    if len(draft.state.requests) >= draft.limits.requests:
        # The oldest makes room: better than refusing work for the sake of old repetitions.
        draft.drop(Table.REQUEST, next(iter(draft.state.requests)))
    draft.put(Table.REQUEST, ask.key, _request(ask, reply, later(draft.now, REQUEST_TTL)))


def forget_requests(draft: Draft, command: ForgetRequests) -> None:
    """Drop the answers to requests that may no longer be repeated."""
    del command
    expired: list[str] = []
    for key, request in draft.state.requests.items():
        if request.expires_at > draft.now or len(expired) >= FORGOTTEN_AT_ONCE:
            break
        expired.append(key)
    for key in expired:
        draft.drop(Table.REQUEST, key)


def _request(ask: Ask, reply: Reply, expires_at: Instant) -> Request:
    """Return what is kept of *reply*: a few bytes, for a definition may be large and written often.

    `_reply` is the way back.
    """
    asked = Request(print=ask.print, answer="", expires_at=expires_at)
    match reply:
        case JobSaved():
            return replace(asked, answer=reply.job_id, version=reply.version, is_new=reply.is_new)
        case Triggered():
            return replace(asked, answer=reply.execution_id)
        case Done():
            return asked


def _reply(request: Request) -> Reply:
    if not request.answer:
        return Done()
    if is_execution_id(request.answer):
        return Triggered(ExecutionId(request.answer))
    return JobSaved(JobId(request.answer), version=request.version, is_new=request.is_new)
