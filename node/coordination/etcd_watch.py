"""Watch of etcd that misses no change, or ends with an error.

A watch continues a read: if the read was at revision r, the watch begins at r + 1. If the stream of
a watch breaks, or is silent for so long that its member may hang, the watch continues at another
member, from the last revision that it yielded. Three events end a watch: etcd has dropped the
history in between; etcd ends the watch; or etcd's revision has gone back after a restore, so that
the watch would wait silently for a revision of another history.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

from rota.core.decoding import UNDECODABLE
from rota.node.coordination.coordinator import DocumentNews, News
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
    Json,
    RangeResponse,
    WatchLine,
    WatchResponse,
    all_below,
    decode,
    one,
    watch_of,
)

log = logging.getLogger(__name__)

S = TypeVar("S")
Changed = Sequence[tuple[bytes, bytes | None]]
"""Keys with their new values; None for a deleted key."""

RECONNECT_S = 0.1
UNKNOWN = 2


def follow(gateway: Gateway, keys: Keys, revision: int) -> AsyncGenerator[News]:
    """Yield the steps after *revision*, without those of documents; see `Coordinator.watch`."""

    def news(revision: int, changed: Changed) -> News:
        records = keys.records(changed)
        return News(
            revision=revision,
            configurations=records.configurations,
            lives=records.lives,
            members=records.members,
        )

    return _follow(Watched(gateway, keys.others, keys.meta, news), revision)


def follow_documents(gateway: Gateway, keys: Keys, revision: int) -> AsyncGenerator[DocumentNews]:
    """Yield the changes of documents after *revision*; see `Coordinator.watch_documents`."""

    def news(revision: int, changed: Changed) -> DocumentNews:
        return DocumentNews(revision=revision, documents=keys.documents(changed))

    return _follow(Watched(gateway, all_below(keys.of_documents), keys.meta, news), revision)


@dataclass(frozen=True, slots=True)
class Watched(Generic[S]):
    """A range of keys that is watched.

    Attributes:
        gateway: The client of etcd.
        range: The range of keys.
        probe: Any key, which is read for the present revision.
        step: Makes a step from a revision and the keys that changed with it.
    """

    gateway: Gateway
    range: Json
    probe: bytes
    step: Callable[[int, Changed], S]


async def _follow(watched: Watched[S], revision: int) -> AsyncGenerator[S]:
    """Follow *watched* over any number of streams."""
    while True:
        try:
            async with aclosing(_follow_once(watched, revision)) as steps:
                async for at, step in steps:
                    revision = at
                    yield step
        except CoordinatorRefused:
            raise  # The caller logs the refusal, and tries again.
        except CoordinatorUnavailable as error:
            log.debug("etcd watch broken", extra={"reason": str(error), "revision": revision})
            await asyncio.sleep(RECONNECT_S)


async def _follow_once(watched: Watched[S], revision: int) -> AsyncGenerator[tuple[int, S]]:
    """Follow one stream until its end; yield each step with its revision."""
    gateway = watched.gateway
    now = await gateway.read("/v3/kv/range", one(watched.probe), RangeResponse)
    if now.header.revision < revision:
        raise WatchLost(f"etcd's revision went back from {revision} to {now.header.revision}")
    lines = gateway.stream("/v3/watch", watch_of(watched.range, revision + 1))
    pending: list[Event] = []
    async with aclosing(lines):
        async for line in lines:
            answer = _read(gateway, line)
            pending += answer.events
            if answer.fragment:
                continue  # Only complete answers count, since a step may continue in the next line.
            for at, changed in _changes(pending, after=revision):
                revision = at
                yield at, watched.step(at, changed)
            pending.clear()


def _read(gateway: Gateway, line: bytes) -> WatchResponse:
    """Return the decoded line; raise an error if it reports the end of the watch."""
    try:
        said = decode(line, WatchLine)
    except UNDECODABLE as error:
        gateway.refuse(Failure(message=f"the line is not one of etcd ({error})", code=UNKNOWN))
    if said.error:
        gateway.refuse(said.error)
    answer = said.result or WatchResponse()
    gateway.check(answer)
    if answer.compact_revision:
        raise WatchLost(f"etcd has dropped its history up to revision {answer.compact_revision}")
    if answer.canceled:
        raise WatchLost(f"etcd ended the watch: {answer.cancel_reason or 'no reason given'}")
    return answer


def _changes(events: Iterable[Event], *, after: int) -> Iterator[tuple[int, Changed]]:
    """Yield each revision after *after*, with the keys that changed with it."""
    for revision, together in groupby(events, lambda event: event.kv.mod_revision):
        if revision <= after:
            continue
        yield (
            revision,
            [
                (event.kv.key, None if event.type == "DELETE" else event.kv.value)
                for event in together
            ],
        )
