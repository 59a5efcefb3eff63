"""The chain of changes of a shard: what users have changed, by whom, and in which order.

Every change that a user makes is a row of the history, written in the entry of the change itself.
The rows of a shard have consecutive numbers, and the hash of each covers the row and the hash
before it:

    hash(n) = SHA-256(hash(n - 1) + body(n))

The head of the chain is in the shard's state, so that a row that is changed, removed or inserted
later is found. Old rows expire; the chain then begins at the anchor, the hash of the last row that
expired.
"""

from enum import Enum
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from rota.core.decoding import UNDECODABLE
from rota.core.model.author import Author
from rota.core.model.checked_fields import CheckedInstant, Count
from rota.core.model.ids import ExecutionId, JobId
from rota.core.timing.instants import Instant

HASH_BYTES = 32
ORIGIN = bytes(HASH_BYTES)
"""The hash before the first change of a shard."""


class Action(Enum):
    """The kinds of changes."""

    JOB_CREATED = "job.created"
    JOB_REPLACED = "job.replaced"
    JOB_DELETED = "job.deleted"
    JOB_PAUSED = "job.paused"
    JOB_RESUMED = "job.resumed"
    EXECUTION_CANCELLED = "execution.cancelled"
    EXECUTION_RERUN = "execution.rerun"
    BACKFILL_STARTED = "backfill.started"
    BACKFILL_PAUSED = "backfill.paused"
    BACKFILL_RESUMED = "backfill.resumed"
    BACKFILL_CANCELLED = "backfill.cancelled"
    TASK_APPROVED = "task.approved"
    TASK_REJECTED = "task.rejected"
    DOCUMENT_CREATED = "document.created"
    DOCUMENT_REPLACED = "document.replaced"
    DOCUMENT_DELETED = "document.deleted"


class ChangedDocument(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A shared document in a change.

    Attributes:
        kind: Its kind, such as ``types``.
        name: Its name.
        made_at: When it was changed, by the clock of the node that changed it; its shard recorded
            the change later.
        fields: The fields that a replacement changed, never their values.
    """

    kind: str
    name: str
    made_at: CheckedInstant
    fields: tuple[str, ...] = ()


class UserChange(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A change that a user made.

    Attributes:
        number: Its number in its shard, from 1, without gaps.
        at: Shard time of the decision.
        author: The caller of the request; None if that is unknown.
        job: Full name of the job; empty, like its id, for a change of a shared document.
        execution_id: The execution that was cancelled, or that a rerun created; empty for a change
            of a job.
        before: The version of the job or document before the change; 0 if there was none.
        after: The version of the job or document after the change; 0 if there is none.
        detail: The reason of a pause; that a job resumed without a pause counts its schedules from
            now; the execution that a rerun runs again; the id of a backfill;
            the versions of a document that are missing before this change.
        document: The shared document that was changed; None for a job or an execution.
    """

    number: Count
    at: CheckedInstant
    action: Action
    author: Author | None
    job: str
    job_id: JobId
    execution_id: ExecutionId = ExecutionId("")
    before: Count = 0
    after: Count = 0
    detail: str = ""
    document: ChangedDocument | None = None


class SealedChange(msgspec.Struct, frozen=True, array_like=True):
    """The stored form of a change: its bytes, which are never encoded again, and its hash."""

    body: bytes
    hash: bytes


class ChangeChain(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The ends of a shard's chain of changes.

    Attributes:
        last: The number of the newest change; 0 if there was none.
        hash: The hash of the newest change.
        first: The number of the oldest change that is kept.
        anchor: The hash of the change before *first*; empty if that change could not be read when
            it expired.
    """

    last: Count = 0
    hash: bytes = ORIGIN
    first: Count = 1
    anchor: bytes = ORIGIN


NO_CHANGES = ChangeChain()
"""The chain of a shard in which no user has changed anything."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(UserChange)


def sealed(chain: ChangeChain, change: UserChange) -> tuple[SealedChange, ChangeChain]:
    """Return the stored form of the next change of *chain*, and the chain with it."""
    assert change.number == chain.last + 1, (change, chain)
    body = _encoder.encode(change)
    digest = _hash(chain.hash, body)
    return SealedChange(body, digest), replace(chain, last=change.number, hash=digest)


def opened(row: SealedChange) -> UserChange | None:
    """Return the change in *row*; None if it cannot be decoded."""
    try:
        return _decoder.decode(row.body)
    except UNDECODABLE:
        return None


def change_key(at: Instant, number: int) -> str:
    """Return the key of a change; the keys of a shard are in the order of their numbers."""
    return f"{at:014x}/{number:012x}"


def position_of(key: str) -> tuple[Instant, int]:
    """Return the instant and the number in *key*, the result of `change_key`."""
    at, _, number = key.partition("/")
    return Instant(int(at, 16)), int(number, 16)


class ChainCheck:
    """A check of the rows of a chain, which are added oldest first.

    Args:
        chain: The ends of the chain, from the state.

    Attributes:
        count: The number of intact rows so far.
        fault: The first fault that was found; empty if there is none.
        newest_at: The time of the newest intact row; None before the first.
    """

    def __init__(self, chain: ChangeChain) -> None:
        self._chain = chain
        self._before = chain.anchor
        self._next = chain.first
        self._newest = chain.last
        self.count = 0
        self.fault = ""
        self.newest_at: Instant | None = None

    def add(self, key: str, row: SealedChange | None) -> None:
        """Check the next row; None if it cannot be read."""
        at, number = position_of(key)
        if self.fault:
            return
        if number > self._chain.last:
            # It may have been written after the ends of the chain were read.
            self._newest = max(self._newest, number)
            return
        self.fault = self._fault_of(key, number, row)
        if row is not None and not self.fault:
            self._before, self._next = row.hash, number + 1
            self.count += 1
            self.newest_at = at

    def finish(self, last: int) -> None:
        """Check that no row is missing at the end, and that none has a number after *last*.

        Args:
            last: The number of the newest change after the rows were read.
        """
        chain = self._chain
        if self.fault:
            return
        if self._next <= chain.last:
            self.fault = f"{_changes(self._next, chain.last)} missing"
        elif self._before and self._before != chain.hash:
            self.fault = f"change {chain.last} is not the one that the shard's state names"
        elif self._newest > last:
            self.fault = f"change {self._newest} was inserted: the newest change is {last}"

    def _fault_of(self, key: str, number: int, row: SealedChange | None) -> str:
        if number < self._next:
            return f"a second change {number} was inserted before change {self._next}"
        if number > self._next:
            return f"{_changes(self._next, number - 1)} missing"
        change = None if row is None else opened(row)
        if row is None or change is None:
            return f"change {number} cannot be read"
        if self._before and row.hash != _hash(self._before, row.body):
            return f"change {number} does not follow the one before it: one of both was changed"
        if key != change_key(change.at, change.number):  # No hash covers the key.
            return f"change {number} is stored under the key of another change"
        return ""


def _changes(first: int, last: int) -> str:
    return f"change {first} is" if first == last else f"changes {first} to {last} are"


def _hash(before: bytes, body: bytes) -> bytes:
    return sha256(before + body).digest()
