"""View of the cluster at the coordinator: read, watched, and compared with this node's records.

Configurations go to the shards, sessions to `Liveness`, member records to `KnownMembers`. Each view
shows whether the coordinator has lost its state (PROTOCOL R31).
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import aclosing, suppress

from rota.core.model.ids import NodeId, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity, Known
from rota.core.vocabulary.shard_configuration import generation_of
from rota.node.cluster.coordinator_refusals import CoordinatorRefusals
from rota.node.cluster.loss_notices import LossNotices
from rota.node.cluster.own_record import MemberRecords
from rota.node.cluster.swap_gate import SwapGate
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.coordination.coordinator import Coordinator, Member, News, View
from rota.node.coordination.coordinator_errors import (
    CoordinatorUnavailable,
    OutcomeUnknown,
    WatchLost,
)
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards

log = logging.getLogger(__name__)

AUDIT_S = 30.0
"""The period in which the view is read again, even if the watch has detected no gap."""
RETRY_S = 0.5


class ClusterView:
    """The coordinator's view of the cluster, as this node follows it.

    Args:
        coordinator: The coordinator that has the view.
        network: The network to the other nodes.
        shards: The shards of this node, which get the configurations.
        records: The members in the view of this node, updated here, and the member record of this
            node, compared with the one in the view.
        liveness: The view of which nodes are alive, updated here.
        continuity: This node's record of the coordinator's past states.
        loss_notices: The reports of a loss to the other members.
        gate: The gate of swap requests, opened by a view.
        requests: The queue with the requests to read the view.
        refusals: Counts the coordinator's refusals.
        urgent: Set when replicas are to have a tick at once.
        cluster_id: The id in the cluster's record; None if the ids are not compared.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        network: Network,
        shards: Shards,
        *,
        records: MemberRecords,
        liveness: Liveness,
        continuity: CoordinatorContinuity,
        loss_notices: LossNotices,
        gate: SwapGate,
        requests: SwapQueue,
        refusals: CoordinatorRefusals,
        urgent: asyncio.Event,
        cluster_id: str | None,
    ) -> None:
        self._coordinator = coordinator
        self._network = network
        self._shards = shards
        self._known_members = records.known
        self._own_record = records.own
        self._liveness = liveness
        self._continuity = continuity
        self._loss_notices = loss_notices
        self._gate = gate
        self._requests = requests
        self._refusals = refusals
        self._urgent = urgent
        self._cluster_id = cluster_id
        self._node_id = liveness.node_id
        self._revision = 0
        """The revision of this node's view; news up to this revision is ignored."""
        self._generation = 0
        """The generation of the cluster at that revision."""
        self._setbacks = 0
        """Views with a lower revision than was known when they were requested: the coordinator was
        set back."""
        self._has_unfounded = False
        """Whether shards are to be founded here once all live nodes are linked."""
        self._to_found: set[ShardId] = set()
        """The shards that a recovery had founded here, as far as they have no configuration."""
        self._reading = asyncio.Lock()

    def found(self, shards: Collection[ShardId]) -> None:
        """Found shards here of which a recovery found no copy on any node.

        The shards are founded once this node has read the generation of the recovery, unless they
        have been founded elsewhere.
        """
        self._to_found |= set(shards)
        self._requests.look()

    def linked(self) -> None:
        """Request a read of the view if shards to be founded or the gate wait for a new link."""
        if self._has_unfounded:
            self._requests.look()
        self._gate.request_view()

    # -- reads and news -------------------------------------------------------------------------

    async def follow(self) -> None:
        """Read the view whenever news may have been missed, and watch it in between.

        This method runs until it is cancelled.
        """
        while True:
            try:
                await self._read()
                async with asyncio.timeout(AUDIT_S):
                    await self._watch(self._revision)
            except (TimeoutError, WatchLost):
                continue
            except (CoordinatorUnavailable, OutcomeUnknown) as error:
                self._refusals.note(error)
                log.warning("view not read", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)

    async def read_when_requested(self) -> None:
        """Read the view whenever it is requested, until cancelled."""
        while True:
            await self._requests.view_wanted.wait()
            self._requests.view_wanted.clear()
            with suppress(CoordinatorUnavailable, OutcomeUnknown):
                await self._read()
            await asyncio.sleep(RETRY_S)

    async def _watch(self, revision: int) -> None:
        setbacks = self._setbacks
        async with aclosing(self._coordinator.watch(revision)) as steps:
            async for news in steps:
                # A step may be delayed, and be of the history that a set-back has undone.
                if self._setbacks != setbacks:
                    raise WatchLost("the coordinator was set back")
                if news.revision > self._revision:
                    self._take_news(news)

    def _take_news(self, news: News) -> None:
        self._revision = news.revision
        fresh = (each.epoch for each in news.configurations.values() if each)
        self._generation = max((self._generation, *map(generation_of, fresh)))
        self._continuity.raise_revision(news.revision, self._generation)
        sessions = self._liveness.sessions
        for node_id, life in news.lives.items():
            if life is None:
                sessions.pop(node_id, None)
            else:
                sessions[node_id] = life.session
            self._urgent.set()  # A node that may take over shards does so at once.
        is_own_gone = self._node_id in news.lives and news.lives[self._node_id] is None
        if is_own_gone or (news.lives and self._has_unfounded):
            self._requests.look()
        if news.lives:
            self._gate.request_view()
        if news.members:
            self._known_members.change(news.members)
            self._own_record.check(self._known_members.by_id.get(self._node_id))
        for shard, configuration in news.configurations.items():
            if configuration is not None:
                self._shards.learn(shard, configuration)
            else:
                # No node deletes a configuration, so other keys may be gone as well.
                self._requests.look()
        self._loss_notices.update()

    async def _read(self) -> None:
        async with self._reading:  # One read at a time, so that no view is older than the last.
            known, linked = self._continuity.known(), set(self._network.peers)
            session, revision = self._liveness.session, self._revision
            try:
                view = await self._coordinator.view()
            except (CoordinatorUnavailable, OutcomeUnknown):
                self._liveness.record_coordinator(is_reached=False)
                raise
            self._liveness.record_coordinator(is_reached=True)
            if revision <= view.revision < self._revision:
                # The watch has overtaken the answer. This view would undo news that does not come
                # again: a node that has ended would be alive until the next audit.
                self._requests.look()
                return
            self._take_view(view, known, linked)
            self._own_record.check_session(session, self._liveness.sessions.get(self._node_id))

    def _take_view(self, view: View, known: Known, linked: Collection[NodeId]) -> None:
        self._judge(view, known)
        # The revision of a coordinator that was restored from a backup may be lower (R1).
        self._setbacks += view.revision < known.revision
        self._revision = view.revision
        self._generation = view.cluster.generation if view.cluster else 0
        self._known_members.replace(self._members_in(view))
        self._own_record.check(view.members.get(self._node_id))
        sessions = {node: life.session for node, life in view.lives.items()}
        if sessions != self._liveness.sessions:
            self._liveness.record_sessions(sessions)
            self._urgent.set()
        self._known_members.publish()
        self._shards.take_view(view.configurations, known)
        self._loss_notices.update()
        self._shards.keep_continuity()
        self._gate.see_view(sessions, linked)
        self._gate.request_view()
        self._found_shards(view, linked)

    def _found_shards(self, view: View, linked: Collection[NodeId]) -> None:
        """Make the first copies of shards without a configuration that belong here (R23).

        The copies are made only if every live node was linked when the view was requested: a node
        with evidence that the coordinator lost a configuration of such a shard reports it over the
        new link (R31). After a recovery, copies are made only of the shards that the recovery
        named: a shard that it left closed has no configuration either, and the copies of that shard
        may be on nodes that are away.
        """
        self._to_found -= view.configurations.keys()
        if view.cluster is not None and view.cluster.generation > 0:
            for shard in self._to_found:
                self._shards.found(shard)
            return
        unfounded = [
            ShardId(number)
            for number in self._shards.numbers
            if number not in view.configurations
            and self._known_members.targets_of(ShardId(number))[:1] == (self._node_id,)
        ]
        others = view.lives.keys() - {self._node_id}
        self._has_unfounded = bool(unfounded) and not others <= set(linked)
        if not self._has_unfounded:
            for shard in unfounded:
                self._shards.found(shard)

    # -- a coordinator that lost its state ------------------------------------------------------

    def _judge(self, view: View, known: Known) -> None:
        """Check that the revision and the cluster's record of a view are still there (R31)."""
        continuity, cluster = self._continuity, view.cluster
        if self._coordinator.has_lasting_revisions:
            generation = cluster.generation if cluster else 0
            continuity.check_revision(view.revision, generation, known)
        if self._cluster_id is not None:
            if cluster is None:
                continuity.lose(known.generation, "it has no record of the cluster")
            elif cluster.id != self._cluster_id:
                continuity.lose(known.generation, f"its record is of another cluster, {cluster.id}")
        if cluster is not None and self._cluster_id in (None, cluster.id):
            continuity.add_generation(cluster.generation)

    def _members_in(self, view: View) -> dict[NodeId, Member]:
        """Return the members of a view; after a loss, also the members from before the loss.

        This way, the links between working nodes survive the loss of the coordinator's state.
        """
        generation = view.cluster.generation if view.cluster is not None else 0
        is_lost = self._continuity.lost is not None and generation <= self._continuity.lost
        return {**self._known_members.by_id, **view.members} if is_lost else dict(view.members)
