"""The examples of docs/reference/flows.md, as files of jobs: each runs as the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

from rota.client.definitions import parse_definitions
from support.rotad import Rotad

PAGE = (Path(__file__).parents[3] / "docs/reference/flows.md").read_text()
EXAMPLES = {
    definition["name"]: definition
    for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for definition in parse_definitions(block, "flows.md")
}
PARAMETERS = {"import-day": {"parameters": {"day": "2027-01-04"}}}
FAILED = {"nightly-tests"}
ENDS = {
    "etl": {"load[2]": "success", "large": "success", "small": "skipped", "report": "success"},
    "poll": {"job#3": "success", "job": "success", "fetch": "success"},
    "release": {"settle": "success", "check": "success", "ship": "success"},
    "import-day": {"main": "success"},
    "load": {"main": "success"},
    "nightly": {"tables[0]": "success", "tables": "success", "sum": "success"},
    "report": {"sample": "skipped", "whole": "success", "send": "success"},
    "nightly-tests": {"create": "success", "test": "failed", "delete": "success"},
    "order": {"reserve": "success", "paid": "success", "ship": "success"},
    "booking": {"hotel": "failed", "confirm": "skipped", "undo-flight": "success"},
}


def test_every_example_has_an_end() -> None:
    assert set(EXAMPLES) == set(ENDS)


@pytest.mark.parametrize("name", ENDS)
def test_an_example_ends_as_the_page_says(node: Rotad, name: str) -> None:
    for task in EXAMPLES[name].get("tasks", []):
        if "runJob" in task:
            node.create(**EXAMPLES[task["runJob"]["job"]])
    node.create(**EXAMPLES[name])
    started = node.trigger(name, **PARAMETERS.get(name, {}))
    for task in EXAMPLES[name].get("tasks", []):
        if "approval" in task:
            _approve(node, started, task["name"])
        if "waitForEvent" in task:
            event = {"name": task["waitForEvent"]["event"], "data": {"sum": 7}}
            node.call("POST", f"/api/v1/executions/{started}/events", event)

    execution = node.ended(started)

    found = {task: execution["tasks"][task]["status"] for task in ENDS[name]}
    assert found == ENDS[name]
    assert execution["status"] == ("failed" if name in FAILED else "success")


def _approve(node: Rotad, execution_id: str, task: str) -> None:
    path = f"/api/v1/executions/{execution_id}"
    node.wait_until(lambda: _status(node.call("GET", path), task) == "waiting")
    node.call("POST", f"{path}/tasks/{task}/answer", {"approve": True, "form": {"percent": 20}})


def _status(execution: dict[str, Any], task: str) -> str:
    return str(execution["tasks"][task]["status"])
