"""Results of commands in a given format: data on standard output, messages on standard error.

On a terminal, a table is coloured; elsewhere, and with ``NO_COLOR``, it is plain text in columns.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Generic, Self, TypeVar
from unicodedata import combining, east_asian_width

import msgspec

from rota.client.cli.display.printing import (
    Styled,
    one_line,
    out,
    rewrite,
    say,
    visible_json,
    visible_yaml,
)
from rota.client.cli.display.table_widths import fitted, narrowed, with_short_names
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
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
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
        case "json" | "yaml":
            print_document(views, form)
        case "jsonl" | "name":
            _print_lines(views, look, form)
        case _:
            _print_views(views, look, is_wide=form == "wide")


def show_one(view: V, look: Look[V], form: str) -> None:
    """Print *view* in *form*; a table has one row."""
    if form in ("json", "yaml"):
        print_document(view, form)
    else:
        show_many([view], look, form)


def print_document(value: object, form: str) -> None:
    """Print *value* in *form*, ``json`` or ``yaml``."""
    if form == "yaml":
        out(as_yaml(value), end="")
    else:
        out(visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


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
        self._is_fitted = form != "wide" and sys.stdout.isatty()

    def print(self, views: Sequence[V]) -> None:
        """Show *views*, each in a line or as a YAML document."""
        match self._form:
            case "yaml":
                for view in views:
                    out("---")
                    print_document(view, "yaml")
            case "json" | "jsonl" | "name":
                _print_lines(views, self._look, self._form)
            case _:
                self._print_rows(views)
        sys.stdout.flush()

    def _print_rows(self, views: Sequence[V]) -> None:
        at, is_first = now(), not self._widths
        if is_first:
            self._widths = [max(each.width, len(each.title)) for each in self._columns]
            self._leave_out()
        titles = [column.title for column in self._columns]
        rows = [[one_line(each.text(view, at)) for each in self._columns] for view in views]
        self._widths = _widths(rows, self._widths)
        if self._is_fitted:
            self._widths = narrowed(titles, self._widths, get_terminal_size().columns)
        _print_lines_of(titles, rows, self._widths, has_head=is_first)

    def _leave_out(self) -> None:
        """Keep the columns for which a terminal has room, given their expected widths."""
        if self._is_fitted:
            titles = [column.title for column in self._columns]
            kept, self._widths = fitted(titles, self._widths, get_terminal_size().columns)
            self._columns = [self._columns[each] for each in kept]


def is_coloured() -> bool:
    """Return True if standard output is a terminal and ``NO_COLOR`` is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    optional: Collection[str] = (),
    is_wide: bool = False,
) -> None:
    """Print a table; *optional* columns without any text are omitted.

    On a terminal, it is as wide as the terminal, unless *is_wide*; see `table_widths`.
    """
    kept = [
        number
        for number, title in enumerate(titles)
        if title not in optional or any(row[number] for row in rows)
    ]
    shown = [titles[number] for number in kept]
    clean = [[one_line(row[number]) for number in kept] for row in rows]
    widths = _widths([shown, *clean], [0] * len(kept))
    if sys.stdout.isatty() and not is_wide:
        fit, widths = fitted(shown, widths, get_terminal_size().columns)
        shown = [shown[each] for each in fit]
        clean = [[row[each] for each in fit] for row in clean]
    _print_lines_of(shown, clean, widths)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair per line; names without a value are omitted."""
    width = max(len(name) for name, _ in facts)
    has_colours = is_coloured()
    for name, value in facts:
        if value:
            title, text = f"{name:{width}}", one_line(value)
            if has_colours:
                out(Styled(title, is_dim=True), "  ", _in_style(text, text))
            else:
                out(f"{title}  {text}")


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
        is_wide=is_wide,
    )


def as_yaml(value: object) -> str:
    """Return *value* as a YAML document."""
    from rota.client.definitions import yaml_text

    plain = msgspec.to_builtins(value)
    return visible_yaml(lambda has_letters: yaml_text(plain, allow_unicode=has_letters))


def _print_lines(views: Sequence[V], look: Look[V], form: str) -> None:
    for view in views:
        if form == "name":
            out(one_line(look.name(view)))
        else:
            out(visible_json(msgspec.json.encode(view).decode()))


def _widths(rows: Iterable[Sequence[str]], least: Sequence[int]) -> list[int]:
    """Return the widths of columns that have the cells of *rows*, at least *least*."""
    widths = list(least)
    for row in rows:
        widths = [max(width, _cells(text)) for width, text in zip(widths, row, strict=True)]
    return widths


def _print_lines_of(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    widths: Sequence[int],
    *,
    has_head: bool = True,
) -> None:
    """Print *rows* in columns, below *titles* if it *has_head*.

    Names that are too long are shortened; other cells are continued below.
    """
    has_colours = is_coloured()
    if has_head:
        line = _padded(titles, widths)
        out(Styled("".join(line).rstrip(), is_bold=True) if has_colours else "".join(line).rstrip())
    for row in rows:
        for cells in _lines_of(with_short_names(titles, row, widths), widths):
            line = _padded(cells, widths)
            if has_colours:
                out(*(_in_style(text, word) for text, word in zip(line, row, strict=True)))
            else:
                out("".join(line))


def _lines_of(row: Sequence[str], widths: Sequence[int]) -> Iterable[Sequence[str]]:
    if all(_cells(cell) <= width for cell, width in zip(row, widths, strict=True)):
        return [row]
    folded = (wrap(cell, width) for cell, width in zip(row, widths, strict=True))
    return zip_longest(*folded, fillvalue="")


def _padded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the cells of a line with the gaps after them; the last has none."""
    *others, last = cells
    padded = [
        f"{cell}{' ' * (w - _cells(cell))}  " for cell, w in zip(others, widths, strict=False)
    ]
    return [*padded, last.rstrip()]


def _cells(text: str) -> int:
    """Return the width of *text* on a terminal, where text of East Asia is wide."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )


def _in_style(text: str, word: str) -> Styled:
    """Return *text* in the style of *word*, which is a state or an outcome."""
    style = STYLES.get(word.removeprefix("execution.").removeprefix("task."))
    return Styled(text, is_dim=True) if style == "dim" else Styled(text, colour=style)
