"""Workflows of GitHub Actions as definitions of jobs."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from rota.client.definitions import Definition, InvalidFile
from rota.client.imports.imported import Imported
from rota.core.model.expressions import rendered
from unit.client.imports.accepted import import_text, notes_of, only_job

WORKFLOW = """\
name: Nightly build
on:
  schedule:
    - cron: "30 5 * * 1-5"
  workflow_dispatch:
env:
  CI: true
jobs:
  build:
    runs-on: ubuntu-latest
    timeout-minutes: 10
    env:
      MODE: fast
    steps:
      - run: make
  test:
    needs: build
    runs-on: ubuntu-latest
    steps:
      - name: Test
        run: make test
"""


def import_job(*lines: str, above: str = "on: workflow_dispatch") -> Imported:
    """Return the import of a workflow with one job, whose lines begin in line 5."""
    body = "".join(f"    {line}\n" for line in lines)
    return import_text("github-actions", f"{above}\njobs:\n  a:\n    runs-on: x\n{body}")


def task_of(*lines: str) -> tuple[Definition, Imported]:
    """Return the task of a workflow with one job, and its import."""
    result = import_job(*lines)
    return only_job(result)["tasks"][0], result


def lost_in(result: Imported) -> list[tuple[int, str]]:
    """Return line and first word of what is lost."""
    return [(line, word) for line, effect, word in notes_of(result) if effect == "lost"]


def run(task: Definition, folder: Path, **names: object) -> subprocess.CompletedProcess[str]:
    """Run the command of a task with these names in its templates."""
    words = [rendered(word, names) for word in task["command"]]
    env = {name: rendered(value, names) for name, value in task.get("env", {}).items()}
    return subprocess.run(
        words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_workflow_is_carried_over() -> None:
    result = import_text("github-actions", WORKFLOW)

    assert only_job(result) == {
        "name": "Nightly-build",
        "schedules": ["30 5 * * 1-5"],
        "env": {"CI": "true"},
        "tasks": [
            {
                "name": "build",
                "env": {"MODE": "fast"},
                "timeout": "10m",
                "command": ["bash", "-e", "-c", "(\nset -e\nmake\n)"],
            },
            {
                "name": "test",
                "needs": ["build"],
                "timeout": "360m",
                "command": ["bash", "-e", "-c", "(\nset -e\nmake test\n)"],
            },
        ],
    }
    assert notes_of(result) == [(10, "changed", "runs-on:"), (18, "changed", "runs-on:")]
    assert result.jobs[0].next[0] == "2027-01-01T05:30:00+00:00"


def test_other_events_are_lost() -> None:
    result = import_job("steps: [{run: x}]", above="on: [push, workflow_dispatch]")

    assert "schedules" not in only_job(result)
    assert lost_in(result) == [(1, "on:")]


def test_steps_run_one_after_another_in_their_own_shells(tmp_path: Path) -> None:
    task, _ = task_of(
        "steps:",
        "- {run: 'cd / && export A=1 && echo one'}",
        "- {run: 'pwd; echo ${A:-unset} $B', env: {B: \"it's two\"}}",
        "- {run: 'echo ${B:-unset}', working-directory: /}",
    )

    ended = run(task, tmp_path)

    assert ended.returncode == 0
    assert ended.stdout == f"one\n{tmp_path}\nunset it's two\nunset\n"


@pytest.mark.parametrize(
    ("step", "status", "output"),
    [
        ("{run: 'false\n\n      echo no'}", 1, ""),
        ("{run: 'false\n\n      echo no', continue-on-error: true}", 0, "after\n"),
        ("{run: 'false | true', shell: bash}", 1, ""),
        ("{run: 'false | true'}", 0, "after\n"),
        ("{run: 'exit 0'}", 0, "after\n"),
    ],
)
def test_a_failure_of_a_step_ends_the_task(
    tmp_path: Path, step: str, status: int, output: str
) -> None:
    task, _ = task_of("steps:", f"- {step}", "- run: echo after")

    ended = run(task, tmp_path)

    assert (ended.returncode, ended.stdout) == (status, output)


def test_a_step_in_python_is_run_by_python(tmp_path: Path) -> None:
    task, _ = task_of(
        "strategy: {matrix: {x: [1]}}",
        "defaults: {run: {shell: python3}}",
        "steps: [{run: \"print('${{ matrix.x }}')\"}]",
    )

    assert run(task, tmp_path, item={"x": "it"}).stdout == "it\n"


def test_a_matrix_is_a_loop_over_its_combinations(tmp_path: Path) -> None:
    task, result = task_of(
        "strategy: {max-parallel: 2, matrix: {os: [linux, bsd], node-version: [18]}}",
        "env: {OS: 'on ${{ matrix.os }}'}",
        "steps:",
        "- run: 'echo ${{ matrix.os }} ${{ matrix.node-version }} $OS $NAME {{.ID}}'",
        "  env: {NAME: '${{matrix.os}}'}",
    )

    matrix = {"os": ["linux", "bsd"], "node-version": [18]}
    assert task["foreach"] == {"matrix": matrix, "maxParallel": 2}
    item = {"os": "bsd", "node-version": 18}
    assert run(task, tmp_path, item=item).stdout == "bsd 18 on bsd bsd {{.ID}}\n"
    assert lost_in(result) == []


def test_a_value_of_a_step_is_no_part_of_its_script(tmp_path: Path) -> None:
    task, _ = task_of(
        "strategy: {matrix: {x: [1]}}",
        "steps: [{run: 'echo \"$X\"', env: {X: '${{ matrix.x }}'}}]",
    )

    assert run(task, tmp_path, item={"x": "'; exit 1"}).stdout == "'; exit 1\n"


@pytest.mark.parametrize(
    "matrix", ["{a: [1], b: x}", "{a: [1], include: [{a: 2}]}", "'${{ fromJSON(x) }}'"]
)
def test_other_matrices_are_lost_and_the_task_is_skipped(matrix: str) -> None:
    task, result = task_of(f"strategy: {{matrix: {matrix}}}", "steps: [{run: x}]")

    assert task["when"] == "false"
    assert lost_in(result) == [(5, "strategy.matrix:")]


@pytest.mark.parametrize(
    ("condition", "rule", "when"),
    [
        ("success()", None, None),
        ("${{ always() }}", "all_done", None),
        ("failure()", "one_failed", None),
        ("github.ref == 'refs/heads/main'", None, "false"),
        ("false", None, "false"),
    ],
)
def test_a_condition_is_a_trigger_rule_or_lost(
    condition: str, rule: str | None, when: str | None
) -> None:
    task, result = task_of(f"if: {condition}", "steps: [{run: x}]")

    assert (task.get("triggerRule"), task.get("when")) == (rule, when)
    assert lost_in(result) == ([(5, "if:")] if when else [])


def test_a_step_with_a_condition_is_left_out(tmp_path: Path) -> None:
    task, result = task_of(
        "steps:", "- run: echo a", "- {run: echo b, if: failure()}", "- {run: echo c, if: always()}"
    )

    assert run(task, tmp_path).stdout == "a\nc\n"
    assert lost_in(result) == [(7, "if:"), (8, "if:")]


def test_actions_are_lost(tmp_path: Path) -> None:
    task, result = task_of(
        "steps:",
        "- uses: actions/checkout@v4",
        "- run: echo a",
        "- uses: docker/build-push-action@v5",
        "- run: echo b",
    )

    ended = run(task, tmp_path)

    # Without the work of the action, the steps after it must not run.
    assert (ended.returncode, ended.stdout) == (1, "a\n")
    assert "docker/build-push-action@v5" in ended.stderr
    assert lost_in(result) == [(6, "uses:"), (8, "uses:")]


def test_an_expression_without_an_equal_is_lost_and_fails(tmp_path: Path) -> None:
    task, result = task_of("steps:", "- run: echo ${{ github.sha }}")

    assert run(task, tmp_path).returncode != 0
    assert lost_in(result) == [(6, "the")]


def test_inputs_are_parameters_and_variables_have_their_values(tmp_path: Path) -> None:
    result = import_job(
        "env: {SIZE: 3}",
        "steps: [{run: 'echo ${{ inputs.day }} ${{ env.SIZE }}'}]",
        above="on: {workflow_dispatch: {inputs: {day: {default: today}}}}",
    )

    job = only_job(result)
    assert job["parameters"] == {"day": "today"}
    assert run(job["tasks"][0], tmp_path, params={"day": "now"}).stdout == "now 3\n"


def test_secrets_are_those_of_the_task() -> None:
    task, result = task_of(
        "env: {KEY: '${{ secrets.API_KEY }}'}",
        "steps: [{run: x, env: {TOKEN: '${{ secrets.TOKEN }}'}}]",
    )

    assert task["secrets"] == {"env": {"KEY": "API_KEY", "TOKEN": "TOKEN"}}
    assert lost_in(result) == []


def test_secrets_in_variables_of_a_container_are_lost() -> None:
    task, result = task_of(
        "container: {image: app, options: --cpus 1}",
        "env: {KEY: '${{ secrets.API_KEY }}'}",
        "steps: [{run: x}]",
    )

    assert (task["container"], task.get("secrets")) == ("app", None)
    assert lost_in(result) == [(5, "options"), (5, "secrets")]


def test_what_has_no_equal_is_lost_with_its_line() -> None:
    result = import_job(
        "services: {db: {image: postgres}}",
        "strategy: {fail-fast: false, matrix: {x: [1]}}",
        "steps:",
        "- {run: x, timeout-minutes: 1}",
        "- {run: x, shell: pwsh}",
        above="permissions: {contents: read}",
    )

    assert lost_in(result) == [
        (1, "permissions"),
        (5, "services"),
        (6, "fail-fast:"),
        (8, "timeout-minutes"),
        (9, "the"),
    ]


def test_a_workflow_of_another_file_is_lost() -> None:
    result = import_text(
        "github-actions", "on: workflow_dispatch\njobs:\n  a:\n    uses: ./x.yml\n", "d/ci.yml"
    )

    job = only_job(result)
    assert job["name"] == "ci"
    assert job["tasks"][0]["command"][-1].endswith("exit 1")
    assert lost_in(result) == [(4, "uses:")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("on: push", "file:1: the workflow has no jobs"),
        ("jobs: {a: {steps: [{run: x}]}}", "file:1: .*runs-on"),
        (
            "jobs:\n  a:\n    runs-on: x\n    steps:\n    - name: x",
            "file:5: .*neither run nor uses",
        ),
        ("jobs: {a: {runs-on: x}}\non:\n  schedule:\n  - cron: 61 * * * *", "file:4: .*61"),
        ("jobs: {a: {runs-on: x}}\non:\n  schedule:\n  - cron: '@daily'", "file:4: .*five fields"),
        ("jobs: {a: {runs-on: x}}\non:\n  schedule:\n  - {}", "file:4: the schedule has no cron"),
        ("jobs: [", "file:1: "),
    ],
)
def test_an_invalid_workflow_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_text("github-actions", text)


def test_json_is_read_as_yaml_is() -> None:
    workflow = {"jobs": {"a": {"runs-on": "x", "steps": [{"run": "y"}]}}}

    assert only_job(import_text("github-actions", json.dumps(workflow)))["name"] == "file"


@pytest.mark.parametrize("steps", ["", "\n    steps: []"])
def test_a_job_without_steps_is_lost_alone(steps: str) -> None:
    result = import_text(
        "github-actions",
        "on: workflow_dispatch\njobs:\n  b: {runs-on: x, steps: [{run: y}]}\n  a:\n    runs-on: x"
        + steps,
    )

    first, second = only_job(result)["tasks"]
    assert "y" in first["command"][3]
    assert second["command"][3].endswith("exit 1")
    assert len([each for each in notes_of(result) if each[1] == "lost"]) == 1
