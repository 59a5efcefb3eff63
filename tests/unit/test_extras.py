"""An installation without the packages of the extras, such as that of a client."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rota.client.cli.main import COMMANDS
from rota.client.extras import EXTRAS, NotInstalled, named_extras

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
from rota.client.extras import EXTRAS

sys.modules.update(dict.fromkeys(EXTRAS))  # Their imports fail.
"""
ROTA = f"""{WITHOUT}
from rota.client.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
HELP = f"""{WITHOUT}
from rota.client.cli.main import main
for command in sys.argv[1:]:
    print(command, main([command, "--help"]), file=sys.stderr)
"""
ROTAD = f"""{WITHOUT}
from rota.node.__main__ import load
load()
"""
TEST = """
def test_of_a_job(rota_scheduler):
    rota_scheduler.advance("1d")
"""


def run(script: str, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *words],
        cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip


def test_each_package_of_an_extra_is_listed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    packages = {
        each.partition(" ")[0].replace("-", "_"): extra
        for extra, required in extras.items()
        for each in required
        if extra != "dev" and not (extra == "audit" and each == "tzdata")
    }

    assert packages == EXTRAS


def test_all_commands_have_help_without_the_extras() -> None:
    done = run(HELP, *COMMANDS)

    assert done.stderr.splitlines() == [f"{command} 0" for command in COMMANDS]


@pytest.mark.parametrize(
    "words",
    [
        ["next", "-f", "job.yaml"],
        ["rehearse", "-f", "job.yaml"],
        ["validate", "-f", "job.yaml"],
        ["certs", "init"],
    ],
    ids=" ".join,
)
def test_a_command_names_the_extra_that_it_needs(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text('{name: a, command: x, schedule: "@daily"}')

    done = run(ROTA, *words, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "this needs the package " in done.stderr
    assert "run pip install 'rota[node]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_node_and_the_fixture_name_the_extra_that_they_need(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(WITHOUT)
    (tmp_path / "test_jobs.py").write_text(TEST)

    node = run(ROTAD)
    fixture = run(
        "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))",
        "-p", "rota.testing.plugin", "-p", "no:cacheprovider",
        "--rootdir", str(tmp_path), str(tmp_path),
    )  # fmt: skip

    assert node.returncode == 1
    assert node.stderr.startswith("error: this needs the package ")
    assert len(node.stderr.splitlines()) == 1
    assert "NotInstalled: this needs the package " in fixture.stdout, fixture.stdout


def test_the_import_of_another_module_is_no_error_of_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as found, named_extras():
        raise ModuleNotFoundError("No module named 'shop'", name="shop")
    assert not isinstance(found.value, NotInstalled)
