"""Reruns of executions, start deadlines and timeouts over the API and on the command line."""

from pathlib import Path

import pytest

from support.rota_program import Rota
from support.rotad import Json, Refusal, Rotad


def rerun(node: Rotad, execution_id: str, **body: Json) -> Json:
    made = node.call("POST", f"/api/v1/executions/{execution_id}/rerun", body)
    return node.ended(made["executionId"])


def refused(node: Rotad, execution_id: str, **body: Json) -> tuple[int, str]:
    with pytest.raises(Refusal) as raised:
        rerun(node, execution_id, **body)
    return raised.value.status, raised.value.problem["code"]


def test_the_failed_task_runs_again_with_the_result_that_was_kept(
    node: Rotad, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    first = node.run(
        name="kept",
        parameters={"day": 1, "kind": "full"},
        tasks=[
            {"name": "extract", "command": "echo extracted; echo 41 > $ROTA_RESULT"},
            {
                "name": "load",
                "needs": ["extract"],
                "command": f"cat $ROTA_RESULTS; echo $ROTA_PARAMETERS; test -e {flag}",
            },
        ],
    )
    assert first["status"] == "failed"
    flag.touch()

    second = rerun(node, first["executionId"], overrides={"day": 2})

    assert (second["status"], second["rerunOf"]) == ("success", first["executionId"])
    extract, load = second["tasks"]["extract"], second["tasks"]["load"]
    assert (extract["keptFrom"], load["keptFrom"]) == (first["executionId"], None)
    assert extract["attempts"][0]["result"] == 41
    said = load["attempts"][0]["outputTail"]
    assert '"extract":41' in said.replace(" ", "")
    assert '"day":2,"kind":"full"' in said.replace(" ", "")
    path = f"/api/v1/executions/{second['executionId']}/tasks/extract/output"
    assert node.call("GET", path) == "extracted\n"


def test_a_rerun_runs_the_definition_of_the_execution_or_the_latest(node: Rotad) -> None:
    first = node.run(name="versions", command="echo one; exit 1")
    node.call("PUT", "/api/v1/jobs/default/versions", {"command": "echo two"})

    same = rerun(node, first["executionId"])
    latest = rerun(node, first["executionId"], version="latest")

    said = [
        (each["status"], each["jobVersion"], each["tasks"]["main"]["attempts"][0]["outputTail"])
        for each in (same, latest)
    ]
    assert said == [("failed", 1, "one\n"), ("success", 2, "two\n")]


def test_a_rerun_that_is_not_possible_is_refused(node: Rotad) -> None:
    running = node.trigger(node.create(name="sleeps", command="sleep 600")["name"])
    done = node.run(name="done", command="true", parameters=[1])["executionId"]

    assert refused(node, running) == (409, "not_finished")
    assert refused(node, done, tasks="failed") == (409, "nothing_to_rerun")
    assert refused(node, done, fromTask="nope") == (404, "task_not_found")
    assert refused(node, done, fromTask="main", tasks="all") == (422, "invalid_rerun")
    assert refused(node, done, overrides={"a": 1}) == (422, "invalid_rerun")
    node.call("POST", f"/api/v1/executions/{running}/cancel")


def test_the_command_runs_an_execution_again(rota: Rota) -> None:
    rota("jobs", "create", "again", "--parameters", '{"n": 1}', "--", "echo n=$ROTA_PARAMETERS")
    rota("trigger", "again", "--wait")

    changed = rota("rerun", "again@latest", "--from", "main", "-p", "n=2", "--wait")
    both = rota("rerun", "again@latest", "--all", "--failed")

    assert (changed.status, both.status) == (0, 2)
    assert 'n={"n":2}' in changed.out
    assert "rerun of" in changed.out


def test_an_execution_that_exceeds_its_timeout_is_stopped(node: Rotad) -> None:
    body = {"startDeadline": "1h", "executionTimeout": "300ms", "retries": 5}

    ended = node.run(name="too-long", command="sleep 600", **body)

    assert ended["status"] == "failed"
    assert ended["reason"] == "did not end within its timeout of 300ms"
    assert ended["tasks"]["main"]["status"] == "cancelled"
    shown = node.call("GET", "/api/v1/jobs/too-long")
    assert {key: shown["definition"][key] for key in body} == body
    with pytest.raises(Refusal) as raised:
        node.create(name="negative", command="true", startDeadline="-1s")
    assert raised.value.problem["errors"][0]["pointer"] == "/startDeadline"


def test_an_execution_that_gets_no_slot_fails_at_its_start_deadline(node: Rotad) -> None:
    ended = node.run(
        name="nowhere", command="true", nodeSelector={"gpu": "none"}, startDeadline="300ms"
    )

    assert (ended["status"], ended["startedAt"]) == ("failed", None)
    assert ended["reason"] == "did not start within its start deadline of 300ms"
