"""Cron triggers of APScheduler: eight fields, which all have to match; Monday is weekday 0."""

import re

from rota.client.definitions import Definition
from rota.client.imports.located import Located

FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
"""The fields from the most to the least significant one."""

_LEAST = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_NTH = re.compile(r"(1st|2nd|3rd|4th|5th|last)\s+([a-z]{3})")
_WEEKDAY = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")


def cron_of(fields: Located, timezone: str | None) -> Definition:
    """Return the fields of the schedule of a cron trigger, without its time zone.

    Args:
        fields: The arguments of the trigger.
        timezone: Its time zone; empty for that of the machine, None if it is not written.

    Raises:
        InvalidFile: A field is not valid, or not written in the file (`NotWritten`).
    """
    findings = fields.findings
    texts = _texts(fields)
    if texts["week"] != "*":
        findings.lose(
            fields.line("week"), "week: weeks of the year", "write the months or days instead"
        )
    day, weekday = texts["day"].lower(), _weekdays(fields, texts["day_of_week"])
    if nth := _NTH.fullmatch(day):
        if weekday != "*":
            raise fields.invalid("day", "a number if day_of_week is given, too")
        name = nth[2].upper()
        day, weekday = "*", f"{name}L" if nth[1] == "last" else f"{name}#{nth[1][0]}"
    day = "L" if day == "last" else day
    words = [texts["minute"], texts["hour"], day, texts["month"], weekday]
    if texts["year"] != "*":
        words = [texts["second"], *words, texts["year"]]
    elif texts["second"] != "0":
        words = [texts["second"], *words]
    schedule = " ".join(words)
    day_or = "*" in (day, weekday)
    findings.check_schedule(fields.line(), schedule, timezone or "UTC", day_or=day_or)
    if timezone == "":
        findings.change(
            fields.line(),
            "the cron trigger is in the time zone of the machine",
            "the schedule is in UTC; if that is another zone, add timezone to the job",
        )
    return {"schedule": schedule, **({} if day_or else {"dayOr": False})}


def _texts(fields: Located) -> dict[str, str]:
    """Return all fields: those after the last given one have their least value, others all."""
    given = [name for name in FIELDS if fields.fields.get(name) is not None]
    last = FIELDS.index(given[-1]) if given else len(FIELDS)
    found: dict[str, str] = {}
    for number, name in enumerate(FIELDS):
        default = _LEAST.get(name, "*") if number > last else "*"
        found[name] = re.sub(r"\s*,\s*", ",", fields.text(name, default).strip())
    return found


def _weekdays(fields: Located, text: str) -> str:
    """Return weekdays by their names, because their numbers differ."""
    if text == "*":
        return text
    return ",".join(_weekday(fields, item) for item in text.split(","))


def _weekday(fields: Located, text: str) -> str:
    found = _WEEKDAY.fullmatch(text)
    names = {**{str(n): n for n in range(7)}, **{day.lower(): n for n, day in enumerate(_WEEKDAYS)}}
    if found is None:
        raise fields.invalid("day_of_week", "weekdays, such as mon-fri or 0 (Monday)")
    first, last = (found[1].lower(), (found[2] or "").lower())
    step = int(found[3]) if found[3] else 1
    if first == "*":
        first, last = "mon", "sun"
    elif found[3] and not last:
        last = "sun"
    if first not in names or (last and last not in names) or not step:
        raise fields.invalid("day_of_week", "weekdays, such as mon-fri or 0 (Monday)")
    end = names[last] if last else names[first]
    return ",".join(_WEEKDAYS[number] for number in range(names[first], end + 1, step))
