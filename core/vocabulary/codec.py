"""Records and journal bodies as bytes.

A record is one byte, the version of its table's format, and then msgpack. Formats evolve by new
fields with defaults, at the end; what cannot be done so gets a new version and a decoder for the
old one here. A byte from the future is refused, never guessed at.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import RotaError
from rota.core.model.execution import Execution, Task
from rota.core.model.job import Job, JobPlan, JobSpec
from rota.core.model.ledger import LedgerEntry
from rota.core.vocabulary.changes import (
    Account,
    Available,
    Change,
    Checkpoint,
    Claimed,
    Dependent,
    Mark,
    Name,
    OutboxItem,
    Pointer,
    Record,
    Request,
    Table,
)
from rota.core.vocabulary.commands import Due

RECORD_VERSION = 1

TYPES: Mapping[Table, type[Record]] = {
    Table.JOB: Job,
    Table.NAME: Name,
    Table.VERSION: JobSpec,
    Table.PLAN: JobPlan,
    Table.EXECUTION: Execution,
    Table.TASK: Task,
    Table.REQUEST: Request,
    Table.OUTBOX: OutboxItem,
    Table.DEPENDENT: Dependent,
    Table.RECEIVED: Mark,
    Table.CHECKPOINT: Checkpoint,
    Table.AVAILABLE: Available,
    Table.CLAIM: Claimed,
    Table.PAST_EXECUTION: Execution,
    Table.PAST_TASK: Task,
    Table.LEDGER: LedgerEntry,
    Table.PAST: Pointer,
    Table.DOUBLE: Account,
}

RawChange = tuple[int, str, bytes | None]
"""Table, key and encoded record: what a backup sees of a change."""

_encoder = msgspec.msgpack.Encoder()
# Any: one decoder for each table, and their types differ; `decode_record` gives it back typed.
_decoders: Mapping[Table, "msgspec.msgpack.Decoder[Any]"] = {
    table: msgspec.msgpack.Decoder(kind) for table, kind in TYPES.items()
}
_body_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, ...], tuple[RawChange, ...]])
_due_decoder: "msgspec.msgpack.Decoder[Due]" = msgspec.msgpack.Decoder(Due)


class Undecodable(RotaError):
    """Stored bytes are not what this version of rota writes."""

    code = "undecodable"


def encode_record(record: Record) -> bytes:
    """Return *record* with its format version in front."""
    buffer = bytearray((RECORD_VERSION,))
    _encoder.encode_into(record, buffer, 1)
    return bytes(buffer)


def decode_record(table: Table, value: bytes) -> Record:
    """Return the record of *table* that *value* holds.

    Raises:
        Undecodable: Another version's format, or damage.
    """
    if not value or value[0] != RECORD_VERSION:
        found = value[0] if value else "nothing"
        raise Undecodable(
            f"a record of table {table.name} has format {found}; this rota reads format "
            f"{RECORD_VERSION}: use the version of rota that wrote it"
        )
    try:
        record: Record = _decoders[table].decode(memoryview(value)[1:])
    except UNDECODABLE as error:
        raise Undecodable(f"a record of table {table.name} is damaged: {error}") from error
    return record


def encode_change(change: Change) -> RawChange:
    """Return *change* with its record encoded."""
    table, key, record = change
    return int(table), key, None if record is None else encode_record(record)


def decode_change(raw: RawChange) -> Change:
    """Return the change that `encode_change` made *raw* of.

    Raises:
        Undecodable: Another version's format, or damage.
    """
    number, key, value = raw
    if number not in _decoders:
        raise Undecodable(
            f"there are no records of table {number} in this rota: use the version of rota that "
            "wrote them"
        )
    table = Table(number)
    return Change(table, key, None if value is None else decode_record(table, value))


def encode_body(causes: Iterable[str], changes: Iterable[RawChange]) -> bytes:
    """Return the body of a journal entry."""
    return _encoder.encode((tuple(causes), tuple(changes)))


def decode_body(body: bytes) -> tuple[tuple[str, ...], tuple[RawChange, ...]]:
    """Return the causes and the changes of a journal entry's body.

    Raises:
        Undecodable: Not such a body.
    """
    try:
        return _body_decoder.decode(body)
    except UNDECODABLE as error:
        raise Undecodable(f"the body of a journal entry is damaged: {error}") from error


def encode_due(command: Due) -> bytes:
    """Return a timer's command as bytes that are the same every time."""
    return _encoder.encode(command)


def decode_due(value: bytes) -> Due:
    """Return the command that `encode_due` made *value* of.

    Raises:
        Undecodable: Not such bytes.
    """
    try:
        return _due_decoder.decode(value)
    except UNDECODABLE as error:
        raise Undecodable(f"a timer's command is damaged: {error}") from error
