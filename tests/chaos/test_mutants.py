"""Every mutant of mutants.toml can be made; `make chaos-mutants` runs them under the judge."""

import shutil
from pathlib import Path

import pytest

from chaos.mutants import SOURCE, Row, mutant, read_rows


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row.breaks)
def test_the_text_that_a_mutant_changes_is_there(row: Row, tmp_path: Path) -> None:
    copy = tmp_path / row.file
    copy.parent.mkdir(parents=True)
    shutil.copy(SOURCE / row.file, copy)

    problem = mutant(row).apply(tmp_path)

    assert problem == ""
    assert copy.read_text() != (SOURCE / row.file).read_text()
