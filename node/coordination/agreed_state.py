"""State on which all nodes agree, as a state machine without network, disk or waiting.

The coordinators that are not etcd use it. Every change is a *step* with its own revision. Sessions
expire only in `expire`, by the time that it is given, so the coordinator that uses this state
decides when; it calls `expire` before any other call.
"""

import copy
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.model.shared_document import DocumentKey, SharedDocument
from rota.core.timing.instants import SECOND, Instant
from rota.core.vocabulary.shard_configuration import Configuration, Swap, Swapped
from rota.node.coordination.coordinator import (
    Claim,
    Cluster,
    DocumentNews,
    Documents,
    Grant,
    Life,
    Member,
    News,
    View,
)
from rota.node.coordination.coordinator_errors import WatchLost
from rota.node.coordination.coordinator_rules import check_format, check_swaps, predecessor

STEPS_MAX = 1_000
"""The number of steps kept for watches; a watch that is further behind is lost."""


class _Lease(msgspec.Struct, frozen=True):
    node_id: NodeId
    ttl_s: float
    ends_at: Instant


class CoordinationState:
    """Sessions, configurations, members and documents, and the last steps that led to them.

    Args:
        cluster: The record of the cluster at the beginning; None if it is not founded.
        members: The members at the beginning.
        configurations: The configurations at the beginning.
        documents: The shared documents at the beginning.

    Attributes:
        revision: The revision of the last step.
        cluster: The record of the cluster; None if it is not founded.
        ttl_s_min: The least time to live of a session, in seconds, whatever time is requested; etcd
            has such a limit.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        members: Mapping[NodeId, Member] | None = None,
        configurations: Mapping[ShardId, Configuration] | None = None,
        documents: Mapping[DocumentKey, SharedDocument] | None = None,
    ) -> None:
        self.revision = 1
        self.ttl_s_min = 0.0
        self.cluster = cluster
        self._members = dict(members or {})
        self._configurations = dict(configurations or {})
        self._documents = dict(documents or {})
        self._lives: dict[NodeId, Life] = {}
        self._leases: dict[Session, _Lease] = {}
        self._steps: deque[News | DocumentNews] = deque()
        self._compacted = self.revision

    def copy(self) -> "CoordinationState":
        """Return an independent copy, for a backup, or for a change that may be given up."""
        twin = copy.copy(self)
        # The dicts and steps are copied; the values in them never change.
        for name, value in vars(self).items():
            setattr(twin, name, copy.copy(value))
        return twin

    # -- what is asked --------------------------------------------------------------------------

    def found(self, wanted: Cluster) -> Cluster:
        """See `Coordinator.found`."""
        if self.cluster is None:
            self.cluster = wanted
        check_format(self.cluster, wanted)
        return self.cluster

    def recover(self, expected: Cluster | None, fresh: Cluster) -> bool:
        """See `Coordinator.recover`."""
        if self.cluster != expected:
            return False
        self.cluster = fresh
        return True

    def register(self, member: Member) -> None:
        """See `Coordinator.register`."""
        self._members[member.node_id] = member
        self._step(members={member.node_id: member})

    def change(self, expected: Member, fresh: Member) -> bool:
        """See `Coordinator.change`."""
        if self._members.get(expected.node_id) != expected:
            return False
        self.register(fresh)
        return True

    def forget(self, node_id: NodeId) -> bool:
        """See `Coordinator.forget`."""
        if node_id in self._lives:
            return False
        if self._members.pop(node_id, None):
            self._step(members={node_id: None})
        return True

    def predecessor(self, claim: Claim) -> Session | None:
        """Return the session that has to be ended before the node can begin another; None if none.

        Raises:
            NodeIdTaken: See `rota.node.coordination.coordinator_rules.predecessor`.
            StoreIdTaken: See `rota.node.coordination.coordinator_rules.predecessor`.
        """
        return predecessor(self._lives, claim)

    def begin(self, claim: Claim, session: Session, *, ttl_s: float, now: Instant) -> Grant | None:
        """Begin the new session *session*; return None if the node or its data have a session.

        Thus a request that arrives late ends no session that was begun after it.
        """
        node_id, store_id = claim.node_id, claim.store_id
        if node_id in self._lives or store_id in (each.store_id for each in self._lives.values()):
            return None
        ttl_s = max(ttl_s, self.ttl_s_min)
        life = Life(session=session, store_id=store_id, lock=claim.lock)
        self._lives[node_id] = life
        self._leases[session] = _Lease(node_id, ttl_s, _after(now, ttl_s))
        self._step(lives={node_id: life})
        return Grant(session=session, ttl_s=ttl_s)

    def renew(self, session: Session, now: Instant) -> float | None:
        """See `Coordinator.renew`."""
        lease = self._leases.get(session)
        if lease is None:
            return None
        ends_at = max(lease.ends_at, _after(now, lease.ttl_s))
        self._leases[session] = msgspec.structs.replace(lease, ends_at=ends_at)
        return lease.ttl_s

    def end(self, session: Session) -> None:
        """See `Coordinator.end_session`."""
        if lease := self._leases.pop(session, None):
            life = self._lives.get(lease.node_id)
            if life is not None and life.session == session:
                self.lose_life(lease.node_id)

    def view(self) -> View:
        """See `Coordinator.view`."""
        return View(
            revision=self.revision,
            configurations=dict(self._configurations),
            lives=dict(self._lives),
            members=dict(self._members),
            cluster=self.cluster,
        )

    def swap(self, swaps: Sequence[Swap]) -> list[Swapped]:
        """See `Coordinator.swap`; all swaps that are carried out are one step."""
        check_swaps(swaps)
        done = [self._may(swap) for swap in swaps]
        fresh = {swap.shard: swap.fresh for swap, may in zip(swaps, done, strict=True) if may}
        if fresh:
            self._configurations.update(fresh)
            self._step(configurations=fresh)
        return [
            Swapped(is_done=may, current=self._configurations.get(swap.shard))
            for swap, may in zip(swaps, done, strict=True)
        ]

    def documents(self) -> Documents:
        """See `Coordinator.documents`."""
        return Documents(revision=self.revision, by_key=dict(self._documents))

    def change_document(
        self, key: DocumentKey, expected: SharedDocument | None, fresh: SharedDocument | None
    ) -> bool:
        """See `Coordinator.change_document`."""
        if self._documents.get(key) != expected:
            return False
        if fresh is None:
            self._documents.pop(key, None)
        else:
            self._documents[key] = fresh
        self.revision += 1
        self._remember(DocumentNews(revision=self.revision, documents={key: fresh}))
        return True

    def steps_after(self, revision: int) -> list[News]:
        """Return the steps after *revision*, except those of documents, oldest first.

        Raises:
            WatchLost: Some of these steps were dropped, or this state never had that revision.
        """
        return [step for step in self._known_after(revision) if isinstance(step, News)]

    def document_steps_after(self, revision: int) -> list[DocumentNews]:
        """Return the steps of shared documents after *revision*, oldest first.

        Raises:
            WatchLost: See `steps_after`.
        """
        return [step for step in self._known_after(revision) if isinstance(step, DocumentNews)]

    def _known_after(self, revision: int) -> list[News | DocumentNews]:
        """Return all steps after *revision*.

        Raises:
            WatchLost: Some of these steps were dropped, or this state never had that revision.
        """
        if revision < self._compacted:
            raise WatchLost(f"the steps after revision {revision} were dropped")
        if revision > self.revision:
            raise WatchLost(f"the revision went back from {revision} to {self.revision}")
        return [step for step in self._steps if step.revision > revision]

    # -- what time and faults do ----------------------------------------------------------------

    def expire(self, now: Instant) -> None:
        """End the sessions that have expired by *now*, in the order of their expiry."""
        over = [(lease.ends_at, each) for each, lease in self._leases.items()]
        self._end_all(session for ends_at, session in sorted(over) if ends_at <= now)

    @property
    def next_expiry(self) -> Instant | None:
        """The expiry of the next session, unless it is renewed; None without sessions."""
        return min((lease.ends_at for lease in self._leases.values()), default=None)

    def restart(self, now: Instant) -> None:
        """Begin all times to live again, as a restart or a change of leader of etcd does."""
        for session in list(self._leases):
            self.renew(session, now)

    def revoke_all(self) -> None:
        """End all sessions at once, as a fault of etcd did (etcd's issue 15247)."""
        self._end_all(list(self._leases))

    def lose_life(self, node_id: NodeId) -> None:
        """Delete the record of a session but keep its lease, as an operator may do in etcd."""
        del self._lives[node_id]
        self._step(lives={node_id: None})

    def compact(self) -> None:
        """Drop all steps; watches that have not received them are lost."""
        self._steps.clear()
        self._compacted = self.revision

    # -- inside ---------------------------------------------------------------------------------

    def _may(self, swap: Swap) -> bool:
        """Return True if the three conditions of a swap hold (PROTOCOL R3)."""
        life = self._lives.get(swap.by)
        is_alive = life is not None and life.session == swap.session
        is_gone = True
        if swap.gone:
            node_id, session = swap.gone
            other = self._lives.get(node_id)
            is_gone = other is None or other.session != session
        return is_alive and is_gone and self._configurations.get(swap.shard) == swap.expected

    def _end_all(self, sessions: Iterable[Session]) -> None:
        for session in sessions:
            self.end(session)

    def _step(
        self,
        *,
        configurations: Mapping[ShardId, Configuration | None] | None = None,
        lives: Mapping[NodeId, Life | None] | None = None,
        members: Mapping[NodeId, Member | None] | None = None,
    ) -> None:
        self.revision += 1
        self._remember(
            News(
                revision=self.revision,
                configurations=configurations or {},
                lives=lives or {},
                members=members or {},
            )
        )

    def _remember(self, step: News | DocumentNews) -> None:
        self._steps.append(step)
        if len(self._steps) > STEPS_MAX:
            self._compacted = self._steps.popleft().revision


def _after(now: Instant, ttl_s: float) -> Instant:
    return Instant(now + int(ttl_s * SECOND))
