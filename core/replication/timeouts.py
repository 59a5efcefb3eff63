"""How long nodes trust what they have heard from one another.

Every comparison of two clocks goes the same way: whoever acts upon a lease counts its time from
before it was asked for and stops early; whoever gave it counts from after it was asked for and
waits longer. So no clock needs to be right, only to run within 2 % of another's rate.
"""

from dataclasses import dataclass, field

from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later

DRIFT_PERCENT = 2
"""How much faster one machine's clock may run than another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The durations of a cluster, the same on all of its nodes.

    Attributes:
        session: Time to live of a node's session; the coordinator ends it no earlier.
        peer_lease: How long a backup's answer lets the primary act without a session.
        beat: How often a primary shows itself to its backups.
        silence: After so long without an answer a backup is to be taken from those that count.
        slow: A backup whose answers take longer is to be taken from them too, if those of the
            others take a tenth of that.
        pace: Over how long that is measured.
        answered: A learner that answered within this may be added.
        takeover_step: How much longer than the backup before it each backup waits to take over.
        handover: How long a primary refuses work to hand its shard over, before it gives up.
        settled: How long a configuration is in force before a shard is handed over for balance.
        query: How often a node is asked whether it has a copy to begin with.
        attempt_lease: How long a primary's answer lets attempts go on elsewhere (R37).
        kill_grace: How long a node may take to end an attempt whose time is over.
        grace: How long a backup keeps from taking over after it has heard its primary (R14); it
            follows from *peer_lease*.
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
        """Derive what each message of a primary is answered with."""
        stretched = self.peer_lease * (100 + 2 * DRIFT_PERCENT) // 100
        # The dataclass is frozen, for others.
        object.__setattr__(self, "grace", Duration(stretched + 100 * MILLISECOND))

    def lease_end(self, asked_at: Instant) -> Instant:
        """Return until when a lease holds that was asked for at *asked_at* (R15)."""
        return later(asked_at, _shortened(self.peer_lease))

    def session_end(self, asked_at: Instant) -> Instant:
        """Return until when a session gives authority, renewed by a request of *asked_at* (R15)."""
        margin = min(200 * MILLISECOND, self.session // 10)
        return later(asked_at, Duration(_shortened(self.session) - margin))


def _shortened(duration: Duration) -> Duration:
    return Duration(duration * (100 - DRIFT_PERCENT) // 100)
