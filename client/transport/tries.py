"""Tries of one call: the order of the endpoints, the times, and the error after the last try.

- Each endpoint is tried once before any is tried again. Between two tries of the same endpoint
  there is a pause, which doubles each time, and is at least as long as the node requested.
- A machine that refuses connections has no node that could be overloaded, and often has one soon:
  the machine is tried every `REFUSED_S`, for the time that the doubling pauses would take together.
- A call that may have arrived is repeated only if a repetition has no further effect.
- If other endpoints are left, a connection without an answer is given up early.

A lost stream is opened again by a call of its own; `Reopening` has the times of these calls.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from secrets import randbelow
from typing import Any

import msgspec

from rota.client.errors import NodeFailed, RequestFailed, TooBusy, Unreachable
from rota.client.transport.call import UNEXPLAINED, Call
from rota.client.transport.endpoints import Endpoints
from rota.wire.documents import ProblemView

TIMEOUT_S = 30.0
"""The limit of a call in seconds with all tries; a wait may take this in addition to its time."""
REPEATS_MAX = 5
"""The most retries at each endpoint. With `PAUSE_S` and `PAUSE_S_MAX`, they last about 3 s, within
which a restarting node is back."""
PAUSE_S = 0.1
PAUSE_S_MAX = 2.0
REFUSED_S = 0.05
"""The pause after a refused connection."""
SILENT_S = 5.0
"""How many seconds an endpoint may be silent if there are others. A node answers in milliseconds; a
thousand jobs in one request took 0.12 s on two cores."""
STEADY_S = 10.0
"""A connection that lasts for so many seconds counts as working, even without data."""
UNKNOWN_CODES = (UNEXPLAINED, "storage_unavailable", "primary_lost", "outcome_unknown")
"""Codes of failures after which the outcome of the request is unknown."""
GATEWAY_STATUSES = (502, 504)
"""Statuses with which a proxy responds if it has no answer from the node behind it."""


@dataclass
class _Endpoint:
    """The tries of a call at one endpoint.

    Attributes:
        url: The endpoint.
        failure: The error of the last try; None before the first.
        tries: The number of tries; those that are refused count once.
        ready_at: The earliest time of the next try.
        refused_until: The end of the tries while connections are refused; None if none was.
    """

    url: str
    failure: RequestFailed | None = None
    tries: int = 0
    ready_at: float = 0.0
    refused_until: float | None = None


@dataclass(frozen=True, slots=True)
class Try:
    """The next try of a call.

    Attributes:
        url: The endpoint to try.
        pause_s: The pause before the try, in seconds.
        timeout_s: The time limit of the try, in seconds.
    """

    url: str
    pause_s: float
    timeout_s: float


class Tries:
    """The tries of one call. The caller passes the time, in seconds.

    Args:
        call: The request.
        endpoints: The endpoints, updated with the results of this call.
        now: The time at which the call begins.
        timeout_s: The time limit of all tries, in addition to the wait of *call*.
        repeats_max: The most retries at each endpoint; those of refused connections are more, and
            take the same time.
    """

    def __init__(
        self,
        call: Call[Any],  # Any: the type of the call's result
        endpoints: Endpoints,
        *,
        now: float,
        timeout_s: float,
        repeats_max: int,
    ) -> None:
        self._call = call
        self._endpoints = endpoints
        self._deadline = now + timeout_s + call.waits_s
        self._tries_max = repeats_max + 1
        self._states = [_Endpoint(url) for url in endpoints.ordered(now, call.slot)]
        self._is_unknown = False

    def first(self, now: float) -> Try:
        """Return the first try."""
        return self._try(self._states[0], now)

    def after(self, tried: Try, failure: RequestFailed, now: float) -> Try:
        """Return the try that follows *tried*, which ended in *failure*.

        Raises:
            RequestFailed: No try is left.
        """
        state = next(each for each in self._states if each.url == tried.url)
        state.failure = failure
        has_arrived = _has_arrived(failure)
        if has_arrived is True:
            # The answer is final: another node would give the same one.
            self._endpoints.worked(tried.url)
            raise failure
        if isinstance(failure, Unreachable):
            self._endpoints.failed(tried.url, now)
        if has_arrived is None:
            self._is_unknown = True
            if not self._call.is_repeatable:
                raise self._conclusion() from failure
        self._count(state, failure, now)
        left = [each for each in self._states if each.tries < self._tries_max]
        # The sort is stable, so endpoints that were not tried yet stay in their order.
        left.sort(key=lambda each: (each.tries > 0, each.ready_at))
        if not left or max(left[0].ready_at, now) >= self._deadline:
            raise self._conclusion() from failure
        return self._try(left[0], now)

    def _count(self, state: _Endpoint, failure: RequestFailed, now: float) -> None:
        """Count a failed try, and set the time of the next one at the same endpoint."""
        if isinstance(failure, Unreachable) and failure.is_refused:
            if state.refused_until is None:
                state.refused_until = now + longest_s(self._tries_max - state.tries - 1)
                state.tries += 1
            if now + REFUSED_S < state.refused_until:
                state.ready_at = now + shortened(REFUSED_S)
            else:
                state.tries = self._tries_max
            return
        state.tries += 1
        state.refused_until = None
        asked_s = failure.retry_after_s if isinstance(failure, TooBusy) else None
        state.ready_at = now + max(pause_s(state.tries), asked_s or 0.0)

    def _try(self, state: _Endpoint, now: float) -> Try:
        pause_s = max(state.ready_at - now, 0.0)
        limit_s = left_s = self._deadline - now - pause_s
        if self._call.is_repeatable and len(self._states) > 1:
            limit_s = min(left_s, SILENT_S + self._call.waits_s)
            if sum(each.tries == 0 for each in self._states) > 1:
                # Even a short time is divided, so that another endpoint can also be tried.
                limit_s = min(limit_s, (left_s + self._call.waits_s) / 2)
        return Try(state.url, pause_s, limit_s)

    def _conclusion(self) -> RequestFailed:
        """Return the error of a call that no node carried out; it names all nodes that were tried.

        Answers of nodes come first, because they are more specific than connection errors.
        """
        failures = {each.url: each.failure for each in self._states if each.failure is not None}
        is_unknown = self._is_unknown and self._call.is_write
        if len(failures) == 1 and not is_unknown:
            return next(iter(failures.values()))
        refusals = {
            url: failure
            for url, failure in failures.items()
            if isinstance(failure, TooBusy) and failure.code not in UNKNOWN_CODES
        }
        others = {url: each for url, each in failures.items() if url not in refusals}
        text = "; ".join([*_refusals_text(refusals), *map(_text, others.items())])
        if not refusals or is_unknown:
            return Unreachable(
                text,
                may_have_arrived=self._is_unknown,
                idempotency_key=self._call.key,
                answer=_answer_in(others.values()),
            )
        first = next(iter(refusals.values()))
        asked_s = [
            each.retry_after_s for each in refusals.values() if each.retry_after_s is not None
        ]
        return TooBusy(
            msgspec.structs.replace(first.problem, detail=text),
            retry_after_s=min(asked_s, default=None),
        )


def _has_arrived(failure: RequestFailed) -> bool | None:
    """Return True for a final answer, False if no request was received, None if unknown."""
    match failure:
        case Unreachable(may_have_arrived=may_have_arrived):
            return None if may_have_arrived else False
        case TooBusy(code=code):
            return None if code in UNKNOWN_CODES else False
        case NodeFailed(code=code, problem=problem):
            is_gateway = code == UNEXPLAINED and problem.status in GATEWAY_STATUSES
            return None if is_gateway else True
        case _:
            return True


def _answer_in(failures: Iterable[RequestFailed]) -> ProblemView | None:
    """Return the first answer of a node, not of a proxy, among *failures*; None for none."""
    problems = (each.problem for each in failures)
    return next((each for each in problems if each.status and each.code != UNEXPLAINED), None)


def _refusals_text(refusals: Mapping[str, TooBusy]) -> list[str]:
    """Return the distinct answers of nodes, each with the URLs of the nodes that gave it."""
    nodes: dict[str, list[str]] = {}
    for url, refusal in refusals.items():
        nodes.setdefault(refusal.detail, []).append(url)
    return [f"{detail} ({', '.join(urls)})" for detail, urls in nodes.items()]


def _text(failed: tuple[str, RequestFailed]) -> str:
    url, failure = failed
    # Errors of the client name the endpoint already.
    return failure.detail if isinstance(failure, Unreachable) else f"{url}: {failure.detail}"


class Reopening:
    """The times at which a lost stream is opened again: immediately, then after doubling pauses.

    A stream is given up after *timeout_s* without new data, unless a connection lasted for
    `STEADY_S`.

    Args:
        timeout_s: The time limit, in seconds from the first loss.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._losses = 0
        self._lost_at = 0.0

    def news(self) -> None:
        """Record that new data has arrived."""
        self._losses = 0

    def pause_s(self, *, opened_at: float, now: float) -> float | None:
        """Return the pause in seconds before a lost stream is opened again; None to give up.

        Args:
            opened_at: The time at which the lost connection was opened.
            now: The present time.
        """
        if now - opened_at >= STEADY_S:
            self._losses = 0
        self._losses += 1
        if self._losses == 1:
            self._lost_at = now
            return 0.0
        return pause_s(self._losses) if now - self._lost_at < self._timeout_s else None


def pause_s(tries: int) -> float:
    """Return the pause in seconds after *tries* failed tries."""
    return shortened(_backoff_s(tries))


def longest_s(repeats: int) -> float:
    """Return the longest time in seconds that *repeats* doubling pauses take together."""
    return sum(map(_backoff_s, range(1, repeats + 1)))


def shortened(longest_s: float) -> float:
    """Return *longest_s* without a random part of up to half of it.

    So clients that were cut off together do not return together.
    """
    return longest_s * (1 - randbelow(512) / 1024)


def _backoff_s(tries: int) -> float:
    return min(PAUSE_S * (1 << min(tries - 1, 16)), PAUSE_S_MAX)
