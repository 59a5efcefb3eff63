"""Session of this node at the coordinator: begun, renewed, and begun again after its end."""

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from rota.core.model.ids import Session
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import LATEST_INSTANT, SECOND, Instant, seconds
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.node.cluster.coordinator_refusals import CoordinatorRefusals
from rota.node.cluster.own_record import OwnRecord
from rota.node.cluster.swap_gate import SwapGate
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.coordination.coordinator import Claim, Coordinator
from rota.node.coordination.coordinator_errors import (
    CoordinatorUnavailable,
    OutcomeUnknown,
    SessionTaken,
)
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

RETRY_S = 0.5
RENEWALS_PER_SESSION = 5


class NodeSession:
    """The session of this node.

    Args:
        coordinator: The coordinator, which grants the session.
        claim: The identity of this process.
        own_record: The member record of this node, written in each session.
        liveness: The view of which nodes are alive; gets the session and its end.
        gate: The gate of swap requests, closed by a new session.
        requests: The queue in which a read of the view is requested.
        refusals: Counts the coordinator's refusals.
        on_begun: Called with each session that begins.
        timing: The durations of the cluster.
        clock: The clock of this node, which measures the age of the session.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        claim: Claim,
        own_record: OwnRecord,
        *,
        liveness: Liveness,
        gate: SwapGate,
        requests: SwapQueue,
        refusals: CoordinatorRefusals,
        on_begun: Callable[[Session], None],
        timing: Timing,
        clock: Clock,
    ) -> None:
        self._coordinator = coordinator
        self._claim = claim
        self._own_record = own_record
        self._liveness = liveness
        self._gate = gate
        self._requests = requests
        self._refusals = refusals
        self._on_begun = on_begun
        self._timing = timing
        self._clock = clock
        self._renewed_at = clock.elapsed()

    @property
    def age_s(self) -> float:
        """Seconds since the request of the last granted renewal."""
        return (self._clock.elapsed() - self._renewed_at) / SECOND

    async def run(self) -> None:
        """Keep a session until cancelled; the caller calls `end` afterwards."""
        while True:
            if self._liveness.is_fenced(self._liveness.sessions):
                # R19: the session is left to expire, so that the other nodes wait no longer than
                # for a lost node. Reading a view shows whether the coordinator is reachable;
                # without the coordinator, the other nodes cannot take over.
                self._requests.look()
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._renew()
                await self._end_if_recordless()
                if self._liveness.session != NO_SESSION and not self._own_record.is_registered:
                    # Only in a session: a live node of this id with other data keeps its record.
                    await self._own_record.register()
                self._liveness.record_coordinator(is_reached=True)
            except (CoordinatorUnavailable, OutcomeUnknown, SessionTaken) as error:
                self._refusals.note(error)
                self._liveness.record_coordinator(is_reached=isinstance(error, SessionTaken))
                # If the session is taken, its process may have ended; then it expires soon.
                log.warning("session not renewed", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)
                continue
            if self._liveness.session != NO_SESSION:
                await asyncio.sleep(self._timing.session / SECOND / RENEWALS_PER_SESSION)

    async def end(self) -> None:
        """End the session, unless the coordinator cannot be reached."""
        session = self._liveness.session
        # Before the request, since other nodes may act as soon as the session has ended, which may
        # be before the answer arrives.
        self._liveness.end_session()
        if session != NO_SESSION:
            with suppress(CoordinatorUnavailable, OutcomeUnknown):
                await self._coordinator.end_session(session)

    async def _renew(self) -> None:
        """Renew or begin the session; its duration counts from before the request (R15)."""
        liveness, asked_at = self._liveness, self._clock.elapsed()
        if liveness.session == NO_SESSION:
            grant = await self._coordinator.begin_session(
                self._claim, self._timing.session / SECOND
            )
            liveness.begin_session(grant.session, self._session_end(asked_at, grant.ttl_s))
            self._gate.begin_session(asked_at)
            self._on_begun(grant.session)
            self._renewed_at = asked_at
            log.info("session begun", extra={"session": grant.session})
            self._check_granted(grant.ttl_s)
            self._own_record.begin_session()
            return
        ttl_s = await self._coordinator.renew(liveness.session)
        if ttl_s is None:
            log.warning("session over", extra={"session": liveness.session})
            liveness.end_session()
        else:
            liveness.renew_session(self._session_end(asked_at, ttl_s))
            self._renewed_at = asked_at

    async def _end_if_recordless(self) -> None:
        """End this node's session if the session's key is gone although its lease was just renewed.

        Such a key was deleted by hand. For all other nodes this node is gone and may be replaced,
        so it must not act in that session any longer.
        """
        session = self._liveness.session
        if session == NO_SESSION or session != self._own_record.missing_session:
            return
        self._liveness.end_session()
        reason = (
            "another program or a user deleted keys of rota in etcd: find out which one writes "
            "there. This node begins another session; `rota cluster status` shows whether "
            "configurations of shards are gone too"
        )
        log.error("session record gone", extra={"session": session, "reason": reason})
        # This also removes the other keys of the lease, which would prevent the next session.
        await self._coordinator.end_session(session)

    def _check_granted(self, ttl_s: float) -> None:
        asked_s = math.ceil(self._timing.session / SECOND)  # etcd's leases last whole seconds.
        if not math.isinf(ttl_s) and ttl_s > asked_s:
            reason = (
                f"the coordinator's sessions last {ttl_s:g} s, but session_ttl is {asked_s:g} s: "
                "the shards of a lost machine are unavailable for the longer time. Set etcd's "
                "--election-timeout to less than two thirds of session_ttl"
            )
            log.warning("session longer than requested", extra={"reason": reason})

    def _session_end(self, asked_at: Instant, ttl_s: float) -> Instant:
        if math.isinf(ttl_s):
            return LATEST_INSTANT
        # R36: once a session is gone, the other nodes wait for the duration of the cluster's
        # sessions, even if this session was granted for longer.
        counted = replace(self._timing, session=min(self._timing.session, seconds(ttl_s)))
        return counted.session_end(asked_at)
