"""Messages of etcd's JSON gateway, as far as rota uses it (etcd 3.4 to 3.6).

Its JSON is that of protocol buffers: 64-bit integers are strings, bytes are base64, and a field
that is zero, false or empty is absent, so that every field here has a default. msgspec does all
three in its lenient mode (`decode`).
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

Json = dict[str, object]
T = TypeVar("T")


class EtcdHeader(msgspec.Struct, frozen=True):
    """The cluster and the revision of a response of etcd.

    Attributes:
        revision: Of the whole store; 0 where the response has none.
    """

    cluster_id: int = 0
    revision: int = 0


class EtcdResponse(msgspec.Struct, frozen=True):
    """The fields that all responses have."""

    header: EtcdHeader = EtcdHeader()


class KeyValue(msgspec.Struct, frozen=True):
    """A key with its value; *lease* is 0 if the key has none."""

    key: bytes = b""
    value: bytes = b""
    mod_revision: int = 0
    lease: int = 0


class RangeResponse(EtcdResponse, frozen=True):
    """The keys of a range; *more* follow if the request had a limit."""

    kvs: tuple[KeyValue, ...] = ()
    more: bool = False


class InnerAnswer(msgspec.Struct, frozen=True):
    """The answer of one operation in a transaction; only what was asked for is there."""

    response_range: RangeResponse = RangeResponse()
    response_txn: "TxnResponse | None" = None


class TxnResponse(EtcdResponse, frozen=True):
    """Which branch a transaction took, and the answers of that branch."""

    succeeded: bool = False
    responses: tuple[InnerAnswer, ...] = ()


class LeaseResponse(EtcdResponse, frozen=True):
    """A lease; *TTL* in seconds, 0 if it is over: that is no error to etcd."""

    ID: int = 0
    TTL: int = 0


class StatusResponse(
    EtcdResponse, frozen=True, rename={"size_bytes": "dbSize", "quota_bytes": "dbSizeQuota"}
):
    """The state of one member.

    Attributes:
        size_bytes: Size of its database, which etcd compares with the quota.
        quota_bytes: 0 if it is not reported, as before 3.6.
        errors: Alarms, such as ``memberID:10276657743932975437 alarm:NOSPACE``.
    """

    size_bytes: int = 0
    quota_bytes: int = 0
    errors: tuple[str, ...] = ()


class TokenResponse(EtcdResponse, frozen=True):
    """Who we are from now on."""

    token: str = ""


class Failure(msgspec.Struct, frozen=True):
    """Why a call failed; a gateway of one age calls the code thus, of another so."""

    message: str = ""
    code: int = 0
    grpc_code: int = 0


class KeepaliveLine(msgspec.Struct, frozen=True):
    """The one line that a keepalive answers."""

    result: LeaseResponse | None = None
    error: Failure | None = None


class Event(msgspec.Struct, frozen=True):
    """A key that was put, or is gone (*type* ``DELETE``; a put has none)."""

    kv: KeyValue
    type: str = "PUT"


class WatchResponse(EtcdResponse, frozen=True):
    """A message of a watch: its creation, its end, or events.

    Attributes:
        compact_revision: If not 0: it is over because history up to there is gone.
        fragment: The same answer continues in the next line.
    """

    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    fragment: bool = False
    events: tuple[Event, ...] = ()


class WatchLine(msgspec.Struct, frozen=True):
    """A line of a watch."""

    result: WatchResponse | None = None
    error: Failure | None = None


def decode(line: bytes, kind: type[T]) -> T:
    """Return what *line* says.

    Raises:
        UNDECODABLE: It is not such an answer (`rota.core.decoding`).
    """
    return msgspec.json.decode(line, type=kind, strict=False)


# -- requests ----------------------------------------------------------------------------------


def one(key: bytes) -> Json:
    """Ask for one key. Never with ``serializable``: a cut-off member would answer what once was."""
    return {"key": key}


def all_below(prefix: bytes) -> Json:
    """Ask for all keys that begin with *prefix*, which ends in a slash."""
    return {"key": prefix, "range_end": end_of(prefix)}


def from_to(start: bytes, end: bytes) -> Json:
    """Ask for all keys from *start* on that are before *end*."""
    return {"key": start, "range_end": end}


def part_of(keys: Json, *, limit: int, revision: int) -> Json:
    """Ask for the first *limit* of a range of keys, as of a revision; 0 is the present one."""
    return {**keys, "limit": str(limit), "revision": str(revision)}


def put(key: bytes, value: bytes, lease: int = 0) -> Json:
    """Ask to put a key, which goes with *lease* if that is given."""
    return {"key": key, "value": value, "lease": str(lease)}


def is_absent(key: bytes) -> Json:
    """Compare: there is no such key."""
    return {"key": key, "target": "VERSION", "result": "EQUAL", "version": "0"}


def holds(key: bytes, value: bytes) -> Json:
    """Compare: the key is there with this value."""
    return {"key": key, "target": "VALUE", "result": "EQUAL", "value": value}


def is_under(key: bytes, lease: int) -> Json:
    """Compare: the key is there and goes with *lease*."""
    return {"key": key, "target": "LEASE", "result": "EQUAL", "lease": str(lease)}


def is_not_under(key: bytes, lease: int) -> Json:
    """Compare: the key is absent, or goes with another lease or with none."""
    return {"key": key, "target": "LEASE", "result": "NOT_EQUAL", "lease": str(lease)}


def put_if(conditions: Sequence[Json], *fresh: Json, otherwise: bytes | None = None) -> Json:
    """Return a transaction: put all of *fresh* if all *conditions* hold, else read a key if any."""
    return {
        "compare": conditions,
        "success": [{"request_put": each} for each in fresh],
        "failure": [{"request_range": one(otherwise)}] if otherwise else [],
    }


def delete_if(conditions: Sequence[Json], key: bytes) -> Json:
    """Return a transaction: delete a key if all *conditions* hold."""
    return {"compare": conditions, "success": [{"request_delete_range": one(key)}]}


def each_alone(transactions: Sequence[Json]) -> Json:
    """Return a transaction of transactions, each of which succeeds or fails by itself."""
    return {"success": [{"request_txn": each} for each in transactions]}


def watch_of(keys: Json, start_revision: int) -> Json:
    """Ask for what happens to a range of keys, from *start_revision* on."""
    return {
        "create_request": {
            **keys,
            "start_revision": str(start_revision),
            "progress_notify": True,
            "fragment": True,
        }
    }


def end_of(prefix: bytes) -> bytes:
    """Return the first key after all that begin with *prefix*."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
