"""The examples of docs/how-to/flows.md: each file runs, and ends as the page shows."""

import doctest
import re
import shlex
import threading
from pathlib import Path

import pytest

from rota.client.definitions import read_definitions, with_whole_paths
from support.cluster import Cluster, Json, answer
from support.etcd import needs_etcd
from support.rota_program import Ran, Rota
from support.rotad import Rotad

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs/how-to/flows.md").read_text()
STEPS = {
    heading: re.findall(r"^\$ rota (.*)\n((?:(?!\$ |```).*\n)*)", section, re.MULTILINE)
    for heading, section in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE)
    if "$ rota" in section
}
WAITED_FOR = ("approve", "executions wait")
"""Beginnings of commands that a reader repeats until the flow is as far as the page."""
TRIES = 100
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_page_has_six_examples() -> None:
    files = re.findall(r"examples/([\w-]+\.yaml) -o name", PAGE)

    assert len(STEPS) == len(set(files)) == 6


@pytest.mark.parametrize("heading", STEPS)
def test_an_example_ends_as_the_page_shows(
    rota: Rota, monkeypatch: pytest.MonkeyPatch, heading: str
) -> None:
    monkeypatch.chdir(ROOT)

    for command, shown in STEPS[heading]:
        ran = _ran(rota, command)
        assert doctest.OutputChecker().check_output(shown, ran.out or "\n", OPTIONS), ran.out


@pytest.mark.parametrize(
    ("fails", "undone", "status"),
    [
        ("none", [], "success"),
        ("payment", ["undo-hotel", "undo-flight"], "success"),
        ("hotel", ["undo-flight"], "success"),
        ("flight", [], "failed"),
    ],
)
def test_a_saga_undoes_what_was_done_in_reverse_order(
    node: Rotad, fails: str, undone: list[str], status: str
) -> None:
    assert f"| `{fails}` | " in PAGE
    [job] = read_definitions(EXAMPLES / "booking.yaml")
    node.create(**{**job, "name": f"booking-{fails}"})

    execution = node.ended(node.trigger(f"booking-{fails}", parameters={"fails": fails}))

    ran = {
        name: task["attempts"][0]["startedAt"]
        for name, task in execution["tasks"].items()
        if name.startswith("undo-") and task["attempts"]
    }
    assert sorted(ran, key=ran.__getitem__) == undone
    assert execution["status"] == status


@needs_etcd
def test_a_training_continues_from_its_checkpoint_when_its_node_is_lost(
    own_cluster: Cluster,
) -> None:
    own_cluster.start()
    [job] = read_definitions(EXAMPLES / "training.yaml")
    own_cluster.nodes[0].create(**with_whole_paths(job, EXAMPLES))
    longer = {"epochs": 6_000, "pause_s": 0.01}
    execution_id = own_cluster.nodes[0].trigger("training", parameters=longer)
    path = f"/api/v1/executions/{execution_id}"
    own_cluster.wait_until(
        lambda: any(each["progress"] for each in _attempts(own_cluster.nodes[0], path)),
        "there is no checkpoint",
    )
    [attempt] = _attempts(own_cluster.nodes[0], path)
    lost = own_cluster.node(attempt["nodeId"])
    other = next(node for node in own_cluster if node is not lost)

    lost.kill_all()

    own_cluster.wait_until(lambda: len(_attempts(other, path)) == 2, "it does not continue")
    own_cluster.wait_until(lambda: _attempts(other, path)[1]["progress"], "it has no progress")
    before, again = _attempts(other, path)
    output = answer(other, "GET", f"{path}/tasks/train/output?attempt=2")
    began_at = re.fullmatch(r"attempt 2 begins at epoch (\d+)\n", output)
    assert began_at, output
    assert int(began_at[1]) > 0
    assert before["outcome"] == "lost"
    assert again["nodeId"] != before["nodeId"]


def _ran(rota: Rota, command: str) -> Ran:
    """Run a command, which has to succeed."""
    tries = TRIES if command.startswith(WAITED_FOR) else 1
    while (ran := rota(*shlex.split(command))).status and (tries := tries - 1):
        threading.Event().wait(0.1)
    assert ran.status == 0, ran
    return ran


def _attempts(node: Rotad, path: str) -> list[Json]:
    """Return the attempts of the training of an execution."""
    attempts: list[Json] = answer(node, "GET", path)["tasks"]["train"]["attempts"]
    return attempts
