"""Wiring of a node: its parts, constructed in the order of their dependencies.

Construction starts nothing (`rota.node.runtime.lifecycle` does). Real nodes pass RocksDB, etcd and
sockets in their `NodeEnvironment`; a simulation passes its own of each.
"""

import asyncio
from dataclasses import dataclass

from rota.core.model.fallback_ids import is_fallback_shard
from rota.core.model.ids import ShardId
from rota.core.replication.authority.clock_skew import ClockSkew
from rota.core.replication.authority.lease_deadlines import NEVER, outlasting
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.timing.instants import Instant, later
from rota.core.vocabulary.commands import TimerCommand
from rota.core.vocabulary.decision import Limits
from rota.core.vocabulary.effects import SetTimer
from rota.node.attempts.attempt_leases import AttemptLeases
from rota.node.attempts.delivery import Delivery
from rota.node.attempts.inbound_attempts import InboundAttempts
from rota.node.attempts.lease_book import LeaseBook
from rota.node.attempts.local_attempts import LocalAttempts
from rota.node.attempts.outbound_attempts import OutboundAttempts
from rota.node.attempts.outbox_relay import OutboxRelay
from rota.node.attempts.slot_lending import SlotLending
from rota.node.attempts.slots import SlotTable
from rota.node.cluster.away_detector import AwayDetector
from rota.node.cluster.drain import Drain
from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.cluster.health_gossip import HealthGossip
from rota.node.cluster.membership import Membership
from rota.node.cluster.replica_peers import ReplicaPeers
from rota.node.cluster.self_check import SelfCheck
from rota.node.cluster.swap_queue import SwapQueue
from rota.node.context import NodeContext
from rota.node.fallback.fallback_effects import FallbackEffects
from rota.node.fallback.reconciliation import Reconciliation
from rota.node.fallback.stand_ins import StandIns
from rota.node.feeds.completion_waiters import CompletionWaiters
from rota.node.feeds.events import Events
from rota.node.runtime.effect_runner import EffectRunner
from rota.node.runtime.environment import NodeEnvironment
from rota.node.runtime.housekeeping import Housekeeping
from rota.node.runtime.message_router import MessageRouter
from rota.node.runtime.readiness import Readiness, ServingPhase
from rota.node.shards.copy_comparison import CopyComparison
from rota.node.shards.fallback_shards import FallbackShards
from rota.node.shards.local_shards import Shards
from rota.node.shards.timers import Alarm, Timers
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.disk_guard import FoundSpace
from rota.node.system.entropy import Entropy
from rota.storage.continuity import stored_continuity
from rota.storage.history import History


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFoundation:
    """What the parts of a node are constructed from.

    Attributes:
        config: Its settings.
        clock: Its clocks.
        entropy: Its randomness.
        environment: What differs between real and simulated nodes.
        liveness: Which nodes are alive, as far as this node knows.
        continuity: What this node knows of the coordinator's past.
        slot_table: Its slots.
        self_check: Its health.
        gossip: The health that nodes send one another.
        failure: Gets the error that ends the node.
    """

    config: NodeConfig
    clock: Clock
    entropy: Entropy
    environment: NodeEnvironment
    liveness: Liveness
    continuity: CoordinatorContinuity
    slot_table: SlotTable
    self_check: SelfCheck
    gossip: HealthGossip
    failure: "asyncio.Future[None]"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterParts:
    """Parts for the membership in a cluster; *etcd_guard* is None on a node that is alone."""

    membership: Membership
    peers: ReplicaPeers
    swap_queue: SwapQueue
    drain: Drain
    away_detector: AwayDetector
    etcd_guard: EtcdGuard | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptParts:
    """Parts for the attempts of this node and of its shards."""

    slot_table: SlotTable
    delivery: Delivery
    outbox_relay: OutboxRelay
    lending: SlotLending
    local: LocalAttempts
    leases: AttemptLeases
    outbound: OutboundAttempts
    inbound: InboundAttempts


@dataclass(frozen=True, kw_only=True, slots=True)
class FallbackParts:
    """Parts for fallback mode (`available`)."""

    stand_ins: StandIns
    effects: FallbackEffects


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedParts:
    """Parts that requests wait at for news of executions and jobs."""

    waiters: CompletionWaiters
    events: Events

    def close(self) -> None:
        """End all waits: the node stops."""
        self.waiters.close()
        self.events.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeWiring:
    """The parts of a node.

    Attributes:
        environment: What the node runs in.
        liveness: Which nodes are alive, as far as this node knows.
        shards: The shards of this node.
        fallback_shards: The fallback shards of this node.
        failure: Gets the error that ends the node.
        timers: The timers of both.
        effect_runner: Carries out the effects of the shards.
        router: Receives the messages of other nodes.
        digests: The comparison of copies.
        housekeeping: The periodic work.
        context: What the API uses of the node.
    """

    environment: NodeEnvironment
    liveness: Liveness
    shards: Shards
    fallback_shards: FallbackShards
    failure: "asyncio.Future[None]"
    timers: Timers
    cluster: ClusterParts
    attempts: AttemptParts
    fallback: FallbackParts
    feeds: FeedParts
    effect_runner: EffectRunner
    router: MessageRouter
    digests: CopyComparison
    housekeeping: Housekeeping
    context: NodeContext


def wire(
    config: NodeConfig,
    clock: Clock,
    entropy: Entropy,
    environment: NodeEnvironment,
    *,
    phase: ServingPhase | None = None,
) -> NodeWiring:
    """Return the parts of a node; nothing runs yet.

    Args:
        config: Its settings.
        clock: Its clocks.
        entropy: Its randomness.
        environment: What it runs in.
        phase: The phase of its API; None: it serves from the beginning.
    """
    base = _foundation(config, clock, entropy, environment)
    shards = _shards(base)
    fallback_shards = _fallback_shards(base)
    cluster = _cluster(base, shards)
    attempts = _attempts(base, shards, fallback_shards, cluster.membership)
    stand_ins = _stand_ins(base, shards, fallback_shards, attempts)
    timers = Timers(
        environment.store,
        clock,
        _alarm(shards, stand_ins),
        may_fire=base.self_check.may_believe_calendar,
        on_failed=shards.fail,
    )
    fallback = FallbackParts(
        stand_ins=stand_ins,
        effects=FallbackEffects(
            config.node_id,
            fallback_shards,
            stand_ins,
            attempts=attempts.local,
            slot_table=attempts.slot_table,
            timers=timers,
            clock=clock,
        ),
    )
    feeds = FeedParts(
        waiters=CompletionWaiters(), events=Events(f"{entropy.draw() >> 32:08x}", clock)
    )
    digests = CopyComparison(
        shards,
        environment.store,
        environment.network,
        config.node_id,
        clock=clock,
        entropy=entropy,
        every=environment.compare_every,
    )
    history = History(environment.store, shards.numbers)
    return NodeWiring(
        environment=environment,
        liveness=base.liveness,
        shards=shards,
        fallback_shards=fallback_shards,
        failure=base.failure,
        timers=timers,
        cluster=cluster,
        attempts=attempts,
        fallback=fallback,
        feeds=feeds,
        effect_runner=_effect_runner(base, shards, attempts, stand_ins, timers, feeds),
        router=_router(base, shards, cluster, attempts, stand_ins, digests),
        digests=digests,
        housekeeping=_housekeeping(base, shards, fallback_shards, timers, history),
        context=_context(base, shards, cluster, attempts, feeds, history, phase),
    )


# -- the foundation and the shards ------------------------------------------------------------


def _foundation(
    config: NodeConfig, clock: Clock, entropy: Entropy, environment: NodeEnvironment
) -> NodeFoundation:
    liveness = Liveness(config.node_id, born_at=clock.elapsed())
    clock_skew = ClockSkew(config.clock_skew_max)
    slot_table = SlotTable(config.slots, liveness, config.labels)
    return NodeFoundation(
        config=config,
        clock=clock,
        entropy=entropy,
        environment=environment,
        liveness=liveness,
        continuity=stored_continuity(environment.store),
        slot_table=slot_table,
        self_check=SelfCheck(
            clock_skew, liveness, clock, environment.metrics, is_alone=environment.is_alone
        ),
        gossip=HealthGossip(
            clock_skew,
            liveness,
            clock,
            every=environment.timing.beat,
            lendable=slot_table.lendable,
        ),
        failure=asyncio.get_running_loop().create_future(),
    )


def _shards(base: NodeFoundation) -> Shards:
    environment = base.environment
    return Shards(
        environment.store,
        environment.shard_count,
        liveness=base.liveness,
        continuity=base.continuity,
        timing=environment.timing,
        copies=environment.copies,
        clock=base.clock,
        entropy=base.entropy,
        limits=Limits(executions=base.config.executions_max),
        ahead=base.config.decide_ahead,
        look_at_calendar=base.self_check.may_believe_calendar,
        failure=base.failure,
    )


def _fallback_shards(base: NodeFoundation) -> FallbackShards:
    return FallbackShards(
        base.environment.store,
        base.config.node_id,
        timing=base.environment.timing,
        clock=base.clock,
        entropy=base.entropy,
        look_at_calendar=base.self_check.may_believe_calendar,
        failure=base.failure,
    )


def _alarm(shards: Shards, stand_ins: StandIns) -> Alarm:
    """Return the function that submits the command of a timer that is due."""

    def alarm(number: ShardId, command: TimerCommand) -> SetTimer | None:
        if is_fallback_shard(number):
            stand_ins.due(number, command)
            return None
        shard = shards[number]
        postponed = stand_ins.before_fire(shard, command)
        if postponed is None:
            shards.submit(shard, command)
        return postponed

    return alarm


# -- the cluster --------------------------------------------------------------------------------


def _cluster(base: NodeFoundation, shards: Shards) -> ClusterParts:
    environment, clock = base.environment, base.clock
    swap_queue = SwapQueue()
    membership = Membership(
        environment.coordinator,
        environment.network,
        environment.member,
        shards,
        lock=environment.lock,
        liveness=base.liveness,
        continuity=base.continuity,
        self_check=base.self_check,
        gossip=base.gossip,
        requests=swap_queue,
        timing=environment.timing,
        placement=environment.placement,
        meet=environment.meet,
        begun=environment.begun,
        clock=clock,
        is_alone=environment.is_alone,
        cluster_id=environment.cluster_id,
    )
    return ClusterParts(
        membership=membership,
        peers=ReplicaPeers(environment.network, base.gossip),
        swap_queue=swap_queue,
        drain=Drain(shards, base.liveness, environment.copies, clock, membership.tell_at_once),
        away_detector=AwayDetector(
            membership,
            environment.coordinator,
            copies=environment.copies.wanted,
            delay=base.config.repair_delay,
            clock=clock,
        ),
        etcd_guard=EtcdGuard(environment.look_at_etcd) if environment.look_at_etcd else None,
    )


# -- attempts -----------------------------------------------------------------------------------


def _attempts(
    base: NodeFoundation, shards: Shards, fallback_shards: FallbackShards, membership: Membership
) -> AttemptParts:
    environment, clock, timing = base.environment, base.clock, base.environment.timing
    network, warden = environment.network, environment.warden
    delivery = Delivery(
        shards,
        fallback_shards,
        network,
        base.config.node_id,
        first_number=base.entropy.draw(),
    )
    lending = SlotLending(
        base.slot_table,
        shards,
        membership,
        network,
        free_of=lambda node_id: base.gossip.free.get(node_id, 0),
        clock=clock,
        incarnation=environment.incarnation,
        first_number=base.entropy.draw(),
    )
    book = LeaseBook(shards, base.liveness, timing=timing, clock=clock)
    local = LocalAttempts(
        shards,
        delivery,
        clock,
        base.slot_table,
        lending,
        lambda ended, reported: environment.executors(ended, reported, book.right_of),
    )
    new_until = _new_until(environment, clock)
    leases = AttemptLeases(
        local,
        book,
        shards,
        network,
        liveness=base.liveness,
        timing=timing,
        clock=clock,
        incarnation=environment.incarnation,
        new_until=new_until,
        allow=warden.allow if warden else lambda until: None,
    )
    return AttemptParts(
        slot_table=base.slot_table,
        delivery=delivery,
        outbox_relay=OutboxRelay(shards, delivery),
        lending=lending,
        local=local,
        leases=leases,
        outbound=OutboundAttempts(
            local,
            shards,
            network,
            liveness=base.liveness,
            timing=timing,
            clock=clock,
            store_of=membership.store_of,
            new_until=new_until,
        ),
        inbound=InboundAttempts(
            local, lending, leases, shards, membership, timing=timing, clock=clock
        ),
    )


def _new_until(environment: NodeEnvironment, clock: Clock) -> Instant:
    """Return the instant before which a warden of an earlier data directory may run attempts.

    The age of the data directory is by the calendar, which may have been set: where it makes no
    sense, the whole time counts from now.
    """
    lasting = outlasting(environment.timing)
    is_new = clock.now() - environment.store_made_at < lasting
    return later(clock.elapsed(), lasting) if is_new else NEVER


def _stand_ins(
    base: NodeFoundation, shards: Shards, fallback_shards: FallbackShards, attempts: AttemptParts
) -> StandIns:
    environment = base.environment
    return StandIns(
        shards,
        fallback_shards,
        Reconciliation(
            base.config.node_id,
            fallback_shards,
            attempts.delivery,
            History(environment.store, range(0)),
        ),
        base.slot_table,
        environment.network,
        node_id=base.config.node_id,
        timing=environment.timing,
        after=base.config.stand_in_after,
        clock=base.clock,
    )


# -- effects, messages, the context -------------------------------------------------------------


def _effect_runner(
    base: NodeFoundation,
    shards: Shards,
    attempts: AttemptParts,
    stand_ins: StandIns,
    timers: Timers,
    feeds: FeedParts,
) -> EffectRunner:
    return EffectRunner(
        base.config.node_id,
        shards,
        slot_table=attempts.slot_table,
        attempts=attempts.local,
        lending=attempts.lending,
        outbound=attempts.outbound,
        inbound=attempts.inbound,
        stand_ins=stand_ins,
        timers=timers,
        outbox_relay=attempts.outbox_relay,
        waiters=feeds.waiters,
        events=feeds.events,
        metrics=base.environment.metrics,
        clock=base.clock,
        is_alone=base.environment.is_alone,
    )


def _router(
    base: NodeFoundation,
    shards: Shards,
    cluster: ClusterParts,
    attempts: AttemptParts,
    stand_ins: StandIns,
    digests: CopyComparison,
) -> MessageRouter:
    return MessageRouter(
        shards,
        cluster.membership,
        gossip=base.gossip,
        delivery=attempts.delivery,
        outbound=attempts.outbound,
        leases=attempts.leases,
        inbound=attempts.inbound,
        lending=attempts.lending,
        stand_ins=stand_ins,
        digests=digests,
    )


def _housekeeping(
    base: NodeFoundation,
    shards: Shards,
    fallback_shards: FallbackShards,
    timers: Timers,
    history: History,
) -> Housekeeping:
    def see_space(found: FoundSpace) -> None:
        shards.see_space(found)
        base.self_check.see_space(found.space)

    return Housekeeping(
        shards,
        fallback_shards,
        timers,
        history,
        keep_for=base.config.history,
        look_for_space=base.environment.look_for_space,
        see_space=see_space,
        clock=base.clock,
    )


def _context(
    base: NodeFoundation,
    shards: Shards,
    cluster: ClusterParts,
    attempts: AttemptParts,
    feeds: FeedParts,
    history: History,
    phase: ServingPhase | None,
) -> NodeContext:
    environment, node_id = base.environment, base.config.node_id
    is_linked = environment.others is not None
    return NodeContext(
        config=base.config,
        clock=base.clock,
        shards=shards,
        attempts=attempts.local,
        history=history,
        waiters=feeds.waiters,
        events=feeds.events,
        metrics=environment.metrics,
        membership=cluster.membership,
        continuity=base.continuity,
        coordinator=environment.coordinator,
        copies=environment.copies,
        others=environment.others,
        etcd=cluster.etcd_guard,
        unready=Readiness(
            node_id,
            shards,
            base.self_check,
            environment.warden,
            phase=phase or ServingPhase(reason=None),
            linked_nodes=(lambda: environment.network.peers) if is_linked else None,
        ),
    )
