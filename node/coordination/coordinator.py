"""Interface of the coordinator: the live nodes, and the configuration of each shard.

Its state is small and changes seldom. Every implementation follows these rules:

- A *session* is one life of a node, under a lease: it ends when it is not renewed for its time to
  live, and never comes back. A node has at most one session. The time to live is a minimum: the
  coordinator may let a session live longer (after its own restart, for example), but never shorter,
  unless a request ends the session.
- A configuration is changed only by `Coordinator.swap`, a compare-and-set of the whole value, which
  contains the epoch. Values never repeat, so the comparison is also correct at a coordinator that
  was restored from a backup, whose own revisions go backwards (PROTOCOL R1).
- A swap whose answer was lost may have happened, may not have happened, or may happen at any later
  time until another request changes that configuration (PROTOCOL R17). Such a swap raises
  `OutcomeUnknown`, and is never repeated without a check.
- `view` returns the state at some instant after its call, never an older state. A watch from the
  revision of a view misses no change, or ends with `WatchLost`.

Errors are in `rota.node.coordination.coordinator_errors`.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

import msgspec

from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.model.shared_document import DocumentKey, SharedDocument
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.shard_configuration import Configuration, Swap, Swapped


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a cluster that are fixed at its founding.

    Attributes:
        id: A random id, which is part of each proof of identity between nodes, so that two clusters
            never mix.
        shards: The number of shards, a power of two.
        replicas: The wanted number of copies of each shard.
        min_sync: The least number of copies of a shard without which nothing is committed.
        session_ttl: The time to live of a node's session.
        peer_lease: The time after a message of the primary during which backups do not take over.
        attempt_lease: The time for which attempts run without contact with their shard's primary.
        generation: The generation of the epochs under which shards are founded; a recovery raises
            it.
        format: The format of all data that the nodes share.
    """

    id: str
    shards: int
    replicas: int
    min_sync: int = 2
    session_ttl: Duration = Duration(5 * SECOND)
    peer_lease: Duration = Duration(2 * SECOND)
    attempt_lease: Duration = Duration(15 * SECOND)
    format: int = 1
    generation: int = 0


ACTIVE, DRAINING, AWAY = "active", "draining", "away"


_SECRET = frozenset({"key", "task_key"})
"""The fields of a member that no text has."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a node, with its own statements and its state; it outlives the node's sessions.

    Attributes:
        node_id: The node.
        store_id: The id of the node's data directory.
        address: The address of the API, for clients and other nodes.
        peer_address: The address for links of other nodes.
        zone: The failure domain of the node.
        weight: The share of the data, relative to other nodes.
        labels: The labels of the node.
        state: ``active``; ``draining`` if an operator wants it to have no copies; ``away`` if it is
            to have no copies until it is back.
        version: The version of the software.
        key: The key with which the node's present process proves its identity to other nodes
            (`rota.node.links.identity_proof`); empty for a single node. Never logged or shown.
        peer_tls: ``require`` or ``accept`` if the peer port serves TLS; empty if it does not.
        auth: The setting ``auth`` of the node; empty for a node of an earlier version.
        task_key: The key of the tokens of tasks that run on this node
            (`rota.node.access.attempt_identity`); it outlives the process, as the tasks do. Empty
            for a node of an earlier version. Never logged or shown.
        api_tls: Whether the API serves TLS; false for a node of an earlier version, too.
    """

    node_id: NodeId
    store_id: str
    address: str
    peer_address: str = ""
    zone: str = ""
    weight: float = 1.0
    labels: dict[str, str] = {}
    state: str = ACTIVE
    version: str = ""
    key: bytes = b""
    peer_tls: str = ""
    auth: str = ""
    task_key: bytes = b""
    api_tls: bool = False

    @property
    def url(self) -> str:
        """The URL of the API."""
        return f"{'https' if self.api_tls else 'http'}://{self.address}"

    def __repr__(self) -> str:
        fields = (name for name in self.__struct_fields__ if name not in _SECRET)
        return f"Member({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a node, as all nodes see it.

    Attributes:
        session: The session.
        store_id: The id of the data directory that the process of the session uses.
        lock: See `Claim`; empty for a node of rota 0.1.
    """

    session: Session
    store_id: str
    lock: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A process that begins a session, and the data directory that it uses.

    Attributes:
        node_id: The id of the node.
        store_id: The id of the data directory; a copy of the directory has the same id.
        lock: The name of the lock on the directory that this process holds
            (`rota.storage.directory.DataDirectory.lock_id`); it is different in a copy of the
            directory, and after a restart of the machine. Empty if the lock has no name.
    """

    node_id: NodeId
    store_id: str
    lock: str


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A session that has just begun.

    Attributes:
        session: The session.
        ttl_s: The time to live in seconds, from the request that began the session.
    """

    session: Session
    ttl_s: float


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state at one instant.

    Attributes:
        revision: The revision of the state, from which a watch continues.
        configurations: The configuration of each shard that has one.
        lives: The live session of each node that has one.
        members: The record of each node.
        cluster: The record of the cluster; None if it was not founded, or the record was lost.
    """

    revision: int
    configurations: Mapping[ShardId, Configuration]
    lives: Mapping[NodeId, Life]
    members: Mapping[NodeId, Member]
    cluster: Cluster | None = None


class News(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step: the new values, and None for removed values.

    Attributes:
        revision: The revision after the step.
        configurations: The changed configurations.
        lives: The changed sessions.
        members: The changed records of nodes.
    """

    revision: int
    configurations: Mapping[ShardId, Configuration | None] = {}
    lives: Mapping[NodeId, Life | None] = {}
    members: Mapping[NodeId, Member | None] = {}


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    """The shared documents at one instant.

    Attributes:
        revision: The revision of the documents, from which a watch continues.
        by_key: The record of each document, including deleted ones.
    """

    revision: int
    by_key: Mapping[DocumentKey, SharedDocument]


class DocumentNews(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step to shared documents: the new records, and None for removed records.

    Attributes:
        revision: The revision after the step.
        documents: The changed records.
    """

    revision: int
    documents: Mapping[DocumentKey, SharedDocument | None]


class Coordinator(Protocol):
    """The interface; every implementation passes tests/contract/coordination/test_coordinator.py.

    Every call except the watches ends within a time that the implementation states. All calls may
    raise `CoordinatorRefused`; all calls except the watches may raise any other
    `CoordinatorUnavailable`; calls that make changes may raise `OutcomeUnknown`.

    Attributes:
        has_lasting_revisions: Whether revisions never fall unless state is lost; False if they
            begin again with each process.
    """

    has_lasting_revisions: bool

    async def found(self, wanted: Cluster) -> Cluster:
        """Return the cluster, which is founded as *wanted* if there is none yet.

        Raises:
            OtherCluster: The cluster exists in another format.
        """
        ...

    async def recover(self, expected: Cluster | None, fresh: Cluster) -> bool:
        """Replace the cluster's record in a recovery of a coordinator that lost its state.

        Of several recoveries at the same time, one succeeds.

        Args:
            expected: The record that is to be replaced; None if there is none.
            fresh: The new record.

        Returns:
            False if the record is not *expected* and stays.
        """
        ...

    async def register(self, member: Member) -> None:
        """Write the record of a member, which replaces an earlier record."""
        ...

    async def change(self, expected: Member, fresh: Member) -> bool:
        """Replace the record of a node, so that concurrent changes do not overwrite each other.

        Returns:
            False if the record is not *expected* and stays.
        """
        ...

    async def forget(self, node_id: NodeId) -> bool:
        """Remove a node that will not come back; return False if it is alive and stays."""
        ...

    async def begin_session(self, claim: Claim, ttl_s: float) -> Grant:
        """Begin a session; end the node's earlier session if its process had the same lock.

        Raises:
            NodeIdTaken: See `rota.node.coordination.coordinator_rules.predecessor`.
            StoreIdTaken: See `rota.node.coordination.coordinator_rules.predecessor`.
        """
        ...

    async def renew(self, session: Session) -> float | None:
        """Renew *session*; return its time to live in seconds from this request.

        Returns:
            None if the session has ended.
        """
        ...

    async def end_session(self, session: Session) -> None:
        """End a session of this node, or one whose process has ended; it may have ended already."""
        ...

    async def view(self) -> View:
        """Return the present state."""
        ...

    def watch(self, revision: int) -> AsyncGenerator[News]:
        """Yield the steps after *revision*, each once and complete, in order, without end.

        A lost connection is replaced as long as no step is missed. Use `contextlib.aclosing`, which
        closes the connection at the end. Shared documents have a separate watch.

        Raises:
            WatchLost: A step would be missed.
        """
        ...

    async def swap(self, swaps: Sequence[Swap]) -> list[Swapped]:
        """Carry out each of *swaps* whose conditions hold, independently of one another.

        Raises:
            ValueError: *swaps* break a rule of
                `rota.node.coordination.coordinator_rules.check_swaps`.
            OutcomeUnknown: Any of the swaps may have been carried out, or may still be.
        """
        ...

    async def documents(self) -> Documents:
        """Return all shared documents, including the records of deleted ones."""
        ...

    def watch_documents(self, revision: int) -> AsyncGenerator[DocumentNews]:
        """Yield the changes of shared documents after *revision*, as `watch` does."""
        ...

    async def change_document(
        self, key: DocumentKey, expected: SharedDocument | None, fresh: SharedDocument | None
    ) -> bool:
        """Replace, create or remove the record of a document.

        Args:
            key: The document.
            expected: The record that is to be replaced; None if there is none.
            fresh: The new record; None to remove the record.

        Returns:
            False if the record is not *expected* and stays.
        """
        ...

    async def close(self) -> None:
        """Close all connections; the session continues until it expires, unless it was ended."""
        ...
