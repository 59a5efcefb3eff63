"""Idempotency keys: the reply to a request is kept for a day under its key.

A client that gets no response sends its request again, while the first copy may still be under way
and arrive after later requests. The copy that arrives second under the same key is the repetition:
it changes nothing and gets the recorded reply. A refused request leaves its key unused.
"""

from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.ids import ExecutionId, JobId, is_execution_id
from rota.core.state.draft import Draft
from rota.core.state.shard_state import State
from rota.core.timing.instants import DAY, Instant, later
from rota.core.vocabulary.changes import RecordedReply, Table
from rota.core.vocabulary.commands import ForgetRequests, Idempotency
from rota.core.vocabulary.decision import Done, JobSaved, Received, Reply, StateSaved, Triggered

REQUEST_TTL = DAY
_EVENT = "event"
"""In the place of an id, in the reply to an event from outside."""
EXPIRED_AT_ONCE = 1_000
"""The number of recorded replies that one command deletes at most."""


def answered(state: State, idempotency: Idempotency | None, now: Instant) -> Reply | None:
    """Return the recorded reply to the request with *idempotency*; None if there is none.

    Raises:
        Refused: Code ``idempotency_key_reused``: the key was used for another request.
    """
    request = state.requests.get(idempotency.scoped_key) if idempotency else None
    if idempotency is None or request is None or request.expires_at <= now:
        return None
    if request.digest != idempotency.digest:
        raise Refused(
            Kind.INVALID,
            "idempotency_key_reused",
            f"Idempotency-Key {idempotency.key!r} was used for another request; choose a new one",
        )
    return _reply(request)


def remember(draft: Draft, idempotency: Idempotency | None, reply: Reply) -> None:
    """Record *reply* for repetitions of the request with *idempotency*."""
    if idempotency is None:
        return
    if len(draft.state.requests) >= draft.limits.requests:
        # The oldest reply is deleted: that is better than refusing new requests.
        draft.drop(Table.REQUEST, next(iter(draft.state.requests)))
    recorded = _recorded(idempotency, reply, expires_at=later(draft.now, REQUEST_TTL))
    draft.put(Table.REQUEST, idempotency.scoped_key, recorded)


def forget_requests(draft: Draft, command: ForgetRequests) -> None:
    """Delete recorded replies whose time to live has ended, at most `EXPIRED_AT_ONCE`."""
    del command
    expired: list[str] = []
    for key, request in draft.state.requests.items():
        if request.expires_at > draft.now or len(expired) >= EXPIRED_AT_ONCE:
            break
        expired.append(key)
    for key in expired:
        draft.drop(Table.REQUEST, key)


def _recorded(idempotency: Idempotency, reply: Reply, *, expires_at: Instant) -> RecordedReply:
    """Return the stored form of *reply*, a few bytes; `_reply` is the inverse."""
    empty = RecordedReply(digest=idempotency.digest, result_id="", expires_at=expires_at)
    match reply:
        case JobSaved():
            return replace(
                empty,
                result_id=reply.job_id,
                version=reply.version,
                is_new=reply.is_new,
                replaced=reply.replaced,
            )
        case Triggered():
            return replace(empty, result_id=reply.execution_id)
        case Received():
            return replace(empty, result_id=_EVENT, version=reply.jobs)
        case Done():
            return empty
        case StateSaved():
            raise AssertionError(f"{reply} answers a command without an idempotency key")


def _reply(recorded: RecordedReply) -> Reply:
    if not recorded.result_id:
        return Done()
    if recorded.result_id == _EVENT:
        return Received(recorded.version)
    if is_execution_id(recorded.result_id):
        return Triggered(ExecutionId(recorded.result_id))
    return JobSaved(
        JobId(recorded.result_id),
        version=recorded.version,
        is_new=recorded.is_new,
        replaced=recorded.replaced,
    )
