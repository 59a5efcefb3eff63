"""Printing of the figures of parts."""

from collections.abc import Iterable, Mapping


def show(rows: Iterable[Mapping[str, object]]) -> None:
    """Print the figures by name, one line for each ``scenario``."""
    for row in rows:
        figures = "  ".join(f"{key} {value}" for key, value in row.items() if key != "scenario")
        print(f"  {row['scenario']:<38} {figures}")
