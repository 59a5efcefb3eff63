"""How quickly a copy answers: the median of what it took over the last while (R24).

One answer is noted in a twentieth of that while, so a hundred that a single stall held up count as
one; and nothing is said before half of it has been seen.
"""

from collections import deque

from rota.core.timing.instants import Duration, Instant

NOTED_MAX = 20
"""Answers that are remembered: at 5 s, one in 250 ms; a median of them takes about 1 us."""


class AnswerPace:
    """What the latest answers of one copy took."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: deque[tuple[Instant, Duration]] = deque(maxlen=NOTED_MAX)

    def note(self, took: Duration, now: Instant, window: Duration) -> None:
        """Note an answer, unless one was just noted; *window* is the while that matters."""
        if not self._noted or now - self._noted[-1][0] >= window // NOTED_MAX:
            self._noted.append((now, took))

    def median(self, now: Instant, window: Duration) -> Duration | None:
        """Return what answers took, the lower of the middle two; None if too little is known."""
        noted = self._noted
        while noted and now - noted[0][0] > window:
            noted.popleft()
        if not noted or noted[-1][0] - noted[0][0] < window // 2:
            return None
        return sorted(took for _, took in noted)[(len(noted) - 1) // 2]
