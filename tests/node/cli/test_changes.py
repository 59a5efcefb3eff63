"""``rota changes``: the list, the check, and the export."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from rota.client import Client
from support.rota_program import PROGRAM, Rota, until


@pytest.fixture
def rota_here(rota_alone: Rota, url: str, monkeypatch: pytest.MonkeyPatch) -> Rota:
    """The command with the address of the module's node."""
    monkeypatch.setenv("ROTA_URL", url)
    return rota_alone


def test_the_list_has_callers_actions_and_versions(rota_here: Rota) -> None:
    rota_here("jobs", "create", "listed", "--", "true")
    rota_here("jobs", "set", "listed", "description=new")
    rota_here("jobs", "pause", "listed", "--reason", "repair")

    table = rota_here("changes", "--of", "default/listed").out.splitlines()
    wide = rota_here("changes", "--of", "default/listed", "-o", "wide").out.splitlines()

    assert [line.split()[2:] for line in table] == [
        ["BY", "CHANGE", "OBJECT", "VERSION", "DETAIL"],
        ["operator", "job.paused", "default/listed", "2", "repair"],
        ["operator", "job.replaced", "default/listed", "1", "->", "2"],
        ["operator", "job.created", "default/listed", "-", "->", "1"],
    ]
    assert "127.0.0.1" in wide[1]


def test_the_options_select_changes(rota_here: Rota) -> None:
    for name in ("a", "b"):
        rota_here("jobs", "create", name, "-n", "selected", "--", "true")
    rota_here("jobs", "delete", "a", "-n", "selected", "--yes")

    def jobs(*options: str) -> list[tuple[str, str]]:
        found = rota_here("changes", "-n", "selected", "-o", "json", *options).json
        return [(each["action"], each["job"]) for each in found]

    assert jobs("--action", "job.deleted") == [("job.deleted", "selected/a")]
    assert len(jobs("--by", "operator")) == 3
    assert jobs("--by", "mallory") == jobs("--until", "2026-01-01T00:00:00Z") == []
    assert jobs("--limit", "1") == [("job.deleted", "selected/a")]
    assert rota_here("changes", "--by", "mallory").err == "no such changes\n"


def test_intact_changes_are_verified(rota_here: Rota) -> None:
    rota_here("jobs", "create", "verified", "--", "true")

    ran = rota_here("changes", "verify")

    assert ran.status == 0
    assert "changes in 256 shards are intact" in ran.err
    assert {each["fault"] for each in rota_here("changes", "verify", "-o", "json").json} == {""}


def test_an_execution_shows_who_triggered_it(rota_here: Rota) -> None:
    rota_here("jobs", "create", "triggered", "--", "true")
    rota_here("trigger", "triggered", "--wait")

    shown = rota_here("executions", "show", "triggered@latest").out
    assert re.search(r"^by +operator$", shown, re.MULTILINE)


def test_changes_are_printed_as_they_are_made(rota_here: Rota, url: str) -> None:
    with Client(url) as client:
        client.create_job({"name": "before", "namespace": "followed", "command": "true"})
        command = [*PROGRAM, "changes", "follow", "--since", "1h", "-n", "followed", "-o", "jsonl"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            try:
                assert following.stdout is not None
                first = json.loads(following.stdout.readline())
                client.create_job({"name": "after", "namespace": "followed", "command": "true"})
                second = json.loads(following.stdout.readline())
            finally:
                following.terminate()

    assert [first["job"], second["job"]] == ["followed/before", "followed/after"]


def test_changes_of_documents_are_listed_and_found_by_kind_and_name(
    rota_here: Rota, tmp_path: Path
) -> None:
    file = tmp_path / "type.yaml"
    for retries in (1, 2):
        template = f"{{command: 'true', retries: {retries}}}"
        file.write_text(f"kind: type\nname: recorded\ndefinition:\n  template: {template}\n")
        rota_here("apply", "-f", str(file))

    def lines() -> list[str]:
        return rota_here("changes", "--of", "type:recorded").out.splitlines()

    until(lambda: len(lines()) == 3)

    assert [line.split()[2:] for line in lines()[1:]] == [
        ["operator", "document.replaced", "type:recorded", "1", "->", "2", "template.retries"],
        ["operator", "document.created", "type:recorded", "-", "->", "1"],
    ]
