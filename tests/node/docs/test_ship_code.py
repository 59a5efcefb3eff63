"""The page How to ship code to nodes: its releases are deployed and run on a node."""

import shutil
from pathlib import Path

import pytest

from support.page_shell import PageShell
from support.pages import blocks
from support.rota_program import until

PAGE = (Path(__file__).parents[3] / "docs/how-to/ship-code.md").read_text()

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")


def test_the_commands_print_what_the_page_shows(shell: PageShell) -> None:
    page = PAGE.replace("/opt/shop", str(shell.folder))

    assert shell.follow(blocks(page)) == 14


def test_code_that_changes_in_place_is_noticed_by_the_worker_and_not_by_deploy(
    shell: PageShell,
) -> None:
    first, second = (block for block in blocks(PAGE) if block.file.endswith("/shop.py"))
    first.save(shell.folder)
    deploy = "cd releases/1 && rota deploy shop:app"
    shell.must_run(deploy)
    assert printed(shell) == "release 1\n"

    (shell.folder / first.file).write_text(second.content)

    assert "unchanged" in shell.must_run(deploy)
    until(lambda: printed(shell) == "the second release\n")


def printed(shell: PageShell) -> str:
    """Run the job, and return its output."""
    shell.must_run("rota trigger shop.report --wait")
    return shell.must_run("rota output shop.report")
