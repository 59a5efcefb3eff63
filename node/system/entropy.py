"""Source of random numbers."""

import os
from typing import Protocol


class Entropy(Protocol):
    """A seam: random numbers of the system, or of a seed."""

    def draw(self) -> int:
        """Return 64 random bits."""
        ...


class SystemEntropy:
    """Random numbers of the operating system, read in pages: one call a draw would take 0.5 us."""

    def __init__(self) -> None:
        self._page = b""
        self._at = 0

    def draw(self) -> int:
        """Return 64 random bits."""
        if self._at >= len(self._page):
            self._page, self._at = os.urandom(4096), 0
        bits = self._page[self._at : self._at + 8]
        self._at += 8
        return int.from_bytes(bits, "big")
