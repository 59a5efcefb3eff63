"""Comparison of rota with other systems: ratios within a round, and configurations."""

import asyncio
import dataclasses
import json
import os
import select
import signal
from functools import partial
from pathlib import Path

import pytest
from bench.machine import Machine
from bench.peers.__main__ import COUNTS
from bench.peers.apps import drive
from bench.peers.apps.asking import Asking
from bench.peers.apps.marks import last_marked_at, mark_by_process, wait_marks
from bench.peers.comparison import COLUMNS, ROTA, about, write_comparison
from bench.peers.environments import npm_versions
from bench.peers.programs import NotInstalled, kill, program, running, wait_until
from bench.peers.systems import SYSTEMS
from bench.peers.turns import Seen, command

MACHINE = Machine(
    processor="a processor",
    cores=2,
    memory_gib=4.0,
    kernel="6.1",
    python="3.11.2",
    rota="0.1.0",
    commit="abc",
    etcd="3.4",
    filesystem="ext4",
    sync_ms=(0.2, 3.0),
)


def rate(system: str, number: int, per_s: float) -> Seen:
    """Return a throughput that was seen."""
    return Seen(system=system, scenario="throughput", round=number, per_s=per_s)


def test_ratios_are_of_the_same_round(tmp_path: Path) -> None:
    # The machine was four times as fast in the second round.
    seen = [
        *(rate("rota-3", 0, 1_000), rate("celery", 0, 500)),
        *(rate("rota-3", 1, 4_000), rate("celery", 1, 1_000)),
    ]

    page = write_comparison(MACHINE, seen, {"celery": "celery 5"}, tmp_path).read_text()

    assert "| started a second, all at once | - | 2,500 | 750 (0.25 to 0.5) |" in page


def test_missing_measurements_are_shown_as_dashes(tmp_path: Path) -> None:
    page = write_comparison(MACHINE, [], {"celery": "celery 5"}, tmp_path).read_text()

    assert "| chain, a hop, p50 ms | - | - | - |" in page


def test_processes_and_a_start_after_a_kill_are_reported(tmp_path: Path) -> None:
    seen = [
        Seen(system="celery", scenario="processes", round=0, per_s=321.0),
        Seen(system="celery", scenario="restart", round=0, ms=[900.0, 700.0, 800.0]),
    ]

    page = write_comparison(MACHINE, seen, {"celery": "celery 5"}, tmp_path).read_text()

    assert "| processes a second, all at once | - | - | 321 |" in page
    assert "| all killed and started again, to a start, p50 ms | - | - | 800 |" in page


def test_every_scenario_has_a_count_a_driver_and_a_row() -> None:
    columns = {scenario for scenario, _ in COLUMNS.values()}

    assert COUNTS.keys() == drive.SCENARIOS.keys() == columns


def test_each_system_is_listed_with_its_version_configuration_and_durability(
    tmp_path: Path,
) -> None:
    versions = {name: f"{name} 9.9" for name in SYSTEMS}

    page = write_comparison(MACHINE, [], versions, tmp_path).read_text()

    assert all(about in page for about in ROTA.values())
    for name, system in SYSTEMS.items():
        assert f"{name} 9.9; {system.configuration}. Durable: {system.durability}" in page


def test_the_reduced_load_of_a_system_is_reported() -> None:
    celery = SYSTEMS["celery"]
    spared = dataclasses.replace(celery, at_most={"chain": 3, "start": 30}, starts_per_s=0.5)

    text = about(spared, "celery 5")

    assert text.endswith(
        ". Reduced, as more would only have queued: at most 3 of `chain`, 30 of `start`; 0.5 "
        "requests per second in `start`, not 50"
    )
    assert "queued" not in about(celery, "celery 5")


def test_a_skipped_system_is_reported_with_the_way_to_install_it(tmp_path: Path) -> None:
    troubles = {"restate": "not measured: npm is not installed; to get it: apt-get install npm"}

    page = write_comparison(MACHINE, [], {}, tmp_path, troubles=troubles).read_text()

    assert f"- `restate` {troubles['restate']}." in page


def test_a_slow_system_gets_fewer_and_never_more() -> None:
    slow = dataclasses.replace(SYSTEMS["celery"], at_most={"chain": 3})

    counts = [slow.count_of("chain", 20), slow.count_of("chain", 2), slow.count_of("start", 20)]

    assert counts == [3, 2, 20]


def test_at_most_is_of_scenarios_that_there_are() -> None:
    named = {scenario for system in SYSTEMS.values() for scenario in system.at_most}

    assert named <= COUNTS.keys()


def test_a_worker_gets_its_address_as_an_argument(tmp_path: Path) -> None:
    argv = ("hypercorn", "app", "--bind", "{BENCH_APP}")

    filled = command(argv, tmp_path, {"BENCH_APP": "127.0.0.1:80", "OTHER": "{}"})

    assert filled == [str(tmp_path / "hypercorn"), "app", "--bind", "127.0.0.1:80"]


def test_a_program_of_the_system_comes_before_one_of_the_machine(tmp_path: Path) -> None:
    own = tmp_path / "sh"
    own.touch(mode=0o755)

    assert program("sh", "-", tmp_path) == str(own)
    assert program("env", "-", tmp_path) != str(tmp_path / "env")


def test_a_missing_program_is_reported_with_the_way_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match="no-such is not installed; to get it: make it"):
        program("no-such", "make it", tmp_path)


def test_processes_that_a_program_leaves_behind_end_with_it(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    argv = ["sh", "-c", f"sleep 600 & echo $! > {number}"]

    with running(argv, tmp_path / "log") as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        left_behind = os.pidfd_open(int(number.read_text()))
    has_ended, _, _ = select.select([left_behind], [], [], 10)
    if not has_ended:
        signal.pidfd_send_signal(left_behind, signal.SIGKILL)
    os.close(left_behind)

    assert has_ended


def test_a_kill_also_ends_processes_that_left_the_group(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    argv = ["sh", "-c", f"setsid sh -c 'echo $$ > {number}; exec sleep 600' & exec sleep 600"]

    with running(argv, tmp_path / "log") as process:
        wait_until(lambda: number.exists() and number.read_text() != "", "it has started another")
        left_group = os.pidfd_open(int(number.read_text()))
        kill([process.pid])
        process.reap()
    has_ended, _, _ = select.select([left_group], [], [], 0)
    if not has_ended:
        signal.pidfd_send_signal(left_group, signal.SIGKILL)
    os.close(left_group)

    assert has_ended


def test_a_killed_program_may_be_launched_again_and_ends_with_the_body(tmp_path: Path) -> None:
    log = tmp_path / "log"

    with running(["sh", "-c", "echo up; exec sleep 600"], log) as process:
        kill([process.pid])
        process.reap()
        log.unlink()
        process.launch()
        wait_until(lambda: log.exists() and log.read_text() == "up\n", "it is there again")
        again = os.pidfd_open(process.pid)
    has_ended, _, _ = select.select([again], [], [], 0)
    os.close(again)

    assert has_ended


def test_a_killed_program_that_is_not_launched_again_is_left_alone(tmp_path: Path) -> None:
    with running(["sleep", "600"], tmp_path / "log") as process:
        kill([process.pid])
        process.reap()


def test_a_process_marks_its_number_without_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "marks")

    mark_by_process(path, 7)
    mark_by_process(path, 8)

    assert wait_marks(path, 2, timeout_s=1) == {7: 0.0, 8: 0.0}


def test_processes_end_with_the_last_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "marks")

    class App:
        def spawn(self, path: str, numbers: range) -> None:
            Path(path).write_text("".join(f"{number} 0\n" for number in numbers))
            os.utime(path, (0, 1_004.0))

    monkeypatch.setattr("time.time", lambda: 1_000.0)

    found = drive.processes(App(), path, 8)

    assert last_marked_at(path) == 1_004.0
    assert found == {"per_s": 2.0, "run": 8}


def test_each_request_after_a_kill_is_repeated_until_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = iter([True, True, False, False])

    class App:
        def submit(self, path: str, numbers: list[int]) -> None:
            if next(refused):
                raise ConnectionError
            with Path(path).open("a") as marks:
                marks.write(f"{numbers[0]} {1_000 + numbers[0]}000000000\n")

    monkeypatch.setattr("time.time", lambda: 1_000.0)
    monkeypatch.setattr("time.sleep", list[float]().append)
    monkeypatch.setenv("BENCH_KILLED_AT", "995.0")

    found = drive.restart(App(), str(tmp_path / "marks"), 2)

    assert found == {"ms": [5_000.0, 6_000.0], "run": 2}


def test_a_request_that_is_not_taken_in_time_fails_with_the_reason() -> None:
    def ask() -> None:
        raise ConnectionError("connection refused")

    with pytest.raises(TimeoutError, match="no request was accepted in time: connection refused"):
        drive.patiently(ask, until=0.0)


def test_versions_of_npm_are_those_installed(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "node_modules" / "@some" / "server" / "package.json"
    package.parent.mkdir(parents=True)
    package.write_text(json.dumps({"version": "1.7.12"}))

    assert npm_versions(tmp_path, ("@some/server@1",)) == ["@some/server 1.7.12"]


def test_requests_are_begun_in_order_and_so_many_at_a_time() -> None:
    begun: list[int] = []
    under_way = most = 0

    async def request(number: int) -> None:
        nonlocal under_way, most
        begun.append(number)
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    asking = Asking(at_once=4)
    asking.run_all(partial(request, number) for number in range(12))
    asking.close()

    assert begun == [*range(12)]
    assert most == 4


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_system_has_an_app(name: str) -> None:
    apps = Path(__file__).parents[3] / "bench" / "peers" / "apps"

    text = (apps / f"{SYSTEMS[name].app}.py").read_text()

    assert all(f"\ndef {call}(" in text for call in ("submit", "at", "chain", "spawn", "close"))
