"""Seam of the coordinator: which nodes are alive, and the configuration of each shard.

It is small and changes seldom. The rules that every implementation keeps:

- A *session* is one life of a node, under a lease: it ends when it is not renewed for its time to
  live, and never comes back. A node has at most one. The time to live is a minimum: the coordinator
  may let a session live longer (after its own restart, for instance), never shorter, unless a
  request ends it.
- A configuration is changed by `Coordinator.swap` alone: a compare-and-set of the whole value,
  which holds its epoch. Values never repeat, so this also holds against a coordinator restored
  from a backup, whose own revisions go backwards (PROTOCOL R1).
- A swap whose answer was lost may have happened, may not have, or may happen at any later time
  until another request changes that configuration (PROTOCOL R17). That is `OutcomeUnknown`, and it
  is never tried again blindly.
- `view` returns the state of some instant after its call, never an older one. A watch from a
  view's revision misses nothing, or ends with `WatchLost`.

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
        id: Random; in every message between nodes, so that two clusters never mix.
        shards: Number of shards, a power of two.
        replicas: Wanted copies of each shard.
        min_sync: Least copies of each shard without which nothing is committed.
        session_ttl: Time to live of a node's session.
        peer_lease: Time after a message of the primary during which backups do not take over.
        attempt_lease: How long attempts run without contact with their shard's primary.
        generation: Of the epochs that shards are founded under; a recovery raises it.
        format: Of everything the nodes share.
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


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself, and an operator of it; it outlives its sessions.

    Attributes:
        store_id: Which data directory it has.
        address: Where clients reach it.
        peer_address: Where other nodes reach it.
        state: ``active``; ``draining``: it is to hold nothing; ``away``: nor is it, until it is
            back.
        version: Of the software.
        key: Of the node's present process, by which it proves its identity to other nodes
            (`rota.node.links.identity_proof`); empty for a node that is alone. Never logged or
            shown.
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

    def __repr__(self) -> str:
        fields = (name for name in self.__struct_fields__ if name != "key")
        return f"Member({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """A session as all see it: which one, and of which data directory.

    Attributes:
        lock: See `Claim`; empty for a node of rota 0.1.
    """

    session: Session
    store_id: str
    lock: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A process that begins a session, and the data directory that it uses.

    Attributes:
        node_id: The node's id.
        store_id: The data directory's id; the same in a copy of the directory.
        lock: The lock on the directory that this process holds
            (`rota.storage.directory.DataDirectory.lock_id`): another in a copy, and after the
            machine was started again. Empty if it has no name.
    """

    node_id: NodeId
    store_id: str
    lock: str


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A session just begun: it lives for *ttl_s* seconds from the request that began it."""

    session: Session
    ttl_s: float


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state at one instant.

    Attributes:
        revision: Where a watch continues.
        cluster: The record of the cluster; None if it was not founded, or the record was lost.
        lives: The live session of each node that has one.
    """

    revision: int
    configurations: Mapping[ShardId, Configuration]
    lives: Mapping[NodeId, Life]
    members: Mapping[NodeId, Member]
    cluster: Cluster | None = None


class News(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step: the new values; None for removed ones.

    Attributes:
        revision: After the step.
    """

    revision: int
    configurations: Mapping[ShardId, Configuration | None] = {}
    lives: Mapping[NodeId, Life | None] = {}
    members: Mapping[NodeId, Member | None] = {}


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    """The shared documents at one instant.

    Attributes:
        revision: Where a watch continues.
    """

    revision: int
    by_key: Mapping[DocumentKey, SharedDocument]


class DocumentNews(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step to shared documents: the new records; None for removed ones.

    Attributes:
        revision: After the step.
    """

    revision: int
    documents: Mapping[DocumentKey, SharedDocument | None]


class Coordinator(Protocol):
    """The seam; every implementation passes tests/contract/coordination/test_coordinator.py.

    Every call is over within a time that the implementation states; none waits for ever. All may
    raise `CoordinatorRefused`, and all but the watch any other `CoordinatorUnavailable`; those that
    change something, `OutcomeUnknown`.

    Attributes:
        has_lasting_revisions: Whether revisions never fall unless state is lost; False if they
            begin again with each process.
    """

    has_lasting_revisions: bool

    async def found(self, wanted: Cluster) -> Cluster:
        """Return the cluster, founding it as *wanted* if there is none yet.

        Raises:
            OtherCluster: It is there, in another format.
        """
        ...

    async def recover(self, expected: Cluster | None, fresh: Cluster) -> bool:
        """Replace the cluster's record; False: it is not as *expected* any more, and stays.

        For a recovery of a coordinator that lost its state. None: there is no record. Of several
        recoveries at the same time, one succeeds.
        """
        ...

    async def register(self, member: Member) -> None:
        """Write the record of a member, replacing an earlier one."""
        ...

    async def change(self, expected: Member, fresh: Member) -> bool:
        """Replace the record of a node; False: it is not as *expected* any more, and stays.

        So the changes of a node and of an operator never overwrite each other.
        """
        ...

    async def forget(self, node_id: NodeId) -> bool:
        """Remove a node that will not come back; False: it is alive, and stays."""
        ...

    async def begin_session(self, claim: Claim, ttl_s: float) -> Grant:
        """Begin a session; the one under which the process of the same lock ran ends.

        Raises:
            NodeIdTaken: See `rota.node.coordination.coordinator_rules.predecessor`.
            StoreIdTaken: Likewise.
        """
        ...

    async def renew(self, session: Session) -> float | None:
        """Renew *session*; return its seconds from this request, or None if it has ended."""
        ...

    async def end_session(self, session: Session) -> None:
        """End a session, this node's own or one proven dead; no error if it has ended already."""
        ...

    async def view(self) -> View:
        """Return the present state."""
        ...

    def watch(self, revision: int) -> AsyncGenerator[News]:
        """Yield what changes after *revision*, each step once and whole, in order, without end.

        A connection that is lost is made again, as long as nothing is missed. Leave it with
        `contextlib.aclosing`, which lets go of that connection. Shared documents have a watch of
        their own.

        Raises:
            WatchLost: Something would be missed.
        """
        ...

    async def swap(self, swaps: Sequence[Swap]) -> list[Swapped]:
        """Carry out each of *swaps* whose conditions hold, independently of one another.

        Raises:
            ValueError: They break a rule of `rota.node.coordination.coordinator_rules.check_swaps`.
            OutcomeUnknown: Any of them may have been done or may still be.
        """
        ...

    async def documents(self) -> Documents:
        """Return all shared documents, the records of deleted ones included."""
        ...

    def watch_documents(self, revision: int) -> AsyncGenerator[DocumentNews]:
        """Yield the changes of shared documents after *revision*, as `watch` does."""
        ...

    async def change_document(
        self, key: DocumentKey, expected: SharedDocument | None, fresh: SharedDocument | None
    ) -> bool:
        """Replace the record of a document; False: it is not as *expected* any more, and stays.

        None stands for no record.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; the session lives on until it runs out, unless ended before."""
        ...
