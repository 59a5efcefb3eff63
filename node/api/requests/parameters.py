"""Parameters of the query: names, values, defaults and descriptions.

A parameter is declared once. The declaration determines how its value is read from a request, which
values are refused, and its description in the reference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rota.core.errors import Problem, Refused, invalid
from rota.core.model.given_durations import read_duration
from rota.core.quoting import in_quotes
from rota.core.timing.instants import (
    LATEST_INSTANT,
    Duration,
    Instant,
    parse_instant,
)
from rota.node.api.requests.request_context import RequestContext
from rota.wire.documents import Json
from rota.wire.statuses import SUCCEEDED, SUCCESS, status_word

T_co = TypeVar("T_co", covariant=True)

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
DIGITS_MAX = 18
TEXT_MAX = 1_000
"""The most characters of a parameter's value, unless its declaration has another limit."""


@dataclass(frozen=True, slots=True)
class Parameter(Generic[T_co]):
    """One parameter of the query.

    Attributes:
        name: Its name in the query.
        meaning: Its description in the reference.
        read: Parses its text; raises ValueError with a message that names the valid values.
        default: The value if the parameter is absent.
        schema: The JSON Schema of its text.
        length_max: The most characters of its text; a longer text is refused before it is parsed.
    """

    name: str
    meaning: str
    read: Callable[[str], T_co]
    default: T_co
    schema: Mapping[str, Json]
    length_max: int = TEXT_MAX

    is_repeatable = False

    def of(self, request: RequestContext) -> T_co:
        """Return its value in *request*.

        Raises:
            Refused: Its text is malformed.
        """
        text = request.http.query.get(self.name)
        if text is None:
            return self.default
        return _read(self, text)


@dataclass(frozen=True, slots=True)
class Repeatable(Parameter[T_co]):
    """A parameter that may be repeated in a query; *default* is not used."""

    is_repeatable = True

    def all_of(self, request: RequestContext) -> list[T_co]:
        """Return its values in *request*, in the order of the query.

        Raises:
            Refused: One of the values is malformed.
        """
        return [_read(self, text) for text in request.http.query.getall(self.name, [])]


def text(name: str, meaning: str) -> Parameter[str | None]:
    """Return a parameter for any text; its default is None."""
    return Parameter(name, meaning, str, None, {"type": "string", "maxLength": TEXT_MAX})


def whole_number(name: str, meaning: str, *, most: int) -> Parameter[int | None]:
    """Return a parameter for a whole number from 1 to *most*; its default is None."""
    return Parameter(name, meaning, _whole_number(most), None, _number_schema(most))


def whole_number_or(default: int, name: str, meaning: str, *, most: int) -> Parameter[int]:
    """Return a parameter for a whole number from 1 to *most*; if it is absent, *default*."""
    schema = {**_number_schema(most), "default": default}
    return Parameter(name, meaning, _whole_number(most), default, schema)


def instant(name: str, meaning: str) -> Parameter[Instant | None]:
    """Return a parameter for an instant (RFC 3339); its default is None."""
    return Parameter(name, meaning, _instant, None, _INSTANT_SCHEMA)


def instant_or(default: Instant, name: str, meaning: str) -> Parameter[Instant]:
    """Return a parameter for an instant (RFC 3339); if it is absent, *default*."""
    return Parameter(name, meaning, _instant, default, _INSTANT_SCHEMA)


def timespan(name: str, meaning: str, *, default: Duration) -> Parameter[Duration]:
    """Return a parameter for a duration: a number of seconds, or text with units."""
    return Parameter(name, meaning, _timespan, default, {"type": "string", "maxLength": TEXT_MAX})


def choice(name: str, meaning: str, words: Sequence[str]) -> Parameter[str | None]:
    """Return a parameter for one of *words*; its default is None."""

    def read(given: str) -> str:
        if given not in words:
            raise ValueError(f"{in_quotes(given)} is not one of {', '.join(words)}")
        return given

    return Parameter(name, meaning, read, None, {"type": "string", "enum": list(words)})


def choice_of_status(name: str, meaning: str, words: Sequence[str]) -> Parameter[str | None]:
    """Return a parameter for one of the states *words*, or a synonym; its default is None."""
    plain = choice(name, f"{meaning} `{SUCCEEDED}` means `{SUCCESS}`.", [*words, SUCCEEDED])

    def read(given: str) -> str | None:
        return plain.read(status_word(given))

    return replace(plain, read=read)


def flag(name: str, meaning: str) -> Parameter[bool]:
    """Return a parameter for ``true`` or ``1``, ``false`` or ``0``; its default is false."""

    def read(given: str) -> bool:
        if given not in _FLAGS:
            raise ValueError(f"{in_quotes(given)} is not one of {', '.join(_FLAGS)}")
        return _FLAGS[given]

    schema = {"type": "string", "enum": list(_FLAGS), "default": "false"}
    return Parameter(name, meaning, read, default=False, schema=schema)


_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_INSTANT_SCHEMA = {"type": "string", "format": "date-time"}


def check_query(request: RequestContext, known: Sequence[Parameter[object]]) -> None:
    """Check that each parameter of the query is *known*, and is repeated only if it may be.

    Raises:
        Refused: A parameter is unknown or repeated; it would otherwise be ignored silently.
    """
    by_name = {parameter.name: parameter for parameter in known}
    query = request.http.query
    for name in query:
        if name not in by_name:
            listed = ", ".join(by_name) or "none"
            raise bad_query(
                name, f"unknown parameter {in_quotes(name)}; this request takes: {listed}"
            )
        if not by_name[name].is_repeatable and len(query.getall(name)) > 1:
            raise bad_query(name, "the parameter is repeated; give it once")


def number_in(given: str, *, least: int, most: int) -> int:
    """Return *given* as a whole number from *least* to *most*.

    Raises:
        ValueError: *given* is not such a number.
    """
    # Python raises ValueError for numbers of thousands of digits; this limit is lower.
    is_number = given.isascii() and given.isdecimal() and len(given) <= DIGITS_MAX
    if not (is_number and least <= int(given) <= most):
        raise ValueError(f"{in_quotes(given)} is not a whole number from {least} to {most}")
    return int(given)


def bad_query(name: str, detail: str) -> Refused:
    """Return the refusal of the parameter *name*."""
    return invalid("invalid_query", f"{name}: {detail}", Problem(f"/query/{name}", detail))


def _read(parameter: Parameter[T_co], given: str) -> T_co:
    most = parameter.length_max
    if len(given) > most:
        raise bad_query(
            parameter.name, f"the value has {len(given)} characters; at most {most} are allowed"
        )
    try:
        return parameter.read(given)
    except (ValueError, OverflowError) as error:
        raise bad_query(parameter.name, str(error)) from error


def _whole_number(most: int) -> Callable[[str], int]:
    return lambda given: number_in(given, least=1, most=most)


def _number_schema(most: int) -> dict[str, Json]:
    return {"type": "integer", "minimum": 1, "maximum": most}


def _instant(given: str) -> Instant:
    # In a query a plus sign stands for a space.
    return parse_instant(given.replace(" ", "+"))


def _timespan(given: str) -> Duration:
    is_number = given.isascii() and given.replace(".", "", 1).isdecimal()
    return read_duration(float(given) if is_number else given)


# -- parameters of several operations -------------------------------------------------------------

LIMIT = whole_number_or(LIMIT_DEFAULT, "limit", "The most items on a page.", most=LIMIT_MAX)
FROM = instant_or(Instant(0), "from", "Only fire times at or after this instant.")
TO = instant_or(LATEST_INSTANT, "to", "Only fire times before this instant.")
DRY_RUN = flag("dryRun", "Make all checks and return the usual response, but change nothing.")
