"""Fire times of a job, computed the slow way and independently of the code under test.

The module supports the schedules of simulated users alone.
"""

from collections.abc import Iterator

from rota.core.timing.instants import MILLISECOND, SECOND, Instant


def expected(text: str, after: Instant, until: Instant) -> list[Instant]:
    """Return the fire times of a schedule in ``(after, until]``, oldest first."""
    if text == "@manual":
        return []
    if text.startswith("@every "):
        interval, phase = _read_every(text.split()[1:])
        return [at for at in _multiples(interval, phase, after, until) if at > after]
    return [at for at in _whole_seconds(after, until) if _has(text, at // SECOND % 60)]


def _read_every(words: list[str]) -> tuple[int, int]:
    spans = {"interval": words[0], "phase": words[2] if len(words) > 1 else "0s"}
    interval, phase = (
        int(text[:-2]) * MILLISECOND if text.endswith("ms") else int(text[:-1]) * SECOND
        for text in spans.values()
    )
    return interval, phase


def _multiples(interval: int, phase: int, after: int, until: int) -> Iterator[Instant]:
    first = (after - phase) // interval * interval + phase
    return (Instant(at) for at in range(first, until + 1, interval))


def _whole_seconds(after: int, until: int) -> Iterator[Instant]:
    first = after // SECOND * SECOND
    return (Instant(at) for at in range(first, until + 1, SECOND) if at > after)


def _has(text: str, second: int) -> bool:
    """Return True if the first field of a cron expression has *second*; the others are stars."""
    field, *rest = text.split()
    assert rest == ["*"] * 5, text
    return any(_part_has(part, second) for part in field.split(","))


def _part_has(part: str, second: int) -> bool:
    range_text, _, step = part.partition("/")
    if range_text == "*":
        low, high = 0, 59
    elif "-" in range_text:
        low, high = map(int, range_text.split("-"))
    else:
        low = int(range_text)
        high = 59 if step else low
    return low <= second <= high and (second - low) % int(step or 1) == 0
