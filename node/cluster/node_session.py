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
        coordinator: Where the session is.
        claim: The identity of this process.
        own_record: The member record of this node, written in each session.
        liveness: Gets the session and its end.
        gate: The gate of swap requests, closed by a new session.
        requests: Where a read of the view is requested.
        refusals: Counts the coordinator's refusals.
        on_begun: Called with each session that begins.
        timing: The durations of the cluster.
        clock: Measures the time of the session.
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
        """Seconds since the last renewal that was granted was requested."""
        return (self._clock.elapsed() - self._renewed_at) / SECOND

    async def run(self) -> None:
        """Keep a session until cancelled; `end` follows."""
        while True:
            if self._liveness.is_fenced(self._liveness.sessions):
                # R19: so the others wait no longer than for a lost node. Reading a view shows
                # whether the coordinator is reachable, without which they cannot take over.
                self._requests.look()
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._renew()
                await self._end_if_recordless()
                if self._liveness.session != NO_SESSION and not self._own_record.is_registered:
                    # Not before: a node that lives under this id with other data keeps its record.
                    await self._own_record.register()
                self._liveness.record_coordinator(is_reached=True)
            except (CoordinatorUnavailable, OutcomeUnknown, SessionTaken) as error:
                self._refusals.note(error)
                self._liveness.record_coordinator(is_reached=isinstance(error, SessionTaken))
                # Until the session of a process that may have ended has run out.
                log.warning("session not renewed", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)
                continue
            if self._liveness.session != NO_SESSION:
                await asyncio.sleep(self._timing.session / SECOND / RENEWALS_PER_SESSION)

    async def end(self) -> None:
        """End the session, unless the coordinator cannot be reached."""
        session = self._liveness.session
        # Before the request: others may act as soon as it is over, whenever the answer comes.
        self._liveness.end_session()
        if session != NO_SESSION:
            with suppress(CoordinatorUnavailable, OutcomeUnknown):
                await self._coordinator.end_session(session)

    async def _renew(self) -> None:
        """Renew the session, or begin one; its time counts from before the request (R15)."""
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
        """End this node's session if its record is gone, though its lease was renewed just now.

        The keys were deleted by hand. For all others this node is gone and may be replaced, so it
        must not act in that session any more.
        """
        session = self._liveness.session
        if session == NO_SESSION or session != self._own_record.missing_session:
            return
        self._liveness.end_session()
        reason = (
            "keys of rota were deleted in etcd, which nothing of rota does: find out who writes "
            "there. This node begins another session; if configurations of shards are gone too, "
            "`rota cluster status` says so"
        )
        log.error("session record gone", extra={"session": session, "reason": reason})
        # With its lease go the other keys under it, which would keep the next session out.
        await self._coordinator.end_session(session)

    def _check_granted(self, ttl_s: float) -> None:
        asked_s = math.ceil(self._timing.session / SECOND)  # In etcd they are whole seconds.
        if not math.isinf(ttl_s) and ttl_s > asked_s:
            reason = (
                f"the coordinator lets sessions live {ttl_s:g} s, session_ttl is {asked_s:g} s: "
                "shards of a machine that is lost wait for so long. Set etcd's --election-timeout "
                "to less than two thirds of session_ttl"
            )
            log.warning("session longer than asked for", extra={"reason": reason})

    def _session_end(self, asked_at: Instant, ttl_s: float) -> Instant:
        if math.isinf(ttl_s):
            return LATEST_INSTANT
        # R36: once a session is gone, the others wait as long as the cluster's sessions live, also
        # if this one was granted for longer.
        counted = replace(self._timing, session=min(self._timing.session, seconds(ttl_s)))
        return counted.session_end(asked_at)
