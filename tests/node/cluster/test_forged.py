"""Forged messages: from members without the right to send them, or without a request."""

import asyncio

import pytest
from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.ids import ExecutionId, NodeId, ShardId
from rota.core.timing.instants import SECOND, Instant
from rota.node.peers.messages import DeliveryReceipt, Dispatch, GiveLease, Sent, StandIn
from support.in_process import save, trigger
from support.virtual_nodes import FENCED_BY_S, A, B, C, Nodes, run, until

LONG = {"sleepMs": 3_600_000}
ONE, OTHER = ShardId(0), ShardId(1)
AHEAD = 3_600 * SECOND


async def running(nodes: Nodes) -> Order:
    """Return an attempt of shard `ONE`, which runs on its primary a."""
    shards = nodes[A].shards
    names = (str(number) for number in range(99))
    name = next(each for each in names if shards.of_name("default", each).id == ONE)
    await trigger(shards, await save(shards, name, parameters=LONG))
    orders = nodes[A].running.context.attempts.orders
    await until(lambda: len(orders) == 1)
    return next(iter(orders.values()))


def forged_of(nodes: Nodes, order: Order, node_id: NodeId) -> Order:
    """Return an order for an attempt that no primary ever started, fit for *node_id*."""
    key = AttemptKey(ExecutionId(order.key.execution_id), "forged", 1)
    session = nodes.session_of(node_id)
    assert session is not None
    return replace(order, key=key, session=session)


def deliver(nodes: Nodes, receiver: NodeId, sender: NodeId, *messages: Sent) -> None:
    """Deliver the messages of one frame to a node."""
    for message in messages:
        nodes[receiver].receive(ONE, sender, message)


@pytest.mark.parametrize("forger", [B, C])
def test_an_attempt_with_an_unrequested_lease_does_not_start(forger: NodeId) -> None:
    async def story(nodes: Nodes) -> None:
        order = await running(nodes)
        victim = C if forger == B else B
        ahead = Instant(nodes[victim].clock.elapsed() + AHEAD)

        forged = forged_of(nodes, order, victim)
        deliver(nodes, victim, forger, Dispatch(order=forged), GiveLease(stop=(), sent_at=ahead))
        await asyncio.sleep(FENCED_BY_S)

        assert not nodes.began[forged.key]
        assert nodes[victim].running.router.refused == {"dispatch": 1, "give_lease": 1}

    run(story)


@pytest.mark.parametrize("offset", [AHEAD, -1, 0, 1])
def test_an_attempt_of_the_primary_starts_only_with_the_answer_to_a_request(
    offset: int,
) -> None:
    async def story(nodes: Nodes) -> None:
        order = await running(nodes)
        forged = forged_of(nodes, order, B)
        nodes.loses = lambda sender, receiver, message: isinstance(message, GiveLease)

        at = Instant(nodes[B].clock.elapsed() + offset)
        deliver(nodes, B, A, Dispatch(order=forged), GiveLease(stop=(), sent_at=at))
        await asyncio.sleep(1)

        assert not nodes.began[forged.key]
        assert nodes[B].running.router.refused == {"give_lease": 1}

    run(story)


def test_an_answer_from_a_node_without_a_request_is_ignored() -> None:
    async def story(nodes: Nodes) -> None:
        order = await running(nodes)
        forged = forged_of(nodes, order, B)

        def forging(sender: NodeId, receiver: NodeId, message: Sent) -> bool:
            if isinstance(message, GiveLease) and (sender, receiver) == (A, B):
                deliver(nodes, B, C, replace(message, stop=()))
                return True
            return False

        nodes.loses = forging
        deliver(nodes, B, A, Dispatch(order=forged))
        await asyncio.sleep(1)

        assert not nodes.began[forged.key]
        assert nodes[B].running.router.refused["give_lease"] > 0

    run(story)


def test_a_receipt_from_the_wrong_node_or_shard_does_not_end_a_delivery() -> None:
    async def story(nodes: Nodes) -> None:
        order = await running(nodes)
        await nodes.move(ONE, B, A, C)
        await nodes.move(OTHER, B, A, C)
        delivery = nodes[A].running.router._delivery  # pyright: ignore[reportPrivateUsage]
        nodes.loses = lambda sender, receiver, message: isinstance(message, DeliveryReceipt)
        nodes[A].running.context.attempts.stop(order.key)
        await until(lambda: len(delivery) == 1)
        [number] = delivery._pending  # pyright: ignore[reportPrivateUsage]

        for sender in (B, C):
            for shard in (ONE, OTHER):
                if (sender, shard) != (B, ONE):
                    nodes[A].receive(shard, sender, DeliveryReceipt(number=number))
        await asyncio.sleep(0.1)
        assert len(delivery) == 1

        nodes[A].receive(ONE, B, DeliveryReceipt(number=number))
        await until(lambda: len(delivery) == 0)

    run(story)


def test_a_member_without_a_copy_does_not_prevent_a_stand_in() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.move(ONE, A, B)
        stand_ins = nodes[B].running.fallback.stand_ins
        standing = stand_ins._standings[ONE]  # pyright: ignore[reportPrivateUsage]
        now = nodes[B].clock.elapsed()
        newest = nodes[B].shards[ONE].replica.newest
        assert newest is not None
        assert C not in newest.members

        for sender in (A, C):
            nodes[B].receive(ONE, sender, StandIn(is_standing=True))
        await asyncio.sleep(0.1)

        assert not standing.is_silent(A, now)
        assert standing.is_silent(C, now)

    run(story)


def test_a_message_from_a_stranger_is_refused() -> None:
    async def story(nodes: Nodes) -> None:
        await running(nodes)
        deliver(nodes, B, NodeId("stranger"), StandIn(is_standing=True))
        await asyncio.sleep(0.1)

        assert nodes[B].running.router.refused == {"stand_in": 1}

    run(story)
