"""The warden: tasks outlive their node, but not their lease, and never run twice."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.rotad import Json, Rotad, processes_of, warden_of
from support.stopping import stop

LEASE_S = 4.0
"""Lease of nodes whose tasks end with it, or whose warden hangs."""
LONG_LEASE_S = 60.0
"""Lease of the other nodes: longer than a restart on any machine."""
ENDED_BY_S = LEASE_S + 4
"""Limit for the end of tasks of a silent node: the lease, the kill, and its detection."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    flags = ("--drain", "0s", "--attempt-lease", f"{LONG_LEASE_S}s")
    with Rotad(tmp_path_factory.mktemp("warden") / "data", *flags) as rotad:
        yield rotad.start()


@pytest.fixture
def node(shared: Rotad) -> Rotad:
    """The shared node; it runs, and nothing runs on it, whatever a test before has left."""
    if shared.process is None or shared.process.poll() is not None:
        shared.start()
    for status in ("queued", "running"):
        for left in shared.call("GET", f"/api/v1/executions?status={status}")["items"]:
            shared.call("POST", f"/api/v1/executions/{left['executionId']}/cancel")
    shared.wait_until(lambda: processes_of(shared.data_dir) == [])
    return shared


@pytest.fixture
def brief_node(tmp_path: Path) -> Iterator[Rotad]:
    """A node with a short attempt lease."""
    flags = ("--drain", "0s", "--attempt-lease", f"{LEASE_S}s")
    with Rotad(tmp_path / "data", *flags) as rotad:
        yield rotad.start()


def long_task(node: Rotad, said: Path, *, until: str = "false") -> str:
    """Start a task that appends its attempt number to a file and runs until a command succeeds."""
    line = f"echo $ROTA_ATTEMPT >> {said}; until {until}; do sleep 0.02; done; echo done"
    execution_id = node.trigger(node.create(name=name_of(said), command=line)["jobId"])
    node.wait_until(said.exists)
    return execution_id


def name_of(file: Path) -> str:
    """Return a name for a job of the test that a file in its folder is of."""
    return f"job-{file.parent.name}"


def attempts_of(execution: Json) -> list[str]:
    return [each["outcome"] for each in execution["tasks"]["main"]["attempts"]]


# -- restarts of the node --------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [True, False], ids=["kill -9", "stop"])
def test_a_task_continues_while_its_node_is_restarted(
    node: Rotad, tmp_path: Path, is_killed: bool
) -> None:
    said, gate = tmp_path / "said", tmp_path / "gate"
    execution_id = long_task(node, said, until=f"test -e {gate}")
    before = processes_of(node.data_dir)

    if is_killed:
        node.kill()
    else:
        node.stop()
    while_away = processes_of(node.data_dir)
    node.start()
    gate.touch()
    execution = node.ended(execution_id)

    assert set(before) & set(while_away)
    assert execution["status"] == "success"
    assert attempts_of(execution) == ["success"]
    assert said.read_text() == "1\n"
    assert node.call("GET", f"/api/v1/executions/{execution_id}/tasks/main/output") == "done\n"


@pytest.mark.parametrize(("code", "outcome"), [(0, "success"), (3, "failed")])
def test_an_outcome_without_a_running_node_is_recorded_later(
    node: Rotad, tmp_path: Path, code: int, outcome: str
) -> None:
    gate, said = tmp_path / "gate", tmp_path / "said"
    line = f"touch {said}; until test -e {gate}; do sleep 0.02; done; echo bye; exit {code}"
    execution_id = node.trigger(node.create(name=name_of(said), command=line)["jobId"])
    node.wait_until(said.exists)

    node.kill()
    gate.touch()
    node.wait_for(lambda: processes_of(node.data_dir) == [])
    node.start()
    execution = node.ended(execution_id)

    [attempt] = execution["tasks"]["main"]["attempts"]
    assert (attempt["outcome"], attempt["exitCode"]) == (outcome, code)
    assert attempt["outputTail"] == "bye\n"


def test_the_warden_drops_recorded_outcomes(node: Rotad) -> None:
    for _ in range(3):
        assert node.run(name="job", command="true")["status"] == "success"

    # The warden keeps an end whose record was not confirmed before a kill; the next life confirms.
    for _ in range(5):
        node.kill()
        node.start()
        if '"held": 0' in node.log():
            return
    pytest.fail(f"the warden still holds outcomes:\n{node.log_in_short()}")


def test_adopted_tasks_keep_their_slots(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    flags = ("--slots", "2", "--attempt-lease", f"{LONG_LEASE_S}s")
    with Rotad(tmp_path / "data", *flags) as node:
        node.start()
        line = f"until test -e {gate}; do sleep 0.02; done"
        job = node.create(name="job", command=line)["jobId"]
        made = [node.trigger(job) for _ in range(5)]
        node.wait_until(lambda: slots_used(node) == 2)

        node.kill()
        node.start()
        used = slots_used(node)
        gate.touch()

        assert used == 2
        for execution_id in made:
            assert attempts_of(node.ended(execution_id)) == ["success"]
        node.wait_until(lambda: slots_used(node) == 0)


def test_a_task_that_is_cancelled_after_a_restart_is_stopped(node: Rotad, tmp_path: Path) -> None:
    execution_id = long_task(node, tmp_path / "said")
    node.kill()
    node.start()

    node.call("POST", f"/api/v1/executions/{execution_id}/cancel")
    execution = node.ended(execution_id)

    assert execution["status"] == "cancelled"
    node.wait_until(lambda: processes_of(node.data_dir) == [])


def test_output_continues_across_a_restart(node: Rotad, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    line = f"echo one; until test -e {gate}; do sleep 0.02; done; echo two"
    execution_id = node.trigger(node.create(name=name_of(gate), command=line)["jobId"])
    path = f"/api/v1/executions/{execution_id}/tasks/main/output"
    node.wait_until(lambda: node.call("GET", path) == "one\n")

    node.kill()
    node.start()
    after = node.call("GET", path)
    gate.touch()
    followed = node.call("GET", f"{path}?follow=true")

    assert after == "one\n"
    assert followed == "one\ntwo\n"


def test_a_node_that_ends_its_tasks_leaves_nothing_behind(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--drain", "0s", "--on-stop", "end") as node:
        node.start()
        execution_id = long_task(node, tmp_path / "said")

        assert node.stop() == 0

        assert processes_of(node.data_dir) == []
        assert warden_of(node.data_dir) == 0
        node.start()
        node.wait_until(lambda: (tmp_path / "said").read_text() == "1\n2\n")
        task = node.call("GET", f"/api/v1/executions/{execution_id}")["tasks"]["main"]
        assert [each["outcome"] for each in task["attempts"]] == ["lost", None]


def test_what_an_attempt_does_while_its_node_stops_is_recorded(tmp_path: Path) -> None:
    up = tmp_path / "up"
    line = f"touch {up}-$ROTA_TASK; until test -e {tmp_path}/never; do sleep 0.02; done"
    tasks = [
        {"name": "ends", "command": f"trap 'echo bye; echo 7 >$ROTA_RESULT; exit 0' TERM; {line}"},
        {"name": "fails", "command": f"trap 'echo bye; exit 3' TERM; {line}"},
        {"name": "next", "needs": ["ends"], "command": "cat $ROTA_RESULTS"},
    ]
    with Rotad(tmp_path / "data", "--drain", "0s", "--on-stop", "end") as node:
        node.start()
        execution_id = node.trigger(node.create(name="job", tasks=tasks)["jobId"])
        node.wait_until(lambda: all(Path(f"{up}-{each}").exists() for each in ("ends", "fails")))

        assert node.stop() == 0

        (tmp_path / "never").touch()
        node.start()
        found = node.ended(execution_id)["tasks"]
        output = f"/api/v1/executions/{execution_id}/tasks"
        [ended], [failed, again] = (found[each]["attempts"] for each in ("ends", "fails"))
        assert (ended["outcome"], ended["result"]) == ("success", 7)
        assert (failed["outcome"], again["outcome"]) == ("lost", "success")
        assert failed["reason"].startswith("its node stopped")
        assert "bye" in node.call("GET", f"{output}/ends/output")
        assert "bye" in node.call("GET", f"{output}/fails/output?attempt=1")
        assert node.call("GET", f"{output}/next/output") == '{"ends":7}'


# -- leases ----------------------------------------------------------------------------------------


def test_tasks_end_in_time_when_their_node_does_not_come_back(
    brief_node: Rotad, tmp_path: Path
) -> None:
    long_task(brief_node, tmp_path / "said")

    brief_node.kill()
    brief_node.wait_for(lambda: processes_of(brief_node.data_dir) == [], ENDED_BY_S)

    brief_node.start()
    brief_node.wait_until(lambda: (tmp_path / "said").read_text() == "1\n2\n")


def test_tasks_of_a_node_that_stands_still_end_in_time_and_run_again(
    brief_node: Rotad, tmp_path: Path
) -> None:
    said, gate = tmp_path / "said", tmp_path / "gate"
    line = f"echo $ROTA_ATTEMPT >> {said}; trap '' TERM; until test -e {gate}; do sleep 0.02; done"
    job = brief_node.create(name="job", command=line, retries=0)["jobId"]
    execution_id = brief_node.trigger(job)
    brief_node.wait_until(said.exists)
    assert brief_node.process is not None

    stop(brief_node.process.pid)
    try:
        brief_node.wait_for(lambda: processes_of(brief_node.data_dir) == [], ENDED_BY_S)
    finally:
        brief_node.process.send_signal(signal.SIGCONT)
    gate.touch()
    execution = brief_node.ended(execution_id)

    assert execution["status"] == "success"
    assert attempts_of(execution) == ["cancelled", "success"]
    assert "no right to run it" in execution["tasks"]["main"]["attempts"][0]["reason"]


def test_tasks_run_for_longer_than_a_lease_while_their_node_runs(
    brief_node: Rotad, tmp_path: Path
) -> None:
    execution_id = brief_node.trigger(
        brief_node.create(name="job", command=f"sleep {LEASE_S + 2}")["jobId"]
    )

    assert attempts_of(brief_node.ended(execution_id)) == ["success"]


# -- loss of the warden ----------------------------------------------------------------------------


def test_a_killed_warden_takes_its_tasks_with_it_and_they_run_again(
    node: Rotad, tmp_path: Path
) -> None:
    said, gate = tmp_path / "said", tmp_path / "gate"
    # One process leaves its session and its environment: only descent identifies it.
    escape = f"setsid env -i PATH=$PATH sh -c 'while :; do sleep 1; done' {said} &"
    line = f"{escape} echo $ROTA_ATTEMPT >> {said}; until test -e {gate}; do sleep 0.02; done"
    job = node.create(name=name_of(said), command=line, retries=0)["jobId"]
    execution_id = node.trigger(job)
    node.wait_until(said.exists)
    node.wait_until(lambda: len(escaped(said)) == 1)
    before = {*processes_of(node.data_dir), *escaped(said)}

    os.kill(warden_of(node.data_dir), signal.SIGKILL)
    node.wait_until(lambda: said.read_text() == "1\n2\n")
    after = {*processes_of(node.data_dir), *escaped(said)}
    gate.touch()
    execution = node.ended(execution_id)

    assert not before & after
    assert attempts_of(execution) == ["lost", "success"]
    assert execution["status"] == "success"


def test_node_and_warden_killed_together_leave_nothing_that_runs_twice(
    node: Rotad, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    long_task(node, said)
    before = set(processes_of(node.data_dir))
    assert node.process is not None

    os.kill(node.process.pid, signal.SIGKILL)
    os.kill(warden_of(node.data_dir), signal.SIGKILL)
    node.process.wait()
    node.start()
    node.wait_until(lambda: said.read_text() == "1\n2\n")

    assert not before & set(processes_of(node.data_dir))


def test_a_killed_guard_ends_the_warden_and_what_it_left_is_found(
    node: Rotad, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    long_task(node, said)
    before = set(processes_of(node.data_dir))
    guard = int((node.data_dir / "warden.lock").read_text())

    os.kill(guard, signal.SIGKILL)
    node.wait_until(lambda: said.read_text() == "1\n2\n")

    assert not before & set(processes_of(node.data_dir))


def test_a_hanging_warden_is_replaced_and_the_node_reports_it_meanwhile(
    brief_node: Rotad, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    long_task(brief_node, said)
    before, warden = set(processes_of(brief_node.data_dir)), warden_of(brief_node.data_dir)

    stop(warden)
    brief_node.wait_until(lambda: not brief_node.is_ready())
    brief_node.wait_until(lambda: said.read_text() == "1\n2\n")

    assert warden_of(brief_node.data_dir) not in (0, warden)
    assert not before & set(processes_of(brief_node.data_dir))
    assert "warden hangs" in brief_node.log()
    assert brief_node.is_ready()


def test_a_warden_without_node_and_tasks_ends_itself(own_node: Rotad) -> None:
    assert own_node.start().run(name="job", command="true")["status"] == "success"

    own_node.stop()

    own_node.wait_for(lambda: warden_of(own_node.data_dir) == 0)
    assert "warden idle" in (own_node.data_dir / "warden.log").read_text()


def slots_used(node: Rotad) -> int:
    text = node.call("GET", "/metrics")
    [line] = [each for each in text.splitlines() if each.startswith("rota_slots_used ")]
    return int(float(line.split()[1]))


def escaped(mark: Path) -> list[int]:
    """Return the shells whose last argument is *mark*."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
            if argv[-2:] == [str(mark).encode(), b""]:
                found.append(int(entry.name))
    return found
