"""Backfills, calendars and causes of executions in the web page, in a real browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from deploy.programs import needs
from support.rotad import Json, Rotad
from support.web_browser import MARKUP

REFUSED = "Failed to load resource: the server responded with a status of"

pytestmark = needs("chromium", "chromium")


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def ask_for(page: Page, node: Rotad, job: str, since: str, until: str) -> Locator:
    """Open the question of a backfill of a range; return it."""
    page.goto(f"{node.url}/ui/#/jobs/{job}")
    page.get_by_role("button", name="Backfill…").click()
    question = page.get_by_role("dialog", name=f"Run {job} for fire times of the past?")
    question.get_by_label("Since").fill(since)
    question.get_by_label("Until").fill(until)
    return question


def backfills(node: Rotad, job: str) -> list[Json]:
    """Return the backfills of a job."""
    items: list[Json] = node.call("GET", f"/api/v1/jobs/{job}/backfills")["items"]
    return items


def test_a_backfill_counts_its_fire_times_first_and_obeys_each_option(
    page: Page, shown: Rotad
) -> None:
    shown.create(name="hourly", schedule="0 * * * *", command="true")

    question = ask_for(page, shown, "default/hourly", "2026-03-01T00:00", "2026-03-01T06:00")
    status = question.get_by_role("status")
    expect(status).to_contain_text("6 fire times, oldest first")
    expect(status.get_by_role("listitem").first).to_have_text("1 Mar 00:00:00")
    expect(status).to_contain_text("and 2 more")
    question.get_by_label("Fire times", exact=True).select_option("all")
    question.get_by_label("Order").select_option("newest")
    question.get_by_label("In parallel").fill("2")
    question.get_by_label("Parameters").fill('{"full": true}')
    expect(status.get_by_role("listitem").first).to_have_text("1 Mar 05:00:00")
    expect(question).to_contain_text(
        "rota backfill start default/hourly --since 2026-03-01T00:00:00.000Z"
        " --until 2026-03-01T06:00:00.000Z --reprocess all --order newest --parallel 2"
        " --parameters '{\"full\":true}'"
    )
    assert backfills(shown, "hourly") == []

    question.get_by_role("button", name="Run 6 fire times").click()

    region = page.get_by_role("region", name="Backfills")
    expect(region).to_contain_text("6 of 6 ended")
    expect(region).to_contain_text("all, newest first, 2 in parallel; by operator")
    made = backfills(shown, "hourly")[0]
    options = (made["reprocess"], made["order"], made["parallel"], made["total"])
    assert options == ("all", "newest", 2, 6)


def test_an_execution_names_its_backfill(page: Page, shown: Rotad) -> None:
    shown.create(name="daily", schedule="0 0 * * *", command="true")
    body = {"since": "2026-03-01T00:00:00Z", "until": "2026-03-02T00:00:00Z"}
    made = shown.call("POST", "/api/v1/jobs/daily/backfills", body)

    page.goto(f"{shown.url}/ui/#/jobs/default/daily")
    row = page.get_by_role("region", name="Executions").get_by_role("row").nth(1)
    expect(row).to_contain_text("backfill")
    row.get_by_role("link").click()

    main = page.get_by_role("main")
    expect(main).to_contain_text("Run by a backfill for 1 Mar 00:00:00.")
    expect(main).not_to_contain_text("after its fire time")
    expect(main).to_contain_text(f"Part of backfill {made['backfillId']}.")
    page.get_by_role("link", name=made["backfillId"]).click()
    expect(page).to_have_url(re.compile("#/jobs/default/daily$"))


def test_an_execution_that_a_task_began_names_the_task(page: Page, shown: Rotad) -> None:
    shown.create(name="inner", command="true")
    shown.create(name="outer", tasks=[{"name": "ask", "runJob": "inner"}])
    outer = shown.call("POST", "/api/v1/jobs/outer/trigger")["executionId"]
    shown.call("GET", f"/api/v1/executions/{outer}/wait")

    page.goto(f"{shown.url}/ui/#/executions/{outer}")
    page.get_by_role("region", name="Other jobs").get_by_role("link").click()

    main = page.get_by_role("main")
    expect(main).to_contain_text("Begun by a task of another execution at")
    expect(main).to_contain_text("Runs for ask of default/outer.")


def test_a_backfill_is_paused_resumed_and_cancelled(page: Page, shown: Rotad) -> None:
    shown.create(name="slow-hourly", schedule="0 * * * *", command="sleep 60")
    body = {"since": "2026-03-01T00:00:00Z", "until": "2026-03-01T06:00:00Z"}
    made = shown.call("POST", "/api/v1/jobs/slow-hourly/backfills", body)
    page.goto(f"{shown.url}/ui/#/jobs/default/slow-hourly")
    region = page.get_by_role("region", name="Backfills")
    expect(region).to_contain_text("0 of 6 ended, 1 unfinished")
    expect(region).to_contain_text("next 1 Mar 01:00:00")

    region.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("dialog")).to_contain_text(
        f"rota backfill pause default/slow-hourly {made['backfillId']}"
    )
    expect(page.get_by_role("dialog")).to_contain_text("none of the 5 fire times to come")
    page.get_by_role("button", name="Pause the backfill").click()
    region.get_by_role("button", name="Resume…").click()
    page.get_by_role("button", name="Resume the backfill").click()
    expect(region.get_by_role("button", name="Pause…")).to_be_visible()
    region.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the backfill").click()

    expect(region).to_contain_text("cancelled")
    expect(region.get_by_role("button")).to_have_count(0)
    assert backfills(shown, "slow-hourly")[0]["status"] == "cancelled"


def test_a_wrong_range_and_warnings_are_shown_before_a_backfill_starts(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 422")
    shown.create(name="ranged", schedule="0 * * * *", command="true")

    question = ask_for(page, shown, "default/ranged", "2026-03-01T00:00", "2126-03-01T06:00")
    expect(question.get_by_label("Until")).to_have_accessible_description(
        re.compile("is in the future")
    )
    expect(question.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    question.get_by_label("Until").fill("2026-03-01T00:30")
    expect(question.get_by_role("button", name="Run 1 fire time")).to_be_enabled()
    question.get_by_label("Since").fill("2026-03-01T00:10")
    expect(question).to_contain_text("No fire time of this range is to run.")
    expect(question.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    question.get_by_label("Parameters").fill("{full")
    expect(question.get_by_label("Parameters")).to_have_accessible_description("this is not JSON")

    def warn(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"warnings": [MARKUP]})

    page.route("**/backfills?dryRun=true", warn)
    question.get_by_label("Parameters").fill("")
    expect(question.get_by_role("status")).to_contain_text(MARKUP)
    assert page.locator("main script").count() == 0


def test_backfills_are_offered_to_callers_who_may_run_and_for_jobs_with_schedules(
    page: Page, guarded: Rotad, open_as: Callable[..., None], expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 403")
    guarded.create(name="seen", namespace="team-b", schedule="0 0 * * *", command="sleep 60")
    guarded.create(name="by-hand", namespace="team-b", command="true")
    body = {"since": "2026-03-01T00:00:00Z", "until": "2026-03-03T00:00:00Z"}
    guarded.call("POST", "/api/v1/jobs/team-b%2Fseen/backfills", body)
    region = page.get_by_role("region", name="Backfills")

    open_as("viewer", "jobs/team-b/seen", ["team-*"])
    expect(region).to_contain_text("0 of 2 ended")
    expect(region.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("button", name="Backfill…")).to_have_count(0)

    open_as("operator", "jobs/team-b/seen", ["team-*"])
    expect(region.get_by_role("button", name="Pause…")).to_be_visible()
    expect(page.get_by_role("button", name="Backfill…")).to_be_visible()
    page.goto(f"{guarded.url}/ui/#/jobs/team-b/by-hand")
    expect(page.get_by_role("main")).to_contain_text("No schedule")
    expect(page.get_by_role("button", name="Trigger…")).to_be_visible()
    expect(page.get_by_role("button", name="Backfill…")).to_have_count(0)
    expect(region).to_have_count(0)


def test_a_job_names_its_calendars_which_show_their_definitions(page: Page, shown: Rotad) -> None:
    feasts = {"dates": ["12-24"], "description": MARKUP, "blackoutOf": ["frozen"]}
    week = {"weekdays": ["MON-FRI"], "excludes": ["feasts"], "timezone": "Europe/Berlin"}
    shown.call("PUT", "/api/v1/calendars/feasts", feasts)
    shown.call("PUT", "/api/v1/calendars/week", week)
    shown.create(
        name="invoices",
        schedule="0 8 * * *",
        command="true",
        onlyCalendars=["week"],
        exceptCalendars=["feasts"],
    )
    page.goto(f"{shown.url}/ui/#/jobs/default/invoices")

    schedules = page.get_by_role("region", name="Schedules")
    expect(schedules).to_contain_text("Runs only in week")
    expect(schedules).to_contain_text("Does not run in feasts")
    schedules.get_by_role("link", name="week").click()
    expect(page).to_have_url(re.compile("#/calendars/week$"))
    expect(page.get_by_role("region", name="Definition, as JSON")).to_contain_text('"MON-FRI"')
    page.get_by_role("main").get_by_role("link", name="feasts").click()
    expect(page.get_by_role("main")).to_contain_text("Stops the schedules of frozen")

    page.get_by_role("navigation", name="Views", exact=True).get_by_title("Calendars").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="week"))
    expect(row).to_contain_text("MON-FRI, without feasts")
    expect(row).to_contain_text("Europe/Berlin")
    expect(page.get_by_role("main")).to_contain_text(MARKUP)
    assert page.locator("main script").count() == 0


def test_the_ledger_shows_excluded_fire_times(page: Page, shown: Rotad) -> None:
    shown.call("PUT", "/api/v1/calendars/always", {"weekdays": ["MON-SUN"]})
    shown.create(
        name="never",
        namespace="shut",
        schedule="* * * * * *",
        command="true",
        exceptCalendars=["always"],
    )
    shown.wait_until(lambda: len(shown.call("GET", "/api/v1/ledger?namespace=shut")["items"]) > 0)
    page.goto(f"{shown.url}/ui/#/ledger?namespace=shut")

    page.get_by_role("button", name="excluded").click()

    row = page.locator("tbody tr").first
    expect(row).to_contain_text("excluded")
    expect(row).to_contain_text("always")
