"""What has to be done from time to time, whatever is asked of a node."""

import asyncio
import logging
from collections.abc import Callable, Collection

from rota.core.commands import Forget, ForgetRequests
from rota.core.errors import Refused
from rota.core.instants import MINUTE, SECOND, Duration, Instant, later
from rota.executor.executor import Executor
from rota.node.clock import Clock
from rota.node.shard import Shard
from rota.node.shards import Shards
from rota.node.sides import Sides
from rota.node.timers import Timers
from rota.storage.history import History

log = logging.getLogger(__name__)

DISK_LOOK_S = 0.25
KEEPING_S = 1.0
FORGOTTEN_PER_SHARD = 500
"""Executions that one shard forgets in one round: retention keeps up with 500 x shards a second."""
LOOKS = 100
"""How often a shard is looked at for what is too old in the time that it is kept."""
LOOK_MAX = MINUTE
"""And at least so often. Among ten million a look takes a millisecond of the loop, and more."""


class Housekeeping:
    """The housekeeping of a node.

    Args:
        shards: Of this node.
        sides: Likewise.
        timers: Theirs.
        history: Of the shards.
        keep_for: How long what is finished is kept.
        look_for_room: Returns why the disk takes no more, or None.
        clock: Of this node.
    """

    def __init__(
        self,
        shards: Shards,
        sides: Sides,
        timers: Timers,
        history: History,
        *,
        keep_for: Duration,
        look_for_room: Callable[[], Refused | None],
        clock: Clock,
    ) -> None:
        self._shards = shards
        self._sides = sides
        self._timers = timers
        self._history = history
        self._keep_for = keep_for
        self._look_for_room = look_for_room
        self._clock = clock
        self._look_every = Duration(min(max(keep_for // LOOKS, SECOND), LOOK_MAX))
        # Each shard at a time of its own, so that none waits for the looks at all others.
        self._looks_at = {
            shard.id: later(clock.elapsed(), Duration(self._look_every * place // len(shards)))
            for place, shard in enumerate(shards)
        }

    async def guard_disk(self) -> None:
        """Refuse requests while the disk is nearly full; and go on when it no longer is."""
        while True:
            before, found = self._shards.refuse_requests, self._look_for_room()
            if (before is None) != (found is None):
                event = "disk nearly full" if found else "disk has room again"
                log.warning(event)
            self._shards.refuse_requests = found
            await asyncio.sleep(DISK_LOOK_S)

    async def keep(self, executors: Collection[Executor]) -> None:
        """Page in timers, and drop what is older than it is to be kept."""
        while True:
            await asyncio.sleep(KEEPING_S)
            self._timers.page_in((*self._shards.numbers, *self._sides.open_numbers))
            before = Instant(self._clock.now() - self._keep_for)
            for shard in self._shards:
                if shard.is_open:
                    self._forget(shard, before)
                await asyncio.sleep(0)
            for executor in executors:
                await executor.expire(before)

    def _forget(self, shard: Shard, before: Instant) -> None:
        now = self._clock.elapsed()
        if now >= self._looks_at[shard.id]:
            pasts = self._history.older_than(shard.id, before, FORGOTTEN_PER_SHARD)
            if pasts:
                self._shards.submit(shard, Forget(pasts=pasts))
            if len(pasts) < FORGOTTEN_PER_SHARD:
                self._looks_at[shard.id] = later(now, self._look_every)
        oldest = next(iter(shard.state.requests.values()), None)
        if oldest is not None and oldest.expires_at <= self._clock.now():
            self._shards.submit(shard, ForgetRequests())
