"""What makes a node unfit to be primary: its loop, its disk, its calendar (PROTOCOL R19, R20).

A node judges itself, for nobody else can: to the others one that is slow looks like one that is far
away. An ill is over when nothing was seen of it for a while, so that shards do not come back
between two hiccups only to go again.
"""

from enum import Enum

from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant

LOOP_LAG_MAX = Duration(500 * MILLISECOND)
"""More than a beat, and a quarter of the time after which the others believe a node dead."""
SYNC_TIME_MAX = Duration(SECOND)
"""Half of that: a primary waits for its disk with every write, and all who ask it with it."""
WELL_AFTER = Duration(10 * SECOND)
"""Linux writes back what is dirty every 5 s; a disk is not well between two bursts of that."""


class HealthCondition(Enum):
    """Why a node is unfit; the value is its name in metrics and logs."""

    LOOP = "loop"
    DISK = "disk"
    CLOCK = "clock"
    SPACE = "space"


class HealthConditions:
    """The ills of one node."""

    def __init__(self) -> None:
        self._seen_at: dict[HealthCondition, Instant] = {}

    def at(self, now: Instant) -> frozenset[HealthCondition]:
        """Return those of which something was seen within `WELL_AFTER`."""
        return frozenset(ill for ill, at in self._seen_at.items() if now - at < WELL_AFTER)

    def see_times(self, *, lag: int, sync_time: int, now: Instant) -> None:
        """Take note of how late the loop was, and how long the sync that runs has taken so far."""
        if lag > LOOP_LAG_MAX:
            # What it says of the disk proves nothing then: news of the sync waited for it as well.
            self._seen_at[HealthCondition.LOOP] = now
        elif sync_time > SYNC_TIME_MAX:
            self._seen_at[HealthCondition.DISK] = now

    def see_space(self, *, is_low: bool, now: Instant) -> None:
        """Take note of whether space on the disk is running out."""
        if is_low:
            self._seen_at[HealthCondition.SPACE] = now

    def see_calendar(self, is_wrong: bool | None, now: Instant) -> None:
        """Take note of what the calendars of others say; of None, that nothing has changed.

        Whoever was found wrong and then hears too few to tell is as wrong as before.
        """
        if is_wrong or (is_wrong is None and HealthCondition.CLOCK in self.at(now)):
            self._seen_at[HealthCondition.CLOCK] = now
