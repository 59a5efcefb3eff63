"""Log lines about shards taken up and given up: once a second at most, with all shards."""

import logging

import pytest

from rota.core.model.ids import Epoch, ShardId
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant
from rota.node.shards.ownership_log import OwnershipLog

FACTS = ("count", "epoch_min", "epoch_max", "took_ms")


def test_shards_taken_up_are_logged_with_their_epochs_and_the_time_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ownership = OwnershipLog(Instant(0))
    with caplog.at_level(logging.INFO):
        for shard, epoch in ((3, 7), (4, 2), (5, 5)):
            ownership.taken_up(ShardId(shard), Epoch(epoch), Duration(2 * MILLISECOND))
        ownership.write(Instant(0))

    assert lines_of(caplog) == [("shards taken up", 3, 2, 7, 6.0)]


def test_lines_are_a_second_apart_and_the_next_one_has_what_came_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ownership = OwnershipLog(Instant(0))
    with caplog.at_level(logging.INFO):
        for at in range(0, 2 * SECOND, 100 * MILLISECOND):
            ownership.taken_up(ShardId(1), Epoch(1), Duration(0))
            ownership.given_up(ShardId(1))
            ownership.write(Instant(at))
        ownership.write_all()

    assert [(each[0], each[1]) for each in lines_of(caplog)] == [
        ("shards taken up", 1),
        ("shards given up", 1),
        ("shards taken up", 10),
        ("shards given up", 10),
        ("shards taken up", 9),
        ("shards given up", 9),
    ]


def test_nothing_is_written_when_nothing_changed(caplog: pytest.LogCaptureFixture) -> None:
    ownership = OwnershipLog(Instant(0))
    with caplog.at_level(logging.DEBUG):
        ownership.write(Instant(SECOND))
        ownership.write_all()

    assert not caplog.records


def lines_of(caplog: pytest.LogCaptureFixture) -> list[tuple[object, ...]]:
    """Return the event and the facts of each line."""
    return [
        (each.getMessage(), *(vars(each)[name] for name in FACTS if name in vars(each)))
        for each in caplog.records
    ]
