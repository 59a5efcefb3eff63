"""An environment for each system, with what it needs and nothing of rota's.

It is kept for the next run.
"""

import json
import subprocess
import sys
from pathlib import Path

from bench.peers.systems import System

ENVIRONMENTS = Path(__file__).parents[2] / "build" / "bench-peers"
"""Ignored by git, and gone after ``make clean``."""


def programs_of(system: System) -> Path:
    """Return the folder of a system's programs; install them if they are not there yet."""
    home = ENVIRONMENTS / system.name
    made = home / "packages.json"
    if not made.exists() or json.loads(made.read_text()) != [*system.packages]:
        print(f"installing {', '.join(system.packages)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *system.packages], check=True)
        made.write_text(json.dumps(system.packages))
    return home / "bin"


def versions_of(system: System) -> str:
    """Return what is installed of a system's own packages, as ``celery 5.5.3``."""
    python = programs_of(system) / "python"
    names = [each.partition(">")[0].partition("[")[0] for each in system.packages]
    code = (
        "import sys; from importlib.metadata import version; "
        "print(', '.join(f'{name} {version(name)}' for name in sys.argv[1:]))"
    )
    ran = subprocess.run(
        [str(python), "-c", code, *names], check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()
