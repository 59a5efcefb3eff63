"""The committed files of the web page are those that its sources build."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "ui"
BUILT = ROOT / "node" / "web" / "files"
WITHOUT = shutil.ignore_patterns("node_modules", "shots", ".svelte-check")


def node_js() -> tuple[int, ...]:
    """Return the version of Node.js; (0,) if it or npm is missing."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return (0,)
    ran = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return tuple(int(part) for part in ran.stdout.strip().removeprefix("v").split("."))


pytestmark = pytest.mark.skipif(
    node_js() < (20, 19), reason="no npm with Node.js 20.19 or newer: nodejs.org; then `make ui`"
)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run(*argv: str, folder: Path) -> None:
    """Run a command, which has to succeed."""
    ran = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_committed_files_have_the_bytes_of_a_build(tmp_path: Path) -> None:
    copy = tmp_path / "ui"
    shutil.copytree(SOURCES, copy, ignore=WITHOUT)

    run("npm", "ci", "--include=dev", "--prefer-offline", "--no-audit", "--no-fund", folder=copy)
    run("npm", "run", "build", "--", "--outDir", str(tmp_path / "built"), folder=copy)

    built, committed = contents(tmp_path / "built"), contents(BUILT)
    assert sorted(built) == sorted(committed), "run `make ui`, and commit node/web/files"
    assert built == committed, "run `make ui`, and commit node/web/files"


def test_the_lock_file_names_no_addresses_of_packages() -> None:
    assert '"resolved"' not in (SOURCES / "package-lock.json").read_text()


def test_the_page_shows_no_text_as_markup() -> None:
    sources = {path: path.read_text() for path in (SOURCES / "src").rglob("*.svelte")}

    assert sources
    for path, text in sources.items():
        for forbidden in ("{@html", "innerHTML", "style=", "localStorage.setItem('key"):
            assert forbidden not in text, f"{path} has {forbidden}"
