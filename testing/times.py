"""Times and durations as tests write them: text, or values of `datetime`."""

from datetime import datetime, timedelta

from rota.core.model.given_durations import read_duration
from rota.core.timing.instants import (
    MICROSECOND,
    Duration,
    Instant,
    format_duration,
    from_datetime,
    parse_instant,
)


def duration_of(given: str | timedelta) -> Duration:
    """Return the duration in text such as ``1h30m``, or in a `timedelta`.

    Raises:
        ValueError: It is malformed or negative.
    """
    if isinstance(given, str):
        return read_duration(given)
    duration = Duration(given // timedelta(microseconds=MICROSECOND))
    if duration < 0:
        raise ValueError(f"{format_duration(duration)} is negative; time only passes forwards")
    return duration


def instant_of(given: str | datetime) -> Instant:
    """Return the instant in text such as ``2027-01-01T00:00:00Z``, or in a `datetime`.

    Raises:
        ValueError: It is malformed, or has no time zone.
    """
    if isinstance(given, str):
        return parse_instant(given)
    if given.tzinfo is None:
        raise ValueError(f"{given} has no time zone; add one, such as datetime.UTC")
    return from_datetime(given)
