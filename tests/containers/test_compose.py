"""Loss, addition and restart of nodes of the Compose file, behind HAProxy."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

import pytest

from containers.project import URL, Json, Project, needs_compose, wait_until
from support.docker import needs_docker

pytestmark = [needs_docker, needs_compose, pytest.mark.containers]

EVERY_SECOND = [f"each-second-{number}" for number in range(8)]
"""Enough jobs that several nodes are primaries of some."""
LATE_MS = 1000


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    """The cluster, with a job to trigger and several that fire each second."""
    project.rota("jobs", "create", "asked", "--", "true")
    for name in EVERY_SECOND:
        project.rota("jobs", "create", name, "--schedule", "* * * * * *", "--", "true")
    return project


@pytest.fixture(autouse=True)
def _whole(project: Project) -> Iterator[None]:
    yield
    project.wait_whole(3)


def test_nodes_find_their_names_and_addresses(project: Project) -> None:
    addresses = {
        f"rota-node-{number}": project.dockerd.inspect(project.container(number))[
            "NetworkSettings"
        ]["Networks"]["rota_etcd"]["IPAddress"]
        for number in (1, 2, 3)
    }

    members = project.members()

    assert {name: node["address"] for name, node in members.items()} == {
        name: f"{address}:7400" for name, address in addresses.items()
    }
    assert {name: node["peerAddress"] for name, node in members.items()} == {
        name: f"{address}:7401" for name, address in addresses.items()
    }


def test_requests_need_the_key_that_the_first_start_made(project: Project) -> None:
    status = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}")
    token = project.token_file.read_text()

    assert project.inside(*status, f"{URL}/api/v1/jobs") == "401"
    given = ("--header", f"Authorization: Bearer {token}")
    assert project.inside(*status, *given, f"{URL}/api/v1/jobs") == "200"
    made = ("exec", project.container(2), "stat", "-c", "%a %u", "/var/lib/rota/first.token")
    assert project.dockerd.docker(*made) == "600 7400"


def test_a_node_runs_without_rights_on_a_file_system_that_cannot_be_written(
    project: Project,
) -> None:
    of_rotad = project.dockerd.docker(
        "exec", project.container(1), "sh", "-c", "cat /proc/$(pidof -s rotad || echo 1)/status"
    )
    touched = project.dockerd.docker(
        "exec", project.container(1), "sh", "-c", "touch /x /opt/rota/x 2>&1 || true"
    )

    lines = dict(line.split(":\t", 1) for line in of_rotad.splitlines())
    assert lines["Uid"].split() == ["7400"] * 4
    assert int(lines["CapBnd"], 16) == 0
    assert lines["NoNewPrivs"] == "1"
    assert touched.count("Read-only file system") == 2


def test_the_engine_reports_a_ready_node_as_healthy(project: Project) -> None:
    health = ("inspect", "--format", "{{.State.Health.Status}}", project.container(1))

    wait_until(partial(is_printed, project, "healthy", health), lambda: "the node is not healthy")


def test_orphans_of_a_task_do_not_stay_zombies(project: Project) -> None:
    project.rota("jobs", "create", "orphans", "--", "sh", "-c", "(sleep 0.1 &) ; true")

    project.rota("trigger", "orphans", "--wait")

    zombies = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true"
    for number in (1, 2, 3):
        exec_there = ("exec", project.container(number), "sh", "-c", zombies)
        wait_until(partial(is_printed, project, "0", exec_there), lambda: "zombies are left")


def test_every_request_succeeds_while_a_container_is_killed(project: Project) -> None:
    victim = project.container(2)

    with project.asking("asked") as result:
        project.dockerd.docker("kill", victim)
        wait_until(
            lambda: project.members()["rota-node-2"]["state"] == "gone",
            lambda: f"{project.members()}",
        )
        project.dockerd.docker("start", victim)
        project.wait_whole(3)

    assert result["asked"] > 50
    assert (result["failures"], result["lost"]) == ([], [])


def test_a_container_that_starts_again_keeps_data_and_place(project: Project) -> None:
    before = project.members()["rota-node-3"]
    store = store_of(project, 3)

    with project.asking("asked") as result:
        project.dockerd.docker("restart", project.container(3))
        project.wait_whole(3)

    after = project.members()["rota-node-3"]
    assert (after["primaries"], after["backups"]) == (before["primaries"], before["backups"])
    assert after["session"] != before["session"]
    assert store_of(project, 3) == store
    assert (result["failures"], result["lost"]) == ([], [])


def test_a_node_steps_aside_before_it_stops_and_takes_its_part_after(project: Project) -> None:
    as_node = ("exec", "--env", "ROTA_NODE_ID=rota-node-1", project.container(1))
    before = project.members()["rota-node-1"]

    project.dockerd.docker(*as_node, "rota-aside", "leave")
    aside = project.members()["rota-node-1"]
    project.dockerd.docker("restart", project.container(1))
    project.dockerd.docker(*as_node, "rota-aside", "return")
    project.wait_whole(3)

    assert (aside["state"], aside["primaries"]) == ("draining", 0)
    assert project.members()["rota-node-1"]["primaries"] == before["primaries"] > 0


def test_a_node_that_an_operator_has_drained_stays_drained(project: Project) -> None:
    as_node = ("exec", "--env", "ROTA_NODE_ID=rota-node-1", project.container(1))
    project.rota("node", "drain", "rota-node-1", "--wait")

    project.dockerd.docker(*as_node, "rota-aside", "leave")
    project.dockerd.docker(*as_node, "rota-aside", "return")

    assert project.members()["rota-node-1"]["state"] == "draining"
    project.rota("node", "undrain", "rota-node-1")


def test_prometheus_finds_all_nodes(project: Project) -> None:
    made = project.rota("key", "create", "prometheus", "--role", "metrics", "--namespace", "*")
    project.prometheus_token_file.write_text(made)
    project.compose("--profile", "monitoring", "up", "--detach", "prometheus")

    def has_found() -> bool:
        query = "http://127.0.0.1:9090/api/v1/query?query=sum(up)"
        try:
            found = json.loads(project.inside("curl", "--silent", "--globoff", query))
        except AssertionError:
            return False
        return [each["value"][1] for each in found["data"]["result"]] == ["3"]

    wait_until(has_found, lambda: project.compose("logs", "--tail=20", "prometheus"))
    project.compose("--profile", "monitoring", "rm", "--stop", "--force", "prometheus")


def test_two_nodes_join_and_leave_and_no_fire_is_late(project: Project) -> None:
    fired = {each["executionId"] for each in fires(project)}

    with project.asking("asked") as result:
        project.compose("up", "--detach", "--scale", "node=5")
        project.wait_whole(5)
        for name in ("rota-node-4", "rota-node-5"):
            project.rota("node", "drain", name, "--wait")
        project.compose("up", "--detach", "--scale", "node=3")
        for name in ("rota-node-4", "rota-node-5"):
            project.rota("node", "forget", name)
        project.wait_whole(3)

    assert (result["failures"], result["lost"]) == ([], [])
    new = [each for each in fires(project) if each["executionId"] not in fired]
    late = {each["fireTime"]: each["latenessMs"] for each in new if each["latenessMs"] > LATE_MS}
    assert len(new) > 10 * len(EVERY_SECOND)
    assert not late
    assert not seconds_missing(new)


def test_data_is_kept_after_all_containers_were_removed(project: Project) -> None:
    stores = [store_of(project, number) for number in (1, 2, 3)]
    made = project.rota("jobs", "show", "asked", "-o", "json")

    project.compose("down")
    project.compose("up", "--detach")
    project.wait_whole(3)

    assert [store_of(project, number) for number in (1, 2, 3)] == stores
    assert project.rota("jobs", "show", "asked", "-o", "json") == made


def is_printed(project: Project, text: str, arguments: tuple[str, ...]) -> bool:
    """Return True if the engine's command prints *text*."""
    return project.dockerd.docker(*arguments) == text


def fires(project: Project) -> list[Json]:
    """Return the started executions of all jobs that fire each second."""
    every = [
        project.rota("executions", "list", name, "--limit", "10000", "-o", "json")
        for name in EVERY_SECOND
    ]
    return [each for executions in every for each in executions if each["startedAt"]]


def seconds_missing(executions: list[Json]) -> set[tuple[str, datetime]]:
    """Return the jobs and seconds without a fire between a job's first fire and its last."""
    missing: set[tuple[str, datetime]] = set()
    for job in {each["jobId"] for each in executions}:
        at = {
            datetime.fromisoformat(each["fireTime"]) for each in executions if each["jobId"] == job
        }
        span = int((max(at) - min(at)).total_seconds())
        missing |= {(job, min(at) + timedelta(seconds=n)) for n in range(span)} - {
            (job, t) for t in at
        }
    return missing


def store_of(project: Project, number: int) -> str:
    """Return the id of the data directory of a container."""
    path = f"/var/lib/rota/rota-node-{number}/FORMAT"
    text = project.dockerd.docker("exec", project.container(number), "cat", path)
    return str(json.loads(text)["storeId"])
