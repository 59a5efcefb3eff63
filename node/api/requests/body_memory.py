"""Limits on the memory that the bodies of requests take, in all and for each address."""

from collections import Counter

from rota.core.errors import Kind, Refused

BODIES_MAX = 256 << 20
"""Bytes in all; beyond it requests are refused with 503 and Retry-After."""
BODIES_PER_ADDRESS_MAX = BODIES_MAX // 2
"""Bytes of one address, so that it cannot keep out all others."""


class BodyMemory:
    """Memory for the bodies of the requests at hand.

    Args:
        largest: Bytes of the largest body that is read; there is room for one in any case.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._bytes = 0
        self._addresses: Counter[str] = Counter()

    def reserve(self, address: str, length: int | None) -> "Reserved":
        """Reserve memory for a body that is about to be read.

        Args:
            address: Of its sender.
            length: As announced; None if it is not.

        Raises:
            Refused: There is too little left.
        """
        size = self._largest if length is None else min(length, self._largest)
        if self._bytes + size > max(BODIES_MAX, self._largest):
            raise _busy("the bodies of the requests at hand fill", BODIES_MAX)
        if self._addresses[address] + size > max(BODIES_PER_ADDRESS_MAX, self._largest):
            raise _busy("the bodies of requests from this address fill", BODIES_PER_ADDRESS_MAX)
        self._add(address, size)
        return Reserved(self, address, size)

    def release(self, reserved: "Reserved", byte_count: int) -> None:
        """Free a part of what is reserved, or all of it."""
        reserved.size -= byte_count
        self._add(reserved.address, -byte_count)

    def _add(self, address: str, byte_count: int) -> None:
        self._bytes += byte_count
        self._addresses[address] += byte_count
        if not self._addresses[address]:
            del self._addresses[address]


class Reserved:
    """Memory for one body; made by `BodyMemory.reserve`."""

    def __init__(self, memory: BodyMemory, address: str, size: int) -> None:
        self._memory = memory
        self.address = address
        self.size = size

    def shrink(self, size: int) -> None:
        """Keep only *size* bytes: the body has come, and is no longer than that."""
        if size < self.size:
            self._memory.release(self, self.size - size)


def _busy(what: str, limit: int) -> Refused:
    detail = f"{what} {limit >> 20} MiB, the limit here"
    return Refused(Kind.UNAVAILABLE, "busy", detail, retry_after_s=1)
