"""Periodic work for the attempts of a node."""

import asyncio

from rota.core.timing.instants import SECOND
from rota.node.fallback.stand_ins import StandIns
from rota.node.runtime.attempt_wiring import AttemptParts
from rota.node.runtime.foundation import NodeFoundation

TICK_S = 0.5
"""The longest period of repeated deliveries and of lease requests for attempts."""
TICKS_PER_LEASE = 10
"""The least number of lease requests per attempt lease, since some answers may be lost."""


class AttemptTicks:
    """Repetition of unanswered deliveries and renewal of attempt leases.

    Args:
        base: The foundation of the node.
        attempts: The parts for attempts.
        stand_ins: The stand-ins of the node.
    """

    def __init__(self, base: NodeFoundation, attempts: AttemptParts, stand_ins: StandIns) -> None:
        lease_s = base.environment.timing.attempt_lease / SECOND
        self._period_s = min(TICK_S, lease_s / TICKS_PER_LEASE)
        self._is_alone = base.environment.is_alone
        self._attempts = attempts
        self._stand_ins = stand_ins

    async def run(self) -> None:
        """Tick the parts every `TICK_S` seconds, or faster for short leases, until cancelled."""
        attempts = self._attempts
        while True:
            await asyncio.sleep(self._period_s)
            attempts.delivery.tick()
            attempts.local.tick()
            attempts.leases.tick()
            if not self._is_alone:
                self._stand_ins.tick()
                attempts.lending.tick()
                attempts.inbound.tick()
                attempts.outbound.tick()
