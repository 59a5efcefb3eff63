"""The blocking client, which equals the generator's output for the asynchronous one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GENERATOR = "tools/generate_client.py"
SOURCE = "client/async_client.py"
TARGET = "client/client.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the files that take part."""
    for name in (GENERATOR, SOURCE, TARGET, "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def generate(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", root / GENERATOR, *flags], capture_output=True, text=True, timeout=60
    )


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_blocking_client_is_up_to_date() -> None:
    ran = generate(ROOT, "--check")

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", [SOURCE, TARGET])
def test_a_stale_client_is_reported_with_the_command_that_writes_it(tree: Path, name: str) -> None:
    change(
        tree / name,
        "Return the versions of the node that answers.",
        "Return the version of a node.",
    )
    before = (tree / TARGET).read_text()

    stale = generate(tree, "--check")

    assert stale.returncode == 1
    assert "client/client.py is stale" in stale.stderr
    assert "make generate" in stale.stderr
    assert (tree / TARGET).read_text() == before


def test_a_change_of_the_source_is_written_and_then_up_to_date(tree: Path) -> None:
    change(
        tree / SOURCE,
        "Return the versions of the node that answers.",
        "Return the version of a node.",
    )

    assert generate(tree).returncode == 0
    assert generate(tree, "--check").returncode == 0
    assert "Return the version of a node." in (tree / TARGET).read_text()


@pytest.mark.parametrize("line", ["await asyncio.sleep(1)", "async for _ in aiter([]): pass"])
def test_what_has_no_blocking_form_is_refused(tree: Path, line: str) -> None:
    change(
        tree / SOURCE, "        await self.close()", f"        await self.close()\n        {line}"
    )
    before = (tree / TARGET).read_text()

    ran = generate(tree)

    assert ran.returncode == 1
    assert "a substitution is missing" in ran.stderr
    assert (tree / TARGET).read_text() == before


def test_a_substitution_for_nothing_is_refused(tree: Path) -> None:
    change(tree / SOURCE, "aclosing", "closing")

    ran = generate(tree, "--check")

    assert ran.returncode == 1
    assert "aclosing" in ran.stderr


def test_a_source_that_is_no_python_is_refused(tree: Path) -> None:
    change(tree / SOURCE, "class AsyncClient:", "class AsyncClient")

    ran = generate(tree)

    assert ran.returncode == 1
    assert "ruff does not accept" in ran.stderr
