"""Limit on the rate of requests of each principal at one node."""

from math import ceil

from rota.core.errors import Kind, Refused
from rota.core.timing.instants import SECOND, Duration, Instant

BURST = SECOND
"""A principal that was idle may send the requests of this time at once."""
PRINCIPALS_MAX = 10_000
"""The most principals that are kept; the one that was added first makes room for another."""


class TooManyRequests(Refused):
    """The principal sends requests faster than the node allows.

    Args:
        name: The principal.
        rate: The requests a second that are allowed.
        wait: The time after which the next request is allowed.
    """

    def __init__(self, name: str, rate: int, wait: Duration) -> None:
        super().__init__(
            Kind.TOO_MANY,
            "too_many_requests",
            f"{name!r} sends more than {rate} requests a second to this node (setting "
            "principal_rate); send fewer, or several items in a request (`/api/v1/jobs:batch`)",
            retry_after_s=max(1, ceil(wait / SECOND)),
        )


class RequestRates:
    """The rates of the requests of all principals: a bucket of tokens each.

    A bucket is one instant, the time at which all requests so far would have been sent at the
    allowed rate (the generic cell rate algorithm).

    Args:
        rate: The requests a second that a principal may send; 1 to 1,000,000.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._interval = SECOND // rate
        self._paid_until: dict[str, int] = {}

    @property
    def principal_count(self) -> int:
        """The number of principals that are kept."""
        return len(self._paid_until)

    def count(self, name: str, now: Instant) -> None:
        """Count a request of the principal *name*.

        Raises:
            TooManyRequests: The principal has sent too many; this request is not counted.
        """
        due = max(self._paid_until.get(name, 0), now) + self._interval
        ahead = due - now - BURST
        if ahead > 0:
            raise TooManyRequests(name, self._rate, Duration(ahead))
        if name not in self._paid_until and len(self._paid_until) >= PRINCIPALS_MAX:
            del self._paid_until[next(iter(self._paid_until))]
        self._paid_until[name] = due
