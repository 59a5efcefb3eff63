"""Unit files of systemd: sections of settings, and the spans of time in them."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from rota.client.imports.drafts import Findings, Source

_UNITS_US = {
    "us": 1, "usec": 1, "µs": 1,
    "ms": 10**3, "msec": 10**3,
    "s": 10**6, "sec": 10**6, "second": 10**6, "seconds": 10**6, "": 10**6,
    "m": 60 * 10**6, "min": 60 * 10**6, "minute": 60 * 10**6, "minutes": 60 * 10**6,
    "h": 3600 * 10**6, "hr": 3600 * 10**6, "hour": 3600 * 10**6, "hours": 3600 * 10**6,
    "d": 86400 * 10**6, "day": 86400 * 10**6, "days": 86400 * 10**6,
    "w": 604800 * 10**6, "week": 604800 * 10**6, "weeks": 604800 * 10**6,
    "M": 2629800 * 10**6, "month": 2629800 * 10**6, "months": 2629800 * 10**6,
    "y": 31557600 * 10**6, "year": 31557600 * 10**6, "years": 31557600 * 10**6,
}  # fmt: skip
"""The units of systemd.time(7), in microseconds."""
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]*)\s*")


class Setting(NamedTuple):
    """A line of a unit file.

    Attributes:
        section: Its section.
        key: The name.
        value: The value.
        line: The number of the line, from 1.
    """

    section: str
    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A parsed unit file.

    Attributes:
        name: The name of the unit, such as ``backup.timer``.
        findings: The findings in the file.
        settings: Its settings; an empty one has removed those of its name above it.
    """

    name: str
    findings: Findings
    settings: list[Setting]

    def all(self, key: str) -> list[Setting]:
        """Return the settings with a name."""
        return [each for each in self.settings if each.key == key]

    def last(self, key: str) -> Setting | None:
        """Return the setting that holds, of those with a name."""
        return next(iter(reversed(self.all(key))), None)

    def text(self, key: str) -> str:
        """Return the value of a setting; empty if there is none."""
        setting = self.last(key)
        return setting.value if setting else ""

    def flag(self, key: str) -> bool:
        """Return True if a setting is on."""
        return self.text(key).lower() in ("yes", "true", "on", "1")

    def span(self, key: str) -> str:
        """Return the last setting of a span as a duration; empty for none or without a limit."""
        setting = self.last(key)
        return duration_of(self.findings, setting) if setting else ""


def parse_unit(source: Source) -> UnitFile:
    """Return the unit in *source*.

    Raises:
        InvalidFile: A line is neither a section nor a setting.
    """
    unit = UnitFile(source.name.rpartition("/")[2], Findings(source.name), [])
    section = ""
    for number, line in _joined(source.text):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, sign, value = (part.strip() for part in line.partition("="))
        if not sign or not section:
            raise unit.findings.invalid(number, f"{line!r} is no setting in a section; write A=b")
        if not value:
            kept = [each for each in unit.settings if (each.section, each.key) != (section, key)]
            unit.settings[:] = kept
        else:
            unit.settings.append(Setting(section, key, value, number))
    return unit


def _joined(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not comments, with their numbers; a backslash continues a line."""
    found: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and begun is None):
            continue
        first, before = begun or (number, "")
        if line.endswith("\\"):
            begun = first, f"{before}{line[:-1]} "
        else:
            found.append((first, f"{before}{line}"))
            begun = None
    return found if begun is None else [*found, begun]


def duration_of(findings: Findings, setting: Setting) -> str:
    """Return a span as a duration of rota, such as ``90s``; empty for one without a limit.

    Raises:
        InvalidFile: The value is no span of time.
    """
    if setting.value == "infinity":
        return ""
    parts = _SPAN.findall(setting.value)
    if not parts or _SPAN.sub("", setting.value) or any(unit not in _UNITS_US for _, unit in parts):
        raise findings.invalid(
            setting.line, f"{setting.key} is {setting.value!r}; a span is written 90s or 1h 30min"
        )
    total_us = round(sum(float(number) * _UNITS_US[unit] for number, unit in parts))
    if total_us % 10**6:
        return f"{total_us / 1000:.3f}".rstrip("0").rstrip(".") + "ms"
    return f"{total_us // 10**6}s" if total_us else ""
