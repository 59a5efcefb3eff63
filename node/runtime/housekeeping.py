"""Periodic work of a node: timers, retention and the space on the disk."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from rota.core.model.ids import ExecutionId, ShardId, job_of
from rota.core.timing.instants import MINUTE, SECOND, Duration, Instant, later
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import Forget, ForgetRequests, Past
from rota.core.vocabulary.disk_space import DiskSpace
from rota.executor.executor import Executor
from rota.node.shards.fallback_shards import FallbackShards
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard
from rota.node.shards.timers import Timers
from rota.node.system.clock import Clock
from rota.node.system.disk_guard import FoundSpace
from rota.storage.history import History

log = logging.getLogger(__name__)

DISK_LOOK_S = 0.25
KEEPING_S = 1.0
FORGOTTEN_PER_SHARD = 500
"""The most executions that one shard removes in one round, so that all shards together can remove
500 times their number per second."""
LOOKS = 100
"""The number of checks of a shard for expired history in the time for which history is kept."""
LOOK_MAX = MINUTE
"""The longest period of these checks. With ten million executions, a check takes 1 ms of the event
loop."""
JOBS_PER_SLICE = 50
"""The number of jobs whose newest executions are read without a pause: 1 ms for 10 each."""


class Housekeeping:
    """The housekeeping of a node.

    Args:
        shards: The shards of this node.
        fallback_shards: The fallback shards of this node.
        timers: The timers of the shards and of the fallback shards.
        history: The history of the shards.
        keep_for: The time for which finished executions are kept.
        keep_per_job: The number of the newest finished executions of each job that are kept longer.
        look_for_space: Returns the space left on the disk.
        see_space: Called with each result of *look_for_space*.
        of_each_shard: Further periodic work of each open shard, which does not wait.
        clock: The clock of this node.
    """

    def __init__(
        self,
        shards: Shards,
        fallback_shards: FallbackShards,
        timers: Timers,
        history: History,
        *,
        keep_for: Duration,
        keep_per_job: int,
        look_for_space: Callable[[], FoundSpace],
        see_space: Callable[[FoundSpace], None],
        of_each_shard: Sequence[Callable[[Shard], None]],
        clock: Clock,
    ) -> None:
        self._shards = shards
        self._fallback_shards = fallback_shards
        self._timers = timers
        self._history = history
        self._keep_for = keep_for
        self._keep_per_job = keep_per_job
        self._look_for_space = look_for_space
        self._see_space = see_space
        self._of_each_shard = of_each_shard
        self._clock = clock
        self._look_every = Duration(min(max(keep_for // LOOKS, SECOND), LOOK_MAX))
        # The checks of different shards are spread evenly over the period.
        self._looks_at = {
            shard.id: later(clock.elapsed(), Duration(self._look_every * place // len(shards)))
            for place, shard in enumerate(shards)
        }
        # Shards with a removal under way. Before its commit, the same records would be found again,
        # and a kept record would get a second position.
        self._forgetting: set[ShardId] = set()

    async def guard_disk(self) -> None:
        """Check the space on the disk periodically, until cancelled."""
        before = DiskSpace.AMPLE
        while True:
            found = self._look_for_space()
            if found.space is not before:
                log.warning("disk space changed", extra={"space": found.space.name.lower()})
                before = found.space
            self._see_space(found)
            await asyncio.sleep(DISK_LOOK_S)

    async def keep(self, executors: Collection[Executor]) -> None:
        """Load timers that are due soon, and remove expired history, until cancelled."""
        while True:
            await asyncio.sleep(KEEPING_S)
            self._timers.page_in((*self._shards.numbers, *self._fallback_shards.open_numbers))
            before = Instant(self._clock.now() - self._keep_for)
            for shard in self._shards:
                if shard.is_open:
                    self._forget_requests(shard)
                    for work in self._of_each_shard:
                        work(shard)
                    await self._forget(shard, before)
                await asyncio.sleep(0)
            for executor in executors:
                await executor.expire(before)

    async def _forget(self, shard: Shard, before: Instant) -> None:
        now = self._clock.elapsed()
        if now < self._looks_at[shard.id] or shard.id in self._forgetting:
            return
        pasts = self._history.older_than(shard.id, before, FORGOTTEN_PER_SHARD)
        if len(pasts) < FORGOTTEN_PER_SHARD:
            self._looks_at[shard.id] = later(now, self._look_every)
        if not pasts:
            return
        newest = await self._newest(shard, pasts)

        def forgot(answer: Answer) -> None:
            del answer  # If the removal was refused, the same records are found again.
            self._forgetting.discard(shard.id)

        command = Forget(
            pasts=tuple(past for past in pasts if past.pointer.key not in newest),
            kept=tuple(past for past in pasts if past.pointer.key in newest),
        )
        self._forgetting.add(shard.id)
        self._shards.submit(shard, command, forgot)

    async def _newest(self, shard: Shard, pasts: Collection[Past]) -> set[str]:
        """Return the ids of the newest executions of each job of which *pasts* has executions."""
        if not self._keep_per_job:
            return set()
        jobs = dict.fromkeys(
            job_of(ExecutionId(past.pointer.key))
            for past in pasts
            if past.pointer.table == Table.PAST_EXECUTION
        )
        newest: set[str] = set()
        for number, job_id in enumerate(jobs, 1):
            newest |= self._history.newest_of(shard.id, job_id, self._keep_per_job)
            if number % JOBS_PER_SLICE == 0:
                await asyncio.sleep(0)
        return newest

    def _forget_requests(self, shard: Shard) -> None:
        oldest = next(iter(shard.state.requests.values()), None)
        if oldest is not None and oldest.expires_at <= self._clock.now():
            self._shards.submit(shard, ForgetRequests())
