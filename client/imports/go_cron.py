"""Schedules of the Go library ``cron``, which Kubernetes and Dkron use."""

import re

from rota.client.imports.drafts import Findings

_STEP = re.compile(r"\*/(?!0*1\b)")
"""A step of a star; a step of 1 is the star itself."""
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
_FORMS = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@manually"}
)


def read_schedule(findings: Findings, line: int, text: str, timezone: str) -> tuple[str, str]:
    """Return the schedule *text* as one of rota, and its time zone, which may be part of it.

    Raises:
        InvalidFile: The schedule or the time zone is invalid.
    """
    if zoned := _ZONE.fullmatch(text.strip()):
        timezone, text = zoned[1], zoned[2]
    schedule = _translated(" ".join(text.split()))
    findings.check_schedule(line, schedule, timezone or "UTC")
    if schedule.startswith("@every"):
        findings.change(
            line,
            f"{text}: counted from the start of the scheduler",
            "the times are counted from 1970-01-01T00:00:00Z; use a phase to shift them",
        )
    return schedule, timezone


def _translated(text: str) -> str:
    if text in _FORMS or text.startswith("@"):
        return text.replace("@manually", "@manual")
    return with_either_day(text)


def with_either_day(schedule: str) -> str:
    """Return a schedule for rota of one in which a step of all days is a restriction.

    In the Go library ``cron`` and in croniter, a day of ``*/2`` and a weekday are alternatives; in
    rota, as in cron, both have to match.

    >>> with_either_day("0 0 */2 * MON")
    '0 0 1-31/2 * MON'
    """
    fields = schedule.split()
    if len(fields) < 5:
        return schedule
    day, weekday = fields[-3], fields[-1]
    if _STEP.match(day) and weekday[:1] not in ("*", "?"):
        fields[-3] = f"1-31{day[1:]}"
    elif _STEP.match(weekday) and day[:1] not in ("*", "?"):
        fields[-1] = f"0-6{weekday[1:]}"
    elif _STEP.match(day) and _STEP.match(weekday):
        fields[-3], fields[-1] = f"1-31{day[1:]}", f"0-6{weekday[1:]}"
    return " ".join(fields)
