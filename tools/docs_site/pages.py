"""Pages of the site: the Markdown of docs, and the files of the repository that it links."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
FOREIGN = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The begin of a link with a scheme, which the site does not check."""


@dataclass(frozen=True, slots=True)
class Page:
    """A Markdown file in parsed form."""

    path: PurePosixPath
    """The file, relative to the repository."""

    text: str
    tokens: list[Token]

    @property
    def title(self) -> str:
        """The first heading; without one, the path."""
        return next((text for _, _, text in headings(self.tokens)), str(self.path))

    @property
    def summary(self) -> str:
        """The first sentence of the first paragraph, without marks; empty if there is none.

        The label with which a decision begins is left out.
        """
        for before, token in pairwise(self.tokens):
            if before.type == "paragraph_open" and before.level == 0:
                text = plain(token).removeprefix("Question. ")
                return re.split(r"(?<=[.?]) ", text, maxsplit=1)[0].removesuffix(":")
        return ""


def read_page(root: Path, path: PurePosixPath) -> Page:
    """Return the page at *path* below *root*."""
    text = (root / path).read_text()
    return Page(path, text, MARKDOWN.parse(text))


def headings(tokens: Iterable[Token]) -> Iterator[tuple[Token, str, str]]:
    """Yield the opening token of each heading, its anchor as GitHub makes it, and its text."""
    seen: dict[str, int] = {}
    opened: Token | None = None
    for token in tokens:
        if opened is not None:
            text = plain(token)
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            count = seen.get(anchor, 0)
            seen[anchor] = count + 1
            yield opened, f"{anchor}-{count}" if count else anchor, text
        opened = token if token.type == "heading_open" else None


def links(tokens: Iterable[Token]) -> Iterator[tuple[Token, str, int]]:
    """Yield each link or image, the attribute with its target, and the line of its block."""
    for token in tokens:
        line = token.map[0] + 1 if token.map else 0
        for child in token.children or ():
            if child.type in {"link_open", "image"}:
                yield child, "href" if child.type == "link_open" else "src", line


def plain(token: Token) -> str:
    """Return the text of an inline token or of code, without marks."""
    if token.children is None:
        return token.content
    parts = (
        " " if each.type in {"softbreak", "hardbreak"} else each.content for each in token.children
    )
    return "".join(parts)
