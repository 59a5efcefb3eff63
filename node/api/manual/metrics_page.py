"""The table of ``docs/reference/metrics.md``, from what nodes measure; ``make docs`` writes it."""

import sys
from collections.abc import Iterable
from pathlib import Path

from rota.node.api.manual.api_pages import cell, table, with_section
from rota.node.system.metric_definitions import METRICS, Label, MetricDefinition

HEADER = ("metric", "type", "unit", "labels", "meaning")


def with_table(page: str, measures: Iterable[MetricDefinition]) -> str:
    """Return *page* with the table of *measures* between its two marks.

    Raises:
        ValueError: The page has no marks for it.
    """
    return with_section(page, "metrics", table(HEADER, map(_row, measures)))


def _row(measure: MetricDefinition) -> tuple[str, ...]:
    return (
        f"`{measure.name}`",
        measure.kind.value,
        measure.unit,
        "; ".join(map(_label, measure.labels)),
        cell(_meaning(measure)),
    )


def _label(label: Label) -> str:
    return f"`{label.name}`: {label.text or ', '.join(f'`{each}`' for each in label.values)}"


def _meaning(measure: MetricDefinition) -> str:
    buckets = measure.buckets
    said = f"; buckets from {buckets[0]:g} to {buckets[-1]:g} s" if buckets else ""
    more = f" ([more]({measure.see}))" if measure.see else ""
    return f"{measure.meaning}{said}{more}"


def main() -> None:
    """Write the table into a page."""
    file = Path(sys.argv[1])
    file.write_text(with_table(file.read_text(), METRICS.values()))


if __name__ == "__main__":
    main()
