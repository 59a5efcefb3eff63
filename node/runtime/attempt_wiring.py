"""Wiring of the attempts of a node and of its shards."""

from dataclasses import dataclass

from rota.core.replication.authority.lease_deadlines import NEVER, outlasting
from rota.core.timing.instants import Instant, later
from rota.node.attempts.attempt_leases import AttemptLeases
from rota.node.attempts.delivery import Delivery, RouteOutcome
from rota.node.attempts.inbound_attempts import InboundAttempts
from rota.node.attempts.lease_book import LeaseBook
from rota.node.attempts.local_attempts import LocalAttempts, SecretsOf
from rota.node.attempts.outbound_attempts import OutboundAttempts
from rota.node.attempts.outbox_relay import OutboxRelay
from rota.node.attempts.slot_lending import SlotLending
from rota.node.cluster.membership import Membership
from rota.node.runtime.environment import NodeEnvironment
from rota.node.runtime.foundation import NodeFoundation
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptParts:
    """Parts for the attempts of this node and of its shards."""

    delivery: Delivery
    outbox_relay: OutboxRelay
    lending: SlotLending
    local: LocalAttempts
    leases: AttemptLeases
    outbound: OutboundAttempts
    inbound: InboundAttempts


def wire_attempts(
    base: NodeFoundation,
    shards: Shards,
    membership: Membership,
    *,
    route_outcome: RouteOutcome,
    secrets_of: SecretsOf,
) -> AttemptParts:
    """Return the parts for the attempts of a node.

    Args:
        base: The foundation of the node.
        shards: The shards of the node.
        membership: The membership of the node in the cluster.
        route_outcome: Returns the route of outcomes that fallback shards decide.
        secrets_of: Returns the values of the secrets that an order names.
    """
    environment, clock, timing = base.environment, base.clock, base.environment.timing
    network, warden = environment.network, environment.warden
    delivery = Delivery(
        shards,
        network,
        base.config.node_id,
        route_outcome=route_outcome,
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
        base.namespaces,
        secrets_of=secrets_of,
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

    The age of the data directory is measured by the wall clock, which may have been set; a
    directory whose creation is in the future counts as new.
    """
    lasting = outlasting(environment.timing)
    is_new = clock.now() - environment.store_made_at < lasting
    return later(clock.elapsed(), lasting) if is_new else NEVER
