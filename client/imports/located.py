"""Values of a YAML or JSON document with their lines, for errors and notes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import cast

from rota.client.definitions import InvalidFile, Lines, ValuePath, documents_with_lines
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.python_source import is_written


class NotWritten(InvalidFile):
    """A value that only the execution of the file would give, in place of one that is needed.

    Attributes:
        line: Its line, from 1.
        detail: The value, and what it is not.
    """

    def __init__(self, file: str, line: int, detail: str) -> None:
        super().__init__(f"{file}:{line}: {detail}")
        self.line = line
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Located:
    """An object of a document.

    Attributes:
        findings: The findings in its file.
        fields: Its members.
        path: The path to it.
        lines: The lines of all values of the document.
    """

    findings: Findings
    fields: Mapping[str, object]
    path: ValuePath
    lines: Lines

    def line(self, key: str | None = None) -> int:
        """Return the line of the member *key*, or of the object."""
        path = self.path if key is None else (*self.path, key)
        return self.lines.get(path) or self.lines.get(self.path, 1)

    def invalid(self, key: str, expected: str) -> InvalidFile:
        """Return the error about a member that is not *expected*."""
        value = self.fields.get(key)
        if not is_written(value):
            detail = f"{key} is {value!r}, which is not written in the file"
            return NotWritten(self.findings.file, self.line(key), detail)
        return self.findings.invalid(
            self.line(key), f"{key} is {self.fields.get(key)!r}; it has to be {expected}"
        )

    def text(self, key: str, default: str = "") -> str:
        """Return a member that is text or a number, as text."""
        value = self.fields.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.invalid(key, "text")
        return str(value)

    def number(self, key: str) -> int | None:
        """Return a member that is an integer of at least 0."""
        value = self.fields.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.invalid(key, "an integer of at least 0")
        return value

    def flag(self, key: str) -> bool:
        """Return a member that is true or false."""
        value = self.fields.get(key, False)
        if value is not None and not isinstance(value, bool):
            raise self.invalid(key, "true or false")
        return bool(value)

    def within(self, key: str) -> "Located":
        """Return a member that is an object; an empty one if it is missing."""
        value = self.fields.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.invalid(key, "an object")
        return self._at(cast("Mapping[str, object]", value or {}), key)

    def texts(self, key: str) -> list[str]:
        """Return a member that is a list of texts or numbers."""
        items = self._items(key)
        if not all(isinstance(each, str | int | float) for each in items):
            raise self.invalid(key, "a list of texts")
        return [str(each) for each in items]

    def mapping(self, key: str) -> dict[str, str]:
        """Return a member that is an object of texts."""
        inner = self.within(key)
        return {name: inner.text(name) for name in inner.fields}

    def objects(self, key: str) -> list["Located"]:
        """Return a member that is a list of objects."""
        items = self._items(key)
        if not all(isinstance(each, dict) for each in items):
            raise self.invalid(key, "a list of objects")
        return [
            self._at(cast("Mapping[str, object]", each), key, number)
            for number, each in enumerate(items)
        ]

    def _items(self, key: str) -> list[object]:
        value = self.fields.get(key)
        if value is not None and not isinstance(value, list):
            raise self.invalid(key, "a list")
        return cast("list[object]", value or [])

    def lose_others(self, known: Collection[str], remedies: Mapping[str, str]) -> None:
        """Add a note on each member with a value that is not in *known*."""
        for key, value in self.fields.items():
            if key not in known and value not in (None, "", [], {}, False):
                remedy = remedies.get(key, "check whether the job needs it")
                self.findings.lose(self.line(key), f"{key} has no equal", remedy)

    def _at(self, fields: Mapping[str, object], *keys: str | int) -> "Located":
        return Located(self.findings, fields, (*self.path, *keys), self.lines)


def documents_in(source: Source, findings: Findings, *, items_key: str = "") -> list[Located]:
    """Return the objects in a file: documents, or items of a document that is a list.

    Args:
        source: The file.
        findings: The findings in it.
        items_key: The key of a document that contains a list of objects in its place, if any.
    """
    found: list[Located] = []
    for value, lines in documents_with_lines(source.text, source.name, is_strict=True):
        whole = Located(findings, {"document": value}, (), {})
        if isinstance(value, list):
            shifted = {("document", *path): line for path, line in lines.items()}
            found += Located(findings, whole.fields, (), shifted).objects("document")
        elif isinstance(value, dict):
            document = Located(findings, cast("Mapping[str, object]", value), (), lines)
            is_list = items_key and isinstance(document.fields.get(items_key), list)
            found += document.objects(items_key) if is_list else [document]
        elif value is not None:
            raise findings.invalid(lines[()], f"{str(value)[:50]!r} is no object")
    return found
