"""The stored form of records, journal bodies and timers.

A record is one byte, the version of the record format, followed by msgpack. Formats evolve by new
fields with defaults, at the end; any other change needs a new version and, here, a decoder for the
old one. A record of an unknown version is refused.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import RotaError
from rota.core.model.backfill import Backfill, BackfillTimes
from rota.core.model.execution import Execution, ExecutionEnd, Task
from rota.core.model.hook import Notification
from rota.core.model.job import Job, JobPlan, JobSpec
from rota.core.model.job_state import StateEntry
from rota.core.model.ledger import LedgerEntry
from rota.core.vocabulary.change_chain import ChangeChain, SealedChange
from rota.core.vocabulary.changes import (
    Available,
    Change,
    Checkpoint,
    Dependent,
    LastReceived,
    Name,
    OutboxItem,
    Pointer,
    PostedEvent,
    Record,
    RecordedDocument,
    RecordedReply,
    Retired,
    StandInExecution,
    StandInRun,
    Table,
)
from rota.core.vocabulary.commands import TimerCommand

T = TypeVar("T")

RECORD_VERSION = 1

TYPES: Mapping[Table, type[Record]] = {
    Table.JOB: Job,
    Table.NAME: Name,
    Table.VERSION: JobSpec,
    Table.PLAN: JobPlan,
    Table.EXECUTION: Execution,
    Table.TASK: Task,
    Table.REQUEST: RecordedReply,
    Table.OUTBOX: OutboxItem,
    Table.DEPENDENT: Dependent,
    Table.RECEIVED: LastReceived,
    Table.CHECKPOINT: Checkpoint,
    Table.AVAILABLE: Available,
    Table.STAND_IN: StandInRun,
    Table.NOTIFICATION: Notification,
    Table.PAST_EXECUTION: Execution,
    Table.PAST_TASK: Task,
    Table.LEDGER: LedgerEntry,
    Table.PAST: Pointer,
    Table.DUPLICATE: StandInExecution,
    Table.PAST_VERSION: JobSpec,
    Table.CHANGE_CHAIN: ChangeChain,
    Table.RECORDED_DOCUMENT: RecordedDocument,
    Table.SIGNED_HEAD: Retired,
    Table.EXPORTED: Retired,
    Table.USER_CHANGE: SealedChange,
    Table.BACKFILL: Backfill,
    Table.BACKFILL_TIMES: BackfillTimes,
    Table.EVENT: PostedEvent,
    Table.STATE: StateEntry,
}

RawChange = tuple[int, str, bytes | None]
"""A change as a backup stores it: table, key and encoded record."""

_encoder = msgspec.msgpack.Encoder()
# Any: one decoder for each table, and their types differ; `decode_record` returns a typed record.
_decoders: Mapping[Table, "msgspec.msgpack.Decoder[Any]"] = {
    table: msgspec.msgpack.Decoder(kind) for table, kind in TYPES.items()
}
_end_decoder: "msgspec.msgpack.Decoder[ExecutionEnd]" = msgspec.msgpack.Decoder(ExecutionEnd)
_body_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, ...], tuple[RawChange, ...]])
_due_decoder: "msgspec.msgpack.Decoder[TimerCommand]" = msgspec.msgpack.Decoder(TimerCommand)


class Undecodable(RotaError):
    """Stored bytes are damaged, or in the format of another version of rota."""

    code = "undecodable"


def encode_record(record: Record) -> bytes:
    """Return *record* encoded, with the format version as the first byte."""
    buffer = bytearray((RECORD_VERSION,))
    _encoder.encode_into(record, buffer, 1)
    return bytes(buffer)


def decode_record(table: Table, value: bytes) -> Record:
    """Return the record of *table* decoded from *value*.

    Raises:
        Undecodable: *value* is of another format version, or damaged.
    """
    record: Record = _decoded(_decoders[table], table, value)
    return record


def decode_end(value: bytes) -> ExecutionEnd:
    """Return the first fields of a finished execution, decoded from its record.

    Raises:
        Undecodable: *value* is of another format version, or damaged in these fields.
    """
    return _decoded(_end_decoder, Table.PAST_EXECUTION, value)


def _decoded(decoder: "msgspec.msgpack.Decoder[T]", table: Table, value: bytes) -> T:
    if not value or value[0] != RECORD_VERSION:
        found = f"has format {value[0]}" if value else "is empty"
        raise Undecodable(
            f"a record of table {table.name} {found}; this version of rota reads format "
            f"{RECORD_VERSION}: use the version of rota that wrote the record"
        )
    try:
        return decoder.decode(memoryview(value)[1:])
    except UNDECODABLE as error:
        raise Undecodable(f"a record of table {table.name} is damaged: {error}") from error


def encode_change(change: Change) -> RawChange:
    """Return *change* with its record encoded."""
    table, key, record = change
    return int(table), key, None if record is None else encode_record(record)


def decode_change(raw: RawChange) -> Change:
    """Return the change decoded from *raw*, the result of `encode_change`.

    Raises:
        Undecodable: *raw* is of another format version, or damaged.
    """
    number, key, value = raw
    if number not in _decoders:
        raise Undecodable(
            f"this version of rota has no table {number}; use the version of rota that wrote the "
            "record"
        )
    table = Table(number)
    return Change(table, key, None if value is None else decode_record(table, value))


def encode_body(causes: Iterable[str], changes: Iterable[RawChange]) -> bytes:
    """Return the body of a journal entry."""
    return _encoder.encode((tuple(causes), tuple(changes)))


def decode_body(body: bytes) -> tuple[tuple[str, ...], tuple[RawChange, ...]]:
    """Return the causes and the changes of a journal entry's body.

    Raises:
        Undecodable: *body* is damaged.
    """
    try:
        return _body_decoder.decode(body)
    except UNDECODABLE as error:
        raise Undecodable(f"the body of a journal entry is damaged: {error}") from error


def encode_timer_command(command: TimerCommand) -> bytes:
    """Return the encoded command of a timer; equal commands have equal bytes."""
    return _encoder.encode(command)


def decode_timer_command(value: bytes) -> TimerCommand:
    """Return the command decoded from *value*, the result of `encode_timer_command`.

    Raises:
        Undecodable: *value* is damaged.
    """
    try:
        return _due_decoder.decode(value)
    except UNDECODABLE as error:
        raise Undecodable(f"a timer's command is damaged: {error}") from error
