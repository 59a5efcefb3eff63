"""``rota run``: a command once, without a job of the user's."""

import re
from pathlib import Path

import pytest

from support.rota_program import Rota


def test_a_command_runs_once_and_its_output_is_printed(rota: Rota) -> None:
    ran = rota(*("run", "--wait", "-p", "day=3", "--", 'echo "$ROTA_PARAMETERS" $0 ran'))
    listed = rota("jobs", "--all", "-q", "run-", "-o", "json").json

    assert (ran.status, ran.out.splitlines()[-1]) == (0, '{"day":3} /bin/sh ran')
    assert re.fullmatch(r"run-[0-9a-f]{12}", listed[-1]["name"])


def test_a_failed_command_has_the_exit_status_of_a_failed_execution(rota: Rota) -> None:
    ran = rota("run", "--follow", "--label", "team=core", "--", "echo said; exit 3")

    assert (ran.status, "said" in ran.out) == (1, True)
    [job] = rota("jobs", "--all", "-l", "team=core", "-q", "run-", "-o", "json").json
    assert job["labels"] == {"team": "core"}


def test_its_job_is_listed_with_all_jobs_alone(rota: Rota) -> None:
    rota("jobs", "create", "stays", "--label", "team=seen", "--", "true")
    rota("run", "--wait", "--label", "team=seen", "--", "true")

    listed = rota("jobs", "-l", "team=seen", "-o", "name")
    with_all = rota("jobs", "--all", "-l", "team=seen", "-o", "name")

    assert listed.out == "default/stays\n"
    assert listed.err == "1 one-off job is hidden; --all shows one-off jobs, too\n"
    assert (len(with_all.out.split()), with_all.err) == (2, "")


def test_without_waiting_the_execution_is_printed(rota: Rota) -> None:
    execution = rota("run", "-o", "name", "--", "true").out.strip()

    assert rota("executions", "wait", execution).status == 0


def test_a_dry_run_starts_nothing(rota: Rota) -> None:
    before = rota("jobs", "--all", "-q", "run-", "-o", "name").out

    tried = rota("run", "--dry-run", "--", "true")

    assert tried.status == 0
    assert "dry run: nothing is changed" in tried.err
    assert rota("jobs", "--all", "-q", "run-", "-o", "name").out == before


def test_a_function_in_a_folder_is_called(
    rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "greets.py").write_text("def greet(name: str):\n    print('hello', name)\n")
    monkeypatch.chdir(tmp_path)

    ran = rota("run", "--wait", "--python", "greets:greet", "--path", "lib", "-p", "name=ann")

    assert (ran.status, ran.out.splitlines()[-1]) == (0, "hello ann")


def test_a_path_without_a_function_is_wrong_usage(rota: Rota) -> None:
    refused = rota("run", "--path", "lib", "--", "true")

    assert (refused.status, "--path is for --python" in refused.err) == (2, True)


def test_nothing_to_run_is_wrong_usage(rota: Rota) -> None:
    refused = rota("run")

    assert refused.status == 2
    assert "write the command after two dashes: rota run -- echo hello" in refused.err


def test_words_before_the_dashes_are_refused_with_the_right_command(rota: Rota) -> None:
    refused = rota("run", "uptime", "-p")

    assert refused.status == 2
    assert "rota run -- uptime -p" in refused.err
