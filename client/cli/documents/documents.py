"""``rota get`` and ``delete``: shared documents, such as job types."""

from typing import TYPE_CHECKING

import click

from rota.client.cli.display.show import Column, Look, show_many, show_one
from rota.client.cli.documents.kinds import (
    Kind,
    delete_all,
    kind_argument,
    names_argument,
)
from rota.client.cli.human import absolute
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    url_option,
)
from rota.wire.documents import DocumentChangeView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    pass

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
def get_documents(kind: Kind, *, name: str | None, has_changes: bool, form: str) -> None:
    """List the shared documents of a kind, or show one.

    The kinds are: types (job types), calendars, webhooks, keys, roles, bindings, issuers and
    namespaces. The YAML form can be edited and passed to `rota apply -f`.
    """
    if has_changes and name is None:
        raise click.UsageError("--changes needs the name of a document")
    with connect() as client:
        if name is None:
            show_many(list(client.documents(kind.plural)), kind.look, form)
        elif has_changes:
            show_many(client.document_changes(kind.plural, name), CHANGE, form)
        else:
            found = client.document(kind.plural, name)
            show_one(found, kind.look, "yaml" if form == "table" else form)


@click.command(
    "delete",
    epilog=examples("rota delete type image.render", "rota delete types a b --dry-run"),
)
@kind_argument
@names_argument
@dry_run_option
@url_option
def delete_documents(kind: Kind, *, names: tuple[str, ...], is_dry: bool) -> None:
    """Delete shared documents; jobs that were created with them stay as they are.

    A calendar is not deleted while jobs, job types, namespaces or other calendars name it.
    """
    with connect() as client:
        delete_all(client, kind, names, is_dry=is_dry)
