"""Tables whose records belong to a job or an execution, as a draft reads and changes them."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from rota.core.vocabulary.changes import Record, Table

K = TypeVar("K", bound=str)
R = TypeVar("R", bound=Record)


class InnerTables(Generic[K, R]):
    """The records of a table for each owner, with the changes of a draft.

    The key of a record is that of its owner, a slash, and the record's own.
    """

    def __init__(
        self,
        table: Table,
        stored: Mapping[K, Mapping[str, R]],
        write: Callable[[Table, str, Record | None], None],
    ) -> None:
        """Initialize without changes.

        Args:
            table: The table.
            stored: The records before the draft, by owner and own key.
            write: Adds a change to the draft; None deletes the record.
        """
        self._table = table
        self._stored = stored
        self._write = write
        self._changed: dict[K, dict[str, R]] = {}

    def of(self, owner: K) -> dict[str, R]:
        """Return the records of *owner* by their own keys; the caller may change the copy."""
        found = self._changed.get(owner)
        return dict(self._stored.get(owner, {}) if found is None else found)

    def put(self, owner: K, key: str, record: R) -> None:
        """Write a record."""
        self._of(owner)[key] = record
        self._write(self._table, f"{owner}/{key}", record)

    def drop(self, owner: K, key: str) -> None:
        """Delete a record, if there is one."""
        if self._of(owner).pop(key, None) is not None:
            self._write(self._table, f"{owner}/{key}", None)

    def drop_all(self, owner: K) -> None:
        """Delete all records of *owner*."""
        for key in self.of(owner):
            self.drop(owner, key)

    def _of(self, owner: K) -> dict[str, R]:
        if owner not in self._changed:
            self._changed[owner] = self.of(owner)
        return self._changed[owner]
