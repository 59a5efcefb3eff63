"""What a command found, in the form asked for: data on standard output, words on standard error.

A table is coloured on a terminal; elsewhere, and with ``NO_COLOR``, it is plain text in columns.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import click
import msgspec

from rota.client.cli.human import now
from rota.core.instants import Instant

V = TypeVar("V", bound=msgspec.Struct)

STYLES = {
    "success": "green",
    "succeeded": "green",
    "fired": "green",
    "running": "cyan",
    "failed": "red",
    "timed_out": "red",
    "lost": "red",
    "missed": "red",
    "backing_off": "yellow",
    "skipped": "yellow",
    "coalesced": "yellow",
    "cancelled": "yellow",
    "queued": "dim",
    "blocked": "dim",
    "ready": "dim",
    "finished": "dim",
}
"""Colours of the words for states and outcomes, wherever they stand alone."""


@dataclass(frozen=True)
class Column(Generic[V]):
    """A column of a table.

    Attributes:
        text: The cell of a view, seen at an instant.
        is_wide: Shown with ``-o wide`` only.
        is_optional: Left out where every cell is empty.
    """

    title: str
    text: Callable[[V, Instant], str]
    is_wide: bool = False
    is_optional: bool = False


@dataclass(frozen=True)
class Look(Generic[V]):
    """How views of one kind are shown.

    Attributes:
        name: What ``-o name`` shows.
    """

    columns: Sequence[Column[V]]
    name: Callable[[V], str]


def show_many(views: Sequence[V], look: Look[V], form: str) -> None:
    """Print *views* in *form*, one of `rota.client.cli.options.FORMATS`."""
    match form:
        case "json":
            _print_json(views)
        case "yaml":
            _print_yaml(views)
        case "jsonl" | "name":
            _print_lines(views, look, form)
        case _:
            print_table(*_cells(views, look, is_wide=form == "wide"))


def show_one(view: V, look: Look[V], form: str) -> None:
    """Print *view* in *form*; a table has one row."""
    match form:
        case "json":
            _print_json(view)
        case "yaml":
            _print_yaml(view)
        case _:
            show_many([view], look, form)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    clean = [[_printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _print_coloured(titles, clean)
    else:
        _print_plain(titles, clean)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one a line; those without a value are left out."""
    width = max(len(name) for name, _ in facts)
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for name, value in facts:
        if value:
            title = f"{name:{width}}"
            shown = click.style(title, dim=True) if is_coloured else title
            click.echo(f"{shown}  {_printable(value)}")


def say(text: str) -> None:
    """Print words for people on standard error."""
    click.echo(text, err=True)


def _cells(
    views: Sequence[V], look: Look[V], *, is_wide: bool
) -> tuple[list[str], list[list[str]]]:
    at = now()
    columns = [column for column in look.columns if is_wide or not column.is_wide]
    rows = [[column.text(view, at) for column in columns] for view in views]
    kept = [
        number
        for number, column in enumerate(columns)
        if not column.is_optional or any(row[number] for row in rows)
    ]
    return [columns[number].title for number in kept], [[row[n] for n in kept] for row in rows]


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _print_yaml(value: object) -> None:
    import yaml

    plain = msgspec.to_builtins(value)
    click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100), nl=False)


def _print_lines(views: Sequence[V], look: Look[V], form: str) -> None:
    for view in views:
        click.echo(look.name(view) if form == "name" else msgspec.json.encode(view))


def _print_plain(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [titles, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    for line in lines:
        padded = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _print_coloured(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, no_wrap=title not in _FOLDED, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console = Console()
    # Ids are copied: on a narrow terminal, lines are broken rather than ids cut.
    console.width = max(console.width, _width_min(titles, rows))
    console.print(table)


def _width_min(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = [max(len(cell) for cell in column) for column in zip(titles, *rows, strict=True)]
    return sum(
        2 + (min(width, _FOLDED_WIDTH) if title in _FOLDED else width)
        for title, width in zip(titles, widths, strict=True)
    )


_FOLDED = frozenset({"REASON", "COMMAND", "SCHEDULE", "NOTE"})
"""Columns with what people wrote, which may be long."""
_FOLDED_WIDTH = 24


def _printable(text: str) -> str:
    """Return *text* in one line that cannot steer a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
