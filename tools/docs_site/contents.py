"""Navigation of the site, derived from the indexes of docs: docs/README.md has its groups."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tools.docs_site.pages import Page

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")
INDEX = "README.md"


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the navigation."""

    path: PurePosixPath
    label: str
    summary: str


@dataclass(frozen=True, slots=True)
class Group:
    """Pages below one heading of the navigation."""

    title: str
    entries: list[Entry] = field(default_factory=list[Entry])


def groups(pages: dict[PurePosixPath, Page], docs: PurePosixPath) -> list[Group]:
    """Return the groups of docs/README.md, in its order; each page appears once.

    A heading of the second level begins a group, and so does a bold row of a table. A link to the
    index of another folder makes a group of the pages that it lists.
    """
    found = [Group("Start")]
    folders: list[Group] = []
    heading = ""
    for line in pages[docs / INDEX].text.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            found.append(Group(heading))
        elif part := re.match(r"\| \*\*(.+?)\*\* \|", line):
            found.append(Group(f"{heading}: {part[1]}"))
        else:
            for entry in _entries(line, docs, pages):
                if entry.path.name == INDEX:
                    folders.append(_folder(entry, pages))
                else:
                    found[-1].entries.append(entry)
    return [group for group in (*found, *folders) if group.entries]


def _entries(line: str, folder: PurePosixPath, pages: dict[PurePosixPath, Page]) -> Iterator[Entry]:
    """Yield the pages that a line of an index links."""
    found = LINK.findall(line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    beside = [cell for cell in cells if not LINK.search(cell)]
    for text, target in found:
        page = pages.get(folder / target)
        if page is not None:
            said = beside[0] if len(found) == 1 and len(cells) > 1 and beside else page.summary
            label = text.replace("`", "") if text.startswith("`") else text[0].upper() + text[1:]
            yield Entry(page.path, label, said)


def _folder(index: Entry, pages: dict[PurePosixPath, Page]) -> Group:
    """Return the group of an index: the index itself, and the pages that it lists."""
    group = Group(index.label, [index])
    for line in pages[index.path].text.splitlines():
        for entry in _entries(line, index.path.parent, pages):
            page = pages[entry.path]
            group.entries.append(Entry(page.path, page.title, page.summary))
    return group
