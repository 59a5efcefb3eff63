"""Warm workers: a pool for each environment, and one bound on all of them.

A worker is started for a waiting attempt:

- at once, while its pool has fewer than `Bounds.ready_max`, by default the number of cores;
- above that, one more each time the longest waiting attempt has waited `Bounds.patience_s`, counted
  from its launch or from the last start: functions that sleep or wait leave the cores idle, and
  other attempts need not wait for them;
- never more than `Bounds.workers_max` in all. At that limit, the worker of any pool that has been
  idle for longest is ended. If no worker is idle, attempts wait in order; a pool without any worker
  is served when the next worker becomes free.

A worker is ended after `Bounds.idle_s` without calls; after a number of calls; at an age; when its
memory has grown; or when its last call left processes or threads behind. Except for the first, this
happens after a call, never during one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from rota.executor.python.environment import Environment
from rota.executor.python.worker_process import WorkerEnd, WorkerProcess
from rota.executor.python.worker_start import StartedWorker


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The limits of the numbers and the lifetimes of workers.

    Attributes:
        ready_max: The number of workers of one environment that are started without delay.
        workers_max: The number of workers of all environments. A node runs 64 attempts by default.
        patience_s: The time that an attempt waits before a worker beyond *ready_max* is started for
            it. A worker takes 30 ms of a core to start, so starts take at most a third of a core.
        start_s: The longest time until a new worker is ready.
        idle_s: The time after which an idle worker is ended.
        calls_max: The number of calls after which a worker is replaced: each call may leak a little
            memory.
        age_s: The age at which a worker is replaced, so that changed modules are loaded in the end.
        growth_bytes_max: The growth of memory, since the first call, at which a worker is replaced.
    """

    ready_max: int
    workers_max: int = 64
    patience_s: float = 0.1
    start_s: float = 60.0
    idle_s: float = 60.0
    calls_max: int = 10_000
    age_s: float = 600.0
    growth_bytes_max: int = 256 << 20


class Waiting(Protocol):
    """An attempt that needs a worker."""

    def begin(self, worker: WorkerProcess) -> None:
        """Start on *worker*, which is to be returned with `Pools.release`."""
        ...

    def fail(self, reason: str, output: bytes) -> None:
        """End, as no worker could be started; never called from inside `Pools.run`."""
        ...


class _Turn(NamedTuple):
    """The turn of a waiting attempt.

    Attributes:
        number: Grows with every attempt, unlike the clock of a loop.
        began_at: The time at which the attempt began to wait, on the loop's clock.
    """

    number: int
    began_at: float


@dataclass(eq=False)
class _Pool:
    """The workers of one environment.

    Attributes:
        waiting: The waiting attempts and their turns, in order.
        idle: The workers without a call; the one that was busy last, the warmest, is at the end.
        starting: The number of workers that are not ready, including those without a process yet.
        workers: The workers that are ready and may be used.
        started_at: The time of the last request to start a worker, on the loop's clock.
    """

    environment: Environment
    waiting: OrderedDict[Waiting, _Turn] = field(default_factory=OrderedDict[Waiting, _Turn])
    idle: list[WorkerProcess] = field(default_factory=list[WorkerProcess])
    starting: int = 0
    workers: set[WorkerProcess] = field(default_factory=set[WorkerProcess])
    started_at: float = 0.0
    timer: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        return self.starting + len(self.workers)

    @property
    def waits_since(self) -> _Turn:
        """The turn of the attempt that has waited longest; not to be used if none waits."""
        return next(iter(self.waiting.values()))


class Pools:
    """All workers of an executor.

    Args:
        start: Starts a worker's process in another thread; then calls, on the loop, `started` or
            `not_started`.
        remove: Called with every worker that has ended.
        killer: A pool of one thread, in which workers are killed.
        bounds: The limits of the numbers and the lifetimes of workers.

    Attributes:
        alive: The workers that have a process, including those that are about to end.
    """

    def __init__(
        self,
        *,
        start: Callable[[Environment], None],
        remove: Callable[[WorkerProcess], None],
        killer: Executor,
        bounds: Bounds,
    ) -> None:
        self._start_process = start
        self._remove = remove
        self._killer = killer
        self._bounds = bounds
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._pools: dict[Environment, _Pool] = {}
        self.alive: set[WorkerProcess] = set()
        self._start_timers: dict[WorkerProcess, asyncio.TimerHandle] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._empty = asyncio.Event()

    # -- attempts ----------------------------------------------------------------------------------

    def run(self, environment: Environment, attempt: Waiting, *, is_first: bool = False) -> None:
        """Start *attempt* on a worker, now or in its turn; with *is_first*, before all others."""
        pool = self._pools.get(environment)
        if pool is None:
            pool = self._pools[environment] = _Pool(environment)
        if pool.idle:
            attempt.begin(pool.idle.pop())
            return
        number = 0 if is_first else next(self._numbers)
        pool.waiting[attempt] = _Turn(number, self._loop.time())
        pool.waiting.move_to_end(attempt, last=not is_first)
        self._grow(pool)

    def withdraw(self, environment: Environment, attempt: Waiting) -> None:
        """Remove the waiting *attempt* from its queue."""
        del self._pools[environment].waiting[attempt]

    def release(self, worker: WorkerProcess, *, resident: int, is_spent: bool) -> None:
        """Take a worker back from its attempt.

        Args:
            worker: The worker, which may have ended.
            resident: Its resident memory in bytes.
            is_spent: True if the worker must not be used again. It is then killed, because code of
                the attempt may still run in it.
        """
        worker.release()
        worker.resident_first = worker.resident_first or resident
        if is_spent or not worker.is_usable:
            self._drop(worker)
            worker.kill()
        elif self._is_worn(worker, resident) or self._is_needed_elsewhere(worker):
            self._drop(worker)
            worker.retire()
        else:
            self._offer(worker)

    async def close(self) -> None:
        """End all workers; all attempts must have ended."""
        self._is_closed = True
        for worker in list(self.alive):
            self._drop(worker)
            worker.retire()
        for pool in self._pools.values():
            if pool.timer is not None:
                pool.timer.cancel()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._tell_if_empty()
        await self._empty.wait()

    # -- workers: `rota.executor.python.worker_process.Keeper` -------------------------------------

    def started(self, environment: Environment, process: StartedWorker) -> None:
        """Take a worker's process that `start` has started."""
        worker = WorkerProcess(
            process, environment, keeper=self, killer=self._killer, loop=self._loop
        )
        self.alive.add(worker)
        if self._is_closed:
            self._pools[environment].starting -= 1
            worker.kill()
        else:
            self._start_timers[worker] = self._loop.call_later(self._bounds.start_s, worker.kill)

    def not_started(self, environment: Environment, reason: str) -> None:
        """Process the failure of `start`."""
        pool = self._pools[environment]
        pool.starting -= 1
        self._fail_first(pool, reason, b"")
        self._forget_if_empty(pool)
        self._tell_if_empty()

    def ready(self, worker: WorkerProcess) -> None:
        """Give a new worker its first call."""
        timer = self._start_timers.pop(worker, None)
        if timer is None:
            return  # The worker has sent this before, or sends it too late.
        timer.cancel()
        pool = self._pools[worker.environment]
        pool.starting -= 1
        if worker.is_usable:
            pool.workers.add(worker)
            self._offer(worker)

    def gone(self, worker: WorkerProcess, death: WorkerEnd) -> None:
        """Forget a worker that has ended."""
        self.alive.discard(worker)
        self._remove(worker)
        pool = self._pools[worker.environment]
        timer = self._start_timers.pop(worker, None)
        if timer is not None:
            timer.cancel()
            pool.starting -= 1
            reason = f"no worker could be started: its process {_how(death)}"
            self._fail_first(pool, reason, worker.said)
        self._drop(worker)
        self._forget_if_empty(pool)
        self._tell_if_empty()

    # -- how many ----------------------------------------------------------------------------------

    def _offer(self, worker: WorkerProcess) -> None:
        """Give a free worker to the longest waiting attempt, if there is one."""
        pool = self._pools[worker.environment]
        if pool.waiting:
            attempt, _ = pool.waiting.popitem(last=False)
            attempt.begin(worker)
            return
        worker.idle_since = self._loop.time()
        pool.idle.append(worker)
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(self._bounds.idle_s, self._sweep)

    def _drop(self, worker: WorkerProcess) -> None:
        """Stop counting a worker, and start others that are needed in its place."""
        pool = self._pools.get(worker.environment)
        if pool is not None:  # The last output of an ended worker may be read after its pool.
            pool.workers.discard(worker)
            if worker in pool.idle:
                pool.idle.remove(worker)
        waiting = [each for each in self._pools.values() if each.waiting]
        for each in sorted(waiting, key=lambda each: each.waits_since):
            self._grow(each)

    def _grow(self, pool: _Pool) -> None:
        """Start the workers that *pool* may have at once, and check again after the patience."""
        if self._is_closed:
            return
        while pool.starting < len(pool.waiting) and pool.count < self._bounds.ready_max:
            if not self._start(pool):
                break
        if pool.timer is None:
            pool.timer = self._loop.call_later(self._bounds.patience_s, self._grow_further, pool)

    def _grow_further(self, pool: _Pool) -> None:
        pool.timer = None
        if not pool.waiting:
            return
        waits_s = self._loop.time() - max(pool.waits_since.began_at, pool.started_at)
        if waits_s >= self._bounds.patience_s and pool.starting < len(pool.waiting):
            self._start(pool)
        self._grow(pool)

    def _start(self, pool: _Pool) -> bool:
        so_far = sum(each.count for each in self._pools.values())
        if so_far >= self._bounds.workers_max and not self._make_room():
            return False
        pool.starting += 1
        pool.started_at = self._loop.time()
        self._start_process(pool.environment)
        return True

    def _make_room(self) -> bool:
        """End the worker that has been idle for longest, if there is one; return True if so."""
        idle = [pool.idle[0] for pool in self._pools.values() if pool.idle]
        if not idle:
            return False
        longest = min(idle, key=lambda worker: worker.idle_since)
        pool = self._pools[longest.environment]
        pool.idle.remove(longest)
        pool.workers.discard(longest)
        longest.retire()
        return True

    def _is_needed_elsewhere(self, worker: WorkerProcess) -> bool:
        """Return True if a pool without any worker waits for one."""
        if len(self.alive) < self._bounds.workers_max:
            return False
        own = self._pools[worker.environment]
        return any(
            each.waiting
            and each.count == 0
            and (not own.waiting or each.waits_since < own.waits_since)
            for each in self._pools.values()
        )

    def _is_worn(self, worker: WorkerProcess, resident: int) -> bool:
        return (
            worker.call_count >= self._bounds.calls_max
            or self._loop.time() - worker.started_at >= self._bounds.age_s
            or resident - worker.resident_first >= self._bounds.growth_bytes_max
        )

    def _sweep(self) -> None:
        """End the workers that have been idle for too long."""
        self._sweep_timer = None
        now = self._loop.time()
        for pool in list(self._pools.values()):
            for worker in list(pool.idle):
                if now - worker.idle_since >= self._bounds.idle_s:
                    self._drop(worker)
                    worker.retire()
        idle = [worker.idle_since for pool in self._pools.values() for worker in pool.idle]
        if idle:
            next_at = min(idle) + self._bounds.idle_s
            self._sweep_timer = self._loop.call_at(next_at, self._sweep)

    def _fail_first(self, pool: _Pool, reason: str, output: bytes) -> None:
        if pool.waiting:
            attempt, _ = pool.waiting.popitem(last=False)
            attempt.fail(reason, output)
        if pool.waiting:
            self._grow(pool)

    def _forget_if_empty(self, pool: _Pool) -> None:
        is_there = any(worker.environment == pool.environment for worker in self.alive)
        if not is_there and not pool.count and not pool.waiting:
            if pool.timer is not None:
                pool.timer.cancel()
            del self._pools[pool.environment]

    def _tell_if_empty(self) -> None:
        is_starting = any(pool.starting for pool in self._pools.values())
        if self._is_closed and not self.alive and not is_starting:
            self._empty.set()


def _how(death: WorkerEnd) -> str:
    if death.signal:
        return f"was ended by signal {death.signal}"
    return f"exited with code {death.exit_code}"
