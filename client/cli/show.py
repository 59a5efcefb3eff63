"""What a command found, in the form asked for: data on standard output, words on standard error.

A table is coloured on a terminal; elsewhere, and with ``NO_COLOR``, it is plain text in columns.
"""

import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

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
    "paused": "yellow",
    "replaced": "yellow",
    "created": "green",
    "unchanged": "dim",
    "cancelled": "yellow",
    "queued": "dim",
    "blocked": "dim",
    "ready": "dim",
    "finished": "dim",
    "active": "green",
    "open": "green",
    "draining": "yellow",
    "gone": "red",
    "closed": "red",
}
"""Colours of the words for states and outcomes, wherever they stand alone."""


@dataclass(frozen=True)
class Column(Generic[V]):
    """A column of a table.

    Attributes:
        text: The cell of a view, seen at an instant.
        is_wide: Shown with ``-o wide`` only.
        is_optional: Left out where every cell is empty.
        width: Kept free for cells that come later; see `Rows`.
    """

    title: str
    text: Callable[[V, Instant], str]
    is_wide: bool = False
    is_optional: bool = False
    width: int = 0


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
            _print_views(views, look, is_wide=form == "wide")


def show_one(view: V, look: Look[V], form: str) -> None:
    """Print *view* in *form*; a table has one row."""
    match form:
        case "json":
            _print_json(view)
        case "yaml":
            _print_yaml(view)
        case _:
            show_many([view], look, form)


class Rows(Generic[V]):
    """Views that come one after another, each shown when it comes.

    Args:
        look: How they look.
        form: Of tables, the titles come once, and columns only grow; ``json`` is ``jsonl``.
    """

    def __init__(self, look: Look[V], form: str) -> None:
        self._look = look
        self._form = form
        self._columns = [each for each in look.columns if form == "wide" or not each.is_wide]
        self._widths: list[int] = []

    def print(self, views: Sequence[V]) -> None:
        """Show *views*, each in a line, or as a document of YAML."""
        match self._form:
            case "yaml":
                for view in views:
                    click.echo("---")
                    _print_yaml(view)
            case "json" | "jsonl" | "name":
                _print_lines(views, self._look, self._form)
            case _:
                self._print_rows(views)
        sys.stdout.flush()

    def _print_rows(self, views: Sequence[V]) -> None:
        at = now()
        rows = [[_printable(each.text(view, at)) for each in self._columns] for view in views]
        is_first = not self._widths
        if is_first:
            self._widths = [max(column.width, len(column.title)) for column in self._columns]
        for row in rows:
            sizes = zip(row, self._widths, strict=True)
            self._widths = [max(len(cell), width) for cell, width in sizes]
        if is_first:
            titles = "  ".join(
                f"{column.title:{width}}"
                for column, width in zip(self._columns, self._widths, strict=True)
            ).rstrip()
            click.echo(click.style(titles, bold=True) if is_coloured() else titles)
        for row in rows:
            cells = (_styled(cell, width) for cell, width in zip(row, self._widths, strict=True))
            click.echo("  ".join(cells).rstrip())


def is_coloured() -> bool:
    """Tell whether standard output wants colours: a terminal without ``NO_COLOR`` does."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, optional: Collection[str] = ()
) -> None:
    """Print a table, without those of the *optional* columns in which every cell is empty."""
    kept = [
        number
        for number, title in enumerate(titles)
        if title not in optional or any(row[number] for row in rows)
    ]
    shown = [titles[number] for number in kept]
    clean = [[_printable(row[number]) for number in kept] for row in rows]
    if is_coloured():
        _print_coloured(shown, clean)
    else:
        _print_plain(shown, clean)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one a line; those without a value are left out."""
    width = max(len(name) for name, _ in facts)
    has_colours = is_coloured()
    for name, value in facts:
        if value:
            title = f"{name:{width}}"
            shown = click.style(title, dim=True) if has_colours else title
            click.echo(f"{shown}  {_styled(_printable(value))}")


def print_lines(text: str) -> None:
    """Print text of several lines that somebody else wrote."""
    for line in text.splitlines():
        click.echo(_printable(line))


class Counter:
    """How far long work is, on standard error if that is a terminal; ``with`` it.

    Args:
        verb: What has been done, such as ``created``.
        total: How many there are; below `COUNTED_MIN`, nothing is shown.
    """

    def __init__(self, verb: str, total: int) -> None:
        self._verb = verb
        self._total = total
        self._done = 0
        self._is_shown = total >= COUNTED_MIN and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_shown and self._done:
            click.echo("", err=True)

    def add(self, count: int) -> None:
        """Show that *count* more are done."""
        self._done += count
        if self._is_shown:
            click.echo(f"\r{self._verb} {self._done} of {self._total}", err=True, nl=False)


COUNTED_MIN = 100


def say(text: str) -> None:
    """Print words for people on standard error."""
    click.echo(text, err=True)


def _print_views(views: Sequence[V], look: Look[V], *, is_wide: bool) -> None:
    at = now()
    columns = [column for column in look.columns if is_wide or not column.is_wide]
    print_table(
        [column.title for column in columns],
        [[column.text(view, at) for column in columns] for view in views],
        optional=[column.title for column in columns if column.is_optional],
    )


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


def _styled(cell: str, width: int = 0) -> str:
    padded = f"{cell:{width}}"
    style = STYLES.get(cell.removeprefix("execution.").removeprefix("task."))
    if style is None or not is_coloured():
        return padded
    return click.style(padded, dim=True) if style == "dim" else click.style(padded, fg=style)


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
