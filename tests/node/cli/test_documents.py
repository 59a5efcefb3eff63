"""``rota get``, ``apply`` and ``delete``, and jobs of a type from flags."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.client.cli.main import main

TYPE: dict[str, Any] = {
    "kind": "type",
    "name": "greeting",
    "definition": {
        "description": "greets",
        "parameters": {"type": "object", "properties": {"who": {"type": "string"}}},
        "template": {"command": "true"},
    },
}


NO_WORK: dict[str, Any] = {"template": {}}


def run(url: str, *argv: str, status: int = 0) -> None:
    """Run a command that ends with *status*."""
    assert main(["--url", url, *argv]) == status


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "types.yaml"
    path.write_text(yaml.safe_dump(TYPE))
    return path


def test_a_type_is_applied_shown_and_deleted(
    url: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv, change in (
        (("--dry-run",), "created"),
        ((), "created"),
        ((), "unchanged"),
    ):
        run(url, "apply", "-f", str(file), *argv)
        assert change in capsys.readouterr().out

    run(url, "get", "types")
    table = capsys.readouterr().out
    run(url, "get", "type", "greeting", "-o", "yaml")
    shown = capsys.readouterr().out
    run(url, "get", "types", "greeting", "--changes")
    changes = capsys.readouterr().out
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    run(url, "apply", "-f", str(again))
    applied = capsys.readouterr().out
    run(url, "delete", "type", "greeting")
    deleted = capsys.readouterr().err
    run(url, "get", "type", "greeting", status=3)

    assert table.splitlines()[1].split()[:2] == ["greeting", "1"]
    assert table.splitlines()[1].endswith("greets")
    assert yaml.safe_load(shown)["definition"] == TYPE["definition"]
    assert changes.splitlines()[1].split()[-1] == "created"
    assert "unchanged" in applied
    assert deleted == "deleted type greeting\n"


def test_nothing_is_written_if_one_document_is_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "types.yaml"
    bad = {**TYPE, "name": "bad", "definition": NO_WORK}
    file.write_text(yaml.safe_dump_all([{**TYPE, "name": "good"}, bad]))

    run(url, "apply", "-f", str(file), status=9)
    error = capsys.readouterr().err
    run(url, "get", "type", "good", status=3)

    assert "type 'bad' is refused:" in error
    assert "/template/tasks: the job needs a command" in error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kind: tipe\nname: x", "'tipe' is not a kind of documents (did you mean 'type'?); the k"),
        ("kind: type\nname: x\ndefinitoin: {}", "'definitoin'; did you mean 'definition'?"),
        ("kind: type\nname: x\ntemplate: {}", "unknown field 'template'; remove it: a doc"),
        ("kind: type\nname: x", "the document needs a name (text) and a definition (an object)"),
    ],
)
def test_a_file_without_documents_is_refused(
    text: str, error: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "types.yaml"
    file.write_text(text)

    run(url, "apply", "-f", str(file), status=9)

    said = capsys.readouterr().err
    assert f"{file}, document 1: " in said
    assert error in said


def test_an_unknown_kind_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(url, "get", "pods", status=2)

    assert "'pods' is not a kind of documents; the kinds are: types" in capsys.readouterr().err


def test_a_misspelt_kind_is_refused_with_a_similar_one(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(url, "get", "bidings", status=2)
    run(url, "get", "jobs", status=2)

    said = capsys.readouterr().err
    assert "'bidings' is not a kind of documents (did you mean 'bindings'?)" in said
    assert "'jobs' is not a kind of documents; the kinds are:" in said
    assert "for jobs, see `rota jobs -h`" in said


def test_a_binding_may_come_before_its_role_in_a_file(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, alone = tmp_path / "access.yaml", tmp_path / "binding.yaml"
    role = {"kind": "role", "name": "deployer", "definition": {"verbs": ["read", "run"]}}
    binding = {
        "kind": "binding",
        "name": "ann-deploys",
        "definition": {
            "subject": "principal:ann",
            "role": "deployer",
            "namespaces": ["team-a", "team-b"],
        },
    }
    file.write_text(yaml.safe_dump_all([binding, role]))
    alone.write_text(yaml.safe_dump(binding))

    run(url, "apply", "-f", str(alone), status=9)
    refused = capsys.readouterr().err
    run(url, "apply", "-f", str(file), "--dry-run")
    run(url, "apply", "-f", str(file))
    capsys.readouterr()
    run(url, "get", "bindings")
    bindings = capsys.readouterr().out.splitlines()
    run(url, "get", "roles")
    roles = capsys.readouterr().out.splitlines()

    assert "there is no role 'deployer'" in refused
    row = ["principal:ann", "deployer", "team-a", "team-b", "ann-deploys"]
    assert row in [each.split() for each in bindings]
    assert ["deployer", "read", "run"] in [each.split() for each in roles]


def test_jobs_of_a_type_are_created_from_flags(
    url: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(url, "apply", "-f", str(file))
    flags = ("--type", "greeting", "--parameters", '{"who": "Ann"}', "-o", "json")
    capsys.readouterr()

    run(url, "jobs", "create", *flags)
    [one_off] = json.loads(capsys.readouterr().out)
    run(url, "jobs", "create", "morning", *flags, "--schedule", "@daily")
    [named] = json.loads(capsys.readouterr().out)

    assert one_off["name"].startswith("greeting-")
    assert one_off["type"] == "greeting"
    assert (named["name"], named["status"]) == ("morning", "scheduled")
    assert named["definition"]["parameters"] == {"who": "Ann"}


def test_parameters_that_are_not_json_are_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(url, "jobs", "create", "x", "--parameters", "{who", "--", "true", status=2)

    assert "--parameters '{who' is not JSON" in capsys.readouterr().err
