"""Keys and values in etcd; values are JSON, so that ``etcdctl get`` shows them in readable form.

/rota/<cluster>/meta          the cluster; changed only by a recovery
/rota/<cluster>/node/<id>     a member
/rota/<cluster>/sess/<id>     a node's life; deleted with its lease
/rota/<cluster>/store/<id>    the live node with a data directory; deleted with the same lease
/rota/<cluster>/shard/<s>     a configuration; compared as a whole value
/rota/<cluster>/~/<kind>/<n>  a shared document; "~" sorts these keys behind all others.
                              The names of secrets have a namespace: <n> is <namespace>/<name>
"""

import logging
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import NodeId, Session, ShardId, is_name
from rota.core.model.shared_document import DocumentKey, SharedDocument, is_document_name
from rota.core.vocabulary.shard_configuration import Configuration
from rota.node.coordination.coordinator import Life, Member
from rota.node.coordination.coordinator_errors import CoordinatorError
from rota.node.coordination.etcd_messages import from_to

T = TypeVar("T")

log = logging.getLogger(__name__)

DIGITS_MAX = 6
"""The most digits of a shard's number; a longer number is not that of a shard."""
NO_LEASE = -1
"""A number that no lease has: etcd's leases are positive, and 0 means a key without a lease."""


class Records(msgspec.Struct, frozen=True):
    """The records of keys; None for a deleted key."""

    configurations: dict[ShardId, Configuration | None]
    lives: dict[NodeId, Life | None]
    members: dict[NodeId, Member | None]


class Keys:
    """The keys of one cluster.

    Args:
        cluster: The name of the cluster; several clusters may share an etcd.
    """

    def __init__(self, cluster: str) -> None:
        self.prefix = f"/rota/{cluster}/".encode()
        self.meta = self.prefix + b"meta"
        self.lives = self.prefix + b"sess/"
        self.of_documents = self.prefix + b"~/"
        self.others = from_to(self.prefix, self.prefix + b"~")
        """The range of all keys except those of documents, which have a separate watch."""

    def member(self, node_id: NodeId) -> bytes:
        """Return the key of a node's record."""
        return self.prefix + b"node/" + node_id.encode()

    def life(self, node_id: NodeId) -> bytes:
        """Return the key that exists while a node is alive."""
        return self.lives + node_id.encode()

    def store(self, store_id: str) -> bytes:
        """Return the key that exists while a node with that data directory is alive."""
        return self.prefix + b"store/" + store_id.encode()

    def configuration(self, shard: ShardId) -> bytes:
        """Return the key of a shard's configuration."""
        return self.prefix + b"shard/%d" % shard

    def document(self, key: DocumentKey) -> bytes:
        """Return the key of a shared document."""
        return self.of_documents + f"{key.kind}/{key.name}".encode()

    def documents(
        self, pairs: Iterable[tuple[bytes, bytes | None]]
    ) -> dict[DocumentKey, SharedDocument | None]:
        """Return the shared documents of keys and values; None for a deleted key."""
        found: dict[DocumentKey, SharedDocument | None] = {}
        for key, value in pairs:
            path = key.removeprefix(self.of_documents).decode(errors="replace")
            kind, _, name = path.partition("/")
            if is_name(kind) and is_document_name(kind, name):
                found[DocumentKey(kind, name)] = document_in(key, value)
        return found

    def records(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> Records:
        """Return the records of keys and values; a later pair takes precedence over an earlier one.

        Keys with other names are ignored.

        Raises:
            CoordinatorError: A value is not in rota's form.
        """
        found = Records({}, {}, {})
        for key, value in pairs:
            folder, _, tail = key.removeprefix(self.prefix).partition(b"/")
            # A key with any other name was written by another program.
            name = tail.decode(errors="replace")
            match folder:
                case b"shard" if name.isdecimal() and len(name) <= DIGITS_MAX:
                    shard = ShardId(int(name))
                    found.configurations[shard] = _read(key, value, Configuration)
                case b"sess" if is_name(name):
                    found.lives[NodeId(name)] = _read(key, value, Life)
                case b"node" if is_name(name):
                    found.members[NodeId(name)] = _read(key, value, Member)
                case _:
                    continue
        return found


def document_in(key: bytes, value: bytes | None) -> SharedDocument | None:
    """Return the record of a document; None without a value, or for one that rota did not write.

    Nodes that have the document replace such a value by their record.
    """
    try:
        return _read(key, value, SharedDocument)
    except CoordinatorError as error:
        log.error("document unreadable", extra={"reason": str(error)})
        return None


def _read(key: bytes, value: bytes | None, kind: type[T]) -> T | None:
    return None if value is None else read(key, value, kind)


def read(key: bytes, value: bytes, kind: type[T]) -> T:
    """Return the decoded value of a key.

    Raises:
        CoordinatorError: The value is not in rota's form.
    """
    try:
        return msgspec.json.decode(value, type=kind)
    except UNDECODABLE as error:
        raise CoordinatorError(
            f"etcd's key {key.decode(errors='replace')} has a value that rota did not write "
            f"({error}); find out which other program writes there, and restore the value"
        ) from error


def write(record: msgspec.Struct) -> bytes:
    """Return the stored form of a record, which is the same for equal records."""
    return msgspec.json.encode(record)


def session_of(lease: int) -> Session:
    """Return the session of a lease, which is the lease's number as etcdctl prints it."""
    return Session(f"{lease:016x}")


def lease_of(session: Session) -> int:
    """Return the lease of a session; `NO_LEASE` for `NO_SESSION` and sessions not of this etcd."""
    try:
        return int(session, 16) or NO_LEASE
    except ValueError:
        return NO_LEASE
