"""Limits on the memory of request bodies: in total, of each client address, and of each caller.

What has arrived counts, not what a request announces: a client that sends nothing holds nothing.
"""

from collections import Counter
from typing import NamedTuple

from rota.core.errors import Kind, Refused

BODIES_MAX = 256 << 20
"""The limit of all bodies in bytes; requests beyond it are refused with 503 and Retry-After."""
BODIES_PER_ADDRESS_MAX = BODIES_MAX // 2
"""The limit of one client address in bytes, so that one client cannot shut out all others."""
BODIES_PER_CALLER_MAX = BODIES_MAX // 4
"""The limit of one caller in bytes: it leaves half of an address, such as a load balancer's, to the
others."""


class _Share(NamedTuple):
    """A part of the memory; *limit* is its size in bytes."""

    of: str
    who: str
    limit: int


_ALL = _Share("", "", BODIES_MAX)


class BodyMemory:
    """Memory for the bodies of all requests in flight.

    Args:
        largest: The size in bytes of the largest accepted body; the limits are never below this
            size, so that a single body of this size is accepted.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._held: Counter[_Share] = Counter()

    def reservation(self, address: str, caller: str | None) -> "Reserved":
        """Return a reservation of no memory yet.

        Args:
            address: The client's address.
            caller: The identity of the caller, empty for all that are not authenticated; None for a
                caller without a share of its own.
        """
        shares = [_ALL, _Share(" from this address", address, BODIES_PER_ADDRESS_MAX)]
        if caller is not None:
            shares.append(_Share(" of this caller", caller, BODIES_PER_CALLER_MAX))
        return Reserved(self, tuple(shares))

    def add(self, shares: tuple[_Share, ...], byte_count: int) -> None:
        """Add *byte_count*, which may be negative, to *shares*.

        Raises:
            Refused: Code ``busy``: too little memory is left; nothing was added.
        """
        for share in shares:
            if byte_count > 0 and self._held[share] + byte_count > max(share.limit, self._largest):
                raise _busy(share)
        for share in shares:
            self._held[share] += byte_count
            if not self._held[share]:
                del self._held[share]


class Reserved:
    """Memory reserved for one body; made by `BodyMemory.reservation`."""

    def __init__(self, memory: BodyMemory, shares: tuple[_Share, ...]) -> None:
        self._memory = memory
        self._shares = shares
        self.size = 0

    def grow(self, byte_count: int) -> None:
        """Reserve memory for *byte_count* bytes that have arrived.

        Raises:
            Refused: Code ``busy``: too little memory is left.
        """
        self._memory.add(self._shares, byte_count)
        self.size += byte_count

    def free(self) -> None:
        """Free the memory."""
        self._memory.add(self._shares, -self.size)
        self.size = 0


def _busy(share: _Share) -> Refused:
    return Refused(
        Kind.UNAVAILABLE,
        "busy",
        f"request bodies in flight{share.of} exceed the limit of {share.limit >> 20} MiB; try "
        "again, or send smaller requests",
        retry_after_s=1,
    )
