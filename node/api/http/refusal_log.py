"""Logs of what the node does not answer: malformed and refused requests, refused connections."""

import logging
from collections.abc import Callable

from aiohttp import web

from rota.core.timing.instants import Instant
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)


class Strangers:
    """Logs of which those who can connect decide how often there is something to write.

    Args:
        now: A time that only ever passes.
    """

    def __init__(self, now: Callable[[], Instant]) -> None:
        self.malformed = SampledLog(log, "request malformed", now=now, level=logging.INFO)
        self.refused = SampledLog(log, "request refused", now=now, level=logging.INFO)
        self.closed = SampledLog(log, "connection closed", now=now)

    def report(self) -> None:
        """Write how many lines were left out; call it from time to time."""
        for sampled in (self.malformed, self.refused, self.closed):
            sampled.report()


STRANGERS: web.AppKey[Strangers] = web.AppKey("strangers", Strangers)
