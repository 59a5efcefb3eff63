"""A node's own copy: entries that are never removed, durable entries, entries in memory."""

import pytest

from rota.core.model.ids import AllocationId, Epoch, Index
from rota.core.replication.local_copy import NOTHING, TAIL_MAX, LocalCopy
from rota.core.replication.messages import Base
from rota.core.timing.instants import Instant
from rota.core.vocabulary.journal import ORIGIN, DamagedEntry, EntryKind
from sim.protocol.disk import Disk


def copy_of(count: int, disk: Disk | None = None) -> LocalCopy:
    """Return a whole copy with so many entries, none of them written yet."""
    copy = LocalCopy(NOTHING, disk or Disk())
    copy.become_whole(AllocationId("x"), Base(Epoch(0), Index(0), Instant(0), ORIGIN.hash))
    copy.promise(Epoch(1))
    for number in range(1, count + 1):
        copy.append(b"%d" % number, Instant(number), EntryKind.CHANGES)
    return copy


def test_what_is_committed_is_never_cut_away() -> None:
    copy = copy_of(3)
    copy.commit(Index(2))

    with pytest.raises(AssertionError, match="entry 2 is committed"):
        copy.cut_after(Index(1))

    assert copy.tip.index == 3


def test_uncommitted_entries_are_removed_and_others_are_appended_there() -> None:
    copy = copy_of(3)

    copy.cut_after(Index(1))
    copy.append(b"other", Instant(9), EntryKind.CHANGES)

    assert copy.tip.index == 2


def test_a_lower_epoch_is_never_promised() -> None:
    copy = copy_of(0)

    with pytest.raises(AssertionError):
        copy.promise(Epoch(0))


def test_an_entry_that_does_not_follow_is_refused() -> None:
    other = copy_of(3)

    with pytest.raises(DamagedEntry):
        copy_of(1).accept(other.entry(Index(3)))


def test_entries_are_durable_batch_by_batch() -> None:
    copy = copy_of(2)
    copy.take_writes()
    copy.append(b"3", Instant(3), EntryKind.CHANGES)
    copy.take_writes()

    copy.made_durable(1)

    assert copy.durable == 2
    assert not copy.is_durable


def test_an_entry_that_was_removed_before_its_sync_does_not_become_durable() -> None:
    copy = copy_of(3)
    copy.take_writes()
    copy.cut_after(Index(1))
    copy.take_writes()

    copy.made_durable(1)

    assert copy.durable == 1


def test_an_entry_that_replaces_a_durable_one_is_not_durable_yet() -> None:
    copy = copy_of(3)
    copy.take_writes()
    copy.made_durable(1)

    copy.cut_after(Index(1))
    copy.append(b"other", Instant(9), EntryKind.CHANGES)

    assert copy.durable == 1

    copy.take_writes()
    copy.made_durable(2)

    assert copy.durable == 2


def test_a_cleared_copy_has_no_durable_entry() -> None:
    copy = copy_of(3)
    copy.take_writes()
    copy.made_durable(1)

    copy.clear()

    assert (copy.durable, copy.committed, copy.tip) == (0, 0, ORIGIN)


def test_entries_can_be_read_before_they_are_written_however_many_there_are() -> None:
    disk, count = Disk(), 3 * TAIL_MAX
    copy = copy_of(count, disk)
    copy.commit(Index(count))

    writes = copy.take_writes()
    before_the_write = [copy.entry(Index(index)) for index in range(1, count + 1)]
    disk.write(writes)
    copy.take_writes()

    assert before_the_write == [disk.entry(Index(index)) for index in range(1, count + 1)]
    assert len(copy._tail) == TAIL_MAX  # pyright: ignore[reportPrivateUsage]
