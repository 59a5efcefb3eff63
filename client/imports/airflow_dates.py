"""The dates from which and until which a DAG runs, as limits of a schedule."""

from rota.client.imports.located import Located
from rota.client.imports.python_dates import date_text


def limits_of(arguments: Located, defaults: Located, timezone: str) -> dict[str, str]:
    """Return ``startAt`` and ``endAt`` of a DAG whose schedule is in *timezone*.

    Dates that are not written as numbers or text are lost, each with its line.
    """
    found: dict[str, str] = {}
    for key, field in (("start_date", "startAt"), ("end_date", "endAt")):
        value, line = date_of(arguments, defaults, key)
        text = date_text(value, timezone, naive="UTC") if value is not None else None
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
