"""Requests that may be repeated: the answer to an idempotency key is kept for a day."""

from rota.core.changes import Request, Table
from rota.core.commands import Ask, ForgetRequests
from rota.core.draft import Draft
from rota.core.errors import Kind, Refused
from rota.core.instants import DAY, later

REQUEST_TTL = DAY
FORGOTTEN_AT_ONCE = 1_000


def answered(draft: Draft, ask: Ask | None) -> str | None:
    """Return the answer that was given to *ask* before, if it was.

    Raises:
        Refused: Code ``idempotency_key_reused``: the key was used for another request.
    """
    request = draft.state.requests.get(ask.key) if ask else None
    if ask is None or request is None or request.expires_at <= draft.now:
        return None
    if request.print != ask.print:
        raise Refused(
            Kind.INVALID,
            "idempotency_key_reused",
            f"Idempotency-Key {ask.key!r} was used for another request; choose a new one",
        )
    return request.answer


def remember(draft: Draft, ask: Ask | None, answer: str) -> None:
    """Keep *answer* for repetitions of *ask*."""
    if ask is None:
        return
    if len(draft.state.requests) >= draft.limits.requests:
        # The oldest makes room: better than refusing work for the sake of old repetitions.
        draft.drop(Table.REQUEST, next(iter(draft.state.requests)))
    expires_at = later(draft.now, REQUEST_TTL)
    draft.put(
        Table.REQUEST, ask.key, Request(print=ask.print, answer=answer, expires_at=expires_at)
    )


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
