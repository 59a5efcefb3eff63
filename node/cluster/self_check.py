"""Fitness of this node to be primary: checks of its loop, its disk and its wall clock.

An unfit node of a cluster hands over the shards of which it is the primary, until it is well
(PROTOCOL R19, R20). A single node has no other node to hand shards to, so it only logs and counts
its conditions.

The delay of the event loop is measured by the node's own ticks, because the same loop sends beats
and renewals; a thread would continue to run while the loop hangs. While the loop hangs, no renewal
is sent, so all authority of the node expires (R15).
"""

import logging

from rota.core.replication.authority.clock_skew import ClockSkew
from rota.core.replication.authority.health_conditions import (
    LOOP_LAG_MAX,
    SYNC_TIME_MAX,
    WELL_AFTER,
    HealthCondition,
    HealthConditions,
)
from rota.core.replication.authority.liveness import Liveness
from rota.core.timing.instants import MILLISECOND, SECOND, Instant
from rota.core.vocabulary.disk_space import DiskSpace
from rota.node.system.clock import Clock
from rota.node.system.metrics import Metrics

log = logging.getLogger(__name__)

_WHY = {
    HealthCondition.LOOP: f"its event loop hung for more than {LOOP_LAG_MAX // MILLISECOND} ms",
    HealthCondition.DISK: f"its disk took more than {SYNC_TIME_MAX // MILLISECOND} ms for a sync",
    HealthCondition.CLOCK: "its wall clock differs from those of most nodes",
    HealthCondition.SPACE: "its disk is nearly full",
}


class SelfCheck:
    """The health conditions of this node.

    Args:
        clock_skew: The clocks of the other nodes.
        liveness: Gets the health conditions of this node.
        clock: The clock of this node; its wall clock is compared with those of the other nodes.
        metrics: The metrics that count the health conditions.
        is_alone: Whether there is no other node to which shards can be handed over.
    """

    def __init__(
        self,
        clock_skew: ClockSkew,
        liveness: Liveness,
        clock: Clock,
        metrics: Metrics,
        *,
        is_alone: bool,
    ) -> None:
        self._clock_skew = clock_skew
        self._liveness = liveness
        self._clock = clock
        self._metrics = metrics
        self._is_alone = is_alone
        self._conditions = HealthConditions()
        self._known: frozenset[HealthCondition] = frozenset()
        for condition in HealthCondition:
            metrics.fenced.labels(condition.value).set(0)

    @property
    def why_unfit(self) -> str | None:
        """The reason why this node hands its shards over; None if it does not."""
        why = [
            _WHY[condition]
            for condition in HealthCondition
            if condition in self._liveness.conditions
        ]
        return f"this node hands its shards over: {' and '.join(why)}" if why else None

    def tick(self, *, lag: int, sync_time: int) -> None:
        """Check the event loop, the disk and the wall clock.

        Args:
            lag: The delay of this tick, in microseconds.
            sync_time: The duration so far of the running sync, in microseconds; 0 if none runs.
        """
        now = self._clock.elapsed()
        self._conditions.record_delays(lag=lag, sync_time=sync_time, now=now)
        facts = {"lag_ms": lag // MILLISECOND, "sync_ms": sync_time // MILLISECOND}
        self._judge(now, facts)

    def see_space(self, space: DiskSpace) -> None:
        """Record the space on the disk; without effect on a single node."""
        if not self._is_alone:
            is_low = space is not DiskSpace.AMPLE
            self._conditions.record_space(is_low=is_low, now=self._clock.elapsed())

    def check_clock(self) -> bool:
        """Check the wall clock, immediately before a time stamp or a fire (R20).

        A check takes only a few microseconds, so it can be made before each use, and a jump of the
        clock is detected before the first use after the jump.

        Returns:
            True if the wall clock may be used.
        """
        if not self._is_alone:
            self._judge(self._clock.elapsed(), {})
        return self._liveness.has_calendar

    def _judge(self, now: Instant, facts: dict[str, int]) -> None:
        self._conditions.record_clock(self._clock_skew.is_wrong(self._clock.now(), now), now)
        conditions = self._conditions.at(now)
        if conditions != self._known:
            self._report(conditions, facts)
            self._known = conditions
        if not self._is_alone:
            self._liveness.record_conditions(conditions)

    def _report(self, conditions: frozenset[HealthCondition], facts: dict[str, int]) -> None:
        for condition in HealthCondition:
            self._metrics.fenced.labels(condition.value).set(condition in conditions)
        for condition in sorted(conditions - self._known, key=lambda each: each.value):
            self._metrics.fences.labels(condition.value).inc()
            event = "node slow" if self._is_alone else "node unfit"
            log.warning(event, extra={"reason": condition.value, **facts})
        if not conditions:
            log.info("node well", extra={"after_s": WELL_AFTER // SECOND})
