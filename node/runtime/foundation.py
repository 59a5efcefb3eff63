"""Foundation of a node: the objects from which its parts are constructed."""

import asyncio
from dataclasses import dataclass

from rota.core.replication.authority.clock_skew import ClockSkew
from rota.core.replication.authority.liveness import Liveness
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.node.attempts.slots import SlotTable
from rota.node.cluster.health_gossip import HealthGossip
from rota.node.cluster.self_check import SelfCheck
from rota.node.facts.shared_facts import SharedFacts
from rota.node.namespaces.namespaces import Namespaces
from rota.node.namespaces.policy import DEFAULT_POLICIES
from rota.node.runtime.environment import NodeEnvironment
from rota.node.shards.quota_use import QuotaUse
from rota.node.system.clock import Clock
from rota.node.system.config import NodeConfig
from rota.node.system.entropy import Entropy
from rota.storage.continuity import stored_continuity


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFoundation:
    """Objects from which the parts of a node are constructed.

    Attributes:
        config: The settings of the node.
        clock: The clocks of the node.
        entropy: The source of random numbers.
        environment: The environment, real or simulated.
        liveness: The view of which nodes are alive.
        continuity: The node's record of the coordinator's past states.
        slot_table: The slots of the node.
        self_check: The health of the node.
        gossip: The health reports that nodes exchange.
        facts: What the shared documents say to decisions; it follows them once they are wired.
        namespaces: The namespaces with documents, which it follows once these are wired.
        quota_use: The use of namespaces on other nodes.
        failure: Completed with the error that ends the node.
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
    facts: SharedFacts
    namespaces: Namespaces
    quota_use: QuotaUse
    failure: "asyncio.Future[None]"


def lay_foundation(
    config: NodeConfig, clock: Clock, entropy: Entropy, environment: NodeEnvironment
) -> NodeFoundation:
    """Return the foundation of a node.

    Args:
        config: The settings of the node.
        clock: The clocks of the node.
        entropy: The source of random numbers.
        environment: The environment in which the node runs.
    """
    liveness = Liveness(config.node_id, born_at=clock.elapsed())
    clock_skew = ClockSkew(config.clock_skew_max)
    namespaces = Namespaces(
        refuses_unknown=config.unknown_namespaces == "refuse",
        labels=config.labels,
        default_policy=DEFAULT_POLICIES[config.default_policy],
    )
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
        facts=SharedFacts(),
        namespaces=namespaces,
        quota_use=QuotaUse(liveness),
        failure=asyncio.get_running_loop().create_future(),
    )
