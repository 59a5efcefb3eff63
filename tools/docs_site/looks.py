"""The frame of each page of the site: search, navigation, and the text."""

from html import escape
from pathlib import PurePosixPath

from tools.docs_site.contents import Entry

FRAME = """<!doctype html>
<html lang="en" data-root="{root}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · rota</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}/style.css">
<script defer src="{root}/search.js"></script>
<header>
<a href="{root}/index.html">rota</a>
<input type="search" placeholder="Search" aria-label="Search" autocomplete="off">
<ol id="results" hidden></ol>
</header>
<div class="columns">
<nav aria-label="Pages"><details><summary>Pages</summary>
{navigation}</details></nav>
<main>
{body}</main>
</div>
</html>
"""


def framed(
    root: str,
    path: PurePosixPath,
    title: str,
    sections: list[tuple[str, list[tuple[str, Entry]]]],
    body: str,
) -> str:
    """Return the HTML of a page; *root* leads to the root of the site."""
    wide = body.replace("<table>", '<div class="table"><table>').replace(
        "</table>", "</table></div>"
    )
    navigation = "".join(
        f"<h2>{escape(name)}</h2>\n<ul>\n{''.join(_row(path, *row) for row in rows)}</ul>\n"
        for name, rows in sections
    )
    return FRAME.format(root=root, title=escape(title), navigation=navigation, body=wide)


def _row(path: PurePosixPath, link: str, entry: Entry) -> str:
    current = ' aria-current="page"' if entry.path == path else ""
    return f'<li><a href="{link}"{current}>{escape(entry.label)}</a>\n'
