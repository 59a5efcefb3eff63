"""The history of shards: finished executions and ledger entries; scheduling never reads it.

Pages are read newest or oldest first from a key, so that page n costs no more than page 1. A row
whose record cannot be decoded is part of the page, with its key, and is deleted by age like any
other.
"""

import heapq
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from rota.core.model.execution import Execution, ExecutionEnd, Task, in_place
from rota.core.model.ids import (
    ExecutionId,
    JobId,
    ShardId,
    fire_execution_id,
    instant_of,
    job_of,
)
from rota.core.model.job import JobSpec
from rota.core.model.ledger import LedgerEntry
from rota.core.state.shard_state import version_key
from rota.core.timing.instants import LATEST_INSTANT, Instant
from rota.core.vocabulary.changes import Pointer, Record, StandInExecution, Table
from rota.core.vocabulary.codec import Undecodable, decode_end, decode_record
from rota.core.vocabulary.commands import Past
from rota.storage.shards import shard_prefix
from rota.storage.store import Family, Store
from rota.storage.user_changes import UserChanges

LOOKED_AT = 4
"""The number of records that are examined for each one that may be deleted."""


@dataclass(frozen=True, slots=True)
class UnreadableExecution:
    """A finished execution whose record cannot be decoded.

    Attributes:
        id: The id of the execution, from the key of the record.
        why: The error in the record.
    """

    id: ExecutionId
    why: str

    @property
    def job_id(self) -> JobId:
        """Id of the job of this execution."""
        return job_of(self.id)


@dataclass(frozen=True, slots=True)
class KeptPosition:
    """The position in the index by age of an execution that was kept beyond its age.

    Attributes:
        id: The id of an execution of its job at the position's instant. There need not be such an
            execution: the id is for the order of a list and for cursors.
    """

    id: ExecutionId


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """A ledger entry whose record cannot be decoded.

    Attributes:
        schedule: The schedule's number in the job, from 0; from the key of the record.
        fire_at: The first fire time of the entry; from the key of the record.
        why: The error in the record.
    """

    schedule: int
    fire_at: Instant
    why: str


class UnfiredTimes(NamedTuple):
    """A ledger entry without an execution of its own, and its job."""

    job_id: JobId
    entry: LedgerEntry | UnreadableEntry


class History:
    """The history of all shards of a node.

    Args:
        store: The store with the history.
        shards: The numbers of the shards.

    Attributes:
        user_changes: The changes of users, which have a retention of their own.
    """

    def __init__(self, store: Store, shards: range) -> None:
        self._store = store
        self.user_changes = UserChanges(store)
        self._shards = shards

    def execution(self, shard: ShardId, execution_id: ExecutionId) -> Execution | None:
        """Return a finished execution.

        Raises:
            Undecodable: Its record cannot be read.
        """
        value = self._store.get(Family.HIST, _key(shard, Table.PAST_EXECUTION, execution_id))
        return None if value is None else _execution(execution_id, value)

    def tasks(self, shard: ShardId, execution_id: ExecutionId) -> dict[str, Task]:
        """Return the tasks of a finished execution, by name, in the order of their definition.

        Raises:
            Undecodable: The record of a task cannot be read.
        """
        start = _key(shard, Table.PAST_TASK, f"{execution_id}/")
        end = _key(shard, Table.PAST_TASK, f"{execution_id}0")
        tasks: list[Task] = []
        for key, value in self._store.scan(Family.HIST, start, end):
            task = _decoded(Table.PAST_TASK, key, value)
            assert isinstance(task, Task)
            tasks.append(task)
        return in_place(tasks)

    def duplicates(self, shard: ShardId, execution_id: ExecutionId) -> list[StandInExecution]:
        """Return the possible duplicates of an execution that stand-ins ran, by node.

        Raises:
            Undecodable: The record of a duplicate cannot be read.
        """
        start = _key(shard, Table.DUPLICATE, f"{execution_id}/")
        end = _key(shard, Table.DUPLICATE, f"{execution_id}0")
        duplicates: list[StandInExecution] = []
        for key, value in self._store.scan(Family.HIST, start, end):
            duplicate = _decoded(Table.DUPLICATE, key, value)
            assert isinstance(duplicate, StandInExecution)
            duplicates.append(duplicate)
        return duplicates

    def version(self, shard: ShardId, job_id: JobId, version: int) -> JobSpec | None:
        """Return a replaced definition of a job; None if it is not kept.

        Raises:
            Undecodable: Its record cannot be read.
        """
        key = _key(shard, Table.PAST_VERSION, version_key(job_id, version))
        value = self._store.get(Family.HIST, key)
        if value is None:
            return None
        record = _decoded(Table.PAST_VERSION, key, value)
        assert isinstance(record, JobSpec)
        return record

    def versions(self, shard: ShardId, job_id: JobId) -> list[int]:
        """Return the numbers of the replaced definitions of a job that are kept; at most 20 are."""
        start = _key(shard, Table.PAST_VERSION, f"{job_id}/")
        end = _key(shard, Table.PAST_VERSION, f"{job_id}0")
        rows = self._store.scan(Family.HIST, start, end)
        return sorted(int(key[len(start) :]) for key, _ in rows)

    def executions_of(
        self, shard: ShardId, job_id: JobId, before: ExecutionId | None
    ) -> Iterator[Execution | UnreadableExecution]:
        """Yield a job's finished executions, latest fire time first.

        Args:
            shard: The shard of the job.
            job_id: The job.
            before: The execution to begin before; None to begin with the latest one.
        """
        start, beyond = _key(shard, Table.PAST_EXECUTION, f"{job_id}-"), f"{job_id}."
        # A cursor with another job's id must not lead out of this job's range.
        end = _key(shard, Table.PAST_EXECUTION, min(before or beyond, beyond))
        for key, value in self._store.scan(Family.HIST, start, max(start, end), reverse=True):
            yield _shown(ExecutionId(key[3:].decode()), value)

    def ends_of(
        self, shard: ShardId, job_id: JobId, limit: int
    ) -> Iterator[ExecutionEnd | UnreadableExecution]:
        """Yield the ends of at most *limit* finished executions, latest fire time first."""
        start = _key(shard, Table.PAST_EXECUTION, f"{job_id}-")
        end = _key(shard, Table.PAST_EXECUTION, f"{job_id}.")
        for key, value in self._store.scan(Family.HIST, start, end, reverse=True, limit=limit):
            yield _end(ExecutionId(key[3:].decode()), value)

    def executions(
        self, before: str, among: Iterable[ShardId] | None = None
    ) -> Iterator[Execution | UnreadableExecution | KeptPosition]:
        """Yield the finished executions of all shards, latest fire time first.

        Executions that were kept beyond their age are left out: the index has them at the instant
        of that decision. Their positions there are yielded, so that the caller can pause.

        Args:
            before: The key of `Table.PAST` to begin before: `NEWEST`, or see `past_before`.
            among: The shards to read; None for all.
        """
        shards = map(ShardId, self._shards) if among is None else among
        streams = (self._pasts_down(shard, before, Table.PAST_EXECUTION) for shard in shards)
        # The streams are each in descending order of their keys, which begin with the instant.
        for key, shard, pointer in heapq.merge(*streams, key=lambda past: past[0], reverse=True):
            execution_id, at = ExecutionId(pointer.key), _instant(key)
            if at != instant_of(execution_id):
                yield KeptPosition(fire_execution_id(job_of(execution_id), at, 0))
                continue
            value = self._store.get(Family.HIST, _key(shard, Table.PAST_EXECUTION, execution_id))
            if value is not None:
                yield _shown(execution_id, value)

    def ledger(
        self,
        shard: ShardId,
        job_id: JobId,
        since: Instant,
        until: Instant,
        *,
        newest_first: bool = False,
    ) -> Iterator[LedgerEntry | UnreadableEntry]:
        """Yield a job's ledger entries that begin in ``[since, until)``, in the order of time."""
        start = _key(shard, Table.LEDGER, f"{job_id}/{since:014x}")
        end = _key(shard, Table.LEDGER, f"{job_id}/{until:014x}")
        # A store need not accept a range that ends before it begins.
        rows = self._store.scan(Family.HIST, start, max(start, end), reverse=newest_first)
        for key, value in rows:
            yield _entry(key, value)

    def unfired(self, before: str, among: Iterable[ShardId]) -> Iterator["UnfiredTimes"]:
        """Yield the ledger entries that have no execution of their own, latest fire time first.

        Entries that a stand-in decided are included, whatever their outcome.

        Args:
            before: The key of `Table.PAST` to begin before, or `NEWEST`.
            among: The shards.
        """
        streams = (self._pasts_down(shard, before, Table.LEDGER) for shard in among)
        for _, shard, pointer in heapq.merge(*streams, key=lambda past: past[0], reverse=True):
            key = _key(shard, Table.LEDGER, pointer.key)
            value = self._store.get(Family.HIST, key)
            if value is not None:
                job_id = JobId(pointer.key.partition("/")[0])
                yield UnfiredTimes(job_id, _entry(key, value))

    def older_than(self, shard: ShardId, instant: Instant, limit: int) -> tuple[Past, ...]:
        """Return at most *limit* records of the history that ended before *instant*.

        The records with the oldest fire times come first. A record that was due long ago but ended
        only recently (a past ``@at``, a catch-up) is left out until its end is old enough.
        """
        start, end = _key(shard, Table.PAST, ""), _key(shard, Table.PAST, f"{instant:014x}")
        pasts: list[Past] = []
        for key, value in self._store.scan(Family.HIST, start, end, limit=LOOKED_AT * limit):
            pointer = _pointer(key, value)
            if self._ended_at(shard, pointer) >= instant:
                continue
            tasks: tuple[str, ...] = ()
            if pointer.table == Table.PAST_EXECUTION:
                tasks = self._task_names(shard, ExecutionId(pointer.key))
            pasts.append(Past(instant=_instant(key[3:]), pointer=pointer, tasks=tasks))
            if len(pasts) >= limit:
                break
        return tuple(pasts)

    def newest_of(self, shard: ShardId, job_id: JobId, count: int) -> set[ExecutionId]:
        """Return the ids of the *count* finished executions of a job with the latest fire times."""
        start = _key(shard, Table.PAST_EXECUTION, f"{job_id}-")
        end = _key(shard, Table.PAST_EXECUTION, f"{job_id}.")
        rows = self._store.scan(Family.HIST, start, end, reverse=True, limit=count)
        return {ExecutionId(key[3:].decode()) for key, _ in rows}

    def _task_names(self, shard: ShardId, execution_id: ExecutionId) -> tuple[str, ...]:
        """Return the names of an execution's tasks, including tasks that cannot be read."""
        start = _key(shard, Table.PAST_TASK, f"{execution_id}/")
        end = _key(shard, Table.PAST_TASK, f"{execution_id}0")
        return tuple(
            key[len(start) :].decode() for key, _ in self._store.scan(Family.HIST, start, end)
        )

    def _ended_at(self, shard: ShardId, pointer: Pointer) -> Instant:
        """Return when a record was added to the history.

        The result is 0 if the record no longer exists, has no such instant or cannot be read: its
        age is then that of its fire time alone.
        """
        table = Table(pointer.table)
        value = self._store.get(Family.HIST, _key(shard, table, pointer.key))
        record: Record | None = None
        if value is not None:
            with suppress(Undecodable):
                record = decode_record(table, value)
        match record:
            case Execution():
                return record.finished_at
            case LedgerEntry():
                return record.recorded_at
            case _:
                return Instant(0)

    def _pasts_down(
        self, shard: ShardId, before: str, table: Table
    ) -> Iterator[tuple[bytes, ShardId, Pointer]]:
        start, end = _key(shard, Table.PAST, ""), _key(shard, Table.PAST, before)
        for key, value in self._store.scan(Family.HIST, start, end, reverse=True):
            pointer = _pointer(key, value)
            if pointer.table == table:
                yield key[3:], shard, pointer


NEWEST = f"{LATEST_INSTANT:014x}"
"""A key of `Table.PAST` after all others."""


def past_before(execution_id: ExecutionId) -> str:
    """Return the key of `Table.PAST` of a finished execution, to continue before it."""
    return f"{execution_id[17:31]}/{Table.PAST_EXECUTION:02x}/{execution_id}"


def _key(shard: ShardId, table: Table, key: str) -> bytes:
    return shard_prefix(shard) + bytes((table,)) + key.encode()


def _instant(past_key: bytes) -> Instant:
    return Instant(int(past_key[:14], 16))


def _decoded(table: Table, key: bytes, value: bytes) -> Record:
    try:
        return decode_record(table, value)
    except Undecodable as error:
        raise Undecodable(f"{key[3:].decode()}: {error}") from error


def _execution(execution_id: ExecutionId, value: bytes) -> Execution:
    try:
        execution = decode_record(Table.PAST_EXECUTION, value)
    except Undecodable as error:
        raise Undecodable(f"{execution_id}: {error}") from error
    assert isinstance(execution, Execution)
    return execution


def _shown(execution_id: ExecutionId, value: bytes) -> Execution | UnreadableExecution:
    try:
        return _execution(execution_id, value)
    except Undecodable as error:
        return UnreadableExecution(execution_id, str(error))


def _end(execution_id: ExecutionId, value: bytes) -> ExecutionEnd | UnreadableExecution:
    try:
        return decode_end(value)
    except Undecodable as error:
        return UnreadableExecution(execution_id, str(error))


def _entry(key: bytes, value: bytes) -> LedgerEntry | UnreadableEntry:
    try:
        entry = decode_record(Table.LEDGER, value)
    except Undecodable as error:
        _, fire_at, schedule = key[3:].decode().split("/")
        return UnreadableEntry(int(schedule, 16), Instant(int(fire_at, 16)), str(error))
    assert isinstance(entry, LedgerEntry)
    return entry


def _pointer(key: bytes, value: bytes) -> Pointer:
    """Return the pointer in a row of the index; if it is unreadable, the pointer in the key."""
    try:
        pointer = decode_record(Table.PAST, value)
    except Undecodable:
        _, table, place = key[3:].decode().split("/", 2)
        return Pointer(int(table, 16), place)
    assert isinstance(pointer, Pointer)
    return pointer
