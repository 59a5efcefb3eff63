"""Times, durations and sizes for people."""

import time

from rota.core.timing.instants import SECOND, Instant, parse_instant

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def now() -> Instant:
    """Return the time of this machine, to which texts such as ``3s ago`` are relative."""
    return Instant(time.time_ns() // 1_000)


def counted(count: int, one: str, many: str) -> str:
    """Return a count with its noun: ``1 copy``, ``3 copies``."""
    return f"{count} {one if count == 1 else many}"


def span(seconds: float) -> str:
    """Return a duration with two digits or two units: ``0.7ms``, ``3.4s``, ``2m 5s``, ``4d 3h``."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f}ms"
    if seconds < 1:
        return f"{seconds * 1e3:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    rest = round(seconds)
    parts: list[str] = []
    for unit, length in (*_UNITS, ("s", 1)):
        count, rest = divmod(rest, length)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0"))


def size(count: int) -> str:
    """Return a number of bytes with two or three digits: ``640B``, ``3.4KiB``, ``512MiB``."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    number, unit = float(count), next(units)
    while number >= 1_000 and unit != "TiB":
        number, unit = number / 1_024, next(units)
    return f"{number:.1f}{unit}" if number < 10 and unit != "B" else f"{number:.0f}{unit}"


def took(start: str | None, end: str | None) -> str:
    """Return the duration between two RFC 3339 times; empty if either is missing."""
    if start is None or end is None:
        return ""
    return span((parse_instant(end) - parse_instant(start)) / SECOND)


def relative(text: str | None, at: Instant) -> str:
    """Return an RFC 3339 time relative to *at*: ``5s ago``, ``in 2h 3m``; empty for None."""
    if text is None:
        return ""
    seconds = (parse_instant(text) - at) / SECOND
    if abs(seconds) < 1:
        return "now"
    return f"in {_coarse(seconds)}" if seconds > 0 else f"{_coarse(-seconds)} ago"


def absolute(text: str | None) -> str:
    """Return an RFC 3339 time as ``2027-01-01 00:00:00``, with milliseconds unless they are 0."""
    if text is None:
        return ""
    day, _, clock = text.removesuffix("Z").partition("T")
    return f"{day} {clock.rstrip('0').rstrip('.') if clock.endswith('.000000') else clock[:12]}"


def _coarse(seconds: float) -> str:
    return span(max(1, int(seconds))).replace(".0s", "s")
