"""The table of ``docs/reference/metrics.md``, from what nodes measure; ``make docs`` writes it."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from rota.node.api.markdown import cell, table
from rota.node.measures import MEASURES, Label, Measure

BEGIN, END = "<!-- metrics: written by `make docs` -->", "<!-- /metrics -->"
HEADER = ("metric", "type", "unit", "labels", "meaning")


def with_table(page: str, measures: Iterable[Measure]) -> str:
    """Return *page* with the table of *measures* between its two marks.

    Raises:
        ValueError: It has no marks.
    """
    made = "\n".join((BEGIN, "", *table(HEADER, map(_row, measures)), "", END))
    between = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    written, count = re.subn(between, lambda _: made, page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"the page has to have {BEGIN}, and {END} after it")
    return written


def _row(measure: Measure) -> tuple[str, ...]:
    return (
        f"`{measure.name}`",
        measure.kind.value,
        measure.unit,
        "; ".join(map(_label, measure.labels)),
        cell(_meaning(measure)),
    )


def _label(label: Label) -> str:
    return f"`{label.name}`: {label.text or ', '.join(f'`{each}`' for each in label.values)}"


def _meaning(measure: Measure) -> str:
    buckets = measure.buckets
    said = f"; buckets from {buckets[0]:g} to {buckets[-1]:g} s" if buckets else ""
    more = f" ([more]({measure.see}))" if measure.see else ""
    return f"{measure.meaning}{said}{more}"


def main() -> None:
    """Write the table into a page."""
    file = Path(sys.argv[1])
    file.write_text(with_table(file.read_text(), MEASURES.values()))


if __name__ == "__main__":
    main()
