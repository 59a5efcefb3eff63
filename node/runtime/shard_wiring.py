"""Wiring of the shards of a node."""

from rota.core.vocabulary.decision import Limits
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.fallback_shards import FallbackShards
from rota.node.shards.local_shards import Shards


def wire_shards(base: NodeFoundation) -> Shards:
    """Return the shards of a node."""
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
        facts=base.facts.present,
        quota_use=base.quota_use,
        check_clock=base.self_check.check_clock,
        failure=base.failure,
    )


def wire_fallback_shards(base: NodeFoundation) -> FallbackShards:
    """Return the fallback shards of a node."""
    return FallbackShards(
        base.environment.store,
        base.config.node_id,
        timing=base.environment.timing,
        facts=base.facts.present,
        clock=base.clock,
        entropy=base.entropy,
        check_clock=base.self_check.check_clock,
        failure=base.failure,
    )
