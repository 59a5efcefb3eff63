"""Recovery of a warden from its journal, also after a crash of the machine."""

import asyncio
import errno
import os
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import msgspec
import pytest

from contract.executor.executor_host import EXECUTION_ID, FIRE_AT, LIMIT_S, TOKEN, wait_until
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.model.work import Work
from rota.core.timing.instants import Instant
from rota.executor.warden.journal import REWRITE_BYTES, Journal, Kept

ENDING = Ending(outcome=Outcome.SUCCEEDED, started_at=Instant(1), finished_at=Instant(2))
GROUP = "7/session"


def order_of(name: str, *, stdin: str = "") -> Order:
    key = AttemptKey(EXECUTION_ID, name, 1)
    return Order(key=key, token=TOKEN, work=Work(argv=("true",), stdin=stdin), fire_at=FIRE_AT)


def written(path: Path, *names: str) -> list[bytes]:
    """Write the starts and ends of attempts, and return the content after each record."""
    journal = Journal(path)
    contents = [path.read_bytes()]
    for name in names:
        order = order_of(name)
        journal.started(GROUP, order)
        journal.write()
        contents.append(path.read_bytes())
        journal.ended(order.key, ENDING)
        journal.write()
        contents.append(path.read_bytes())
    journal.close()
    return contents


def kept_in(path: Path) -> list[Kept]:
    journal = Journal(path)
    journal.close()
    return journal.kept


async def test_it_keeps_what_is_not_forgotten_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    runs, ended, forgotten = (order_of(name) for name in ("runs", "ended", "forgotten"))
    for order in (runs, ended, forgotten):
        journal.started(GROUP, order)
    for order in (forgotten, ended):
        journal.ended(order.key, ENDING)
    journal.forgotten(forgotten.key)
    journal.close()

    kept = kept_in(tmp_path / "journal")

    assert kept == [Kept(GROUP, runs), Kept(GROUP, ended, ENDING)]


async def test_an_ending_without_the_newest_field_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    order = order_of("older")
    journal = Journal(path)
    journal.started(GROUP, order)
    journal.close()
    *fields, _ = msgspec.to_builtins(ENDING, builtin_types=(bytes,))

    body = msgspec.msgpack.encode(("ended", order.key, fields))
    with path.open("ab") as file:
        file.write(len(body).to_bytes(4) + zlib.crc32(body).to_bytes(4) + body)

    assert kept_in(path) == [Kept(GROUP, order, ENDING)]


async def test_what_it_kept_is_kept_again(tmp_path: Path) -> None:
    written(tmp_path / "journal", "a", "b")

    first, second = kept_in(tmp_path / "journal"), kept_in(tmp_path / "journal")

    assert [each.order.key.task for each in first] == ["a", "b"]
    assert first == second


async def test_a_journal_cut_anywhere_gives_the_records_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    contents = written(path, "a", "b")
    ends = [len(content) for content in contents]

    for length in range(ends[-1] + 1):
        path.write_bytes(contents[-1][:length])
        whole_count = sum(end <= length for end in ends) - 1
        kept = kept_in(path)
        found = sum(1 + (each.ending is not None) for each in kept)
        assert found == whole_count, f"cut to {length} bytes"


@pytest.mark.parametrize("place", ["length", "checksum", "body"])
async def test_a_damaged_record_ends_the_journal(tmp_path: Path, place: str) -> None:
    path = tmp_path / "journal"
    contents = written(path, "a", "b")
    damaged = bytearray(contents[-1])
    damaged[len(contents[2]) + {"length": 1, "checksum": 5, "body": 12}[place]] ^= 0x10
    path.write_bytes(damaged)

    kept = kept_in(path)

    assert [(each.order.key.task, each.ending) for each in kept] == [("a", ENDING)]


async def test_zeros_that_a_power_loss_leaves_at_the_end_are_no_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    written(path, "a")
    with path.open("ab") as file:
        file.write(bytes(4096))

    kept = kept_in(path)

    assert len(kept) == 1
    assert [record.message for record in caplog.records] == ["end of journal dropped"]


async def test_a_half_written_new_journal_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, "a")
    path.with_suffix(".new").write_bytes(b"half")

    assert len(kept_in(path)) == 1


async def test_a_long_journal_of_what_is_forgotten_becomes_short_and_loses_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    kept = order_of("kept")
    journal.started(GROUP, kept)
    long_text = "x" * 100_000
    sizes: list[int] = []

    async with asyncio.timeout(LIMIT_S):
        while not sizes or path.stat().st_size >= sizes[-1]:
            sizes.append(path.stat().st_size)
            order = order_of(f"task-{len(sizes)}", stdin=long_text)
            journal.started(GROUP, order)
            journal.ended(order.key, ENDING)
            journal.forgotten(order.key)
            journal.started(GROUP, order_of(f"other-{len(sizes)}"))
            journal.write()
            await asyncio.sleep(0)
    journal.ended(kept.key, ENDING)
    journal.close()

    assert max(sizes) > REWRITE_BYTES
    others = [Kept(GROUP, order_of(f"other-{number + 1}")) for number in range(len(sizes))]
    assert kept_in(path) == [Kept(GROUP, kept, ENDING), *others]


class HeldSyncs:
    """The syncs of this process, from now on; each waits for the gate.

    Attributes:
        gate: Open unless the test closes it.
        begun: How many have begun.
        synced_bytes: How long a file was when the last sync of it that has ended began.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = Event()
        self.gate.set()
        self.begun = 0
        self.synced_bytes = 0
        self._sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._fdatasync)

    def _fdatasync(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self.begun += 1
        assert self.gate.wait(LIMIT_S), "the test never opened the gate"
        self._sync(descriptor)
        self.synced_bytes = size


async def test_what_was_written_is_synced_without_anything_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    syncs = HeldSyncs(monkeypatch)

    journal.started(GROUP, order_of("a"))
    journal.write()
    size = path.stat().st_size
    await wait_until(lambda: syncs.synced_bytes == size)

    assert b"started" in path.read_bytes()
    journal.close()


async def test_what_was_written_during_a_sync_is_synced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    syncs = HeldSyncs(monkeypatch)
    syncs.gate.clear()
    journal.started(GROUP, order_of("a"))
    journal.write()
    await wait_until(lambda: syncs.begun == 1)

    journal.started(GROUP, order_of("b"))
    journal.write()
    size = path.stat().st_size
    syncs.gate.set()
    await wait_until(lambda: syncs.synced_bytes == size)

    assert syncs.begun == 2
    journal.close()


async def test_a_rewritten_journal_has_its_name_only_when_all_of_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    syncs = HeldSyncs(monkeypatch)
    rename = Path.rename
    renamed: list[tuple[int, int]] = []

    def noted_rename(source: Path, target: Path) -> Path:
        renamed.append((source.stat().st_size, syncs.synced_bytes))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", noted_rename)
    order = order_of("forgotten", stdin="x" * REWRITE_BYTES)
    journal.started(GROUP, order)
    journal.forgotten(order.key)
    syncs.gate.clear()

    journal.write()
    await wait_until(lambda: syncs.begun == 1)
    for name in ("a", "b"):
        journal.started(GROUP, order_of(name))
        journal.write()
    syncs.gate.set()
    await wait_until(lambda: bool(renamed))
    await wait_until(lambda: path.stat().st_size < REWRITE_BYTES)
    journal.started(GROUP, order_of("c"))
    journal.close()

    [(size, synced_bytes)] = renamed
    assert synced_bytes == size
    assert [each.order.key.task for each in kept_in(path)] == ["a", "b", "c"]


async def test_the_file_before_a_rewritten_journal_gets_all_records_until_the_name_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other_name = tmp_path / "journal", tmp_path / "other-name"
    journal = Journal(path)
    other_name.hardlink_to(path)
    sync, begun, gate = os.fsync, Event(), Event()

    def held_fsync(descriptor: int) -> None:
        begun.set()
        assert gate.wait(LIMIT_S), "the test never opened the gate"
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", held_fsync)
    order = order_of("forgotten", stdin="x" * REWRITE_BYTES)
    journal.started(GROUP, order)
    journal.forgotten(order.key)
    journal.write()
    await wait_until(begun.is_set)

    journal.started(GROUP, order_of("a"))
    journal.write()
    before, after = (copied.read_bytes() for copied in (other_name, path))
    gate.set()
    journal.close()

    assert not path.samefile(other_name)
    assert len(before) > len(after)
    assert before.endswith(after)


async def test_after_a_failed_sync_all_records_are_written_to_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    first_file = path.stat().st_ino

    def refused(descriptor: int) -> None:
        del descriptor
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refused)
        journal.started(GROUP, order_of("a"))
        journal.write()
        await wait_until(lambda: "journal not written" in caplog.text)

    journal.started(GROUP, order_of("b"))
    journal.write()
    await wait_until(lambda: path.stat().st_ino != first_file)
    journal.close()

    assert [each.order.key.task for each in kept_in(path)] == ["a", "b"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "rota-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting a tmpfs needs root: run the tests with sudo or in a container")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_what_a_full_disk_refused_is_written_when_it_has_room(small_disk: Path) -> None:
    journal = Journal(small_disk / "journal")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(240 << 10))
    orders = [order_of(f"task-{number}", stdin="x" * 1_500) for number in range(20)]

    for order in orders:
        journal.started(GROUP, order)
        journal.write()
    filler.unlink()
    journal.ended(orders[0].key, ENDING)
    journal.close()
    kept = kept_in(small_disk / "journal")

    assert [each.order for each in kept] == orders
    assert kept[0].ending == ENDING


@pytest.mark.parametrize("step", ["write", "rename"])
async def test_a_rewrite_that_fails_is_tried_again_when_the_journal_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path, tries = tmp_path / "journal", list[str]()

    def refused(*arguments: object) -> int:
        del arguments
        tries.append(step)
        raise OSError(errno.ENOSPC, "no space")

    journal = Journal(path)
    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr("rota.executor.warden.journal._write_file", refused)
        else:
            patch.setattr(Path, "rename", refused)
        order = order_of("forgotten", stdin="x" * REWRITE_BYTES)
        journal.started(GROUP, order)
        journal.forgotten(order.key)
        journal.write()
        await wait_until(lambda: len(tries) == 1)
        for number in range(20):
            journal.started(GROUP, order_of(f"kept-{number}"))
            journal.write()
            await asyncio.sleep(0.01)
        assert len(tries) == 1

    journal.started(GROUP, order)
    journal.forgotten(order.key)
    journal.write()
    await wait_until(lambda: path.stat().st_size < REWRITE_BYTES)
    journal.close()

    assert [each.order.key.task for each in kept_in(path)] == [f"kept-{n}" for n in range(20)]
