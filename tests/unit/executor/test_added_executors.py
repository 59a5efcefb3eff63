"""Executors that other installed packages add by entry points."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.executor.warden.hosted_executors import EXECUTORS, Row, installed, known_executors
from support.added_executor import add_executor


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    known_executors.cache_clear()
    yield
    known_executors.cache_clear()
    sys.modules.pop("rota_echo", None)


def test_an_entry_point_adds_an_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_executor(tmp_path, "echo = rota_echo:ROW")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    assert known_executors() == {**EXECUTORS, "echo": Row("rota_echo:Echo", folder="echo")}
    assert "echo" in installed()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("process = rota_echo:ROW", "another one has this name"),
        ("echo = rota_echo:MISSING", "executor not added"),
        ("echo = rota_missing:ROW", "executor not added"),
        ("echo = rota_echo:Echo", "it is no Row"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_logged_and_the_others_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    entry: str,
    reason: str,
) -> None:
    add_executor(tmp_path, entry, "other = rota_echo:ROW")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with caplog.at_level(logging.ERROR):
        found = known_executors()

    assert found.keys() == {*EXECUTORS, "other"}
    assert found["process"] == EXECUTORS["process"]
    assert reason in caplog.text
