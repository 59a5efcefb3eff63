"""The dates from which and until which a DAG runs, as limits of a schedule."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.client.imports.located import Located
from rota.client.imports.python_source import Called

_FIELDS = ("year", "month", "day", "hour", "minute", "second")


def limits_of(arguments: Located, defaults: Located, timezone: str) -> dict[str, str]:
    """Return ``startAt`` and ``endAt`` of a DAG whose schedule is in *timezone*.

    Dates that are not written as numbers or text are lost, each with its line.
    """
    found: dict[str, str] = {}
    for key, field in (("start_date", "startAt"), ("end_date", "endAt")):
        value, line = date_of(arguments, defaults, key)
        text = _limit(value, timezone) if value is not None else None
        if text:
            found[field] = text
        elif value is not None:
            arguments.findings.lose(
                line, f"{key}={value!r} is not written as a date", f"add {field} to the schedule"
            )
        if text and field == "endAt":
            arguments.findings.change(
                line,
                "end_date: the last interval begins by then, and its run is at its end",
                "endAt: no fire time is later; if it has passed, remove the schedule",
            )
    return found


def date_of(arguments: Located, defaults: Located, key: str) -> tuple[object, int]:
    """Return a date of a DAG and its line; None if there is none."""
    for each in (arguments, defaults):
        if each.fields.get(key) is not None:
            return each.fields[key], each.line(key)
    return None, 1


def zone_of(value: object) -> object:
    """Return the time zone of a date: its name if it is written, None if there is none."""
    if not isinstance(value, Called):
        return None
    zone = value.kwargs.get("tz", value.kwargs.get("tzinfo"))
    return zone.args[0] if isinstance(zone, Called) and zone.args else zone


def _limit(value: object, timezone: str) -> str | None:
    """Return a date as a local time of *timezone*, or else as an instant; None if it is unknown."""
    read = _read(value)
    if read is None:
        return None
    wall, zone = read
    if zone == timezone:
        return wall.isoformat()
    try:
        at = wall.replace(tzinfo=wall.tzinfo or ZoneInfo(zone))
        return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ZoneInfoNotFoundError, ValueError, OverflowError):
        return None


def _read(value: object) -> tuple[datetime, str] | None:
    """Return the wall time of a date without its fraction of a second, and its zone."""
    try:
        if isinstance(value, str):
            wall = datetime.fromisoformat(value).replace(microsecond=0)
            return wall, "UTC" if wall.tzinfo is None else ""
        if not isinstance(value, Called) or value.name not in ("datetime", "date"):
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
    if zone is None or (not isinstance(zone, str) and repr(zone).lower().endswith("utc")):
        return wall, "UTC"
    return (wall, zone) if isinstance(zone, str) else None
