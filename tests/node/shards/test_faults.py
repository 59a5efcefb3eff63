"""Faults that a node survives, and faults that end it."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from rota.core.timing.instants import SECOND, parse_instant
from rota.node.system.clock import SystemClock
from support.rotad import Refusal, Rotad, processes_of

UNFINISHED_MAX = 1_000
"""The default is ten times as many, and takes ten times as long."""


def test_what_was_acknowledged_survives_kill_9(own_node: Rotad) -> None:
    own_node.start()
    own_node.create(name="kept", schedule="@every 1h", command="true")
    own_node.create(name="done", type="scripted")
    finished = own_node.trigger("done")
    own_node.ended(finished)
    own_node.create(name="slow", type="scripted", parameters={"sleepMs": 300})
    unfinished = own_node.trigger("slow")

    own_node.kill()
    own_node.start()

    assert own_node.call("GET", "/api/v1/jobs/kept")["nextFireAt"]
    assert own_node.ended(finished)["status"] == "success"
    again = own_node.ended(unfinished)
    assert again["status"] == "success"
    outcomes = [each["outcome"] for each in again["tasks"]["main"]["attempts"]]
    assert outcomes == ["lost", "success"]


def test_tasks_of_a_node_killed_with_its_warden_are_ended_before_they_run_again(
    own_node: Rotad, tmp_path: Path
) -> None:
    own_node.start()
    starts = tmp_path / "starts"
    # In a session of its own: a search by process group does not find it.
    command = f"echo $ROTA_ATTEMPT $ROTA_TOKEN >> {starts}; setsid sleep 600 & wait"
    own_node.create(name="long", command=command, stopGrace="0.1s")
    execution_id = own_node.trigger("long")
    own_node.wait_until(starts.exists)
    own_node.wait_until(lambda: len(processes_of(own_node.data_dir)) >= 2)
    before = set(processes_of(own_node.data_dir))

    own_node.kill_all()
    own_node.start()

    own_node.wait_until(lambda: starts.read_text().count("\n") == 2)
    assert not before & set(processes_of(own_node.data_dir))
    (first, first_token), (second, second_token) = (
        line.split() for line in starts.read_text().splitlines()
    )
    assert (first, second) == ("1", "2")
    assert first_token < second_token
    own_node.call("POST", f"/api/v1/executions/{execution_id}/cancel")
    own_node.ended(execution_id)
    own_node.wait_until(lambda: processes_of(own_node.data_dir) == [])


def test_a_lost_attempt_does_not_use_the_users_retries(own_node: Rotad) -> None:
    own_node.start()
    own_node.create(name="unlucky", command='test "$ROTA_ATTEMPT" -ge 2 || sleep 600', retries=0)
    execution_id = own_node.trigger("unlucky")
    own_node.wait_until(lambda: bool(processes_of(own_node.data_dir)))

    own_node.kill_all()
    own_node.start()

    assert own_node.ended(execution_id)["status"] == "success"


def test_fires_missed_while_down_follow_the_misfire_policy(own_node: Rotad) -> None:
    own_node.start()
    for policy in ("all", "latest", "skip"):
        own_node.create(
            name=policy, schedule="@every 100ms", type="scripted", misfire=policy, grace="50ms"
        )
    own_node.wait_until(lambda: len(own_node.ledger("skip")) > 2)

    own_node.kill()
    down_until = SystemClock().now() + SECOND
    own_node.wait_for(lambda: SystemClock().now() > down_until)
    own_node.start()
    own_node.wait_until(lambda: all(len(own_node.ledger(each)) > 5 for each in ("all", "latest")))

    outcomes = {
        policy: Counter(each["outcome"] for each in own_node.ledger(policy))
        for policy in ("all", "latest", "skip")
    }
    assert set(outcomes["all"]) == {"fired"}
    assert outcomes["latest"]["coalesced"] >= 1
    assert outcomes["skip"]["missed"] >= 1
    for policy in outcomes:
        assert_every_fire_once(own_node.ledger(policy), step_us=100_000)


def test_a_second_node_on_the_same_data_is_refused(own_node: Rotad, tmp_path: Path) -> None:
    own_node.start()
    second = Rotad(own_node.data_dir)
    second.log_path = tmp_path / "second.log"
    with second:
        second.spawn()

        assert second.exit_status() == 75
        assert own_node.process is not None
        assert f"is in use by process {own_node.process.pid}" in second.log()
        assert own_node.call("GET", "/readyz") == "ok\n"


def test_data_of_a_newer_rota_is_refused(own_node: Rotad) -> None:
    own_node.start()
    own_node.stop()
    file = own_node.data_dir / "FORMAT"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))

    own_node.spawn()

    assert own_node.exit_status() == 74
    assert "was written by a newer version of rota (format 99" in own_node.log()


def test_a_flipped_byte_in_the_middle_of_the_data_is_refused_and_located(own_node: Rotad) -> None:
    own_node.start()
    own_node.create(name="job", type="scripted")
    for _ in range(50):
        own_node.trigger("job")
    own_node.kill()
    log = max((own_node.data_dir / "db").glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0x10
    log.write_bytes(content)

    own_node.spawn()

    assert own_node.exit_status() == 74
    assert log.name in own_node.log()


def test_too_many_triggers_are_refused_and_none_acknowledged_is_lost(tmp_path: Path) -> None:
    flags = ("--slots", "1", "--drain", "0s", "--executions-max", str(UNFINISHED_MAX))
    with Rotad(tmp_path / "data", *flags) as node:
        node.start()
        node.create(name="blocker", command="sleep 600")
        node.create(name="queued", type="scripted")
        blocker = node.trigger("blocker")
        made: set[str] = set()
        refused = 0
        for _ in range(4):
            items = [{"job": "queued"}] * 500
            answer = node.call("POST", "/api/v1/executions:batch", {"items": items})
            made |= {each["executionId"] for each in answer["items"] if each["executionId"]}
            refused += sum(
                each["error"]["status"] == 429 for each in answer["items"] if each["error"]
            )
        with pytest.raises(Refusal) as one_more:
            node.trigger("queued")

        node.call("POST", f"/api/v1/executions/{blocker}/cancel")

        assert len(made) + refused == 2_000
        assert UNFINISHED_MAX // 10 <= len(made) <= UNFINISHED_MAX
        assert one_more.value.status == 429
        assert int(one_more.value.headers["Retry-After"]) >= 1
        body = {"executionIds": sorted(made), "timeout": 60}
        ended = node.call("POST", "/api/v1/executions:wait", body)["items"]
        assert len(ended) == len(made)
        assert {each["status"] for each in ended} == {"success"}


def test_old_history_goes(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--history", "1s") as node:
        node.start()
        node.create(name="job", schedule="@every 100ms", type="scripted")
        execution_id = node.trigger("job")
        node.ended(execution_id)
        node.call("DELETE", "/api/v1/jobs/job")

        def is_gone() -> bool:
            return not node.call("GET", "/api/v1/executions")["items"]

        node.wait_until(is_gone, timeout_s=15)
        with pytest.raises(Refusal):
            node.call("GET", f"/api/v1/executions/{execution_id}")


def test_the_newest_executions_of_a_job_stay_until_it_is_deleted(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--history", "1s", "--history-per-job", "3") as node:
        node.start()
        job_id = node.create(name="job", type="scripted")["jobId"]
        ids = [node.trigger("job") for _ in range(5)]
        for execution_id in ids:
            node.ended(execution_id)

        def left() -> list[str]:
            page = node.call("GET", f"/api/v1/executions?jobId={job_id}")
            return [each["executionId"] for each in page["items"]]

        node.wait_until(lambda: len(left()) == 3, timeout_s=15)
        node.wait_until(lambda: not node.call("GET", "/api/v1/executions")["items"], timeout_s=15)
        kept = left()
        tasks = node.call("GET", f"/api/v1/executions/{ids[-1]}")["tasks"]
        node.call("DELETE", "/api/v1/jobs/job")

        assert kept == sorted(ids, reverse=True)[:3]
        assert tasks["main"]["status"] == "success"
        node.wait_until(lambda: not left(), timeout_s=15)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=160m", "rota-test", str(folder)], check=False
        ).returncode
    )
    if not made:
        pytest.skip("mounting a tmpfs needs root: run the tests with sudo or in a container")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_turns_the_node_unready_and_it_recovers_by_itself(small_disk: Path) -> None:
    with Rotad(small_disk / "data", "--disk-reserve-mb", "32") as node:
        node.start()
        node.create(name="before", schedule="@every 1h", type="scripted")
        filler = small_disk / "filler"
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        filler.write_bytes(bytes(free - (16 << 20)))

        node.wait_until(lambda: not node.is_ready())
        with pytest.raises(Refusal) as unready:
            node.call("GET", "/readyz")
        with pytest.raises(Refusal) as refused:
            node.create(name="during", type="scripted")
        filler.unlink()
        node.wait_until(node.is_ready)
        node.create(name="after", type="scripted")
        jobs = [each["name"] for each in node.call("GET", "/api/v1/jobs")["items"]]

        assert re.search(
            r"has \d\d MiB left, which is less than the reserve of 32 MiB",
            unready.value.problem["detail"],
        )
        assert refused.value.status == 503
        assert refused.value.headers["Retry-After"]
        assert jobs == ["after", "before"]


def test_a_disk_that_fills_in_an_instant_costs_no_acknowledged_job(small_disk: Path) -> None:
    with Rotad(small_disk / "data", "--disk-reserve-mb", "0") as node:
        node.start()
        filler = small_disk / "filler"
        acknowledged = [node.create(name=f"job-{number}", type="scripted") for number in range(20)]
        with filler.open("wb", buffering=0) as file:
            _fill(file)
        for number in range(2_000):
            try:
                job = node.create(name=f"late-{number}", command=["true", "x" * 100_000])
            except (Refusal, OSError):
                break
            acknowledged.append(job)
        status = node.exit_status()
        filler.unlink()
        node.start()

        assert status == 74
        for job in acknowledged:
            assert node.call("GET", f"/api/v1/jobs/{job['jobId']}")["name"] == job["name"]


def _fill(file: FileIO) -> None:
    block = bytes(1 << 20)
    while block:
        try:
            file.write(block)
        except OSError:
            block = block[: len(block) // 2]


def assert_every_fire_once(ledger: list[dict[str, object]], *, step_us: int) -> None:
    """Check that consecutive entries of an ``@every`` schedule leave no gap and no overlap."""
    expected = None
    for entry in ledger:
        first, last = _micros(entry["fireTime"]), _micros(entry["until"])
        assert expected is None or first == expected, entry
        count = entry["count"]
        assert isinstance(count, int)
        assert last == first + (count - 1) * step_us, entry
        expected = last + step_us


def _micros(text: object) -> int:
    return parse_instant(str(text))
