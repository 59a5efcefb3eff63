"""Programs that check a file: run if they are there, missed loudly if not; CI has to have them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"


def needs(program: str, package: str) -> pytest.MarkDecorator:
    """Return a mark that skips where *program* is not installed, and says how it would be.

    It never skips in CI: what is to be checked there, and cannot be, has failed.
    """
    return pytest.mark.skipif(
        shutil.which(program) is None and "CI" not in os.environ,
        reason=f"{program} is missing, so what it would check is not: apt-get install {package}",
    )


def run(*argv: str | Path, stdin: str = "") -> str:
    """Return what a program prints; it has to succeed."""
    ran = subprocess.run(
        [str(each) for each in argv],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, f"{argv} exited with {ran.returncode}: {ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr
