"""A coordinator that lost its state: what shows that, and what a replica then refuses (R31)."""

from msgspec.structs import replace

from rota.core.configuration import GENERATION_BITS, Configuration, first_epoch, generation_of
from rota.core.ids import Epoch
from rota.core.replication.copy import PutHeader, PutSeen
from unit.replicas import Cluster


def later_than(configuration: Configuration, by: int = 1) -> Configuration:
    """Return *configuration* under a later epoch."""
    return replace(configuration, epoch=Epoch(configuration.epoch + by))


# -- generations -------------------------------------------------------------------------------


def test_a_generation_begins_above_every_epoch_of_the_one_before() -> None:
    last = Epoch((1 << GENERATION_BITS) - 1)

    assert generation_of(first_epoch(0)) == generation_of(last) == 0
    assert generation_of(first_epoch(1)) == 1
    assert first_epoch(0) == 1
    assert last < first_epoch(1)


# -- what was seen -----------------------------------------------------------------------------


def test_a_promise_is_written_after_the_configuration_that_it_was_given_under() -> None:
    cluster = Cluster()
    replica = cluster.replica("a")
    replica.take_ready()

    replica.learn(later_than(cluster.configuration), cluster.now)

    kinds = [type(write) for write in replica.take_ready().writes]
    assert kinds.index(PutSeen) < kinds.index(PutHeader)


def test_the_configuration_seen_last_is_known_in_the_next_life() -> None:
    cluster = Cluster()
    before = cluster.configuration
    cluster.force(later_than(before))
    cluster.see("b")
    cluster.replica("b").learn(before, cluster.now)

    cluster.restart("b")

    assert cluster.replica("b").seen == cluster.configuration
    assert cluster.replica("b").newest is None


def test_a_node_without_a_copy_keeps_what_it_saw_too() -> None:
    cluster = Cluster()

    cluster.restart("d")

    assert cluster.replica("d").copy.allocation is None
    assert cluster.replica("d").seen == cluster.configuration


def test_what_was_seen_before_is_not_written_again() -> None:
    cluster = Cluster()
    cluster.restart("b")

    cluster.replica("b").learn(cluster.configuration, cluster.now)

    assert cluster.replica("b").take_ready().writes == ()
