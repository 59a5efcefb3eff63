"""``rota jobs`` and what a job runs in: flags, files, and back."""

from pathlib import Path

import pytest

from rota_program import Rota


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--sandbox strict -- true", {"command": "true", "sandbox": "strict"}),
        ("--python a.b:c", {"python": "a.b:c"}),
        (
            "--cpu 0.5 --memory 512MiB -- true",
            {"command": "true", "limits": {"cpu": 0.5, "memory": "512MiB"}},
        ),
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
