"""Storing of millions of finished executions directly in the store of a stopped node.

Running ten million executions takes most of an hour. The rows stored here have the same form, in
the same tables, as those of real executions: each is a copy of an execution that really ran, moved
to an earlier time.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from rota.core.model.execution import Execution, Task, task_key
from rota.core.model.ids import ExecutionId, JobId, ShardId, instant_of, job_of
from rota.core.replication.local_copy import PutRows
from rota.core.timing.instants import MILLISECOND, Duration, Instant
from rota.core.vocabulary.changes import Pointer, Record, Table, past_key
from rota.core.vocabulary.codec import decode_record, encode_record
from rota.storage.history import History
from rota.storage.rocks import RocksStore
from rota.storage.shards import ShardFile
from rota.storage.store import Batch, Family, Store, StoreStalled

APART = 100 * MILLISECOND
"""The time between the executions of a job: ten million of fifty jobs cover about six hours."""
BATCH = 1_000
STALL_S = 0.05
STALLS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class _Model:
    """An execution that ran, its tasks, and the shard that they are in."""

    file: ShardFile
    execution: Execution
    tasks: tuple[Task, ...]


def preload(folder: Path, jobs: Collection[str], numbers: range) -> None:
    """Store finished executions in a node's data directory.

    Args:
        folder: The data directory of a node that does not run.
        jobs: The full names of the jobs; each has at least one finished execution.
        numbers: The numbers of the executions to store; the same number always gives the same
            execution.

    Raises:
        StoreLocked: The node runs.
        StoreStalled: The disk has been too slow for minutes.
    """
    store = RocksStore(folder / "db")
    try:
        models = list(_models(store, jobs))
        assert len(models) == len(jobs), (
            f"{len(models)} of {len(jobs)} jobs have a finished execution"
        )
        copies = _copies(models, numbers)
        while some := list(islice(copies, BATCH)):
            batch = store.batch()
            for file, rows in some:
                file.write(batch, (rows,))
            _write(store, batch)
    finally:
        store.close()


def _models(store: Store, jobs: Collection[str]) -> Iterator[_Model]:
    """Yield the newest execution of each job: those that were stored here before are older."""
    newest: dict[JobId, tuple[ShardId, Execution]] = {}
    for key, value in store.scan(Family.HIST, b"", b"\xff\xff"):
        if key[2] == Table.PAST_EXECUTION:
            record = decode_record(Table.PAST_EXECUTION, value)
            assert isinstance(record, Execution)
            if record.job_name in jobs:
                newest[record.job_id] = (ShardId(int.from_bytes(key[:2], "big")), record)
    history = History(store, range(0))
    for shard, execution in newest.values():
        tasks = tuple(history.tasks(shard, execution.id).values())
        yield _Model(ShardFile(store, shard), execution, tasks)


def _copies(models: Sequence[_Model], numbers: range) -> Iterator[tuple[ShardFile, PutRows]]:
    for number in numbers:
        earlier, place = divmod(number, len(models))
        yield models[place].file, _copy(models[place], Duration((earlier + 1) * APART))


def _copy(model: _Model, earlier: Duration) -> PutRows:
    """Return the rows of a copy of the model, moved by *earlier*; its tasks keep their times."""
    old = model.execution
    begun = Instant(instant_of(old.id) - earlier)
    id_ = ExecutionId(f"{job_of(old.id)}-{begun:014x}{old.id[31:]}")
    new = replace(
        old,
        id=id_,
        fire_at=Instant(old.fire_at - earlier),
        queued_at=Instant(old.queued_at - earlier),
        started_at=Instant(old.started_at - earlier),
        finished_at=Instant(old.finished_at - earlier),
    )
    pointer = Pointer(Table.PAST_EXECUTION, id_)
    return PutRows(
        (
            _row(Table.PAST_EXECUTION, id_, new),
            *(_row(Table.PAST_TASK, task_key(id_, task.name), task) for task in model.tasks),
            _row(Table.PAST, past_key(begun, pointer), pointer),
        )
    )


def _row(table: Table, key: str, record: Record) -> tuple[bytes, bytes]:
    return bytes((table,)) + key.encode(), encode_record(record)


def _write(store: Store, batch: Batch) -> None:
    for _ in range(STALLS_MAX):
        try:
            store.write(batch)
        except StoreStalled:
            time.sleep(STALL_S)  # The store merges tables; a node would have to wait, too.
        else:
            return
    store.write(batch)
