"""The reference of settings: its tables equal the output of the generator."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "configuration.md"


def generate(page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tools.configuration_page",
        str(page),
        *flags,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)


def test_the_tables_of_settings_are_up_to_date() -> None:
    ran = generate(PAGE, "--check")

    assert ran.returncode == 0, ran.stderr


def test_a_stale_table_is_reported_and_then_written(tmp_path: Path) -> None:
    page = tmp_path / "configuration.md"
    page.write_text(PAGE.read_text().replace("| `slots` | `64` |", "| `slots` | `32` |"))

    stale = generate(page, "--check")
    generate(page)

    assert stale.returncode == 1
    assert "run: make docs" in stale.stderr
    assert page.read_text() == PAGE.read_text()
