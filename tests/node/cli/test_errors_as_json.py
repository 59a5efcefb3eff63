"""Errors of commands with ``-o json``."""

import json
from pathlib import Path
from typing import Any

import pytest

from rota.client.cli.main import main

Json = Any  # Any: a document, examined by each test.


def error_of(capsys: pytest.CaptureFixture[str], status: int, *argv: str) -> Json:
    """Run a command that ends with *status*, and return the error that it prints."""
    assert main(argv) == status
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    return json.loads(line)


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_the_error_of_a_node_is_its_problem_document_with_the_hint(
    form: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--url", url, "jobs", "create", f"twice-{form}", "--", "true"])
    capsys.readouterr()

    argv = ("--url", url, "jobs", "create", f"twice-{form}", "-o", form, "--", "false")
    error = error_of(capsys, 5, *argv)

    assert (error["code"], error["status"]) == ("job_exists", 409)
    assert error["type"] == "urn:rota:problem:job_exists"
    assert error["requestId"]
    assert "`rota jobs diff` shows the differences" in error["hint"]


def test_errors_of_fields_are_listed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: late\ncommand: 'true'\nschedule: '61 * * * *'\n")

    error = error_of(capsys, 9, "--url", url, "jobs", "create", "-f", str(file), "-o", "json")

    [field] = error["errors"]
    assert field["pointer"] == "/schedule"
    assert "minutes go from 0 to 59" in field["detail"]


def test_a_node_that_does_not_answer_has_the_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, 6, "--url", "http://127.0.0.1:1", "jobs", "-o", "json")

    assert (error["code"], error["status"]) == ("unreachable", 0)
    assert "--url" in error["hint"]


def test_wrong_usage_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, 2, "executions", "--limit", "many", "-o", "json")

    assert error["code"] == "wrong_usage"
    assert "many" in error["detail"]


def test_other_forms_have_errors_as_text(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", url, "jobs", "show", "no-such-job", "-o", "yaml"]) == 3

    assert capsys.readouterr().err.startswith("error: ")
