"""Generator of the diagrams and tables in docs/reference/states.md, from the tables of states.

`make docs` writes the page; with ``--check``, the program writes nothing and fails if the page is
stale.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

from rota.core.model.execution import EXECUTION_MOVES, TASK_MOVES

PAGE = "docs/reference/states.md"
BEGIN, END = "<!-- states: written by `make docs` -->", "<!-- /states -->"

S = TypeVar("S", bound=Enum)


def with_diagrams(page: str) -> str:
    """Return *page* with the diagrams and tables between its two marks.

    Raises:
        ValueError: The page does not have the marks exactly once.
    """
    lines = (BEGIN, *_section("Execution", EXECUTION_MOVES), *_section("Task", TASK_MOVES), "", END)
    made = "\n".join(lines)
    between = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    written, count = re.subn(between, lambda _: made, page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{PAGE} must have {BEGIN}, and {END} after it")
    return written


def _section(title: str, moves: Mapping[S, Mapping[S, str]]) -> Iterator[str]:
    """Yield the lines of a diagram, in Mermaid, and of the table below it."""
    first, *_ = moves
    yield from (
        "",
        f"## {title}",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {first.value}",
    )
    for before, followers in moves.items():
        yield from (f"    {before.value} --> {after.value}" for after in followers)
        if not followers:
            yield f"    {before.value} --> [*]"
    yield from ("```", "", "| from | to | when |", "|---|---|---|")
    for before, followers in moves.items():
        for after, reason in followers.items():
            yield f"| `{before.value}` | `{after.value}` | {reason} |"


def main() -> None:
    """Write the page, or check that it is up to date."""
    parser = argparse.ArgumentParser(description=f"Write the diagrams of {PAGE}.")
    parser.add_argument("--check", action="store_true", help="only fail if the page is stale")
    is_check = parser.parse_args().check
    file = Path(__file__).resolve().parents[1] / PAGE
    page = file.read_text()
    drawn = with_diagrams(page)
    if not is_check:
        file.write_text(drawn)
    elif page != drawn:
        raise SystemExit(
            f"{PAGE} is stale: it does not agree with core/model/execution.py; run: make docs"
        )


if __name__ == "__main__":
    main()
