"""A node: its data directory, warden, cluster and API, started and stopped in order.

The start order of the parts between them is in `rota.node.runtime.lifecycle`.
"""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

import msgspec

import rota
from rota.core.model.ids import NodeId
from rota.core.replication.primary import Copies
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import Duration, Instant
from rota.executor.attempt_settings import MIB, AttemptSettings
from rota.executor.executor import Ended, Executor, Reported
from rota.executor.testing.scripted_executor import SCRIPTED, ScriptedExecutor
from rota.executor.warden.node_link import WardenLink
from rota.executor.warden.proxies import RightOf
from rota.node.api.app import make_app
from rota.node.api.http.api_tls import ApiTls
from rota.node.api.http.server import serving
from rota.node.attempts.local_attempts import AttemptExecutors
from rota.node.cluster.copy_placement import CopyPlacement
from rota.node.cluster.death_notice import DeathNotice
from rota.node.cluster.joining import check_owner, join, timing_of
from rota.node.context import NodeContext
from rota.node.coordination.coordinator import Claim, Cluster, Coordinator, Member
from rota.node.coordination.coordinator_errors import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    OutcomeUnknown,
    OutOfSpace,
    SessionTaken,
)
from rota.node.coordination.coordinator_rules import predecessor
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.links.forward_proof import ForwardProofs
from rota.node.links.identity_proof import KEY_BYTES, PeerCredentials, draw_bytes
from rota.node.links.link_pool import Links
from rota.node.peers.death_proof import life_of
from rota.node.peers.network import NoNetwork
from rota.node.peers.peer_apis import PeerApis
from rota.node.peers.peer_tls import PeerTls
from rota.node.runtime.certificate_metrics import measure_certificates
from rota.node.runtime.coordinators import COORDINATION_FILE, etcd_coordinator
from rota.node.runtime.environment import NodeEnvironment
from rota.node.runtime.lifecycle import NodeLifecycle
from rota.node.runtime.readiness import ServingPhase
from rota.node.runtime.wiring import wire
from rota.node.shards.interfaces import Durable
from rota.node.system.advertised_address import with_own_addresses
from rota.node.system.clock import Clock, SystemClock
from rota.node.system.config import NodeConfig
from rota.node.system.config_values import AUTO, Address
from rota.node.system.disk_guard import DiskGuard
from rota.node.system.entropy import Entropy, SystemEntropy
from rota.node.system.metrics import Metrics
from rota.node.system.systemd import Supervisor
from rota.node.webhooks.http_post import HttpPost
from rota.node.webhooks.permitted_hosts import PermittedHosts
from rota.storage.directory import DataDirectory, Identity, identity_in
from rota.storage.group_commit import GroupCommit
from rota.storage.rocks import RocksStore
from rota.storage.store import Store

log = logging.getLogger(__name__)

ETCD_PAUSE_S = 1.0
"""The pause between two tries to join the cluster."""


class Node:
    """One node, from start to stop.

    Args:
        config: The settings of the node.
        clock: The clocks of the node; None for those of the system.
        entropy: The source of random numbers; None for that of the system.
        supervisor: The service manager, which is notified of the start and the stop.
        task_umask: The umask of the processes of tasks.
    """

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        *,
        supervisor: Supervisor | None = None,
        task_umask: int = 0o022,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.entropy = entropy or SystemEntropy()
        self._supervisor = supervisor or Supervisor()
        self._settings = _attempt_settings(config, task_umask)
        self.address: Address | None = None
        """The address of the API; None before the start."""
        self.started = asyncio.Event()
        self._stop = asyncio.Event()
        self._phase = ServingPhase()
        self._tls: ApiTls | None = None

    def stop(self) -> None:
        """Begin to stop the node; `run` returns at the end."""
        # The phase changes at once, so that load balancers detect it before requests fail.
        self._phase.begin_stopping()
        self._supervisor.stopping()
        self._stop.set()

    async def run(self) -> None:
        """Start, serve until `stop`, and stop.

        Raises:
            StoreError: The data directory or the store cannot be used, or failed.
            CoordinationFailed: The file with the coordination state cannot be used, or failed.
            WardenUnavailable: There is no warden to run attempts.
            AccessDenied: etcd does not accept the node's credentials.
            OSError: The node cannot listen on the address.
            TlsFilesInvalid: Files of TLS have changed since the settings were read, and cannot be
                used.
        """
        async with AsyncExitStack() as stack:
            if self.config.api_files is not None:
                self._tls = ApiTls(self.config.api_files)
            if self.config.etcd:
                placed = await self._in_cluster(stack)
                if placed is None:
                    return
            else:
                placed = await self._alone(stack)
            await self._run_in(stack, placed)
        log.info("node stopped", extra={"node": self.config.node_id})

    async def _alone(self, stack: AsyncExitStack) -> "_Placed":
        directory = self._open_directory(
            stack, shard_count=self.config.shards, cluster=self._random_name()
        )
        warden = await self._find_warden(stack, directory, self.config.attempt_lease)
        store = _open_store(stack, directory)
        coordinator = EmbeddedCoordinator(directory.path / COORDINATION_FILE, self.entropy)
        stack.push_async_callback(coordinator.close)
        environment = alone(self.config, directory, store, coordinator, self.clock, warden=warden)
        return _Placed(environment)

    async def _in_cluster(self, stack: AsyncExitStack) -> "_Placed | None":
        """Return the environment of a node of a cluster; None if the node is stopped first."""
        config, directory = self.config, None
        known = identity_in(config.data_dir)
        if known is not None:
            # The directory is opened first, to exclude other processes of this node.
            directory = self._open_directory(
                stack, shard_count=known.shard_count, cluster=known.cluster
            )
        claim = Claim(
            node_id=config.node_id,
            store_id=directory.identity.store_id if directory else "",
            lock=directory.lock_id if directory else "",
        )
        if not (config.etcd_user or config.etcd_cert):
            remedy = "set etcd_user and etcd_password_file; see docs/how-to/run-a-cluster.md"
            log.warning("etcd used without credentials", extra={"remedy": remedy})
        coordinator = etcd_coordinator(config, self.entropy)
        stack.push_async_callback(coordinator.close)
        cluster = await self._join(coordinator, known, claim)
        if cluster is None:
            return None
        directory = directory or self._open_directory(
            stack, shard_count=cluster.shards, cluster=cluster.id
        )
        warden = await self._find_warden(stack, directory, cluster.attempt_lease)
        store = _open_store(stack, directory)
        metrics, secret = Metrics(), self._random_name()
        ours = PeerCredentials(
            cluster=cluster.id,
            node_id=config.node_id,
            store_id=directory.identity.store_id,
            life=life_of(secret),
            key=draw_bytes(self.entropy, KEY_BYTES),
        )
        tls = None
        if config.peer_files is not None:
            tls = PeerTls(config.peer_files, cluster=config.cluster, mode=config.peer_tls)
        links = Links(
            ours,
            shard_count=cluster.shards,
            clock=self.clock,
            entropy=self.entropy,
            metrics=metrics.links,
            tls=tls,
        )
        others = await stack.enter_async_context(PeerApis.open(links, ForwardProofs(ours), tls))
        notice = DeathNotice(
            warden,
            coordinator.end_of,
            cluster=cluster.id,
            node_id=config.node_id,
            secret=secret,
            tls=tls,
        )

        def set_members(members: Mapping[NodeId, Member]) -> None:
            links.set_members(members)
            others.set_members(members)
            notice.set_members(members)

        reachable = await asyncio.to_thread(with_own_addresses, config)
        environment = alone(reachable, directory, store, coordinator, self.clock, warden=warden)
        environment = replace(
            environment,
            member=msgspec.structs.replace(
                environment.member, key=ours.key, peer_tls=tls.mode if tls else ""
            ),
            network=links,
            cluster_id=cluster.id,
            placement=CopyPlacement(cluster.shards, cluster.replicas),
            copies=Copies(wanted=cluster.replicas, least=cluster.min_sync),
            timing=timing_of(cluster),
            on_members=set_members,
            on_session=notice.begin_session,
            metrics=metrics,
            others=others,
            look_at_etcd=coordinator.space,
        )
        return _Placed(environment, links, tls)

    async def _join(
        self, coordinator: Coordinator, known: Identity | None, claim: Claim
    ) -> Cluster | None:
        """Return the cluster once the node may join it; None if the node is stopped first.

        The method waits without a time limit for etcd, and for the end of another process with this
        node's id or data: the attempts of that process have the mark of these data, and a new
        warden would end them.

        Raises:
            CoordinatorRefused: etcd does not accept the credentials or such requests, and will not
                do so without a change.
            WrongCluster: See `join`; or the data directory is that of another node.
        """
        while not self._stop.is_set():
            try:
                cluster = await join(self.config, coordinator, known, self._random_name())
                view = await coordinator.view()
                predecessor(view.lives, claim)
                check_owner(self.config, known, view.members)
                return cluster
            except SessionTaken as error:
                log.error("node not started", extra={"reason": str(error)})
                self._supervisor.waiting(f"waits: {error}")
            except (CoordinatorRefused, OutOfSpace) as error:
                if isinstance(error, CoordinatorRefused) and not error.is_passing:
                    raise
                reason = f"the node waits to join its cluster until etcd accepts writes: {error}"
                log.error("etcd refuses", extra={"reason": reason})
                self._supervisor.waiting(reason)
            except (CoordinatorUnavailable, OutcomeUnknown) as error:
                log.warning("etcd does not answer", extra={"reason": str(error)})
                self._supervisor.waiting(f"waits for etcd: {error}")
            with suppress(TimeoutError):
                async with asyncio.timeout(ETCD_PAUSE_S):
                    await self._stop.wait()
        return None

    async def _run_in(self, stack: AsyncExitStack, placed: "_Placed") -> None:
        node_id, hosts = self.config.node_id, PermittedHosts(self.config.webhook_hosts)
        webhooks = await stack.enter_async_context(HttpPost.open(hosts))
        environment = replace(placed.environment, post_webhook=webhooks.post)
        used = {"api": self._tls, "peer": placed.tls}
        certificates = {use: tls.live for use, tls in used.items() if tls is not None}
        measure_certificates(environment.metrics, self.clock, certificates)
        wiring = wire(self.config, self.clock, self.entropy, environment, phase=self._phase)
        use = wiring.context.documents.use
        environment.metrics.gauges("rota_shared_documents_ratio", use.ratios)
        lifecycle = NodeLifecycle(wiring)
        if placed.links is not None:
            host, port = self.config.peer_listen
            await stack.enter_async_context(placed.links.running(host, port, wiring.router))
        await stack.enter_async_context(lifecycle.running())
        await stack.enter_async_context(self._serving(wiring.context, placed.links))
        # The present objects stay alive; a full garbage collection without them takes less than
        # 5 ms of the event loop instead of 17 ms.
        gc.freeze()
        if not self._stop.is_set():
            self._phase.begin_serving()
        self.started.set()
        log.info("node started", extra={"node": node_id, "listen": str(self.address)})
        self._supervisor.started(f"serving on {self.address}")
        await lifecycle.run_until(self._stop)
        log.info("node stopping", extra={"node": node_id})

    def _open_directory(
        self, stack: AsyncExitStack, *, shard_count: int, cluster: str
    ) -> DataDirectory:
        return stack.enter_context(
            DataDirectory.open(
                self.config.data_dir,
                store_id=self._random_name(),
                shard_count=shard_count,
                cluster=cluster,
            )
        )

    async def _find_warden(
        self, stack: AsyncExitStack, directory: DataDirectory, attempt_lease: Duration
    ) -> WardenLink:
        warden = WardenLink(
            directory.path,
            node_id=self.config.node_id,
            store_id=directory.identity.store_id,
            lease=attempt_lease,
            now=self.clock.now,
            settings=self._settings,
        )
        await warden.connect()
        stack.push_async_callback(self._leave, warden)
        return warden

    async def _leave(self, warden: WardenLink) -> None:
        if self.config.ends_attempts:
            await warden.retire()
        else:
            await warden.close()

    @asynccontextmanager
    async def _serving(self, context: NodeContext, links: Links | None) -> AsyncGenerator[None]:
        app = make_app(context, self.entropy.draw)
        port = links.port if links is not None else None
        async with serving(
            app, self.config, context.metrics, forwards=port, tls=self._tls
        ) as self.address:
            yield

    def _random_name(self) -> str:
        return f"{self.entropy.draw():016x}{self.entropy.draw():016x}"


def _attempt_settings(config: NodeConfig, umask: int) -> AttemptSettings:
    return AttemptSettings(
        umask=umask,
        sandbox_tmp_bytes=config.sandbox_tmp_mb * MIB,
        container_memory=config.container_memory_mb * MIB,
        container_pids=config.container_pids,
        reloads_code=config.reload_code,
        private_files=tuple(str(each.absolute()) for each in config.private_files),
        url=url_for_tasks(config),
        users=config.task_users,
        ca=str(config.api_authority.absolute()) if config.api_authority else "",
    )


def url_for_tasks(config: NodeConfig) -> str:
    """Return the address at which tasks on this machine reach the API; empty for a free port.

    With TLS it is the advertised one if there is one, since the certificate is for that.
    """
    if config.api_files is not None and config.advertise not in ("", AUTO):
        return f"https://{config.advertise}"
    listen = config.listen
    if not listen.port:
        return ""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)
    scheme = "http" if config.api_files is None else "https"
    return f"{scheme}://{listen._replace(host=host)}"


def _open_store(stack: AsyncExitStack, directory: DataDirectory) -> RocksStore:
    store = RocksStore(directory.store_path)
    stack.callback(store.close)
    return store


class _Placed(NamedTuple):
    """An environment, and the links to other nodes in it.

    Attributes:
        environment: The environment.
        links: The links; None on a single node.
        tls: The certificate for other nodes; None without TLS.
    """

    environment: NodeEnvironment
    links: Links | None = None
    tls: PeerTls | None = None


def member_of(config: NodeConfig, store_id: str) -> Member:
    """Return the record with which a node announces itself to the cluster."""
    return Member(
        node_id=config.node_id,
        store_id=store_id,
        address=config.advertise or str(config.listen),
        peer_address=config.peer_advertise or str(config.peer_listen),
        zone=config.zone,
        weight=config.weight,
        labels=dict(config.labels),
        version=rota.__version__,
        auth=config.auth,
        task_key=draw_bytes(SystemEntropy(), KEY_BYTES),
        api_tls=config.api_files is not None,
    )


def alone(
    config: NodeConfig,
    directory: DataDirectory,
    store: Store,
    coordinator: Coordinator,
    clock: Clock,
    *,
    warden: WardenLink | None,
) -> NodeEnvironment:
    """Return the environment of a single node, which has the only copy of each shard."""
    identity = directory.identity

    def commit(shards: Durable, on_sync: Callable[[float], None]) -> GroupCommit:
        return GroupCommit(
            store,
            loop=asyncio.get_running_loop(),
            on_durable=shards.made_durable,
            on_failed=shards.sync_failed,
            on_sync=on_sync,
        )

    def executors(ended: Ended, reported: Reported, right_of: RightOf) -> AttemptExecutors:
        own: Mapping[str, Executor] = {}
        if config.testing_executors:
            own = {SCRIPTED: ScriptedExecutor(ended=ended, now=clock.now)}
        if warden is None:
            return AttemptExecutors(own=own)
        return AttemptExecutors(
            own=own,
            hosted=warden.executors(ended, reported, right_of),
            held=warden.held,
            forget=warden.forget,
        )

    return NodeEnvironment(
        lock=directory.lock_id,
        # In an older directory, an earlier process left its attempts to a warden that is found.
        store_made_at=directory.made_at if directory.is_new else Instant(0),
        incarnation=directory.begin_incarnation(clock.now()),
        member=member_of(config, identity.store_id),
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
        look_for_space=DiskGuard(directory.path, config.disk_reserve_mb << 20).look,
    )
