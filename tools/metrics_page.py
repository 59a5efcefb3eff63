"""Generator of the table of docs/reference/metrics.md, from the definitions of the metrics.

``make docs`` writes it.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from rota.node.system.metric_definitions import METRICS, Label, MetricDefinition
from tools.markdown import cell, table, with_section

HEADER = ("metric", "type", "unit", "labels", "meaning")


def with_table(page: str, measures: Iterable[MetricDefinition]) -> str:
    """Return *page* with a table of *measures* between the two marks of the table.

    Raises:
        ValueError: The page does not have the marks of the table exactly once.
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
    range_text = f"; buckets from {buckets[0]:g} to {buckets[-1]:g} s" if buckets else ""
    more = f" ([more]({measure.see}))" if measure.see else ""
    return f"{measure.meaning}{range_text}{more}"


def main() -> None:
    """Write the table into the page that the command line names."""
    file = Path(sys.argv[1])
    file.write_text(with_table(file.read_text(), METRICS.values()))


if __name__ == "__main__":
    main()
