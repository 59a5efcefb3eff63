"""Every mutant of mutants.toml can be made, and reaches all processes; `make mutants` runs them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from sim.mutants import ROOT, Mutant, make_interpreter, read_mutants

SOURCE = ROOT / "src/rota"


@pytest.mark.parametrize("mutant", read_mutants(), ids=lambda mutant: mutant.breaks)
def test_the_text_that_a_mutant_changes_and_its_test_are_there(
    mutant: Mutant, tmp_path: Path
) -> None:
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    shutil.copy(SOURCE / mutant.file, copy)

    problem = mutant.apply(tmp_path)

    assert problem == ""
    assert copy.read_text() != (SOURCE / mutant.file).read_text()
    file, _, name = mutant.test.partition("::")
    if file:
        assert f"def {name}" in (ROOT / file).read_text()


def test_a_process_without_any_environment_imports_the_mutant(tmp_path: Path) -> None:
    python = make_interpreter(tmp_path)
    # First in the warden's module, to fail however it is started.
    broken = tmp_path / "rota/executor/warden/program.py"
    broken.write_text(f'raise ImportError("the mutant")\n{broken.read_text()}')

    started = subprocess.run(
        [python, "-P", "-m", "rota.executor.warden"], cwd="/", env={}, capture_output=True
    )

    assert b"ImportError: the mutant" in started.stderr
