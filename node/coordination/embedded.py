"""Coordinator of a single node: its configurations are in a file of its data directory.

The lock of the data directory excludes a second process, so the file has one writer, and no earlier
process of the node runs when the file is read; therefore it contains no sessions. Sessions do not
expire, because no other node could take over.
"""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.ids import NodeId, Session, ShardId
from rota.core.model.shared_document import DocumentKey, SharedDocument
from rota.core.timing.instants import Instant
from rota.core.vocabulary.shard_configuration import Configuration, Swap, Swapped
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.coordination.coordinator import (
    Claim,
    Cluster,
    DocumentNews,
    Documents,
    Grant,
    Member,
    News,
    View,
)
from rota.node.coordination.coordinator_errors import CoordinatorError
from rota.node.system.entropy import Entropy

T = TypeVar("T")

NO_TIME = Instant(0)
"""The time for all calls of the state, since nothing in this coordinator depends on time."""


class CoordinationFailed(CoordinatorError):
    """The file cannot be read or written."""

    code = "coordination_failed"


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file; a file of rota 0.1 has only *shards*, without their copies."""

    cluster: Cluster | None = None
    members: dict[NodeId, Member] = {}
    shards: dict[ShardId, Configuration] = {}
    documents: list[SharedDocument] = []


class EmbeddedCoordinator:
    """Coordination for one node, in a file.

    Every change is synced and replaces the file atomically before it has any effect. A call that
    makes a change raises `CoordinationFailed` if the file cannot be written.

    Args:
        path: The file, which is created with the first change if it does not exist.
        entropy: The source of the ids of sessions.

    Raises:
        CoordinationFailed: The file is damaged.
    """

    has_lasting_revisions = False

    def __init__(self, path: Path, entropy: Entropy) -> None:
        self._path = path
        self._entropy = entropy
        self._written = _File()
        if path.exists():
            try:
                self._written = msgspec.json.decode(path.read_bytes(), type=_File)
            except UNDECODABLE as error:
                raise CoordinationFailed(
                    f"{path} is damaged ({error}); restore it from a backup of the data directory"
                ) from error
        self._state = CoordinationState(
            self._written.cluster,
            self._written.members,
            self._written.shards,
            {each.key: each for each in self._written.documents},
        )
        self._changed = asyncio.Event()

    async def found(self, wanted: Cluster) -> Cluster:
        """Return the cluster in the file; write *wanted* if there is none."""
        return self._do(lambda state: state.found(wanted))

    async def recover(self, expected: Cluster | None, fresh: Cluster) -> bool:
        """Replace the cluster in the file if it is *expected*."""
        return self._do(lambda state: state.recover(expected, fresh))

    async def register(self, member: Member) -> None:
        """Write *member* to the file."""
        self._do(lambda state: state.register(member))

    async def change(self, expected: Member, fresh: Member) -> bool:
        """Replace a member in the file if it is *expected*."""
        return self._do(lambda state: state.change(expected, fresh))

    async def forget(self, node_id: NodeId) -> bool:
        """Remove a node from the file, unless it is alive."""
        return self._do(lambda state: state.forget(node_id))

    async def begin_session(self, claim: Claim, ttl_s: float) -> Grant:
        """Begin a session that does not expire, whatever *ttl_s* is."""
        del ttl_s
        session = Session(f"{self._entropy.draw():016x}")

        def begin(state: CoordinationState) -> None:
            if earlier := state.predecessor(claim):
                state.end(earlier)
            state.begin(claim, session, ttl_s=0, now=NO_TIME)

        self._do(begin)
        return Grant(session=session, ttl_s=math.inf)

    async def renew(self, session: Session) -> float | None:
        """Return infinity; None if the session was ended."""
        return None if self._state.renew(session, NO_TIME) is None else math.inf

    async def end_session(self, session: Session) -> None:
        """End a session."""
        self._do(lambda state: state.end(session))

    async def view(self) -> View:
        """Return the present state."""
        return self._state.view()

    async def watch(self, revision: int) -> AsyncGenerator[News]:
        """Yield the steps that this object makes after *revision*."""
        while True:
            steps = self._state.steps_after(revision)
            for step in steps:
                revision = step.revision
                yield step
            if not steps:
                await self._changed.wait()

    async def swap(self, swaps: Sequence[Swap]) -> list[Swapped]:
        """Carry out all swaps whose conditions hold, in one write."""
        return self._do(lambda state: state.swap(swaps))

    async def documents(self) -> Documents:
        """Return all documents."""
        return self._state.documents()

    async def watch_documents(self, revision: int) -> AsyncGenerator[DocumentNews]:
        """Yield the changes of documents that this object makes after *revision*."""
        while True:
            steps = self._state.document_steps_after(revision)
            for step in steps:
                revision = step.revision
                yield step
            if not steps:
                await self._changed.wait()

    async def change_document(
        self, key: DocumentKey, expected: SharedDocument | None, fresh: SharedDocument | None
    ) -> bool:
        """Replace a document in the file if it is *expected*."""
        return self._do(lambda state: state.change_document(key, expected, fresh))

    async def close(self) -> None:
        """Do nothing, since no file is open between writes."""

    def _do(self, change: Callable[[CoordinationState], T]) -> T:
        """Make a change, which is durable before it takes effect."""
        state = self._state.copy()
        answer = change(state)
        self._write(state)
        self._state = state
        self._changed.set()
        self._changed = asyncio.Event()
        return answer

    def _write(self, state: CoordinationState) -> None:
        view = state.view()
        file = _File(
            cluster=state.cluster,
            members=dict(view.members),
            shards=dict(view.configurations),
            documents=list(state.documents().by_key.values()),
        )
        if file == self._written:
            return
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as stream:
                stream.write(msgspec.json.encode(file))
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            raise CoordinationFailed(f"cannot write {self._path}: {error.strerror}") from error
        self._written = file


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
