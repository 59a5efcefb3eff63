"""How figures of parts are printed."""

from collections.abc import Iterable, Mapping


def show(rows: Iterable[Mapping[str, object]]) -> None:
    """Print figures by name, a ``scenario`` a line."""
    for row in rows:
        figures = "  ".join(f"{key} {value}" for key, value in row.items() if key != "scenario")
        print(f"  {row['scenario']:<38} {figures}")
