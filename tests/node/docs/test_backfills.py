"""The page Backfills: its commands run, and the preview is as shown."""

import json
import shutil
from pathlib import Path

import pytest

from support.page_shell import PageShell
from support.pages import blocks, is_as_shown

PAGE = (Path(__file__).parents[3] / "docs/reference/backfills.md").read_text()
SHOWN_ID = "5b1c0f0a9c2e4d17"

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")


def test_a_backfill_is_previewed_started_paused_resumed_and_cancelled(shell: PageShell) -> None:
    # A month that is in the past for every clock.
    page = PAGE.replace("2026-1", "2025-1")
    preview, steps = (block.steps for block in blocks(page))
    shell.must_run('rota jobs create report --schedule "0 0 * * *" -- sleep 600')

    [(command, shown)] = preview
    printed = shell.must_run(command)
    assert is_as_shown(shown, printed), printed

    states: list[str] = []
    backfill = SHOWN_ID
    for command, _ in steps:
        shell.must_run(command.replace(SHOWN_ID, backfill))
        [document] = json.loads(shell.must_run("rota backfill list report -o json"))
        backfill = document["backfillId"]
        states.append(document["status"])
    assert states == ["running", "running", "paused", "running", "cancelled"]
