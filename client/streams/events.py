"""Live events as one stream over several connections.

A node sends one JSON document per line, and an empty line after a long silence. The request for a
new connection names the last received event. A node that still has that event continues right after
it; another node, or the same node after a restart, first sends ``stream.gap``.
"""

from collections.abc import Iterator

import msgspec

from rota.client.requests import EventFilter, events
from rota.client.transport.call import Call, unreadable
from rota.core.decoding import UNDECODABLE
from rota.wire.documents import EventView

SILENCE_S = 45.0
"""After so many seconds without data a connection counts as lost; this is three times the interval
of a node's keep-alive lines."""
OPENED, GAP, DROPPED, CLOSED = "stream.opened", "stream.gap", "stream.dropped", "stream.closed"
LINE_BYTES_MAX = 16 << 20
"""The limit of an event in bytes, which no event of a node reaches."""
OF_THE_CONNECTION = (DROPPED, CLOSED)
"""The types of the last event of a connection; the stream continues over the next connection."""


class EventReader:
    """Decodes events from received bytes, and makes the request that continues after the last one.

    Args:
        wanted: The filter of the events.
        after: The id of the event after which the stream begins; empty for events from now on.
    """

    def __init__(self, wanted: EventFilter, after: str = "") -> None:
        self._wanted = wanted
        self._after = after
        self._has_begun = False
        self._rest = b""

    def next_call(self) -> Call[EventView]:
        """Return the request for the next events; an incomplete line is discarded."""
        self._rest = b""
        return events(self._wanted, self._after)

    def read(self, part: bytes) -> Iterator[EventView]:
        """Yield the events that *part* completes.

        Raises:
            NodeFailed: A line is not an event, or is too long.
        """
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise unreadable(*_STREAM, ValueError(f"a line of over {LINE_BYTES_MAX} bytes"))
        for line in filter(None, lines):
            event = _decoded(line)
            if event.type == OPENED and self._has_begun:
                # Its id is later than those of events that the node may still repeat.
                continue
            self._has_begun = True
            if event.id:
                self._after = event.id
            if event.type not in OF_THE_CONNECTION:
                yield event


_STREAM = "GET", "/api/v1/events"
_decode = msgspec.json.Decoder(EventView).decode


def _decoded(line: bytes) -> EventView:
    try:
        event = _decode(line)
    except UNDECODABLE as error:
        raise unreadable(*_STREAM, error) from error
    if not (event.id.isascii() and event.id.isprintable()):
        # The id becomes a header of the next request.
        raise unreadable(*_STREAM, ValueError(f"the id of an event is {event.id!r}"))
    return event
