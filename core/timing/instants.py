"""Instants and durations, and how people write them.

Both are whole microseconds: an instant since 1970-01-01T00:00:00Z (leap seconds ignored, as POSIX
does), a duration of any sign. Integers are compared, added and stored exactly. As text, an instant
is RFC 3339 in UTC.
"""

import re
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import NewType

from rota.core.quoting import quoted, shortened

Instant = NewType("Instant", int)
Duration = NewType("Duration", int)

MICROSECOND = Duration(1)
MILLISECOND = Duration(1_000)
SECOND = Duration(1_000_000)
MINUTE = Duration(60 * SECOND)
HOUR = Duration(60 * MINUTE)
DAY = Duration(24 * HOUR)
WEEK = Duration(7 * DAY)

LATEST_INSTANT = Instant(253_402_300_799 * SECOND)
"""9999-12-31T23:59:59Z, the last second that `datetime` can represent."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_IN_UTC = datetime(1970, 1, 1)  # noqa: DTZ001 - its zone is in its name
_UNITS = {
    "us": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
    "d": DAY,
    "w": WEEK,
}
_DURATION = re.compile(r"(?:\d+(?:\.\d{1,6})?(?:us|ms|[smhdw]))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+)(?:\.(\d{1,6}))?(us|ms|[smhdw])", re.ASCII)
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def seconds(count: float) -> Duration:
    """Return *count* seconds as a duration, rounded to the microsecond.

    Raises:
        ValueError: *count*, or its number of microseconds, is not finite, or too large.
    """
    microseconds = count * SECOND
    try:
        is_finite = isfinite(microseconds)
    except OverflowError:  # An integer that is larger than every float.
        is_finite = False
    if not is_finite:
        raise ValueError(
            f"{shortened(str(count))} seconds is not a duration; the longest duration is 8,029 "
            "years"
        )
    return Duration(round(microseconds))


def later(instant: Instant, duration: Duration) -> Instant:
    """Return *instant* moved by *duration*, which may be negative."""
    return Instant(instant + duration)


def from_datetime(moment: datetime) -> Instant:
    """Return the instant of an aware *moment*, to the microsecond."""
    return Instant((moment - _EPOCH) // timedelta(microseconds=1))


def to_datetime(instant: Instant) -> datetime:
    """Return *instant* as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def format_instant(instant: Instant) -> str:
    """Return *instant* as RFC 3339 in UTC with microseconds, ``2027-01-01T00:00:00.000000Z``."""
    # Without a zone, which isoformat would write as +00:00; strftime takes three times as long.
    in_utc = _EPOCH_IN_UTC + timedelta(microseconds=instant)
    return in_utc.isoformat(timespec="microseconds") + "Z"


def is_instant(text: str) -> bool:
    """Return True if *text* has the form that `parse_instant` reads; its date may not exist."""
    return bool(_RFC3339.fullmatch(text))


def parse_instant(text: str) -> Instant:
    """Return the instant that RFC 3339 *text* names; an offset or ``Z`` is required.

    Raises:
        ValueError: *text* has another form, names no real date, or is not from 1970 to 9999.
    """
    shown = quoted(text, "'")
    if not is_instant(text):
        raise ValueError(
            f"{shown} is not an RFC 3339 time with a zone; write it as 2027-01-01T00:00:00Z"
        )
    try:
        instant = from_datetime(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{shown} is not a time: {error}") from error
    if not 0 <= instant <= LATEST_INSTANT:
        raise ValueError(f"{shown} is out of range; times go from 1970 to 9999")
    return instant


def format_duration(duration: Duration) -> str:
    """Return *duration* in the shortest exact form that `parse_duration` reads: ``1h30m``."""
    if duration == 0:
        return "0s"
    rest = abs(duration)
    parts: list[str] = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if duration < 0 else "") + "".join(parts)


def parse_duration(text: str) -> Duration:
    """Return the duration in *text*: ``90s``, ``10m``, ``1h30m``, ``1.5h``, ``250ms``.

    Units are ``us ms s m h d w``; a number may have up to six decimals. The result is never
    negative.

    Raises:
        ValueError: *text* has another form, or is longer than 8,029 years.
    """
    compact, shown = text.strip(), quoted(text, "'")
    if not _DURATION.fullmatch(compact):
        raise ValueError(
            f"{shown} is not a duration; write a number and a unit (ms, s, m, h, d, w), "
            "for example 90s or 1h30m"
        )
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(compact):
        scale = _UNITS[unit]
        total += int(whole) * scale + int((fraction or "").ljust(6, "0")) * scale // 1_000_000
    if total > LATEST_INSTANT:
        raise ValueError(f"{shown} is too long; the longest duration is 8,029 years")
    return Duration(total)
