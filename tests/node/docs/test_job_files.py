"""The page How to keep jobs in files: its commands run on a job with a history."""

import json
import shutil
from pathlib import Path

import pytest

from support.page_shell import PageShell
from support.pages import blocks

PAGE = (Path(__file__).parents[3] / "docs/how-to/job-files.md").read_text()
COMMANDS = [line for block in blocks(PAGE) for line in block.content.splitlines()]
DIFFERENT = 8

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("bash")), reason="git or bash is not installed"
)


def test_the_commands_run_in_order_and_end_with_a_difference(shell: PageShell) -> None:
    shell.must_run("rota jobs create invoices -n billing --label files=billing -- true")
    for retries in range(1, 8):
        shell.must_run(f"rota jobs set billing/invoices retries={retries}")
    plan = next(command for command in COMMANDS if command.startswith("rota plan"))

    for command in COMMANDS:
        shell.must_run(command)

    assert shell.run(plan).returncode == DIFFERENT
    assert retries_of_invoices(shell) == 6


def test_a_deleted_job_comes_back_from_the_commit_before(shell: PageShell) -> None:
    shell.must_run("rota jobs create invoices -n billing --label files=billing -- true")
    shell.must_run("git init -q && git config user.name Ann && git config user.email a@example.com")
    shell.must_run("rota export -n billing --output jobs && git add jobs && git commit -qm Jobs")
    shell.must_run("rota jobs delete billing/invoices && git rm -q jobs/billing+invoices.yaml")
    shell.must_run("git commit -qm Gone")
    [command] = [part for part in PAGE.split("`") if part.startswith("git show")]

    shell.must_run(command)

    assert retries_of_invoices(shell) == 0


def retries_of_invoices(shell: PageShell) -> int:
    shown = json.loads(shell.must_run("rota jobs show billing/invoices -o json"))
    return int(shown["tasks"][0]["retries"])
