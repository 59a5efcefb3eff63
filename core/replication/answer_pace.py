"""Response times of a copy: the median over a recent window (R24).

One answer is recorded per twentieth of the window, so a hundred answers delayed by a single stall
count as one. There is no median before half of the window has passed.
"""

from collections import deque

from rota.core.timing.instants import Duration, Instant

NOTED_MAX = 20
"""The number of recorded answers: one in 250 ms with a window of 5 s; a median takes 1 us."""


class AnswerPace:
    """The response times of one copy's latest answers."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: deque[tuple[Instant, Duration]] = deque(maxlen=NOTED_MAX)

    def note(self, took: Duration, now: Instant, window: Duration) -> None:
        """Record a response time, unless one was recorded within a twentieth of *window*."""
        if not self._noted or now - self._noted[-1][0] >= window // NOTED_MAX:
            self._noted.append((now, took))

    def median(self, now: Instant, window: Duration) -> Duration | None:
        """Return the median response time, or the lower of the middle two; None with too few."""
        noted = self._noted
        while noted and now - noted[0][0] > window:
            noted.popleft()
        if not noted or noted[-1][0] - noted[0][0] < window // 2:
            return None
        return sorted(took for _, took in noted)[(len(noted) - 1) // 2]
