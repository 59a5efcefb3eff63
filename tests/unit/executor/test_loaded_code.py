"""Changes of the files of loaded modules, as a worker detects them."""

import os
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rota.executor.python import worker
from rota.executor.python.worker import LoadedCode

BEGAN, ENDED = 1_000_000.0, 1_000_010.0
"""When a call began and ended, in seconds since 1970."""
NAME = "a_module_of_a_task"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the only module that the call has imported."""
    file = tmp_path / "module.py"
    file.write_text("VERSION = 1\n")
    module = ModuleType(NAME)
    module.__file__ = str(file)
    # The number of files is limited, and the tests of a process import thousands of modules.
    monkeypatch.setattr(worker, "sys", SimpleNamespace(modules={NAME: module}))
    return file


def written(file: Path, at: float) -> None:
    """Set the time at which *file* was written."""
    os.utime(file, (at, at))


@pytest.mark.parametrize(
    ("at", "has_changed"),
    [
        pytest.param(BEGAN - 1, False, id="before the call"),
        pytest.param(BEGAN, True, id="as the call began"),
        pytest.param(BEGAN + 5, True, id="during the call"),
        pytest.param(ENDED + 60, False, id="by a clock that is ahead"),
    ],
)
def test_a_file_that_was_written_during_the_call_that_imported_it_counts_as_changed(
    at: float, has_changed: bool, file: Path
) -> None:
    code = LoadedCode()
    written(file, at)

    code.record(BEGAN, ENDED)

    assert code.has_changed() is has_changed


def test_a_file_that_is_written_after_its_call_has_changed(file: Path) -> None:
    code = LoadedCode()
    written(file, BEGAN - 1)
    code.record(BEGAN, ENDED)

    written(file, ENDED + 1)

    assert code.has_changed()


def test_a_missing_file_is_unchanged(file: Path) -> None:
    code = LoadedCode()
    written(file, BEGAN - 1)
    code.record(BEGAN, ENDED)

    file.unlink()

    assert not code.has_changed()
