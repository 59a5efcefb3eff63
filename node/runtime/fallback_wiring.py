"""Wiring of fallback mode (`available`)."""

from dataclasses import dataclass

from rota.node.attempts.delivery import Route, RouteOutcome
from rota.node.fallback.fallback_effects import FallbackEffects
from rota.node.fallback.reconciliation import Reconciliation
from rota.node.fallback.stand_ins import StandIns
from rota.node.peers.messages import DeliveredCommand
from rota.node.runtime.attempt_wiring import AttemptParts
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.fallback_shards import FallbackShards, inward_commands
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.shards.timers import Timers
from rota.storage.history import History


@dataclass(frozen=True, kw_only=True, slots=True)
class FallbackParts:
    """Parts for fallback mode (`available`)."""

    stand_ins: StandIns
    effects: FallbackEffects


def wire_stand_ins(
    base: NodeFoundation, shards: Shards, fallback_shards: FallbackShards, attempts: AttemptParts
) -> StandIns:
    """Return the part that fires available jobs of shards without a reachable primary."""
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


def wire_fallback_effects(
    base: NodeFoundation,
    fallback_shards: FallbackShards,
    stand_ins: StandIns,
    attempts: AttemptParts,
    timers: Timers,
) -> FallbackEffects:
    """Return the part that carries out the effects of fallback shards."""
    return FallbackEffects(
        base.config.node_id,
        fallback_shards,
        stand_ins,
        attempts=attempts.local,
        slot_table=base.slot_table,
        timers=timers,
        clock=base.clock,
    )


def route_outcome_of(fallback_shards: FallbackShards) -> RouteOutcome:
    """Return the function that routes outcomes of fallback shards' attempts to those shards.

    Fallback shards have no copy on other nodes, so such commands never leave this node.
    """

    def route_outcome(shard: Shard, commands: tuple[DeliveredCommand, ...]) -> Route | None:
        inward = inward_commands(commands)
        return Route(fallback_shards, fallback_shards.of(shard), inward) if inward else None

    return route_outcome
