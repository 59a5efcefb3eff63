"""Faults of a malicious member: it forges messages and replays old ones.

Nodes accept the statements of a member about itself, so false ones are left out: that an attempt
does not run there, or that it has requested more slots than it did.
"""

from rota.core.model.attempt import AttemptKey, Ending, Outcome, Token
from rota.core.model.ids import Index, ShardId
from rota.core.replication.row_digests import DIGEST_BYTES
from rota.core.timing.instants import Instant
from rota.core.vocabulary.commands import FinishAttempt
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration
from rota.node.peers.messages import (
    NODE_KINDS,
    AskDigest,
    AskLease,
    AskList,
    AskSlots,
    Deliver,
    DeliveryReceipt,
    Dispatch,
    GiveDigest,
    GiveLease,
    LendSlots,
    ReturnSlots,
    Sent,
    Served,
    StandIn,
)
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.shard import Shard
from sim.cluster.machine import Machine
from sim.cluster.world import World
from sim.forgeries import FORGED, Party, forged

REPLAYED = 100
SLOTS = 1_000
ABOUT_THE_SENDER = (AskLease, AskSlots)
"""Requests: under another sender's name they would be false statements about that sender itself."""


def forge(world: World, machine: Machine) -> bool:
    """Have a member send each other node messages without the right to, or with false content."""
    number = ShardId(world.chance.randrange(world.plan.shard_count))
    current = world.configurations.get(number)
    if machine.wiring is None or current is None or current.primary == machine.id:
        return False
    far = world.chance.choice([0, 1, 2, 1 << 40])
    liar = _party(machine, machine.wiring, number)
    for other in world.machines.values():
        if other is not machine and other.wiring is not None:
            messages = [
                *forged(current, far, liar, _party(other, other.wiring, number)),
                *_forged_deliveries(world, liar, other.wiring),
                *_forged_comparison(world, current, other.wiring.context.shards[number]),
            ]
            for message in world.chance.sample(messages, 4):
                _carry(world, machine, other, number, message)
    return True


def replay(world: World, machine: Machine) -> bool:
    """Have a member replay old messages: its own, and others' under its own name."""
    if len(world.sent) < REPLAYED or machine.wiring is None:
        return False
    for sender, receiver, number, message in world.chance.sample(list(world.sent), REPLAYED):
        is_own = sender == machine.id
        other = receiver if is_own else world.chance.choice(list(world.machines))
        if other != machine.id and (is_own or not isinstance(message, ABOUT_THE_SENDER)):
            _carry(world, machine, world.machines[other], number, message)
    return True


def _carry(
    world: World, machine: Machine, other: Machine, number: ShardId | None, message: Sent
) -> None:
    about = None if type(message) in NODE_KINDS else number  # A link checks this.
    world.links.carry(
        machine.id, other.id, lambda: other.receive_forged(about, machine.id, message)
    )


def _party(machine: Machine, wiring: NodeWiring, number: ShardId) -> Party:
    shard = wiring.context.shards[number]
    return Party(
        node_id=machine.id,
        session=machine.life.session if machine.life else NO_SESSION,
        copy=shard.replica.copy,
        now=machine.clock.elapsed(),
        born_at=Instant(0),
    )


def _forged_deliveries(world: World, liar: Party, wiring: NodeWiring) -> list[Sent]:
    """Return messages that a node must not obey from one that is not the primary of the shard."""
    number, orders = world.chance.getrandbits(48), wiring.context.attempts.orders
    messages: list[Sent] = [
        DeliveryReceipt(number=number),
        GiveLease(stop=tuple(orders), sent_at=Instant(number)),
        AskList(),
        StandIn(is_standing=True),
        Served(),
        LendSlots(number=number, count=SLOTS, session=liar.session),
        ReturnSlots(count=SLOTS),
    ]
    for key, order in list(orders.items())[:1]:
        made_up = AttemptKey(key.execution_id, key.task, key.number + 1)
        messages += [
            Dispatch(order=order),
            _false_end(key, Token(order.token.epoch, Index(order.token.index + 1)), number),
            _false_end(made_up, order.token, number),
        ]
    return messages


def _forged_comparison(world: World, current: Configuration, shard: Shard) -> list[Sent]:
    """Return a request that only the primary may send, and an answer without a request."""
    number = world.chance.getrandbits(48)
    question = AskDigest(
        epoch=current.epoch,
        allocation=shard.replica.copy.allocation or FORGED,
        index=shard.file.applied,
        number=number,
    )
    return [question, GiveDigest(number=number, digest=bytes(DIGEST_BYTES))]


def _false_end(key: AttemptKey, token: Token, number: int) -> Deliver:
    ending = Ending(outcome=Outcome.SUCCEEDED, started_at=Instant(1), finished_at=Instant(2))
    return Deliver(
        number=number, commands=(FinishAttempt(attempt=key, token=token, ending=ending),)
    )
