"""Conversion of single fields of a body; each error is collected with its JSON pointer."""

import re
from typing import Literal, TypeVar

import msgspec

from rota.core.errors import Problem, Refused
from rota.core.model.given_durations import read_duration
from rota.core.model.job import PARAMETERS_MAX
from rota.core.model.sizes import parse_size
from rota.core.model.work import Bind
from rota.core.model.work_checks import PROFILES
from rota.core.quoting import in_quotes
from rota.core.timing.instants import Duration
from rota.core.timing.schedule import (
    Schedule,
    checked,
    contradiction,
    is_zone,
    unknown_zone,
    zone_prefix,
)
from rota.wire.bodies.schedule_bodies import rule_of
from rota.wire.documents import Json, ScheduleBody, Timespan

N = TypeVar("N", int, float)
HINTS_MAX = 3
"""The most unknown time zones of one request for which the closest names are searched; each search
takes 2 ms."""

_BIND = re.compile(r"(?P<source>[^:]+):(?P<target>[^:]+?)(?::(?P<mode>ro|rw))?")
_IMAGE = re.compile(r"[!-~]{1,512}")


class Hints:
    """The number of hints that are left for a request."""

    def __init__(self, left: int = HINTS_MAX) -> None:
        self._left = left

    def take(self) -> bool:
        """Use up a hint, and return True if one was left."""
        self._left -= 1
        return self._left >= 0


class Reader:
    """Reads fields and collects their errors.

    Each method returns the value of a field for the core. For an invalid field it returns a
    harmless value, so that the other fields can be checked.

    Args:
        hints: The hints that are left for the request; None for a new request.

    Attributes:
        problems: The errors so far.
    """

    def __init__(self, hints: Hints | None = None) -> None:
        self.problems: list[Problem] = []
        self._hints = hints or Hints()

    def timespan(self, value: Timespan, pointer: str) -> Duration:
        """Read a duration: a number of seconds, or text such as ``1h30m``."""
        try:
            return read_duration(value)
        except ValueError as error:
            self.problems.append(Problem(pointer, str(error)))
            return Duration(0)

    def size(self, value: int | str | None, pointer: str) -> int:
        """Read a limit in bytes, or as text such as ``512MiB``; None gives 0, which is no limit."""
        try:
            return self.limit(parse_size(value) if isinstance(value, str) else value, pointer)
        except ValueError as error:
            self.problems.append(Problem(pointer, str(error)))
            return 0

    def limit(self, value: N | None, pointer: str) -> N | Literal[0]:
        """Read a limit; None gives 0, which is no limit, and 0 itself is an error."""
        if value == 0:
            self.problems.append(Problem(pointer, "0 is not a limit; omit the field for no limit"))
        return value or 0

    def profile(self, text: str, pointer: str) -> str:
        """Read the name of a sandbox profile."""
        if text in PROFILES:
            return text
        self.problems.append(
            Problem(pointer, f"{in_quotes(text)} is not one of {', '.join(PROFILES)}; choose one")
        )
        return "strict"

    def json(self, value: Json, pointer: str) -> str:
        """Read a value of any form and return it as JSON; empty for null."""
        if value is None:
            return ""
        content = msgspec.json.encode(value)
        if len(content) > PARAMETERS_MAX:
            self.problems.append(
                Problem(
                    pointer,
                    f"the value has {len(content):,} bytes as JSON; use at most {PARAMETERS_MAX:,}",
                )
            )
        return content.decode()

    def zone(self, name: str, pointer: str) -> str:
        """Read the name of a time zone."""
        if is_zone(name):
            return name
        refusal = unknown_zone(name, has_hint=self._hints.take())
        self.problems.append(Problem(pointer, refusal.detail))
        return "UTC"

    def schedule(self, body: ScheduleBody, timezone: str, of: str, pointer: str) -> Schedule:
        """Read a schedule in *timezone* of the job with the full name *of*."""
        prefix = zone_prefix(body.schedule)
        if prefix is not None and not is_zone(prefix):
            self.zone(prefix, pointer)
            return Schedule(text="@manual")
        try:
            schedule = checked(rule_of(body, of, timezone=timezone))
            if body.timezone and schedule.timezone != timezone:
                raise contradiction(body.schedule, timezone)
            return schedule
        except Refused as refusal:
            place = pointer
            if refusal.problems:
                place = pointer.removesuffix("/schedule") + refusal.problems[0].pointer
            self.problems.append(Problem(place, refusal.detail))
            return Schedule(text="@manual")

    def function(self, text: str, pointer: str) -> str:
        """Read the name of a Python function, ``module:function``."""
        module, _, function = text.partition(":")
        names = (*module.split("."), *function.split("."))
        if not all(name.isidentifier() for name in names):
            detail = (
                f"{in_quotes(text)} is not the name of a Python function; write "
                "package.module:function"
            )
            self.problems.append(Problem(pointer, detail))
        return text

    def image(self, text: str, pointer: str) -> str:
        """Read the name of a container's image."""
        if not _IMAGE.fullmatch(text):
            detail = (
                f"{in_quotes(text)} is not the name of an image; write a name such as "
                "python:3.12-slim"
            )
            self.problems.append(Problem(pointer, detail))
        return text

    def binds(self, texts: list[str], pointer: str) -> tuple[Bind, ...]:
        """Read binds, each ``/source:/target`` with an optional ``:ro`` or ``:rw``."""
        found: list[Bind] = []
        for number, text in enumerate(texts):
            parts = _BIND.fullmatch(text)
            if parts is None:
                detail = (
                    f"{in_quotes(text)} is not a bind; write /source:/target, /source:/target:ro "
                    "or :rw"
                )
                self.problems.append(Problem(f"{pointer}/{number}", detail))
                # A placeholder keeps the numbers of the others, which pointers contain.
                found.append(Bind("/nothing", "/nothing"))
            else:
                found.append(Bind(parts["source"], parts["target"], parts["mode"] == "rw"))
        return tuple(found)
