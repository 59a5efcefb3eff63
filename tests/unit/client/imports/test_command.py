"""``rota import``: output, report and exit status."""

import io
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from rota.client.cli.jobs.imports import FILE_BYTES_MAX
from rota.client.cli.main import cli, main
from rota.client.definitions import InvalidFile, parse_definitions, read_definitions

WHOLE = "CRON_TZ=UTC\nHOME=/srv\n0 1 * * * run\n"
LOSSY = f"MAILTO=ops\n{WHOLE}"


def run(*argv: str, content: str = "") -> Result:
    """Run ``rota import``; the exit status is the value of the result."""
    return CliRunner().invoke(cli, ["import", *argv], input=content, standalone_mode=False)


def test_definitions_are_output_and_the_report_is_on_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "tab"
    file.write_text(LOSSY)

    result = run("crontab", str(file), "-n", "team")

    assert result.return_value == 8
    (job,) = parse_definitions(result.stdout, "output")
    assert (job["name"], job["namespace"], job["schedule"]) == ("run", "team", "0 1 * * *")
    heading, row, _, _, note = result.stderr.splitlines()
    assert heading.split() == ["JOB", "FROM", "SCHEDULE", "NEXT", "FIRE", "TIMES"]
    assert row.startswith(f"run  {file}:4  0 1 * * *")
    assert row.count("T01:00:00+00:00") == 3
    assert note.startswith(f"{file}:1  lost")


def test_definitions_are_written_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "jobs.yaml"

    result = run("crontab", "-", "-o", str(target), content=WHOLE)

    assert result.return_value == 0
    assert result.stdout == ""
    assert read_definitions(target)[0]["name"] == "run"


def test_json_has_definitions_fire_times_and_report() -> None:
    result = run("crontab", "-", "--json", content=LOSSY)

    found = json.loads(result.stdout)
    assert result.return_value == 8
    assert result.stderr == ""
    (job,), (note,) = found["jobs"], found["report"]
    assert job["line"] == 4
    assert len(job["next"]) == 3
    assert job["definition"]["schedule"] == "0 1 * * *"
    assert (note["file"], note["line"], note["effect"]) == ("-", 1, "lost")


def test_a_large_file_is_refused() -> None:
    result = run("crontab", "-", content="#" * (FILE_BYTES_MAX + 1))

    assert isinstance(result.exception, InvalidFile)
    assert "more than 10 MB" in str(result.exception)


def test_a_file_that_is_not_text_is_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "tab"
    file.write_bytes(b"# a\n# \xff\n")

    with pytest.raises(InvalidFile, match=rf"{file}:2: .*UTF-8"):
        CliRunner().invoke(
            cli, ["import", "crontab", str(file)], standalone_mode=False, catch_exceptions=False
        )


def test_an_invalid_line_is_invalid_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"61 * * * * run\n")))

    assert main(["import", "crontab", "-"]) == 9
    assert "-:1: " in capsys.readouterr().err


def test_a_missing_file_is_invalid_input(tmp_path: Path) -> None:
    result = run("crontab", str(tmp_path / "none"))

    assert isinstance(result.exception, InvalidFile)


def test_unknown_formats_are_wrong_usage() -> None:
    assert isinstance(run("anacron", "-").exception, click.UsageError)
