"""A node's part in its cluster: its session, what it learns of the others, and what it asks.

Four things go on side by side, until the node stops:

    the session is kept      renewed long before it runs out; begun anew where it has
    the view is followed     configurations to the replicas, lives to everyone
    swaps are asked          those of many shards in one request (PROTOCOL R28)
    time passes              for every replica

Whether the coordinator lost its state is judged with every view, and told to the other members
(PROTOCOL R31).
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TypeVar

import msgspec

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity, Known
from rota.core.replication.timeouts import Timing
from rota.core.timing.instants import LATEST_INSTANT, SECOND, Duration, Instant, later, seconds
from rota.core.vocabulary.shard_configuration import NO_SESSION, Swap, Swapped
from rota.node.cluster.health_gossip import HealthGossip
from rota.node.cluster.self_check import SelfCheck
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.coordination.coordinator import (
    ACTIVE,
    AWAY,
    Claim,
    Coordinator,
    CoordinatorError,
    CoordinatorRefused,
    CoordinatorUnavailable,
    Member,
    News,
    OutcomeUnknown,
    Taken,
    View,
    WatchLost,
)
from rota.node.peers.messages import ABOUT_NONE, CoordinationLost
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

AUDIT_S = 30.0
"""A view is taken this often even if the watch missed nothing that it knows of."""
RETRY_S = 0.5
SWAPS_AT_ONCE = 32  # 64 took etcd 22 ms in one request; half of that keeps its others waiting less.
REQUESTS_AT_ONCE = 3
"""Of a hundred shards that go elsewhere at once none waits for all the others. A shard has at most
one swap under way, so it does not matter which request is done first."""
BEATS_SHORTER = 4
"""Ticks in a beat: a beat is late by a tick at most."""
LOSS_TOLD_EVERY = Duration(SECOND)
"""A member that was out of reach is told of a loss so soon after it is back, without a new link."""
TICK_ALONE_S = 1.0
TICK_STARTING_S = 0.02

Placement = Callable[[Mapping[NodeId, Member], ShardId], tuple[NodeId, ...]]
"""The nodes that ought to have copies of a shard among the members, the primary first."""


class Membership:
    """This node in its cluster.

    Args:
        coordinator: What all agree on.
        network: To the other nodes.
        member: What this node says of itself.
        shards: Of this node.
        lock: On its data directory; see `Claim`.
        liveness: Of this node, kept up to date here.
        continuity: Likewise.
        self_check: Of this node, which is looked at with every tick.
        gossip: The health that this node sends with messages of replicas.
        requests: What replicas request of the coordinator.
        timing: Of the cluster.
        placement: By the ring.
        meet: Told of all members, again whenever one changes.
        begun: Told of each session that this node begins.
        clock: Counts the session's time.
        is_alone: Whether there are no other nodes, and nothing to be late for.
        cluster_id: Of the cluster's record at the coordinator; None where that is not looked at.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        network: Network,
        member: Member,
        shards: Shards,
        *,
        lock: str,
        liveness: Liveness,
        continuity: CoordinatorContinuity,
        self_check: SelfCheck,
        gossip: HealthGossip,
        requests: SwapQueue,
        timing: Timing,
        placement: Placement,
        meet: Callable[[Mapping[NodeId, Member]], None],
        begun: Callable[[Session], None],
        clock: Clock,
        is_alone: bool,
        cluster_id: str | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._network = network
        self._member = member
        self._claim = Claim(node_id=member.node_id, store_id=member.store_id, lock=lock)
        self._shards = shards
        self._liveness = liveness
        self._continuity = continuity
        self._self_check = self_check
        self._gossip = gossip
        self._requests = requests
        self._timing = timing
        self._placement = placement
        self._meet = meet
        self._begun = begun
        self._clock = clock
        self._is_alone = is_alone
        self._cluster_id = cluster_id
        self._loss_told_at = clock.elapsed()
        self._told_loss = continuity.lost
        self._has_unfounded = False
        """Shards are to be founded here, and wait until all that live are linked."""
        self._to_found: set[ShardId] = set()
        """By the word of a recovery; those of which the coordinator has a configuration are left
        out."""
        self._session_asked_at = clock.elapsed()
        self._may_ask = asyncio.Event()
        """In the present session a view was requested while all that live were linked (R31)."""
        self._renewed_at = clock.elapsed()
        self._revision = 0
        """Of what is known: news that are not newer come too late."""
        self._is_registered = False
        """In the present session."""
        self._recordless = NO_SESSION
        """The session of this node that a view did not have, though it had begun."""
        self._looking = asyncio.Lock()
        self._members: dict[NodeId, Member] = {}
        self._targets: dict[ShardId, tuple[NodeId, ...]] = {}
        self.refusal_count = 0
        """Calls that the coordinator answered and did not do."""
        self._refusals = SampledLog(
            log, "coordinator refused", now=clock.elapsed, level=logging.ERROR, limit=1
        )
        self._is_urgent = asyncio.Event()
        """Something happened that replicas are not to learn only with the next tick."""

    async def run(self) -> None:
        """Be a member until cancelled; then the session ends, unless the coordinator is away."""
        try:
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._keep_session,
                    self._follow,
                    self._look_when_wanted,
                    *(self._ask for _ in range(REQUESTS_AT_ONCE)),
                    self._let_time_pass,
                ):
                    group.create_task(work())
        finally:
            session = self._liveness.session
            # Before it is asked for: others may act as soon as it is over, whenever we hear of it.
            self._liveness.session = NO_SESSION
            if session != NO_SESSION:
                with suppress(CoordinatorUnavailable, OutcomeUnknown):
                    await self._coordinator.end_session(session)

    # -- what is known here, for those who look into it -----------------------------------------

    @property
    def node_id(self) -> NodeId:
        """This node."""
        return self._member.node_id

    @property
    def session(self) -> Session:
        """This node's own; `NO_SESSION` while it has none."""
        return self._liveness.session

    @property
    def members(self) -> Mapping[NodeId, Member]:
        """All nodes, whether or not they live."""
        return self._members

    def store_of(self, node_id: NodeId) -> str:
        """Return the id of a node's data directory; empty if no member has that id."""
        member = self._members.get(node_id)
        return member.store_id if member else ""

    @property
    def sessions(self) -> Mapping[NodeId, Session]:
        """The live session of each node that has one."""
        return self._liveness.sessions

    @property
    def is_leaving(self) -> bool:
        """Whether this node is about to stop, and gives away what it holds."""
        return self._liveness.is_leaving

    @property
    def session_age_s(self) -> float:
        """Seconds since that renewal of this node's session was asked for that was granted last."""
        return (self._clock.elapsed() - self._renewed_at) / SECOND

    @property
    def swaps_waiting(self) -> int:
        """Changes of configurations that the coordinator has not been asked for yet."""
        return len(self._requests)

    def targets_of(self, shard: ShardId) -> tuple[NodeId, ...]:
        """Return the nodes that ought to have copies of *shard*, the primary first."""
        return self._of(shard)

    def saw_death(self, node_id: NodeId, session: Session) -> None:
        """Take the proof that the process of a node in that session has ended (note 2)."""
        grace = self._timing.grace
        self._liveness.saw_death(node_id, session, self._clock.elapsed(), grace=grace)
        self._is_urgent.set()

    def linked(self, node_id: NodeId) -> None:
        """Take note of a new link: what was sent to that node before is lost, and goes again."""
        self._shards.linked(node_id)
        if self._continuity.lost is not None:
            self._tell_loss(node_id)
        if self._has_unfounded:
            self._requests.look()
        self._look_if_all_are_linked()
        self._is_urgent.set()

    def heard_loss(self, sender: NodeId, generation: int) -> bool:
        """Take a member's word that the coordinator lost its state; False if that cannot be."""
        is_credible = self._continuity.accept_report(generation, sender)
        self._see_loss()
        return is_credible

    def tell_at_once(self) -> None:
        """Have the others hear soon what this node tells of itself."""
        self._gossip.hurry()
        self._is_urgent.set()

    def found(self, shards: Collection[ShardId]) -> None:
        """Found shards here of which a recovery found that no node has anything.

        Once this node knows of the recovery's generation, and unless they are founded elsewhere.
        """
        self._to_found |= set(shards)
        self._requests.look()

    # -- the session ----------------------------------------------------------------------------

    async def _keep_session(self) -> None:
        while True:
            if self._liveness.is_fenced(self._liveness.sessions):
                # R19: the others need not wait longer than for a node that is lost. But is there
                # still a coordinator, that they may take over?
                self._requests.look()
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._renew()
                await self._end_if_recordless()
                if self._liveness.session != NO_SESSION and not self._is_registered:
                    # Only then: who lives under this id with other data keeps its record.
                    await self._register()
                self._liveness.reaches_coordinator = True
            except (CoordinatorUnavailable, OutcomeUnknown, Taken) as error:
                self._note(error)
                self._liveness.reaches_coordinator = isinstance(error, Taken)
                # Until the session of a process that may have ended has run out.
                log.warning("session not renewed", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)
                continue
            if self._liveness.session != NO_SESSION:
                await asyncio.sleep(self._timing.session / SECOND / 5)

    async def _renew(self) -> None:
        """Renew the session, or begin one; its time counts from before it was asked for (R15)."""
        liveness, asked_at = self._liveness, self._clock.elapsed()
        if liveness.session == NO_SESSION:
            grant = await self._coordinator.begin_session(
                self._claim, self._timing.session / SECOND
            )
            liveness.session_end = self._session_end(asked_at, grant.ttl_s)
            liveness.session = grant.session
            self._session_asked_at = asked_at
            self._may_ask.clear()
            self._look_if_all_are_linked()
            self._begun(grant.session)
            self._renewed_at = asked_at
            log.info("session begun", extra={"session": grant.session})
            self._check_granted(grant.ttl_s)
            self._is_registered = False
            return
        ttl_s = await self._coordinator.renew(liveness.session)
        if ttl_s is None:
            log.warning("session over", extra={"session": liveness.session})
            liveness.session = NO_SESSION
        else:
            liveness.session_end = self._session_end(asked_at, ttl_s)
            self._renewed_at = asked_at

    async def _end_if_recordless(self) -> None:
        """End this node's session if its record is gone, though its lease was renewed just now.

        Somebody deleted keys by hand. To all others this node is gone and may be replaced, so it
        must not go on in that session.
        """
        session = self._liveness.session
        if session == NO_SESSION or session != self._recordless:
            return
        self._liveness.session = NO_SESSION
        reason = (
            "keys of rota were deleted in etcd, which nothing of rota does: find out who writes "
            "there. This node begins another session; if configurations of shards are gone too, "
            "`rota cluster status` says so"
        )
        log.error("session record gone", extra={"session": session, "reason": reason})
        # With its lease goes what else is under it, which would keep the next session out.
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
        # R36: once a session is gone, the others wait as long as the cluster's sessions live, be
        # this one granted for longer.
        counted = replace(self._timing, session=min(self._timing.session, seconds(ttl_s)))
        return counted.session_end(asked_at)

    async def _register(self) -> None:
        """Tell who this node is; what an operator said of it stays, or says meanwhile."""
        # The record as last read: if the coordinator has another one by now, it refuses the change.
        known = self._members.get(self._member.node_id)
        if known is not None and await self._rewrite(known):
            return
        while not self._is_registered:
            known = (await self._coordinator.view()).members.get(self._member.node_id)
            if known is None:
                await self._coordinator.register(self._member)
                self._is_registered = True
            else:
                self._is_registered = known == self._back(known) or await self._rewrite(known)

    async def _rewrite(self, known: Member) -> bool:
        """Replace the record *known* of this node, and act by the new one without waiting for news.

        Returns:
            False if nothing was written: there is nothing to change, or the record is another one.
        """
        fresh = self._back(known)
        if known == fresh or not await self._coordinator.change(known, fresh):
            return False
        self._is_registered = True
        if self._members.get(fresh.node_id) == known:
            # The links wait for this: no other node believes this process before.
            self._meet_changed({fresh.node_id: fresh})
        return True

    def _back(self, known: Member) -> Member:
        """Return the record of this node, whose record is *known*, now that it runs (R29)."""
        state = ACTIVE if known.state == AWAY else known.state
        return msgspec.structs.replace(self._member, state=state)

    def _check_own_record(self, found: Member | None) -> None:
        """Have it written again if it is not this process's, or says that this node is away.

        An operator may have marked the node just when it came back; and a coordinator that was
        restored from a backup has the key of an earlier life, or no record at all.
        """
        if found is None or found.state == AWAY or found.key != self._member.key:
            self._is_registered = False

    # -- the view -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Read the view whenever it may have been missed, and watch it in between."""
        while True:
            try:
                await self._look()
                async with asyncio.timeout(AUDIT_S):
                    await self._watch(self._revision)
            except (TimeoutError, WatchLost):
                continue
            except (CoordinatorUnavailable, OutcomeUnknown) as error:
                self._note(error)
                log.warning("view not read", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)

    async def _watch(self, revision: int) -> None:
        async with aclosing(self._coordinator.watch(revision)) as steps:
            async for news in steps:
                if news.revision > self._revision:
                    self._hear(news)

    def _hear(self, news: News) -> None:
        self._revision = news.revision
        self._continuity.revision = max(self._continuity.revision, news.revision)
        for node_id, life in news.lives.items():
            _put(self._liveness.sessions, node_id, life.session if life else None)
            self._is_urgent.set()  # Whoever may take over does so at once.
        is_own_gone = news.lives.get(self._member.node_id, self._member) is None
        if is_own_gone or (news.lives and self._has_unfounded):
            self._requests.look()
        if news.lives:
            self._look_if_all_are_linked()
        if news.members:
            self._meet_changed(news.members)
            self._check_own_record(self._members.get(self._member.node_id))
        for shard, configuration in news.configurations.items():
            if configuration is not None:
                self._shards.learn(shard, configuration)
            else:
                self._requests.look()  # Nothing of rota deletes one: what else is lost?
        self._see_loss()

    def _meet_changed(self, members: Mapping[NodeId, Member | None]) -> None:
        """Take note of records that are new, changed, or gone."""
        moves = any(map(_moves_copies, map(self._members.get, members), members.values()))
        for node_id, member in members.items():
            _put(self._members, node_id, member)
        self._meet(self._members)
        if moves:
            self._targets.clear()
            self._requests.look()  # A shard that has no copy yet may belong here now (R23).

    async def _look_when_wanted(self) -> None:
        while True:
            await self._requests.view_wanted.wait()
            self._requests.view_wanted.clear()
            with suppress(CoordinatorUnavailable, OutcomeUnknown):
                await self._look()
            await asyncio.sleep(RETRY_S)

    async def _look(self) -> None:
        async with self._looking:  # One view after the other, so that none is older than the last.
            known, linked = self._continuity.known(), set(self._network.peers)
            session = self._liveness.session
            try:
                view = await self._coordinator.view()
            except (CoordinatorUnavailable, OutcomeUnknown):
                self._liveness.reaches_coordinator = False
                raise
            self._liveness.reaches_coordinator = True
            self._take(view, known, linked)
            if session not in (NO_SESSION, self._liveness.sessions.get(self._member.node_id)):
                self._recordless = session

    def _take(self, view: View, known: Known, linked: Collection[NodeId]) -> None:
        self._judge(view, known)
        # Perhaps a lower one than before: a coordinator restored from a backup goes back (R1).
        self._revision = view.revision
        self._members = self._members_in(view)
        self._check_own_record(view.members.get(self._member.node_id))
        sessions = {node: life.session for node, life in view.lives.items()}
        if sessions != self._liveness.sessions:
            self._liveness.sessions = sessions
            self._is_urgent.set()
        self._targets.clear()
        self._meet(self._members)
        self._shards.take_view(view.configurations, known)
        self._see_loss()
        self._shards.keep_continuity()
        if sessions.get(self._member.node_id) == self._liveness.session and (
            sessions.keys() <= {self._member.node_id, *linked}
        ):
            self._may_ask.set()
        self._look_if_all_are_linked()
        self._found_shards(view, linked)

    def _found_shards(self, view: View, linked: Collection[NodeId]) -> None:
        """Begin, on the node where they belong, shards that never had a copy (R23).

        Only if every node that lives was linked when the view was requested: one that knows that
        the coordinator lost a configuration of such a shard says so with the link (R31). After a
        recovery only those that it says: a shard that it left closed has no configuration either,
        and its copies may be on nodes that are away.
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
            and self._of(ShardId(number))[:1] == (self._member.node_id,)
        ]
        others = view.lives.keys() - {self._member.node_id}
        self._has_unfounded = bool(unfounded) and not others <= set(linked)
        if not self._has_unfounded:
            for shard in unfounded:
                self._shards.found(shard)

    # -- a coordinator that lost its state ------------------------------------------------------

    def _judge(self, view: View, known: Known) -> None:
        """Look at a view for what must be there, besides configurations (R31)."""
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
            continuity.generation = max(continuity.generation, cluster.generation)

    def _members_in(self, view: View) -> dict[NodeId, Member]:
        """Return the members of a view, and, if those were lost, the others that were known.

        So a coordinator that was emptied ends no link between nodes that work on.
        """
        generation = view.cluster.generation if view.cluster is not None else 0
        is_lost = self._continuity.lost is not None and generation <= self._continuity.lost
        return {**self._members, **view.members} if is_lost else dict(view.members)

    def _see_loss(self) -> None:
        """Have the others, and the next life of this node, know at once what was lost."""
        if self._continuity.lost != self._told_loss:
            self._told_loss = self._continuity.lost
            self._shards.keep_continuity()
            self._tell_loss(*self._members)

    def _tell_loss(self, *members: NodeId) -> None:
        assert self._continuity.lost is not None
        for node_id in members:
            if node_id != self._member.node_id:
                lost = CoordinationLost(generation=self._continuity.lost)
                self._network.send(node_id, ABOUT_NONE, lost)

    def _repeat_loss(self, now: Instant) -> None:
        """Tell of a loss again while shards are frozen by it."""
        is_due = now - self._loss_told_at >= LOSS_TOLD_EVERY
        if is_due and self._continuity.lost is not None and self._shards.frozen_count:
            self._loss_told_at = now
            self._tell_loss(*self._members)

    def _of(self, shard: ShardId) -> tuple[NodeId, ...]:
        """Return the nodes that ought to have copies of *shard*."""
        targets = self._targets.get(shard)
        if targets is None:
            targets = self._targets[shard] = self._placement(self._members, shard)
        return targets

    # -- swaps ----------------------------------------------------------------------------------

    async def _ask(self) -> None:
        while True:
            await self._requests.wait_swap()
            await self._wait_linked()
            swaps = self._requests.take(SWAPS_AT_ONCE)
            for swap in filter(self._is_void, swaps):
                # R31: it waited while the coordinator was found to have lost its state.
                self._shards.swapped(swap, Swapped(is_done=False, current=swap.expected))
            swaps = [each for each in swaps if not self._is_void(each)]
            if swaps:  # Else another request has taken them.
                for swap, answer in zip(swaps, await self._answers(swaps), strict=True):
                    self._shards.swapped(swap, answer)
                self._see_loss()

    def _is_void(self, swap: Swap) -> bool:
        return self._continuity.is_void(swap.fresh.epoch)

    def _look_if_all_are_linked(self) -> None:
        """Have the view read for which swaps wait (`_wait_linked`)."""
        sessions = self._liveness.sessions
        if (
            not self._may_ask.is_set()
            and sessions.get(self._member.node_id) == self._liveness.session
            and sessions.keys() <= {self._member.node_id, *self._network.peers}
        ):
            self._requests.look()

    async def _wait_linked(self) -> None:
        """Return when a view was requested in this session while all that live were linked.

        A member that knows that the coordinator lost its state says so with the link, and meanwhile
        the view is on its way (R31). One that lives and is out of reach is waited for as long as
        sessions live.
        """
        while not self._may_ask.is_set():
            until = later(self._session_asked_at, self._timing.session)
            left = until - self._clock.elapsed()
            if left <= 0 or self._is_alone:
                self._may_ask.set()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left / SECOND):
                    await self._may_ask.wait()

    async def _answers(self, swaps: list[Swap]) -> list[Swapped] | list[None]:
        try:
            return await self._coordinator.swap(swaps)
        except CoordinatorUnavailable as error:
            self._note(error)
            await asyncio.sleep(RETRY_S)
            # Certainly not done; and nothing has been heard of a newer configuration.
            return [Swapped(is_done=False, current=swap.expected) for swap in swaps]
        except OutcomeUnknown:
            return [None for _ in swaps]

    def _note(self, error: CoordinatorError) -> None:
        """Count and log a refusal, which does not pass by itself as an absence does."""
        if isinstance(error, CoordinatorRefused):
            self.refusal_count += 1
            self._refusals.write(reason=str(error))

    # -- time -----------------------------------------------------------------------------------

    async def _let_time_pass(self) -> None:
        while True:
            began_at, opening = self._clock.elapsed(), self._shards.opening_time
            self._is_urgent.clear()
            self._shards.tick(self._of)
            self._repeat_loss(began_at)
            tick_s = self._tick_s()
            with suppress(TimeoutError):
                async with asyncio.timeout(tick_s):
                    await self._is_urgent.wait()
            # By the ticks themselves (R19): what keeps them up keeps up beats and renewals.
            waited = self._clock.elapsed() - began_at - seconds(tick_s)
            lag = waited - (self._shards.opening_time - opening)
            self._self_check.tick(lag=max(0, lag), sync_time=self._shards.sync_time)

    def _tick_s(self) -> float:
        if not self._is_alone:
            return self._timing.beat / SECOND / BEATS_SHORTER
        is_started = all(each.is_open or each.is_unreadable for each in self._shards)
        return TICK_ALONE_S if is_started else TICK_STARTING_S


def _moves_copies(before: Member | None, after: Member | None) -> bool:
    """Return True unless two records of a node differ in the key of its process at most.

    So it is whenever nodes start again: copies stay where they belong, and nothing has to be read.
    """
    if before is None or after is None:
        return before is not after
    return msgspec.structs.replace(before, key=after.key) != after


def _put(known: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value
