"""Membership of this node in its cluster: its session, the view, swaps and the ticks of replicas.

Four kinds of work run concurrently until the node stops:

    NodeSession     renews the session long before it ends; begins a new one after its end
    ClusterView     reads and watches the view: configurations, sessions, member records
    SwapRequester   requests the swaps that replicas want (PROTOCOL R28)
    Membership      ticks every replica periodically
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import SECOND, seconds
from rota.node.cluster.cluster_view import ClusterView
from rota.node.cluster.coordinator_refusals import CoordinatorRefusals
from rota.node.cluster.health_gossip import HealthGossip
from rota.node.cluster.known_members import KnownMembers
from rota.node.cluster.loss_notices import LossNotices
from rota.node.cluster.node_session import NodeSession
from rota.node.cluster.self_check import SelfCheck
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.cluster.swap_requester import SwapRequester
from rota.node.coordination.coordinator import Member
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock

REQUESTS_AT_ONCE = 3
"""The number of concurrent requests for swaps: if the primaries of a hundred shards change at once,
no shard waits for all the others. A shard has at most one swap, so the requests may be answered in
any order."""
TICKS_PER_BEAT = 4
"""The number of ticks per beat; a beat is late by at most one tick."""
TICK_ALONE_S = 1.0
TICK_STARTING_S = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class MembershipParts:
    """The parts of a membership.

    Attributes:
        session: The session of this node.
        view: The view of the cluster.
        swap_requester: Requests the swaps of *requests*.
        requests: The queue of the replicas' requests to the coordinator.
        known_members: The members in the view of this node.
        loss_notices: The reports of a loss to the other members.
        refusals: Counts the coordinator's refusals.
        urgent: Set when replicas are to have a tick at once.
    """

    session: NodeSession
    view: ClusterView
    swap_requester: SwapRequester
    requests: SwapQueue
    known_members: KnownMembers
    loss_notices: LossNotices
    refusals: CoordinatorRefusals
    urgent: asyncio.Event


class Membership:
    """The membership of this node.

    Args:
        parts: The parts of the membership.
        shards: The shards of this node.
        liveness: The view of which nodes are alive, updated here.
        continuity: This node's record of the coordinator's past states, updated here.
        self_check: The health of this node, checked with every tick.
        gossip: The health reports that this node attaches to messages of replicas.
        timing: The durations of the cluster.
        clock: The clock of this node.
        is_alone: Whether there are no other nodes.
    """

    def __init__(
        self,
        parts: MembershipParts,
        shards: Shards,
        *,
        liveness: Liveness,
        continuity: CoordinatorContinuity,
        self_check: SelfCheck,
        gossip: HealthGossip,
        timing: Timing,
        clock: Clock,
        is_alone: bool,
    ) -> None:
        self._session = parts.session
        self._view = parts.view
        self._swap_requester = parts.swap_requester
        self._requests = parts.requests
        self._known_members = parts.known_members
        self._loss_notices = parts.loss_notices
        self._refusals = parts.refusals
        self._urgent = parts.urgent
        self._shards = shards
        self._liveness = liveness
        self._continuity = continuity
        self._self_check = self_check
        self._gossip = gossip
        self._timing = timing
        self._clock = clock
        self._is_alone = is_alone

    async def run(self) -> None:
        """Be a member until cancelled; then end the session if the coordinator can be reached."""
        try:
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._session.run,
                    self._view.follow,
                    self._view.read_when_requested,
                    *(self._swap_requester.run for _ in range(REQUESTS_AT_ONCE)),
                    self._let_time_pass,
                ):
                    group.create_task(work())
        finally:
            await self._session.end()

    # -- the view ---------------------------------------------------------------------------------

    @property
    def node_id(self) -> NodeId:
        """This node."""
        return self._liveness.node_id

    @property
    def session(self) -> Session:
        """The session of this node; `NO_SESSION` while it has none."""
        return self._liveness.session

    @property
    def members(self) -> Mapping[NodeId, Member]:
        """The member records of all nodes, alive or not."""
        return self._known_members.by_id

    def store_of(self, node_id: NodeId) -> str:
        """Return the id of a node's data directory; empty if no member has that id."""
        member = self._known_members.by_id.get(node_id)
        return member.store_id if member else ""

    @property
    def sessions(self) -> Mapping[NodeId, Session]:
        """The live session of each node that has one."""
        return self._liveness.sessions

    @property
    def is_leaving(self) -> bool:
        """Whether this node is about to stop and is handing its shards over."""
        return self._liveness.is_leaving

    @property
    def session_age_s(self) -> float:
        """Seconds since the request of the last granted renewal of this node's session."""
        return self._session.age_s

    @property
    def swaps_waiting(self) -> int:
        """The number of swaps that have not been requested from the coordinator yet."""
        return len(self._requests)

    @property
    def refusal_count(self) -> int:
        """The number of calls that the coordinator answered but did not carry out."""
        return self._refusals.count

    def targets_of(self, shard: ShardId) -> tuple[NodeId, ...]:
        """Return the nodes that ought to have copies of *shard*, the primary first."""
        return self._known_members.targets_of(shard)

    # -- events ---------------------------------------------------------------------------------

    def saw_death(self, node_id: NodeId, session: Session) -> None:
        """Record the proof that a node's process in *session* has ended (PROTOCOL note 2)."""
        grace = self._timing.grace
        self._liveness.saw_death(node_id, session, self._clock.elapsed(), grace=grace)
        self._urgent.set()

    def linked(self, node_id: NodeId) -> None:
        """Handle a new link: messages sent to the node before may be lost and are sent again."""
        self._shards.linked(node_id)
        self._loss_notices.linked(node_id)
        self._view.linked()
        self._urgent.set()

    def heard_loss(self, sender: NodeId, generation: int) -> bool:
        """Record a report that the coordinator lost its state.

        Returns:
            False if the report cannot be true.
        """
        is_credible = self._continuity.accept_report(generation, sender)
        self._loss_notices.update()
        return is_credible

    def report_at_once(self) -> None:
        """Send this node's health to the other nodes at once, with the next messages."""
        self._gossip.hurry()
        self._urgent.set()

    def found(self, shards: Collection[ShardId]) -> None:
        """Found shards here of which a recovery found no copy (`ClusterView.found`)."""
        self._view.found(shards)

    # -- time -----------------------------------------------------------------------------------

    async def _let_time_pass(self) -> None:
        while True:
            began_at, opening = self._clock.elapsed(), self._shards.opening_time
            self._urgent.clear()
            known = self._known_members
            self._shards.tick(known.targets_of, known.placement_number)
            self._loss_notices.repeat(began_at)
            tick_s = self._tick_s()
            with suppress(TimeoutError):
                async with asyncio.timeout(tick_s):
                    await self._urgent.wait()
            # The lag is that of the ticks (R19): a delay of ticks delays beats and renewals too.
            waited = self._clock.elapsed() - began_at - seconds(tick_s)
            lag = waited - (self._shards.opening_time - opening)
            self._self_check.tick(lag=max(0, lag), sync_time=self._shards.sync_time)

    def _tick_s(self) -> float:
        if not self._is_alone:
            return self._timing.beat / SECOND / TICKS_PER_BEAT
        is_started = all(each.is_open or each.is_unreadable for each in self._shards)
        return TICK_ALONE_S if is_started else TICK_STARTING_S
