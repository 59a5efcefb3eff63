"""Pages of the documentation, as their tests follow them: files, commands and what these print."""

import doctest
import re
from pathlib import Path
from typing import NamedTuple

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block."""

    language: str
    content: str

    @property
    def file(self) -> str:
        """The name or path in its first line, if it is one of a file; else empty."""
        named = re.match(r"# (\S+)\n", self.content)
        return named[1] if named and self.language not in ("", "text", "json") else ""

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Its commands, each with the output shown below it."""
        if self.language or not self.content.startswith("$ "):
            return []
        parts = re.split(r"^\$ ", self.content, flags=re.MULTILINE)[1:]
        return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]

    def save(self, folder: Path) -> None:
        """Write the file."""
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.content)


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [Block(language, content) for language, content in found]


def sections(page: str) -> dict[str, list[Block]]:
    """Return the blocks of each section that has some, by its heading."""
    found = re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", page, re.MULTILINE)
    return {heading: inside for heading, text in found if (inside := blocks(text))}


def is_as_shown(shown: str, printed: str) -> bool:
    """Return True if a command printed what the page shows; `...` stands for any text."""
    return doctest.OutputChecker().check_output(shown or "\n", printed or "\n", OPTIONS)
