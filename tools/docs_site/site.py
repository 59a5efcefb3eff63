"""The files of the site, by their paths, made from a checkout."""

import json
import os
import posixpath
import re
import subprocess
from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from tools.docs_site import llms, looks
from tools.docs_site.contents import INDEX, groups
from tools.docs_site.pages import FOREIGN, MARKDOWN, Page, headings, links, plain, read_page

DOCS = PurePosixPath("docs")
SOURCES = DOCS / "reference" / "api"
"""What `make docs` writes docs/reference/api.md from; no pages of their own."""

OUTSIDE = "repository"
"""The folder of the site with what docs links outside of docs."""
FILES = Path(__file__).parent / "files"


class BrokenLinks(Exception):
    """Links that lead nowhere; the text has one a line, as ``path:line: link``."""


class Site:
    """All pages of docs, and all files that they link, directly or through other pages.

    Raises:
        BrokenLinks: A link or an anchor leads nowhere.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pages: dict[PurePosixPath, Page] = {}
        self._others: set[PurePosixPath] = set()
        self._read()
        self._groups = groups(self._own(), DOCS)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the content of each file of the site."""
        for page in self._pages.values():
            yield address(page.path), self._page(page).encode()
        for page in self._own().values():
            yield str(page.path.relative_to(DOCS)), page.text.encode()
        for path in sorted(self._others):
            yield self._other(path)
        for name in ("style.css", "search.js"):
            yield name, (FILES / name).read_bytes()
        sections = [section for page in self._pages.values() for section in _sections(page)]
        yield "search-index.js", f"window.SECTIONS={json.dumps(sections)}\n".encode()
        yield "llms.txt", llms.short(self._root, self._groups).encode()
        yield "llms-full.txt", llms.full(self._own(), self._groups).encode()

    def _own(self) -> dict[PurePosixPath, Page]:
        return {path: page for path, page in self._pages.items() if path.is_relative_to(DOCS)}

    def _read(self) -> None:
        """Read docs, and what it links outside of docs, until nothing new is linked."""
        files = sorted((self._root / DOCS).rglob("*.md"))
        ahead = [PurePosixPath(file.relative_to(self._root).as_posix()) for file in files]
        ahead = [path for path in ahead if not path.is_relative_to(SOURCES)]
        broken: list[str] = []
        anchors: list[tuple[PurePosixPath, str, str]] = []
        while ahead:
            path = ahead.pop()
            if path in self._pages or path in self._others:
                continue
            if path.suffix != ".md":
                self._others.add(path)
                if (self._root / path).is_dir():
                    ahead += self._listed(path)
                continue
            page = self._pages[path] = read_page(self._root, path)
            for token, name, line in links(page.tokens):
                link = str(token.attrs[name])
                if FOREIGN.match(link):
                    continue
                target, anchor = _target(path, link)
                if not (self._root / target).exists() or target.parts[:1] == ("..",):
                    broken.append(f"{path}:{line}: {link}")
                    continue
                ahead.append(target)
                if anchor:
                    anchors.append((target, anchor, f"{path}:{line}: {link}"))
        ids = {
            path: {anchor for _, anchor, _ in headings(page.tokens)}
            for path, page in self._pages.items()
        }
        broken += [where for target, anchor, where in anchors if anchor not in ids.get(target, ())]
        if broken:
            raise BrokenLinks("\n".join(sorted(broken)))

    def _listed(self, folder: PurePosixPath) -> list[PurePosixPath]:
        """Return the files of the repository in a folder and below it."""
        ran = subprocess.run(
            ["git", "ls-files", "-z", "--", str(folder)],
            cwd=self._root,
            check=True,
            capture_output=True,
            text=True,
        )
        return [PurePosixPath(name) for name in ran.stdout.split("\0") if name]

    def _page(self, page: Page) -> str:
        for token, anchor, _ in headings(page.tokens):
            token.attrSet("id", anchor)
        for token, name, _ in links(page.tokens):
            link = str(token.attrs[name])
            if not FOREIGN.match(link):
                target, anchor = _target(page.path, link)
                to = relative(page.path, target) if target != page.path else ""
                token.attrSet(name, f"{to}#{anchor}" if anchor else to or "#")
        body = MARKDOWN.renderer.render(page.tokens, MARKDOWN.options, {})
        return self._framed(page.path, page.title, body)

    def _other(self, path: PurePosixPath) -> tuple[str, bytes]:
        """Return a file that is no Markdown: text and folders as a page, the rest as it is."""
        title = f"<h1>{escape(str(path))}</h1>"
        if (self._root / path).is_dir():
            rows = "".join(
                f'<li><a href="{relative(path, file)}">{escape(str(file.relative_to(path)))}</a>'
                for file in self._listed(path)
            )
            body = f"{title}<ul>{rows}</ul>"
        elif is_text(path):
            text = (self._root / path).read_text()
            body = f"{title}<pre><code>{escape(text)}</code></pre>"
        else:
            return address(path), (self._root / path).read_bytes()
        return address(path), self._framed(path, str(path), body).encode()

    def _framed(self, path: PurePosixPath, title: str, body: str) -> str:
        sections = [
            (group.title, [(relative(path, each.path), each) for each in group.entries])
            for group in self._groups
        ]
        root = posixpath.relpath(".", posixpath.dirname(address(path)) or ".")
        return looks.framed(
            root, path, title, sections, re.sub(r"<!--.*?-->\n?", "", body, flags=re.DOTALL)
        )


def is_text(path: PurePosixPath) -> bool:
    """Return True if a browser would not show the file as what it is."""
    return path.suffix not in {".png", ".svg", ".ico"}


def address(path: PurePosixPath) -> str:
    """Return the path in the site of a file or folder of the repository."""
    place = path.relative_to(DOCS) if path.is_relative_to(DOCS) else OUTSIDE / path
    if place.name == INDEX:
        return str(place.with_name("index.html"))
    if place.suffix == ".md":
        return str(place.with_suffix(".html"))
    return f"{place}.html" if is_text(place) else str(place)


def relative(start: PurePosixPath, target: PurePosixPath) -> str:
    """Return the link from the page of *start* to that of *target*."""
    return posixpath.relpath(address(target), posixpath.dirname(address(start)) or ".")


def _target(path: PurePosixPath, link: str) -> tuple[PurePosixPath, str]:
    """Return the file and the anchor that a link of the page at *path* names."""
    name, _, anchor = unquote(link).partition("#")
    if not name:
        return path, anchor
    return PurePosixPath(os.path.normpath(path.parent / name)), anchor


def _sections(page: Page) -> Iterator[tuple[str, str, str, str]]:
    """Yield the address, the page, the heading and the text of each section."""
    begins = {id(token): (anchor, text) for token, anchor, text in headings(page.tokens)}
    anchor, heading, words = "", page.title, list[str]()
    is_heading = False
    for token in page.tokens:
        if id(token) in begins:
            if words or anchor:
                yield f"{address(page.path)}#{anchor}", page.title, heading, " ".join(words)
            anchor, heading = begins[id(token)]
            words = []
        elif token.type in {"inline", "fence", "code_block"} and not is_heading:
            words.append(" ".join(plain(token).split()))
        is_heading = token.type == "heading_open"
    yield f"{address(page.path)}#{anchor}", page.title, heading, " ".join(words)
