"""No view of the web page has a fault that axe-core finds, in either theme, or on a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from deploy.programs import needs
from support.rotad import Rotad
from support.web_shots import OPENED, SIZES, THEMES, furnishable, press, show, views_of

AXE = Path(__file__).parents[3] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
FAULTS = """async () => (await axe.run()).violations.map(({ id, nodes }) => {
    const places = nodes.map((each) => `${each.target.join(' ')}: ${each.failureSummary}`)
    return `${id} at ${places.join('; ')}`
})"""

pytestmark = [
    needs("chromium", "chromium"),
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: `make ui`"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rotad, dict[str, str]]]:
    """A node with something to show in each view, and the addresses of the views."""
    with furnishable(tmp_path_factory.mktemp("furnished")) as node:
        yield node.start(), views_of(node)


@pytest.fixture(params=[(THEMES[0], SIZES[0]), (THEMES[-1], SIZES[-1])], ids=str)
def examined(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page in one theme and size, with axe-core in it, which the policy of the page forbids."""
    theme, (width, height) = request.param
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        reduced_motion="reduce",
        bypass_csp=True,
    )
    context.add_init_script(path=AXE)
    yield context.new_page()
    context.close()


def test_no_view_has_a_fault(examined: Page, furnished: tuple[Rotad, dict[str, str]]) -> None:
    # Each view in one of the two themes: a view takes seconds.
    node, views = furnished
    is_phone = examined.viewport_size == {"width": SIZES[-1][0], "height": SIZES[-1][1]}
    found: dict[str, list[str]] = {}
    for name, view in list(views.items())[is_phone::2]:
        show(examined, node, view)
        expect(examined.locator("main h1")).to_have_count(1)
        found[name] = examined.evaluate(FAULTS)

    assert {name: faults for name, faults in found.items() if faults} == {}


def test_nothing_that_opens_has_a_fault(
    examined: Page, furnished: tuple[Rotad, dict[str, str]]
) -> None:
    node, views = furnished
    found: dict[str, list[str]] = {}
    for name, (view, button) in OPENED.items():
        show(examined, node, views.get(view, view))
        press(examined, button)
        found[name] = examined.evaluate(FAULTS)
    show(examined, node, "jobs")
    examined.keyboard.press("?")
    expect(examined.get_by_role("dialog", name="Keys")).to_be_visible()
    found["keys"] = examined.evaluate(FAULTS)

    assert {name: faults for name, faults in found.items() if faults} == {}
