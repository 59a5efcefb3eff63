"""Limits of the shared documents of a cluster, and shares of them.

A principal that may define secrets and bindings in one namespace must not be able to take the room
of other namespaces, nor that of the administrators of the cluster, who could otherwise not even
revoke a key. Records of deleted documents count, because every node holds them.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rota.core.model.shared_document import SharedDocument, size_of
from rota.core.quoting import in_quotes


class Share(NamedTuple):
    """A number of documents, and their size in bytes."""

    documents: int
    size: int


OF_ALL = Share(10_000, 64 << 20)
OF_NAMESPACES = Share(8_000, 48 << 20)
"""Of the documents that belong to namespaces, together; the rest is for those of the cluster."""
OF_ONE_NAMESPACE = Share(1_500, 8 << 20)


class DocumentUse:
    """The documents that exist, counted in total and by the namespace that they belong to."""

    def __init__(self) -> None:
        self._count = Counter[str]()
        self._size = Counter[str]()

    @property
    def total(self) -> Share:
        """All documents."""
        return Share(self._count.total(), self._size.total())

    @property
    def of_namespaces(self) -> Share:
        """The documents that belong to namespaces."""
        return Share(self.total.documents - self._count[""], self.total.size - self._size[""])

    def of(self, owner: str) -> Share:
        """Return the documents that belong to a namespace; to the cluster if *owner* is empty."""
        return Share(self._count[owner], self._size[owner])

    def ratios(self) -> dict[str, float]:
        """The used parts of the limits, 0 to 1: all, those of namespaces, the fullest namespace."""
        owners = (_ratio(self.of(owner), OF_ONE_NAMESPACE) for owner in self._count if owner)
        return {
            "all": _ratio(self.total, OF_ALL),
            "namespaces": _ratio(self.of_namespaces, OF_NAMESPACES),
            "namespace": max(owners, default=0.0),
        }

    def add(self, document: SharedDocument) -> None:
        """Count a document."""
        self._count[document.owner] += 1
        self._size[document.owner] += size_of(document)

    def remove(self, document: SharedDocument) -> None:
        """Stop counting a document."""
        owner = document.owner
        self._count[owner] -= 1
        self._size[owner] -= size_of(document)
        if not self._count[owner]:
            del self._count[owner], self._size[owner]

    def why_no_room(
        self, before: SharedDocument | None, fresh: SharedDocument, beside: Iterable[str] = ()
    ) -> str:
        """Return why a change is not possible; empty if it is.

        Args:
            before: The document before the change; None for a new one.
            fresh: The document after the change.
            beside: The owners of other new documents that are under way.
        """
        others, owner = list(beside), fresh.owner
        of_owner = before if before is not None and before.owner == owner else None
        of_any = before if before is not None and before.owner else None
        checks = [("the cluster has", self.total, OF_ALL, len(others), before)]
        if owner:
            count = others.count(owner)
            checks += [
                (f"{in_quotes(owner)} has", self.of(owner), OF_ONE_NAMESPACE, count, of_owner),
                ("all namespaces have", self.of_namespaces, OF_NAMESPACES, len(others), of_any),
            ]
        for what, used, most, more, replaced in checks:
            size = size_of(fresh) - (size_of(replaced) if replaced else 0)
            is_full = replaced is None and used.documents + more + 1 > most.documents
            if is_full or (size > 0 and used.size + size > most.size):
                return (
                    f"{what} {used.documents} shared documents of {used.size} bytes, and may have "
                    f"{most.documents} of {most.size} bytes: delete those that are not needed "
                    "(deleted ones count for 30 days, or until all nodes run)"
                )
        return ""


def _ratio(used: Share, most: Share) -> float:
    return max(used.documents / most.documents, used.size / most.size)
