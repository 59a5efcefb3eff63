"""The kinds of shared documents: their words, their tables, and the commands that all have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from rota.client.cli.display.printing import say_done
from rota.client.cli.display.show import Column, Look, show_many, show_one
from rota.client.cli.human import absolute
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    url_option,
)
from rota.wire.documents import (
    BindingBody,
    CalendarBody,
    DocumentView,
    IssuerBody,
    JobTypeBody,
    KeyBody,
    NamespaceBody,
    RoleBody,
    WebhookBody,
)

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

Text = Callable[[DocumentView], str]


def _field(name: str) -> Text:
    return lambda found: str(found.definition.get(name) or "")


def _words(name: str) -> Text:
    return lambda found: " ".join(map(str, found.definition.get(name) or ()))


def _tokens(found: DocumentView) -> list[Mapping[str, Any]]:  # Any: JSON of the node
    return cast("list[Mapping[str, Any]]", found.definition.get("tokens") or [])


def _ends(found: DocumentView) -> str:
    """Return the end of the token that ends last; ``-`` if one has no end."""
    ends = [each.get("expiresAt") for each in _tokens(found)]
    return absolute(max(map(str, ends))) if ends and all(ends) else "-"


def _pause(found: DocumentView) -> str:
    pause: Mapping[str, object] = found.definition.get("pause") or {}
    return " ".join(str(pause[each]) for each in ("at", "by", "reason") if pause.get(each))


def _column(
    title: str, text: Text, *, is_wide: bool = False, is_optional: bool = False
) -> Column[DocumentView]:
    return Column(title, lambda found, _: text(found), is_wide=is_wide, is_optional=is_optional)


def _look(*columns: Column[DocumentView]) -> Look[DocumentView]:
    return Look(name=lambda found: found.name, columns=columns)


NAME = _column("NAME", lambda found: found.name)
CHANGED = (
    _column("CHANGED (UTC)", lambda found: absolute(found.changed_at), is_wide=True),
    _column("BY", lambda found: found.changed_by, is_wide=True),
)
DOCUMENT = _look(
    NAME,
    _column("VERSION", lambda found: str(found.version)),
    _column("CHANGED (UTC)", lambda found: absolute(found.changed_at)),
    _column("BY", lambda found: found.changed_by),
    _column("DESCRIPTION", _field("description"), is_optional=True),
)


@dataclass(frozen=True)
class Kind:
    """A kind of documents.

    Attributes:
        plural: The word of the API.
        one: The word for one document.
        body: The form of a definition.
        look: The table of ``rota get``.
        own_look: The table of the commands of this kind, if it is another.
    """

    plural: str
    one: str
    body: type[msgspec.Struct]
    look: Look[DocumentView] = DOCUMENT
    own_look: Look[DocumentView] | None = None


KINDS = {
    kind.plural: kind
    for kind in (
        Kind("types", "type", JobTypeBody),
        Kind("calendars", "calendar", CalendarBody),
        Kind(
            "webhooks",
            "webhook",
            WebhookBody,
            _look(
                NAME,
                _column("FORMAT", _field("format")),
                _column("NAMESPACE", _field("namespace")),
                _column("SECRET", _field("secret")),
                *CHANGED,
            ),
        ),
        Kind(
            "keys",
            "key",
            KeyBody,
            _look(
                NAME,
                _column("PRINCIPAL", _field("principal")),
                _column(
                    "TOKENS", lambda found: " ".join(str(each["id"]) for each in _tokens(found))
                ),
                _column("EXPIRES (UTC)", _ends),
                _column("FROM", _words("from"), is_optional=True),
                *CHANGED,
            ),
        ),
        Kind("roles", "role", RoleBody, _look(NAME, _column("VERBS", _words("verbs")), *CHANGED)),
        Kind(
            "bindings",
            "binding",
            BindingBody,
            _look(
                _column("SUBJECT", _field("subject")),
                _column("ROLE", _field("role")),
                _column("NAMESPACES", _words("namespaces")),
                NAME,
                *CHANGED,
            ),
        ),
        Kind("issuers", "issuer", IssuerBody),
        Kind(
            "namespaces",
            "namespace",
            NamespaceBody,
            own_look=_look(
                NAME,
                _column("STATE", lambda found: "paused" if _pause(found) else "active"),
                _column("OWNERS", _words("owners")),
                _column("DEFAULTS", _words("defaults")),
                _column("POLICY", _words("policy")),
                _column("PAUSE", _pause, is_wide=True),
                _column("DESCRIPTION", _field("description")),
                *CHANGED,
            ),
        ),
    )
}
_PLURALS = {kind.one: kind.plural for kind in KINDS.values()} | {"secret": "secrets"}
_WORDS = {plural: one for one, plural in _PLURALS.items()}


def word_of(kind: str) -> str:
    """Return the word for one document of a kind; the kind itself if it is unknown."""
    return _WORDS.get(kind, kind)


def document_named(text: str) -> str:
    """Return ``kind:name`` with the plural of the kind; other texts stay as they are."""
    word, colon, name = text.partition(":")
    return f"{_PLURALS.get(word, word)}:{name}" if colon else text


def kind_of(word: str) -> Kind | None:
    """Return the kind that a word names; None if it names none."""
    return next((kind for kind in KINDS.values() if word in (kind.plural, kind.one)), None)


def unknown_kind(word: str) -> str:
    """Return the message that *word* names no kind, with a similar kind if there is one."""
    close = get_close_matches(word, [*KINDS, *(kind.one for kind in KINDS.values())], n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    jobs = "; for jobs, see `rota jobs -h`" if word in ("job", "jobs") else ""
    return f"{word!r} is not a kind of documents{hint}; the kinds are: {', '.join(KINDS)}{jobs}"


class KindParameter(click.ParamType[Kind]):
    """A kind of documents, given by its plural or its singular."""

    name = "kind"

    def convert(
        self,
        value: Any,  # Any: as in click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Kind:
        """Return the kind that *value* names.

        Raises:
            click.BadParameter: *value* names no kind.
        """
        kind = kind_of(value)
        if kind is None:
            self.fail(unknown_kind(value), param, ctx)
        return kind


kind_argument = click.argument("kind", type=KindParameter())
names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True)


def list_command(plural: str, text: str) -> click.Command:
    """Return the command that lists the documents of a kind; *text* is its help text."""
    kind = KINDS[plural]
    called = f"rota {kind.one} list"

    @click.command(
        "list",
        help=text,
        short_help=f"List the {plural}.",
        epilog=examples(called, f"{called} -o json"),
    )
    @format_option
    @url_option
    def command(form: str) -> None:
        with connect() as client:
            show_many(list(client.documents(plural)), kind.own_look or kind.look, form)

    return command


def get_command(plural: str, text: str) -> click.Command:
    """Return the command that shows a document of a kind; *text* is its help text."""
    kind = KINDS[plural]
    called = f"rota {kind.one} get team-a"

    @click.command(
        "get",
        help=text,
        short_help=f"Show a {kind.one}.",
        epilog=examples(called, f"{called} -o json"),
    )
    @click.argument("name")
    @format_option
    @url_option
    def command(name: str, *, form: str) -> None:
        with connect() as client:
            found = client.document(plural, name)
        show_one(found, kind.own_look or kind.look, "yaml" if form == "table" else form)

    return command


def delete_command(
    plural: str, text: str, *lines: str, short_help: str, verb: str = "delete"
) -> click.Command:
    """Return the command that deletes documents of a kind.

    Args:
        plural: The kind.
        text: The help text.
        lines: Its examples.
        short_help: The line in the help text of the group.
        verb: The name of the command, a regular verb in -e.
    """

    @click.command(verb, help=text, short_help=short_help, epilog=examples(*lines))
    @names_argument
    @dry_run_option
    @url_option
    def command(names: tuple[str, ...], *, is_dry: bool) -> None:
        with connect() as client:
            delete_all(client, KINDS[plural], names, is_dry=is_dry, done=f"{verb}d")

    return command


def delete_all(
    client: "Client", kind: Kind, names: tuple[str, ...], *, is_dry: bool, done: str = "deleted"
) -> None:
    """Delete documents of a kind, one after the other, and print what was *done* to each."""
    for name in names:
        client.delete_document(kind.plural, name, dry_run=is_dry)
        say_done(done, f"{kind.one} {name}", is_dry=is_dry)
