"""``rota jobs`` with sandboxes, containers and limits: flags and files."""

import re
from pathlib import Path

import pytest

from rota.client.cli.jobs.job_flags import fields_of
from support.rota_program import Rota


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--sandbox strict -- true", {"command": "true", "sandbox": "strict"}),
        ("--python a.b:c", {"python": "a.b:c"}),
        (
            "--python a.b:c --path /x --path /y",
            {"python": {"function": "a.b:c", "path": ["/x", "/y"]}},
        ),
        (
            "--cpu 0.5 --memory 512MiB --pids 50 -- true",
            {"command": "true", "limits": {"cpu": 0.5, "memory": "512MiB", "pids": 50}},
        ),
        (
            "--sandbox strict --network --bind /a --bind /b:rw --bind /c:/d:rw -- true",
            {
                "command": "true",
                "sandbox": {
                    "profile": "strict",
                    "network": True,
                    "binds": ["/a:/a:ro", "/b:/b:rw", "/c:/d:rw"],
                },
            },
        ),
        ("--sandbox strict --no-network -- true", {"command": "true", "sandbox": "strict"}),
        (
            "--sandbox default --no-network -- true",
            {"command": "true", "sandbox": {"profile": "default", "network": False}},
        ),
        ("--sandbox default --network -- true", {"command": "true", "sandbox": "default"}),
    ],
)
def test_flags_say_what_a_command_runs_in(
    rota: Rota, line: str, expected: dict[str, object]
) -> None:
    made = rota("jobs", "create", "confined", "--dry-run", "-o", "json", *line.split()).json

    assert made[0]["definition"] == {"name": "confined", **expected}


def test_an_image_needs_no_command(rota: Rota) -> None:
    refused = rota("jobs", "create", "shipped", "--image", "a b")

    assert refused.status == 9
    assert "/container: 'a b' is not the name of an image" in refused.err


def test_a_container_has_the_binds_and_no_network() -> None:
    given = {"container": "alpine", "binds": ("/a:rw",), "network": False}

    assert fields_of("shipped", (), given) == {
        "name": "shipped",
        "container": {"image": "alpine", "binds": ["/a:/a:rw"], "network": "none"},
    }


@pytest.mark.parametrize("flag", ["--no-network", "--bind=/a"])
def test_what_is_seen_is_said_of_a_sandbox_or_a_container(rota: Rota, flag: str) -> None:
    refused = rota("jobs", "create", "open", flag, "--", "true")

    assert refused.status == 2
    assert "--sandbox or an --image" in refused.err


@pytest.mark.parametrize("flag", ["--cpu=0", "--memory=0", "--pids=0", "--pids=-1", "--cpu=-1"])
def test_a_limit_that_leaves_nothing_is_refused(rota: Rota, flag: str) -> None:
    refused = rota("jobs", "create", "starved", flag, "--", "true")

    assert refused.status == 9
    assert re.search("/limits/.*(omit the field for no limit|out of range)", refused.err)


def test_sandboxes_and_limits_are_shown_where_there_are_any(rota: Rota) -> None:
    limits = ("--cpu", "1.5", "--memory", "1GiB", "--pids", "50")
    sandbox = ("--sandbox", "strict", "--bind", "/a")
    rota("jobs", "create", "kept", *sandbox, *limits, "--", "true")
    rota("jobs", "create", "free", "--", "true")
    rota("jobs", "create", "online", "--sandbox", "strict", "--network", "--", "true")

    kept, free = rota("jobs", "show", "kept").out, rota("jobs", "show", "free").out
    online = rota("jobs", "show", "online").out

    titles, row = kept.splitlines()[-2:]
    assert titles.split()[4:6] == ["SANDBOX", "LIMITS"]
    assert "strict, no network, /a:/a:ro  1.5 cpu, 1GiB, 50 processes" in row
    assert not {"SANDBOX", "LIMITS"} & set(free.split())
    assert "strict, network" in online


def test_nothing_to_run_is_wrong_usage(rota: Rota) -> None:
    assert rota("jobs", "create", "empty", "--memory", "1GiB").status == 2


def test_a_file_that_was_applied_has_no_differences(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        """
name: confined
limits: {cpu: 0.5, memory: 1.5GiB}
sandbox: {profile: strict, network: false, binds: ["/srv:/srv:rw", /etc:/etc]}
tasks:
- name: fetch
  command: ["true"]
- name: forecast
  python: {function: "shop:run", args: [1], kwargs: {deep: true}}
  needs: [fetch]
  sandbox: none
"""
    )

    applied = rota("jobs", "apply", "-f", str(file))
    different = rota("jobs", "diff", "-f", str(file))

    assert applied.status == 0, applied.err
    assert (different.status, different.out) == (0, "")
    shown = rota("jobs", "show", "confined").out
    assert "shop:run" in shown
