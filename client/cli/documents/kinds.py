"""Words for the kinds of shared documents."""

from difflib import get_close_matches

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
            self.fail(unknown_kind(value), param, ctx)
        return kind


def kind_of(word: str) -> str | None:
    """Return the kind that a word names; None if it names none."""
    return next((kind for kind, one in KINDS.items() if word in (kind, one)), None)


def unknown_kind(word: str) -> str:
    """Return the message that *word* names no kind, with a similar kind if there is one."""
    close = get_close_matches(word, [*KINDS, *KINDS.values()], n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    jobs = "; for jobs, see `rota jobs -h`" if word in ("job", "jobs") else ""
    return f"{word!r} is not a kind of documents{hint}; the kinds are: {', '.join(KINDS)}{jobs}"


kind_argument = click.argument("kind", type=KindParameter())
