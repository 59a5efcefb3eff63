"""The plugin of pytest, in a pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[3] / "src"
TESTS = """
import sys
import pytest

def test_nothing_is_loaded():
    assert "rota.testing.scheduler" not in sys.modules
    assert "rota.core" not in sys.modules

def test_usual_start(rota_scheduler):
    assert rota_scheduler.now.isoformat() == "2027-01-01T00:00:00+00:00"

@pytest.mark.rota_now("2027-03-27T12:00:00Z")
def test_start_of_the_marker(rota_scheduler):
    assert rota_scheduler.now.isoformat() == "2027-03-27T12:00:00+00:00"

@pytest.mark.rota_now()
def test_bad_marker(rota_scheduler):
    pass
"""


def test_the_fixture_begins_where_the_marker_says_and_is_loaded_at_its_first_use(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_jobs.py").write_text(TESTS)
    environment = {**os.environ, "PYTHONPATH": str(SRC), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "rota.testing.plugin", "--strict-markers",
         "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "3 passed, 1 error" in ran.stdout, ran.stdout + ran.stderr
    assert "rota_now takes one instant" in ran.stdout
