"""Shared documents in files, and how they are applied."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Column, Look
from rota.client.cli.documents.kinds import kind_of, unknown_kind, word_of
from rota.client.cli.inputs.files import Item
from rota.core.timing.calendars import DEPTH_MAX, Calendar, circle_of
from rota.wire.documents import DocumentView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

FIELDS = ("kind", "name", "definition", "version", "changedAt", "changedBy")
"""The fields of a document in a file; `get` shows those after the definition, and they are ignored
when a file is read."""
STAND_IN_ROLE = "viewer"
CALENDARS_IN = ("includes", "excludes")
"""The fields of a calendar that name others."""
CALENDARS_OF_JOB = ("onlyCalendars", "exceptCalendars")
"""The fields of a job that name calendars."""


class AppliedDocument(DocumentView, frozen=True, kw_only=True):
    """A document, and the change that applying its definition made.

    Attributes:
        change: ``created``, ``replaced`` or ``unchanged``.
    """

    change: str


APPLIED: Look[AppliedDocument] = Look(
    name=lambda applied: f"{word_of(applied.kind)}:{applied.name}",
    columns=(
        Column("DOCUMENT", lambda applied, _: f"{word_of(applied.kind)} {applied.name}"),
        Column("CHANGE", lambda applied, _: applied.change),
        Column("VERSION", lambda applied, _: str(applied.version)),
    ),
)


class Given(NamedTuple):
    """A document in a file.

    Attributes:
        kind: The kind of the document.
        name: The name of the document.
        definition: The definition.
        place: The file, and the number of the document in it.
    """

    kind: str
    name: str
    definition: dict[str, Any]  # Any: JSON, which the node checks.
    place: str


def document_of(item: Item) -> Given:
    """Return the document that *item* is.

    Raises:
        InvalidFile: It has not the fields of a document.
    """
    from rota.client.definitions import InvalidFile

    fields, place = item.fields, item.place
    kind = kind_of(str(fields["kind"]))
    if kind is None:
        raise InvalidFile(f"{place}: {unknown_kind(str(fields['kind']))}")
    unknown = sorted(fields.keys() - set(FIELDS))
    if unknown:
        close = get_close_matches(unknown[0], FIELDS, n=1)
        remedy = f"did you mean {close[0]!r}? A" if close else "remove it: a"
        raise InvalidFile(
            f"{place}: unknown field {unknown[0]!r}; {remedy} document has kind, name and "
            "definition"
        )
    name, definition = fields.get("name"), fields.get("definition")
    if not isinstance(name, str) or not isinstance(definition, dict):
        raise InvalidFile(f"{place}: the document needs a name (text) and a definition (an object)")
    return Given(kind.plural, name, cast("dict[str, Any]", definition), place)


def in_order(given: Iterable[Given]) -> list[Given]:
    """Return documents in the order in which they are written: each after those that it names."""
    waiting = {(each.kind, each.name): each for each in reversed(list(given))}
    found: list[Given] = []
    while waiting:
        _take(next(reversed(waiting)), waiting, found)
    return found


def _take(key: tuple[str, str], waiting: dict[tuple[str, str], Given], found: list[Given]) -> None:
    """Move a document, after those that it names, from *waiting* to *found*."""
    each = waiting.pop(key)
    for named in _named_in(each):
        if named in waiting:
            _take(named, waiting, found)
    found.append(each)


def _named_in(given: Given) -> list[tuple[str, str]]:
    """Return kind and name of the documents that a document names."""
    definition = given.definition
    if given.kind == "bindings":
        return [("roles", str(definition.get("role")))]
    if given.kind == "calendars":
        return [("calendars", each) for each in sorted(calendars_in(definition, CALENDARS_IN))]
    return []


def calendars_in(definition: Mapping[str, Any], fields: Iterable[str]) -> set[str]:
    """Return the names of the calendars in the lists *fields* of a job or a calendar; Any: JSON."""
    lists = (definition.get(field) for field in fields)
    given = (cast("list[object]", names) for names in lists if isinstance(names, list))
    return {str(name) for names in given for name in names}


def circles_of(given: Iterable[Given], present: Iterable[DocumentView] = ()) -> dict[str, str]:
    """Return what is wrong with calendars that name each other in a circle, by their names.

    A node checks each calendar against those that it has; of those that name each other, it would
    take the first ones and refuse the last.

    Args:
        given: Documents, of which the calendars are checked.
        present: The calendars of the node, in whose place the given ones are written.
    """
    new = {each.name: each.definition for each in given if each.kind == "calendars"}
    both = {**{each.name: each.definition for each in present}, **new}
    calendars = {name: _names_of(name, definition) for name, definition in both.items()}
    found: dict[str, str] = {}
    for name in new:
        path = circle_of(calendars, name)
        if path:
            is_circle = path[-1] == name
            what = "is part of itself" if is_circle else f"has more than {DEPTH_MAX} levels"
            found[name] = f"the calendar {what}: {' > '.join(path)}; remove one of the names"
    return found


def _names_of(name: str, definition: Mapping[str, Any]) -> Calendar:
    """Return a calendar with the names in *definition*, and nothing else; Any: JSON."""
    named = calendars_in(definition, CALENDARS_IN)
    return Calendar(name=name, includes=tuple(sorted(named)))


def apply_documents(
    client: "Client", given: Sequence[Given], *, is_dry: bool
) -> list[AppliedDocument]:
    """Apply documents in their order, and return them with their changes.

    Raises:
        InvalidFile: As for `missing_documents`.
    """
    missing = missing_documents(client, given) if is_dry else ()
    return [apply_document(client, each, is_dry=is_dry, missing=missing) for each in given]


def missing_documents(client: "Client", given: Sequence[Given]) -> set[tuple[str, str]]:
    """Return kind and name of those among *given* that others name and that the node lacks.

    It lacks a calendar, too, if it has another definition for it.

    Raises:
        InvalidFile: Calendars name each other in a circle.
    """
    from rota.client.definitions import InvalidFile

    if any(each.kind == "calendars" for each in given):
        circles = circles_of(given, client.documents("calendars"))
        for each in given:
            if each.kind == "calendars" and each.name in circles:
                raise InvalidFile(f"{each.place}: {circles[each.name]}")
    by_key = {(each.kind, each.name): each for each in given}
    named = {key for each in by_key.values() for key in _named_in(each) if key in by_key}
    return {key for key in named if _is_missing(document_before(client, by_key[key]), by_key[key])}


def _is_missing(before: DocumentView | None, given: Given) -> bool:
    # A node checks calendars against the old definitions, which may name each other differently.
    return before is None or (given.kind == "calendars" and before.definition != given.definition)


def document_before(client: "Client", given: Given) -> DocumentView | None:
    """Return the document that *given* replaces; None if it does not exist."""
    from rota.client.errors import NotFound

    try:
        return client.document(given.kind, given.name)
    except NotFound:
        return None


def _without(given: Given, missing: Collection[tuple[str, str]]) -> dict[str, Any]:
    """Return the definition of a document without the names of *missing* documents."""
    definition = given.definition
    if not any(named in missing for named in _named_in(given)):
        return definition
    if given.kind == "bindings":
        return {**definition, "role": STAND_IN_ROLE}
    kept = {
        field: [name for name in definition[field] if ("calendars", name) not in missing]
        for field in CALENDARS_IN
        if field in definition
    }
    return {**definition, **kept}


def apply_document(
    client: "Client", given: Given, *, is_dry: bool, missing: Collection[tuple[str, str]] = ()
) -> AppliedDocument:
    """Apply a document, and return it with the change.

    Args:
        client: The client.
        given: The document.
        is_dry: True if it is only checked.
        missing: Kind and name of documents that will exist, or have another definition, when the
            document is written. Since nodes refuse names of what does not exist, the document is
            checked without these calendars, or with a built-in role.
    """
    from rota.client.errors import RequestFailed

    present = document_before(client, given)
    before = present.version if present else 0
    is_same = present is not None and present.definition == given.definition
    definition = given.definition if is_same else _without(given, missing)
    try:
        after = client.put_document(given.kind, given.name, definition, dry_run=is_dry)
    except RequestFailed as error:
        error.file = given.place
        say(f"{word_of(given.kind)} {given.name!r} is refused:")
        raise
    # Without its new names, a document may look like the present one.
    is_unchanged = after.version == before and definition is given.definition
    change = "unchanged" if is_unchanged else "replaced" if before else "created"
    fields = {name: getattr(after, name) for name in after.__struct_fields__}
    if definition is not given.definition:
        fields["definition"] = given.definition
    return AppliedDocument(change=change, **fields)
