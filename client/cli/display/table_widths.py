"""Tables that are as wide as a terminal.

Text of users is continued below, names are shortened in the middle, and columns that matter least
are left out. Ids and times stay in one piece: users copy them.
"""

from collections.abc import Sequence

LEAST = 10
"""The width to which a column of text may be narrowed; the titles are shorter."""

_LEFT_OUT = (
    *("LATE", "TRIGGER", "MEMORY", "CPU", "TASKS", "WAITING", "FIRES", "TOOK"),
    *("ENDED", "VERSION", "REASON", "FIRE TIME", "EXECUTION"),
)
"""The titles of columns that may be left out, in this order. Another command shows the values."""

_WHOLE = frozenset({"EXECUTION", "ID", "JOB ID", "BACKFILL", "HASH", "REQUEST", "KEY"})
_TIMES = frozenset({"UNTIL", "LOCAL", "STARTED", "FINISHED", "RECORDED", "UPDATED", "AT"})
_NAMES = frozenset({"JOB", "TASK", "NAME"})
_GAP = 2


def fitted(titles: Sequence[str], widths: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the columns that a table of *room* columns shows, and their widths.

    The table is wider than *room* if ids and times alone are. The first column is always shown.

    Args:
        titles: The titles of all columns.
        widths: The widths that hold all cells and titles.
        room: The width of the terminal.
    """
    kept = list(range(len(titles)))
    least = [_least(*each) for each in zip(titles, widths, strict=True)]
    for title in _LEFT_OUT:
        if _total([least[each] for each in kept]) <= room:
            break
        kept = [each for each in kept if each == 0 or titles[each] != title]
    return kept, narrowed([titles[each] for each in kept], [widths[each] for each in kept], room)


def narrowed(titles: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """Return *widths* with columns of text narrowed to a table of *room* columns, if possible.

    The widest column is narrowed first, so that short names stay in one line.
    """
    found = list(widths)
    least = [_least(*each) for each in zip(titles, widths, strict=True)]
    for _ in range(_total(found) - room):
        wide = [each for each, width in enumerate(found) if width > least[each]]
        if not wide:
            break
        found[max(wide, key=found.__getitem__)] -= 1
    return found


def with_short_names(
    titles: Sequence[str], cells: Sequence[str], widths: Sequence[int]
) -> list[str]:
    """Return the cells of a row, with names that are too long shortened in the middle.

    Names of jobs differ at their ends, too. A cell with spaces is no name.
    """
    return [
        _shortened(cell, width) if title in _NAMES and " " not in cell else cell
        for title, cell, width in zip(titles, cells, widths, strict=True)
    ]


def _shortened(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def _least(title: str, width: int) -> int:
    return width if _is_whole(title) else min(width, LEAST)


def _is_whole(title: str) -> bool:
    return title in _WHOLE or title in _TIMES or title.endswith("(UTC)")


def _total(widths: Sequence[int]) -> int:
    """Return the width of a table with the gaps between its columns."""
    return sum(widths) + _GAP * (len(widths) - 1)
