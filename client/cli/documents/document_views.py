"""Tables of shared documents; kinds about access have columns of their own."""

from collections.abc import Mapping
from typing import Any, cast

from rota.client.cli.display.show import Column, Look
from rota.client.cli.human import absolute
from rota.wire.documents import DocumentView

NAME: Column[DocumentView] = Column("NAME", lambda found, _: found.name)
CHANGED: Column[DocumentView] = Column(
    "CHANGED (UTC)", lambda found, _: absolute(found.changed_at), is_wide=True
)
BY: Column[DocumentView] = Column("BY", lambda found, _: found.changed_by, is_wide=True)


def _text(found: DocumentView, field: str) -> str:
    return str(found.definition.get(field) or "")


def _words(found: DocumentView, field: str) -> str:
    return " ".join(map(str, found.definition.get(field) or ()))


def _tokens(found: DocumentView) -> list[Mapping[str, Any]]:  # Any: JSON of the node
    return cast("list[Mapping[str, Any]]", found.definition.get("tokens") or [])


def _ends(found: DocumentView) -> str:
    """Return the end of the token that ends last; empty if one has no end."""
    ends = [each.get("expiresAt") for each in _tokens(found)]
    return absolute(max(map(str, ends))) if ends and all(ends) else ""


DOCUMENT: Look[DocumentView] = Look(
    name=lambda found: found.name,
    columns=(
        NAME,
        Column("VERSION", lambda found, _: str(found.version)),
        Column("CHANGED (UTC)", lambda found, _: absolute(found.changed_at)),
        Column("BY", lambda found, _: found.changed_by),
        Column("DESCRIPTION", lambda found, _: _text(found, "description"), is_optional=True),
    ),
)
KEY: Look[DocumentView] = Look(
    name=lambda found: found.name,
    columns=(
        NAME,
        Column("PRINCIPAL", lambda found, _: _text(found, "principal")),
        Column("TOKENS", lambda found, _: " ".join(str(each["id"]) for each in _tokens(found))),
        Column("EXPIRES (UTC)", lambda found, _: _ends(found) or "-"),
        Column("FROM", lambda found, _: _words(found, "from"), is_optional=True),
        CHANGED,
        BY,
    ),
)
ROLE: Look[DocumentView] = Look(
    name=lambda found: found.name,
    columns=(NAME, Column("VERBS", lambda found, _: _words(found, "verbs")), CHANGED, BY),
)
BINDING: Look[DocumentView] = Look(
    name=lambda found: found.name,
    columns=(
        Column("SUBJECT", lambda found, _: _text(found, "subject")),
        Column("ROLE", lambda found, _: _text(found, "role")),
        Column("NAMESPACES", lambda found, _: _words(found, "namespaces")),
        NAME,
        CHANGED,
        BY,
    ),
)
_OF_KINDS = {"keys": KEY, "roles": ROLE, "bindings": BINDING}


def look_of(kind: str) -> Look[DocumentView]:
    """Return the table of the documents of a kind."""
    return _OF_KINDS.get(kind, DOCUMENT)
