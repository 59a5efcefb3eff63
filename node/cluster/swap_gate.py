"""Gate of swap requests: closed until all live members could report a loss (PROTOCOL R31).

A member with evidence that the coordinator lost its state reports the loss over each new link.
Therefore a node requests no swap in a new session until it has read a view that it requested while
all live nodes were linked. If a live node cannot be reached, the gate opens after the duration of a
session.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress

from rota.core.model.ids import NodeId, Session
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import SECOND, Instant, later
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.peers.network import Network
from rota.node.system.clock import Clock


class SwapGate:
    """The gate of this node's swap requests.

    Args:
        liveness: The view of which nodes are alive.
        network: The network to the other nodes.
        requests: The queue in which a read of the view is requested.
        timing: The durations of the cluster.
        clock: The clock of this node.
        is_alone: Whether there are no other nodes.
    """

    def __init__(
        self,
        liveness: Liveness,
        network: Network,
        requests: SwapQueue,
        *,
        timing: Timing,
        clock: Clock,
        is_alone: bool,
    ) -> None:
        self._liveness = liveness
        self._network = network
        self._requests = requests
        self._timing = timing
        self._clock = clock
        self._is_alone = is_alone
        self._session_asked_at = clock.elapsed()
        self._is_open = asyncio.Event()

    def begin_session(self, asked_at: Instant) -> None:
        """Close the gate: this node has a new session, which it requested at *asked_at*."""
        self._session_asked_at = asked_at
        self._is_open.clear()
        self.request_view()

    def request_view(self) -> None:
        """Request a read of the view, which opens the gate, if all live nodes are linked."""
        if not self._is_open.is_set() and self._are_linked(
            self._liveness.sessions, self._network.peers
        ):
            self._requests.look()

    def see_view(self, sessions: Mapping[NodeId, Session], linked: Collection[NodeId]) -> None:
        """Open the gate if all live nodes were linked.

        Args:
            sessions: The sessions of the view.
            linked: The nodes to which there was a link when the view was requested.
        """
        if self._are_linked(sessions, linked):
            self._is_open.set()

    def _are_linked(self, sessions: Mapping[NodeId, Session], linked: Collection[NodeId]) -> bool:
        own = self._liveness.node_id
        return sessions.get(own) == self._liveness.session and sessions.keys() <= {own, *linked}

    async def wait(self) -> None:
        """Return when the gate is open; it opens at the latest after the duration of a session."""
        while not self._is_open.is_set():
            until = later(self._session_asked_at, self._timing.session)
            left = until - self._clock.elapsed()
            if left <= 0 or self._is_alone:
                self._is_open.set()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left / SECOND):
                    await self._is_open.wait()
