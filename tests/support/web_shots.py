"""Screenshots of each view of the web page: ``make ui-shots``.

They are for eyes, not for comparison: two browsers do not draw the same pixels.
"""

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from support.key_rings import key_ring_file
from support.rotad import Json, Rotad
from support.web_browser import WAITS, make_jobs, opened_browser, watched_page

SIZES = ((1440, 900), (390, 844))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SETTLED_MS = 1_200
OPENED = {
    "trigger": ("jobs/default/etl", "Trigger…"),
    "backfill": ("jobs/default/etl", "Backfill…"),
    "backfill-cancel": ("jobs/default/idle", "Cancel…"),
    "explain": ("jobs/default/idle", "Why?"),
    "versions": ("jobs/default/etl", "Difference of version 2"),
    "palette": ("jobs", "Find or go to"),
    "change": ("changes", "Show the change of default/etl, job replaced"),
    "namespace-pause": ("namespaces/team-a", "Pause…"),
    "key-new": ("access", "New key…"),
    "key-revoke": ("access", "Revoke…"),
    "secret-new": ("secrets", "New secret…"),
    "secret-delete": ("secrets", "Delete…"),
    "state-set": ("job-state", "Set…"),
    "state-release": ("job-state", "Release…"),
    "approve": ("execution-asks", "Approve"),
    "event-send": ("execution-asks", "Send event"),
}
"""What a button of a view opens, by the name of the screenshot; a view has a name or an address."""
NAMESPACE = {
    "description": "Reports of team A",
    "owners": ["ana", "team-a@example.org"],
    "defaults": {"retries": 2, "timeout": "1h", "labels": {"team": "a"}},
    "policy": {"executors": ["process", "container"]},
    "quota": {"jobs": 5, "executions": 50, "secrets": 1},
}


FORM = {
    "type": "object",
    "required": ["percent", "channel"],
    "properties": {
        "percent": {"type": "integer", "minimum": 1, "maximum": 100, "title": "Part of the rows"},
        "channel": {"enum": ["stable", "beta"], "default": "stable"},
        "dry": {"type": "boolean", "description": "Whether nothing is written"},
        "note": {"type": "string"},
        "hosts": {"type": "array", "items": {"type": "string"}},
    },
}
ASKS = [
    {"name": "read", "command": "sleep 0.3"},
    {
        "name": "approve_rows",
        "needs": ["read"],
        "approval": {"message": "Import 31 000 rows?", "form": FORM},
    },
    {"name": "delivered", "needs": ["read"], "waitForEvent": "delivered"},
    {"name": "billed", "needs": ["read"], "waitForEvent": {"event": "paid", "timeout": "2d"}},
    {"name": "booked", "needs": ["read"], "waitForEvent": "paid"},
    {"name": "write", "needs": ["approve_rows", "billed"], "command": "true"},
]
TABLES = ("customers", "orders", "payments", "shipments", "refunds", "invoices", "addresses")


def main(folder: Path) -> None:
    """Start a node with jobs, and write the screenshots to *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, furnishable(Path(place)) as node:
        node.start()
        with opened_browser() as browser:
            write(browser, node, folder, {"empty-overview": "", "empty-jobs": "jobs"})
            views = views_of(node)
            write(browser, node, folder, views)
            write_opened(browser, node, folder, views)


def furnishable(place: Path) -> Rotad:
    """Return a node that can keep secrets; not started."""
    return Rotad(place / "data", "--drain", "0s", "--keyring", str(key_ring_file(place)))


def views_of(node: Rotad) -> dict[str, str]:
    """Return the addresses of the views by name, after the jobs have run."""
    make_jobs(node)
    make_documents(node)
    node.create(name="ships", tasks=WAITS)
    make_backfills(node)
    failed = trigger(node, "strange")
    node.call("GET", f"/api/v1/executions/{failed}/wait")
    done = trigger(node, "etl")
    node.call("GET", f"/api/v1/executions/{done}/wait")
    return {
        "overview": "",
        "jobs": "jobs",
        "job": "jobs/default/etl",
        "job-new": "jobs/new",
        "job-edit": "jobs/default/etl/edit",
        "executions": "executions",
        "execution": f"executions/{trigger(node, 'etl')}",
        "execution-done": f"executions/{done}?task=join_sales",
        "execution-failed": f"executions/{failed}",
        "execution-flow": f"executions/{trigger(node, 'ships')}",
        "job-flow": "jobs/default/ships",
        "job-backfills": "jobs/default/idle",
        "job-state": "jobs/default/import",
        "execution-asks": f"executions/{make_state(node)}",
        "upcoming": "upcoming",
        "calendars": "calendars",
        "calendar": "calendars/business",
        "ledger": "ledger",
        "ring": "ring",
        "changes": "changes",
        "namespaces": "namespaces",
        "namespace": "namespaces/team-a",
        "namespace-paused": "namespaces/billing",
        "access": "access",
        "secrets": "secrets",
    }


def make_documents(node: Rotad) -> None:
    """Create namespaces, keys, a role and secrets, and another version of a job."""
    node.call("PUT", "/api/v1/namespaces/team-a", NAMESPACE)
    node.call("PUT", "/api/v1/namespaces/billing", {"owners": ["jonas"]})
    node.call("POST", "/api/v1/namespaces/billing:pause", {"reason": "the year is closed"})
    for number in range(4):
        node.create(name=f"report-{number}", namespace="team-a", command="true")
    ci = {"name": "ci", "role": "editor", "namespaces": ["team-a", "team-b-*"], "expiresIn": "90d"}
    node.call("POST", "/api/v1/keys", ci)
    ana = {"name": "laptop", "principal": "ana", "role": "viewer", "namespaces": ["*"]}
    node.call("POST", "/api/v1/keys", ana | {"from": ["10.0.0.0/8"]})
    node.call("PUT", "/api/v1/roles/deployer", {"verbs": ["read", "run", "write"]})
    node.call("PUT", "/api/v1/secrets/team-a/db", {"value": "not for eyes"})
    etl = node.call("GET", "/api/v1/jobs/etl")["definition"]
    node.call("PUT", "/api/v1/jobs/etl", etl | {"schedule": "45 2 * * *"})


def make_backfills(node: Rotad) -> None:
    """Create calendars and a job that names them, with backfills that have ended and that wait."""
    feasts = {"dates": ["01-01", "12-24"], "description": "days without a business"}
    node.call("PUT", "/api/v1/calendars/holidays", feasts | {"blackoutOf": ["billing"]})
    week = {"weekdays": ["MON-FRI"], "excludes": ["holidays"], "timezone": "Europe/Berlin"}
    node.call("PUT", "/api/v1/calendars/business", week)
    named = {"onlyCalendars": ["business"], "exceptCalendars": ["holidays"]}
    idle = node.call("GET", "/api/v1/jobs/idle")["definition"]
    node.call("PUT", "/api/v1/jobs/idle", idle | named | {"command": "exit 1"})
    ended = {"since": "2026-03-02T00:00:00Z", "until": "2026-03-07T00:00:00Z", "parallel": 5}
    node.call("POST", "/api/v1/jobs/idle/backfills", ended)
    node.wait_until(lambda: newest_backfill(node, "idle")["status"] == "done")
    node.call("PUT", "/api/v1/jobs/idle", idle | named | {"command": "sleep 60"})
    waits = {"since": "2026-04-01T00:00:00Z", "until": "2026-05-01T00:00:00Z", "parallel": 2}
    node.call("POST", "/api/v1/jobs/idle/backfills", waits | {"order": "newest"})


def make_state(node: Rotad) -> Json:
    """Create a job with state, of which an execution waits for answers; return its id."""
    node.create(name="import", tasks=ASKS)
    started = trigger(node, "import")
    values = {"cursor": "2026-11-01T04:00:00Z", "failures": 3, "offsets": dict.fromkeys(TABLES, 0)}
    for key, value in values.items():
        node.call("PUT", f"/api/v1/jobs/import/state/{key}", {"value": value})
    lock = {"value": None, "executionId": started, "task": "approve_rows"}
    node.call("PUT", "/api/v1/jobs/import/state/table-lock", lock)
    return started


def newest_backfill(node: Rotad, job: str) -> Json:
    """Return the newest backfill of a job."""
    return node.call("GET", f"/api/v1/jobs/{job}/backfills")["items"][0]


def trigger(node: Rotad, job: str) -> Json:
    """Start an execution of a job, and return its id."""
    return node.call("POST", f"/api/v1/jobs/{job}/trigger")["executionId"]


def write(browser: Browser, node: Rotad, folder: Path, views: dict[str, str]) -> None:
    """Write each view in each size and theme."""
    for width, height in SIZES:
        for theme in THEMES:
            errors: list[str] = []
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=theme
            )
            page = watched_page(context, errors)
            for name, view in views.items():
                show(page, node, view)
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png")
            context.close()
            assert errors == []


def write_opened(browser: Browser, node: Rotad, folder: Path, views: dict[str, str]) -> None:
    """Write what buttons open: questions, differences, the palette."""
    for width, height in SIZES:
        context = browser.new_context(viewport={"width": width, "height": height})
        page = watched_page(context, [])
        for name, (view, button) in OPENED.items():
            show(page, node, views.get(view, view))
            press(page, button)
            page.screenshot(path=folder / f"{name}-{width}-light.png")
        if page.get_by_role("button", name="More", exact=True).is_visible():
            show(page, node, "jobs")
            press(page, "More")
            page.screenshot(path=folder / f"more-{width}-light.png")
        context.close()


def press(page: Page, button: str) -> None:
    """Press a button, and wait until what it opens is there."""
    page.get_by_role("button", name=button).first.click()
    page.wait_for_timeout(SETTLED_MS)


def show(page: Page, node: Rotad, view: str) -> None:
    """Show a view, and wait until its data has arrived."""
    page.goto("about:blank")  # A dialog that is open would stay over another view.
    page.goto(f"{node.url}/ui/#/{view}")
    page.wait_for_timeout(SETTLED_MS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
