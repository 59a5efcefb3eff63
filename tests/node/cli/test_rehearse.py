"""``rota rehearse``: files of jobs on virtual time, without a node."""

from pathlib import Path

import pytest

from support.rota_program import Rota


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), 0),
        (("--max-running", "2", "--max-starts", "2"), 0),
        (("--max-running", "1"), 8),
        (("--max-starts", "1"), 8),
        (("--duration", "nothing=5m"), 2),
        (("--duration", "a=soon"), 2),
    ],
)
def test_a_limit_that_is_passed_is_an_exit_status(
    rota_alone: Rota, tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    file = tmp_path / "jobs.yaml"
    lines = [f"name: {name}\nschedule: '0 3 * * *'\ncommand: 'true'\n" for name in ("a", "b")]
    file.write_text("---\n".join(lines))

    shown = rota_alone("rehearse", "-f", str(file), *words)

    assert shown.status == status, shown
    assert ("most starts in a minute: 2" in shown.out) == (status != 2)


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (
            "dependencies: [default/%s]\ncommand: 'true'",
            "the dependencies of the jobs form a circle",
        ),
        ("tasks: [{name: call, runJob: %s}]", "the jobs run each other in a circle"),
    ],
)
def test_jobs_that_name_each_other_in_a_circle_are_refused(
    rota_alone: Rota, tmp_path: Path, field: str, error: str
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "\n---\n".join(
            f"name: {name}\n{field % needed}" for name, needed in ("ab", "bc", "ca", "da")
        )
    )

    shown = rota_alone("rehearse", "-f", str(file))

    assert shown.status == 9, shown
    assert f"{error}: default/" in shown.err
    assert "default/d" not in shown.err
