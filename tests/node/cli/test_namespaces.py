"""``rota namespace``: namespaces from the command line."""

from typing import Any

import pytest
import yaml

from rota.client.cli.main import main


def run(url: str, *argv: str, status: int = 0) -> None:
    """Run a command that ends with *status*."""
    assert main(["--url", url, "namespace", *argv]) == status


def definition(url: str, capsys: pytest.CaptureFixture[str], name: str) -> Any:  # Any: YAML
    capsys.readouterr()
    run(url, "get", name)
    return yaml.safe_load(capsys.readouterr().out)["definition"]


def test_the_fields_of_a_namespace_are_set_and_removed(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(url, "set", "team-a", "--description", "batch", "--owner", "ana", "--owner", "bob")
    run(url, "set", "team-a", "--default", "retries=3", "--default", "labels={team: a}")
    run(url, "set", "team-a", "--policy", '{"sandbox": "strict"}')
    whole = definition(url, capsys, "team-a")
    run(url, "set", "team-a", "--default", "retries=", "--policy", "null")
    rest = definition(url, capsys, "team-a")
    run(url, "list")
    table = capsys.readouterr().out
    run(url, "delete", "team-a")
    run(url, "get", "team-a", status=3)

    assert whole == {
        "description": "batch",
        "owners": ["ana", "bob"],
        "defaults": {"retries": 3, "labels": {"team": "a"}},
        "policy": {"sandbox": "strict"},
    }
    assert rest == {
        "description": "batch",
        "owners": ["ana", "bob"],
        "defaults": {"labels": {"team": "a"}},
    }
    assert table.splitlines()[1].split() == ["team-a", "active", "ana", "bob", "labels", "batch"]


def test_a_namespace_is_paused_and_resumed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(url, "pause", "team-b", "--reason", "incident 7", "--dry-run")
    run(url, "get", "team-b", status=3)
    run(url, "pause", "team-b", "--reason", "incident 7")
    paused = definition(url, capsys, "team-b")
    run(url, "resume", "team-b")
    resumed = definition(url, capsys, "team-b")

    assert paused["pause"]["reason"] == "incident 7"
    assert resumed == {}


def test_a_default_without_a_value_sign_is_a_mistake(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(url, "set", "team-c", "--default", "retries", status=2)

    assert "--default 'retries' is not FIELD=VALUE" in capsys.readouterr().err
