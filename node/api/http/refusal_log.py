"""Sampled logs of malformed requests, guarded requests and closed connections."""

import logging
from collections.abc import Callable, Iterable

from aiohttp import web

from rota.core.timing.instants import Instant
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)


class RefusalLogs:
    """Logs of events that any client can cause in any number; they are therefore sampled.

    Args:
        now: A monotonic clock.
        others: Logs of other parts of the node that are of the same sort.
    """

    def __init__(self, now: Callable[[], Instant], others: Iterable[SampledLog] = ()) -> None:
        self._others = tuple(others)
        self.malformed = SampledLog(log, "request malformed", now=now, level=logging.INFO)
        self.refused = SampledLog(log, "request refused", now=now, level=logging.INFO)
        self.closed = SampledLog(log, "connection closed", now=now)

    def report(self) -> None:
        """Log the number of omitted lines; to be called periodically."""
        for sampled in (self.malformed, self.refused, self.closed, *self._others):
            sampled.report()


REFUSAL_LOGS: web.AppKey[RefusalLogs] = web.AppKey("refusal_logs", RefusalLogs)
