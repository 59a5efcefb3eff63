"""Guard of etcd's quota: warnings before etcd refuses writes, and while etcd refuses them."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from rota.node.coordination.etcd_space import EtcdSpace

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10.0
"""The period of the checks. A check takes about 3 ms of an etcd member's time; a quota of 2 GiB is
not used up within minutes by accident."""
WARN_AT = 0.8
REMEDY = (
    '`etcdctl compact`, `etcdctl defrag` and `etcdctl alarm disarm` make room: see "etcd is full" '
    "in docs/how-to/operate.md"
)

LookAtEtcd = Callable[[], Awaitable[EtcdSpace | None]]


class EtcdGuard:
    """The guard of the space in etcd.

    Args:
        look: Returns the space in etcd, or None if it is unknown.
    """

    def __init__(self, look: LookAtEtcd) -> None:
        self._look = look
        self._found: EtcdSpace | None = None
        self._is_warned = False

    async def run(self) -> None:
        """Check the space periodically until cancelled."""
        while True:
            self.see(await self._look())
            await asyncio.sleep(LOOK_EVERY_S)

    def see(self, found: EtcdSpace | None) -> None:
        """Record the space in etcd; None (unknown) changes nothing."""
        self._found = found or self._found
        trouble = self.why_short
        if trouble and not self._is_warned:
            log.warning("etcd nearly full", extra={"reason": trouble})
        elif self._is_warned and not trouble:
            log.info("etcd has space again", extra={"used_bytes": self.used_bytes})
        self._is_warned = trouble is not None

    @property
    def used_bytes(self) -> float:
        """The size of the database of the fullest member; NaN while it is unknown."""
        return float(self._found.used_bytes) if self._found else math.nan

    @property
    def quota_bytes(self) -> float:
        """The quota of the fullest member; NaN while it is unknown."""
        return float(self._found.quota_bytes) if self._found else math.nan

    @property
    def why_short(self) -> str | None:
        """The problem with the space in etcd, and its remedy; None if there is no problem."""
        found = self._found
        if found is None:
            return None
        if found.is_refusing:
            return (
                "etcd refuses writes because its quota was used up (alarm NOSPACE): no shard can "
                f"get another primary, and no node can join. {REMEDY}"
            )
        part = found.used_bytes / found.quota_bytes
        if part < WARN_AT:
            return None
        words = f"etcd's database takes {part:.0%} of its quota; at 100% it refuses all writes"
        return f"{words}. {REMEDY}"
