"""Replaced versions of jobs over the API and on the command line."""

from pathlib import Path

import pytest

from support.rota_program import Rota
from support.rotad import Json, Refusal, Rotad


def replace(node: Rotad, name: str, **body: Json) -> Json:
    return node.call("PUT", f"/api/v1/jobs/default/{name}", body)


def test_a_replaced_version_has_its_definition_and_no_present_state(node: Rotad) -> None:
    made = node.create(name="was", command="echo one", schedule="0 6 * * *", retries=2)
    replace(node, "was", command="echo two", schedule="0 7 * * *")

    by_id = node.call("GET", f"/api/v1/jobs/{made['jobId']}?version=1")
    by_name = node.call("GET", "/api/v1/jobs/was?version=1&namespace=default")
    present = node.call("GET", "/api/v1/jobs/was?version=2")

    assert by_id == by_name
    assert (by_id["version"], by_id["status"], by_id["nextFireAt"]) == (1, "replaced", None)
    assert by_id["definition"]["command"] == "echo one"
    assert by_id["tasks"][0]["retries"] == 2
    [schedule] = by_id["schedules"]
    assert (schedule["schedule"], schedule["nextFireAt"]) == ("0 6 * * *", None)
    assert (present["version"], present["status"]) == (2, "scheduled")
    assert present == node.call("GET", "/api/v1/jobs/was")


def test_the_definition_of_a_replaced_version_can_be_sent_again(node: Rotad) -> None:
    node.create(name="back", command="echo one", env={"A": "1"})
    replace(node, "back", command="echo two")
    first = node.call("GET", "/api/v1/jobs/back?version=1")["definition"]

    again = node.call("PUT", "/api/v1/jobs/default/back", first)

    assert again["version"] == 3
    assert again["definition"] == first


def test_a_version_that_is_not_stored_is_refused_with_those_that_are(node: Rotad) -> None:
    node.create(name="many", command="echo 1")
    for number in range(2, 24):
        replace(node, "many", command=f"echo {number}")
    node.create(name="many-2", command="true")  # Its versions must not count.

    details: list[str] = []
    for version in (2, 24):
        with pytest.raises(Refusal) as raised:
            node.call("GET", f"/api/v1/jobs/many?version={version}")
        assert (raised.value.status, raised.value.problem["code"]) == (404, "version_not_found")
        details.append(raised.value.problem["detail"])

    stored = f"stored are {', '.join(map(str, range(3, 24)))}, of which 23 is the present one"
    assert details == [
        f"version 2 of the job 'default/many' is no longer stored; {stored}",
        f"version 24 of the job 'default/many' is not yet defined; {stored}",
    ]


def test_the_version_of_an_unfinished_execution_is_shown(node: Rotad) -> None:
    node.create(name="long", command="sleep 600")
    running = node.trigger("long")
    for number in range(22):
        replace(node, "long", command=f"echo {number}")

    shown = node.call("GET", "/api/v1/jobs/long?version=1")
    with pytest.raises(Refusal) as raised:
        node.call("GET", "/api/v1/jobs/long?version=2")
    node.call("POST", f"/api/v1/executions/{running}/cancel")

    assert shown["definition"]["command"] == "sleep 600"
    assert "stored are 1, 3, 4," in raised.value.problem["detail"]


def test_the_command_shows_a_replaced_version(rota: Rota, tmp_path: Path) -> None:
    rota("jobs", "create", "shown", "--", "echo one")
    (tmp_path / "job.yaml").write_text("{name: shown, command: echo two}")
    rota("jobs", "apply", "-f", str(tmp_path / "job.yaml"))

    shown = rota("jobs", "show", "shown", "--version", "1")
    missing = rota("jobs", "show", "shown", "--version", "3")

    assert shown.status == 0
    assert "echo one" in shown.out
    assert [line.split() for line in shown.out.splitlines() if line.startswith("version")] == [
        ["version", "1"]
    ]
    assert missing.status == 3
    assert "stored are 1, 2, of which 2 is the present one" in missing.err
