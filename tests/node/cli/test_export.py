"""``rota export``, and what it writes applied again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.client import Client
from rota.client.cli.files.export import SCHEMA, SCHEMA_LINE
from rota.wire.job_fields import JOB_FIELDS
from support.rota_program import Rota
from support.rotad import Rotad

NAMESPACE = "exported"
HOOK = {"webhook": "https://example.org/hook", "format": "slack"}
TYPE = {"parameters": {"properties": {"n": {"type": "integer"}}}, "template": {"command": "true"}}
JOBS: list[dict[str, Any]] = [
    {
        "name": "every-field", "description": "a\nb", "command": ["echo", "it's", "1e3", "no"],
        "schedules": [
            "@daily",
            {"schedule": "0 0 13 * FRI", "timezone": "Asia/Tokyo", "dayOr": False},
            {"schedule": "@noon", "parameters": {"a": [2]}, "misfire": "skip",
             "jitter": "5m", "maxExecutions": 9, "overlap": "queue_all"},
        ],
        "timezone": "Europe/Berlin", "onlyCalendars": ["shop"], "exceptCalendars": ["week"],
        "parameters": {"a": [1, 2.5, None, "x: y"]},
        "parametersSchema": {"properties": {"a": {"type": "array"}}}, "dependencies": ["plain"],
        "retries": {"limit": 3, "delay": "1s", "jitter": 0.25, "onCauses": ["timeout"]},
        "timeout": "90s", "stopGrace": 3, "nodeSelector": {"zone": "a"}, "misfire": "all",
        "grace": "1m", "overlap": "skip", "priority": 5, "startDeadline": "1h",
        "executionTimeout": "2h", "failFast": True, "pauseAfterFailures": 10, "maxParallel": 2,
        "triggers": [{"event": "paid", "when": "event.data.a"}],
        "onExcluded": "hold", "misfireWindow": "1h", "misfireMax": 3, "concurrencyKey": "params.a",
        "onFailure": [HOOK], "onSuccess": [HOOK],
        "onRecovery": [HOOK], "onLate": [HOOK], "lateAfter": "10m", "env": {"A": "1", "B": "true"},
        "identity": True, "cwd": "/tmp", "stdin": "x\ny\n", "labels": {"team": "core", "n": "010"},
        "sandbox": "strict", "limits": {"cpu": 0.5, "memory": "64MiB"},
    },
    {"name": "plain", "command": "true", "schedule": "*/5 * * * *"},
    {"name": "function", "python": {"function": "os:getcwd", "path": ["/srv/lib"]}},
    {"name": "typed", "type": "exported.type", "parameters": {"n": 3}},
    {"name": "later", "command": "true", "schedule": "@at 2999-01-01T00:00:00Z"},
    {"name": "available", "command": "true", "consistency": "available", "schedule": "@hourly"},
    {
        "name": "flow",
        "tasks": [
            {"name": "a", "command": "true", "retries": 2},
            {"name": "b", "needs": ["a"], "command": "echo {{ item }}", "foreach": [1, 2]},
            {"name": "ok", "needs": ["b"], "approval": "ship?"},
        ],
    },
]  # fmt: skip
ELSEWHERE = {"namespace", "tasks", "container", "secrets", "user"}
"""Fields that jobs have through others, or that need an engine, a key ring, or a node of root."""


@pytest.fixture
def jobs(node: Rotad) -> Iterator[Client]:
    """A client of a node with the jobs."""
    with Client(node.url) as client:
        client.put_document("types", "exported.type", TYPE)
        client.put_document("calendars", "unused", {"weekdays": ["SUN"]})
        client.put_document("calendars", "week", {"weekdays": ["MON"]})
        client.put_document("calendars", "days", {"dates": ["12-24"]})
        client.put_document("calendars", "shop", {"excludes": ["days"]})
        client.put_document("namespaces", NAMESPACE, {"owners": ["ana"]})
        for job in JOBS[1:] + JOBS[:1]:
            client.put_job({**job, "namespace": NAMESPACE})
        yield client


def test_the_examples_have_every_field_of_a_job() -> None:
    names = {name for job in JOBS for name in job}

    assert names | ELSEWHERE == {field.key for field in JOB_FIELDS}


def test_what_is_exported_changes_nothing_if_it_is_applied(
    jobs: Client, rota: Rota, tmp_path: Path
) -> None:
    del jobs
    stream, folder = tmp_path / "all.yaml", tmp_path / "folder"

    stream.write_text(rota("export", "-n", NAMESPACE).out)
    wrote = rota("export", "-n", NAMESPACE, "--output", str(folder))

    assert wrote.err == f"wrote 1 type, 3 calendars, 1 namespace, 7 jobs to {folder}\n"
    for given in (stream, folder):
        assert rota("validate", "-f", str(given)).status == 0
        planned = rota("plan", "-f", str(given))
        applied = rota("apply", "-f", str(given), "-o", "json").json
        assert planned.status == 0, planned.out
        assert [each["change"] for each in applied] == ["unchanged"] * 12


def test_files_of_jobs_have_the_line_for_editors_and_its_schema(
    jobs: Client, rota: Rota, tmp_path: Path
) -> None:
    del jobs
    (tmp_path / "old.yaml").write_text("{name: old, command: x}")

    wrote = rota("export", "-n", NAMESPACE, "--output", str(tmp_path))

    job = (tmp_path / f"{NAMESPACE}+plain.yaml").read_text()
    assert job.startswith(SCHEMA_LINE)
    assert yaml.safe_load(job)["name"] == "plain"
    assert json.loads((tmp_path / SCHEMA).read_text())["title"] == "JobBody"
    assert not (tmp_path / "types.yaml").read_text().startswith("#")
    assert "has other files, which this export has not: old.yaml" in wrote.err


def test_all_namespaces_are_exported_and_jobs_that_never_fire_again_are_left_out(
    jobs: Client, rota: Rota
) -> None:
    once = jobs.create_job({"command": "true", "namespace": NAMESPACE})
    rota("jobs", "create", "of-default", "--", "true")

    shown = rota("export", "-A")

    names = {(each.get("namespace"), each["name"]) for each in yaml.safe_load_all(shown.out)}
    assert {("default", "of-default"), (NAMESPACE, "plain"), (NAMESPACE, "later")} <= names
    assert (NAMESPACE, once.name) not in names
    assert "left out whose fire times have all passed" in shown.err
