"""Options that several commands have, and what they stand for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.client.cli.human import now
from rota.core.instants import (
    SECOND,
    Instant,
    format_instant,
    parse_duration,
    parse_instant,
)

if TYPE_CHECKING:  # No cycle is dodged: help texts shall not load an HTTP library.
    from rota.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])  # Any: options fit whatever command

REPEATS_MAX = 2
"""Whoever waits at a terminal wants to know soon that there is no node."""
FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")


def examples(*lines: str) -> str:
    """Return the end of a help text: commands to try, kept line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def connect() -> "Client":
    """Return a client of the node that ``--url`` or ``$ROTA_URL`` names.

    Raises:
        click.UsageError: It is no URL.
    """
    from rota.client.client import Client

    url = click.get_current_context().find_root().obj
    try:
        return Client(url, repeats_max=REPEATS_MAX)
    except ValueError as error:
        raise click.UsageError(f"{error} (--url or $ROTA_URL)") from error


def url_option(command: F) -> F:
    """Add ``--url``."""
    return click.option(
        "--url",
        metavar="URL",
        expose_value=False,
        callback=_keep_url,
        help="Where the node is.  [default: $ROTA_URL or http://127.0.0.1:7400]",
    )(command)


def namespace_option(command: F) -> F:
    """Add ``--namespace``."""
    return click.option(
        "-n", "--namespace", metavar="NAME", help="Of a job named without.  [default: default]"
    )(command)


def format_option(command: F) -> F:
    """Add ``--output``, passed as *form*."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(FORMATS),
        metavar="FORM",
        default="table",
        help="table, wide, json, jsonl, yaml or name.  [default: table]",
    )(command)


def as_time(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Return a time as RFC 3339 text; a duration is so long ago."""
    if text is None:
        return None
    try:
        return format_instant(parse_instant(text))
    except ValueError:
        pass
    try:
        return format_instant(Instant(now() - parse_duration(text)))
    except (ValueError, OverflowError) as error:
        detail = (
            f"{text!r} is neither a time such as 2027-01-01T00:00:00Z nor how long ago, "
            "such as 90m or 2d"
        )
        raise click.BadParameter(detail, ctx, param) from error


def as_seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Return a duration as seconds; a bare number is seconds."""
    if text is None:
        return None
    try:
        return parse_duration(f"{text}s" if text[-1:].isdecimal() else text) / SECOND
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _keep_url(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del param
    if value is not None:
        ctx.find_root().obj = value
