"""Watch on etcd that misses nothing, or ends with an error.

It begins where a list ended: the list was of revision r, so the watch is from r + 1. When its
stream breaks, or is silent for so long that its member may hang, it continues at another member,
from the last revision that it yielded. Three things end it: etcd has dropped the history in
between, etcd ends the watch itself, or etcd's revision has gone back, which a restored etcd's does;
a watch would then wait in silence for a revision that belongs to another history.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from itertools import groupby

from rota.core.decoding import UNDECODABLE
from rota.node.coordination.coordinator import News
from rota.node.coordination.coordinator_errors import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    WatchLost,
)
from rota.node.coordination.etcd_gateway import Gateway
from rota.node.coordination.etcd_keys import Keys
from rota.node.coordination.etcd_messages import (
    Event,
    Failure,
    RangeResponse,
    WatchLine,
    WatchResponse,
    decode,
    one,
    watch_below,
)

log = logging.getLogger(__name__)

RECONNECT_S = 0.1
UNKNOWN = 2


async def follow(gateway: Gateway, keys: Keys, revision: int) -> AsyncGenerator[News]:
    """Yield what happens to *keys* after *revision*; see `Coordinator.watch`."""
    while True:
        try:
            async with aclosing(_follow_once(gateway, keys, revision)) as steps:
                async for step in steps:
                    revision = step.revision
                    yield step
        except CoordinatorRefused:
            raise  # The caller says so in its log, and tries again.
        except CoordinatorUnavailable as error:
            log.debug("etcd watch broken", extra={"reason": str(error), "revision": revision})
            await asyncio.sleep(RECONNECT_S)


async def _follow_once(gateway: Gateway, keys: Keys, revision: int) -> AsyncGenerator[News]:
    """Follow one stream as far as it goes."""
    now = await gateway.read("/v3/kv/range", one(keys.meta), RangeResponse)
    if now.header.revision < revision:
        raise WatchLost(f"etcd's revision went back from {revision} to {now.header.revision}")
    lines = gateway.stream("/v3/watch", watch_below(keys.prefix, revision + 1))
    pending: list[Event] = []
    async with aclosing(lines):
        async for line in lines:
            answer = _read(gateway, line)
            pending += answer.events
            if answer.fragment:
                continue  # An answer counts as a whole: a step may continue in the next line.
            for step in _steps(keys, pending, after=revision):
                revision = step.revision
                yield step
            pending.clear()


def _read(gateway: Gateway, line: bytes) -> WatchResponse:
    """Return what a line says, if it is not that the watch is over."""
    try:
        said = decode(line, WatchLine)
    except UNDECODABLE as error:
        gateway.refuse(Failure(message=f"a line that is not etcd's ({error})", code=UNKNOWN))
    if said.error:
        gateway.refuse(said.error)
    answer = said.result or WatchResponse()
    gateway.check(answer)
    if answer.compact_revision:
        raise WatchLost(f"etcd has dropped its history up to revision {answer.compact_revision}")
    if answer.canceled:
        raise WatchLost(f"etcd ended the watch: {answer.cancel_reason or 'it does not say why'}")
    return answer


def _steps(keys: Keys, events: Iterable[Event], *, after: int) -> Iterator[News]:
    """Yield one step for each revision that has not been seen: what one transaction changed."""
    for revision, together in groupby(events, lambda event: event.kv.mod_revision):
        if revision <= after:
            continue
        records = keys.records(
            (event.kv.key, None if event.type == "DELETE" else event.kv.value) for event in together
        )
        yield News(
            revision=revision,
            configurations=records.configurations,
            lives=records.lives,
            members=records.members,
        )
