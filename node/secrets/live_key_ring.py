"""The key ring of this node, which follows its file while the node runs."""

import asyncio
import logging
from pathlib import Path

from rota.wire.key_rings import KeyRing, KeyRingInvalid, read_key_ring

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""The period of the looks at the file: a new key is known to a node within this time."""


class LiveKeyRing:
    """A key ring in memory, and the file from which it is read again when it has changed.

    Args:
        file: The file; None for a node without a key ring.

    Raises:
        KeyRingInvalid: The file cannot be used.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._ring = read_key_ring(file) if file is not None else None

    @property
    def ring(self) -> KeyRing | None:
        """The present key ring; None without one."""
        return self._ring

    async def run(self) -> None:
        """Read the file again when it has changed, until cancelled."""
        refused = ""
        while self._file is not None:
            await asyncio.sleep(LOOK_S)
            reason = await self.look()
            if reason not in ("", refused):  # Once for each reason, and not at every look.
                log.error("key ring not replaced", extra={"reason": reason})
            refused = reason

    async def look(self) -> str:
        """Read the file now; return why its content cannot be used, or nothing.

        The keys in memory stay if the file cannot be used.
        """
        if self._file is None:
            return ""
        try:
            found = await asyncio.to_thread(read_key_ring, self._file)
        except KeyRingInvalid as error:
            return str(error)
        if found != self._ring:
            log.info("key ring changed", extra={"in_use": found.in_use, "held": list(found.keys)})
            self._ring = found
        return ""
