"""Contract of every `Network`: real links on the loopback, and simulated links."""

from collections.abc import Callable

import pytest

from contract.peers.networks import (
    SHARD,
    A,
    B,
    Came,
    Network,
    Story,
    a_part,
    an_append,
    numbered,
    on_real_links,
    on_simulated_links,
    until,
)
from rota.core.replication.messages import Fenced
from rota.node.peers.network import NoNetwork

On = Callable[[Story], None]
networks = pytest.mark.parametrize("on", [on_real_links, on_simulated_links])
MANY = 3_000


@networks
def test_a_message_arrives_with_its_shard_and_its_sender(on: On) -> None:
    async def story(network: Network) -> None:
        network.send(A, B, numbered(7))
        network.send(B, A, numbered(8))
        await until(lambda: bool(network.received[A] and network.received[B]))

        assert network.received[B] == [(SHARD, A, numbered(7))]
        assert network.received[A] == [(SHARD, B, numbered(8))]

    on(story)


@networks
def test_messages_arrive_once_each_and_in_order(on: On) -> None:
    async def story(network: Network) -> None:
        for number in range(MANY):
            network.send(A, B, numbered(number))
        await until(lambda: len(network.received[B]) >= MANY)

        assert numbers(network.received[B]) == list(range(MANY))

    on(story)


@networks
@pytest.mark.parametrize("size", [10, 200_000, 5_000_000])
def test_a_long_message_arrives_whole(on: On, size: int) -> None:
    async def story(network: Network) -> None:
        network.send(A, B, an_append(size))
        network.send(A, B, numbered(1))
        network.send(A, B, a_part(size))
        await until(lambda: len(network.received[B]) == 3)

        came = [message for _, _, message in network.received[B]]
        assert a_part(size) in came
        # Parts may be overtaken, entries are not.
        assert [each for each in came if each != a_part(size)] == [an_append(size), numbered(1)]

    on(story)


@networks
def test_what_is_sent_during_a_cut_is_lost_and_what_is_sent_after_it_is_not(
    on: On,
) -> None:
    async def story(network: Network) -> None:
        network.send(A, B, numbered(1))
        await until(lambda: len(network.received[B]) == 1)

        with network.cut():
            network.send(A, B, numbered(2))
            await unheard(network)
        await network.linked()
        network.send(A, B, numbered(3))
        await until(lambda: len(network.received[B]) >= 2)

        assert numbers(network.received[B]) == [1, 3]

    on(story)


@pytest.mark.parametrize("size", [0, 200_000])
def test_a_single_node_has_no_peers_and_sends_nothing(size: int) -> None:
    network = NoNetwork()

    with pytest.raises(AssertionError, match=f"shard {SHARD} sent .* to {B} from a single node"):
        network.send(B, SHARD, an_append(size))

    assert list(network.peers) == []


async def unheard(network: Network) -> None:
    """Return when what was sent has had its time."""
    ticks = iter(range(40))
    await until(lambda: len(network.received[B]) != 1 or next(ticks, None) is None)


def numbers(received: list[Came]) -> list[int]:
    """Return the numbers of small messages, in the order in which they came."""
    return [message.epoch for _, _, message in received if isinstance(message, Fenced)]
