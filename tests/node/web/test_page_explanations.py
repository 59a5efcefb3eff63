"""Chains of causes and intervals of executions in the web page, in a real browser."""

import pytest
from playwright.sync_api import Locator, Page, expect

from deploy.programs import needs
from support.rotad import Rotad
from support.web_browser import MARKUP

pytestmark = needs("chromium", "chromium")


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def chain(region: Locator) -> Locator:
    """Return the causes that a part of the page shows."""
    return region.get_by_role("list", name="Causes of").get_by_role("listitem")


def test_causes_of_past_and_coming_fire_times_are_opened_with_the_keyboard(
    page: Page, shown: Rotad
) -> None:
    shown.call("PUT", "/api/v1/calendars/closed", {"weekdays": ["MON-SUN"]})
    fields = {"schedule": "* * * * * *", "command": "true", "exceptCalendars": ["closed"]}
    shown.create(name="why-not", **fields)
    entries = "/api/v1/jobs/why-not/ledger"
    shown.wait_until(lambda: len(shown.call("GET", entries)["items"]) > 0)
    shown.call("PUT", "/api/v1/jobs/default/why-not", {**fields, "schedule": "0 0 1 1 *"})
    shown.call("POST", "/api/v1/jobs/why-not/pause", {"reason": MARKUP})
    page.goto(f"{shown.url}/ui/#/jobs/default/why-not")
    past = page.get_by_role("region", name="Fire times that began no execution")
    coming = page.get_by_role("region", name="Next fires")

    button = past.get_by_role("button", name="Why?").last
    button.focus()
    button.press("Enter")

    expect(button).to_have_attribute("aria-expanded", "true")
    expect(chain(past)).to_have_count(2)
    expect(chain(past).first).to_contain_text("version 1 was in use; the present one is 2")
    expect(chain(past).last).to_contain_text("closed")
    coming.get_by_role("button", name="Why?").first.press("Enter")
    expect(chain(past)).to_have_count(0)
    expect(chain(coming)).to_contain_text(MARKUP)
    expect(chain(coming)).to_contain_text("To change it: rota jobs resume default/why-not")
    assert page.locator("main script").count() == 0
    coming.get_by_role("button", name="Why?").first.press("Enter")
    expect(chain(coming)).to_have_count(0)


def test_any_time_is_explained(page: Page, shown: Rotad) -> None:
    shown.create(name="yearly", schedule="0 0 1 1 *", command="true")
    page.goto(f"{shown.url}/ui/#/jobs/default/yearly")

    page.get_by_label("Explain a time").fill("2001-01-01T00:00:00")

    expect(chain(page.get_by_role("main"))).to_contain_text("not yet created")


def test_an_execution_names_the_interval_that_it_works_on(page: Page, shown: Rotad) -> None:
    shown.create(name="of-days", schedule="0 0 * * *", command="true")
    body = {"since": "2026-03-01T00:00:00Z", "until": "2026-03-02T00:00:00Z"}
    shown.call("POST", "/api/v1/jobs/of-days/backfills", body)
    [made] = shown.call("GET", "/api/v1/executions?jobId=of-days")["items"]

    page.goto(f"{shown.url}/ui/#/executions/{made['executionId']}")

    expect(page.get_by_role("main")).to_contain_text("Works on 28 Feb 00:00:00 to 1 Mar 00:00:00.")
