"""Who is alive and who owns what: a seam, and its implementation for a node that is alone.

A cluster's truth is small: for every shard a configuration, changed only by compare-and-set on
its epoch (PROTOCOL R1, R3), and for every node a session while it lives. Alone, both are a file.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from rota.core.errors import RotaError
from rota.core.ids import Epoch, NodeId, Session, ShardId


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    node_id: NodeId
    store_id: str
    address: str
    peer_address: str = ""
    zone: str = ""
    labels: dict[str, str] = {}


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a shard: its epoch, its primary and that node's session."""

    epoch: Epoch
    primary: NodeId
    primary_session: Session


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """A compare-and-set: *configuration* replaces the one of epoch *expected* (0 for none)."""

    shard: ShardId
    expected: Epoch
    configuration: Configuration


class CoordinationFailed(RotaError):
    """The coordination state cannot be read or written."""

    code = "coordination_failed"


class Coordinator(Protocol):
    """The seam; every implementation passes tests/contract/test_coordinator.py."""

    async def join(self, member: Member, session: Session) -> None:
        """Make *member* known, alive in *session*; an earlier session of it is over.

        Raises:
            CoordinationFailed: The state cannot be written.
        """
        ...

    async def configurations(self) -> Mapping[ShardId, Configuration]:
        """Return the configuration of every shard that ever had one."""
        ...

    async def swap(self, swaps: Sequence[Swap]) -> list[bool]:
        """Carry out each of *swaps* whose expectation holds; tell which did.

        Raises:
            ValueError: A new epoch is not the expected one plus 1 (R1).
            CoordinationFailed: The state cannot be written; none was carried out.
        """
        ...

    async def leave(self) -> None:
        """End the session of the member that joined."""
        ...


class _Alone(msgspec.Struct, kw_only=True):
    """The coordination state of a node that is alone."""

    session: Session = Session("")
    shards: dict[int, Configuration] = {}


class EmbeddedCoordinator:
    """Coordination for one node, in a file of its data directory.

    The data directory's lock keeps a second node out, so the file has one writer; every change is
    synced and put in place whole.

    Args:
        path: The file; made if it is missing.

    Raises:
        CoordinationFailed: The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = _Alone()
        if path.exists():
            try:
                self._state = msgspec.json.decode(path.read_bytes(), type=_Alone)
            except msgspec.DecodeError as error:
                raise CoordinationFailed(
                    f"{path} is damaged ({error}); restore it from a backup of the data directory"
                ) from error

    async def join(self, member: Member, session: Session) -> None:
        """Note the session; there is nobody to tell of the member."""
        del member
        self._state.session = session
        self._save()

    async def configurations(self) -> Mapping[ShardId, Configuration]:
        """Return what the file says."""
        return {ShardId(shard): found for shard, found in self._state.shards.items()}

    async def swap(self, swaps: Sequence[Swap]) -> list[bool]:
        """Carry out what may be, with one write for all."""
        before = dict(self._state.shards)
        done = [self._swap_one(swap) for swap in swaps]
        if any(done):
            try:
                self._save()
            except CoordinationFailed:
                self._state.shards = before
                raise
        return done

    async def leave(self) -> None:
        """End the session."""
        self._state.session = Session("")
        self._save()

    def _swap_one(self, swap: Swap) -> bool:
        if swap.configuration.epoch != swap.expected + 1:
            raise ValueError(f"epoch {swap.configuration.epoch} does not follow {swap.expected}")
        current = self._state.shards.get(swap.shard)
        if (current.epoch if current else 0) != swap.expected:
            return False
        self._state.shards[swap.shard] = swap.configuration
        return True

    def _save(self) -> None:
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.write(msgspec.json.encode(self._state))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            raise CoordinationFailed(f"cannot write {self._path}: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
