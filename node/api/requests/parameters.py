"""Parameters of a query: what each is called, what it may be, and what it stands for.

A parameter is declared once. Its declaration reads it from a request, refuses what it cannot be,
and describes it in the reference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiohttp import web

from rota.core.errors import Problem, Refused, invalid
from rota.core.quoting import in_quotes
from rota.core.timing.instants import (
    LATEST_INSTANT,
    Duration,
    Instant,
    parse_duration,
    parse_instant,
    seconds,
)
from rota.wire.documents import Json

T_co = TypeVar("T_co", covariant=True)

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
DIGITS_MAX = 18
TEXT_MAX = 1_000
"""Characters of a parameter, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Parameter(Generic[T_co]):
    """One parameter of the query.

    Attributes:
        name: As clients write it.
        meaning: A sentence for people.
        read: Makes the value of what is given; raises ValueError, saying what would be right.
        default: The value where nothing is given.
        schema: The texts that it takes, as JSON Schema.
        length_max: Characters; a longer text is refused unread.
    """

    name: str
    meaning: str
    read: Callable[[str], T_co]
    default: T_co
    schema: Mapping[str, Json]
    length_max: int = TEXT_MAX

    is_repeatable = False

    def of(self, request: web.Request) -> T_co:
        """Return its value in *request*.

        Raises:
            Refused: It cannot be read.
        """
        text = request.query.get(self.name)
        if text is None:
            return self.default
        return _read(self, text)


@dataclass(frozen=True, slots=True)
class Repeatable(Parameter[T_co]):
    """A parameter that a query may have several times; *default* is not used."""

    is_repeatable = True

    def all_of(self, request: web.Request) -> list[T_co]:
        """Return its values in *request*, in their order.

        Raises:
            Refused: One cannot be read.
        """
        return [_read(self, text) for text in request.query.getall(self.name, [])]


def text(name: str, meaning: str) -> Parameter[str | None]:
    """Return a parameter that is any text; None where it is not given."""
    return Parameter(name, meaning, str, None, {"type": "string", "maxLength": TEXT_MAX})


def whole_number(name: str, meaning: str, *, most: int) -> Parameter[int | None]:
    """Return a parameter that is 1 to *most*; None where it is not given."""
    return Parameter(name, meaning, _whole_number(most), None, _number_schema(most))


def whole_number_or(default: int, name: str, meaning: str, *, most: int) -> Parameter[int]:
    """Return a parameter that is 1 to *most*."""
    schema = {**_number_schema(most), "default": default}
    return Parameter(name, meaning, _whole_number(most), default, schema)


def instant(name: str, meaning: str) -> Parameter[Instant | None]:
    """Return a parameter that is an instant, RFC 3339; None where it is not given."""
    return Parameter(name, meaning, _instant, None, _INSTANT_SCHEMA)


def instant_or(default: Instant, name: str, meaning: str) -> Parameter[Instant]:
    """Return a parameter that is an instant, RFC 3339."""
    return Parameter(name, meaning, _instant, default, _INSTANT_SCHEMA)


def timespan(name: str, meaning: str, *, default: Duration) -> Parameter[Duration]:
    """Return a parameter that is a duration: seconds, or text with units."""
    return Parameter(name, meaning, _timespan, default, {"type": "string", "maxLength": TEXT_MAX})


def choice(name: str, meaning: str, words: Sequence[str]) -> Parameter[str | None]:
    """Return a parameter that is one of *words*; None where it is not given."""

    def read(given: str) -> str:
        if given not in words:
            raise ValueError(f"{in_quotes(given)} is not one of {', '.join(words)}")
        return given

    return Parameter(name, meaning, read, None, {"type": "string", "enum": list(words)})


def flag(name: str, meaning: str) -> Parameter[bool]:
    """Return a parameter that is ``true`` or ``1``, or else ``false`` or ``0``, as by default."""

    def read(given: str) -> bool:
        if given not in _FLAGS:
            raise ValueError(f"{in_quotes(given)} is not one of {', '.join(_FLAGS)}")
        return _FLAGS[given]

    schema = {"type": "string", "enum": list(_FLAGS), "default": "false"}
    return Parameter(name, meaning, read, default=False, schema=schema)


_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_INSTANT_SCHEMA = {"type": "string", "format": "date-time"}


def check_query(request: web.Request, known: Sequence[Parameter[object]]) -> None:
    """Refuse a query with a parameter that is not *known*, or has two values where one counts.

    Raises:
        Refused: Naming the parameter, which would have been ignored in silence.
    """
    by_name = {parameter.name: parameter for parameter in known}
    for name in request.query:
        if name not in by_name:
            listed = ", ".join(by_name) or "none"
            raise bad_query(
                name, f"there is no parameter {in_quotes(name)} here; there are: {listed}"
            )
        if not by_name[name].is_repeatable and len(request.query.getall(name)) > 1:
            raise bad_query(name, "is given more than once")


def number_in(given: str, *, least: int, most: int) -> int:
    """Return the whole number from *least* to *most* that *given* is.

    Raises:
        ValueError: It is none.
    """
    # Python refuses to read thousands of digits as a number; so do we, and earlier.
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
        raise bad_query(parameter.name, f"has {len(given)} characters; at most {most} are read")
    try:
        return parameter.read(given)
    except (ValueError, OverflowError) as error:
        raise bad_query(parameter.name, str(error)) from error


def _whole_number(most: int) -> Callable[[str], int]:
    return lambda given: number_in(given, least=1, most=most)


def _number_schema(most: int) -> dict[str, Json]:
    return {"type": "integer", "minimum": 1, "maximum": most}


def _instant(given: str) -> Instant:
    # A query turns the plus of an offset into a space.
    return parse_instant(given.replace(" ", "+"))


def _timespan(given: str) -> Duration:
    is_number = given.isascii() and given.replace(".", "", 1).isdecimal()
    return seconds(float(given)) if is_number else parse_duration(given)


# -- what several operations take ----------------------------------------------------------------

LIMIT = whole_number_or(
    LIMIT_DEFAULT, "limit", "How many items a page has at most.", most=LIMIT_MAX
)
FROM = instant_or(Instant(0), "from", "Only fire times from it on.")
TO = instant_or(LATEST_INSTANT, "to", "Only fire times before it.")
DRY_RUN = flag(
    "dryRun", "Check everything and answer as the request would be answered, but change nothing."
)
IS_DRY_RUN: web.RequestKey[bool] = web.RequestKey("is_dry_run", bool)
"""Whether a request that takes `DRY_RUN` asks for that."""
