"""Wiring of a node: its parts, constructed in the order of their dependencies.

Construction starts no part (`rota.node.runtime.lifecycle` does). Real nodes pass RocksDB, etcd and
sockets in their `NodeEnvironment`; a simulation passes simulated ones.
"""

from dataclasses import dataclass

from rota.node.context import NodeContext
from rota.node.fallback.stand_ins import StandIns
from rota.node.namespaces.use_reporter import UseReporter
from rota.node.runtime.access_wiring import wire_access
from rota.node.runtime.api_wiring import FeedParts, wire_context, wire_feeds
from rota.node.runtime.attempt_ticks import AttemptTicks
from rota.node.runtime.attempt_wiring import AttemptParts, wire_attempts
from rota.node.runtime.change_expiry import ChangeExpiry
from rota.node.runtime.cluster_wiring import ClusterParts, wire_cluster
from rota.node.runtime.document_recorder import DocumentRecorder
from rota.node.runtime.effect_runner import EffectRunner
from rota.node.runtime.environment import NodeEnvironment
from rota.node.runtime.fallback_wiring import (
    FallbackParts,
    route_outcome_of,
    wire_fallback_effects,
    wire_stand_ins,
)
from rota.node.runtime.foundation import NodeFoundation, lay_foundation
from rota.node.runtime.housekeeping import Housekeeping
from rota.node.runtime.identity_wiring import attempt_facts, with_identity
from rota.node.runtime.message_router import MessageRouter
from rota.node.runtime.readiness import ServingPhase
from rota.node.runtime.secret_wiring import wire_secrets
from rota.node.runtime.shard_wiring import wire_fallback_shards, wire_shards
from rota.node.runtime.timer_wiring import wire_timers
from rota.node.shards.copy_comparison import CopyComparison
from rota.node.shards.fallback_shards import FallbackShards
from rota.node.shards.fire_checks import FireChecks
from rota.node.shards.local_shards import Shards
from rota.node.shards.timers import Timers
from rota.node.system.background import Service
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.disk_guard import FoundSpace
from rota.node.system.entropy import Entropy
from rota.node.system.webhook_keys import read_webhook_keys
from rota.node.webhooks.webhook_sender import WebhookSender
from rota.storage.history import History


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeWiring:
    """The parts of a node.

    Attributes:
        foundation: The objects from which the parts are constructed.
        shards: The shards of this node.
        fallback_shards: The fallback shards of this node.
        timers: The timers of the shards and of the fallback shards.
        cluster: The parts for the membership.
        attempts: The parts for attempts.
        fallback: The parts for fallback mode.
        feeds: The feeds for which requests wait.
        webhooks: The webhooks of the shards.
        effect_runner: Carries out the effects of the shards.
        router: Receives the messages of other nodes.
        digests: The comparison of copies.
        housekeeping: The periodic work.
        context: The parts of the node that the API uses.
        services: The background work, in the order of its start.
    """

    foundation: NodeFoundation
    shards: Shards
    fallback_shards: FallbackShards
    timers: Timers
    cluster: ClusterParts
    attempts: AttemptParts
    fallback: FallbackParts
    feeds: FeedParts
    webhooks: WebhookSender
    effect_runner: EffectRunner
    router: MessageRouter
    digests: CopyComparison
    housekeeping: Housekeeping
    context: NodeContext
    services: tuple[Service, ...]


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
        config: The settings of the node.
        clock: The clocks of the node.
        entropy: The source of random numbers.
        environment: The environment in which the node runs.
        phase: The phase of the API; None if it serves from the beginning.
    """
    base = lay_foundation(config, clock, entropy, environment)
    shards = wire_shards(base)
    fallback_shards = wire_fallback_shards(base)
    cluster = wire_cluster(base, shards)
    cluster.documents.listen(base.facts.changed)
    cluster.documents.listen(base.namespaces.changed)
    secrets = wire_secrets(base, cluster.documents)
    attempts = wire_attempts(
        base,
        shards,
        cluster.membership,
        route_outcome=route_outcome_of(fallback_shards),
        secrets_of=with_identity(base, cluster.membership, secrets.store.values_of),
    )
    stand_ins = wire_stand_ins(base, shards, fallback_shards, attempts)
    timers = wire_timers(base, shards, stand_ins)
    fallback = FallbackParts(
        stand_ins=stand_ins,
        effects=wire_fallback_effects(base, fallback_shards, stand_ins, attempts, timers),
    )
    facts = attempt_facts(base, cluster.membership, attempts.local, shards)
    access = wire_access(base, cluster.documents, facts)
    feeds = wire_feeds(base)
    key_file = config.webhook_key_file
    webhook_keys = read_webhook_keys(key_file) if key_file else ()
    webhooks = WebhookSender(
        shards.submit,
        environment.post_webhook,
        clock,
        publish=feeds.events.publish,
        keys=webhook_keys,
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
        foundation=base,
        shards=shards,
        fallback_shards=fallback_shards,
        timers=timers,
        cluster=cluster,
        attempts=attempts,
        fallback=fallback,
        feeds=feeds,
        webhooks=webhooks,
        effect_runner=_effect_runner(base, shards, attempts, stand_ins, timers, feeds, webhooks),
        router=_router(base, shards, cluster, attempts, stand_ins, digests),
        digests=digests,
        housekeeping=_housekeeping(base, shards, fallback_shards, timers, history, cluster),
        context=wire_context(
            base,
            shards,
            cluster,
            attempts,
            access=access.control,
            secrets=secrets.store,
            feeds=feeds,
            webhooks=webhooks,
            history=history,
            phase=phase or ServingPhase(reason=None),
        ),
        services=(
            *_services(base, shards, cluster, attempts, stand_ins, digests),
            webhooks,
            secrets.key_ring,
            *access.services,
        ),
    )


def _effect_runner(
    base: NodeFoundation,
    shards: Shards,
    attempts: AttemptParts,
    stand_ins: StandIns,
    timers: Timers,
    feeds: FeedParts,
    webhooks: WebhookSender,
) -> EffectRunner:
    return EffectRunner(
        base.config.node_id,
        shards,
        slot_table=base.slot_table,
        attempts=attempts,
        stand_ins=stand_ins,
        timers=timers,
        webhooks=webhooks,
        feeds=feeds,
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
        quota_use=base.quota_use,
    )


def _housekeeping(
    base: NodeFoundation,
    shards: Shards,
    fallback_shards: FallbackShards,
    timers: Timers,
    history: History,
    cluster: ClusterParts,
) -> Housekeeping:
    changes = ChangeExpiry(
        shards, history.user_changes, keep_for=base.config.audit_retention, clock=base.clock
    )

    def see_space(found: FoundSpace) -> None:
        shards.see_space(found)
        base.self_check.see_space(found.space)

    return Housekeeping(
        shards,
        fallback_shards,
        timers,
        history,
        keep_for=base.config.history,
        keep_per_job=base.config.history_per_job,
        look_for_space=base.environment.look_for_space,
        see_space=see_space,
        of_each_shard=(
            changes.expire,
            DocumentRecorder(shards, cluster.documents, base.clock).record,
            FireChecks(shards, base.config.decide_ahead, base.clock, base.facts.present).look,
        ),
        clock=base.clock,
    )


def _services(
    base: NodeFoundation,
    shards: Shards,
    cluster: ClusterParts,
    attempts: AttemptParts,
    stand_ins: StandIns,
    digests: CopyComparison,
) -> tuple[Service, ...]:
    """Return the background work of a node, in the order of its start."""
    environment, etcd_guard = base.environment, cluster.etcd_guard
    services: list[Service] = [
        cluster.membership,
        cluster.documents,
        AttemptTicks(base, attempts, stand_ins),
    ]
    if environment.warden is not None:
        services.append(environment.warden)
    if not environment.is_alone:
        reporter = UseReporter(
            base.facts, shards, cluster.membership, environment.network, base.clock
        )
        services += [cluster.away_detector, digests, reporter]
    if etcd_guard is not None:
        services.append(etcd_guard)
    return tuple(services)
