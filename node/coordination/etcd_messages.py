"""The messages of etcd's JSON gateway that rota uses (etcd 3.4 to 3.6).

Their JSON is that of protocol buffers: 64-bit integers are strings, bytes are base64, and a field
that is zero, false or empty is absent, so every field here has a default. The lenient mode of
msgspec decodes this form (`decode`).
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

Json = dict[str, object]
T = TypeVar("T")


class EtcdHeader(msgspec.Struct, frozen=True):
    """The cluster and the revision of a response of etcd.

    Attributes:
        cluster_id: The id of the etcd cluster; 0 if the response has none.
        revision: The revision of the whole store; 0 if the response has none.
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
    """The keys of a range; *more* is True if a limit cut off further keys."""

    kvs: tuple[KeyValue, ...] = ()
    more: bool = False


class InnerAnswer(msgspec.Struct, frozen=True):
    """The answer to one operation of a transaction; only the field of that operation is set."""

    response_range: RangeResponse = RangeResponse()
    response_txn: "TxnResponse | None" = None


class TxnResponse(EtcdResponse, frozen=True):
    """The branch that a transaction took, and the answers of that branch."""

    succeeded: bool = False
    responses: tuple[InnerAnswer, ...] = ()


class LeaseResponse(EtcdResponse, frozen=True):
    """A lease; *TTL* is in seconds, and 0 if the lease has ended, which etcd does not refuse."""

    ID: int = 0
    TTL: int = 0


class StatusResponse(
    EtcdResponse, frozen=True, rename={"size_bytes": "dbSize", "quota_bytes": "dbSizeQuota"}
):
    """The state of one member.

    Attributes:
        size_bytes: The size of the member's database, which etcd compares with the quota.
        quota_bytes: The quota; 0 if it is not reported, as in versions before 3.6.
        errors: The alarms, such as ``memberID:10276657743932975437 alarm:NOSPACE``.
    """

    size_bytes: int = 0
    quota_bytes: int = 0
    errors: tuple[str, ...] = ()


class TokenResponse(EtcdResponse, frozen=True):
    """The token that identifies the node's user in further requests."""

    token: str = ""


class Failure(msgspec.Struct, frozen=True):
    """The reason why a call failed; the field of the code depends on the gateway's version."""

    message: str = ""
    code: int = 0
    grpc_code: int = 0


class KeepaliveLine(msgspec.Struct, frozen=True):
    """The only line of the answer to a keepalive."""

    result: LeaseResponse | None = None
    error: Failure | None = None


class Event(msgspec.Struct, frozen=True):
    """A key that was put or deleted; *type* is ``DELETE`` if it was deleted."""

    kv: KeyValue
    type: str = "PUT"


class WatchResponse(EtcdResponse, frozen=True):
    """A message of a watch: its creation, its end, or events.

    Attributes:
        created: Whether the message reports the creation of the watch.
        canceled: Whether the message reports the end of the watch.
        compact_revision: If not 0, the watch has ended because etcd dropped the history up to this
            revision.
        cancel_reason: The reason of the end.
        fragment: Whether the same answer continues in the next line.
        events: The events.
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
    """Return the decoded *line*.

    Raises:
        UNDECODABLE: The line is not of that type (`rota.core.decoding`).
    """
    return msgspec.json.decode(line, type=kind, strict=False)


# -- requests ----------------------------------------------------------------------------------


def one(key: bytes) -> Json:
    """Return a request for one key.

    The request is never ``serializable``, since an isolated member would answer with old data.
    """
    return {"key": key}


def all_below(prefix: bytes) -> Json:
    """Return a request for all keys that begin with *prefix*, which ends in a slash."""
    return {"key": prefix, "range_end": end_of(prefix)}


def from_to(start: bytes, end: bytes) -> Json:
    """Return a request for the keys in the range from *start* (included) to *end* (excluded)."""
    return {"key": start, "range_end": end}


def part_of(keys: Json, *, limit: int, revision: int) -> Json:
    """Return a request for the first *limit* keys of a range at *revision*; 0 is the newest one."""
    return {**keys, "limit": str(limit), "revision": str(revision)}


def put(key: bytes, value: bytes, lease: int = 0) -> Json:
    """Return a request to put a key, which is deleted with *lease* if that is not 0."""
    return {"key": key, "value": value, "lease": str(lease)}


def is_absent(key: bytes) -> Json:
    """Return the condition that there is no such key."""
    return {"key": key, "target": "VERSION", "result": "EQUAL", "version": "0"}


def holds(key: bytes, value: bytes) -> Json:
    """Return the condition that the key exists with this value."""
    return {"key": key, "target": "VALUE", "result": "EQUAL", "value": value}


def is_under(key: bytes, lease: int) -> Json:
    """Return the condition that the key exists and belongs to *lease*."""
    return {"key": key, "target": "LEASE", "result": "EQUAL", "lease": str(lease)}


def is_not_under(key: bytes, lease: int) -> Json:
    """Return the condition that the key is absent, or belongs to another lease or to none."""
    return {"key": key, "target": "LEASE", "result": "NOT_EQUAL", "lease": str(lease)}


def put_if(conditions: Sequence[Json], *fresh: Json, otherwise: bytes | None = None) -> Json:
    """Return a transaction that puts all of *fresh* if all *conditions* hold.

    If they do not hold, it reads the key *otherwise*, if that is given.
    """
    return {
        "compare": conditions,
        "success": [{"request_put": each} for each in fresh],
        "failure": [{"request_range": one(otherwise)}] if otherwise else [],
    }


def delete_if(conditions: Sequence[Json], key: bytes) -> Json:
    """Return a transaction that deletes a key if all *conditions* hold."""
    return {"compare": conditions, "success": [{"request_delete_range": one(key)}]}


def each_alone(transactions: Sequence[Json]) -> Json:
    """Return a transaction of transactions, each of which succeeds or fails independently."""
    return {"success": [{"request_txn": each} for each in transactions]}


def watch_of(keys: Json, start_revision: int) -> Json:
    """Return a request for a watch of a range of keys from *start_revision* on."""
    return {
        "create_request": {
            **keys,
            "start_revision": str(start_revision),
            "progress_notify": True,
            "fragment": True,
        }
    }


def end_of(prefix: bytes) -> bytes:
    """Return the first key after all keys that begin with *prefix*."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
