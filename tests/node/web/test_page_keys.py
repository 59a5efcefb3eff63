"""The palette and the keys of the web page, and what it shows on a phone."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request, expect

from deploy.programs import needs
from support.rotad import Rotad

pytestmark = needs("chromium", "chromium")


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def open_view(page: Page, node: Rotad, view: str) -> None:
    """Open a view by its address, and wait until the page is there."""
    page.goto(f"{node.url}/ui/#/{view}")
    expect(page.get_by_role("button", name="Find or go to")).to_be_visible()


def test_the_palette_finds_jobs_at_the_node_and_leads_to_them(page: Page, shown: Rotad) -> None:
    for name in ("alpha-load", "not-alpha", "other"):
        shown.create(name=name, namespace="find", command="true")
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/api/v1/jobs?q=alpha" in request.url:
            asked.append(request.url)

    page.on("request", note)
    open_view(page, shown, "ring")

    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Find a job")
    expect(field).to_be_focused()
    page.keyboard.type("alpha")
    options = page.get_by_role("option")
    expect(options).to_have_text([re.compile("find/alpha-load"), re.compile("find/not-alpha")])
    page.keyboard.press("Tab")
    expect(field).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("#/jobs/find/not-alpha$"))
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert asked
    assert all("limit=20" in each for each in asked)


def test_the_palette_leads_to_views_and_to_an_execution_by_its_id(page: Page, shown: Rotad) -> None:
    execution = shown.call("POST", "/api/v1/jobs/hello/trigger")["executionId"]
    open_view(page, shown, "jobs")

    page.get_by_role("button", name="Find or go to").click()
    page.keyboard.type("ledg")
    options = page.get_by_role("listbox", name="Places").get_by_role("option")
    expect(options).to_have_count(1)
    options.click()
    expect(page).to_have_url(re.compile("#/ledger$"))

    page.keyboard.press("Control+k")
    page.keyboard.insert_text(execution)
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"#/executions/{execution}$"))


def test_escape_closes_the_palette_and_gives_the_focus_back(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "jobs")
    button = page.get_by_role("button", name="Find or go to")

    button.click()
    expect(page.get_by_role("dialog", name="Find or go to")).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()


def test_keys_lead_to_views_but_not_while_a_field_has_the_focus(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "")

    for key, view in (("e", "executions"), ("o", ""), ("j", "jobs")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"#/{view}$"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Find a job")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("Search by name").focus()
    page.keyboard.type("ge?")
    page.keyboard.press("Control+k")

    expect(page.get_by_label("Search by name")).to_have_value("ge?")
    expect(page).to_have_url(re.compile(r"#/jobs\?q=ge%3F$"))
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_job_is_triggered_from_its_row_on_a_phone(page: Page, shown: Rotad) -> None:
    shown.create(name="by-thumb", namespace="phone", command="true", schedule="0 0 29 2 *")
    page.set_viewport_size({"width": 390, "height": 844})
    open_view(page, shown, "jobs?namespace=phone")

    row = page.get_by_role("row").filter(has_text="by-thumb")
    row.get_by_role("button", name="Trigger…").click()
    expect(row.get_by_role("button", name="Pause…")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Trigger", exact=True).click()

    expect(page.get_by_text("phone/by-thumb runs now.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize(
    "view", ["jobs/new", "jobs/default/etl/edit", "jobs?namespace=default", "changes", "access"]
)
def test_forms_and_rows_fit_a_phone(page: Page, shown: Rotad, view: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})

    open_view(page, shown, view)

    expect(page.locator("main .editor, main table").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_all_views_are_reached_on_a_phone(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    guarded.call("PUT", "/api/v1/secrets/team-a/db", {"value": "long enough"})
    page.set_viewport_size({"width": 390, "height": 844})
    open_as("cluster-admin", "jobs")

    bar = page.get_by_role("navigation", name="Views, for small screens")
    for name in ("Ledger", "Ring", "Changes", "Namespaces", "Access", "Secrets"):
        bar.get_by_role("button", name="More").click()
        bar.get_by_role("link", name=name).click()
        expect(page).to_have_url(re.compile(f"#/{name.lower()}$"))
        expect(bar.get_by_role("link", name=name)).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.get_by_role("button", name="New secret…")).to_be_in_viewport(ratio=1)
    bar.get_by_role("button", name="More").click()
    bar.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Key", exact=True)).to_be_visible()


def test_a_date_of_another_year_fits_its_column(page: Page, shown: Rotad) -> None:
    at = "@at 2199-12-29T23:59:59Z"
    shown.create(name="far", namespace="years", schedule=at, command="true")
    open_view(page, shown, "upcoming?namespace=years")

    cell = page.get_by_role("cell", name="29 Dec 2199 23:59:59")
    expect(cell).to_be_visible()
    text = (
        "e => { const r = document.createRange(); r.selectNodeContents(e);"
        " return r.getBoundingClientRect().width }"
    )
    assert cell.evaluate(text) <= cell.evaluate("e => e.clientWidth - 16")


def test_a_search_of_long_output_marks_each_line_with_a_hit(page: Page, shown: Rotad) -> None:
    shown.create(name="hits", command="seq 1 60000 | sed 's/^/hit /'")
    execution = shown.call("POST", "/api/v1/jobs/hits/trigger")["executionId"]
    shown.call("GET", f"/api/v1/executions/{execution}/wait")
    open_view(page, shown, f"executions/{execution}")
    expect(page.locator(".log .line").get_by_text("hit 60000", exact=True)).to_be_in_viewport()

    page.get_by_label("Find in output").fill("hit")

    expect(page.locator(".output .bar")).to_contain_text("60 000")
    expect(page.locator(".log .line.hit").last).to_contain_text("hit 60000")
