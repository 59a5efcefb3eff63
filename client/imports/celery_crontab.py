"""Schedules of Celery's ``crontab`` as cron expressions."""

import re
from typing import cast

from rota.client.definitions import Lines
from rota.client.imports.located import Located
from rota.client.imports.python_source import Called

_FIELDS = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day_of_month": (1, 31),
    "month_of_year": (1, 12),
    "day_of_week": (0, 6),
}
"""The fields in the order of a cron expression, with their first and last values."""
_ITEM = re.compile(r"(?P<values>\*|\w+(?:-\w+)?)(?:/(?P<step>\d+))?")


def crontab_of(crontab: Located) -> str:
    """Return the cron expression of an object with the fields of a crontab.

    Raises:
        InvalidFile: A field is unknown, or its value is not valid.
    """
    for key in crontab.fields:
        if key not in _FIELDS:
            raise crontab.invalid(key, f"left out: the fields are {', '.join(_FIELDS)}")
    return " ".join(_field(crontab, key, crontab.fields.get(key)) for key in _FIELDS)


def crontab_of_call(entry: Located, call: Called) -> str:
    """Return the cron expression of a call of ``crontab`` in the schedule of *entry*.

    Raises:
        InvalidFile: As for `crontab_of`, or the call has more than two arguments without names.
    """
    if len(call.args) > 2:
        raise entry.findings.invalid(
            call.line,
            f"{call!r}: the order of the fields after the hour depends on the version of Celery; "
            "write their names",
        )
    fields = dict(zip(("minute", "hour"), call.args, strict=False)) | dict(call.kwargs)
    fields.pop("app", None)
    lines: Lines = {("schedule", key): call.line for key in fields}
    return crontab_of(Located(entry.findings, fields, ("schedule",), lines))


def _field(crontab: Located, key: str, value: object) -> str:
    """Return a field, which is a number, a text, or a list of numbers."""
    match value:
        case None:
            return "*"
        case bool():
            pass
        case int():
            return _items(crontab, key, str(value))
        case str():
            return _items(crontab, key, value)
        case list() if value and all(isinstance(each, int) for each in cast("list[object]", value)):
            return _items(crontab, key, ",".join(map(str, cast("list[int]", value))))
        case _:
            pass
    raise crontab.invalid(key, "a number, a list of numbers, or a text such as */5")


def _items(crontab: Located, key: str, text: str) -> str:
    return ",".join(_item(crontab, key, each.strip()) for each in text.split(","))


def _item(crontab: Located, key: str, text: str) -> str:
    found = _ITEM.fullmatch(text)
    first, last = _FIELDS[key]
    if found is None or (found["step"] and not re.search(r"[*-]", found["values"])):
        raise crontab.invalid(key, "a number, a range, * or a list of these, with steps as in */5")
    values = found["values"]
    if any(int(each) > last for each in re.findall(r"\d+", values)):
        raise crontab.invalid(key, f"a number from {first} to {last}")
    if key in ("day_of_week", "month_of_year"):
        # A name counts by its first three characters.
        values = re.sub(r"[A-Za-z]+", lambda name: name[0][:3].upper(), values)
    step = int(found["step"]) if found["step"] else 1
    if values == "*" and step > last - first + 1:
        # A longer step leaves the first value.
        return str(first)
    return f"{values}/{step}" if step > 1 else values
