"""A simulated disk: its syncs and its damage.

There is one sync at a time; the next one covers what is written meanwhile. The order of events is
that of `rota.storage.group_commit`, without its thread.
"""

import asyncio
from collections.abc import Callable
from random import Random

from rota.core.model.ids import ShardId
from rota.core.timing.instants import SECOND
from rota.node.shards.interfaces import Durable
from rota.storage.memory import MemoryStore
from rota.storage.shards import ShardFile, shard_prefix
from rota.storage.store import Family, StoreError, Ticket


class SimulatedCommit:
    """The group commit of one life of a node.

    Args:
        store: The store that is synced.
        shards: Gets a call when writes are durable.
        sync_time: Draws how long a sync takes, in microseconds.
    """

    def __init__(self, store: MemoryStore, shards: Durable, sync_time: Callable[[], int]) -> None:
        self.sync_count = 0
        self._store = store
        self._shards = shards
        self._sync_time = sync_time
        self._written = self._durable = Ticket(0)
        self._sync: asyncio.TimerHandle | None = None

    def wrote(self, ticket: Ticket) -> None:
        """Make *ticket* durable soon."""
        self._written = ticket
        if self._sync is None:
            self._begin()

    def close(self) -> None:
        """Do the last sync at once."""
        if self._sync is not None:
            self._sync.cancel()
        if self._written > self._durable:
            self._finish(self._written)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._sync = loop.call_later(self._sync_time() / SECOND, self._end, self._written)

    def _end(self, ticket: Ticket) -> None:
        self._sync = None
        self._finish(ticket)
        if self._written > self._durable:
            self._begin()

    def _finish(self, ticket: Ticket) -> None:
        try:
            self._store.sync()
        except StoreError as error:
            self._written = self._durable
            self._shards.sync_failed(error)
            return
        self._durable = ticket
        self.sync_count += 1
        self._shards.made_durable(ticket)


def damage(store: MemoryStore, shard: ShardId, chance: Random) -> bool:
    """Flip a bit of a journal, or tear off entries whose rows are there; False if it has none.

    Damage elsewhere is detected by the database's own checksums (`tests/contract`).
    """
    file = ShardFile(store, shard)
    journal = list(file.journal())
    if not journal or file.applied <= file.before_first.index:
        return False
    batch = store.batch()
    start = shard_prefix(shard)
    if chance.random() < 0.5:
        index, value = chance.choice(journal)
        place = chance.randrange(len(value))
        flipped = value[place] ^ 1 << chance.randrange(8)
        value = value[:place] + bytes((flipped,)) + value[place + 1 :]
        batch.put(Family.JOURNAL, start + index.to_bytes(8, "big"), value)
    else:
        first = chance.randrange(file.before_first.index + 1, file.applied + 1)
        end = shard_prefix(ShardId(shard + 1))
        batch.delete_range(Family.JOURNAL, start + first.to_bytes(8, "big"), end)
    store.write(batch)
    store.sync()
    return True
