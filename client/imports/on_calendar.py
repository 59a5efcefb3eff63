"""Times of ``OnCalendar`` of systemd, see systemd.time(7), as cron expressions."""

import re
from typing import NamedTuple

from rota.core.timing.schedule import is_zone

SHORT = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
}
_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_ITEM = re.compile(r"(?P<first>\d+|\*)(?:\.\.(?P<last>\d+))?(?:/(?P<step>\d+))?")
_DATE = re.compile(r"(?:(?P<year>[^-~]+)-)?(?P<month>[^-~]+)(?P<sign>[-~])(?P<day>[^-~]+)")
_TIME = re.compile(r"(?P<hour>[^:]+):(?P<minute>[^:]+)(?::(?P<second>[^:]+))?")


class CalendarTime(NamedTuple):
    """A time of ``OnCalendar``.

    Attributes:
        schedule: The cron expression.
        timezone: Its time zone; empty for that of the machine.
        needs_both_days: Whether day and weekday are given, of which both have to match.
    """

    schedule: str
    timezone: str
    needs_both_days: bool


def calendar_time(text: str) -> CalendarTime | None:
    """Return the time *text*; None if it cannot be written exactly as a cron expression.

    >>> calendar_time("Mon..Fri 6:30 Europe/Berlin")
    CalendarTime(schedule='30 6 * * MON-FRI', timezone='Europe/Berlin', needs_both_days=False)
    """
    words = text.split()
    timezone = words.pop() if len(words) > 1 and is_zone(words[-1]) else ""
    if len(words) == 1:
        words = SHORT.get(words[0].lower(), words[0]).split()
    weekday = _weekdays(words.pop(0)) if words and words[0][0].isalpha() else "*"
    date = _date(words.pop(0)) if words and ":" not in words[0] else ("*", "*", "*")
    time = _time(words.pop(0)) if words else ("0", "0", "0")
    if words or weekday is None or date is None or time is None:
        return None
    (year, month, day), (hour, minute, second) = date, time
    fields = [minute, hour, day, month, weekday]
    if year != "*":
        fields = [second, *fields, year]
    elif second != "0":
        fields = [second, *fields]
    return CalendarTime(" ".join(fields), timezone, day != "*" and weekday != "*")


def _weekdays(text: str) -> str | None:
    items: list[str] = []
    for item in text.strip(",").split(","):
        days = [day[:3].upper() for day in re.split(r"\.\.|-", item)]
        if len(days) > 2 or not set(days) <= {*_DAYS}:
            return None
        items.append("-".join(days))
    return ",".join(items)


def _date(text: str) -> tuple[str, str, str] | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month = _field(found["year"] or "*"), _field(found["month"])
    day = _field(found["day"]) if found["sign"] == "-" else _from_the_end(found["day"])
    return (year, month, day) if year and month and day else None


def _from_the_end(text: str) -> str | None:
    """Return the days that are counted from the end of the month: ``~1`` is the last one."""
    numbers = text.split(",")
    if not all(number.isdecimal() and int(number) > 0 for number in numbers):
        return None
    return ",".join(f"L-{int(each) - 1}" if int(each) > 1 else "L" for each in numbers)


def _time(text: str) -> tuple[str, str, str] | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (_field(found[each] or "0") for each in ("hour", "minute", "second"))
    return (hour, minute, second) if hour and minute and second else None


def _field(text: str) -> str | None:
    """Return the field of a cron expression for *text*; None if there is none."""
    items: list[str] = []
    for item in text.split(","):
        found = _ITEM.fullmatch(item)
        if found is None:
            return None
        first = found["first"] if found["first"] == "*" else str(int(found["first"]))
        last = f"-{int(found['last'])}" if found["last"] else ""
        step = f"/{int(found['step'])}" if found["step"] else ""
        items.append(f"{first}{last}{step}")
    return ",".join(items)
