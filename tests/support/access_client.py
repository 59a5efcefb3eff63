"""A client of a node that requires keys."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, UnixConnector

from rota.core.timing.instants import Duration, Instant
from rota.node.peers.peer_apis import PeerApis
from rota.node.peers.peer_tls import PeerTls
from rota.node.runtime.wiring import NodeWiring
from rota.node.system.clock import SystemClock
from rota.node.system.metrics import Metrics
from rota.storage.memory import MemoryStore
from support.in_process import Client, running_works, serving

Json = Any  # Any: an answer of a node, examined by each test.
API = "/api/v1"


class ShiftedClock(SystemClock):
    """The clocks of this machine, with a wall clock that a test sets forward."""

    def __init__(self) -> None:
        self.shift = Duration(0)

    def now(self) -> Instant:
        """Return the time of the wall clock and of the shift."""
        return Instant(super().now() + self.shift)


class Access:
    """Calls a node in the test's process as one of several principals.

    Args:
        client: The client of the node's port.
        wiring: The parts of the node.
        local: A session on the node's unix socket.

    Attributes:
        wiring: The parts of the node.
        client: The client of the node's port.
        local: A session on the node's unix socket.
        admin: The token of the administrator, after `init`.
    """

    def __init__(self, client: Client, wiring: NodeWiring, local: ClientSession) -> None:
        self.client = client
        self.wiring = wiring
        self.local = local
        self.admin = ""

    async def init(self, body: Json = None) -> tuple[int, Json]:
        """Create the first key over the unix socket; return status and answer."""
        async with self.local.post(f"http://localhost{API}/auth:init", json=body or {}) as answer:
            found = await answer.json()
            if answer.status == 201:
                self.admin = found["token"]
            return answer.status, found

    async def call(
        self,
        token: str | None,
        method: str,
        path: str,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Json]:
        """Make a request with a token, or without one; return status and answer."""
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        session, url = self.client.session, self.client.url + path
        async with session.request(method, url, json=body, headers=sent) as answer:
            return answer.status, await answer.json(
                content_type=None
            ) if answer.status != 204 else None

    def refused(self, reason: str) -> float:
        """Return how many connections or requests the peer port has refused for a reason."""
        return self.metric(f'rota_peer_refused_total{{reason="{reason}"}}')

    def metric(self, name: str) -> float:
        """Return the value of a metric; 0 if there is none."""
        return metric(self.wiring.context.metrics, name)

    async def key(
        self,
        name: str,
        role: str = "",
        *namespaces: str,
        networks: Sequence[str] = (),
        **fields: Json,
    ) -> str:
        """Create a key, with a role if one is given; return its token."""
        body: Json = {"name": name, "from": list(networks), **fields}
        if role:
            body |= {"role": role, "namespaces": list(namespaces)}
        status, answer = await self.call(self.admin, "POST", f"{API}/keys", body)
        assert status == 201, answer
        return str(answer["token"])


def metric(metrics: Metrics, name: str) -> float:
    """Return the value of a metric; 0 if there is none."""
    lines = metrics.text().decode().splitlines()
    return next((float(each.split()[1]) for each in lines if each.startswith(f"{name} ")), 0.0)


@asynccontextmanager
async def access_to(
    folder: Path,
    *,
    auth: str = "keys",
    clock: ShiftedClock | None = None,
    others: PeerApis | None = None,
    principal_rate: int = 0,
    keyring: Path | None = None,
    tls: PeerTls | None = None,
) -> AsyncGenerator[Access]:
    """Run a node without keys, and yield its client; with *others*, it counts as one of several.

    Args:
        folder: The data directory.
        auth: The setting.
        clock: The clocks of the node; None for those of the system.
        others: The other nodes; None for a node alone.
        principal_rate: The setting.
        keyring: The setting.
        tls: The certificate of the peer port; None without TLS.
    """
    async with (
        running_works(
            MemoryStore(),
            folder,
            clock=clock,
            auth=auth,
            principal_rate=principal_rate,
            keyring=keyring,
        ) as alone,
        nullcontext(replace(alone, context=replace(alone.context, others=others))) as wiring,
        serving(wiring, tls) as client,
        ClientSession(connector=UnixConnector(str(folder / "api.sock"))) as local,
    ):
        yield Access(client, wiring, local)
