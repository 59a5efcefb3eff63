"""The live events of a node as one stream, whatever becomes of the connections below it.

A node sends one JSON document a line, and an empty line when it has been silent for long. Whoever
connects again names the last event it has seen. A node that still knows that event goes on right
after it; another node, or the same one in its next life, says ``stream.gap`` first.
"""

from collections.abc import Iterator

import msgspec

from rota.client.requests import EventFilter, events
from rota.client.transport.call import Call, unreadable
from rota.core.decoding import UNDECODABLE
from rota.wire.documents import EventView

SILENCE_S = 45.0
"""Three of a node's signs of life."""
OPENED, GAP, DROPPED, CLOSED = "stream.opened", "stream.gap", "stream.dropped", "stream.closed"
LINE_BYTES_MAX = 16 << 20
"""Of an event: more than a node ever says at once."""
OF_THE_CONNECTION = (DROPPED, CLOSED)
"""The last word of a connection; the stream goes on over the next one."""


class EventReader:
    """Makes events of the bytes that come, and the request that goes on after the last of them.

    Args:
        wanted: Which events.
        after: The id of the event to go on after; empty for those from now on.
    """

    def __init__(self, wanted: EventFilter, after: str = "") -> None:
        self._wanted = wanted
        self._after = after
        self._has_begun = False
        self._rest = b""

    def next_call(self) -> Call[None]:
        """Return the request for what has not come yet; the part of a line is forgotten."""
        self._rest = b""
        return events(self._wanted, self._after)

    def read(self, part: bytes) -> Iterator[EventView]:
        """Yield the events that *part* completes, for the caller to see.

        Raises:
            NodeFailed: A line is no event, or has no end.
        """
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise unreadable(_STREAM, ValueError(f"a line of over {LINE_BYTES_MAX} bytes"))
        for line in filter(None, lines):
            event = _decoded(line)
            if event.type == OPENED and self._has_begun:
                # Its id is later than what a node is still about to repeat.
                continue
            self._has_begun = True
            if event.id:
                self._after = event.id
            if event.type not in OF_THE_CONNECTION:
                yield event


_STREAM = "GET /api/v1/events"
_decode = msgspec.json.Decoder(EventView).decode


def _decoded(line: bytes) -> EventView:
    try:
        event = _decode(line)
    except UNDECODABLE as error:
        raise unreadable(_STREAM, error) from error
    if not (event.id.isascii() and event.id.isprintable()):
        # It goes into a header of the next request.
        raise unreadable(_STREAM, ValueError(f"the id of an event is {event.id!r}"))
    return event
