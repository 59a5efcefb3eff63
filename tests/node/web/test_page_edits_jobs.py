"""Jobs are created and edited in the web page, in a real browser, on a real node."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from deploy.programs import needs
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.rotad import Json, Rotad
from support.web_browser import MARKUP

ADMIN = mint(bytes([7]) * (ID_BYTES + SECRET_BYTES)).text
REFUSED = "Failed to load resource: the server responded with a status of"

pytestmark = needs("chromium", "chromium")


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def open_view(page: Page, node: Rotad, view: str) -> None:
    """Open a view by its address."""
    page.goto(f"{node.url}/ui/#/{view}")


def definition(node: Rotad, job: str) -> Json:
    """Return the definition of a job."""
    return node.call("GET", f"/api/v1/jobs/{job.replace('/', '%2F')}")["definition"]


def save(page: Page, verb: str = "Save") -> None:
    """Save, and answer the question."""
    page.get_by_role("button", name=f"{verb}…").click()
    page.get_by_role("button", name=f"{verb} the job").click()


def test_a_job_is_created_by_a_form_that_shows_its_next_fire(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "jobs?namespace=made")

    page.get_by_role("link", name="New job").click()
    page.get_by_label("Name", exact=True).fill("by-form")
    page.get_by_label(re.compile("^Command")).fill("echo $HOME")
    page.get_by_role("button", name="Add a schedule").click()
    page.get_by_role("textbox", name="Schedule", exact=True).fill("0 6 29 2 *")
    page.get_by_label("Time zone").fill("Asia/Tokyo")
    page.get_by_label("Retries").fill("3")
    page.get_by_label("While an earlier execution").select_option("skip")

    expect(page.get_by_role("status").get_by_text("The node accepts it.")).to_be_visible()
    expect(page.get_by_role("group", name="Schedules")).to_contain_text(
        re.compile(
            r"Next fires in \d+d \d+h, at 28 Feb \d{4} 21:00:00 UTC, 29 Feb 06:00:00 in Asia"
        )
    )
    save(page, "Create")
    expect(page).to_have_url(re.compile("#/jobs/made/by-form$"))
    assert definition(shown, "made/by-form") == {
        "name": "by-form",
        "namespace": "made",
        "schedule": "0 6 29 2 *",
        "timezone": "Asia/Tokyo",
        "command": "echo $HOME",
        "retries": 3,
        "overlap": "skip",
    }


def test_all_errors_of_values_are_at_their_fields_and_lead_to_their_lines(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 422")
    open_view(page, shown, "jobs/new")

    editor = page.get_by_label("Definition, as JSON")
    editor.fill(
        '{\n "name": "a b",\n "command": "true",\n "schedules": ["@daily", "bad"],\n'
        ' "timeout": "zz",\n "env": {"n": "1"},\n "priority": 4000\n}'
    )

    expect(page.get_by_role("status").get_by_text("4 errors.")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Schedule 2", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Schedule 1", exact=True)).not_to_have_attribute(
        "aria-invalid", "true"
    )
    expect(page.get_by_label("Timeout")).to_have_accessible_description(
        re.compile("is not a duration")
    )
    page.get_by_role("button", name="/priority").click()
    chosen = "e => e.value.slice(e.selectionStart, e.selectionEnd)"
    assert editor.evaluate(chosen) == ' "priority": 4000'


def test_an_unknown_field_and_text_that_is_no_json_are_said_and_keep_what_is_typed(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 422")
    open_view(page, shown, "jobs/new")

    editor = page.get_by_label("Definition, as JSON")
    editor.fill('{"name": "odd", "command": "true", "<b>x</b>": 1}')
    expect(page.get_by_role("status")).to_contain_text(["unknown field '<b>x</b>'"])
    expect(page.get_by_text("Only in the definition:")).to_contain_text("<b>x</b>")
    assert page.locator("main b").count() == 0

    editor.fill('{"name": "odd", ')
    expect(page.get_by_role("status").get_by_text("It is not JSON")).to_be_visible()
    expect(page.get_by_text("The form is back when")).to_be_visible()
    expect(editor).to_have_value('{"name": "odd", ')


def test_a_job_without_a_name_would_run_at_once_and_is_not_sent(page: Page, shown: Rotad) -> None:
    open_view(page, shown, "jobs/new")
    page.get_by_label(re.compile("^Command")).fill("echo once")

    save(page, "Create")

    expect(page.get_by_role("alert")).to_contain_text("give the job a name")
    assert shown.call("GET", "/api/v1/jobs?q=run-")["items"] == []


def test_what_the_form_does_not_know_stays_to_the_last_digit(page: Page, shown: Rotad) -> None:
    shown.call(
        "POST",
        "/api/v1/jobs",
        {
            "name": "exact",
            "command": ["printf", "%s|", "two words"],
            "parameters": {"big": 12345678901234567890},
            "labels": {"html": "x"},
            "description": MARKUP,
        },
    )
    open_view(page, shown, "jobs/default/exact")

    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label(re.compile("^Command"))).to_have_value("printf\n%s|\ntwo words")
    expect(page.get_by_label("Name", exact=True)).not_to_be_editable()
    page.get_by_role("button", name="Line for a shell").click()
    expect(page.get_by_label(re.compile("^Command"))).to_have_value("printf '%s|' 'two words'")
    expect(page.get_by_role("region", name="Your changes")).to_contain_text('"two words"')
    save(page)

    expect(page).to_have_url(re.compile("#/jobs/default/exact$"))
    found = definition(shown, "exact")
    assert found["parameters"] == {"big": 12345678901234567890}
    assert found["command"] == "printf '%s|' 'two words'"
    assert found["description"] == MARKUP
    assert page.locator("main script").count() == 0


def test_an_edit_keeps_calendars_and_the_fields_of_schedules(page: Page, shown: Rotad) -> None:
    for name in ("workdays", "closed"):
        shown.call("PUT", f"/api/v1/calendars/{name}", {"dates": ["02-29"]})
    limits = {"startAt": "2026-01-05T00:00", "endAt": "2099-12-31T00:00", "every": "2 weeks"}
    first = {"schedule": "@weekly", "timezone": "Asia/Tokyo", "spread": True, **limits}
    second = {"schedule": "30 2 * * *", "timezone": "UTC", "gap": "skip", "fold": "both"}
    before = {
        "name": "timed",
        "schedules": [first, second],
        "onlyCalendars": ["workdays"],
        "exceptCalendars": ["closed"],
        "command": "true",
    }
    shown.create(**before)
    open_view(page, shown, "jobs/default/timed/edit")

    page.get_by_label("Retries").fill("2")
    page.get_by_label("Schedule 2 in UTC").fill("45 2 * * *")
    expect(page.get_by_text("Only in the definition:")).to_contain_text("onlyCalendars")
    save(page)

    expect(page).to_have_url(re.compile("#/jobs/default/timed$"))
    schedules = [first, second | {"schedule": "45 2 * * *"}]
    assert definition(shown, "timed") == before | {"retries": 2, "schedules": schedules}


def test_a_change_by_another_user_is_shown_and_nothing_typed_is_lost(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 412")
    shown.create(name="shared", command="echo first")
    open_view(page, shown, "jobs/default/shared/edit")
    command = page.get_by_label(re.compile("^Command"))
    expect(command).to_have_value("echo first")

    shown.call("PUT", "/api/v1/jobs/shared", {"command": "echo theirs"})
    command.fill("echo mine")
    expect(page.get_by_role("alert")).to_contain_text("it is at version 2 now")
    page.get_by_role("button", name="Show the difference").click()
    difference = page.get_by_role("region", name="Difference of version 2")
    expect(difference.locator(".gone")).to_contain_text("echo theirs")
    expect(difference.locator(".new")).to_contain_text("echo mine")

    page.get_by_role("button", name="Load theirs").click()
    expect(command).to_have_value("echo theirs")
    page.get_by_role("button", name="Change places with it").click()
    expect(command).to_have_value("echo mine")
    page.get_by_role("button", name="Drop it").click()
    save(page)
    expect(page).to_have_url(re.compile("#/jobs/default/shared$"))
    assert definition(shown, "shared")["command"] == "echo mine"


def test_a_save_that_comes_too_late_saves_nothing(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 412")
    shown.create(name="raced", command="echo first")
    open_view(page, shown, "jobs/default/raced/edit")
    page.get_by_label(re.compile("^Command")).fill("echo mine")
    expect(page.get_by_role("status").get_by_text("The node accepts it.")).to_be_visible()
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("dialog")).to_contain_text("If-Match")
    shown.call("PUT", "/api/v1/jobs/raced", {"command": "echo theirs"})

    page.get_by_role("button", name="Save the job").click()

    expect(page.get_by_role("alert")).to_contain_text("it is at version 2 now")
    assert definition(shown, "raced")["command"] == "echo theirs"
    page.get_by_role("button", name="Keep mine").click()
    save(page)
    expect(page).to_have_url(re.compile("#/jobs/default/raced$"))
    assert definition(shown, "raced")["command"] == "echo mine"


def test_a_save_whose_answer_is_lost_is_repeated_as_the_same_request(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append("Failed to load resource: net::ERR")
    shown.create(name="unsure", command="echo first")
    keys: list[str] = []

    def lose_first(route: Route) -> None:
        key = route.request.headers.get("idempotency-key", "")
        if key:
            keys.append(key)
        if len(keys) != 1 or not key:
            route.continue_()
            return
        route.fetch()
        route.abort()

    page.route("**/api/v1/jobs/default/unsure", lose_first)
    open_view(page, shown, "jobs/default/unsure/edit")
    page.get_by_label(re.compile("^Command")).fill("echo second")
    expect(page.get_by_role("status").get_by_text("The node accepts it.")).to_be_visible()
    save(page)
    expect(page.get_by_role("alert")).to_contain_text("does not answer")

    page.get_by_role("button", name="Save the job").click()

    expect(page).to_have_url(re.compile("#/jobs/default/unsure$"))
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_leaving_with_changes_asks(page: Page, shown: Rotad, expected: list[str]) -> None:
    expected.append(f"{REFUSED} 422")
    open_view(page, shown, "jobs")
    page.get_by_role("link", name="New job").click()
    name = page.get_by_label("Name", exact=True)
    name.fill("half-typed")
    views = page.get_by_role("navigation", name="Views", exact=True)

    question = page.get_by_role("dialog", name="Leave without saving?")

    views.get_by_title("Ring").click()
    expect(question).to_be_visible()
    page.get_by_role("button", name="Stay").click()
    expect(name).to_have_value("half-typed")
    expect(page).to_have_url(re.compile("#/jobs/new$"))
    page.go_back()
    expect(question).to_be_visible()
    page.keyboard.press("Escape")
    expect(question).not_to_be_visible()
    expect(name).to_have_value("half-typed")

    views.get_by_title("Ring").click()
    page.get_by_role("button", name="Leave", exact=True).click()
    expect(page).to_have_url(re.compile("#/ring$"))
    expect(page.locator("main")).to_contain_text("shards accept writes")


def test_a_tab_with_changes_asks_before_it_closes(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 422")
    open_view(page, shown, "jobs/new")
    page.get_by_label("Name", exact=True).press_sequentially("half")

    with page.expect_event("dialog") as asked:
        page.close(run_before_unload=True)

    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    expect(page.get_by_label("Name", exact=True)).to_have_value("half")


def test_only_who_may_write_is_offered_the_form_and_a_lost_key_loses_no_text(
    own_node: Rotad, page: Page, expected: list[str], tmp_path: Path
) -> None:
    expected.extend(f"{REFUSED} {status}" for status in (401, 403, 422))
    token = tmp_path / "token"
    token.write_text(ADMIN)
    own_node.flags += ("--auth", "keys", "--bootstrap-key-file", str(token))
    own_node.start()
    own_node.token = ADMIN
    own_node.create(name="seen", command="true")
    reader = key_of(own_node, "reader", "viewer", "*")
    writer = key_of(own_node, "writer", "editor", "team-*")
    open_view(page, own_node, "jobs")

    sign_in(page, reader)
    expect(page.locator("main")).to_contain_text("default/seen")
    expect(page.get_by_role("link", name="New job")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, writer)
    page.get_by_role("link", name="New job").click()
    page.get_by_label("Name", exact=True).fill("kept")
    page.get_by_label("Namespace").fill("team-a")
    own_node.call("DELETE", "/api/v1/keys/writer")
    page.get_by_label(re.compile("^Command")).fill("echo typed before the key ended")

    sign_in(page, key_of(own_node, "second", "editor", "team-*"))
    expect(page.get_by_label(re.compile("^Command"))).to_have_value(
        "echo typed before the key ended"
    )
    save(page, "Create")
    expect(page).to_have_url(re.compile("#/jobs/team-a/kept$"))


def key_of(node: Rotad, name: str, role: str, namespaces: str) -> str:
    """Make a key with a role, and return its token."""
    body = {"name": name, "role": role, "namespaces": [namespaces]}
    token: str = node.call("POST", "/api/v1/keys", body)["token"]
    return token


def sign_in(page: Page, token: str) -> None:
    """Give the page a key."""
    page.get_by_label("Key").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_versions_show_who_changed_what_and_one_is_restored(page: Page, shown: Rotad) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.install()
    shown.create(name="history", command="echo first", env={"A": MARKUP})
    shown.call("PUT", "/api/v1/jobs/history", {"command": "echo second"})
    open_view(page, shown, "jobs/default/history")
    versions = page.get_by_role("region", name="Versions", exact=True)

    expect(versions.get_by_role("listitem").first).to_contain_text("by operator")
    with page.expect_response(re.compile("/jobs/default/history$")):
        page.clock.run_for(6_000)  # The job is read again, its changes are not.
    assert len([each for each in asked if "/changes?" in each]) == 2
    versions.get_by_role("button", name="Difference of version 2").click()
    difference = page.get_by_role("region", name="Difference made by version 2")
    expect(difference.locator(".gone").first).to_contain_text("echo first")
    expect(difference.locator(".new").first).to_contain_text("echo second")
    expect(difference).to_contain_text("<b>bold</b>")
    assert page.locator("main script").count() == 0

    versions.get_by_role("link", name="Restore this version, 1").click()
    page.get_by_role("link", name="Cancel").click()  # Nothing is typed, so that nothing is asked.
    versions.get_by_role("link", name="Restore this version, 1").click()
    expect(page).to_have_url(re.compile(r"#/jobs/default/history/edit\?version=1$"))
    expect(page.locator("main")).to_contain_text("saving restores it")
    save(page)
    expect(page).to_have_url(re.compile("#/jobs/default/history$"))
    expect(versions.get_by_role("listitem").first).to_contain_text("Version 3")
    assert definition(shown, "history")["command"] == "echo first"


def test_versions_are_listed_without_names_for_who_may_not_read_changes(
    page: Page, shown: Rotad, expected: list[str]
) -> None:
    expected.append(f"{REFUSED} 403")
    shown.create(name="unnamed", command="echo first")
    shown.call("PUT", "/api/v1/jobs/unnamed", {"command": "echo second"})
    problem = {"status": 403, "code": "forbidden", "detail": "no verb audit", "requestId": "1"}
    page.route("**/api/v1/changes?*", lambda route: route.fulfill(status=403, json=problem))

    open_view(page, shown, "jobs/default/unnamed")

    versions = page.get_by_role("region", name="Versions", exact=True)
    expect(versions).to_contain_text("for callers with the verb audit")
    versions.get_by_role("button", name="Difference of version 2").click()
    expect(page.get_by_role("region", name="Difference made")).to_contain_text("echo second")


def test_a_difference_of_many_lines_is_a_whole_replacement(page: Page, shown: Rotad) -> None:
    shown.create(name="vast", command="true", parameters=[f"A{n}" for n in range(2_500)])
    body = {"command": "true", "parameters": [f"B{n}" for n in range(2_500)]}
    shown.call("PUT", "/api/v1/jobs/vast", body)
    open_view(page, shown, "jobs/default/vast")

    page.get_by_role("button", name="Difference of version 2").click()

    removed = re.compile(r"2.500 lines removed, 2.500 added")
    expect(page.get_by_role("region", name="Versions", exact=True)).to_contain_text(removed)
