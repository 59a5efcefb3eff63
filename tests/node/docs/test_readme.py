"""The README: its flow of Python functions runs, and is shown before any number."""

import re
from pathlib import Path

from support.page_shell import PageShell
from support.pages import blocks

README = (Path(__file__).parents[3] / "README.md").read_text()
[EXAMPLE] = [number for number, block in enumerate(blocks(README)) if block.file]


def test_the_flow_runs_and_has_its_retries_and_its_alert(shell: PageShell) -> None:
    file, commands = blocks(README)[EXAMPLE : EXAMPLE + 2]
    file.save(shell.folder)

    printed = shell.must_run(commands.content)

    _, _, shown_output = commands.content.rpartition("# ")
    assert printed.endswith(f"\n{shown_output}")
    shown = shell.must_run("rota jobs show shop.nightly -o yaml")
    assert "retries: 3" in shown
    assert "webhook: https://hooks.slack.com" in shown


def test_the_example_is_before_every_table_and_image() -> None:
    example = README.index(blocks(README)[EXAMPLE].content)

    assert all(example < found.start() for found in re.finditer(r"^(\||!\[)", README, re.MULTILINE))
