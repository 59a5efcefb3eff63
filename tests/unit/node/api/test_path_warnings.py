"""Warnings about folders and programs that this node does not have."""

from pathlib import Path
from typing import Any

import pytest

from rota.core.model.ids import NodeId
from rota.node.api.documents.path_warnings import TASKS_MAX, may_have_warnings, path_warnings
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody, TaskBody

AFTER = "an attempt fails where it is missing"
NO_FOLDER = f"there is no folder '/no/such' (cwd) on node n1; {AFTER}"


def warnings_about(**fields: Any) -> list[str]:  # Any: fields of all types
    spec = job_spec(JobBody(name="job", **fields))
    found = path_warnings(spec, NodeId("n1"), {"zone": "a"})
    assert may_have_warnings(spec) or not found
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"command": "true", "cwd": "/no/such"}, [NO_FOLDER]),
        ({"python": "shop:main", "cwd": "/no/such"}, [NO_FOLDER]),
        ({"command": ["./run"], "cwd": "/no/such"}, [NO_FOLDER]),
        (
            {"command": "true", "cwd": "/etc/passwd"},
            [f"there is no folder '/etc/passwd' (cwd) on node n1; {AFTER}"],
        ),
        (
            {"command": ["/no/such", "x"]},
            [f"there is no program '/no/such' on node n1; {AFTER}"],
        ),
        (
            {"command": ["./no-such"], "cwd": "/etc"},
            [f"there is no program './no-such' in '/etc' (cwd) on node n1; {AFTER}"],
        ),
        (
            {"command": ["./run"]},
            [
                (
                    "there is no program './run' in the empty folder of a task without cwd; "
                    "give the program's absolute path, or set cwd (`--cwd FOLDER` of `rota jobs "
                    "create`)"
                )
            ],
        ),
        (
            {"command": "/no/such --all  x=1"},
            [f"there is no program '/no/such' on node n1; {AFTER}"],
        ),
        ({"command": "true", "cwd": "/no/such", "node_selector": {"zone": "a"}}, [NO_FOLDER]),
    ],
)
def test_what_is_missing_here_is_warned_about(fields: dict[str, Any], expected: list[str]) -> None:
    assert warnings_about(**fields) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["no-such"]},
        {"command": "/no/such | true"},
        {"command": "/no/such || true"},
        {"command": "X=/no/such true"},
        {"command": "$HOME/such"},
        {"command": ["/bin/sh"], "cwd": "/etc"},
        {"command": "true", "cwd": "/" + 300 * "x"},
        {"command": ["/no/such"], "container": "alpine", "cwd": "/no/such"},
        {"command": ["/no/such"], "sandbox": "default", "cwd": "/no/such"},
        {"command": ["/no/such"], "cwd": "/no/such", "node_selector": {"zone": "b"}},
    ],
    ids=[
        "name",
        "shell",
        "or",
        "variable",
        "expanded",
        "there",
        "unknown",
        "container",
        "sandbox",
        "other nodes",
    ],
)
def test_what_is_not_certain_to_fail_here_is_not_warned_about(fields: dict[str, Any]) -> None:
    assert warnings_about(**fields) == []


def test_a_program_in_the_cwd_is_found(tmp_path: Path) -> None:
    (tmp_path / "run").touch()

    assert warnings_about(command=["./run"], cwd=str(tmp_path)) == []


def test_the_first_tasks_are_looked_at_and_the_same_folder_is_named_once() -> None:
    tasks = [TaskBody(name=f"t{number}", command="true") for number in range(TASKS_MAX)]
    last = TaskBody(name="last", command=["/no/such"])

    assert warnings_about(cwd="/no/such", tasks=tasks) == [NO_FOLDER]
    assert warnings_about(cwd="/etc", tasks=[*tasks, last]) == []
