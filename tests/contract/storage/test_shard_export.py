"""Export of the shards in a stopped node's data directory, as lines of JSON."""

import io
import json
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.model.author import Author
from rota.core.model.execution import (
    Execution,
    ExecutionStatus,
    LoopState,
    Origin,
    Task,
    TaskStatus,
    task_key,
)
from rota.core.model.ids import Epoch, ExecutionId, JobId, ShardId
from rota.core.model.job import Job, JobSpec, TaskSpec
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import FireOutcome, LedgerEntry, ledger_key
from rota.core.model.work import Work
from rota.core.replication.local_copy import LocalCopy
from rota.core.timing.instants import Instant
from rota.core.vocabulary.changes import Change, PostedEvent, Table
from rota.core.vocabulary.codec import RawChange, encode_body, encode_change
from rota.core.vocabulary.journal import EntryKind
from rota.node.shard_export import EX_IOERR, NoDataDirectory, command, export
from rota.storage.directory import DataDirectory
from rota.storage.rocks import RocksStore
from rota.storage.shards import ShardFile, shard_prefix
from rota.storage.store import Family, StoreLocked

Json = Any  # Any: exported lines; each test reads the fields that it checks.

SHARD, OTHER = ShardId(3), ShardId(5)
NOON = Instant(1_800_000_000_000_000)


@contextmanager
def directory_at(path: Path) -> Generator[DataDirectory]:
    with DataDirectory.open(path, store_id="store", shard_count=8, cluster="cluster") as directory:
        yield directory


def write(path: Path, shard: ShardId, *changes: Change, is_applied: bool = True) -> None:
    """Append an entry to a shard of a data directory, and apply it unless a crash comes first."""
    with directory_at(path) as directory, closing(RocksStore(directory.store_path)) as store:
        file = ShardFile(store, shard)
        copy = LocalCopy(file.stored(), file)
        copy.promise(Epoch(1))
        raw: tuple[RawChange, ...] = tuple(map(encode_change, changes))
        copy.append(encode_body(["test"], raw), Instant(NOON + copy.tip.at), EntryKind.CHANGES)
        batch = store.batch()
        file.write(batch, copy.take_writes())
        if is_applied:
            file.apply(batch, copy.tip.index, raw)
        store.write(batch)
        store.sync()


def saved(name: str, version: int = 1) -> Change:
    tasks = (TaskSpec(name="main", work=Work(argv=("true",))),)
    spec = JobSpec(name=name, tasks=tasks)
    job = Job(id=job_id(name), version=version, spec=spec, created_at=NOON, updated_at=NOON)
    return Change(Table.JOB, job.id, job)


def job_id(name: str) -> JobId:
    return JobId(f"{name:0>16}")


def exported(path: Path, *shards: ShardId) -> list[Json]:
    stream = io.BytesIO()
    count = export(path, stream, shards)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == count
    return lines


def jobs(lines: list[Json]) -> dict[str, int]:
    return {each["definition"]["name"]: each["version"] for each in lines if each["kind"] == "job"}


def test_entries_that_are_not_applied_yet_are_exported_too(tmp_path: Path) -> None:
    write(tmp_path, SHARD, saved("kept"), saved("replaced"), saved("deleted"))
    deletion = Change(Table.JOB, job_id("deleted"), None)
    write(tmp_path, SHARD, saved("replaced", 2), deletion, saved("fresh"), is_applied=False)

    lines = exported(tmp_path)

    assert jobs(lines) == {"kept": 1, "replaced": 2, "fresh": 1}
    [copy] = [each for each in lines if each["kind"] == "copy"]
    assert (copy["shard"], copy["lastEpoch"], copy["lastIndex"]) == (SHARD, 1, 2)


def test_the_shards_that_are_named_are_exported_with_their_ledger(tmp_path: Path) -> None:
    entry = LedgerEntry(
        job_id=job_id("job"),
        schedule=0,
        fire_at=NOON,
        until=NOON,
        count=1,
        outcome=FireOutcome.MISSED,
        recorded_at=NOON,
        reason="the disk was full",
    )
    key = ledger_key(entry.job_id, NOON, 0)
    write(tmp_path, SHARD, saved("job"), Change(Table.LEDGER, key, entry))
    write(tmp_path, OTHER, saved("other"))

    lines = exported(tmp_path, SHARD)

    assert {each["shard"] for each in lines} == {SHARD}
    [ledger] = [each["entry"] for each in lines if each["kind"] == "ledger"]
    assert (ledger["outcome"], ledger["reason"]) == ("missed", "the disk was full")
    assert jobs(exported(tmp_path)) == {"job": 1, "other": 1}


def test_results_items_and_parameters_are_exported_as_they_are(tmp_path: Path) -> None:
    past = Execution(
        id=ExecutionId(f"{job_id('a')}-06643d3aa5f000-0000"),
        job_id=job_id("a"),
        job_name="default/a",
        job_version=1,
        status=ExecutionStatus.SUCCESS,
        origin=Origin.MANUAL,
        fire_at=NOON,
        queued_at=NOON,
        open_count=0,
        finished_at=NOON,
        parameters='{"n":1}',
    )
    done = Task(name="each", status=TaskStatus.SUCCESS, result=b"[5]")
    each = replace(done, loop=LoopState(most=1, begun=1))
    step = replace(done, name="each[0]", index=0, item='{"a":1}')
    tasks = [Change(Table.PAST_TASK, task_key(past.id, one.name), one) for one in (each, step)]
    write(tmp_path / "data", SHARD, Change(Table.PAST_EXECUTION, past.id, past), *tasks)

    (line,) = [one for one in exported(tmp_path / "data") if one["kind"] == "execution"]

    found = line["execution"]["tasks"]["each[0]"]
    assert (found["result"], found["item"]) == ([5], {"a": 1})


def test_values_of_jobs_and_posted_events_are_exported(tmp_path: Path) -> None:
    value = StateEntry(
        job_id=job_id("a"), key="cursor", value=b'{"day":1}', revision=2, changed_at=NOON
    )
    posted = PostedEvent(name="paid", at=NOON, data=b"[5]", author=Author(principal="alice"))
    awaited = PostedEvent(name="sent", waiting=("wait",))
    execution = f"{job_id('a')}-06643d3aa5f000-0000"
    write(
        tmp_path,
        SHARD,
        Change(Table.STATE, f"{value.job_id}/{value.key}", value),
        *(Change(Table.EVENT, f"{execution}/{each.name}", each) for each in (posted, awaited)),
    )

    lines = {each["kind"]: each for each in exported(tmp_path)}

    state, event = lines["state"]["entry"], lines["event"]["event"]
    assert (state["key"], state["value"], state["revision"]) == ("cursor", {"day": 1}, 2)
    assert lines["state"]["jobId"] == value.job_id
    assert (event["name"], event["data"], event["by"]["principal"]) == ("paid", [5], "alice")
    assert lines["event"]["executionId"] == execution


def test_a_directory_that_a_node_uses_is_not_exported(tmp_path: Path) -> None:
    with directory_at(tmp_path), pytest.raises(StoreLocked):
        export(tmp_path, io.BytesIO(), ())


def test_a_folder_that_is_no_data_directory_is_not_exported_and_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(NoDataDirectory):
        export(tmp_path, io.BytesIO(), ())

    assert [*tmp_path.iterdir()] == []


def run_command(folder: Path, output: Path) -> int:
    arguments = ["--data-dir", str(folder), "--output", str(output)]
    status = command.main(arguments, standalone_mode=False)
    assert isinstance(status, int)
    return status


def test_an_export_that_fails_at_once_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "lines"
    (tmp_path / "no-data").mkdir()

    assert run_command(tmp_path / "no-data", output) == EX_IOERR

    assert not output.exists()
    assert "nothing was written" in capsys.readouterr().err


def test_an_export_leaves_a_file_that_is_there_as_it_is(tmp_path: Path) -> None:
    output = tmp_path / "lines"
    output.touch()
    write(tmp_path / "data", SHARD, saved("job"))

    assert run_command(tmp_path / "data", output) == EX_IOERR

    assert output.read_bytes() == b""


def test_an_export_that_fails_later_leaves_what_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "lines"
    write(tmp_path / "data", SHARD, saved("job"))
    with (
        directory_at(tmp_path / "data") as directory,
        closing(RocksStore(directory.store_path)) as store,
    ):
        batch = store.batch()
        batch.put(Family.STATE, shard_prefix(SHARD) + bytes((Table.JOB,)) + b"z", b"damage")
        store.write(batch)
        store.sync()

    assert run_command(tmp_path / "data", output) == EX_IOERR

    assert jobs([json.loads(line) for line in output.read_bytes().splitlines()]) == {"job": 1}
    assert "has the lines that could be read" in capsys.readouterr().err
