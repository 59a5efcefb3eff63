"""Durations of the protocol: leases, timeouts and intervals, the same on all nodes of a cluster.

All comparisons of two nodes' clocks follow one rule. The holder of a lease counts it from before
its request and stops early; the grantor counts it from after the request and waits longer. So
clocks need not agree; their rates only need to be within 2 % of each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later

DRIFT_PERCENT = 2
"""The allowed difference between the rates of two machines' clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The durations of a cluster, the same on all of its nodes.

    Attributes:
        session: Time to live of a node's session; the coordinator ends it no earlier.
        peer_lease: The time for which a backup's answer lets the primary act without a session.
        beat: Interval of the primary's heartbeats to its backups.
        silence: The time without an answer after which a backup is removed from the counting
            copies.
        slow: The response time above which a backup is removed too, if the response times of all
            other backups are less than a tenth of its own.
        pace: The period over which response times are measured.
        answered: The time within which a learner must have answered to be added.
        takeover_step: Delay between the takeover attempts of one backup and the next in order.
        handover: The time for which a primary refuses work to hand its shard over, before it gives
            up.
        settled: The time under one configuration after which a shard may be handed over for
            balance.
        query: Interval at which a node is asked whether it has a copy already.
        attempt_lease: The time for which a primary's answer lets remote attempts run (R37).
        kill_grace: The time that a node may take to kill an attempt whose lease has ended.
        grace: The time for which a backup does not take over after a message of its primary (R14);
            derived from *peer_lease*.

    Raises:
        ValueError: A duration is negative, or is zero but must be positive; or heartbeats would be
            too rare to renew leases or to prove that a backup answers.
    """

    session: Duration = Duration(5 * SECOND)
    peer_lease: Duration = Duration(2 * SECOND)
    beat: Duration = Duration(400 * MILLISECOND)
    silence: Duration = Duration(2 * SECOND)
    slow: Duration = Duration(250 * MILLISECOND)
    pace: Duration = Duration(5 * SECOND)
    answered: Duration = Duration(SECOND)
    takeover_step: Duration = Duration(150 * MILLISECOND)
    handover: Duration = Duration(500 * MILLISECOND)
    settled: Duration = Duration(SECOND)
    query: Duration = Duration(SECOND)
    attempt_lease: Duration = Duration(15 * SECOND)
    kill_grace: Duration = Duration(5 * SECOND)

    grace: Duration = field(init=False)

    def __post_init__(self) -> None:
        """Check the durations, and derive `grace`."""
        wrong = list(self._problems())
        if wrong:
            raise ValueError("; ".join(wrong))
        stretched = self.peer_lease * (100 + 2 * DRIFT_PERCENT) // 100
        # The dataclass is frozen.
        object.__setattr__(self, "grace", Duration(stretched + 100 * MILLISECOND))

    def _problems(self) -> Iterator[str]:
        """Yield the errors in the given durations, in microseconds."""
        for each in fields(self):
            if each.init:
                value = getattr(self, each.name)
                least = 0 if each.name in _MAY_BE_ZERO else 1
                if value < least:
                    yield f"{each.name} is {value} us; it has to be at least {least} us"
        for name in ("peer_lease", "silence"):
            value = getattr(self, name)
            if self.beat >= value:
                yield f"beat is {self.beat} us; it has to be shorter than {name}, {value} us"

    def lease_end(self, asked_at: Instant) -> Instant:
        """Return the end of a lease that was requested at *asked_at* (R15)."""
        return later(asked_at, _shortened(self.peer_lease))

    def session_end(self, asked_at: Instant) -> Instant:
        """Return the end of a session's authority after a renewal requested at *asked_at* (R15)."""
        margin = min(200 * MILLISECOND, self.session // 10)
        return later(asked_at, Duration(_shortened(self.session) - margin))


_MAY_BE_ZERO = frozenset({"takeover_step", "settled", "kill_grace"})


def _shortened(duration: Duration) -> Duration:
    return Duration(duration * (100 - DRIFT_PERCENT) // 100)
