"""The access log: one line for each response, or only for each response of status 400 or above.

A line has the path and the names of the query's parameters, but not their values: a password that
a client puts into the query must not appear in the log. A request whose client disconnects before
the response has no line.
"""

import logging
from collections.abc import Mapping
from time import perf_counter

from aiohttp.abc import AbstractAccessLogger
from aiohttp.web import BaseRequest, RequestKey, StreamResponse

from rota.node.api.requests.request_context import REQUEST
from rota.node.api.requests.tracing import checked_traceparent

ACCESS_LOGGER = logging.getLogger("rota.access")
IS_LOGGED: RequestKey[bool] = RequestKey("is_logged", bool)
"""Set for a request that is malformed or that the guard refuses; such a request has a line in a
sampled log instead. This is a key of requests, since aiohttp passes only the request to loggers."""
PATH_MAX = 512
"""The most characters of a path that are logged; every path of the API is shorter."""


class AnswerLog(AbstractAccessLogger):
    """Logs every response."""

    def log(self, request: BaseRequest, response: StreamResponse, time: float) -> None:
        """Log a response; *time* is the duration in seconds, used if the request has no context.

        Requests without a context are malformed.
        """
        if IS_LOGGED in request:
            return
        context = request.get(REQUEST)
        took_s = perf_counter() - context.began_at if context else time
        facts: dict[str, object] = {
            "method": request.method,
            "path": request.rel_url.raw_path[:PATH_MAX],
            "query": sorted(request.query),
            "status": response.status,
            "ms": round(took_s * 1_000, 3),
            "bytes": response.body_length,
            "request": context.id if context else None,
            "traceparent": checked_traceparent(request.headers.get("traceparent", "")),
            "remote": request.remote,
        }
        known = {name: fact for name, fact in facts.items() if fact not in ("", None, [])}
        self.logger.info("request answered", extra=known)


class FailureLog(AnswerLog):
    """Logs responses with status 400 and above."""

    def log(self, request: BaseRequest, response: StreamResponse, time: float) -> None:
        """Log a response if it is an error."""
        if response.status >= 400:
            super().log(request, response, time)


class NoLog(AbstractAccessLogger):
    """Logs nothing; since it is not enabled, the server does not even read the clock."""

    @property
    def enabled(self) -> bool:
        """Always false."""
        return False

    def log(self, request: BaseRequest, response: StreamResponse, time: float) -> None:
        """Log nothing."""


ACCESS_LOGS: Mapping[str, type[AbstractAccessLogger]] = {
    "off": NoLog,
    "errors": FailureLog,
    "all": AnswerLog,
}
"""Loggers by the value of the setting ``access_log``."""
