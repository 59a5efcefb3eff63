"""The state of a job in the web page, in a real browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from deploy.programs import needs
from support.rotad import Json, Rotad

REFUSED = "Failed to load resource: the server responded with a status of"

pytestmark = needs("chromium", "chromium")


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def put(node: Rotad, job: str, key: str, **body: Json) -> None:
    """Set a value of the state of a job."""
    node.call("PUT", f"/api/v1/jobs/{job}/state/{key}", body)


def state(node: Rotad, job: str) -> dict[str, Json]:
    """Return the values of a job by key."""
    items = node.call("GET", f"/api/v1/jobs/{job}/state")["items"]
    return {each["key"]: each["value"] for each in items}


def row(page: Page, key: str) -> Locator:
    """Return the row of a value."""
    rows = page.get_by_role("region", name="State").get_by_role("row")
    return rows.filter(has=page.get_by_role("cell", name=key, exact=True))


def test_a_value_is_set_survives_a_conflict_and_is_deleted(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 412")
    shown.create(name="import", command="true")
    page.goto(f"{shown.url}/ui/#/jobs/default/import")

    page.get_by_role("button", name="Set a value…").click()
    page.get_by_label("Key", exact=True).fill("cursor")
    page.get_by_label("Value, as JSON").fill("2026-11-01")
    expect(page.get_by_label("Value, as JSON")).to_have_accessible_description(
        "this is not JSON; texts are in quotes"
    )
    expect(page.get_by_role("button", name="Set", exact=True)).to_be_disabled()
    page.get_by_label("Value, as JSON").fill("12345678901234567890")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(row(page, "cursor")).to_contain_text("by operator")
    assert state(shown, "import") == {"cursor": 12345678901234567890}

    row(page, "cursor").get_by_role("button", name="Set…").click()
    question = page.get_by_role("dialog", name="Set cursor of default/import?")
    expect(question.get_by_label("Value, as JSON")).to_have_value("12345678901234567890")
    put(shown, "import", "cursor", value={"by": "another"})
    question.get_by_label("Value, as JSON").fill('["mine"]')
    question.get_by_role("button", name="Set", exact=True).click()
    expect(question.get_by_role("alert")).to_contain_text(
        "Nothing is set, and what you typed is kept. version_mismatch"
    )
    expect(question.get_by_role("status")).to_contain_text(
        re.compile('Meanwhile operator set revision 2 .*"by": "another"', re.DOTALL)
    )
    expect(question.get_by_label("Value, as JSON")).to_have_value('["mine"]')
    assert state(shown, "import") == {"cursor": {"by": "another"}}
    question.get_by_role("button", name="Replace revision 2").click()
    value = row(page, "cursor").get_by_role("button", name='Value of cursor: ["mine"]')
    value.click()
    expect(page.locator("tr.opened pre")).to_have_text('[\n  "mine"\n]')
    assert state(shown, "import") == {"cursor": ["mine"]}

    row(page, "cursor").get_by_role("button", name="Delete…").click()
    question = page.get_by_role("dialog", name="Delete cursor of default/import?")
    expect(question).to_contain_text('Revision 3 is ["mine"]')
    expect(question).to_contain_text("rota state delete default/import cursor --if-revision 3")
    question.get_by_role("button", name="Delete", exact=True).click()

    expect(page.get_by_role("region", name="State")).to_contain_text("None.")
    assert state(shown, "import") == {}


def test_a_lock_leads_to_its_holder_and_is_released(page: Page, shown: Rotad) -> None:
    tasks = [{"name": "load", "approval": "wait"}]
    shown.create(name="locks", tasks=tasks)
    started = shown.trigger("locks")
    put(shown, "locks", "table", value=None, executionId=started, task="load")
    page.goto(f"{shown.url}/ui/#/jobs/default/locks")

    expect(row(page, "table").get_by_role("button", name="Set…")).to_have_count(0)
    link = row(page, "table").get_by_role("link", name="load")
    expect(link).to_have_attribute("href", f"#/executions/{started}?task=load")
    row(page, "table").get_by_role("button", name="Release…").click()
    page.get_by_role("button", name="Release", exact=True).click()

    expect(page.get_by_role("region", name="State")).to_contain_text("None.")
    assert state(shown, "locks") == {}


def test_state_is_for_callers_who_may_read_it_and_changed_by_those_who_may_run(
    page: Page, guarded: Rotad, open_as: Callable[..., None], expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 403")  # Who made the versions needs the verb audit.
    for name in ("full", "bare"):
        guarded.create(name=name, namespace="team-s", command="true")
    put(guarded, "team-s%2Ffull", "cursor", value=7)
    guarded.call("PUT", "/api/v1/roles/watcher", {"verbs": ["read"]})
    region = page.get_by_role("region", name="State")

    open_as("viewer", "jobs/team-s/full", ["team-s"])
    expect(row(page, "cursor")).to_contain_text("7")
    expect(region.get_by_role("button", name="Set")).to_have_count(0)
    with page.expect_response("**/jobs/team-s/bare/state"):
        page.goto(f"{guarded.url}/ui/#/jobs/team-s/bare")
    expect(page.get_by_role("region", name="Versions")).to_be_visible()
    expect(region).to_have_count(0)

    open_as("operator", "jobs/team-s/bare", ["team-s"])
    expect(region.get_by_role("button", name="Set a value…")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response(re.compile("whoami.*verb=logs")):
        open_as("watcher", "jobs/team-s/full", ["team-s"])
    expect(page.get_by_role("region", name="Versions")).to_be_visible()
    expect(region).to_have_count(0)
    assert [url for url in asked if url.endswith("/state")] == []
