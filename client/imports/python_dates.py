"""Dates that are written in Python files: as text, or as calls of ``datetime`` and ``date``."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.client.imports.python_source import Called, zone_name

_FIELDS = ("year", "month", "day", "hour", "minute", "second")


def date_text(value: object, timezone: str, *, naive: str) -> str | None:
    """Return a date as a local time of *timezone*, or else as an instant; None if it is unknown.

    Args:
        value: The value in the file.
        timezone: The time zone of the schedule.
        naive: The time zone of dates that have none.
    """
    read = _read(value, naive)
    if read is not None and read[1] == timezone:
        return read[0].isoformat()
    at = instant_of(value, naive=naive)
    return None if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


def instant_of(value: object, *, naive: str) -> datetime | None:
    """Return a date as an instant in UTC, likewise."""
    read = _read(value, naive)
    if read is None:
        return None
    wall, zone = read
    try:
        return wall.replace(tzinfo=wall.tzinfo or ZoneInfo(zone)).astimezone(UTC)
    except (ZoneInfoNotFoundError, ValueError, OverflowError):
        return None


def zone_of(value: object) -> object:
    """Return the time zone of a date: its name if it is written, None if there is none."""
    if not isinstance(value, Called):
        return None
    zone = value.kwargs.get("tz", value.kwargs.get("tzinfo"))
    name = zone_name(zone)
    return zone if name is None else name


def _read(value: object, naive: str) -> tuple[datetime, str] | None:
    """Return the wall time of a date without its fraction of a second, and its zone."""
    try:
        if isinstance(value, str):
            wall = datetime.fromisoformat(value.strip()).replace(microsecond=0)
            return wall, naive if wall.tzinfo is None else ""
        if not isinstance(value, Called) or value.name not in ("datetime", "date"):
            return None
        if len(value.args) > len(_FIELDS):
            return None
        given = {**dict(zip(_FIELDS, value.args, strict=False)), **value.kwargs}
        numbers = [each for name in _FIELDS if isinstance(each := given.get(name, 0), int)]
        if len(numbers) < len(_FIELDS):
            return None
        year, month, day, hour, minute, second = numbers
        wall = datetime(year, month, day, hour, minute, second, tzinfo=UTC).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None
    zone = zone_of(value)
    if zone is None:
        return wall, naive
    return (wall, zone) if isinstance(zone, str) else None
