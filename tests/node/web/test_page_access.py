"""Keys, bindings, roles and secrets in the web page, in a real browser, on a real node."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from deploy.programs import needs
from rota.node.access.verbs import ROLES
from support.rotad import Refusal, Rotad

pytestmark = needs("chromium", "chromium")
VALUE = "hunter2 hunter2"
MARKUP = "<b>ana</b>"


@pytest.fixture(autouse=True)
def quick_expectations() -> None:
    """A busy machine needs longer than the five seconds that are usual."""
    expect.set_options(timeout=15_000)


def test_a_key_is_made_and_its_token_is_shown_once(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    open_as("cluster-admin", "access")
    keys = page.get_by_role("region", name="Keys")

    keys.get_by_role("button", name="New key…").click()
    page.get_by_label("Name", exact=True).fill("made")
    page.get_by_role("combobox", name="Role").fill("editor")
    page.get_by_label("In namespaces").fill("team-a, team-b-*")
    page.get_by_label("Ends in").fill("90d")
    expect(page.get_by_role("dialog")).to_contain_text(
        "rota key create made --role editor --namespace team-a --namespace 'team-b-*' --expires 90d"
    )
    page.get_by_role("button", name="Make the key").click()

    shown = keys.locator(".token code")
    expect(shown).to_have_text(re.compile(r"^rota_k_\w{57}$"))
    token = shown.inner_text()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    keys.get_by_role("button", name="Copy the token").click()
    expect(keys.get_by_text("copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    kept = "JSON.stringify([localStorage, sessionStorage, document.cookie, history.state])"
    assert token not in page.evaluate(kept)
    row = page.get_by_role("region", name="Bindings").get_by_role("row").filter(has_text="made")
    expect(row).to_contain_text("team-a, team-b-*")
    page.get_by_role("button", name="Done, forget it").click()
    expect(shown).to_have_count(0)
    assert token not in page.content()
    guarded.token, admin = token, guarded.token
    assert guarded.call("GET", "/api/v1/whoami")["principal"] == "made"
    guarded.token = admin


def test_a_key_is_revoked_when_its_name_is_typed(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    guarded.call("POST", "/api/v1/keys", {"name": "leaving", "principal": "ana"})
    open_as("cluster-admin", "access")

    row = page.get_by_role("row").filter(has_text="leaving")
    row.get_by_role("button", name="Revoke…").click()
    revoke = page.get_by_role("button", name="Revoke", exact=True)
    page.get_by_label("to confirm").fill("leavin")
    expect(revoke).to_be_disabled()
    page.get_by_label("to confirm").fill("leaving")
    revoke.click()

    expect(page.get_by_text("The key leaving is revoked.")).to_be_visible()
    expect(row).to_have_count(0)
    with pytest.raises(Refusal, match="key_not_found"):
        guarded.call("GET", "/api/v1/keys/leaving")


def test_roles_have_their_verbs_and_auditors_only_look(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    guarded.call("PUT", "/api/v1/roles/deployer", {"verbs": ["read", "write"]})
    binding = {"subject": f"cert:{MARKUP}", "role": "viewer", "namespaces": ["*"]}
    guarded.call("PUT", "/api/v1/bindings/strange", binding)

    open_as("auditor", "access")

    roles = page.get_by_role("region", name="Roles")
    expect(roles).to_contain_text("deployer")
    for role, verbs in ROLES.items():
        row = roles.get_by_role("row").filter(has=page.get_by_title(role, exact=True))
        assert set(row.locator(".tag").all_inner_texts()) == {each.value for each in verbs}, role
    expect(page.get_by_role("region", name="Bindings")).to_contain_text(MARKUP)
    expect(page.get_by_role("region", name="Keys").get_by_role("row").nth(1)).to_be_visible()
    expect(page.get_by_role("button", name="Revoke…")).to_have_count(0)
    expect(page.get_by_role("button", name="New key…")).to_have_count(0)


def test_who_grants_in_a_namespace_sees_its_bindings_alone(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    for name in ("team-c", "other"):
        body = {"subject": f"principal:of-{name}", "role": "viewer", "namespaces": [name]}
        guarded.call("PUT", f"/api/v1/bindings/of-{name}", body)

    open_as("admin", "access", ["team-*"])

    expect(page.get_by_role("region", name="Bindings")).to_contain_text("principal:of-team-c")
    expect(page.get_by_role("main")).not_to_contain_text("principal:of-other")
    expect(page.get_by_role("region", name="Keys")).to_have_count(0)
    views = page.get_by_role("navigation", name="Views", exact=True)
    expect(views.get_by_role("link", name="Secrets")).to_be_visible()
    expect(views.get_by_role("link", name="Access")).to_be_visible()
    expect(views.get_by_role("link", name="Changes")).to_have_count(0)


def test_a_secret_is_set_and_its_value_is_nowhere(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    open_as("admin", "secrets", ["team-*"])

    page.get_by_role("button", name="New secret…").click()
    page.get_by_label("Of the namespace").fill("team-a")
    page.get_by_label("Name", exact=True).fill("db")
    value = page.get_by_label("Value", exact=True)
    value.fill("for the bin")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="New secret…").click()
    expect(value).to_have_value("")
    page.get_by_label("Of the namespace").fill("team-a")
    page.get_by_label("Name", exact=True).fill("db")
    value.fill(VALUE)
    expect(value).to_have_attribute("type", "password")
    expect(page.get_by_role("dialog")).not_to_contain_text(VALUE)
    page.get_by_role("button", name="Set", exact=True).click()

    row = page.get_by_role("row").filter(has_text="team-a/db")
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")
    assert VALUE not in page.content()
    row.get_by_role("button", name="Set…").click()
    expect(value).to_have_value("")
    value.fill("another value")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("2")
    found = guarded.call("GET", "/api/v1/secrets/team-a/db")
    assert (found["version"], found["setBy"]) == (2, page.locator(".foot .cut").first.inner_text())


def test_a_new_secret_replaces_none_and_its_field_is_cleared(
    page: Page, guarded: Rotad, open_as: Callable[..., None], expected: list[str]
) -> None:
    expected.append("Failed to load resource: the server responded with a status of 412")
    guarded.call("PUT", "/api/v1/secrets/team-d/taken", {"value": "kept"})
    open_as("admin", "secrets?namespace=team-d", ["team-*"])

    page.get_by_role("button", name="New secret…").click()
    page.get_by_label("Name", exact=True).fill("taken")
    page.get_by_label("Value", exact=True).fill(VALUE)
    page.get_by_role("button", name="Set", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("version_mismatch")
    expect(page.get_by_label("Value", exact=True)).to_have_value("")
    assert guarded.call("GET", "/api/v1/secrets/team-d/taken")["version"] == 1


def test_a_secret_is_deleted_when_its_name_is_typed(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    for name in ("old", "kept"):
        guarded.call("PUT", f"/api/v1/secrets/team-e/{name}", {"value": VALUE})
    open_as("admin", "secrets?namespace=team-e", ["team-*"])

    row = page.get_by_role("row").filter(has_text="team-e/old")
    row.get_by_role("button", name="Delete…").click()
    page.get_by_label("to confirm").fill("old")
    page.get_by_role("button", name="Delete", exact=True).click()

    expect(row).to_have_count(0)
    left = guarded.call("GET", "/api/v1/secrets?namespace=team-e")["items"]
    assert [each["name"] for each in left] == ["kept"]


def test_who_may_only_use_secrets_is_offered_no_change(
    page: Page, guarded: Rotad, open_as: Callable[..., None]
) -> None:
    for namespace in ("team-f", "unseen"):
        guarded.call("PUT", f"/api/v1/secrets/{namespace}/db", {"value": VALUE})

    open_as("editor", "secrets", ["team-*"])

    expect(page.get_by_role("row").filter(has_text="team-f/db")).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("unseen")
    for name in ("New secret…", "Set…", "Delete…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
