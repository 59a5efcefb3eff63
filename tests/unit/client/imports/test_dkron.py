"""Jobs of Dkron as definitions of jobs."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from rota.client.definitions import InvalidFile
from rota.client.imports.drafts import Source
from rota.client.imports.imported import Imported
from unit.client.imports.accepted import import_files, import_text, notes_of, only_job

SHELL: dict[str, object] = {"command": "true", "shell": "true", "cwd": "/srv"}
JOB: dict[str, object] = {
    "name": "report",
    "timezone": "Europe/Berlin",
    "schedule": "0 30 6 * * *",
    "tags": {"role": "web:1"},
    "executor": "shell",
    "executor_config": SHELL,
}
"""A job of which nothing is lost; its members are in the lines 2 to 13, and further ones follow."""
REQUEST: dict[str, object] = {"method": "POST", "url": "http://localhost/run"}


def import_jobs(*jobs: dict[str, object]) -> Imported:
    """Return the import of jobs, each without the members that are None."""
    kept = [{key: value for key, value in job.items() if value is not None} for job in jobs]
    return import_text("dkron", json.dumps(kept if len(kept) > 1 else kept[0], indent=1))


def import_request(**config: str) -> Imported:
    """Return the import of a job that makes a request."""
    return import_jobs(JOB | {"executor": "http", "executor_config": {**REQUEST, **config}})


def test_a_job_is_carried_over() -> None:
    result = import_jobs(
        JOB
        | {
            "displayname": "Daily report",
            "owner": "sales",
            "retries": 2,
            "concurrency": "forbid",
            "metadata": {"team": "a"},
            "success_count": 9,
            "last_success": "2026-01-01T00:00:00Z",
        }
    )

    assert only_job(result) == {
        "name": "report",
        "description": "Daily report",
        "schedule": "0 30 6 * * *",
        "timezone": "Europe/Berlin",
        "misfire": "skip",
        "overlap": "skip",
        "retries": {"limit": 2, "backoff": "fixed", "delay": 0},
        "nodeSelector": {"role": "web"},
        "labels": {"owner": "sales", "team": "a"},
        "command": "true",
        "cwd": "/srv",
    }
    assert result.report == []
    assert result.jobs[0].next[0] == "2027-01-01T06:30:00+01:00"


@pytest.mark.parametrize(
    ("schedule", "expected", "notes"),
    [
        ("@every 1h30m", "@every 1h30m", ["changed"]),
        ("@at 2027-02-01T15:04:00+01:00", "@at 2027-02-01T15:04:00+01:00", []),
        ("@manually", "@manual", []),
        ("@minutely", "0 * * * * *", ["changed"]),
        ("@daily", "@daily", ["changed"]),
        ("0 0 0 */10 * MON", "0 0 0 1-31/10 * MON", ["changed"]),
        ("0 0 0 */1 * MON", "0 0 0 */1 * MON", ["changed"]),
    ],
)
def test_schedules_have_the_meaning_that_they_have_there(
    schedule: str, expected: str, notes: list[str]
) -> None:
    result = import_jobs(JOB | {"schedule": schedule, "timezone": None})

    assert only_job(result)["schedule"] == expected
    assert [note.effect for note in result.report] == notes


def test_a_spread_time_follows_from_the_name() -> None:
    result = import_jobs(JOB | {"name": "ab", "schedule": "0 ~ ~ * * *"})

    # The characters of the name are 97 and 98: 195 is 15 modulo 60, and 3 modulo 24.
    assert only_job(result)["schedule"] == "0 15 3 * * *"
    assert notes_of(result) == [(4, "changed", "0")]


def test_a_disabled_job_has_no_schedule() -> None:
    result = import_jobs(JOB | {"disabled": True})

    assert "schedule" not in only_job(result)
    assert notes_of(result) == [(14, "lost", "disabled:")]


@pytest.mark.parametrize(
    ("tags", "selector", "what"),
    [
        ({"role": "web:1"}, {"role": "web"}, []),
        ({"role": "web:1", "zone": "a"}, {"role": "web", "zone": "a"}, []),
        ({"role": "web:3"}, {"role": "web"}, ["tags: the job runs on 3 nodes with these tags"]),
        ({"role": "web"}, {"role": "web"}, ["tags: the job runs on every node with these tags"]),
        ({}, None, ["tags: the job runs on every node"]),
    ],
)
def test_more_than_one_node_is_lost(
    tags: dict[str, str], selector: dict[str, str] | None, what: list[str]
) -> None:
    result = import_jobs(JOB | {"tags": tags})

    assert only_job(result).get("nodeSelector") == selector
    assert [note.what for note in result.report] == what


def test_a_job_that_follows_others_has_them_as_dependencies() -> None:
    one = JOB | {"name": "one", "dependent_jobs": ["three"]}
    two = JOB | {"name": "two"}
    three = JOB | {"name": "three", "parent_job": "two"}

    result = import_files(
        "dkron",
        Source("a", json.dumps([one, two])),
        Source("b", json.dumps(three)),
    )

    last = result.jobs[2].definition
    assert last["dependencies"] == ["one", "two"]
    # Dkron does not schedule the jobs that have a parent.
    assert "schedule" not in last
    assert result.report == []


def test_relatives_that_are_missing_are_reported() -> None:
    result = import_jobs(JOB | {"parent_job": "before", "dependent_jobs": ["after"]})

    assert only_job(result)["dependencies"] == ["before"]
    assert notes_of(result) == [(14, "changed", "the"), (15, "lost", "the")]


def test_a_command_without_a_shell_is_a_list() -> None:
    config = {"command": "echo 'a b' $HOME", "env": "A=1,B=x=y", "timeout": "1m30s"}

    result = import_jobs(JOB | {"executor_config": config | {"mem_limit_kb": "2048"}})

    job = only_job(result)
    assert job["command"] == ["echo", "a b", "$HOME"]
    assert job["env"] == {"A": "1", "B": "x=y"}
    assert job["timeout"] == "1m30s"
    assert job["limits"] == {"memory": "2048KiB"}
    assert [note.effect for note in result.report] == ["changed"]


def test_braces_of_a_command_are_no_template() -> None:
    job = only_job(
        import_jobs(
            JOB | {"executor_config": SHELL | {"command": "docker ps --format '{{.Names}}'"}}
        )
    )

    shell, option, line = job["command"]
    assert (shell, option) == ("/bin/sh", "-c")
    assert line == "{% raw %}docker ps --format '{{.Names}}'{% endraw %}"


def test_a_request_is_a_command() -> None:
    result = import_request(body="@x", headers='["X-Key: 1"]', tlsNoVerifyPeer="true")

    assert only_job(result)["command"] == [
        *("curl", "--silent", "--show-error", "--location", "--globoff", "--max-time", "30"),
        *("--request", "POST", "--header", "X-Key: 1", "--header", "Content-Type:"),
        *("--data-raw", "@x", "--insecure", "--url", "http://localhost/run"),
    ]
    assert notes_of(result) == [(11, "changed", "http:")]


@pytest.mark.parametrize(
    ("status", "body", "exit_status"), [(201, "done", 0), (404, "done", 1), (200, "no", 1)]
)
def test_a_request_is_checked_by_status_and_body(
    tmp_path: Path, status: int, body: str, exit_status: int
) -> None:
    job = only_job(import_request(expectCode="200,201", expectBody="^do"))
    curl = tmp_path / "curl"
    # What curl does here: the body to the file, the status to its standard output.
    curl.write_text(f"#!/bin/sh\nprintf '{body}' > body\nprintf {status}\n")
    curl.chmod(0o755)

    ended = subprocess.run(
        ["/bin/sh", "-c", job["command"]],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == exit_status
    assert ended.stdout == body


def test_what_has_no_equal_is_lost_with_its_line() -> None:
    result = import_jobs(
        JOB
        | {
            "processors": {"log": {"forward": "true"}},
            "ephemeral": True,
            "expires_at": "2027-01-01T00:00:00Z",
            "owner_email": "a@example.com",
        }
    )

    assert notes_of(result) == [
        (14, "lost", "processors"),
        (19, "lost", "ephemeral"),
        (20, "lost", "expires_at"),
        (21, "lost", "owner_email"),
    ]


def test_a_job_of_another_executor_is_left_out() -> None:
    result = import_jobs(JOB | {"executor": "kafka", "executor_config": {"topic": "t"}})

    assert result.jobs == []
    assert notes_of(result) == [(8, "lost", "the")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "file:1: the job has no name"),
        ({"schedule": None}, "file:1: .*neither a schedule nor a parent_job"),
        ({"schedule": "0 61 * * * *"}, "file:4: .*minute 61"),
        ({"timezone": "Mars/Base"}, "file:4: .*Mars/Base"),
        ({"concurrency": "never"}, "file:14: .*allow or forbid"),
        ({"tags": {"role": "web:all"}}, "file:6: .*number of nodes"),
        ({"retries": -1}, "file:14: .*at least 0"),
        ({"executor_config": {}}, "file:9: executor_config has no command"),
        ({"executor_config": SHELL | {"env": "A"}}, "file:13: .*NAME=VALUE"),
        ({"executor_config": {"command": "echo 'a"}}, "file:10: command: No closing"),
        ({"executor": "http", "executor_config": {"method": "GET"}}, "file:9: .*no url"),
        (
            {"executor": "http", "executor_config": REQUEST | {"headers": "X: 1"}},
            "file:12: .*texts in JSON",
        ),
        (
            {"executor": "http", "executor_config": REQUEST | {"expectCode": "ok"}},
            "file:12: .*a status",
        ),
    ],
)
def test_an_invalid_job_is_named_with_its_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_jobs(JOB | change)
