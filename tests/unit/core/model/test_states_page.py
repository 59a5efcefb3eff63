"""The page of states is what the generator draws from the tables."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
GENERATOR = "tools/states_page.py"
PAGE = "docs/reference/states.md"


def draw(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", root / GENERATOR, *flags], capture_output=True, text=True, timeout=60
    )


def test_the_page_of_states_is_up_to_date() -> None:
    ran = draw(ROOT, "--check")

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "line", ["    ready --> running\n", "| `ready` | `running` | a slot is free |"]
)
def test_a_page_without_a_move_is_stale_until_it_is_drawn_again(tmp_path: Path, line: str) -> None:
    for name in (GENERATOR, PAGE):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page = (ROOT / PAGE).read_text()
    assert line in page
    (tmp_path / PAGE).write_text(page.replace(line, ""))

    stale = draw(tmp_path, "--check")
    drawn = draw(tmp_path)

    assert stale.returncode == 1
    assert "make docs" in stale.stderr
    assert drawn.returncode == 0
    assert (tmp_path / PAGE).read_text() == page
