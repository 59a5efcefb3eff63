"""A node: its parts, put together, started and stopped in order.

Everything that runs is born in the task group of `Node.run`; the start order, and its reverse, live
here and nowhere else.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from aiohttp import web

from rota.core.commands import Command, Due, Forget, ForgetRequests, LoseSession, Receive
from rota.core.commands import Delivered as DeliveredParcel
from rota.core.decision import Limits
from rota.core.effects import (
    ClearTimer,
    Deliver,
    Effect,
    Launch,
    Publish,
    PublishJob,
    SetTimer,
    Stop,
    Wait,
)
from rota.core.errors import Refused, RotaError
from rota.core.execution import FINAL_EXECUTION_STATES, ExecutionStatus, TaskStatus
from rota.core.ids import Epoch, Session, ShardId, instant_of
from rota.core.instants import SECOND, Instant
from rota.executor.executor import Executor
from rota.executor.orphans import end_orphans
from rota.executor.process import ProcessExecutor
from rota.executor.scripted import ScriptedExecutor
from rota.node.api.access_log import ACCESS_LOGGER, ACCESS_LOGS
from rota.node.api.app import make_app
from rota.node.attempts import Attempts
from rota.node.clock import Clock, SystemClock
from rota.node.config import Address, NodeConfig
from rota.node.coordinator import Configuration, Coordinator, EmbeddedCoordinator, Member, Swap
from rota.node.disk import DiskGuard
from rota.node.entropy import Entropy, SystemEntropy
from rota.node.events import Events
from rota.node.metrics import Metrics
from rota.node.parts import Parts
from rota.node.shards import Answer, Life, Shard, Shards
from rota.node.timers import Timers
from rota.node.watch import Watch
from rota.storage.directory import DataDirectory
from rota.storage.group_commit import CLOSE_TIMEOUT_S, GroupCommit
from rota.storage.history import History
from rota.storage.rocks import RocksStore
from rota.storage.store import Store

log = logging.getLogger(__name__)

COORDINATION_FILE = "COORDINATION"
DISK_LOOK_S = 0.25
KEEPING_S = 1.0
FORGOTTEN_PER_SHARD = 500
"""Executions that one shard forgets in one round: retention keeps up with 500 x shards a second."""
SHUTDOWN_S = 2.0
"""How long open connections get when the API stops."""


class OrphansLeft(RotaError):
    """Attempts of an earlier life still run and cannot be ended."""

    code = "orphans_left"


class Node:
    """One node, from start to stop.

    Args:
        config: Its settings.
        clock: Its two times.
        entropy: Its randomness.
    """

    def __init__(
        self, config: NodeConfig, clock: Clock | None = None, entropy: Entropy | None = None
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.entropy = entropy or SystemEntropy()
        self.address: Address | None = None
        """Where the API listens, once it does."""
        self.started = asyncio.Event()
        self._stop = asyncio.Event()
        self._why_unready: str | None = "the node is starting"

    def stop(self) -> None:
        """Ask the node to stop; `run` returns when it has."""
        self._stop.set()

    async def run(self) -> None:
        """Start, serve until `stop`, and stop.

        Raises:
            StoreError: The data directory or the store cannot be used, or failed.
            CoordinationFailed: Likewise the coordination state.
            OSError: The address cannot be listened on.
        """
        async with AsyncExitStack() as stack:
            directory = stack.enter_context(self._open_directory())
            self._end_orphans(directory)
            store = RocksStore(directory.store_path)
            stack.callback(store.close)
            coordinator = EmbeddedCoordinator(directory.path / COORDINATION_FILE)
            life = Life(self.config.node_id, self._new_session())
            epochs = await self._take_shards(coordinator, directory, life)
            works = Works(self, store, directory, life, epochs)
            await stack.enter_async_context(works.running())
            await stack.enter_async_context(self._serving(works.parts))
            self._why_unready = None
            self.started.set()
            log.info("node started", extra={"node": life.node_id, "listen": str(self.address)})
            await works.run_until(self._stop)
            self._why_unready = "the node is stopping"
            log.info("node stopping", extra={"node": life.node_id})
        log.info("node stopped", extra={"node": self.config.node_id})

    def unready(self) -> str | None:
        """Return why the node does not serve, or None if it does."""
        return self._why_unready

    def _open_directory(self) -> DataDirectory:
        return DataDirectory.open(
            self.config.data_dir,
            store_id=self._random_name(),
            shard_count=self.config.shards,
            cluster=self._random_name(),
        )

    def _end_orphans(self, directory: DataDirectory) -> None:
        orphans = end_orphans(directory.identity.store_id)
        if orphans.keys:
            ended = [str(key) for key in orphans.keys]
            log.warning("orphans ended", extra={"attempts": ended})
        if orphans.pids_left:
            # Beside them, their attempts would run twice.
            raise OrphansLeft(
                f"processes {', '.join(map(str, orphans.pids_left))} of an earlier life of this "
                "node cannot be ended; end them, or restart the machine"
            )

    async def _take_shards(
        self, coordinator: Coordinator, directory: DataDirectory, life: Life
    ) -> list[Epoch]:
        """Become primary of every shard, each under its next epoch (PROTOCOL R6)."""
        member = Member(
            node_id=life.node_id,
            store_id=directory.identity.store_id,
            address=self.config.advertise or str(self.config.listen),
            peer_address=str(self.config.peer_listen),
            zone=self.config.zone,
            labels=dict(self.config.labels),
        )
        await coordinator.join(member, life.session)
        before = await coordinator.configurations()
        swaps: list[Swap] = []
        for number in range(directory.identity.shard_count):
            held = before.get(ShardId(number))
            expected = held.epoch if held else Epoch(0)
            fresh = Configuration(
                epoch=Epoch(expected + 1), primary=life.node_id, primary_session=life.session
            )
            swaps.append(Swap(shard=ShardId(number), expected=expected, configuration=fresh))
        done = await coordinator.swap(swaps)
        assert all(done), "somebody else changes the configurations of a node that is alone"
        return [swap.configuration.epoch for swap in swaps]

    @asynccontextmanager
    async def _serving(self, parts: Parts) -> AsyncGenerator[None]:
        app = make_app(parts, self.entropy.draw)
        # Cancelled with its client: else one that has gone is waited for as long as it asked to.
        runner = web.AppRunner(
            app,
            access_log_class=ACCESS_LOGS[self.config.access_log],
            access_log=ACCESS_LOGGER,
            shutdown_timeout=SHUTDOWN_S,
            handler_cancellation=True,
        )
        await runner.setup()
        try:
            listen = self.config.listen
            site = web.TCPSite(runner, listen.host, listen.port, backlog=1024)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.address = Address(host, port)
            yield
        finally:
            await runner.cleanup()

    def _new_session(self) -> Session:
        return Session(f"{self.entropy.draw():016x}")

    def _random_name(self) -> str:
        return f"{self.entropy.draw():016x}{self.entropy.draw():016x}"


class Works:
    """What turns inside a node: shards, timers, attempts; and what carries out effects.

    Args:
        node: Whose configuration, clock and entropy they go by.
        store: Where the shards are; the caller closes it.
        directory: For output, and watched for room.
        life: Who decides.
        epochs: The epoch of each shard, by number.

    Attributes:
        parts: For those who look into them.
    """

    def __init__(
        self,
        node: Node,
        store: Store,
        directory: DataDirectory,
        life: Life,
        epochs: list[Epoch],
    ) -> None:
        self._node = node
        self._config = node.config
        self._clock = node.clock
        self._life = life
        self._store = store
        self._directory = directory
        self._shards = Shards(
            store,
            epochs,
            life=life,
            clock=node.clock,
            entropy=node.entropy,
            limits=Limits(executions=node.config.executions_max),
        )
        self._timers = Timers(store, node.clock, self._alarm, on_failed=self._shards.fail)
        self._attempts = Attempts(self._shards, node.clock, node.config.slots)
        self._watch = Watch()
        self._events = Events(f"{node.entropy.draw() >> 32:08x}", node.clock)
        self._metrics = Metrics()
        self._disk = DiskGuard(directory.path, node.config.disk_reserve_mb << 20)
        self.parts = Parts(
            config=node.config,
            clock=node.clock,
            shards=self._shards,
            attempts=self._attempts,
            history=History(store, self._shards.numbers),
            watch=self._watch,
            events=self._events,
            metrics=self._metrics,
            unready=self._unready,
        )
        self._failure: asyncio.Future[None]
        self._executors: Mapping[str, Executor] = {}

    # -- life -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Start everything but the API; stop it in reverse order."""
        loop = asyncio.get_running_loop()
        self._failure = loop.create_future()
        commit = GroupCommit(
            self._store,
            loop=loop,
            on_durable=self._shards.made_durable,
            on_failed=self._shards.sync_failed,
            on_sync=self._metrics.sync.observe,
        )
        self._measure(commit)
        try:
            self._executors = self._make_executors()
            self._attempts.use(self._executors)
            self._shards.start(self, commit, failure=self._failure)
            for shard in self._shards:
                self._timers.forget_far(shard.id)
            await self._shards.take_over(is_start=True)
            self._lose_past_sessions()
            yield
        finally:
            await self._wind_down(commit)
        if self._failure.done():
            # Only now, while it stopped: whatever waited was refused, and nobody else tells.
            self._failure.result()

    async def run_until(self, stop: asyncio.Event) -> None:
        """Do the housekeeping until *stop*, or until something makes the node unfit."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._or_fail(work))
                for work in (self._guard_disk(), self._keep_house())
            ]
            self._failure.add_done_callback(lambda _: stop.set())
            await stop.wait()
            self._watch.close()
            self._events.close()
            for task in tasks:
                task.cancel()
        if self._failure.done():
            self._failure.result()

    async def _or_fail(self, work: Coroutine[None, None, None]) -> None:
        """Do housekeeping; an error there ends the node as one of the journal does (R25)."""
        try:
            await work
        except Exception as error:
            self._shards.fail(error)

    async def _wind_down(self, commit: GroupCommit) -> None:
        try:
            self._timers.close()
            self._attempts.places.slots = 0
            await self._drain()
            self._attempts.close()
            for executor in self._executors.values():
                await executor.close()
            with suppress(TimeoutError):  # The disk hangs, which closing the commit then tells.
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._shards.stop()
        finally:
            commit.close()

    async def _drain(self) -> None:
        """Let attempts end by themselves, for a while; those that do not are lost and run again."""
        deadline = self._clock.elapsed() + self._config.drain
        while self._attempts.running and self._clock.elapsed() < deadline:
            if self._failure.done():
                return
            await asyncio.sleep(0.02)

    def _make_executors(self) -> Mapping[str, Executor]:
        return {
            "process": ProcessExecutor(
                self._directory.path,
                node_id=self._life.node_id,
                store_id=self._directory.identity.store_id,
                ended=self._attempts.ended,
                now=self._clock.now,
                environ=os.environ,
            ),
            "scripted": ScriptedExecutor(ended=self._attempts.ended, now=self._clock.now),
        }

    def _lose_past_sessions(self) -> None:
        """Start again what ran when this node died: its processes have been ended (R36 b)."""
        for shard in self._shards:
            past = {
                (attempt.node_id, attempt.session)
                for tasks in shard.state.tasks.values()
                for task in tasks.values()
                if task.status is TaskStatus.RUNNING
                for attempt in task.attempts[-1:]
                if attempt.session != self._life.session
            }
            for node_id, session in sorted(past):
                self._shards.submit(shard, LoseSession(node_id=node_id, session=session))

    # -- the shards' host -----------------------------------------------------------------------

    def room_for(self, command: Command) -> int:
        """Return how many attempts *command* may start."""
        return self._attempts.places.room_for(command)

    def decided(self, command: Command, started: int) -> None:
        """Take the places of what it starts."""
        self._attempts.places.decided(command, started)

    def perform(self, shard: Shard, effect: Effect) -> None:
        """Carry out an effect."""
        match effect:
            case Launch(order=order):
                self._attempts.launch(order)
            case Publish():
                self._published(effect)
            case PublishJob():
                self._events.publish(effect)
            case SetTimer():
                self._timers.set(shard.id, effect, shard.time(self._clock))
            case ClearTimer():
                self._timers.clear(shard.id, effect)
            case Wait():
                self._attempts.wait_for_place(shard, effect)
            case Stop(attempt=attempt):
                self._attempts.stop(attempt)
            case Deliver(parcel=parcel):
                self._deliver(shard, parcel.key, parcel.to, Receive(letter=parcel.letter))

    def _deliver(self, sender: Shard, key: str, to: str, letter: Receive) -> None:
        """Bring a letter to its shard; when that has committed it, the sender may forget it."""

        def delivered(answer: Answer) -> None:
            if not isinstance(answer, Refused):
                self._shards.submit(sender, DeliveredParcel(key=key))

        namespace, _, name = to.rpartition("/")
        self._shards.submit(self._shards.of_name(namespace, name), letter, delivered)

    def _published(self, event: Publish) -> None:
        self._watch.publish(event)
        self._events.publish(event)
        if event.status is TaskStatus.CANCELLED:
            self._attempts.forget_wait(event.execution_id, event.task)
        if event.status is ExecutionStatus.RUNNING:
            late_us = self._clock.now() - instant_of(event.execution_id)
            self._metrics.lateness.observe(max(0, late_us) / SECOND)
        elif event.status in FINAL_EXECUTION_STATES:
            self._metrics.executions.labels(event.status.value).inc()

    def _alarm(self, shard: ShardId, command: Due) -> None:
        self._shards.submit(self._shards[shard], command)

    # -- housekeeping ---------------------------------------------------------------------------

    async def _guard_disk(self) -> None:
        """Refuse requests while the disk is nearly full; and go on when it no longer is."""
        while True:
            before, found = self._shards.refuse_requests, self._disk.look()
            if (before is None) != (found is None):
                event = "disk nearly full" if found else "disk has room again"
                log.warning(event, extra={"folder": str(self._directory.path)})
            self._shards.refuse_requests = found
            await asyncio.sleep(DISK_LOOK_S)

    async def _keep_house(self) -> None:
        """Page in timers, and drop what is older than it is to be kept."""
        while True:
            await asyncio.sleep(KEEPING_S)
            self._timers.page_in(self._shards.numbers)
            before = Instant(self._clock.now() - self._config.history)
            for shard in self._shards:
                self._forget(shard, before)
                await asyncio.sleep(0)
            for executor in self._executors.values():
                await executor.expire(before)

    def _forget(self, shard: Shard, before: Instant) -> None:
        pasts = self.parts.history.older_than(shard.id, before, FORGOTTEN_PER_SHARD)
        if pasts:
            self._shards.submit(shard, Forget(pasts=pasts))
        oldest = next(iter(shard.state.requests.values()), None)
        if oldest is not None and oldest.expires_at <= self._clock.now():
            self._shards.submit(shard, ForgetRequests())

    def _unready(self) -> str | None:
        refusal = self._shards.refusal
        return self._node.unready() or (refusal.detail if refusal else None)

    def _measure(self, commit: GroupCommit) -> None:
        shards, places, gauge = self._shards, self._attempts.places, self._metrics.gauge
        gauge("rota_inbox", "Commands that wait to be decided.", lambda: shards.inbox_length)
        gauge(
            "rota_executions_unfinished",
            "Executions queued or running.",
            lambda: shards.execution_count,
        )
        gauge("rota_jobs", "Jobs.", lambda: sum(len(each.state.jobs) for each in shards))
        gauge("rota_slots_used", "Attempts that run or are about to.", lambda: places.used)
        gauge("rota_tasks_waiting", "Ready tasks that wait for a slot.", lambda: places.waiting)
        gauge("rota_waits", "Ends of executions that are waited for.", lambda: self._watch.count)
        gauge("rota_event_readers", "Who follows events.", lambda: self._events.reader_count)
        gauge("rota_timers", "Timers in memory.", lambda: len(self._timers))
        gauge("rota_store_bytes", "Size of the store on disk.", self._store.size_bytes)
        gauge("rota_ready", "1 if requests are taken.", lambda: float(self._unready() is None))
        counter = self._metrics.counter
        counter("rota_events", "Events published.", lambda: self._events.count)
        counter("rota_decisions", "Commands decided.", lambda: shards.decision_count)
        counter("rota_journal_entries", "Journal entries written.", lambda: shards.entry_count)
        counter("rota_journal_syncs", "Syncs of the journal.", lambda: commit.sync_count)
