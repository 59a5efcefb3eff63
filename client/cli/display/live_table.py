"""``--watch``: a table that is redrawn or, without a terminal, a line for each change."""

import io
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from shutil import get_terminal_size
from typing import Any, TypeVar

import click
import msgspec

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Look, Rows, show_many, show_one
from rota.client.cli.inputs.options import F, as_seconds
from rota.core.model.given_durations import read_duration

V = TypeVar("V", bound=msgspec.Struct)

INTERVAL = "2s"
NAMES = ("-w", "--watch")

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
# Long lines are cut, so that each takes one line of the terminal.
CUT_LINES, BREAK_LINES = "\x1b[?7l", "\x1b[?7h"
CLEAR_REST_OF_LINE, CLEAR_BELOW = "\x1b[K", "\x1b[J"


class WatchCommand(click.Command):
    """A command in which ``--watch`` may stand before an argument: ``show -w report``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default interval if the word after ``--watch`` is not an interval."""
        given = list(args)
        for place, word in enumerate(args):
            after = args[place + 1] if place + 1 < len(args) else ""
            if word in NAMES and not _is_interval(after):
                given[place] = f"--watch={INTERVAL}"
        return super().parse_args(ctx, given)


def watch_option(command: F) -> F:
    """Add ``--watch``, passed as *watch_s*, to a `WatchCommand`."""
    return click.option(
        *NAMES,
        "watch_s",
        metavar="[INTERVAL]",
        callback=as_seconds,
        help="Refresh every 2s, or INTERVAL, until Ctrl-C.",
    )(command)


def show(
    fetch: Callable[[], Sequence[V]],
    *,
    look: Look[V],
    form: str,
    watch_s: float | None,
    is_newest_first: bool = False,
    if_none: str = "",
    details: Callable[[V], None] | None = None,
) -> None:
    """Show the result of *fetch*, once or, with *watch_s*, repeatedly.

    Args:
        fetch: Requests the views from the node.
        look: The columns of a line.
        form: One of `rota.client.cli.inputs.options.FORMATS`.
        watch_s: The number of seconds between two requests; None for a single request.
        is_newest_first: Whether *fetch* returns the newest view first; changes are printed oldest
            first.
        if_none: The message in place of a table without rows.
        details: Prints one view, in place of a row; *fetch* then returns a single view.
    """

    def draw() -> None:
        found, is_table = fetch(), form in ("table", "wide")
        if is_table and not found:
            say(if_none)
        elif details is None:
            show_many(found, look, form)
        else:
            for view in found:
                if is_table:
                    details(view)
                else:
                    show_one(view, look, form)

    if watch_s is None:
        draw()
    elif sys.stdout.isatty():
        _redraw(draw, watch_s)
    else:
        _print_changes(fetch, look, form, watch_s=watch_s, is_newest_first=is_newest_first)


def _is_interval(word: str) -> bool:
    try:
        read_duration(f"{word}s" if word[-1:].isdecimal() else word)
    except ValueError:
        return False
    return True


def _redraw(draw: Callable[[], None], watch_s: float) -> None:
    """Draw repeatedly in the same place."""
    terminal = sys.stdout
    shown: int | None = None
    terminal.write(HIDE_CURSOR + CUT_LINES)
    try:
        while True:
            lines = _drawn(_surviving(draw, is_first=shown is None))
            if shown:
                terminal.write(f"\x1b[{shown}F")
            terminal.write("".join(f"{line}{CLEAR_REST_OF_LINE}\n" for line in lines))
            terminal.write(CLEAR_BELOW)
            terminal.flush()
            shown = len(lines)
            time.sleep(watch_s)
    finally:
        terminal.write(BREAK_LINES + SHOW_CURSOR)
        terminal.flush()


def _drawn(draw: Callable[[], None]) -> list[str]:
    """Return the lines that *draw* prints, at most as many as the terminal has."""
    frame = _Frame()
    with redirect_stdout(frame), redirect_stderr(frame):
        draw()
    lines = frame.getvalue().splitlines()
    room = get_terminal_size().lines - 1
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], f"... and {len(lines) - room + 1} more lines"]


class _Frame(io.StringIO):
    """A buffer that passes for a terminal, so that output is coloured."""

    def isatty(self) -> bool:
        return True


def _print_changes(
    fetch: Callable[[], Sequence[V]],
    look: Look[V],
    form: str,
    *,
    watch_s: float,
    is_newest_first: bool,
) -> None:
    """Print each view when it is new, and when it has changed."""
    rows = Rows(look, form)
    known: Sequence[V] | None = None
    found: Sequence[V] = ()

    def look_again() -> None:
        nonlocal found
        found = fetch()

    while True:
        _surviving(look_again, is_first=known is None)()
        changed = [view for view in found if view not in (known or ())]
        rows.print(changed[::-1] if is_newest_first else changed)
        known = found
        time.sleep(watch_s)


def _surviving(act: Callable[[], Any], *, is_first: bool) -> Callable[[], None]:
    """Return a form of *act* that prints a missing answer instead of raising, unless *is_first*."""
    from rota.client.errors import TooBusy, Unreachable

    def try_it() -> None:
        try:
            act()
        except (TooBusy, Unreachable) as error:
            if is_first:
                raise
            say(f"{error.detail}; trying again")

    return try_it
