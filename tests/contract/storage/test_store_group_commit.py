"""Contract of `GroupCommit` with the event loop, over both stores."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Event

import pytest

from rota.storage.group_commit import GroupCommit
from rota.storage.memory import MemoryStore
from rota.storage.rocks import RocksStore
from rota.storage.store import Family, Store, StoreFailed, Ticket


class GatedStore(MemoryStore):
    """A store whose syncs wait for the gate, and signal the wait."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Event()
        self.is_syncing = Event()

    def sync(self) -> Ticket:
        """Sync, once the gate is open."""
        self.is_syncing.set()
        assert self.gate.wait(30)
        return super().sync()


class Loop:
    """The event loop's side: writes, and records the callbacks."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.durable: list[Ticket] = []
        self.failures: list[Exception] = []
        self.durations: list[float] = []
        self._called = asyncio.Event()
        self.commit = GroupCommit(
            store,
            loop=asyncio.get_running_loop(),
            on_durable=self._on_durable,
            on_failed=self._on_failed,
            on_sync=self.durations.append,
        )

    def write(self, key: bytes = b"k") -> Ticket:
        """Write one key and ask for it to be made durable."""
        batch = self.store.batch()
        batch.put(Family.JOURNAL, key, b"v")
        ticket = self.store.write(batch)
        self.commit.wrote(ticket)
        return ticket

    async def wait_durable(self, ticket: Ticket) -> None:
        """Wait until *ticket* has been reported as durable."""
        async with asyncio.timeout(30):
            while not (self.durable and self.durable[-1] >= ticket):
                self._called.clear()
                await self._called.wait()

    async def wait_failed(self) -> None:
        """Wait until a failure has been reported."""
        async with asyncio.timeout(30):
            while not self.failures:
                self._called.clear()
                await self._called.wait()

    def _on_durable(self, ticket: Ticket) -> None:
        self.durable.append(ticket)
        self._called.set()

    def _on_failed(self, error: Exception) -> None:
        self.failures.append(error)
        self._called.set()


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = RocksStore(tmp_path / "db") if request.param == "rocks" else MemoryStore()
    yield store
    store.close()


@pytest.fixture
async def side(store: Store) -> AsyncIterator[Loop]:
    side = Loop(store)
    yield side
    side.commit.close()


@pytest.fixture
async def gated() -> AsyncIterator[tuple[Loop, GatedStore]]:
    store = GatedStore()
    side = Loop(store)
    yield side, store
    store.gate.set()
    side.commit.close()


async def test_a_write_becomes_durable(side: Loop) -> None:
    ticket = side.write()

    await side.wait_durable(ticket)

    assert side.commit.durable == ticket
    assert side.commit.sync_count == 1
    assert side.durations == [side.commit.last_sync_s]
    assert side.commit.last_sync_s > 0


async def test_sixty_four_writers_all_become_durable(side: Loop) -> None:
    async def writer(number: int) -> None:
        for _ in range(20):
            await side.wait_durable(side.write(b"%d" % number))

    async with asyncio.TaskGroup() as group:
        for number in range(64):
            group.create_task(writer(number))

    assert side.durable == sorted(side.durable)
    assert side.commit.sync_count <= 64 * 20
    assert not side.failures


async def test_nothing_is_synced_while_nothing_is_written(side: Loop) -> None:
    await side.wait_durable(side.write())

    side.commit.wrote(side.commit.durable)
    side.commit.close()

    assert side.commit.sync_count == 1


async def test_writes_during_a_sync_share_the_next_one(gated: tuple[Loop, GatedStore]) -> None:
    side, store = gated
    side.write()
    await asyncio.to_thread(store.is_syncing.wait, 30)
    last = [side.write() for _ in range(100)][-1]

    assert side.durable == []
    store.gate.set()
    await side.wait_durable(last)

    # The first sync was held until all had been written; the second covers what it left.
    assert side.commit.sync_count <= 2


async def test_closing_makes_the_last_writes_durable(store: Store) -> None:
    side = Loop(store)
    last = [side.write(b"%d" % number) for number in range(100)][-1]

    side.commit.close()
    side.commit.close()
    await side.wait_durable(last)

    assert side.commit.durable == last


async def test_closing_does_not_wait_for_ever(gated: tuple[Loop, GatedStore]) -> None:
    side, store = gated
    side.write()
    await asyncio.to_thread(store.is_syncing.wait, 30)

    with pytest.raises(StoreFailed, match=r"has not finished a sync within 0\.01 s"):
        side.commit.close(timeout_s=0.01)


async def test_closing_without_a_write_is_at_once(store: Store) -> None:
    side = Loop(store)

    side.commit.close()

    assert side.commit.sync_count == 0


async def test_a_failed_sync_is_reported_once_and_nothing_is_durable_after_it() -> None:
    store = MemoryStore()
    store.fail_next_sync(StoreFailed("fsync failed"))
    side = Loop(store)
    side.write()
    await side.wait_failed()

    side.commit.wrote(Ticket(99))
    side.commit.close()
    await asyncio.sleep(0)

    assert [str(error) for error in side.failures] == ["fsync failed"]
    assert side.durable == []
    assert side.commit.sync_count == 0


async def test_a_bug_in_the_flusher_is_reported() -> None:
    class Buggy(MemoryStore):
        def sync(self) -> Ticket:
            raise ZeroDivisionError

    side = Loop(Buggy())
    side.write()

    await side.wait_failed()

    assert isinstance(side.failures[0], ZeroDivisionError)
    side.commit.close()


def test_a_closed_loop_does_not_disturb_the_flusher() -> None:
    store = MemoryStore()

    async def leave_without_closing() -> Loop:
        return Loop(store)

    side = asyncio.run(leave_without_closing())
    ticket = side.write()
    side.commit.close()

    assert side.commit.durable == ticket
    store.close()
