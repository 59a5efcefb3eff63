"""The documentation as a site, in a real browser that opens its files."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request, expect
from tools.docs_site.site import Site

from deploy.programs import needs
from support.web_browser import watched_page

pytestmark = needs("chromium", "chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    for name, content in Site(Path(__file__).resolve().parents[3]).files():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def test_a_search_finds_a_section_without_another_host(
    browser: Browser, site: Path, errors: list[str]
) -> None:
    context = browser.new_context()
    page = watched_page(context, errors)
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.goto((site / "how-to" / "flows.html").as_uri())
    page.get_by_role("searchbox").fill("daily-report generate_report")
    page.locator("#results a").first.click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert page.url.startswith((site / "reference" / "jobs.html").as_uri())
    assert all(url.startswith((site.as_uri(), "data:")) for url in asked)
    context.close()


@pytest.mark.parametrize(("width", "pages"), [(390, "**/*.html"), (1280, "reference/jobs.html")])
def test_no_page_is_wider_than_the_window(
    browser: Browser, site: Path, width: int, pages: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()

    wide: list[str] = []
    for file in sorted(site.glob(pages)):
        if "repository" not in file.parts:
            page.goto(file.as_uri())
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(file.name)

    assert not wide
    context.close()
