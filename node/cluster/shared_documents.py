"""Shared documents on this node: in memory, updated by a watch of the coordinator, copied to disk.

Reads need neither the coordinator nor another node. A change is a compare-and-set at the
coordinator, and all nodes receive it by their watch.

A coordinator that lost documents gets them back: a node that has a higher version of a document
than the coordinator writes its record to the coordinator, again by compare-and-set. Without a
loss, versions never go down, since a deletion is a version too. If several nodes restore a document
at once, the highest version stays. Nothing is written to, or read from, a coordinator without the
record of this cluster: the coordinator may belong to another cluster, and an emptied coordinator
gets the record from a recovery. Until then changes are refused.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.author import Author
from rota.core.model.document_shares import DocumentUse
from rota.core.model.ids import NodeId, Session
from rota.core.model.shared_document import (
    COPY_TRUSTED,
    Definition,
    DocumentKey,
    SharedDocument,
    definition_bytes_max,
    is_forgettable,
    next_version,
    owner_of,
    size_of,
)
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.node.coordination.coordinator import Coordinator, Documents, View
from rota.node.coordination.coordinator_errors import (
    CoordinatorUnavailable,
    OutcomeUnknown,
    WatchLost,
)
from rota.node.system.clock import Clock
from rota.storage.document_copies import (
    compared_at,
    delete_document,
    put_compared,
    put_document,
    stored_documents,
)
from rota.storage.store import Store, StoreStalled

log = logging.getLogger(__name__)

COMPARE_S = 600.0
"""The period in which all documents are compared, even if the watch has detected no gap."""
COMPARE_APART_S = 2.0
"""The period of the comparison while the coordinator lacks the record of this cluster."""
RETRY_S = 1.0
OBSOLETE = Duration(round(2 * COMPARE_S) * SECOND)
"""The age at which records of deleted documents are removed early, where there is no room.

All nodes have run since before the deletion then, and have compared their documents after it."""
OBSOLETE_AT_ONCE = 100
"""The most records that one change removes early."""
TRIES_MAX = 10
"""The number of tries of a change while other clients change the document."""

Listener = Callable[[DocumentKey, SharedDocument | None], None]
"""Called with a key and the new record of its document; with None if the record was removed."""


class SharedDocuments:
    """The shared documents of this node.

    Args:
        coordinator: The store through which all nodes agree.
        store: The store of this node, with the copies on disk.
        continuity: This node's record of the coordinator's past states.
        clock: The clock of this node.
        cluster_id: The id in the cluster's record at the coordinator; None if the ids are not
            compared.

    Attributes:
        use: The number and the size of the documents.

    Raises:
        StoreDamaged: A copy cannot be read.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: Store,
        continuity: CoordinatorContinuity,
        clock: Clock,
        *,
        cluster_id: str | None,
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._continuity = continuity
        self._clock = clock
        self._cluster_id = cluster_id
        self._by_key = {each.key: each for each in stored_documents(store)}
        self.use = DocumentUse()
        for document in self._by_key.values():
            self.use.add(document)
        # A wall clock that was set back to before the comparison does not show their age.
        age = clock.now() - compared_at(store)
        self._is_trusted = not self._by_key or 0 <= age <= COPY_TRUSTED
        self._is_apart = False
        """Whether the coordinator lacks the record of this cluster."""
        self._compared = asyncio.Event()
        self._listeners: list[Listener] = []
        self._sessions: Mapping[NodeId, Session] = {}
        self._complete_since: Instant | None = None
        """Since when all members have had their sessions; None while one has none."""
        self._changing: dict[DocumentKey, str] = {}
        """The documents that requests to this node are changing now, and their owners."""
        self._unsaved: set[DocumentKey] = set()
        """Documents whose copy on disk is outdated, because the disk was too slow."""

    # -- reading --------------------------------------------------------------------------------

    def get(self, key: DocumentKey) -> SharedDocument | None:
        """Return a document; None if it does not exist or was deleted."""
        found = self._by_key.get(key)
        return found if found is not None and found.definition is not None else None

    def record(self, key: DocumentKey) -> SharedDocument | None:
        """Return the record of a document, which may be deleted; None without a record."""
        return self._by_key.get(key)

    def of_kind(self, kind: str) -> list[SharedDocument]:
        """Return the documents of a kind, by name."""
        found = [
            each
            for key, each in self._by_key.items()
            if key.kind == kind and each.definition is not None
        ]
        return sorted(found, key=lambda each: each.name)

    def changing(self, kind: str) -> list[DocumentKey]:
        """Return the documents of a kind that requests to this node are changing now."""
        return [key for key in self._changing if key.kind == kind]

    @property
    def is_current(self) -> bool:
        """Whether this process has read the documents at the coordinator, now or earlier."""
        return self._compared.is_set()

    @property
    def is_trusted(self) -> bool:
        """Whether the copies on this node are recent enough to be used without the coordinator."""
        return self._is_trusted

    async def wait_current(self) -> None:
        """Wait until this process has read the documents at the coordinator."""
        await self._compared.wait()

    def listen(self, listener: Listener) -> None:
        """Call *listener* with every record now, and with each record that changes later."""
        for key, document in self._by_key.items():
            listener(key, document)
        self._listeners.append(listener)

    # -- changes --------------------------------------------------------------------------------

    async def change(
        self,
        key: DocumentKey,
        definition: Definition | None,
        *,
        by: Author | str,
        if_version: int | None = None,
        is_dry: bool = False,
    ) -> SharedDocument:
        """Change a document, and return its record; an equal definition changes nothing.

        Args:
            key: The document.
            definition: The new definition of the document; None to delete the document.
            by: The caller who requested the change, or the name of its principal.
            if_version: The version that the document must have; 0 if it must not exist; None for
                any version.
            is_dry: Whether to check only.

        Raises:
            Refused: With the code ``version_mismatch``, ``document_too_large``,
                ``too_many_documents``, ``contention`` or ``coordination_lost``.
            CoordinatorUnavailable: Nothing was changed.
            OutcomeUnknown: The change may have been made, or may still be made.
        """
        self._check_coordinator()
        if key in self._changing:
            return await self._change(key, definition, by=by, if_version=if_version, is_dry=is_dry)
        self._changing[key] = owner_of(key, definition or {})
        try:
            return await self._change(key, definition, by=by, if_version=if_version, is_dry=is_dry)
        finally:
            del self._changing[key]

    async def _change(
        self,
        key: DocumentKey,
        definition: Definition | None,
        *,
        by: Author | str,
        if_version: int | None,
        is_dry: bool,
    ) -> SharedDocument:
        for _ in range(TRIES_MAX):
            before = self._by_key.get(key)
            self._check_version(key, if_version)
            if (before.definition if before else None) == definition:
                return before or SharedDocument(kind=key.kind, name=key.name, version=0)
            fresh = next_version(key, before, definition, at=self._clock.now(), by=by)
            self._check_size(fresh)
            if why := self._why_no_room(before, fresh):
                if not is_dry and await self._make_room(fresh.owner):
                    continue
                raise Refused(Kind.TOO_MANY, "too_many_documents", why, retry_after_s=60)
            if is_dry:
                return fresh
            if await self._coordinator.change_document(key, before, fresh):
                self._learn([fresh])
                return fresh
            await self._compare()
        raise Refused(
            Kind.CONFLICT,
            "contention",
            f"{key.name!r} was changed {TRIES_MAX} times during the request; try again",
            retry_after_s=1,
        )

    def _check_coordinator(self) -> None:
        if self._continuity.is_recovery_due:
            raise Refused(
                Kind.CONFLICT,
                "coordination_lost",
                "the coordinator (etcd) lost its state, so no shared document can be changed: run "
                "`rota cluster recover-coordination`",
            )

    def _check_version(self, key: DocumentKey, wanted: int | None) -> None:
        document = self.get(key)
        version = document.version if document else 0
        if wanted is None or wanted == version:
            return
        is_now = f"has version {version}" if version else "does not exist"
        wants = f"not version {wanted}" if wanted else "but was not to exist"
        raise Refused(
            Kind.PRECONDITION,
            "version_mismatch",
            f"{key.name!r} {is_now}, {wants}; read it again, and repeat the change",
        )

    def _check_size(self, fresh: SharedDocument) -> None:
        size = size_of(fresh)
        most = definition_bytes_max(fresh.kind)
        if size > most:
            raise Refused(
                Kind.INVALID,
                "document_too_large",
                f"the definition of {fresh.name!r} has {size} bytes of JSON; at most "
                f"{most} are allowed",
            )

    def _why_no_room(self, before: SharedDocument | None, fresh: SharedDocument) -> str:
        # Those of other requests that are under way count, too.
        beside = [
            owner
            for key, owner in self._changing.items()
            if key != fresh.key and key not in self._by_key
        ]
        return self.use.why_no_room(before, fresh, beside)

    async def _make_room(self, owner: str) -> bool:
        """Remove the oldest records of deleted documents of *owner*; return True if there were any.

        A node that was away could have an earlier version, and restore it. So nothing is removed
        whose deletion is older than the session of a node.
        """
        now = self._clock.now()
        self._note_sessions(await self._coordinator.view())
        since = self._complete_since
        if since is None:
            return False
        deleted = sorted(
            (
                each
                for each in self._by_key.values()
                if each.definition is None
                and since <= each.changed_at < now - OBSOLETE
                and owner in ("", each.owner)
            ),
            key=lambda each: each.changed_at,
        )[:OBSOLETE_AT_ONCE]
        for each in deleted:
            # All nodes learn from this version that they may remove theirs.
            obsolete = replace(each, version=each.version + 1, is_obsolete=True)
            if await self._coordinator.change_document(each.key, each, obsolete):
                await self._coordinator.change_document(each.key, obsolete, None)
                self._forget(each.key)
            else:  # Another node removes it, too.
                await self._compare()
        return bool(deleted)

    def _note_sessions(self, view: View) -> None:
        """Note since when all nodes have had the sessions of *view*."""
        sessions = {node: view.lives[node].session for node in view.members if node in view.lives}
        if view.members.keys() != sessions.keys():
            self._complete_since = None
        elif self._complete_since is None or sessions != self._sessions:
            self._complete_since = self._clock.now()
        self._sessions = sessions

    # -- the coordinator ------------------------------------------------------------------------

    async def run(self) -> None:
        """Compare all documents with the coordinator, and watch it in between, until cancelled."""
        while True:
            try:
                revision = await self._compare()
                async with asyncio.timeout(COMPARE_APART_S if self._is_apart else COMPARE_S):
                    await self._watch(revision)
            except (TimeoutError, WatchLost):
                continue
            except (CoordinatorUnavailable, OutcomeUnknown) as error:
                log.debug("documents not read", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)

    async def _watch(self, revision: int) -> None:
        async with aclosing(self._coordinator.watch_documents(revision)) as steps:
            async for news in steps:
                if not self._is_apart:
                    await self._reconcile(news.documents)

    async def _compare(self) -> int:
        """Compare all documents with the coordinator; return its revision."""
        # Checked before the documents are read: if the coordinator's data are replaced in between,
        # the watch from the revision of these documents is lost.
        self._is_apart = not await self._is_of_this_cluster()
        read = await self._coordinator.documents()
        if self._is_apart:
            return read.revision
        if not self._is_trusted and read.by_key:
            self._replace(read)
        await self._reconcile({**dict.fromkeys(self._by_key), **read.by_key})
        self._is_trusted = True
        self._compared.set()
        self._save((), compared=True)
        return read.revision

    async def _reconcile(self, found: Mapping[DocumentKey, SharedDocument | None]) -> None:
        """Store the new records in *found*, and restore those that the coordinator lost.

        Args:
            found: The coordinator's record of each document; None if it has none.
        """
        self._learn(each for each in found.values() if each is not None)
        now = self._clock.now()
        for key, there in found.items():
            known = self._by_key.get(key)
            if known is None or (there is not None and there.version >= known.version):
                forgettable = there is not None and is_forgettable(there, now)
                if forgettable and await self._coordinator.change_document(key, there, None):
                    self._forget(key)
            elif is_forgettable(known, now):
                self._forget(key)
            elif await self._coordinator.change_document(key, there, known):
                log.warning(
                    "document restored at the coordinator, which had lost it",
                    extra={"kind": key.kind, "document": key.name, "version": known.version},
                )

    async def _is_of_this_cluster(self) -> bool:
        """Return True if the coordinator has the record of this cluster."""
        view = await self._coordinator.view()
        self._note_sessions(view)
        if self._cluster_id is None:
            return True
        return view.cluster is not None and view.cluster.id == self._cluster_id

    # -- this node ------------------------------------------------------------------------------

    def _learn(self, documents: Iterable[SharedDocument]) -> None:
        """Take the coordinator's records of newer versions, or of the same version if they differ.

        A record of a lower version is ignored.
        """
        fresh: list[SharedDocument] = []
        for document in documents:
            known = self._by_key.get(document.key)
            if known is None or (known != document and known.version <= document.version):
                self._by_key[document.key] = document
                if known is not None:
                    self.use.remove(known)
                self.use.add(document)
                fresh.append(document)
        for document in fresh:
            self._notify(document.key, document)
        self._save(each.key for each in fresh)

    def _forget(self, key: DocumentKey) -> None:
        known = self._by_key.pop(key, None)
        if known is not None:
            self.use.remove(known)
            self._notify(key, None)
            self._save([key])

    def _notify(self, key: DocumentKey, document: SharedDocument | None) -> None:
        for listener in self._listeners:
            listener(key, document)

    def _replace(self, read: Documents) -> None:
        """Remove the copies that are newer than *read* or not in it, as too old to be restored.

        The copies of this node were last compared longer ago than `COPY_TRUSTED`.
        """
        for key in self._by_key.keys() - read.by_key.keys():
            self._forget(key)
        for key, there in read.by_key.items():
            known = self._by_key.get(key)
            if known is not None and known.version > there.version:
                self._forget(key)

    def _save(self, keys: Iterable[DocumentKey], *, compared: bool = False) -> None:
        """Write copies to disk; copies that a slow disk refuses are written with the next ones."""
        self._unsaved.update(keys)
        if not self._unsaved and not compared:
            return
        batch = self._store.batch()
        for key in self._unsaved:
            document = self._by_key.get(key)
            if document is None:
                delete_document(batch, key)
            else:
                put_document(batch, document)
        if compared:
            put_compared(batch, self._clock.now())
        try:
            self._store.write(batch)
        except StoreStalled:
            return
        self._unsaved.clear()
