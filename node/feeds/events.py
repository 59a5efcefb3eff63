"""What has just happened on this node, for those who follow it live.

The newest `KEPT` events stand in a ring, in the order in which they were committed. Publishing puts
the core's effect there and does no more: it is on the way of every execution, mostly with nobody
watching. A document is made when the first reader comes to the event, once for all of them.

A reader has a place in the ring and no queue of its own, so that its slowness costs no memory: one
that falls too far behind is dropped, and may come back with the last id that it got. An id is
``<life>-<number>``, eight hex digits that are the node's in this life and how many events that has
published until then. It means "I have seen everything up to here"; what cannot be known to be
everything is told as a gap. Whoever follows several nodes has an id of each, joined by commas.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rota.core.errors import Kind, Refused
from rota.core.model.execution import ExecutionStatus, TaskStatus
from rota.core.model.ids import ExecutionId, JobId
from rota.core.timing.instants import SECOND, Duration, Instant, format_instant
from rota.core.vocabulary.effects import JobEvent, Publish, PublishJob, TaskEvent
from rota.node.system.clock import Clock
from rota.wire.documents import EventView

KEPT = 10_000
"""Events that can still be read; those of a quarter of a second at full load, else of hours."""
LAG_MAX = 1_000
"""Events that a reader may be behind for as long as it likes."""
PATIENCE = Duration(5 * SECOND)
"""How long it may be further behind: one commit may publish thousands, which is no fault of its."""
READERS_MAX = 1_000
BATCH_MAX = 256
"""Events that a reader is given at once, some 80 KB; then it is the others' turn."""
KEEP_ALIVE_S = 15.0
"""Silence after which a reader is given an empty batch: proxies cut what is silent for a minute."""

Event = Publish | PublishJob
Happening = ExecutionStatus | TaskStatus | TaskEvent | JobEvent

TYPES: Mapping[Happening, str] = {
    **{event: f"job.{event.value}" for event in JobEvent},
    **{status: f"execution.{status.value}" for status in ExecutionStatus},
    # A task is blocked from the beginning of its execution on: nobody is told.
    **{status: f"task.{status.value}" for status in TaskStatus if status is not TaskStatus.BLOCKED},
    **{event: f"task.{event.value}" for event in TaskEvent},
}
"""What may happen, by the type of its event."""

_ID = re.compile(r"(?P<life>[0-9a-f]{8})-(?P<number>0|[1-9][0-9]{0,17})", re.ASCII)


class EventId(NamedTuple):
    """Everything up to event *number* of the node's life *life*."""

    life: str
    number: int

    def __str__(self) -> str:
        return f"{self.life}-{self.number}"


Seen = dict[str, int]
"""What a reader has seen of several nodes' events: of each life, everything up to a number."""


def parse_seen(text: str) -> Seen:
    """Return what the ids joined in *text* stand for.

    Raises:
        ValueError: It is not made of ids.
    """
    found = [_ID.fullmatch(part) for part in text.split(",")]
    seen = {each["life"]: int(each["number"]) for each in found if each}
    if len(seen) != len(found):
        raise ValueError(f"{text!r} is not the id of an event, such as 5f0c91aa-1024")
    return seen


def format_seen(seen: Seen) -> str:
    """Return the ids of *seen*, joined."""
    return ",".join(str(EventId(life, number)) for life, number in seen.items())


class Told(NamedTuple):
    """An event as readers get it: *document* is its JSON."""

    id: str
    type: str
    document: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which events a reader wants; what is None or empty admits all."""

    happenings: frozenset[Happening] | None = None
    namespace: str = ""
    job_id: JobId | None = None
    execution_id: ExecutionId | None = None

    def admits(self, event: Event) -> bool:
        """Tell whether *event* is wanted."""
        if self.execution_id is not None and (
            isinstance(event, PublishJob) or event.execution_id != self.execution_id
        ):
            return False
        return (
            (self.job_id is None or event.job_id == self.job_id)
            and (not self.namespace or event.job.startswith(f"{self.namespace}/"))
            and (self.happenings is None or _happening(event) in self.happenings)
        )


class Events:
    """The newest events, and who reads them.

    Args:
        life: Eight hex digits that no other life of the node has.
        clock: For the instants of what the stream says of itself.

    Attributes:
        count: Events published in this life; the number of the newest.
    """

    def __init__(self, life: str, clock: Clock) -> None:
        self.life = life
        self.clock = clock
        self.count = 0
        self.is_closed = False
        self._kept: list[Event | None] = [None] * KEPT
        self._told: list[Told | None] = [None] * KEPT
        self._readers: set[Reader] = set()
        self._news = asyncio.Event()

    @property
    def reader_count(self) -> int:
        """How many follow."""
        return len(self._readers)

    @property
    def oldest(self) -> int:
        """The number of the oldest event that can still be read."""
        return max(1, self.count - len(self._kept) + 1)

    def publish(self, event: Event) -> None:
        """Keep *event*, and wake those who wait: all at once, and once a turn of the loop."""
        if self.is_closed:
            return
        self.count += 1
        place = self.count % len(self._kept)
        self._kept[place] = event
        self._told[place] = None
        if self._readers:
            self._news.set()

    @contextmanager
    def reader(self, wanted: Filter, after: Seen | None = None) -> Generator["Reader"]:
        """Follow what happens from now on, or all that has since *after*.

        Raises:
            Refused: Too many follow already, or the node stops.
        """
        if self.is_closed:
            raise Refused(
                Kind.UNAVAILABLE, "stopping", "this node is stopping; ask again", retry_after_s=1
            )
        if len(self._readers) >= READERS_MAX:
            raise Refused(
                Kind.UNAVAILABLE,
                "too_many_readers",
                f"{len(self._readers)} requests follow events, which is this node's limit",
                retry_after_s=5,
            )
        reader = Reader(self, wanted, after)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def close(self) -> None:
        """Let readers have what was published until now, and end them."""
        self.is_closed = True
        self._news.set()

    async def wait_news(self) -> None:
        """Return when something has happened; for a reader that has seen everything."""
        self._news.clear()
        await self._news.wait()

    def event(self, number: int) -> Event:
        """Return the event of that number, which must still be kept."""
        event = self._kept[number % len(self._kept)]
        assert event is not None, number
        return event

    def told(self, number: int) -> Told:
        """Return the event of that number as readers get it."""
        place = number % len(self._told)
        told = self._told[place]
        if told is None:
            told = self._told[place] = _told(EventId(self.life, number), self.event(number))
        return told


class Reader:
    """One who follows.

    Args:
        events: What is followed.
        wanted: What of it is wanted.
        after: Where to go on; None for now.

    Attributes:
        seen: Number of the last event that was taken, or passed over as not wanted.
    """

    def __init__(self, events: Events, wanted: Filter, after: Seen | None) -> None:
        self._events = events
        self._wanted = wanted
        self._late_at: Instant | None = None
        number = None if after is None else after.get(events.life)
        is_known = number is not None and events.oldest - 1 <= number <= events.count
        self._has_gap = after is not None and not is_known
        self.seen = number if number is not None and is_known else events.count

    async def batches(self) -> AsyncGenerator[list[Told]]:
        """Yield what is to be sent next, at most `BATCH_MAX` events at a time.

        An empty batch is a sign of life. The last one says why it is the last: the reader has been
        too slow, or the node stops.
        """
        yield self._opening()
        loop = asyncio.get_running_loop()
        silent_until = loop.time() + KEEP_ALIVE_S
        while not self._is_lost():
            batch = self._take()
            if batch:
                yield batch
                # Sending waits for a full buffer only, and a long way to catch up has many batches.
                await asyncio.sleep(0)
            elif self._events.is_closed:
                yield [self._says("closed", "the node stops")]
                return
            else:
                try:
                    async with asyncio.timeout_at(silent_until):
                        await self._events.wait_news()
                    continue
                except TimeoutError:
                    yield []
            silent_until = loop.time() + KEEP_ALIVE_S
        yield [self._says("dropped", "you were too slow; go on from this id")]

    def _says(self, word: str, detail: str = "") -> Told:
        """Return an event of the stream itself; going on from its id misses nothing."""
        event_id = str(EventId(self._events.life, self.seen))
        view = EventView(
            id=event_id,
            type=f"stream.{word}",
            at=format_instant(self._events.clock.now()),
            detail=detail,
        )
        return Told(event_id, view.type, msgspec.json.encode(view))

    def _opening(self) -> list[Told]:
        opening = [self._says("opened")]
        if self._has_gap:
            opening.append(self._says("gap", "something may have been missed; list again"))
        return opening

    def _is_lost(self) -> bool:
        """Tell whether this reader is not to be waited for any longer."""
        if self.seen + 1 < self._events.oldest:
            return True
        if self._events.count - self.seen <= LAG_MAX:
            self._late_at = None
            return False
        now = self._events.clock.elapsed()
        if self._late_at is None:
            self._late_at = now
        return now - self._late_at > PATIENCE

    def _take(self) -> list[Told]:
        """Return the next events that are wanted; if there are none, all has been seen."""
        batch: list[Told] = []
        while self.seen < self._events.count and len(batch) < BATCH_MAX:
            self.seen += 1
            if self._wanted.admits(self._events.event(self.seen)):
                batch.append(self._events.told(self.seen))
        return batch


def _happening(event: Event) -> Happening:
    if isinstance(event, PublishJob):
        return event.event
    return event.status if event.percent is None else TaskEvent.PROGRESS


def _told(event_id: EventId, event: Event) -> Told:
    text, kind = str(event_id), TYPES[_happening(event)]
    if isinstance(event, Publish):
        view = EventView(
            id=text,
            type=kind,
            at=format_instant(event.at),
            job_id=event.job_id,
            job=event.job,
            execution_id=event.execution_id,
            task=event.task or None,
            attempt=event.attempt or None,
            status=event.status.value,
            detail=event.detail,
            progress=event.percent,
        )
    else:
        view = EventView(
            id=text,
            type=kind,
            at=format_instant(event.at),
            job_id=event.job_id,
            job=event.job,
            detail=event.detail,
        )
    return Told(text, kind, msgspec.json.encode(view))
