"""Limits on the memory of request bodies: in total, and for each client address."""

from collections import Counter

from rota.core.errors import Kind, Refused

BODIES_MAX = 256 << 20
"""The limit of all bodies in bytes; requests beyond it are refused with 503 and Retry-After."""
BODIES_PER_ADDRESS_MAX = BODIES_MAX // 2
"""The limit of one client address in bytes, so that one client cannot shut out all others."""


class BodyMemory:
    """Memory for the bodies of all requests in flight.

    Args:
        largest: The size in bytes of the largest accepted body; the limits are never below this
            size, so that a single body of this size is accepted.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._bytes = 0
        self._addresses: Counter[str] = Counter()

    def reserve(self, address: str, length: int | None) -> "Reserved":
        """Reserve memory for a body that is about to be read.

        Args:
            address: The client's address.
            length: The announced length in bytes; None if it is not announced.

        Raises:
            Refused: Code ``busy``: too little memory is left.
        """
        size = self._largest if length is None else min(length, self._largest)
        if self._bytes + size > max(BODIES_MAX, self._largest):
            raise _busy("request bodies in flight exceed", BODIES_MAX, length)
        if self._addresses[address] + size > max(BODIES_PER_ADDRESS_MAX, self._largest):
            what = "request bodies in flight from this address exceed"
            raise _busy(what, BODIES_PER_ADDRESS_MAX, length)
        self._add(address, size)
        return Reserved(self, address, size)

    def release(self, reserved: "Reserved", byte_count: int) -> None:
        """Free *byte_count* bytes of a reservation."""
        reserved.size -= byte_count
        self._add(reserved.address, -byte_count)

    def _add(self, address: str, byte_count: int) -> None:
        self._bytes += byte_count
        self._addresses[address] += byte_count
        if not self._addresses[address]:
            del self._addresses[address]


class Reserved:
    """Memory reserved for one body; made by `BodyMemory.reserve`."""

    def __init__(self, memory: BodyMemory, address: str, size: int) -> None:
        self._memory = memory
        self.address = address
        self.size = size

    def shrink(self, size: int) -> None:
        """Keep at most *size* bytes and free the rest."""
        if size < self.size:
            self._memory.release(self, self.size - size)


def _busy(what: str, limit: int, length: int | None) -> Refused:
    remedy = "send smaller requests"
    if length is None:
        # Without a length, the memory for the largest accepted body is reserved.
        remedy = "send the header Content-Length, without which a body counts as the largest one"
    detail = f"{what} the limit of {limit >> 20} MiB; try again, or {remedy}"
    return Refused(Kind.UNAVAILABLE, "busy", detail, retry_after_s=1)
