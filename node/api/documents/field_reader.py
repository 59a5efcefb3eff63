"""Fields of what a client sends, read one by one; every mistake is kept, with where it is."""

import re
from typing import Literal, TypeVar

import msgspec

from rota.core.errors import Problem, Refused
from rota.core.model.attempt import Bind
from rota.core.model.sizes import parse_size
from rota.core.model.work_checks import PROFILES
from rota.core.quoting import in_quotes
from rota.core.timing.instants import Duration, parse_duration, seconds
from rota.core.timing.schedule import Schedule, is_zone, parse_schedule, unknown_zone
from rota.wire.documents import Json, ScheduleBody, Timespan

N = TypeVar("N", int, float)
PARAMETERS_MAX = 120_000
"""Bytes of JSON: Linux takes no variable of 128 KiB or more, and tasks get them as one."""

HINTS_MAX = 3
"""Unknown time zones of one request that are answered with the closest names; each takes 2 ms."""

_BIND = re.compile(r"(?P<source>[^:]+):(?P<target>[^:]+?)(?::(?P<mode>ro|rw))?")
_IMAGE = re.compile(r"[!-~]{1,512}")


class Hints:
    """The hints that a request may still get."""

    def __init__(self, left: int = HINTS_MAX) -> None:
        self._left = left

    def take(self) -> bool:
        """Return True if there is one more, which is then used up."""
        self._left -= 1
        return self._left >= 0


class Reader:
    """Reads fields, and gathers what is wrong with them.

    Each method returns the field as the core has it; where it cannot be read, something harmless,
    so that the rest can be looked at.

    Attributes:
        problems: What is wrong.
    """

    def __init__(self, hints: Hints | None = None) -> None:
        self.problems: list[Problem] = []
        self._hints = hints or Hints()

    def timespan(self, value: Timespan, pointer: str) -> Duration:
        """Read a number of seconds, or text such as ``1h30m``."""
        try:
            if isinstance(value, str):
                return parse_duration(value)
            return seconds(value)
        except (ValueError, OverflowError) as error:
            self.problems.append(Problem(pointer, str(error)))
            return Duration(0)

    def size(self, value: int | str | None, pointer: str) -> int:
        """Read a limit in bytes, or as text such as ``512MiB``; 0 for none."""
        try:
            return self.limit(parse_size(value) if isinstance(value, str) else value, pointer)
        except ValueError as error:
            self.problems.append(Problem(pointer, str(error)))
            return 0

    def limit(self, value: N | None, pointer: str) -> N | Literal[0]:
        """Read a limit; 0 for none, so that this is no limit itself."""
        if value == 0:
            self.problems.append(Problem(pointer, "0 would be nothing; leave it out for no limit"))
        return value or 0

    def profile(self, text: str, pointer: str) -> str:
        """Read the name of a sandbox's profile."""
        if text in PROFILES:
            return text
        self.problems.append(
            Problem(pointer, f"{in_quotes(text)} is not one of {', '.join(PROFILES)}")
        )
        return "strict"

    def json(self, value: Json, pointer: str) -> str:
        """Read a value of the user's own, as JSON; empty for null."""
        if value is None:
            return ""
        content = msgspec.json.encode(value)
        if len(content) > PARAMETERS_MAX:
            self.problems.append(
                Problem(pointer, f"has {len(content)} bytes as JSON; at most {PARAMETERS_MAX} fit")
            )
        return content.decode()

    def zone(self, name: str, pointer: str) -> str:
        """Read the name of a time zone."""
        if is_zone(name):
            return name
        refusal = unknown_zone(name, has_hint=self._hints.take())
        self.problems.append(Problem(pointer, refusal.detail))
        return "UTC"

    def schedule(self, asked: ScheduleBody, timezone: str, pointer: str) -> Schedule:
        """Read a schedule in *timezone*."""
        try:
            return parse_schedule(asked.schedule, timezone, asked.day_or)
        except Refused as refusal:
            self.problems.append(Problem(pointer, refusal.detail))
            return Schedule(text="@manual")

    def function(self, text: str, pointer: str) -> str:
        """Read the name of a Python function, ``module:function``."""
        module, _, function = text.partition(":")
        names = (*module.split("."), *function.split("."))
        if not all(name.isidentifier() for name in names):
            detail = f"{in_quotes(text)} is not a function; write it as package.module:function"
            self.problems.append(Problem(pointer, detail))
        return text

    def image(self, text: str, pointer: str) -> str:
        """Read the name of a container's image."""
        if not _IMAGE.fullmatch(text):
            detail = f"{in_quotes(text)} is not the name of an image, such as python:3.12-slim"
            self.problems.append(Problem(pointer, detail))
        return text

    def binds(self, texts: list[str], pointer: str) -> tuple[Bind, ...]:
        """Read ``/source:/target`` each, with ``:ro`` or ``:rw``."""
        found: list[Bind] = []
        for number, text in enumerate(texts):
            parts = _BIND.fullmatch(text)
            if parts is None:
                detail = f"{in_quotes(text)} is not /source:/target, /source:/target:ro or :rw"
                self.problems.append(Problem(f"{pointer}/{number}", detail))
                # In its place, for the others are pointed at by their numbers.
                found.append(Bind("/nothing", "/nothing"))
            else:
                found.append(Bind(parts["source"], parts["target"], parts["mode"] == "rw"))
        return tuple(found)
