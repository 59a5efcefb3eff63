"""The web page in a real browser, on a real node."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from deploy.programs import needs
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.rotad import Rotad
from support.web_browser import MARKUP, WAITS

WITHIN_MS = 15_000
ADMIN = mint(bytes([7]) * (ID_BYTES + SECRET_BYTES)).text

pytestmark = needs("chromium", "chromium")


def open_view(page: Page, node: Rotad, view: str) -> None:
    """Open a view by its address."""
    page.goto(f"{node.url}/ui/#/{view}")


@pytest.mark.parametrize(
    ("view", "text"),
    [
        ("", "Executions each minute"),
        ("jobs", "default/hello"),
        ("jobs/default/etl", "extract_orders"),
        ("executions", "Fire time"),
        ("upcoming", "Europe/Berlin"),
        ("ledger", "began no execution"),
        ("ring", "shards accept writes"),
        ("nothing", "There is no view of this name"),
        ("jobs/default/none", "job_not_found"),
        ("executions/none", "none"),
    ],
)
def test_a_view_opens_by_its_address(
    page: Page, shown: Rotad, expected: list[str], view: str, text: str
) -> None:
    if "none" in view:
        expected.append("Failed to load resource")

    open_view(page, shown, view)

    expect(page.locator("main")).to_contain_text(text, timeout=WITHIN_MS)


def test_the_root_leads_a_browser_to_the_page(page: Page, shown: Rotad) -> None:
    page.goto(shown.url)

    expect(page).to_have_url(f"{shown.url}/ui/")
    expect(page.get_by_role("heading", name="Overview")).to_be_attached()


def test_a_job_is_triggered_and_its_output_is_seen(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "jobs/default/hello")

    page.get_by_role("button", name="Trigger…").click()
    expect(page.get_by_role("dialog")).to_contain_text("rota trigger default/hello --follow")
    page.get_by_role("button", name="Trigger", exact=True).click()

    expect(page).to_have_url(re.compile("#/executions/"))
    expect(page.locator(".log")).to_contain_text("hello from the page")
    expect(page.locator("main")).to_contain_text("It succeeded in")


def test_parameters_that_are_no_json_are_refused_in_the_page(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "jobs/default/hello")

    page.get_by_role("button", name="Trigger…").click()
    page.get_by_label("Parameters, as JSON").fill("{day")
    page.get_by_role("button", name="Trigger", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("the parameters are not JSON")


def test_output_is_seen_while_a_task_runs_and_its_execution_is_cancelled(
    page: Page, shown: Rotad
) -> None:
    execution = shown.call("POST", "/api/v1/jobs/etl/trigger")["executionId"]
    open_view(page, shown, f"executions/{execution}")

    expect(page.locator(".log")).to_contain_text("row 3")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the execution").click()

    expect(page.locator("main")).to_contain_text("It was cancelled after")
    page.get_by_role("button", name="Run again…").click()
    page.get_by_role("button", name="Run again", exact=True).click()
    expect(page).not_to_have_url(re.compile(execution))
    expect(page.locator("main")).to_contain_text("Runs again another execution")


def test_the_end_of_long_output_is_seen_until_the_reader_scrolls_up(
    page: Page, shown: Rotad
) -> None:
    shown.create(name="long", command="seq 1 5000")
    execution = shown.call("POST", "/api/v1/jobs/long/trigger")["executionId"]
    open_view(page, shown, f"executions/{execution}")

    expect(page.locator(".log .line").get_by_text("5000", exact=True).last).to_be_in_viewport()

    page.locator(".log").hover()
    page.mouse.wheel(0, -3_000)
    expect(page.get_by_role("button", name="Follow off")).to_be_visible()
    expect(page.locator(".log .line").get_by_text("4820", exact=True).last).to_be_in_viewport()
    assert page.locator(".log .line").count() < 100


def test_a_job_is_paused_with_a_reason_and_resumed(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "jobs/default/beat")

    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Reason, recorded in the ledger").fill("too loud")
    page.get_by_role("button", name="Pause", exact=True).click()

    expect(page.locator("main")).to_contain_text("too loud")
    assert shown.call("GET", "/api/v1/jobs/beat")["pauseReason"] == "too loud"
    page.get_by_role("button", name="Resume…").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()


def test_jobs_are_searched_and_the_address_has_the_search(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "jobs")
    expect(page.locator("main")).to_contain_text("default/hello")

    page.keyboard.press("/")
    page.keyboard.type("etl")

    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"#/jobs\?q=etl$"))


def test_upcoming_fires_are_grouped_by_time_and_lead_to_their_jobs(
    page: Page, shown: Rotad
) -> None:
    shown.create(
        name="yearly",
        namespace="soon",
        schedule="0 0 29 2 *",
        timezone="Asia/Tokyo",
        command="true",
    )
    shown.create(name="often", namespace="soon", schedule="@every 5s", command="true")
    shown.create(name="still", namespace="soon", schedule="@every 5s", command="true")
    shown.call("POST", "/api/v1/jobs/soon%2Fstill/pause", {"reason": MARKUP})
    open_view(page, shown, "")

    page.get_by_role("navigation", name="Views", exact=True).get_by_title("Upcoming").click()
    page.get_by_label("Namespace").fill("soon")
    page.get_by_label("Namespace").press("Enter")

    expect(page).to_have_url(re.compile(r"#/upcoming\?namespace=soon$"))
    expect(page.get_by_role("region", name="Within a minute")).to_contain_text("soon/often")
    expect(page.get_by_role("region", name="Later")).to_contain_text("Asia/Tokyo")
    expect(page.locator("main")).to_contain_text("1 paused job left out.")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("link", name="soon/yearly").click()
    expect(page).to_have_url(re.compile("#/jobs/soon/yearly$"))


def test_the_ledger_is_filtered_by_its_address_and_read_on_by_cursor(
    page: Page, shown: Rotad
) -> None:
    reason = f"quiet {MARKUP}"
    shown.create(name="quiet", namespace="ops", schedule="@every 1s", command="true")
    shown.call("POST", "/api/v1/jobs/ops%2Fquiet/pause", {"reason": reason})
    shown.wait_until(lambda: len(shown.call("GET", "/api/v1/ledger?namespace=ops")["items"]) > 0)
    open_view(page, shown, "")

    page.get_by_role("navigation", name="Views", exact=True).get_by_title("Ledger").click()
    page.get_by_role("button", name="paused").click()
    page.get_by_label("Namespace").fill("ops")
    page.get_by_label("Namespace").press("Enter")

    expect(page).to_have_url(re.compile(r"#/ledger\?outcome=paused&namespace=ops$"))
    expect(page.locator("tbody tr").first).to_contain_text(reason)
    expect(page.locator("tbody tr").first.get_by_role("link", name="ops/quiet")).to_be_visible()
    page.get_by_label("Before").fill("2001-01-01T00:00")
    expect(page).to_have_url(re.compile("to=2001-01-01T00%3A00%3A00.000Z"))
    expect(page.locator("main")).to_contain_text(
        "rota ledger --all --reverse --namespace ops --outcome paused --until 2001-01-01"
    )
    page.get_by_role("button", name="Clear the filters").click()
    expect(page).to_have_url(re.compile("#/ledger$"))
    assert page.locator("main b").count() == page.locator("main script").count() == 0


def test_more_of_the_ledger_is_read_by_its_cursor(page: Page, shown: Rotad) -> None:
    entry = {"count": 1, "outcome": "missed", "reason": "the node was down", "executionId": None}
    times = {"until": "2026-01-02T03:04:05Z", "recordedAt": "2026-01-02T03:04:05Z"}
    rest = {"broken": "", "schedule": 0, "jobId": "1f", "job": None}

    def answer(route: Route) -> None:
        day = "01" if "cursor=next" in route.request.url else "02"
        item = {"fireTime": f"2026-01-{day}T03:04:05Z", **entry, **times, **rest}
        cursor = None if day == "01" else "next"
        route.fulfill(json={"items": [item], "nextCursor": cursor})

    page.route("**/api/v1/ledger?*", answer)
    open_view(page, shown, "ledger")

    page.get_by_role("button", name="Show more").click()

    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").nth(1)).to_contain_text("deleted job 1f")
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.get_by_role("button", name="Show the newest").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_markup_and_control_characters_are_shown_as_text(page: Page, shown: Rotad) -> None:
    execution = shown.call("POST", "/api/v1/jobs/strange/trigger")["executionId"]
    shown.call("GET", f"/api/v1/executions/{execution}/wait")

    open_view(page, shown, f"executions/{execution}")

    expect(page.locator(".log")).to_contain_text(r"red <img src=x onerror=alert(1)> \u202eevil")
    expect(page.locator(".log .a1")).to_have_text("red")
    assert page.locator("main img").count() == 0
    open_view(page, shown, "jobs/default/strange")
    expect(page.locator("main")).to_contain_text(MARKUP)


def test_a_phone_shows_each_view_without_scrolling_sideways(page: Page, shown: Rotad) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    execution = shown.trigger("etl")

    for view in (
        *("", "jobs", "jobs/default/etl", "executions", f"executions/{execution}"),
        *("upcoming", "ledger", "ring"),
    ):
        open_view(page, shown, view)
        expect(page.locator("main .verdict, main table, main .empty").first).to_be_visible()

        assert page.evaluate("document.documentElement.scrollWidth") == 390, view


def test_an_approval_is_given_on_the_page(page: Page, shown: Rotad, expected: list[str]) -> None:
    expected.append("Failed to load resource: the server responded with a status of 422")
    form = {
        "type": "object",
        "required": ["percent", "channel"],
        "properties": {
            "percent": {"type": "integer", "maximum": 100},
            "channel": {"enum": ["stable", "beta"]},
            "is_public": {"type": "boolean"},
            "note": {"type": "string", "default": "tested"},
            "hosts": {"type": "array"},
            "weight": {"type": "number"},
        },
    }
    tasks = [{"name": "check", "approval": {"message": "ship it?", "form": form}}]
    shown.create(name="release", tasks=tasks)
    started = shown.trigger("release")
    open_view(page, shown, f"executions/{started}")

    page.get_by_role("button", name="Approve check…").click()
    asked = page.get_by_role("dialog", name="Approve check?")
    expect(asked).to_contain_text("waits for approval: ship it?")
    percent = asked.get_by_label("percent a whole number, at most 100")
    approve = asked.get_by_role("button", name="Approve", exact=True)
    percent.fill("120")
    asked.get_by_label("channel").select_option("beta")
    asked.get_by_label("is_public").select_option("no")
    asked.get_by_label("hosts").fill("[1")
    expect(asked.get_by_label("hosts")).to_have_accessible_description(
        "this is not JSON; texts are in quotes"
    )
    asked.get_by_label("hosts").fill('["n1"]')
    approve.click()
    expect(percent).to_have_accessible_description(re.compile("100"))
    percent.fill("20")
    approve.click()

    expect(page.locator(".verdict")).to_contain_text("It succeeded")
    check = shown.call("GET", f"/api/v1/executions/{started}")["tasks"]["check"]
    assert check["result"] == {
        "percent": 20,
        "channel": "beta",
        "is_public": False,
        "note": "tested",
        "hosts": ["n1"],
    }


def test_a_form_without_named_properties_is_filled_in_as_json(page: Page, shown: Rotad) -> None:
    tasks = [{"name": "check", "approval": {"form": {"type": "array"}}}]
    shown.create(name="listed", tasks=tasks)
    started = shown.trigger("listed")
    open_view(page, shown, f"executions/{started}")

    page.get_by_role("button", name="Approve check…").click()
    asked = page.get_by_label("What it asks for, as JSON")
    asked.fill("20 percent")
    expect(asked).to_have_accessible_description("this is not JSON; texts are in quotes")
    asked.fill("[20]")
    page.get_by_role("button", name="Approve", exact=True).click()

    expect(page.locator(".verdict")).to_contain_text("It succeeded")
    check = shown.call("GET", f"/api/v1/executions/{started}")["tasks"]["check"]
    assert check["result"] == [20]


def test_an_event_is_sent_on_the_page(page: Page, shown: Rotad) -> None:
    waits = {"foreach": ["a", "b"], "waitForEvent": "stocked-{{ item }}"}
    tasks = [
        {"name": "paid", "waitForEvent": "paid"},
        {"name": "also", "waitForEvent": "paid"},
        {"name": "each", **waits},
    ]
    shown.create(name="order", tasks=tasks)
    started = shown.trigger("order")
    open_view(page, shown, f"executions/{started}?task=paid")

    canvas = page.get_by_role("region", name="Tasks")
    asked = canvas.get_by_role("list", name="Events")
    expect(asked.get_by_role("listitem")).to_have_count(3)
    expect(asked).to_contain_text("2 tasks wait for the event paid")
    expect(asked).to_contain_text("All with the verb run in default can send it.")
    expect(canvas.locator(".envelope.waiting")).to_have_count(2)
    asked.get_by_role("button", name="Send event paid…").click()
    question = page.get_by_role("dialog", name="Send the event paid?")
    expect(question).to_contain_text("It ends the waits of paid, also")
    question.get_by_label("Data, as JSON").fill("{sum")
    expect(question.get_by_role("button", name="Send event", exact=True)).to_be_disabled()
    question.get_by_label("Data, as JSON").fill('{"sum": 7}')
    expect(question).to_contain_text(f"rota send {started} paid --data '{{\"sum\":7}}'")
    question.get_by_role("button", name="Send event", exact=True).click()

    expect(canvas).to_contain_text("event sent by operator")
    expect(canvas.locator(".envelope.success")).to_have_count(2)
    expect(page.get_by_role("region", name="Result")).to_contain_text('"sum": 7')
    for item in "ab":
        asked.get_by_role("button", name=f"Send event stocked-{item}…").click()
        page.get_by_role("button", name="Send event", exact=True).click()
    expect(page.locator(".verdict")).to_contain_text("It succeeded")
    expect(asked).to_have_count(0)


def test_a_loop_is_one_row_with_the_counts_of_its_steps(page: Page, shown: Rotad) -> None:
    loop = {"items": list(range(1, 201)), "maxParallel": 20, "toleratedFailures": 1}
    tasks = [
        {"name": "load", "foreach": loop, "command": "echo item {{ item }}; test {{ item }} != 7"},
        {"name": "rounds", "repeat": {"until": "index == 3", "limit": 20}, "command": "true"},
    ]
    shown.create(name="loops", tasks=tasks)
    started = shown.trigger("loops")
    shown.ended(started)
    open_view(page, shown, f"executions/{started}?task=rounds%231")

    canvas = page.get_by_role("region", name="Tasks")
    expect(canvas).to_contain_text("200 of 200 done, 1 failed")
    expect(canvas).to_contain_text("3 rounds done, at most 20")
    assert canvas.locator(".task-name").count() == 2
    expect(page.locator(".verdict")).to_contain_text("It succeeded")
    canvas.locator(".loop").first.click()
    expect(page.locator(".log")).to_contain_text("item 7")


def test_waits_conditions_and_rules_are_seen_on_the_canvas(page: Page, shown: Rotad) -> None:
    shown.create(name="ships", tasks=WAITS)
    started = shown.trigger("ships")
    open_view(page, shown, f"executions/{started}")

    canvas = page.get_by_role("region", name="Tasks")
    execution = f"/api/v1/executions/{started}"
    shown.wait_until(lambda: shown.call("GET", execution)["tasks"]["settle"]["retryAt"])
    until = shown.call("GET", execution)["tasks"]["settle"]["retryAt"][11:19]
    # Of another day, the page shows the date, too.
    expect(canvas).to_contain_text(re.compile(f"until (\\d+ \\w+ )?{until}"))
    asked = canvas.get_by_role("list", name="Approvals")
    expect(asked).to_contain_text("Ship version 1.4 to all customers?")
    expect(asked).to_contain_text("All with the verb run in default are asked.")
    expect(
        canvas.get_by_role("img", name="large: when results.load | length > 9", exact=True)
    ).to_be_visible()
    rule = "report: none failed min one success; when states.rounds == 'success'"
    expect(canvas.get_by_role("img", name=rule, exact=True)).to_be_visible()

    asked.get_by_role("button", name="Approve check…").click()
    page.get_by_role("button", name="Approve", exact=True).click()

    expect(canvas).to_contain_text("approved by operator")
    expect(asked).to_have_count(0)


def test_a_job_shows_the_loops_waits_and_conditions_of_its_tasks(page: Page, shown: Rotad) -> None:
    shown.create(name="flow", tasks=WAITS)
    open_view(page, shown, "jobs/default/flow")

    rows = page.get_by_role("listitem")
    expect(rows.filter(has_text=re.compile(r"settle\s+after load"))).to_contain_text("sleep 3h")
    expect(rows.filter(has_text=re.compile(r"load\s+after list"))).to_contain_text("foreach")
    expect(rows.filter(has_text=re.compile(r"paid\s+after list"))).to_contain_text("event paid")
    condition = "when results.load | length > 9"
    expect(rows.filter(has_text=re.compile(r"large\s+after load"))).to_contain_text(condition)


def test_a_job_shows_its_events_and_the_fields_of_its_schedules(page: Page, shown: Rotad) -> None:
    shown.create(
        name="on-events",
        command="true",
        schedules=[{"schedule": "0 0 29 2 *", "jitter": "5m", "maxExecutions": 3}],
        triggers=[{"event": "com.example.sold", "when": "event.data.sum > 100"}],
    )
    open_view(page, shown, "jobs/default/on-events")

    schedules = page.locator("section", has=page.get_by_role("heading", name="Schedules"))
    expect(schedules).to_contain_text("jitter 5m, maxExecutions 3")
    expect(schedules).to_contain_text("On eventcom.example.soldifevent.data.sum > 100")


def test_a_key_is_asked_for_and_kept_in_memory_alone(
    own_node: Rotad, page: Page, expected: list[str], tmp_path: Path
) -> None:
    expected.append("Failed to load resource: the server responded with a status of 401")
    token = tmp_path / "token"
    token.write_text(ADMIN)
    own_node.flags += ("--auth", "keys", "--bootstrap-key-file", str(token))
    own_node.start()
    open_view(page, own_node, "jobs")

    page.get_by_label("Key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Key").fill(token.read_text())
    page.get_by_role("button", name="Sign in").click()

    expect(page.locator("main")).to_contain_text("There is no job yet")
    assert page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])") in (
        '[{},{},""]'
    )
    page.reload()
    expect(page.get_by_label("Key")).to_be_visible()


def test_what_is_shown_is_stale_when_the_node_stops_answering(
    own_node: Rotad, page: Page, expected: list[str]
) -> None:
    expected.append("Failed to load resource: net::ERR")
    own_node.start()
    open_view(page, own_node, "")
    expect(page.locator(".live")).to_contain_text("live")

    own_node.kill()

    expect(page.locator(".live")).to_contain_text("does not answer", timeout=3_000)
