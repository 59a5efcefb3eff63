"""One line for every answer, or for every failure: who asked for what, and what came of it.

A line has the path and the names of the query's parameters, never their values: whoever mistakes a
query for the place of a password must not find it in the log. A request whose client goes away
before the answer has no line.
"""

import logging
from collections.abc import Mapping
from time import perf_counter

from aiohttp.abc import AbstractAccessLogger
from aiohttp.web import BaseRequest, RequestKey, StreamResponse

from rota.node.api.requests.request_reader import REQUEST_ID
from rota.node.api.requests.tracing import checked_traceparent

ACCESS_LOGGER = logging.getLogger("rota.access")
BEGAN_AT: RequestKey[float] = RequestKey("began_at", float)
"""When a request was taken up, by `perf_counter`; the loop's own clock has whole milliseconds."""
IS_LOGGED: RequestKey[bool] = RequestKey("is_logged", bool)
"""Set for a request that was refused unseen, and has a line of its own, of which there are few."""
PATH_MAX = 512
"""Characters of a path that are logged; the longest one that means something here has fewer."""


class AnswerLog(AbstractAccessLogger):
    """Logs every answer."""

    def log(self, request: BaseRequest, response: StreamResponse, time: float) -> None:
        """Log an answer; *time* is used where nobody noted when the request came."""
        if IS_LOGGED in request:
            return
        began_at = request.get(BEGAN_AT)
        took_s = time if began_at is None else perf_counter() - began_at
        facts: dict[str, object] = {
            "method": request.method,
            "path": request.rel_url.raw_path[:PATH_MAX],
            "query": sorted(request.query),
            "status": response.status,
            "ms": round(took_s * 1_000, 3),
            "bytes": response.body_length,
            "request": request.get(REQUEST_ID),
            "traceparent": checked_traceparent(request.headers.get("traceparent", "")),
            "remote": request.remote,
        }
        told = {name: fact for name, fact in facts.items() if fact not in ("", None, [])}
        self.logger.info("request answered", extra=told)


class FailureLog(AnswerLog):
    """Logs answers of 400 and above."""

    def log(self, request: BaseRequest, response: StreamResponse, time: float) -> None:
        """Log an answer if it is a failure."""
        if response.status >= 400:
            super().log(request, response, time)


class NoLog(AbstractAccessLogger):
    """Logs nothing, and spares the server reading the time."""

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
"""By the setting ``access_log``."""
