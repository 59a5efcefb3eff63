"""The file with the newest durable ticket: its content and its own syncs."""

import os
from pathlib import Path

import pytest

from rota.storage import synced_mark
from rota.storage.store import Ticket
from rota.storage.synced_mark import FILE_NAME, SyncedMark

SECOND_NS = 1_000_000_000


def test_the_mark_is_synced_at_most_once_a_second_and_written_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_ns, synced = [0], list[bytes]()
    monkeypatch.setattr(synced_mark, "perf_counter_ns", lambda: clock_ns[0])

    def record(descriptor: int) -> None:
        synced.append(os.pread(descriptor, 20, 0))

    monkeypatch.setattr(os, "fdatasync", record)
    mark = SyncedMark(tmp_path)
    file = tmp_path / FILE_NAME

    for at_ns, ticket in ((1, 1), (SECOND_NS, 2), (SECOND_NS + 1, 3), (2 * SECOND_NS, 4)):
        clock_ns[0] = at_ns
        mark.record(Ticket(ticket))
        assert int(file.read_bytes()[:20]) == ticket
    mark.close()

    assert [int(ticket) for ticket in synced] == [2, 4]
    assert SyncedMark(tmp_path).ticket == 4
