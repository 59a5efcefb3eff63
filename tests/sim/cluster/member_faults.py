"""What a member does that has no right to: it makes messages up, and sends old ones once more.

What a member tells of itself is believed, so lies about itself are left out: that it does not run
an attempt that runs there, or that it has asked for a place more than it did.
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
PLACES = 1_000
ABOUT_THE_SENDER = (AskLease, AskSlots)
"""Questions: in the name of another than asked them they would be lies of that about itself."""


def forge(world: World, machine: Machine) -> bool:
    """Have a member send each other node what it has no right to, or what cannot be true."""
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
                *_forged_errands(world, liar, other.wiring),
                *_forged_comparison(world, current, other.wiring.context.shards[number]),
            ]
            for message in world.chance.sample(messages, 4):
                _carry(world, machine, other, number, message)
    return True


def replay(world: World, machine: Machine) -> bool:
    """Have a member send old messages once more: its own, and others' in its own name."""
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
    world.links.carry(machine.id, other.id, lambda: other.hear_forged(about, machine.id, message))


def _party(machine: Machine, wiring: NodeWiring, number: ShardId) -> Party:
    shard = wiring.context.shards[number]
    return Party(
        node_id=machine.id,
        session=machine.life.session if machine.life else NO_SESSION,
        copy=shard.replica.copy,
        now=machine.clock.elapsed(),
        born_at=Instant(0),
    )


def _forged_errands(world: World, liar: Party, wiring: NodeWiring) -> list[Sent]:
    """Return what *works* must not obey, of a node that is not the primary of the shard."""
    number, orders = world.chance.getrandbits(48), wiring.context.attempts.orders
    messages: list[Sent] = [
        DeliveryReceipt(number=number),
        GiveLease(stop=tuple(orders), sent_at=Instant(number)),
        AskList(),
        StandIn(is_standing=True),
        Served(),
        LendSlots(number=number, count=PLACES, session=liar.session),
        ReturnSlots(count=PLACES),
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
    """Return a question that only the primary may put, and an answer to none."""
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
