"""Durations as users give them."""

import re

from rota.core.quoting import quoted
from rota.core.timing.instants import Duration, parse_duration, seconds

_has_nonzero_digit = re.compile(r"[1-9]").search


def read_duration(given: float | str) -> Duration:
    """Return a duration that a user gave: a number of seconds, or text such as ``1h30m``.

    Raises:
        ValueError: *given* is not a duration, or is too long; or it is not 0, but rounds to 0
            microseconds, where 0 has another meaning, such as no limit.
    """
    duration = parse_duration(given) if isinstance(given, str) else seconds(given)
    is_zero = not (_has_nonzero_digit(given) if isinstance(given, str) else given)
    if not duration and not is_zero:
        shown = quoted(given, "'") if isinstance(given, str) else f"{given} seconds"
        raise ValueError(f"{shown} is too short; the shortest duration is 1us, a microsecond")
    return duration
