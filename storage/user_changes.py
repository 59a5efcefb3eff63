"""The changes of users, as the history of each shard has them."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rota.core.model.ids import ShardId
from rota.core.timing.instants import MICROSECOND, Instant, later
from rota.core.vocabulary.change_chain import (
    SealedChange,
    UserChange,
    change_key,
    opened,
    position_of,
)
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import Undecodable, decode_record
from rota.core.vocabulary.commands import ForgetChanges
from rota.storage.shards import shard_prefix
from rota.storage.store import Family, Store


class ChangePosition(NamedTuple):
    """The place of a change in the list of all shards, which is in the order of these places."""

    at: Instant
    shard: ShardId
    number: int

    @property
    def key(self) -> str:
        """The key of the change in its shard."""
        return change_key(self.at, self.number)


@dataclass(frozen=True, slots=True)
class UnreadableChange:
    """A change whose record cannot be decoded."""

    why: str


class StoredChange(NamedTuple):
    """A change and its place."""

    position: ChangePosition
    change: UserChange | UnreadableChange
    hash: bytes


class UserChanges:
    """The changes of users in all shards of a node.

    Args:
        store: The store with the history.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def listed(
        self,
        shards: Iterable[ShardId],
        since: Instant,
        until: Instant,
        *,
        beyond: ChangePosition | None = None,
        newest_first: bool = False,
    ) -> Iterator[StoredChange]:
        """Yield the changes of *shards* in ``[since, until)``.

        Args:
            shards: The shards to read.
            since: The first instant.
            until: The instant after the last one.
            beyond: The place to begin after; None to begin with the first change.
            newest_first: Whether the order is descending.
        """
        streams = (
            self._rows(shard, *_range_of(shard, since, until, beyond, newest_first), newest_first)
            for shard in shards
        )
        yield from heapq.merge(*streams, key=lambda each: each.position, reverse=newest_first)

    def chain(
        self, shard: ShardId, after: str, limit: int
    ) -> list[tuple[str, SealedChange | None]]:
        """Return at most *limit* rows of a shard with their keys, oldest first.

        Args:
            shard: The shard.
            after: The key to begin after; empty to begin with the oldest row.
            limit: The most rows.

        Returns:
            The rows; None instead of a row that cannot be read.
        """
        start = _key(shard, after) + b"\0" * bool(after)
        end = _key(shard, "~")  # After all keys, also those of rows that rota did not write.
        rows = self._store.scan(Family.HIST, start, end, limit=limit)
        return [(_text(key), _row(value)) for key, value in rows]

    def after(self, shard: ShardId, key: str, limit: int) -> list[StoredChange]:
        """Return at most *limit* changes of a shard after a key, oldest first.

        Args:
            shard: The shard.
            key: The key of the change before the first one; empty to begin with the oldest.
            limit: The most changes.
        """
        start = _key(shard, key) + b"\0" * bool(key)
        rows = self._store.scan(Family.HIST, start, _key(shard, "~"), limit=limit)
        return [_stored(shard, _text(found), value) for found, value in rows]

    def newest(self, shard: ShardId) -> str | None:
        """Return the key of the newest row of a shard; None if it has no row."""
        rows = self._store.scan(
            Family.HIST, _key(shard, ""), _key(shard, "~"), limit=1, reverse=True
        )
        return next((_text(key) for key, _ in rows), None)

    def row(self, shard: ShardId, key: str) -> SealedChange | None:
        """Return the row at *key*; None if there is none, or if it cannot be read."""
        value = self._store.get(Family.HIST, _key(shard, key))
        return None if value is None else _row(value)

    def older_than(self, shard: ShardId, instant: Instant, limit: int) -> ForgetChanges | None:
        """Return the deletion of the changes before *instant*, at most *limit*; None without any.

        The changes are in the order of their numbers, so that the rest is a chain again.
        """
        start, end = _key(shard, ""), _key(shard, change_key(instant, 0))
        found = list(self._store.scan(Family.HIST, start, end, limit=limit))
        if not found:
            return None
        last, value = found[-1]
        row = _row(value)
        return ForgetChanges(
            keys=tuple(_text(key) for key, _ in found),
            last=position_of(_text(last))[1],
            hash=row.hash if row else b"",
        )

    def _rows(
        self, shard: ShardId, start: bytes, end: bytes, newest_first: bool
    ) -> Iterator[StoredChange]:
        # A store need not accept a range that ends before it begins.
        rows = self._store.scan(Family.HIST, start, max(start, end), reverse=newest_first)
        for key, value in rows:
            yield _stored(shard, _text(key), value)


def _range_of(
    shard: ShardId,
    since: Instant,
    until: Instant,
    beyond: ChangePosition | None,
    newest_first: bool,
) -> tuple[bytes, bytes]:
    """Return the range of the keys of *shard* after the place *beyond*."""
    first, last = change_key(since, 0), change_key(until, 0)
    if beyond is not None and newest_first:
        last = min(last, _key_from(shard, beyond))
    elif beyond is not None:
        next_one = beyond._replace(number=beyond.number + 1)
        first = max(first, _key_from(shard, next_one))
    return _key(shard, first), _key(shard, last)


def _key_from(shard: ShardId, place: ChangePosition) -> str:
    """Return the first key of *shard* whose place is *place* or a later one."""
    if shard == place.shard:
        return change_key(place.at, place.number)
    return change_key(place.at if shard > place.shard else later(place.at, MICROSECOND), 0)


def _stored(shard: ShardId, key: str, value: bytes) -> StoredChange:
    at, number = position_of(key)
    place = ChangePosition(at, shard, number)
    row = _row(value)
    change = opened(row) if row else None
    if row is None or change is None:
        return StoredChange(place, UnreadableChange(f"change {number} cannot be decoded"), b"")
    return StoredChange(place, change, row.hash)


def _row(value: bytes) -> SealedChange | None:
    try:
        row = decode_record(Table.USER_CHANGE, value)
    except Undecodable:
        return None
    assert isinstance(row, SealedChange)
    return row


def _key(shard: ShardId, key: str) -> bytes:
    return shard_prefix(shard) + bytes((Table.USER_CHANGE,)) + key.encode()


def _text(key: bytes) -> str:
    return key[3:].decode()
