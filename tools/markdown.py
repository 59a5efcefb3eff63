"""Tables and generated sections of Markdown pages."""

import re
from collections.abc import Iterable, Iterator


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table; columns without content are left out."""
    kept = list(rows)
    columns = [number for number in range(len(header)) if any(row[number] for row in kept)]
    for row in (header, ("---",) * len(header), *kept):
        yield f"| {' | '.join(row[number] for number in columns)} |"


def cell(text: str) -> str:
    """Return *text* in the form of a table cell: on one line, with ``|`` escaped."""
    return text.replace("|", "\\|").replace("\n", " ")


def with_section(page: str, name: str, lines: Iterable[str]) -> str:
    """Return *page* with *lines* between the begin and end marks of section *name*.

    Raises:
        ValueError: The page does not have the marks exactly once.
    """
    begin, end = f"<!-- {name}: written by `make docs` -->", f"<!-- /{name} -->"
    made = "\n\n".join((begin, "\n".join(lines).strip(), end))
    between = f"{re.escape(begin)}.*{re.escape(end)}"
    written, count = re.subn(between, lambda _: made, page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"the page must have {begin}, and {end} after it")
    return written
