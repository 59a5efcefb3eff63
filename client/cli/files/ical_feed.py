"""Coming fire times as an iCalendar file (RFC 5545)."""

from collections.abc import Iterable, Iterator, Sequence

from rota.core.timing.instants import Instant, parse_instant, to_datetime
from rota.wire.documents import NextFireView

OCTETS_MAX = 75
"""The most octets of a line; longer ones are folded."""
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n", "\r": None})


def feed(fires: Iterable[tuple[str, Sequence[NextFireView]]], now: Instant) -> str:
    """Return a file with an event for each start of jobs, which are given by full name.

    The id of an event follows from job and fire time, so that a later file replaces the event.
    Excluded times are left out. The lines end with CR and LF.
    """
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//rota//next//EN"]
    for job, views in fires:
        for view in views:
            if not view.excluded:
                lines += _event(job, view, now)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in folded(line))


def _event(job: str, view: NextFireView, now: Instant) -> Iterator[str]:
    at = _utc(parse_instant(view.at))
    yield "BEGIN:VEVENT"
    yield f"UID:{at}-{view.schedule}-{job.translate(_ESCAPES)}@rota"
    yield f"DTSTAMP:{_utc(now)}"
    yield f"DTSTART:{_utc(parse_instant(view.starts_at or view.at))}"
    yield f"SUMMARY:{job.translate(_ESCAPES)}"
    if view.note:
        yield f"DESCRIPTION:{view.note.translate(_ESCAPES)}"
    yield "END:VEVENT"


def _utc(at: Instant) -> str:
    return f"{to_datetime(at):%Y%m%dT%H%M%SZ}"


def folded(line: str) -> Iterator[str]:
    """Yield the parts of a line, of `OCTETS_MAX` octets at most; all but the first begin with " ".

    No character is divided.
    """
    part, size = "", 0
    for character in line:
        octets = len(character.encode())
        if size + octets > OCTETS_MAX:
            yield part
            part, size = " ", 1
        part += character
        size += octets
    yield part
