"""Results of commands in a given format: data on standard output, messages on standard error.

On a terminal, a table is coloured; elsewhere, and with ``NO_COLOR``, it is plain text in columns.
"""

import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import msgspec

from rota.client.cli.display.printing import (
    Piece,
    Styled,
    one_line,
    out,
    print_rich_table,
    rewrite,
    say,
    visible_json,
    visible_yaml,
)
from rota.client.cli.human import now
from rota.core.timing.instants import Instant

V = TypeVar("V", bound=msgspec.Struct)

STYLES = {
    "success": "green",
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
    "deleted": "red",
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
"""Colours of the words for states and outcomes."""


@dataclass(frozen=True)
class Column(Generic[V]):
    """A column of a table.

    Attributes:
        title: The title of the column.
        text: Returns the cell of a view, given the present time.
        is_wide: Whether the column is shown with ``-o wide`` only.
        is_optional: Whether the column is omitted if all its cells are empty.
        width: The minimum width, for the cells of later rows; see `Rows`.
    """

    title: str
    text: Callable[[V, Instant], str]
    is_wide: bool = False
    is_optional: bool = False
    width: int = 0


@dataclass(frozen=True)
class Look(Generic[V]):
    """The presentation of views of one kind.

    Attributes:
        columns: The columns of a table.
        name: Returns the text of a view for ``-o name``.
    """

    columns: Sequence[Column[V]]
    name: Callable[[V], str]


def show_many(views: Sequence[V], look: Look[V], form: str) -> None:
    """Print *views* in *form*, one of `rota.client.cli.inputs.options.FORMATS`."""
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
    """Views that arrive one after another; each is shown immediately.

    Args:
        look: The presentation of the views.
        form: The format. A table has its titles once, and its columns only grow; ``json`` means
            ``jsonl``.
    """

    def __init__(self, look: Look[V], form: str) -> None:
        self._look = look
        self._form = form
        self._columns = [each for each in look.columns if form == "wide" or not each.is_wide]
        self._widths: list[int] = []

    def print(self, views: Sequence[V]) -> None:
        """Show *views*, each in a line or as a YAML document."""
        match self._form:
            case "yaml":
                for view in views:
                    out("---")
                    _print_yaml(view)
            case "json" | "jsonl" | "name":
                _print_lines(views, self._look, self._form)
            case _:
                self._print_rows(views)
        sys.stdout.flush()

    def _print_rows(self, views: Sequence[V]) -> None:
        at = now()
        rows = [[one_line(each.text(view, at)) for each in self._columns] for view in views]
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
            out(Styled(titles, is_bold=True) if is_coloured() else titles)
        for row in rows:
            _print_row([_styled(*sized) for sized in zip(row, self._widths, strict=True)])


def is_coloured() -> bool:
    """Return True if standard output is a terminal and ``NO_COLOR`` is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, optional: Collection[str] = ()
) -> None:
    """Print a table; *optional* columns without any text are omitted."""
    kept = [
        number
        for number, title in enumerate(titles)
        if title not in optional or any(row[number] for row in rows)
    ]
    shown = [titles[number] for number in kept]
    clean = [[one_line(row[number]) for number in kept] for row in rows]
    if is_coloured():
        _print_coloured(shown, clean)
    else:
        _print_plain(shown, clean)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair per line; names without a value are omitted."""
    width = max(len(name) for name, _ in facts)
    has_colours = is_coloured()
    for name, value in facts:
        if value:
            title = f"{name:{width}}"
            shown = Styled(title, is_dim=True) if has_colours else title
            out(shown, "  ", _styled(one_line(value)))


class Counter:
    """The progress of long work, shown on standard error if that is a terminal; a context manager.

    Args:
        verb: The past participle of the work, such as ``created``.
        total: The number of items; below `COUNTED_MIN`, nothing is shown.
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
            say("")

    def add(self, count: int) -> None:
        """Add *count* finished items."""
        self._done += count
        if self._is_shown:
            rewrite(f"{self._verb} {self._done} of {self._total}")


COUNTED_MIN = 100


def _print_views(views: Sequence[V], look: Look[V], *, is_wide: bool) -> None:
    at = now()
    columns = [column for column in look.columns if is_wide or not column.is_wide]
    print_table(
        [column.title for column in columns],
        [[column.text(view, at) for column in columns] for view in views],
        optional=[column.title for column in columns if column.is_optional],
    )


def as_yaml(value: object) -> str:
    """Return *value* as a YAML document."""
    import yaml

    plain = msgspec.to_builtins(value)
    return visible_yaml(
        lambda has_letters: yaml.safe_dump(
            plain, sort_keys=False, allow_unicode=has_letters, width=100
        )
    )


def _print_json(value: object) -> None:
    out(visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def _print_yaml(value: object) -> None:
    out(as_yaml(value), end="")


def _print_lines(views: Sequence[V], look: Look[V], form: str) -> None:
    for view in views:
        if form == "name":
            out(one_line(look.name(view)))
        else:
            out(visible_json(msgspec.json.encode(view).decode()))


def _print_plain(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [titles, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    for line in lines:
        _print_row([f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)])


def _print_row(cells: Sequence[Piece]) -> None:
    """Print cells, each padded to the width of its column."""
    *others, last = cells
    gaps = [piece for cell in others for piece in (cell, "  ")]
    out(*gaps, last.rstrip() if isinstance(last, str) else last)


def _styled(cell: str, width: int = 0) -> Piece:
    padded = f"{cell:{width}}"
    return _in_style(padded, cell) if is_coloured() else padded


def _in_style(text: str, word: str) -> Styled:
    """Return *text* in the style of *word*, which is a state or an outcome."""
    style = STYLES.get(word.removeprefix("execution.").removeprefix("task."))
    return Styled(text, is_dim=True) if style == "dim" else Styled(text, colour=style)


def _print_coloured(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_rich_table(
        titles,
        [[_in_style(cell, cell) for cell in row] for row in rows],
        folded=_FOLDED,
        width_min=_width_min(titles, rows),
    )


def _width_min(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = [max(len(cell) for cell in column) for column in zip(titles, *rows, strict=True)]
    return sum(
        2 + (min(width, _FOLDED_WIDTH) if title in _FOLDED else width)
        for title, width in zip(titles, widths, strict=True)
    )


_FOLDED = frozenset({"REASON", "COMMAND", "SCHEDULE", "NOTE"})
"""The titles of columns with text by users, which may be long."""
_FOLDED_WIDTH = 24
