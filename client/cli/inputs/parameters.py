"""Parameters on the command line: the whole of them, or single members."""

from collections.abc import Iterable
from typing import cast

import click
import msgspec

from rota.client.cli.inputs.json_text import as_json_text, json_of
from rota.client.cli.inputs.options import F
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.wire.documents import Json


def parameters_options(command: F) -> F:
    """Add ``--parameters``, and ``-p``, passed as *overrides*."""
    single = click.option(
        "-p",
        "--parameter",
        "overrides",
        metavar="K=V",
        multiple=True,
        help="Replace a member of its parameters; V is JSON, or otherwise text. Repeatable.",
    )
    whole = click.option(
        "--parameters",
        metavar="JSON",
        callback=as_json_text,
        help="JSON that replaces its parameters; @FILE is a file, - is standard input.",
    )
    return single(whole(command))


def members_of(overrides: Iterable[str]) -> dict[str, Json]:
    """Return the members in the words of ``-p``.

    Raises:
        click.UsageError: A word is not ``K=V``.
    """
    return dict(map(_member, overrides))


def with_members(parameters: Json, members: dict[str, Json]) -> Json:
    """Return *parameters* in which *members* replace those of the same names.

    Raises:
        click.UsageError: *parameters* are no object, so they have no members.
    """
    if not members:
        return parameters
    if not isinstance(parameters, dict | None):
        raise click.UsageError("-p needs parameters that are an object; replace them: --parameters")
    return {**cast("dict[str, Json]", parameters or {}), **members}


def check_names(names: Iterable[str], existing: Json) -> None:
    """Check that no name of ``-p`` is a misspelt name of the parameters *existing*.

    Raises:
        click.UsageError: *existing* lacks the name and has a similar one.
    """
    known = list(cast("dict[str, Json]", existing)) if isinstance(existing, dict) else []
    for name in names:
        hint = did_you_mean(name, known) if name not in known else ""
        if hint:
            raise click.UsageError(
                f"-p {name}: the job has no parameter {in_quotes(name)}; {hint} A new one is given "
                "with --parameters"
            )


def _member(text: str) -> tuple[str, Json]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise click.UsageError(f"{text!r} is not K=V, such as day=2027-01-01")
    try:
        return name, json_of(value)
    except msgspec.DecodeError:
        return name, value
