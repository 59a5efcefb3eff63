"""The insides of a node in the test's own process, on a disk that answers when the test says so."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

from aiohttp import ClientSession
from aiohttp.web import Request, Response

from rota.core.model.ids import ExecutionId, JobId, NodeId
from rota.core.model.job import JobSpec
from rota.core.timing.instants import Duration
from rota.core.vocabulary.commands import Command, SaveJob, Trigger
from rota.core.vocabulary.decision import JobSaved, Triggered
from rota.executor.executor import Ended, Reported
from rota.executor.process.executor import ProcessExecutor
from rota.executor.testing.scripted_executor import ScriptedExecutor
from rota.executor.warden.proxies import RightOf
from rota.node.api.app import make_app
from rota.node.api.http.server import serving as serving_api
from rota.node.attempts.local_attempts import AttemptExecutors
from rota.node.coordination.embedded import EmbeddedCoordinator
from rota.node.links.peer_server import PeerPort
from rota.node.peers.peer_tls import PeerTls
from rota.node.runtime.environment import MakeExecutors
from rota.node.runtime.lifecycle import NodeLifecycle
from rota.node.runtime.node import alone
from rota.node.runtime.wiring import NodeWiring, wire
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock, SystemClock
from rota.node.system.config import NodeConfig
from rota.node.system.config_values import Address
from rota.node.system.entropy import SystemEntropy
from rota.storage.directory import DataDirectory
from rota.storage.memory import MemoryStore
from rota.storage.store import StoreError, Ticket
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody

SHARDS = 4
SYNC_WAITS_S = 20.0


class HeldStore(MemoryStore):
    """A disk that says that it has synced when the test lets it.

    Attributes:
        held_count: Syncs that were done and held back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_held = False
        self._permits = Semaphore(0)
        self.held_count = 0

    def hold(self) -> None:
        """Let no further sync return."""
        self._is_held = True

    def let_one_go(self) -> None:
        """Let the sync return that is held, or the next one."""
        self._permits.release()

    def let_go(self) -> None:
        """Let all syncs return."""
        self._is_held = False
        self._permits.release()

    def sync(self) -> Ticket:
        """Make durable at once what is written, and say so later."""
        ticket = super().sync()
        if self._is_held:
            self.held_count += 1
            assert self._permits.acquire(timeout=SYNC_WAITS_S), "the test never let this sync go"
        return ticket


@asynccontextmanager
async def running_works(
    store: MemoryStore,
    folder: Path,
    *,
    life: int = 1,
    slots: int = 64,
    clock: Clock | None = None,
    executors: MakeExecutors | None = None,
    auth: str = "open",
    principal_rate: int = 0,
    keyring: Path | None = None,
) -> AsyncGenerator[NodeWiring]:
    """Run all of a node but its API on *store*; gives its parts."""
    async with running_node(
        store,
        folder,
        life=life,
        slots=slots,
        clock=clock,
        executors=executors,
        auth=auth,
        principal_rate=principal_rate,
        keyring=keyring,
    ) as lifecycle:
        yield lifecycle.wiring


@asynccontextmanager
async def running_node(
    store: MemoryStore,
    folder: Path,
    *,
    life: int = 1,
    slots: int = 64,
    clock: Clock | None = None,
    executors: MakeExecutors | None = None,
    auth: str = "open",
    principal_rate: int = 0,
    keyring: Path | None = None,
) -> AsyncGenerator[NodeLifecycle]:
    """Run all of a node but its API on *store*, in its life number *life*."""
    listen = Address("127.0.0.1", 0)
    config = NodeConfig(
        data_dir=folder,
        listen=listen,
        node_id=NodeId("n"),
        drain=Duration(0),
        slots=slots,
        auth=auth,
        principal_rate=principal_rate,
        keyring=keyring,
    )
    with DataDirectory.open(folder, store_id="s", shard_count=SHARDS, cluster="c") as directory:
        coordinator = EmbeddedCoordinator(folder / "COORDINATION", SystemEntropy())
        clock = clock or SystemClock()
        around = replace(
            alone(config, directory, store, coordinator, clock, warden=None),
            executors=executors or partial(_executors, directory, clock),
        )
        lifecycle = NodeLifecycle(wire(config, clock, SystemEntropy(), around))
        async with lifecycle.running():
            yield lifecycle


def _executors(
    directory: DataDirectory, clock: Clock, ended: Ended, reported: Reported, right_of: RightOf
) -> AttemptExecutors:
    """Return executors that end with the node: there is no warden beside it."""
    del reported, right_of
    process = ProcessExecutor(
        directory.path,
        node_id=NodeId("n"),
        store_id=directory.identity.store_id,
        ended=ended,
        now=clock.now,
    )
    scripted = ScriptedExecutor(ended=ended, now=clock.now)
    return AttemptExecutors(own={"process": process, "scripted": scripted})


@asynccontextmanager
async def failing_works(
    store: MemoryStore, folder: Path, reason: str
) -> AsyncGenerator[NodeWiring]:
    """Run all of a node but its API, which has to end by failing for *reason*; gives its parts."""
    async with failing_node(store, folder, reason) as lifecycle:
        yield lifecycle.wiring


@asynccontextmanager
async def failing_node(
    store: MemoryStore, folder: Path, reason: str
) -> AsyncGenerator[NodeLifecycle]:
    """Run all of a node but its API, which has to end by failing for *reason*."""
    try:
        async with running_node(store, folder) as lifecycle:
            yield lifecycle
    except StoreError as error:
        if reason not in str(error):
            raise
    else:
        raise AssertionError("the node ended well")


class Client:
    """Asks one node over HTTP.

    Args:
        session: Makes the requests.
        url: The URL of the API.
        peer_address: The address of the peer port; empty for a node alone.
    """

    def __init__(self, session: ClientSession, url: str, peer_address: str = "") -> None:
        self.session, self.url = session, url
        self.peer_address = peer_address

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Make a request and return the status and the document of its answer."""
        async with self.session.request(method, self.url + path, json=body) as answer:
            return answer.status, await answer.json(content_type=None)


@asynccontextmanager
async def serving(
    wiring: NodeWiring, tls: PeerTls | None = None, **settings: Any
) -> AsyncGenerator[Client]:
    """Serve the API of *works*, with other *settings* of its connections.

    Args:
        wiring: The parts of the node; if it is one of several, there is a peer port, too.
        tls: The certificate of the peer port; None without TLS.
        settings: Settings of the connections.
    """
    numbers = iter(range(1 << 30))
    app = make_app(wiring.context, lambda: next(numbers))
    config = replace(wiring.context.config, **settings)
    async with AsyncExitStack() as stack:
        port, peer_address = None, ""
        if wiring.context.others is not None:
            port = PeerPort(
                clock=wiring.context.clock, metrics=wiring.context.metrics.links, tls=tls
            )
            listening = port.listening("127.0.0.1", 0, _no_link, _no_link)
            peer_address = f"127.0.0.1:{await stack.enter_async_context(listening)}"
        address = await stack.enter_async_context(
            serving_api(app, config, wiring.context.metrics, forwards=port)
        )
        session = await stack.enter_async_context(ClientSession())
        yield Client(session, f"http://{address}", peer_address)


async def _no_link(request: Request) -> Response:
    del request
    return Response(status=503)


def spec_of(name: str, **fields: Any) -> JobSpec:
    """Return a job that is played by script, unless *fields* say otherwise."""
    if "command" not in fields:
        fields = {"type": "scripted", **fields}
    return job_spec(JobBody(name=name, **fields))


async def save(shards: Shards, name: str, **fields: Any) -> JobId:
    """Create a job."""
    saved = await shards.ask(shards.of_name("default", name), SaveJob(spec=spec_of(name, **fields)))
    assert isinstance(saved, JobSaved)
    return saved.job_id


async def trigger(shards: Shards, job_id: JobId) -> ExecutionId:
    """Make an execution."""
    made = await shards.ask(shards.of_id(job_id), Trigger(job_id=job_id))
    assert isinstance(made, Triggered)
    return made.execution_id


def submit(shards: Shards, job_id: JobId, command: Command) -> None:
    """Submit *command* to the job's shard without waiting for the answer."""
    shards.submit(shards.of_id(job_id), command)


async def turns(count: int = 20) -> None:
    """Run *count* turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], bool], timeout_s: float = 10) -> None:
    """Wait until *is_so*."""
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110 - of many things, few of which have an event
            await asyncio.sleep(0.001)
