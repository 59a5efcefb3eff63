"""Fire times of a schedule, found the slow way: by a check of every candidate.

The module supports the schedules of chaos runs alone, in UTC: ``@every`` with a phase, ``@at``,
and cron expressions with seconds whose days, months and weekdays are all ``*``.
"""

from datetime import datetime
from itertools import count, takewhile

SECOND = 1_000_000
_UNITS = {"ms": 1_000, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND}


def fire_times(schedule: str, after: int, until: int) -> list[int]:
    """Return the fire times in ``(after, until]``, oldest first, in microseconds since 1970.

    Raises:
        ValueError: The schedule is not supported.
    """
    word, *rest = schedule.split()
    match word:
        case "@every":
            phase = _span(rest[2]) if rest[1:2] == ["phase"] else 0
            return _every(_span(rest[0]), phase, after, until)
        case "@at":
            at = round(datetime.fromisoformat(rest[0]).timestamp() * 1000) * 1000
            return [at] if at <= until else []
        case _:
            return _cron([word, *rest], after, until)


def _every(interval: int, phase: int, after: int, until: int) -> list[int]:
    first = (after - phase) // interval * interval + phase
    candidates = takewhile(lambda at: at <= until, count(first, interval))
    return [at for at in candidates if at > after]


def _cron(fields: list[str], after: int, until: int) -> list[int]:
    if len(fields) != 6 or fields[3:] != ["*"] * 3:
        raise ValueError(f"no oracle for {' '.join(fields)}")
    found: list[int] = []
    for second in range(after // SECOND, until // SECOND + 1):
        of_clock = (second % 60, second // 60 % 60, second // 3_600 % 24)
        limits = (60, 60, 24)
        if after < second * SECOND <= until and all(
            value in _values(field, limit)
            for field, value, limit in zip(fields, of_clock, limits, strict=False)
        ):
            found.append(second * SECOND)
    return found


def _values(field: str, limit: int) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = ("0", "", str(limit - 1)) if span == "*" else span.partition("-")
        last = int(high or (limit - 1 if step else low))
        values |= set(range(int(low), last + 1, int(step or 1)))
    return values


def _span(text: str) -> int:
    number = text.rstrip("hms")
    return int(number) * _UNITS[text[len(number) :]]
