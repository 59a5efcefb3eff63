"""Words for the kinds of shared documents."""

import click

from rota.client.cli.display.document_words import KINDS


class KindParameter(click.ParamType[str]):
    """A kind of documents, given by its plural or its singular."""

    name = "kind"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the kind that *value* names.

        Raises:
            click.BadParameter: *value* names no kind.
        """
        kind = kind_of(value)
        if kind is None:
            self.fail(
                f"{value!r} is not a kind of documents; the kinds are: {_words()}", param, ctx
            )
        return kind


def kind_of(word: str) -> str | None:
    """Return the kind that a word names; None if it names none."""
    return next((kind for kind, one in KINDS.items() if word in (kind, one)), None)


def _words() -> str:
    return ", ".join(KINDS)


kind_argument = click.argument("kind", type=KindParameter())
