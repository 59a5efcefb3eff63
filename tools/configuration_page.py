"""Generator of the tables of docs/reference/configuration.md, from the table of settings.

`make docs` writes them; with ``--check``, the program writes nothing and fails if the page is
stale.
"""

import argparse
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from rota.node.system.config import SETTINGS, Setting
from tools.markdown import cell, table, with_section

HEADER = ("setting", "default", "values", "meaning")


def with_settings(page: str) -> str:
    """Return *page* with a table for each group of settings.

    Raises:
        ValueError: The page does not have the marks of the tables exactly once.
    """
    return with_section(page, "settings", _tables())


def _tables() -> Iterator[str]:
    for group, settings in groupby(SETTINGS.values(), key=lambda setting: setting.group):
        yield f"### {group.heading}"
        yield ""
        yield from table(HEADER, map(_row, settings))
        yield ""


def _row(setting: Setting) -> tuple[str, ...]:
    default = f"`{setting.default}`" if setting.default else setting.unset or "empty"
    return tuple(map(cell, (f"`{setting.name}`", default, setting.values.text, setting.meaning)))


def main() -> None:
    """Write the page, or check that it is up to date."""
    parser = argparse.ArgumentParser(description="Write the tables of a page of settings.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--check", action="store_true", help="only fail if the page is stale")
    given = parser.parse_args()
    before = given.page.read_text()
    after = with_settings(before)
    if not given.check:
        given.page.write_text(after)
    elif after != before:
        raise SystemExit(
            f"{given.page} is stale: it does not agree with the settings; run: make docs"
        )


if __name__ == "__main__":
    main()
