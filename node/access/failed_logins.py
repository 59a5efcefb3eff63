"""Limit on failed logins of each client address."""

from rota.core.timing.instants import SECOND, Duration, Instant

LOGINS_MAX = 10
"""The most failed logins of one address in a period."""
PERIOD = Duration(SECOND)
ADDRESSES_MAX = 10_000
"""The most addresses that are kept; the one whose period began first makes room for another."""


class FailedLogins:
    """The failed logins of each address in its present period.

    Valid credentials are never counted or refused here: clients behind one proxy have the same
    address, and one of them must not lock the others out.
    """

    def __init__(self) -> None:
        self._periods: dict[str, tuple[Instant, int]] = {}

    @property
    def address_count(self) -> int:
        """The number of addresses that are kept."""
        return len(self._periods)

    def count(self, address: str, now: Instant) -> bool:
        """Count a failed login; return True if it is within the limit."""
        ends_at, count = self._periods.get(address, (Instant(0), 0))
        if now >= ends_at:
            ends_at, count = Instant(now + PERIOD), 0
            # The order of the dict is the order in which the periods began.
            self._periods.pop(address, None)
            if len(self._periods) >= ADDRESSES_MAX:
                del self._periods[next(iter(self._periods))]
        self._periods[address] = (ends_at, min(count, LOGINS_MAX) + 1)
        return count < LOGINS_MAX
