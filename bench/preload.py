"""Finished executions by the million, put into the store of a node that does not run.

Ten million that are really run take the better part of an hour. What is put here has the same rows
in the same tables with the same encoding: each is one that has really been run, at an earlier time.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from rota.core.changes import Pointer, Table, past_key
from rota.core.codec import RawChange, decode_record, encode_record
from rota.core.execution import Execution, task_key
from rota.core.ids import ExecutionId, JobId, ShardId, instant_of, job_of
from rota.core.instants import MILLISECOND, Duration, Instant
from rota.storage.rocks import RocksStore
from rota.storage.shards import shard_prefix
from rota.storage.store import Batch, Family, Store, StoreStalled

APART = 100 * MILLISECOND
"""Between the executions of a job: ten million of fifty jobs began within six hours."""
BATCH = 1_000
STALL_S = 0.05
STALLS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class _Model:
    """An execution that was run: its record, and those of its tasks by name."""

    shard: ShardId
    execution: Execution
    tasks: tuple[tuple[str, bytes], ...]


def preload(folder: Path, jobs: Collection[str], numbers: range) -> None:
    """Put finished executions into a node's data directory.

    Args:
        folder: That of a node that does not run.
        jobs: Full names of those whose executions they are; each has finished one or more.
        numbers: How many, and which: those of the same number are the same execution.

    Raises:
        StoreLocked: The node runs.
        StoreStalled: The disk does not keep up for minutes.
    """
    store = RocksStore(folder / "db")
    try:
        models = list(_models(store, jobs))
        assert len(models) == len(jobs), f"{len(models)} of {len(jobs)} jobs have finished one"
        copies = _copies(models, numbers)
        while some := list(islice(copies, BATCH)):
            batch = store.batch()
            for shard, raws in some:
                _put(batch, shard, raws)
            _write(store, batch)
    finally:
        store.close()


def _models(store: Store, jobs: Collection[str]) -> Iterator[_Model]:
    """Yield the newest execution of each job, for what was put before is older."""
    newest: dict[JobId, tuple[ShardId, Execution]] = {}
    for key, value in store.scan(Family.HIST, b"", b"\xff\xff"):
        if key[2] == Table.PAST_EXECUTION:
            record = decode_record(Table.PAST_EXECUTION, value)
            assert isinstance(record, Execution)
            if record.job_name in jobs:
                newest[record.job_id] = (ShardId(int.from_bytes(key[:2], "big")), record)
    for shard, execution in newest.values():
        prefix = shard_prefix(shard) + bytes((Table.PAST_TASK,)) + f"{execution.id}/".encode()
        rows = store.scan(Family.HIST, prefix, prefix + b"\xff")
        tasks = tuple((key[len(prefix) :].decode(), value) for key, value in rows)
        yield _Model(shard, execution, tasks)


def _copies(models: Sequence[_Model], numbers: range) -> Iterator[tuple[ShardId, list[RawChange]]]:
    for number in numbers:
        earlier, place = divmod(number, len(models))
        yield models[place].shard, _copy(models[place], Duration((earlier + 1) * APART))


def _copy(model: _Model, earlier: Duration) -> list[RawChange]:
    """Return the rows of an execution like the model, but *earlier*; its tasks keep their times."""
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
    return [
        (Table.PAST_EXECUTION, id_, encode_record(new)),
        *((Table.PAST_TASK, task_key(id_, name), value) for name, value in model.tasks),
        (Table.PAST, past_key(begun, pointer), encode_record(pointer)),
    ]


def _put(batch: Batch, shard: ShardId, raws: Sequence[RawChange]) -> None:
    for table, key, value in raws:
        assert value is not None
        batch.put(Family.HIST, shard_prefix(shard) + bytes((table,)) + key.encode(), value)


def _write(store: Store, batch: Batch) -> None:
    for _ in range(STALLS_MAX):
        try:
            store.write(batch)
        except StoreStalled:
            time.sleep(STALL_S)  # Tables are merged; a node would be told to wait likewise.
        else:
            return
    store.write(batch)
