"""The documentation as a site: links, navigation, search, and the files for programs."""

import json
import re
from pathlib import Path

import pytest
from tools.docs_site.site import BrokenLinks, Site

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """Return the text of each file of the site of this checkout, by its path.

    It fails if a link of a page leads nowhere.
    """
    files = Site(REPO).files()
    return {name: content.decode(errors="replace") for name, content in files}


def checkout(root: Path, index: str) -> Path:
    (root / "docs").mkdir()
    (root / "docs" / "README.md").write_text(f"# Index\n\n{index}\n")
    (root / "docs" / "one.md").write_text(
        "# One\n\nThe first.\n\n## A `b`, c\n\n## Twice\n\n## Twice\n"
    )
    (root / "README.md").write_text("# it\n\nIt is short.\n")
    return root


@pytest.mark.parametrize("link", ["two.md", "one.md#b", "#nothing", "../../outside.md", "two.png"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    root = checkout(tmp_path, f"See [it]({link}).")

    with pytest.raises(BrokenLinks, match=re.escape(f"docs/README.md:3: {link}")):
        Site(root)


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    root = checkout(tmp_path, "[1](one.md#a-b-c) [2](one.md#twice) [3](one.md#twice-1)")

    files = dict(Site(root).files())

    assert re.findall(r'<h2 id="(.*?)">', files["one.html"].decode()) == [
        "a-b-c",
        "twice",
        "twice-1",
    ]


def test_groups_and_pages_of_the_index_are_the_navigation(tmp_path: Path) -> None:
    table = "| do | page |\n|---|---|\n| **begin** | |\n| do it | [First](one.md) |"
    root = checkout(tmp_path, f"## How to\n\n{table}\n")

    files = {name: content.decode() for name, content in Site(root).files()}

    assert files["llms.txt"] == (
        "# rota\n\n> It is short.\n\n## How to: begin\n\n- [First](one.md): do it\n"
    )
    assert '<h2>How to: begin</h2>\n<ul>\n<li><a href="one.html">First</a>' in files["index.html"]
    assert '<li><a href="one.html" aria-current="page">First</a>' in files["one.html"]


def test_every_link_of_a_built_page_leads_to_a_file_of_the_site(site: dict[str, str]) -> None:
    for name, text in site.items():
        if name.endswith(".html"):
            for link in re.findall(r'(?:href|src)="([^"#]+)', text):
                if not re.match(r"https?:|data:|mailto:", link):
                    place = (DOCS / name).parent / link
                    assert str(place.resolve().relative_to(DOCS)) in site, (name, link)


def test_every_page_of_the_documentation_is_in_the_navigation(site: dict[str, str]) -> None:
    listed = set(re.findall(r"\]\((\S+\.md)\)", site["llms.txt"]))

    pages = {str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md")}
    sources = {page for page in pages if page.startswith("reference/api/")}
    assert pages - sources - listed == {"README.md", "reference/README.md"}


def test_the_file_of_all_pages_has_the_text_of_each(site: dict[str, str]) -> None:
    for name, text in site.items():
        if name.endswith(".md"):
            assert text.strip() in site["llms-full.txt"], name


def test_the_index_of_the_search_has_each_section(site: dict[str, str]) -> None:
    sections = json.loads(site["search-index.js"].removeprefix("window.SECTIONS="))

    addresses = [address for address, *_ in sections]
    assert len(set(addresses)) == len(addresses)
    for address in addresses:
        name, _, anchor = address.partition("#")
        assert not anchor or f'id="{anchor}"' in site[name], address
