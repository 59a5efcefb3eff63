"""RocksDB and the store in memory agree on every sequence of operations."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from rota.storage.memory import MemoryStore
from rota.storage.rocks import RocksStore
from rota.storage.store import Batch, Family

# Few characters and short keys, so that keys collide and ranges meet keys.
KEYS = st.text("\x00a\xff", max_size=3).map(lambda text: text.encode("latin-1"))
FAMILIES = st.sampled_from([Family.JOURNAL, Family.META])


class TwoStores(RuleBasedStateMachine):
    """Does the same to both and compares what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rota-store-"))
        self.memory = MemoryStore()
        self.rocks = RocksStore(self.folder, cache_bytes=1 << 20)
        self.batches: tuple[Batch, Batch] | None = None

    @rule(family=FAMILIES, key=KEYS, value=st.binary(max_size=4))
    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Add to the batch of each."""
        for batch in self._batches():
            batch.put(family, key, value)

    @rule(family=FAMILIES, key=KEYS)
    def delete(self, family: Family, key: bytes) -> None:
        """Add to the batch of each."""
        for batch in self._batches():
            batch.delete(family, key)

    @rule(family=FAMILIES, bounds=st.tuples(KEYS, KEYS))
    def delete_range(self, family: Family, bounds: tuple[bytes, bytes]) -> None:
        """Add to the batch of each."""
        for batch in self._batches():
            batch.delete_range(family, min(bounds), max(bounds))

    @rule()
    def write(self) -> None:
        """Write the batches."""
        memory, rocks = self._batches()
        self.batches = None
        self.memory.write(memory)
        self.rocks.write(rocks)

    @rule(family=FAMILIES, key=KEYS)
    def get(self, family: Family, key: bytes) -> None:
        """Compare one value."""
        assert self.rocks.get(family, key) == self.memory.get(family, key)

    @rule(
        family=FAMILIES,
        start=KEYS,
        end=KEYS,
        reverse=st.booleans(),
        limit=st.none() | st.integers(0, 4),
    )
    def scan(
        self, family: Family, start: bytes, end: bytes, reverse: bool, limit: int | None
    ) -> None:
        """Compare one scan."""
        memory, rocks = (
            list(store.scan(family, start, end, reverse=reverse, limit=limit))
            for store in (self.memory, self.rocks)
        )
        assert rocks == memory

    @precondition(lambda self: self.batches is None)
    @rule()
    def close_and_open(self) -> None:
        """Open both stores again with their durable data."""
        self.memory.close()
        written = self.rocks.sync()
        self.rocks.close()
        self.memory = self.memory.crash()
        self.rocks = RocksStore(self.folder, cache_bytes=1 << 20)
        # Recovery is judged by it, so it has to come back exactly.
        assert self.rocks.write(self.rocks.batch()) == written

    @rule()
    def sync(self) -> None:
        """A sync covers the last ticket."""
        for store in (self.memory, self.rocks):
            assert store.sync() == store.write(store.batch())

    def teardown(self) -> None:
        """Remove the files."""
        self.batches = None
        self.rocks.close()
        shutil.rmtree(self.folder)

    def _batches(self) -> tuple[Batch, Batch]:
        if self.batches is None:
            self.batches = (self.memory.batch(), self.rocks.batch())
        return self.batches


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
