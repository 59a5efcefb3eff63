"""The page docs/how-to/test-jobs.md: its tests pass, and its examples do what they say."""

import doctest
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rota.testing import VirtualScheduler
from support.pages import OPTIONS, blocks, is_as_shown

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/test-jobs.md").read_text()


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    page = blocks(PAGE)
    for block in page:
        if block.file:
            block.save(tmp_path)
    # The plugin is given by name, since this checkout may be installed or not.
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p rota.testing.plugin -p no:cacheprovider",
    }
    steps = [step for block in page for step in block.steps]

    for command, shown in steps:
        ran = subprocess.run(
            [sys.executable, "-m", *command.split()],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert is_as_shown(shown, ran.stdout), ran.stdout

    assert len(steps) == 2


def test_the_examples_of_the_page_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(block.content for block in blocks(PAGE) if block.language == "pycon")
    parsed = doctest.DocTestParser().get_doctest(text, {}, "test-jobs.md", None, 0)

    ran = doctest.DocTestRunner(optionflags=OPTIONS).run(parsed)

    assert ran.attempted > 5
    assert ran.failed == 0, capsys.readouterr().out


def test_the_table_has_every_method() -> None:
    shown = {name for cell in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
             for name in re.findall(r"`(\w+)", cell)}  # fmt: skip

    members = dict(inspect.getmembers(VirtualScheduler))
    assert shown == {name for name in members if not name.startswith("_")}
