"""Namespaces in the web page, in a real browser, on a real node."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from deploy.programs import needs
from support.rotad import Rotad
from support.web_browser import MARKUP

pytestmark = needs("chromium", "chromium")
ROOM = {
    "description": MARKUP,
    "owners": ["ana", MARKUP],
    "defaults": {"retries": 2, "labels": {"team": MARKUP}},
    "policy": {"executors": ["process"]},
    "quota": {"jobs": 4},
}


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def test_a_namespace_shows_its_settings_and_the_use_of_its_quota(page: Page, shown: Rotad) -> None:
    shown.call("PUT", "/api/v1/namespaces/room", ROOM)
    for number in range(3):
        shown.create(name=f"in-room-{number}", namespace="room", command="true")
    page.goto(f"{shown.url}/ui/#/namespaces")

    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="room", exact=True))
    expect(row).to_contain_text(f"ana, {MARKUP}")
    expect(row).to_contain_text("jobs 4")
    row.get_by_role("link", name="room", exact=True).click()

    expect(page).to_have_url(re.compile("#/namespaces/room$"))
    jobs = page.get_by_role("region", name="Quota").get_by_role("row").filter(has_text="Jobs")
    expect(jobs.get_by_role("cell")).to_have_text(["Jobs", "", "3", "4"])
    assert jobs.locator(".meter i").evaluate("e => e.style.width") == "75%"
    expect(page.get_by_role("region", name="Policy, as JSON")).to_contain_text('"process"')
    expect(page.get_by_role("region", name="Defaults, as JSON")).to_contain_text("<script>")
    assert page.locator("main script").count() == 0


def test_a_namespace_is_paused_with_a_reason_and_resumed(page: Page, shown: Rotad) -> None:
    path = "/api/v1/namespaces/halted"
    shown.call("PUT", path, {"owners": ["ana"]})
    page.goto(f"{shown.url}/ui/#/namespaces/halted")

    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Reason").fill(MARKUP)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text(re.compile("Paused by operator .*<b>bold"))
    assert shown.call("GET", path)["definition"]["pause"]["reason"] == MARKUP

    page.get_by_role("button", name="Resume…").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    assert "pause" not in shown.call("GET", path)["definition"]


def test_who_may_not_run_is_offered_no_pause(
    page: Page, guarded: Rotad, open_as: Callable[..., None], expected: list[str]
) -> None:
    expected.append("Failed to load resource: the server responded with a status of 404")
    for name in ("team-a", "others"):
        guarded.call("PUT", f"/api/v1/namespaces/{name}", {"owners": ["ana"]})

    open_as("viewer", "namespaces", ["team-*"])
    expect(page.get_by_role("link", name="team-a", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="others", exact=True)).to_have_count(0)
    page.get_by_role("link", name="team-a", exact=True).click()
    expect(page.get_by_role("region", name="Quota")).to_contain_text("no limit")
    expect(page.get_by_role("button", name="Pause…")).to_have_count(0)

    open_as("operator", "namespaces/team-a", ["team-*"])
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
