"""Detection of missed deadlines by the watchdog of the warden's loop."""

from queue import Queue

import pytest

from rota.core.timing.instants import Instant
from rota.executor.warden import watchdog
from rota.executor.warden.watchdog import CHECKS, Watchdog

WITHIN_S = 20.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog looks without pauses."""
    monkeypatch.setattr(watchdog, "LATE_S", 0.0)


def looks_before_it_acts(deadlines: list[int | None]) -> int:
    """Return at which look the watchdog acts, whose clock is beyond each of *deadlines*.

    Args:
        deadlines: That of each look; the last stays.
    """
    acted: Queue[int] = Queue()
    looks = 0

    def elapsed() -> Instant:
        nonlocal looks
        looks += 1
        deadline = deadlines[min(looks, len(deadlines) - 1)]
        watched.due_at = None if deadline is None else Instant(deadline)
        return Instant(1_000)

    watched = Watchdog(elapsed=elapsed, on_late=lambda: acted.put(looks))
    watched.due_at = None if deadlines[0] is None else Instant(deadlines[0])
    watched.start()
    return acted.get(timeout=WITHIN_S)


def test_a_deadline_that_stays_missed_is_acted_on_after_a_few_looks() -> None:
    assert looks_before_it_acts([5]) == CHECKS


def test_a_loop_that_reaches_the_next_deadline_each_time_is_not_late() -> None:
    moving = [1, 2, 3, 4, 5, 6, 7]

    assert looks_before_it_acts([*moving, 8]) == len(moving) + CHECKS


def test_the_count_starts_again_after_a_deadline_that_was_met() -> None:
    to_come = 2_000

    assert looks_before_it_acts([5, 5, to_come, 5]) == 3 + CHECKS
