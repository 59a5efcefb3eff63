"""Content lines of iCalendar files (RFC 5545), and the events that they make up."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rota.client.definitions import InvalidFile
from rota.client.imports.drafts import Source

EVENTS_MAX = 10_000
"""The most events of one file."""
_PARAMETER = r"""[A-Za-z0-9-]+=(?:"[^"]*"|[^";:,]*)(?:,(?:"[^"]*"|[^";:,]*))*"""
_LINE = re.compile(rf"([A-Za-z0-9-]+)((?:;{_PARAMETER})*):(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Property:
    """A content line.

    Attributes:
        line: The number of its first line in the file, from 1.
        name: Its name, in capitals.
        value: Its value, as it is written.
        parameters: Its parameters, by their names in capitals.
    """

    line: int
    name: str
    value: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        line: The line at which it begins.
        properties: Its properties, in their order.
    """

    line: int
    properties: list[Property] = field(default_factory=list[Property])

    def all(self, name: str) -> list[Property]:
        """Return the properties of a name."""
        return [each for each in self.properties if each.name == name]

    def one(self, name: str) -> Property | None:
        """Return the first property of a name; None if there is none."""
        return next(iter(self.all(name)), None)

    def text(self, name: str) -> str:
        """Return the value of a property without escapes; empty if there is none."""
        found = self.one(name)
        return re.sub(r"\\(.)", _unescaped, found.value) if found else ""

    @property
    def title(self) -> str:
        """A phrase for it."""
        return repr(self.text("SUMMARY") or "without a summary")


def _unescaped(found: re.Match[str]) -> str:
    return " " if found[1] in "nN" else found[1]


def read_events(source: Source) -> tuple[Event, list[Event]]:
    """Return the calendar's own properties, as an event, and its events.

    Raises:
        InvalidFile: The file is not in this format, or has too many events.
    """
    whole, events = Event(1), list[Event]()
    open_names: list[Property] = []
    for each in _properties(source):
        if each.name == "BEGIN":
            open_names.append(each)
            if each.value.upper() == "VEVENT":
                events.append(Event(each.line))
        elif each.name == "END":
            if not open_names or open_names[-1].value.upper() != each.value.upper():
                detail = f"END:{each.value} ends nothing that is open; export the file again"
                raise InvalidFile(f"{source.name}:{each.line}: {detail}")
            open_names.pop()
        elif not open_names:
            raise _no_calendar(source, each.line)
        elif open_names[-1].value.upper() == "VEVENT":
            events[-1].properties.append(each)
        elif len(open_names) == 1:
            whole.properties.append(each)
        if open_names and open_names[0].value.upper() != "VCALENDAR":
            raise _no_calendar(source, each.line)
        if len(events) > EVENTS_MAX:
            detail = f"the file has more than {EVENTS_MAX:,} events; import parts of it"
            raise InvalidFile(f"{source.name}:{each.line}: {detail}")
    if open_names:
        detail = f"{open_names[-1].value} has no end; the file is cut off, so export it again"
        raise InvalidFile(f"{source.name}:{open_names[-1].line}: {detail}")
    if not whole.properties and not events:
        raise _no_calendar(source, 1)
    return whole, events


def _no_calendar(source: Source, line: int) -> InvalidFile:
    detail = "the file is no iCalendar file, which begins with BEGIN:VCALENDAR; export it as .ics"
    return InvalidFile(f"{source.name}:{line}: {detail}")


def _properties(source: Source) -> Iterator[Property]:
    for line, text in _unfolded(source.text):
        found = _LINE.fullmatch(text)
        if found is None:
            if line == 1:
                raise _no_calendar(source, line)
            detail = f"{text[:40]!r} is no NAME:VALUE; correct or remove the line"
            raise InvalidFile(f"{source.name}:{line}: {detail}")
        parameters = {
            name.upper(): value.strip('"')
            for name, _, value in (each.partition("=") for each in re.findall(_PARAMETER, found[2]))
        }
        yield Property(line, found[1].upper(), found[3].strip(), parameters)


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line with the number of its first line; a fold begins with a space."""
    start, parts = 1, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.removesuffix("\r")
        if plain[:1] in (" ", "\t") and parts:
            parts.append(plain[1:])
            continue
        if parts:
            yield start, "".join(parts)
        start, parts = number, [plain] if plain.strip() else []
    if parts:
        yield start, "".join(parts)
