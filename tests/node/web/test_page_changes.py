"""The record of changes in the web page, in a real browser, on a real node."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from deploy.programs import needs
from support.rotad import Rotad
from support.web_browser import MARKUP

pytestmark = needs("chromium", "chromium")


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def test_a_change_opens_the_difference_it_made(page: Page, shown: Rotad) -> None:
    shown.create(name="report", namespace="audited", command="echo first", description=MARKUP)
    shown.call("PUT", "/api/v1/jobs/audited%2Freport", {"command": "echo second"})
    shown.call("POST", "/api/v1/jobs/audited%2Freport/pause", {"reason": MARKUP})

    page.goto(f"{shown.url}/ui/#/changes?namespace=audited")

    shows = page.get_by_role("button", name="Show the change of audited/report")
    expect(shows).to_have_text([re.compile(each) for each in ("paused", "replaced", "created")])
    shows.nth(1).click()
    difference = page.get_by_role("region", name="Difference made to audited/report")
    expect(difference.locator(".gone")).to_contain_text([MARKUP, "echo first"])
    expect(difference.locator(".new").first).to_contain_text("echo second")
    shows.nth(0).click()
    expect(page.get_by_role("main")).to_contain_text("The definition stayed as it was.")
    assert page.locator("main b, main script").count() == 0
    page.get_by_role("link", name="All changes of audited/report").click()
    expect(page).to_have_url(re.compile(r"#/changes\?object=[0-9a-f-]+$"))


def test_filters_are_in_the_address_and_older_changes_follow(page: Page, shown: Rotad) -> None:
    for number in range(60):
        shown.create(name=f"many-{number}", namespace="paged", command="true")
    shown.call("DELETE", "/api/v1/jobs/paged%2Fmany-7")
    page.goto(f"{shown.url}/ui/#/changes")

    page.get_by_label("Namespace").fill("paged")
    page.get_by_label("Namespace").press("Enter")
    shows = page.get_by_role("button", name="Show the change of paged/")
    expect(shows).to_have_count(50)
    page.get_by_role("button", name="Older").click()
    expect(shows).to_have_count(61)
    expect(page.get_by_role("button", name="Older")).to_have_count(0)
    page.get_by_label("Kind of change").select_option("job.deleted")

    expect(shows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"#/changes\?namespace=paged&action=job.deleted$"))
    shows.click()
    expect(page.get_by_role("main")).to_contain_text("the job is deleted")


def test_a_document_has_the_names_of_its_changed_fields(page: Page, shown: Rotad) -> None:
    path = "/api/v1/namespaces/recorded"
    shown.call("PUT", path, {"description": "one"})
    shown.call("PUT", path, {"description": "two"})

    page.goto(f"{shown.url}/ui/#/changes?object=namespaces:recorded&action=document.replaced")
    page.get_by_role("button", name="Show the change of namespaces:recorded").click()

    expect(page.get_by_role("main")).to_contain_text("It changed description.")


def test_only_auditors_are_offered_the_record(
    page: Page, guarded: Rotad, open_as: Callable[..., None], expected: list[str]
) -> None:
    expected.append("Failed to load resource: the server responded with a status of 403")
    views = page.get_by_role("navigation", name="Views", exact=True)

    open_as("auditor", "")
    expect(views.get_by_role("link", name="Changes")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("chang")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/changes$"))
    expect(page.get_by_role("main")).to_contain_text("document created")
    open_as("viewer", "changes")
    expect(page.get_by_role("alert")).to_contain_text("lacks the verb 'audit'")
    expect(views.get_by_role("link", name="Ring")).to_be_visible()
    expect(views.get_by_role("link", name="Changes")).to_have_count(0)
