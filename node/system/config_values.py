"""Kinds of values of settings, each with its parser and its description.

A parser gets text from the environment or a flag, or a value of TOML. It returns the value of the
setting, or raises ValueError with the problem.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from rota.core.model.given_durations import read_duration
from rota.core.model.ids import NAME_RULE, NodeId, is_name
from rota.core.timing.instants import Duration, format_duration

T = TypeVar("T")
Number = TypeVar("Number", bound=float)
Parser: TypeAlias = Callable[[object], T]


@dataclass(frozen=True)
class Values(Generic[T]):
    """The values that a setting may have.

    Attributes:
        parse: Returns the value that a text or a value of TOML stands for; raises ValueError.
        metavar: The placeholder in ``--help``; empty for a flag that takes no value.
        text: The description of the values, in Markdown.
        show: Returns the text that `parse` reads as a given value.
        may_be_repeated: Whether the flag may be given several times.
    """

    parse: Parser[T]
    metavar: str
    text: str
    show: Callable[[T], str] = str
    may_be_repeated: bool = False


class Address(NamedTuple):
    """An address to listen on or to be reached at; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_specific(self) -> bool:
        """Whether the address names one host and one port, so that it can be advertised."""
        return bool(self.port) and self.host not in ("0.0.0.0", "::")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


AUTO = "auto"
"""An advertised address that the node finds itself (`rota.node.system.advertised_address`)."""


def count(low: int, high: int, *, unit: str = "", note: str = "") -> Values[int]:
    """Return whole numbers from *low* to *high*; *unit* and *note* describe them."""
    text = f"{unit and f'{unit}, '}{low:,} to {high:,}{note and f'; {note}'}"
    return Values(_within(_whole_number, low, high, str), unit or "NUMBER", text)


def number(low: float, high: float) -> Values[float]:
    """Return numbers from *low* to *high*."""
    return Values(_within(_number, low, high, "{:.15g}".format), "NUMBER", f"{low:g} to {high:g}")


def duration(low: Duration, high: Duration) -> Values[Duration]:
    """Return durations from *low* to *high*."""
    text = f"a duration, {format_duration(low)} to {format_duration(high)}"
    parse = _within(_duration, low, high, format_duration)
    return Values(parse, "DURATION", text, format_duration)


def one_of(*words: str) -> Values[str]:
    """Return the *words*."""

    def parse(value: object) -> str:
        if value not in words:
            raise ValueError(f"{value!r} is not one of {', '.join(words)}")
        return str(value)

    return Values(parse, "|".join(words), ", ".join(f"`{word}`" for word in words))


# -- parsers --------------------------------------------------------------------------------------


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is not text")
    return value


def _path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if not _text(value):
        raise ValueError("is empty; name a directory")
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{value!r}: no such user") from error


def _name(value: object) -> str:
    if not is_name(_text(value)):
        raise ValueError(f"{value!r} is not a name: {NAME_RULE}")
    return _text(value)


def _address(value: object) -> Address:
    host, colon, port = _text(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{value!r} is not HOST:PORT, for example 127.0.0.1:7400")
    return Address(host, int(port))


def _url(value: object) -> str:
    given = _text(value)
    try:
        parts = urlsplit(given)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        has_user = "@" in parts.netloc
    except ValueError:
        is_whole, has_user = False, False
    if not is_whole or has_user or not re.fullmatch(r"[!-~]+", given):
        raise ValueError(f"{given!r} is not a URL such as https://audit.example.org/rota")
    return given


def _advertised(value: object) -> str:
    return str(_address(value)) if value and value != AUTO else str(value or "")


def _labels(value: object) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in _items(value):
        key, equals, label = _text(pair).partition("=")
        if not equals or not is_name(key):
            raise ValueError(f"{pair!r} is not KEY=VALUE")
        labels[key] = label
    return labels


def _items(value: object) -> Sequence[object]:
    """Return the items of a list, of a table (as ``key=value``) or of text with commas."""
    if isinstance(value, (list, tuple)):
        return cast("Sequence[object]", value)  # isinstance cannot check items; the callers do
    if isinstance(value, dict):
        table = cast("Mapping[object, object]", value)  # The same.
        return [f"{key}={item}" for key, item in table.items()]
    return _text(value).split(",")


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    known = words.get(_text(value).lower())
    if known is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return known


def _whole_number(value: object) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _number(value: object) -> float:
    try:
        found = float(_text(value)) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        raise ValueError(f"{value!r} is not a number")
    return float(found)


def _duration(value: object) -> Duration:
    """Return a duration; a number without a unit counts seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return read_duration(f"{value}s")
    text = _text(value)
    return read_duration(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)


def _listed(pattern: str, example: str, clean: Callable[[str], str]) -> Parser[tuple[str, ...]]:
    """Return the parser of lists of texts that match *pattern* after *clean*."""

    def parse(value: object) -> tuple[str, ...]:
        items = tuple(clean(_text(item).strip()) for item in _items(value) if item)
        for item in items:
            if not re.fullmatch(pattern, item):
                raise ValueError(f"{item!r} is not {example}")
        return items

    return parse


def _within(
    parse: Parser[Number], low: Number, high: Number, show: Callable[[Number], str]
) -> Parser[Number]:
    def parse_within(value: object) -> Number:
        parsed = parse(value)
        if not low <= parsed <= high:
            limits = f"give a value from {show(low)} to {show(high)}"
            raise ValueError(f"{show(parsed)} is out of range; {limits}")
        return parsed

    return parse_within


# -- kinds without limits -------------------------------------------------------------------------

# fmt: off
TEXT = Values(_text, "TEXT", "text")
TRUTH = Values(
    _truth, "", "true or false; the flag alone means true", lambda value: str(value).lower())
NAME = Values(_name, "NAME", "a name")
NODE_NAME = Values(lambda value: NodeId(_name(value)), "NAME", "a name")
NAME_OR_EMPTY = Values(lambda value: _name(value) if value else "", "NAME", "a name")
DIRECTORY = Values(_path, "DIR", "a directory; `~` is the home directory")
FILE: Values[Path | None] = Values(
    lambda value: _path(value) if value else None, "FILE", "a file")
ADDRESS = Values(
    _address, "HOST:PORT", "`HOST:PORT`, for IPv6 `[HOST]:PORT`; port 0 is any free port")
ADVERTISED = Values(_advertised, "HOST:PORT", "`HOST:PORT` or `auto`")
ANY_DURATION = Values(_duration, "DURATION", "a duration", format_duration)
LABELS = Values(
    _labels, "K=V", "a table, or `key=value` as a list or separated by commas",
    may_be_repeated=True)
URLS = Values(
    _listed(r"https?://[^/\s]+/?", "a URL such as http://127.0.0.1:2379", str),
    "URL,URL", "URLs, as a list or separated by commas")
URL: Values[str] = Values(
    lambda value: _url(value) if value else "", "URL", "a URL of http or https")
HOSTS = Values(
    _listed(
        r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*",
        "a name such as rota.example.org or *.example.org, without a port",
        lambda text: text.lower().removesuffix(".")),
    "NAME,NAME",
    "names such as `rota.example.org` or `*.example.org`, as a list or separated by commas")
WEBHOOK_HOSTS = Values(
    _listed(
        r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]*:[0-9a-f:.]*",
        "a host such as hooks.example.org, *.example.org or 127.0.0.1, without a port, or *",
        lambda text: text.lower().removesuffix(".").strip("[]")),
    "HOST,HOST",
    "hosts such as `hooks.example.org`, `*.example.org` or `127.0.0.1`, or `*` for all, as a list "
    "or separated by commas")
USERS = Values(
    _listed(r"[a-z_][a-z0-9_-]{0,31}", "the name of a user such as batch", str),
    "NAME,NAME", "names of users, as a list or separated by commas")
ORIGINS = Values(
    _listed(r"https?://[^/\s*]+", "an origin such as https://rota.example.org", str.lower),
    "URL,URL", "origins such as `https://rota.example.org`, as a list or separated by commas")
# fmt: on
