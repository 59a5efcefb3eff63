"""``rota get``, ``apply`` and ``delete``: shared documents, such as job types."""

import sys
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from rota.client.cli.display.document_words import KINDS
from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Column, Look, show_many, show_one
from rota.client.cli.documents.document_views import look_of
from rota.client.cli.documents.kinds import kind_argument, kind_of, unknown_kind
from rota.client.cli.human import absolute
from rota.client.cli.inputs.files import STANDARD_INPUT, expanded
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    url_option,
)
from rota.wire.documents import DocumentChangeView, DocumentView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

FIELDS = ("kind", "name", "definition", "version", "changedAt", "changedBy")
"""The fields of a document in a file; `get` shows those after the definition, and they are ignored
when a file is read."""


STAND_IN_ROLE = "viewer"


class AppliedDocument(DocumentView, frozen=True, kw_only=True):
    """A document, and the change that applying its definition made.

    Attributes:
        change: ``created``, ``replaced`` or ``unchanged``.
    """

    change: str


def _name(found: DocumentView) -> str:
    return f"{KINDS.get(found.kind, found.kind)} {found.name}"


APPLIED: Look[AppliedDocument] = Look(
    name=lambda applied: applied.name,
    columns=(
        Column("DOCUMENT", lambda applied, _: _name(applied)),
        Column("CHANGE", lambda applied, _: applied.change),
        Column("VERSION", lambda applied, _: str(applied.version)),
    ),
)
CHANGE: Look[DocumentChangeView] = Look(
    name=lambda change: str(change.version),
    columns=(
        Column("VERSION", lambda change, _: str(change.version)),
        Column("AT (UTC)", lambda change, _: absolute(change.at)),
        Column("BY", lambda change, _: change.by),
        Column("CHANGE", lambda change, _: change.action),
    ),
)


@click.command(
    "get",
    epilog=examples(
        "rota get types",
        "rota get type image.render -o yaml",
        "rota get type image.render --changes",
    ),
)
@kind_argument
@click.argument("name", required=False)
@click.option("--changes", "has_changes", is_flag=True, help="Show the changes of the document.")
@format_option
@url_option
def get_documents(kind: str, *, name: str | None, has_changes: bool, form: str) -> None:
    """List the shared documents of a kind, or show one.

    The kinds are: types (job types), keys, roles, bindings, issuers and namespaces. The YAML form
    can be edited and passed to `rota apply -f`.
    """
    if has_changes and name is None:
        raise click.UsageError("--changes needs the name of a document")
    with connect() as client:
        if name is None:
            show_many(list(client.documents(kind)), look_of(kind), form)
        elif has_changes:
            show_many(client.document_changes(kind, name), CHANGE, form)
        elif form == "table":
            show_one(client.document(kind, name), look_of(kind), "yaml")
        else:
            show_one(client.document(kind, name), look_of(kind), form)


@click.command(
    "apply",
    epilog=examples(
        "rota apply -f types.yaml",
        "rota apply -f types.yaml --dry-run",
        "rota get types -o yaml > types.yaml",
    ),
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="Documents in YAML or JSON, or a folder of such files; - is standard input. Repeatable.",
)
@dry_run_option
@format_option
@url_option
def apply_documents(files: tuple[str, ...], *, is_dry: bool, form: str) -> None:
    """Create or replace shared documents; identical definitions change nothing.

    A document has kind, name and definition. All documents are checked before the first is written.
    Roles are written before the bindings that name them.
    """
    given = in_order(_read(files))
    with connect() as client:
        missing = _missing_roles(client, given)
        applied = [_apply(client, each, is_dry=True, missing_roles=missing) for each in given]
        if not is_dry:
            applied = [_apply(client, each, is_dry=False) for each in given]
    show_many(applied, APPLIED, form)
    if is_dry:
        say("dry run: nothing is changed")


@click.command(
    "delete",
    epilog=examples("rota delete type image.render", "rota delete types a b --dry-run"),
)
@kind_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@dry_run_option
@url_option
def delete_documents(kind: str, *, names: tuple[str, ...], is_dry: bool) -> None:
    """Delete shared documents; jobs that were created with them stay as they are."""
    with connect() as client:
        for name in names:
            client.delete_document(kind, name, dry_run=is_dry)
            named = f"{KINDS[kind]} {name}"
            say(
                f"dry run: nothing is changed; {named} would be deleted"
                if is_dry
                else f"deleted {named}"
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


def _read(files: Iterable[str]) -> Iterable[Given]:
    from rota.client.definitions import parse_definitions, read_definitions

    for file in expanded(files):
        if file == STANDARD_INPUT:
            source, found = "standard input", parse_definitions(sys.stdin.read(), "standard input")
        else:
            source, found = file, read_definitions(Path(file))
        for number, fields in enumerate(found, 1):
            yield _given(fields, f"{source}, document {number}")


def _given(fields: dict[str, Any], place: str) -> Given:
    """Return the document with *fields*; *place* names it in errors.

    Raises:
        InvalidFile: *fields* are not those of a document.
    """
    from rota.client.definitions import InvalidFile

    if "kind" not in fields:
        raise InvalidFile(
            f"{place}: there is no field kind, such as kind: type; apply jobs with "
            "`rota jobs apply`"
        )
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
    return Given(kind, name, cast("dict[str, Any]", definition), place)


def in_order(given: Iterable[Given]) -> list[Given]:
    """Return documents in the order in which they are written: bindings after the roles."""
    return sorted(given, key=lambda each: each.kind == "bindings")


def _missing_roles(client: "Client", given: Iterable[Given]) -> set[str]:
    """Return the roles among *given* that do not exist yet."""
    from rota.client.errors import NotFound

    missing: set[str] = set()
    for each in given:
        if each.kind == "roles":
            try:
                client.document(each.kind, each.name)
            except NotFound:
                missing.add(each.name)
    return missing


def _apply(
    client: "Client", given: Given, *, is_dry: bool, missing_roles: Collection[str] = ()
) -> AppliedDocument:
    """Apply a document, and return it with the change.

    Args:
        client: The client.
        given: The document.
        is_dry: True if it is only checked.
        missing_roles: Roles that will exist when the document is written. A binding of one is
            checked with a built-in role in its place, since nodes refuse roles that do not exist.
    """
    from rota.client.errors import NotFound, RequestFailed

    definition = given.definition
    if given.kind == "bindings" and str(definition.get("role")) in missing_roles:
        definition = {**definition, "role": STAND_IN_ROLE}

    try:
        before = client.document(given.kind, given.name).version
    except NotFound:
        before = 0
    try:
        after = client.put_document(given.kind, given.name, definition, dry_run=is_dry)
    except RequestFailed as error:
        error.file = given.place
        say(f"{KINDS[given.kind]} {given.name!r} is refused:")
        raise
    change = "unchanged" if after.version == before else "replaced" if before else "created"
    fields = {name: getattr(after, name) for name in after.__struct_fields__}
    if definition is not given.definition:
        fields["definition"] = given.definition
    return AppliedDocument(change=change, **fields)
