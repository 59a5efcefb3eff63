"""The journal in its primary's hands: positions, time, and what is committed."""

import pytest

from rota.core.ids import Epoch, Index
from rota.core.instants import Instant
from rota.core.journal import ORIGIN, EntryKind, decode_entry, follow
from rota.core.replica import Replica


def test_entries_follow_each_other_without_gaps() -> None:
    replica = Replica(ORIGIN, Epoch(1))

    values = [replica.append(b"", Instant(number)) for number in (10, 20, 30)]

    tip = ORIGIN
    for value in values:
        _, tip = follow(tip, value)
    assert tip == replica.tip
    assert tip.index == 3


def test_an_entry_stands_at_the_position_that_was_announced() -> None:
    replica = Replica(ORIGIN, Epoch(7))
    replica.append(b"", Instant(1))
    position = replica.position

    entry = decode_entry(replica.append(b"", Instant(2), EntryKind.TAKEOVER))

    assert (entry.epoch, entry.index) == (position.epoch, position.index) == (7, 2)
    assert entry.kind is EntryKind.TAKEOVER


def test_positions_of_a_later_epoch_are_greater() -> None:
    before = Replica(ORIGIN, Epoch(1))
    before.append(b"", Instant(1))
    last = before.position

    after = Replica(before.tip, Epoch(2))

    assert after.position > last
    assert str(after.position) > str(last)


def test_shard_time_is_the_clocks_while_that_goes_forward() -> None:
    replica = Replica(ORIGIN, Epoch(1))
    replica.append(b"", Instant(1_000))

    assert replica.shard_time(Instant(5_000)) == 5_000


@pytest.mark.parametrize("wall", [0, 999, 1_000])
def test_shard_time_grows_even_if_the_clock_stands_or_goes_back(wall: int) -> None:
    replica = Replica(ORIGIN, Epoch(1))
    replica.append(b"", Instant(1_000))

    assert replica.shard_time(Instant(wall)) == 1_001


def test_only_what_is_durable_is_committed() -> None:
    replica = Replica(ORIGIN, Epoch(1))
    replica.append(b"", Instant(1))
    replica.append(b"", Instant(2))

    replica.made_durable(Index(1))

    assert replica.committed == 1
    assert not replica.is_settled


def test_what_is_committed_stays_so() -> None:
    replica = Replica(ORIGIN, Epoch(1))
    replica.append(b"", Instant(1))
    replica.append(b"", Instant(2))
    replica.made_durable(Index(2))

    replica.made_durable(Index(1))

    assert replica.committed == 2
    assert replica.is_settled


def test_all_of_a_journal_that_was_found_is_committed() -> None:
    before = Replica(ORIGIN, Epoch(1))
    before.append(b"", Instant(1))

    after = Replica(before.tip, Epoch(2))

    assert after.committed == 1
    assert after.is_settled


def test_a_lower_epoch_than_the_journals_is_a_bug() -> None:
    before = Replica(ORIGIN, Epoch(2))
    before.append(b"", Instant(1))

    with pytest.raises(AssertionError):
        Replica(before.tip, Epoch(1))
