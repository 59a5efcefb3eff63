"""Lifecycle of a node's parts: start, drain, stop and failure.

The parts come from `rota.node.runtime.wiring`. This module defines the order in which they start,
and in which they stop.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import partial

from rota.core.timing.instants import SECOND, Duration
from rota.node.runtime.node_metrics import measure_node
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.store_loops import StoreLoops
from rota.node.system.background import beside
from rota.storage.group_commit import CLOSE_TIMEOUT_S

RECORDED_WITHIN = Duration(5 * SECOND)
"""The time limit for the records of attempts that were stopped with their node. The warden keeps
outcomes that are not recorded by then for the next process."""
UNANSWERED_S = 0.2
"""The time limit in seconds for the last commits of a node whose drain did not finish."""


class NodeLifecycle:
    """Lifecycle of one node.

    Args:
        wiring: The parts of the node.

    Attributes:
        wiring: The parts of the node.
    """

    def __init__(self, wiring: NodeWiring) -> None:
        self.wiring = wiring
        self._config = wiring.context.config
        self._clock = wiring.context.clock
        self._is_alone = wiring.foundation.environment.is_alone
        self._commits_within_s = CLOSE_TIMEOUT_S
        self._failure = wiring.foundation.failure
        # A node that is cancelled as it fails raises the cancellation, and nothing else.
        self._failure.add_done_callback(lambda failed: failed.cancelled() or failed.exception())
        executors = wiring.attempts.local.executors
        self._executors = [*executors.hosted.values(), *executors.own.values()]
        self._to_close = [
            *executors.own.values(),
            *(executors.hosted.values() if self._config.ends_attempts else ()),
        ]
        """Executors whose attempts end with this process."""

    # -- start and stop -------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run all parts but the API while the body runs; stop them in reverse order."""
        wiring, loops = self.wiring, self._make_loops()
        measure_node(wiring, loops.commit)
        with loops.running(), closing(loops.commit):
            wiring.attempts.local.adopt()
            wiring.fallback_shards.reopen()
            async with AsyncExitStack() as services:
                for service in wiring.services:
                    await services.enter_async_context(beside(self._or_fail(service.run)))
                if self._is_alone:
                    await self._all_shards_open()
                try:
                    yield
                except BaseException:
                    await self._abandon()
                    raise
                await self._wind_down(loops)
        if self._failure.done():
            # The node failed during its stop: requests were refused, and no other call raises the
            # error.
            self._failure.result()

    async def run_until(self, stop: asyncio.Event) -> None:
        """Do the housekeeping until *stop* is set or the node fails, then drain the node.

        Raises:
            StoreError: The store failed. Any other error that ends the node is raised as well.
        """
        housekeeping = self.wiring.housekeeping
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._or_fail(work))
                for work in (
                    housekeeping.guard_disk,
                    partial(housekeeping.keep, self._executors),
                )
            ]
            self._failure.add_done_callback(lambda _: stop.set())
            await stop.wait()
            drain = self.wiring.cluster.drain
            if not self._is_alone and not await drain.leave(self._failure.done):
                self._commits_within_s = UNANSWERED_S
            self.wiring.feeds.close()
            for task in tasks:
                task.cancel()
        if self._failure.done():
            self._failure.result()

    def _make_loops(self) -> StoreLoops:
        wiring, environment = self.wiring, self.wiring.foundation.environment
        on_sync = wiring.context.metrics.sync.observe
        return StoreLoops(
            wiring.shards,
            wiring.fallback_shards,
            effects=wiring.effect_runner,
            fallback_effects=wiring.fallback.effects,
            peers=wiring.cluster.peers,
            swap_requests=wiring.cluster.swap_queue,
            make_commit=lambda durable: environment.commit(durable, on_sync),
        )

    async def _all_shards_open(self) -> None:
        """Wait until all shards are open here or unreadable; raise the error of a failure."""
        all_open = self.wiring.effect_runner.all_open
        self._failure.add_done_callback(lambda _: all_open.set())
        await all_open.wait()
        if self._failure.done():
            self._failure.result()

    async def _wind_down(self, loops: StoreLoops) -> None:
        attempts, wiring = self.wiring.attempts, self.wiring
        wiring.timers.close()
        wiring.foundation.slot_table.close()
        await self._await_attempts()
        attempts.leases.tick()  # Attempts that outlive this process get a whole lease.
        attempts.local.close(ends_hosted=self._config.ends_attempts)
        for executor in self._to_close:
            await executor.close()
        await self._await(lambda: not attempts.local.unrecorded_count, RECORDED_WITHIN)
        # If the time limit is reached, other copies do not answer; or the disk hangs, and then
        # closing the commit raises an error.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._commits_within_s):
                await loops.stop()

    async def _abandon(self) -> None:
        """Kill the attempts of this process, since after a failure no deadline ends them."""
        self.wiring.attempts.local.close(ends_hosted=self._config.ends_attempts)
        for executor in self._to_close:
            await executor.close(Duration(0))

    async def _await_attempts(self) -> None:
        """Wait for the attempts that end with this process, at most for the time `drain`.

        Attempts that have not ended by then are stopped.
        """
        await self._await(lambda: not self._ending_count(), self._config.drain)

    async def _await(self, is_so: Callable[[], bool], within: Duration) -> None:
        """Wait until *is_so*, at most for the time *within*, or until the node fails."""
        deadline = self._clock.elapsed() + within
        while not is_so() and self._clock.elapsed() < deadline:
            if self._failure.done():
                return
            await asyncio.sleep(0.02)

    def _ending_count(self) -> int:
        """Return the number of attempts that end with this process."""
        attempts = self.wiring.attempts.local
        return attempts.running if self._config.ends_attempts else attempts.own_count

    # -- background work ------------------------------------------------------------------------

    async def _or_fail(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do background work; an error in it ends the node, like an error of the journal (R25)."""
        shards = self.wiring.shards
        try:
            await work()
        except ExceptionGroup as group:
            shards.fail(group.exceptions[0])  # The first error; the other ones follow from it.
        except Exception as error:
            shards.fail(error)
