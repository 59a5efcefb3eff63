"""Export of the shards in a data directory as lines of JSON: ``python -m rota.node.shard_export``.

The node must be stopped; the export locks the directory, and changes nothing in the shards. Every
line has the fields ``shard`` and ``kind``:

    copy       the copy itself: its last entry, and the newest configuration that the node has seen
    job        a job, with its definition in the form of `rota jobs apply`
    execution  an execution, finished or not, with its tasks
    ledger     the outcome of a fire time
    state      a value that the executions of a job share
    event      an event that was posted to an execution, which is not finished

A journal may have acknowledged entries that are not applied to the rows yet. The export includes
their changes, and may include changes that were never acknowledged.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, TypeVar

import click
import msgspec

from rota.core.errors import RotaError
from rota.core.model.execution import Execution, Task, in_place
from rota.core.model.ids import JobId, ShardId
from rota.core.model.job import Job
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import LedgerEntry
from rota.core.timing.instants import format_instant
from rota.core.vocabulary.changes import PostedEvent, Record, Table
from rota.core.vocabulary.codec import decode_body, decode_record
from rota.core.vocabulary.journal import decode_entry
from rota.node.api.documents.change_views import author_view
from rota.node.api.documents.job_definitions import definition_of
from rota.node.api.documents.record_views import execution_view, ledger_entry_view, state_view
from rota.storage.directory import DataDirectory, identity_in
from rota.storage.rocks import RocksStore
from rota.storage.shards import ShardFile, shard_prefix, stored_shards
from rota.storage.store import Family, Store
from rota.wire.documents import Json

R = TypeVar("R", bound=Record)

EX_IOERR = 74
SIDES_FROM = 1 << 15
"""Shards with this number or a higher one are fallback shards."""


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), required=True)
@click.argument("numbers", metavar="[SHARD]...", nargs=-1, type=click.IntRange(min=0))
def command(data_dir: Path, output: Path, numbers: tuple[int, ...]) -> int:
    """Export shards of a stopped node's data directory; all of them if none is named."""
    try:
        with output.open("xb") as stream:
            count = export(data_dir, stream, [ShardId(each) for each in numbers])
    except FileExistsError:
        return _give_up(f"{output} exists; choose another file")
    except (RotaError, OSError) as error:
        return _give_up(f"{error}; {_left_of(output)}")
    click.echo(f"wrote {count} lines to {output}", err=True)
    return 0


def export(data_dir: Path, stream: BinaryIO, shards: Sequence[ShardId]) -> int:
    """Export the shards of a data directory, and return the number of lines.

    Args:
        data_dir: The data directory of a stopped node.
        stream: Receives the lines.
        shards: The shards to export; empty for all.

    Raises:
        StoreError: The directory is in use, is not a data directory, or is damaged; the lines
            written so far are valid.
        OSError: *stream* cannot be written.
    """
    identity = identity_in(data_dir)
    if identity is None:
        raise NoDataDirectory(f"{data_dir} is not a data directory of rota: it has no FORMAT file")
    with (
        DataDirectory.open(
            data_dir,
            store_id=identity.store_id,
            shard_count=identity.shard_count,
            cluster=identity.cluster,
        ) as directory,
        closing(RocksStore(directory.store_path)) as store,
    ):
        count = 0
        stored = (each for each in stored_shards(store, ShardId(0)) if each < SIDES_FROM)
        for shard in shards or stored:
            for line in lines_of(store, shard):
                stream.write(msgspec.json.encode({"shard": shard, **line}) + b"\n")
                count += 1
    return count


class NoDataDirectory(RotaError):
    """The given directory is not a data directory."""

    code = "no_data_directory"


def lines_of(store: Store, shard: ShardId) -> Iterator[dict[str, Json]]:
    """Yield the lines of a shard in *store*, without the number of the shard.

    Raises:
        StoreDamaged: The store cannot be read; the lines so far are valid.
    """
    rows = _Rows(store, shard)
    yield rows.copy()
    names: dict[JobId, str] = {}
    for _, job in rows.of(Table.JOB, Job):
        names[job.id] = job.spec.full_name
        yield {
            "kind": "job",
            "jobId": job.id,
            "version": job.version,
            "isPaused": job.pause is not None,
            "definition": msgspec.to_builtins(definition_of(job.spec)),
        }
    for executions, tasks in (
        (Table.EXECUTION, Table.TASK),
        (Table.PAST_EXECUTION, Table.PAST_TASK),
    ):
        for key, execution in rows.of(executions, Execution):
            its = in_place(task for _, task in rows.of(tasks, Task, f"{key}/"))
            # Results are JSON already, which `to_builtins` would refuse.
            yield {"kind": "execution", "execution": execution_view(execution, its)}
    for _, entry in rows.of(Table.LEDGER, LedgerEntry):
        view = ledger_entry_view(entry, entry.job_id, names.get(entry.job_id))
        yield {"kind": "ledger", "entry": msgspec.to_builtins(view)}
    for _, value in rows.of(Table.STATE, StateEntry):
        # The value is JSON already, which `to_builtins` would refuse.
        yield {"kind": "state", "jobId": value.job_id, "entry": state_view(value)}
    for key, event in rows.of(Table.EVENT, PostedEvent):
        if event.at:
            yield {"kind": "event", "executionId": key.partition("/")[0], "event": _shown(event)}


def _shown(event: PostedEvent) -> dict[str, object]:
    author = event.author
    return {
        "name": event.name,
        "at": format_instant(event.at),
        "data": msgspec.Raw(event.data or b"null"),
        "by": author_view(author, has_address=False) if author else None,
    }


class _Rows:
    """The rows of a shard, including the changes of entries that are not applied yet."""

    def __init__(self, store: Store, shard: ShardId) -> None:
        self._store = store
        self._shard = shard
        self._file = ShardFile(store, shard)
        self._fresh: dict[int, dict[str, bytes | None]] = {}
        for index, value in self._file.journal():
            if index > self._file.applied:
                for table, key, row in decode_body(decode_entry(value).body)[1]:
                    self._fresh.setdefault(table, {})[key] = row

    def copy(self) -> dict[str, Json]:
        """Return the line of the copy."""
        stored = self._file.stored()
        return {
            "kind": "copy",
            "allocation": stored.allocation,
            "promised": stored.epoch,
            "seen": msgspec.to_builtins(stored.seen),
            "lastEpoch": stored.tip.epoch,
            "lastIndex": stored.tip.index,
            "lastAt": format_instant(stored.tip.at) if stored.tip.index else None,
        }

    def of(self, table: Table, kind: type[R], prefix: str = "") -> Iterator[tuple[str, R]]:
        """Yield the keys of a table that begin with *prefix*, with their records."""
        fresh = dict(self._fresh.get(table, {}))
        family = Family.STATE if table < Table.HISTORY else Family.HIST
        below = shard_prefix(self._shard) + bytes((table,))
        start = below + prefix.encode()
        for full_key, stored in self._store.scan(family, start, start + b"\xff"):
            key = full_key[len(below) :].decode()
            value = fresh.pop(key, stored)
            if value is not None:
                yield key, _record(table, value, kind)
        for key, row in fresh.items():
            if row is not None and key.startswith(prefix):
                yield key, _record(table, row, kind)


def _record(table: Table, value: bytes, kind: type[R]) -> R:
    record = decode_record(table, value)
    assert isinstance(record, kind), (table, type(record))
    return record


def _left_of(output: Path) -> str:
    """Return a description of the output of a failed export; an empty file is removed."""
    if not output.exists() or output.stat().st_size:
        return f"{output} has the lines that could be read"
    output.unlink()
    return "nothing was written"


def _give_up(reason: str) -> int:
    click.echo(f"error: {reason}", err=True)
    return EX_IOERR


if __name__ == "__main__":
    sys.exit(command.main(standalone_mode=False))
