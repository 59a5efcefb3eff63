"""A browser for tests and screenshots of the web page."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from support.rotad import Rotad

SLOW = "for n in $(seq 1 40); do echo row $n; sleep 0.1; done"
STRANGE = r"printf '\033[31mred\033[0m <img src=x onerror=alert(1)> \342\200\256evil\n'; exit 1"
MARKUP = "<b>bold</b> <script>alert(1)</script>"
FLOW = [
    {"name": "extract_orders", "command": "echo 31 orders; sleep 0.6"},
    {"name": "extract_stock", "command": "echo stock; sleep 0.3"},
    {"name": "join_sales", "needs": ["extract_orders", "extract_stock"], "command": SLOW},
    {"name": "report", "needs": ["join_sales"], "command": "echo done"},
]
WAITS = [
    {"name": "list", "command": "echo '[1, 2, 3, 4, 5, 6]' > $ROTA_RESULT"},
    {
        "name": "load",
        "needs": ["list"],
        "foreach": {"items": "results.list", "toleratedFailures": 1},
        "command": "sleep 0.{{ item }}; test {{ item }} != 2",
    },
    {"name": "rounds", "repeat": {"until": "index == 3", "limit": 20}, "command": "sleep 0.1"},
    {"name": "settle", "needs": ["load"], "sleep": "3h"},
    {
        "name": "check",
        "needs": ["load", "rounds"],
        "approval": "Ship version 1.4 to all customers?",
    },
    {"name": "paid", "needs": ["list"], "waitForEvent": {"event": "paid", "timeout": "2d"}},
    {"name": "large", "needs": ["load"], "when": "results.load | length > 9", "command": "true"},
    {
        "name": "report",
        "needs": ["large", "rounds"],
        "triggerRule": "none_failed_min_one_success",
        "when": "states.rounds == 'success'",
        "command": "echo done",
    },
    {"name": "ship", "needs": ["check", "settle", "paid"], "command": "true"},
]
"""A flow with loops, conditions and a rule, which waits for hours, a person and an event."""


def make_jobs(node: Rotad) -> None:
    """Create jobs that show each kind of row."""
    node.create(name="hello", schedule="0 6 * * 1-5", command="echo hello from the page; sleep 0.2")
    node.create(
        name="strange", command=STRANGE, description="<b>bold</b> <script>alert(1)</script>"
    )
    node.create(name="beat", schedule="@every 2s", command="date")
    node.create(name="idle", schedule="0 3 * * *", command="true")
    node.create(name="etl", tasks=FLOW, schedule="30 2 * * *", timezone="Europe/Berlin")
    node.call("POST", "/api/v1/jobs/idle/pause", {"reason": "moving house"})


@contextmanager
def opened_browser() -> Generator[Browser]:
    """Start Debian's Chromium, the form without a screen if it is installed."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


def watched_page(context: BrowserContext, errors: list[str]) -> Page:
    """Open a page whose errors are collected: exceptions, and all that the console reports.

    A violation of the Content-Security-Policy is an error of the console.
    """

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            errors.append(message.text)

    page = context.new_page()
    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return page
