"""A node: its parts, put together, started and stopped in order.

Everything that runs is born in the task group of `Node.run`; the start order, and its reverse, live
here and nowhere else.
"""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from rota.core.replication.primary import Copies
from rota.core.replication.timing import Timing
from rota.executor.executor import Executor
from rota.executor.scripted import ScriptedExecutor
from rota.executor.warden.link import Link
from rota.node.api.access_log import ACCESS_LOGGER, ACCESS_LOGS
from rota.node.api.app import make_app
from rota.node.clock import Clock, SystemClock
from rota.node.config import Address, NodeConfig
from rota.node.coordination.coordinator import Coordinator, Member
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.disk import DiskGuard
from rota.node.entropy import Entropy, SystemEntropy
from rota.node.network import NoNetwork
from rota.node.parts import Parts
from rota.node.shards import Shards
from rota.node.works import OnEnded, Surroundings, Works
from rota.storage.directory import DataDirectory
from rota.storage.group_commit import GroupCommit
from rota.storage.rocks import RocksStore
from rota.storage.store import Store

log = logging.getLogger(__name__)

COORDINATION_FILE = "COORDINATION"
SHUTDOWN_S = 2.0
"""How long open connections get when the API stops."""


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
            WardenUnavailable: Nothing can run attempts.
            OSError: The address cannot be listened on.
        """
        async with AsyncExitStack() as stack:
            directory = stack.enter_context(self._open_directory())
            warden = self._link(directory)
            await warden.connect()
            stack.push_async_callback(self._leave, warden)
            store = RocksStore(directory.store_path)
            stack.callback(store.close)
            coordinator = EmbeddedCoordinator(directory.path / COORDINATION_FILE, self.entropy)
            stack.push_async_callback(coordinator.close)
            around = alone(self.config, directory, store, coordinator, self.clock, warden=warden)
            works = Works(
                self.config, self.clock, self.entropy, around, unready=lambda: self._why_unready
            )
            await stack.enter_async_context(works.running())
            await stack.enter_async_context(self._serving(works.parts))
            # What is there by now stays: a full collection that need not look at it takes less than
            # 5 ms of the loop, not 17.
            gc.freeze()
            self._why_unready = None
            self.started.set()
            log.info(
                "node started", extra={"node": self.config.node_id, "listen": str(self.address)}
            )
            await works.run_until(self._stop)
            self._why_unready = "the node is stopping"
            log.info("node stopping", extra={"node": self.config.node_id})
        log.info("node stopped", extra={"node": self.config.node_id})

    def _open_directory(self) -> DataDirectory:
        return DataDirectory.open(
            self.config.data_dir,
            store_id=self._random_name(),
            shard_count=self.config.shards,
            cluster=self._random_name(),
        )

    def _link(self, directory: DataDirectory) -> Link:
        return Link(
            directory.path,
            node_id=self.config.node_id,
            store_id=directory.identity.store_id,
            lease=self.config.attempt_lease,
            now=self.clock.now,
        )

    async def _leave(self, warden: Link) -> None:
        if self.config.ends_attempts:
            await warden.retire()
        else:
            await warden.close()

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

    def _random_name(self) -> str:
        return f"{self.entropy.draw():016x}{self.entropy.draw():016x}"


def alone(
    config: NodeConfig,
    directory: DataDirectory,
    store: Store,
    coordinator: Coordinator,
    clock: Clock,
    *,
    warden: Link | None,
) -> Surroundings:
    """Return what a node without others is put into: one copy of everything, its own."""
    identity = directory.identity

    def commit(shards: Shards, on_sync: Callable[[float], None]) -> GroupCommit:
        return GroupCommit(
            store,
            loop=asyncio.get_running_loop(),
            on_durable=shards.made_durable,
            on_failed=shards.sync_failed,
            on_sync=on_sync,
        )

    def executors(ended: OnEnded) -> Mapping[str, Executor]:
        return {"scripted": ScriptedExecutor(ended=ended, now=clock.now)}

    return Surroundings(
        member=Member(
            node_id=config.node_id,
            store_id=identity.store_id,
            address=config.advertise or str(config.listen),
            peer_address=str(config.peer_listen),
            zone=config.zone,
            labels=dict(config.labels),
        ),
        store=store,
        shard_count=identity.shard_count,
        commit=commit,
        coordinator=coordinator,
        network=NoNetwork(),
        placement=lambda members, shard: (config.node_id,),
        copies=Copies(wanted=1, least=1),
        executors=executors,
        warden=warden,
        timing=Timing(attempt_lease=config.attempt_lease),
        look_for_room=DiskGuard(directory.path, config.disk_reserve_mb << 20).look,
    )
