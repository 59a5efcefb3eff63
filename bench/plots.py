"""Two kinds of plots, as SVG that browsers and GitHub display: distributions and timelines."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10

Line = Sequence[tuple[float, float]]
"""The points of a line, from left to right."""

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 16, 44
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#475569")
LEAST_MS = 0.05
"""The start of a logarithmic axis, in milliseconds; smaller values are not distinguished."""
SHARES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
SHARE_MAX = SHARES[-1]
TICKS_MAX = 8


def distribution(lines: Mapping[str, Line]) -> str:
    """Return a plot of percentiles: shares from left to right, milliseconds upwards.

    The intervals 0 to 90 %, 90 to 99 %, 99 to 99.9 % and so on have the same width, so that the
    tail is visible; the axis of milliseconds is logarithmic.
    """

    def place(share: float) -> float:
        return -log10(1 - min(share, SHARE_MAX)) / -log10(1 - SHARE_MAX)

    ticks = [(place(share), f"{100 * share:g} %") for share in SHARES]
    return _plot(lines, place, ticks, "share of starts", {})


def timeline(lines: Mapping[str, Line], marks: Mapping[str, float]) -> str:
    """Return a plot of lateness over seconds, logarithmic, with *marks* at their seconds."""
    end = max((at for line in lines.values() for at, _ in line), default=0.0) or 1.0

    def place(at: float) -> float:
        return at / end

    step = max(1, ceil(end / TICKS_MAX / 5) * 5)
    ticks = [(at / end, f"{at} s") for at in range(0, floor(end) + 1, step)]
    return _plot(lines, place, ticks, "fire time", marks)


def _plot(
    lines: Mapping[str, Line],
    place: Callable[[float], float],
    ticks: Sequence[tuple[float, str]],
    title: str,
    marks: Mapping[str, float],
) -> str:
    """Return the plot; *place* returns the horizontal place of a point, from 0 (left) to 1."""
    values = [max(ms, LEAST_MS) for line in lines.values() for _, ms in line] or [1.0]
    low, high = floor(log10(min(values))), ceil(log10(max(values) * 1.01))

    def x(share: float) -> float:
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(ms: float) -> float:
        height = HEIGHT - TOP - BOTTOM
        return TOP + height * (1 - (log10(max(ms, LEAST_MS)) - low) / (high - low))

    parts: list[str] = []
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts += [_rule(LEFT, at, WIDTH - RIGHT, at)]
        parts += [_text(LEFT - 6, at + 4, f"{10.0**power:g} ms", "end")]
    for share, label in ticks:
        parts += [_rule(x(share), TOP, x(share), HEIGHT - BOTTOM)]
        parts += [_text(x(share), HEIGHT - BOTTOM + 16, label, "middle")]
    parts += [_text(x(0.5), HEIGHT - 8, title, "middle")]
    for label, at in marks.items():
        parts += [_rule(x(place(at)), TOP, x(place(at)), HEIGHT - BOTTOM, "#dc2626")]
        parts += [_text(x(place(at)) + 4, TOP + 10, label, "start")]
    for number, (label, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(place(at)):.1f},{y(ms):.1f}" for at, ms in line)
        parts += [f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>']
        parts += [_text(WIDTH - RIGHT + 8, TOP + 12 + 16 * number, label, "start", colour)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str = "#e2e8f0") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#334155") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'
