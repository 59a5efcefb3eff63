"""A Python environment for each system, with its packages and none of rota's.

It is kept for the next run.
"""

import json
import subprocess
import sys
from pathlib import Path

from bench.peers.programs import NotInstalled, program
from bench.peers.systems import System

ENVIRONMENTS = Path(__file__).parents[2] / "build" / "bench-peers"
"""The folder of the environments, which git ignores and ``make clean`` removes."""


def programs_of(system: System) -> Path:
    """Return the folder of a system's programs; install them if they are not there yet.

    Raises:
        NotInstalled: A package cannot be installed; the output of pip or npm has the reason.
    """
    home = ENVIRONMENTS / system.name
    made = home / "packages.json"
    packages = [*system.packages, *system.npm_packages]
    if not made.exists() or json.loads(made.read_text()) != packages:
        print(f"installing {', '.join(packages)}", file=sys.stderr)
        try:
            _install(system, home)
        except subprocess.CalledProcessError as error:
            raise NotInstalled(
                f"these packages cannot be installed from PyPI or npm: {', '.join(packages)}"
            ) from error
        made.write_text(json.dumps(packages))
    return home / "bin"


def _install(system: System, home: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    pip = [str(home / "bin" / "pip"), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *system.packages], check=True)
    if system.npm_packages:
        npm = [program("npm", "apt-get install npm"), "--no-audit", "--no-fund", "--loglevel=error"]
        # With --global and a prefix, its programs are put beside Python's, in `bin`. Scripts are
        # not needed: the only one, Restate's, reports the installation.
        install = ["install", "--ignore-scripts", "--global", "--prefix", str(home)]
        subprocess.run([*npm, *install, *system.npm_packages], check=True, stdout=sys.stderr)


def versions_of(system: System) -> str:
    """Return the installed versions of a system's packages, such as ``celery 5.5.3``."""
    programs = programs_of(system)
    names = [each.partition(">")[0].partition("[")[0] for each in system.packages]
    code = (
        "import sys; from importlib.metadata import version; "
        "print(', '.join(f'{name} {version(name)}' for name in sys.argv[1:]))"
    )
    ran = subprocess.run(
        [str(programs / "python"), "-c", code, *names], check=True, capture_output=True, text=True
    )
    return ", ".join([ran.stdout.strip(), *npm_versions(programs.parent, system.npm_packages)])


def npm_versions(home: Path, packages: tuple[str, ...]) -> list[str]:
    """Return the installed versions of npm packages below *home*, such as ``@some/server 1.7``."""
    names = [each.rpartition("@")[0] for each in packages]
    found = {name: home / "lib" / "node_modules" / name / "package.json" for name in names}
    return [f"{name} {json.loads(path.read_text())['version']}" for name, path in found.items()]
