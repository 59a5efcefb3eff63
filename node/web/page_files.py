"""The files of the web page, in memory, as they are sent."""

import gzip
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

INDEX = "index.html"
HASHED = "assets/"
"""The folder of the files whose names contain a hash of their content."""
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """A file of the page.

    Attributes:
        content: Its bytes.
        compressed: The same, compressed with gzip.
        media_type: Its media type.
        etag: The entity tag, with its quotation marks.
        is_hashed: True if the name changes with the content, so that browsers may keep the file.
    """

    content: bytes
    compressed: bytes
    media_type: str
    etag: str
    is_hashed: bool


@cache
def page_files() -> dict[str, PageFile]:
    """Return the files by path; a path is looked up here, and never opened."""
    return dict(_below(files("rota.node.web") / "files", ""))


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    for each in folder.iterdir():
        path = prefix + each.name
        if each.is_dir():
            yield from _below(each, f"{path}/")
        else:
            yield path, _page_file(path, each.read_bytes())


def _page_file(path: str, content: bytes) -> PageFile:
    return PageFile(
        content=content,
        compressed=gzip.compress(content, mtime=0),
        media_type=TYPES[path.rpartition(".")[2]],
        etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        is_hashed=path.startswith(HASHED),
    )
