"""The documentation for programs that read text: llms.txt (https://llmstxt.org), llms-full.txt."""

from itertools import pairwise
from pathlib import Path, PurePosixPath

from tools.docs_site.contents import Group
from tools.docs_site.pages import MARKDOWN, Page, plain

DOCS = PurePosixPath("docs")


def short(root: Path, groups: list[Group]) -> str:
    """Return llms.txt: what rota is, and a line for each page of the navigation."""
    lines = ["# rota", "", f"> {_what_it_is(root)}"]
    for group in groups:
        lines += ["", f"## {group.title}", ""]
        for entry in group.entries:
            summary = f": {entry.summary}" if entry.summary else ""
            lines.append(f"- [{entry.label}]({entry.path.relative_to(DOCS)}){summary}")
    return "\n".join((*lines, ""))


def full(pages: dict[PurePosixPath, Page], groups: list[Group]) -> str:
    """Return llms-full.txt: all pages of docs, those of the navigation first, in its order."""
    order = {entry.path: number for number, group in enumerate(groups) for entry in group.entries}
    listed = sorted(pages, key=lambda path: (order.get(path, len(groups)), str(path)))
    return "\n".join(f"<!-- {path} -->\n\n{pages[path].text.strip()}\n" for path in listed)


def _what_it_is(root: Path) -> str:
    """Return the first paragraph of README.md that is not in italics."""
    tokens = MARKDOWN.parse((root / "README.md").read_text())
    return next(
        plain(token)
        for before, token in pairwise(tokens)
        if before.type == "paragraph_open" and not token.content.startswith("*")
    )
