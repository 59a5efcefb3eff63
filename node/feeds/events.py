"""Live events of this node, and their readers.

A ring buffer holds the newest `KEPT` events in the order of their commits. Publishing only stores
the core's effect in the buffer, since every execution publishes events, mostly without a reader.
The document of an event is made when the first reader gets the event, once for all readers.

A reader has a position in the buffer and no queue of its own, so a slow reader takes no memory. A
reader that falls too far behind is dropped, and may continue from the last id that it got. An id is
``<life>-<number>``: eight hex digits, which are random for each process of the node, and the number
of the event. It means that the reader has seen all events up to that one. A reader that may have
missed events gets a ``gap`` event. A reader of several nodes has an id for each node, joined by
commas.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.execution import ExecutionStatus, TaskStatus
from rota.core.model.hook import HookEvent, HookOutcome
from rota.core.model.ids import ExecutionId, JobId, namespace_of
from rota.core.model.ledger import FireOutcome
from rota.core.model.reason import without_message
from rota.core.quoting import in_quotes
from rota.core.timing.instants import SECOND, Duration, Instant, format_instant
from rota.core.vocabulary.effects import (
    JobEvent,
    Publish,
    PublishFires,
    PublishHook,
    PublishJob,
    TaskEvent,
)
from rota.node.system.clock import Clock
from rota.node.system.pacing import Pace
from rota.wire.documents import EventView

KEPT = 10_000
"""The number of events that can still be read: those of a quarter of a second at full load, of
hours otherwise."""
LAG_MAX = 1_000
"""The number of events by which a reader may be behind without a time limit."""
PATIENCE = Duration(5 * SECOND)
"""The time for which a reader may be further behind, since one commit may publish thousands of
events."""
READERS_MAX = 1_000
READERS_PER_PRINCIPAL_MAX = READERS_MAX // 4
"""The most readers of one principal, so that none can shut out all others."""
BATCH_MAX = 256
"""The most events that a reader gets at once, about 80 KB, before the next reader gets events."""
KEEP_ALIVE_S = 15.0
"""The time without events after which a reader gets an empty batch, since proxies often close a
connection that is silent for a minute."""


class HookAttempt(Enum):
    """What happens to a hook before its end."""

    RETRYING = "retrying"
    """The receiver has not accepted the webhook, which is sent again."""


class HookRetrying(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A failed attempt of a webhook, observed by this node: no decision of the shard.

    Attributes:
        at: The time of this node's clock.
        job: The full name of the job whose hook it is.
        execution_id: Whose event it is.
        target: The origin of the webhook's URL.
        detail: The reason, and the time of the next attempt.
    """

    at: Instant
    job_id: JobId
    job: str
    execution_id: ExecutionId
    event: HookEvent
    target: str
    detail: str


Event = Publish | PublishJob | PublishFires | PublishHook | HookRetrying
Happening = (
    ExecutionStatus | TaskStatus | TaskEvent | JobEvent | FireOutcome | HookOutcome | HookAttempt
)

TYPES: Mapping[Happening, str] = {
    **{event: f"job.{event.value}" for event in JobEvent},
    # A fire time that fired has the events of its execution.
    **{each: f"fire.{each.value}" for each in FireOutcome if each is not FireOutcome.FIRED},
    **{each: f"hook.{each.value}" for each in HookOutcome},
    HookAttempt.RETRYING: "hook.retrying",
    **{status: f"execution.{status.value}" for status in ExecutionStatus},
    # Tasks are blocked from the beginning of their execution, which is not an event.
    **{status: f"task.{status.value}" for status in TaskStatus if status is not TaskStatus.BLOCKED},
    **{event: f"task.{event.value}" for event in TaskEvent},
}
"""The type of the event of each happening."""

_ID = re.compile(r"(?P<life>[0-9a-f]{8})-(?P<number>0|[1-9][0-9]{0,17})", re.ASCII)


class EventId(NamedTuple):
    """All events up to *number* of the node's process *life*."""

    life: str
    number: int

    def __str__(self) -> str:
        return f"{self.life}-{self.number}"


Seen = dict[str, int]
"""The events of several nodes that a reader has seen: all events of each life up to a number."""


def parse_seen(text: str) -> Seen:
    """Return the position that the joined ids in *text* describe.

    Raises:
        ValueError: The text does not consist of ids.
    """
    found = [_ID.fullmatch(part) for part in text.split(",")]
    seen = {each["life"]: int(each["number"]) for each in found if each}
    if len(seen) != len(found):
        raise ValueError(
            f"{in_quotes(text)} is not the id of an event, such as 5f0c91aa-1024; send the id of "
            "the last event, or nothing"
        )
    return seen


def format_seen(seen: Seen) -> str:
    """Return the ids of *seen* with commas between them."""
    return ",".join(str(EventId(life, number)) for life, number in seen.items())


class EncodedEvent(NamedTuple):
    """An event in the form for readers: *document* is its JSON."""

    id: str
    type: str
    document: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Filter of a reader; a field that is None or empty admits all events."""

    happenings: frozenset[Happening] | None = None
    namespace: str = ""
    job_id: JobId | None = None
    execution_id: ExecutionId | None = None
    may_see: Callable[[str], bool] = lambda namespace: True
    """Returns True if the reader may read the events of a namespace."""
    may_read_output: Callable[[str], bool] = lambda namespace: True
    """Returns True if the reader may read what attempts of a namespace wrote."""

    def admits(self, event: Event) -> bool:
        """Return True if *event* passes the filter."""
        if self.execution_id is not None and (
            not isinstance(event, Publish | PublishHook | HookRetrying)
            or event.execution_id != self.execution_id
        ):
            return False
        return (
            (self.job_id is None or event.job_id == self.job_id)
            and (not self.namespace or event.job.startswith(f"{self.namespace}/"))
            and (self.happenings is None or _happening(event) in self.happenings)
            and self.may_see(namespace_of(event.job))
        )

    def shown(self, event: Event) -> Event:
        """Return *event*, without the message of an exception that the reader may not read."""
        if (
            not isinstance(event, Publish)
            or event.status is TaskStatus.READY  # Its detail is the node's.
            or self.may_read_output(namespace_of(event.job))
        ):
            return event
        detail = without_message(event.detail)
        return event if detail == event.detail else replace(event, detail=detail)


class Events:
    """The newest events, and their readers.

    Args:
        life: Eight hex digits, random for each process of the node.
        clock: Gives the times of events about the stream itself.

    Attributes:
        life: The same as the argument.
        clock: The same as the argument.
        count: The number of events published by this process, which is the number of the newest.
        is_closed: Whether the node stops, so that no more events are published.
    """

    def __init__(self, life: str, clock: Clock) -> None:
        self.life = life
        self.clock = clock
        self.count = 0
        self.is_closed = False
        self._kept: list[Event | None] = [None] * KEPT
        self._encoded: list[EncodedEvent | None] = [None] * KEPT
        self._readers: set[Reader] = set()
        self._principals: Counter[str] = Counter()
        self._news = asyncio.Event()

    @property
    def reader_count(self) -> int:
        """The number of readers."""
        return len(self._readers)

    @property
    def oldest(self) -> int:
        """The number of the oldest event that can still be read."""
        return max(1, self.count - len(self._kept) + 1)

    def publish(self, event: Event) -> None:
        """Store *event*, and wake the waiting readers, once per iteration of the event loop."""
        if self.is_closed:
            return
        self.count += 1
        position = self.count % len(self._kept)
        self._kept[position] = event
        self._encoded[position] = None
        if self._readers:
            self._news.set()

    @contextmanager
    def reader(
        self, wanted: Filter, after: Seen | None = None, *, principal: str = ""
    ) -> Generator["Reader"]:
        """Yield a reader of the events from now on, or of those after the position *after*.

        Args:
            wanted: The filter.
            after: The position.
            principal: The identity of the caller; empty for one that is not authenticated.

        Raises:
            Refused: There are too many readers, or too many of the principal; or the node stops.
        """
        if self.is_closed:
            raise Refused(
                Kind.UNAVAILABLE, "stopping", "this node is stopping; try again", retry_after_s=1
            )
        self._check_count(principal)
        reader = Reader(self, wanted, after)
        self._readers.add(reader)
        self._principals[principal] += 1
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            self._principals[principal] -= 1
            if not self._principals[principal]:
                del self._principals[principal]

    def _check_count(self, principal: str) -> None:
        """Check that there may be one more reader.

        Raises:
            Refused: There are too many readers, or too many of the principal.
        """
        count, of, limit = len(self._readers), "this node", READERS_MAX
        if principal and self._principals[principal] >= READERS_PER_PRINCIPAL_MAX:
            count, of = self._principals[principal], f"{principal!r} at this node"
            limit = READERS_PER_PRINCIPAL_MAX
        if count >= limit:
            raise Refused(
                Kind.UNAVAILABLE,
                "too_many_readers",
                f"{count} requests follow events, which is the limit of {of}; "
                "end streams that are not needed, or try again later",
                retry_after_s=5,
            )

    def close(self) -> None:
        """End each reader when it has got all events published until now."""
        self.is_closed = True
        self._news.set()

    async def wait_news(self) -> None:
        """Wait for the next event; the caller must have seen all events."""
        self._news.clear()
        await self._news.wait()

    def event(self, number: int) -> Event:
        """Return event *number*, which must still be kept."""
        event = self._kept[number % len(self._kept)]
        assert event is not None, number
        return event

    def encoded(self, number: int, *, shown: Event) -> EncodedEvent:
        """Return event *number* in the form for readers that may read *shown* of it."""
        if shown is not self.event(number):
            return _encoded(EventId(self.life, number), shown)
        position = number % len(self._encoded)
        encoded = self._encoded[position]
        if encoded is None:
            encoded = _encoded(EventId(self.life, number), shown)
            self._encoded[position] = encoded
        return encoded


class Reader:
    """A reader of events.

    Args:
        events: The events of this node.
        wanted: The filter of the reader.
        after: The position after which the reader begins; None for the present one.

    Attributes:
        seen: The number of the last event that was read or filtered out.
    """

    def __init__(self, events: Events, wanted: Filter, after: Seen | None) -> None:
        self._events = events
        self._wanted = wanted
        self._late_at: Instant | None = None
        number = None if after is None else after.get(events.life)
        is_known = number is not None and events.oldest - 1 <= number <= events.count
        self._has_gap = after is not None and not is_known
        self.seen = number if number is not None and is_known else events.count

    async def batches(self) -> AsyncGenerator[list[EncodedEvent]]:
        """Yield the next events, at most `BATCH_MAX` at a time.

        An empty batch shows that the connection still exists. The last batch contains the reason
        for the end of the stream: the reader has been too slow, or the node stops.
        """
        yield self._opening()
        loop, pace = asyncio.get_running_loop(), Pace()
        silent_until = loop.time() + KEEP_ALIVE_S
        while not self._is_lost():
            batch = self._take()
            if batch:
                yield batch
                # Sending waits only for a full buffer, and a reader far behind gets many batches.
                await asyncio.sleep(0)
            elif self._events.is_closed:
                yield [self._stream_event("closed", "the node stops")]
                return
            else:
                try:
                    async with asyncio.timeout_at(silent_until):
                        await self._events.wait_news()
                    # One event wakes all readers; the pace spreads them over several iterations.
                    await pace.next_slice()
                    continue
                except TimeoutError:
                    yield []
            silent_until = loop.time() + KEEP_ALIVE_S
        yield [self._stream_event("dropped", "you were too slow; continue from this id")]

    def _stream_event(self, word: str, detail: str = "") -> EncodedEvent:
        """Return an event about the stream itself; a reader misses nothing after its id."""
        event_id = str(EventId(self._events.life, self.seen))
        view = EventView(
            id=event_id,
            type=f"stream.{word}",
            at=format_instant(self._events.clock.now()),
            detail=detail,
        )
        return EncodedEvent(event_id, view.type, msgspec.json.encode(view))

    def _opening(self) -> list[EncodedEvent]:
        opening = [self._stream_event("opened")]
        if self._has_gap:
            opening.append(self._stream_event("gap", "events may have been missed; list again"))
        return opening

    def _is_lost(self) -> bool:
        """Return True if this reader is too far behind, and is to be dropped."""
        if self.seen + 1 < self._events.oldest:
            return True
        if self._events.count - self.seen <= LAG_MAX:
            self._late_at = None
            return False
        now = self._events.clock.elapsed()
        if self._late_at is None:
            self._late_at = now
        return now - self._late_at > PATIENCE

    def _take(self) -> list[EncodedEvent]:
        """Return the next events that pass the filter; empty if all have been seen."""
        batch: list[EncodedEvent] = []
        while self.seen < self._events.count and len(batch) < BATCH_MAX:
            self.seen += 1
            event = self._events.event(self.seen)
            if self._wanted.admits(event):
                batch.append(self._events.encoded(self.seen, shown=self._wanted.shown(event)))
        return batch


def _happening(event: Event) -> Happening:
    if isinstance(event, PublishJob):
        return event.event
    if isinstance(event, PublishFires | PublishHook):
        return event.outcome
    if isinstance(event, HookRetrying):
        return HookAttempt.RETRYING
    return event.status if event.percent is None else TaskEvent.PROGRESS


def _encoded(event_id: EventId, event: Event) -> EncodedEvent:
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
        if isinstance(event, PublishFires):
            view = replace(view, fire_at=format_instant(event.fire_at), count=event.count)
        elif isinstance(event, PublishHook):
            detail = f"{event.event.value}, {event.target}: {event.detail or event.outcome.value}"
            view = replace(view, execution_id=event.execution_id, detail=detail)
        elif isinstance(event, HookRetrying):
            detail = f"{event.event.value}, {event.target}: {event.detail}"
            view = replace(view, execution_id=event.execution_id, detail=detail)
    return EncodedEvent(text, kind, msgspec.json.encode(view))
