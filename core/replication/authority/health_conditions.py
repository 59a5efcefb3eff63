"""Conditions that make a node unfit to be primary: its loop, disk or wall clock (R19, R20).

Each node judges itself, because other nodes cannot distinguish a slow node from a slow network. A
condition ends when it has not been observed for `WELL_AFTER`, so that shards do not return to a
node between two short stalls.
"""

from enum import Enum

from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant

LOOP_LAG_MAX = Duration(500 * MILLISECOND)
"""The longest lag of a healthy loop.

It is more than a heartbeat, and a quarter of the time after which other nodes remove a silent copy.
"""
SYNC_TIME_MAX = Duration(SECOND)
"""The longest sync of a healthy disk, half of that time.

Every write of a primary, and thus every client, waits for the disk.
"""
WELL_AFTER = Duration(10 * SECOND)
"""The time without an observation after which a condition ends.

Linux writes dirty pages back every 5 s; a disk is not well between two such bursts.
"""


class HealthCondition(Enum):
    """A reason why a node is unfit; the value is its name in metrics and logs."""

    LOOP = "loop"
    DISK = "disk"
    CLOCK = "clock"
    SPACE = "space"


class HealthConditions:
    """The health conditions of one node."""

    def __init__(self) -> None:
        self._seen_at: dict[HealthCondition, Instant] = {}

    def at(self, now: Instant) -> frozenset[HealthCondition]:
        """Return the conditions observed within `WELL_AFTER`."""
        return frozenset(each for each, at in self._seen_at.items() if now - at < WELL_AFTER)

    def record_delays(self, *, lag: int, sync_time: int, now: Instant) -> None:
        """Record the lag of the loop and the duration of the sync in progress, in microseconds."""
        if lag > LOOP_LAG_MAX:
            # The sync time proves nothing then: the end of the sync waited for the loop as well.
            self._seen_at[HealthCondition.LOOP] = now
        elif sync_time > SYNC_TIME_MAX:
            self._seen_at[HealthCondition.DISK] = now

    def record_space(self, *, is_low: bool, now: Instant) -> None:
        """Record whether the disk is running out of space."""
        if is_low:
            self._seen_at[HealthCondition.SPACE] = now

    def record_clock(self, is_wrong: bool | None, now: Instant) -> None:
        """Record the result of `ClockSkew.is_wrong`.

        If the result is unknown, None, a clock that was found wrong still counts as wrong.
        """
        if is_wrong or (is_wrong is None and HealthCondition.CLOCK in self.at(now)):
            self._seen_at[HealthCondition.CLOCK] = now
