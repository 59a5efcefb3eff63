"""Times and durations as Python programs give them: text, numbers, or values of `datetime`."""

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

GivenDuration = float | str | timedelta
"""A number of seconds, text such as ``1h30m``, or a `timedelta`."""
GivenInstant = str | datetime
"""Text such as ``2027-01-01T00:00:00Z`` or with an offset, or a `datetime` with a time zone."""


def duration_of(given: GivenDuration) -> Duration:
    """Return a duration.

    Raises:
        ValueError: *given* is none, or is negative.
    """
    match given:
        case bool():
            pass
        case str() | int() | float():
            return read_duration(given)
        case timedelta():
            duration = _span_of(given)
            if duration < 0:
                raise ValueError(f"{format_duration(duration)} is negative; give 0 or more")
            return duration
        case _:
            pass
    raise ValueError(
        f"{given!r} is no duration; give seconds, text such as '1h30m', or a timedelta"
    )


def instant_of(given: GivenInstant) -> Instant:
    """Return an instant.

    Raises:
        ValueError: *given* is none, or has no time zone.
    """
    match given:
        case str():
            return parse_instant(given)
        case datetime(tzinfo=None):
            raise ValueError(f"{given} has no time zone; add one, such as datetime.UTC")
        case datetime():
            return from_datetime(given)
        case _:  # Callers without a type checker give dates, for example.
            raise ValueError(
                f"{given!r} is no instant; give text such as '2027-01-01T00:00:00Z', or a datetime "
                "with a time zone"
            )


def as_text(given: GivenDuration) -> float | str:
    """Return a duration as JSON has it: text for a `timedelta`, which may be negative."""
    return format_duration(_span_of(given)) if isinstance(given, timedelta) else given


def _span_of(given: timedelta) -> Duration:
    return Duration(given // timedelta(microseconds=MICROSECOND))
