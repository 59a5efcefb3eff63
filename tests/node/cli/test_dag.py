"""Graphs of tasks on the command line, against a node."""

from pathlib import Path

import pytest

from support.rota_program import Rota, until
from support.rotad import Rotad

FLOW = """
name: ships
tasks:
- name: load
  foreach: {items: [a, b, c], toleratedFailures: 1}
  command: test {{ item }} != b
- {name: check, needs: [load], approval: 'Ship "it"?'}
- {name: ship, needs: [load, check], when: results.load | length > 9, command: "true"}
- {name: tell, needs: [ship], triggerRule: all_done, command: "true"}
"""

CHANGED = {"name": "changed", "tasks": [{"name": "main", "sleep": "1s"}]}


@pytest.fixture(autouse=True)
def job(rota: Rota, tmp_path: Path) -> None:
    """A job with a loop, an approval, a condition and a rule."""
    (tmp_path / "ships.yaml").write_text(FLOW)
    assert rota("jobs", "apply", "-f", str(tmp_path / "ships.yaml")).status == 0


def test_the_tasks_of_a_job_are_drawn(rota: Rota) -> None:
    shown = rota("dag", "show", "ships")

    assert shown.status == 0
    assert shown.out.splitlines() == [
        "load        foreach   of 3 items",
        "  check     approval  needs load",
        "    ship    command   when results.load | length > 9; needs load, check",
        "      tell  command   all_done; needs ship",
    ]


def test_an_execution_is_drawn_with_states_and_counts(rota: Rota, node: Rotad) -> None:
    execution_id = node.trigger("ships")
    waiting = until(lambda: _waiting(rota, "ships@latest"))
    rota("approve", execution_id, "check")
    node.ended(execution_id)

    ended = rota("dag", "show", execution_id)
    drawn = rota("dag", "show", execution_id, "--format", "mermaid")

    assert waiting.splitlines()[:2] == [
        "load        foreach   success  3 of 3 done, 1 failed",
        '  check     approval  waiting  waits for approval: Ship "it"?; needs load',
    ]
    assert [line.split()[:3] for line in ended.out.splitlines()] == [
        ["load", "foreach", "success"],
        ["check", "approval", "success"],
        ["ship", "command", "skipped"],
        ["tell", "command", "success"],
    ]
    assert '  t0[["load<br/>foreach: 3 of 3 done, 1 failed"]]:::success' in drawn.out.splitlines()
    assert "  t2 -->|all_done| t3" in drawn.out.splitlines()


def test_an_execution_is_drawn_with_the_version_of_its_job(rota: Rota, node: Rotad) -> None:
    rota("jobs", "create", "changed", "--", "true")
    execution_id = node.trigger("changed")
    node.call("PUT", "/api/v1/jobs/default/changed", CHANGED)

    shown = [rota("dag", "show", named).out.split()[1] for named in ("changed", execution_id)]

    assert shown == ["sleep", "command"]


@pytest.mark.parametrize("named", ["nothing", "nothing@latest"])
def test_what_does_not_exist_is_not_drawn(rota: Rota, named: str) -> None:
    shown = rota("dag", "show", named)

    assert (shown.status, shown.out) == (3, "")


def _waiting(rota: Rota, named: str) -> str:
    shown = rota("dag", "show", named).out
    return shown if "waiting  waits" in shown else ""
