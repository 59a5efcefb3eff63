"""End of the processes of a node's previous life."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from contract.executor.executor_host import (
    EXECUTION_ID,
    Host,
    is_running,
    kill_leftovers,
    make_process_executor,
    run_scenario,
    store_id_of,
)
from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.work import Work
from rota.executor.kernel.orphans import end_orphans

Begin: TypeAlias = Callable[[str], tuple[subprocess.Popen[bytes], list[int]]]

NODE = """
import asyncio, sys
from contract.executor.executor_host import Host, make_process_executor
from pathlib import Path
from rota.core.model.work import Work

async def main():
    host = Host(make_process_executor(Path(sys.argv[1])))
    key = host.launch(Work(shell="setsid sleep 1000 & echo $! $$; exec sleep 1000"))
    print((await host.output(key, containing=b"\\n")).decode(), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that begins a shell line as an attempt; it prints pids in one line."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin_shell(line: str) -> tuple[subprocess.Popen[bytes], list[int]]:
        process = subprocess.Popen(
            ("/bin/sh", "-c", line),
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={
                "PATH": os.environ["PATH"],
                "ROTA_STORE_ID": store_id_of(tmp_path),
                "ROTA_EXECUTION_ID": EXECUTION_ID,
                "ROTA_TASK": "load",
                "ROTA_ATTEMPT": "2",
            },
        )
        begun.append(process)
        assert process.stdout is not None
        return process, [int(pid) for pid in process.stdout.readline().split()]

    yield begin_shell

    for process in begun:
        process.kill()
        process.communicate()
    kill_leftovers(tmp_path)


def test_orphan_is_killed_and_named(begin: Begin, tmp_path: Path) -> None:
    process, _ = begin("echo; exec sleep 1000")

    orphans = end_orphans(store_id_of(tmp_path))

    assert orphans == ((AttemptKey(EXECUTION_ID, "load", 2),), ())
    assert process.wait(timeout=10) == -9


def test_child_in_a_session_of_its_own_is_found(begin: Begin, tmp_path: Path) -> None:
    process, pids = begin("setsid sleep 1000 >&- & echo $!")
    process.wait(timeout=10)

    end_orphans(store_id_of(tmp_path))

    assert [is_running(pid) for pid in pids] == [False]


def test_a_child_without_the_marks_ends_with_its_group(begin: Begin, tmp_path: Path) -> None:
    _, pids = begin("env -i sh -c 'echo $$; exec sleep 1000' & wait")

    end_orphans(store_id_of(tmp_path))

    assert not any(is_running(pid) for pid in pids)


def test_stopped_orphan_is_killed(begin: Begin, tmp_path: Path) -> None:
    process, _ = begin("trap '' TERM; echo; kill -STOP $$; sleep 1000")

    end_orphans(store_id_of(tmp_path))

    assert process.wait(timeout=10) == -9


def test_processes_of_other_stores_are_left_alone(begin: Begin, tmp_path: Path) -> None:
    process, _ = begin("echo; exec sleep 1000")

    orphans = end_orphans(store_id_of(tmp_path / "other"))

    assert orphans == ((), ())
    assert process.poll() is None


def test_the_node_itself_and_its_group_are_spared(begin: Begin, tmp_path: Path) -> None:
    sweep = f"""
from rota.executor.kernel.orphans import end_orphans
print(end_orphans({store_id_of(tmp_path)!r}).pids_left)
"""
    process, _ = begin(
        f"echo; sleep 1000 & exec {sys.executable} -c '{sweep.replace(chr(39), chr(34))}'"
    )

    output, _ = process.communicate(timeout=20)

    assert (process.returncode, output) == (0, b"()\n")


def test_nothing_to_find_is_no_error(tmp_path: Path) -> None:
    assert end_orphans(store_id_of(tmp_path)) == ((), ())


def test_attempts_of_a_killed_node_are_found(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    node = subprocess.Popen(
        (sys.executable, "-P", "-c", NODE, str(tmp_path)),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root}/src:{root}/tests"},
    )
    assert node.stdout is not None
    pids = [int(pid) for pid in node.stdout.readline().split()]
    node.kill()
    node.communicate()

    orphans = end_orphans(store_id_of(tmp_path))

    assert orphans == ((AttemptKey(EXECUTION_ID, "task-1", 1),), ())
    assert len(pids) == 2
    assert not any(is_running(pid) for pid in pids)


def test_child_that_outlives_a_finished_attempt_is_found_at_the_next_start(tmp_path: Path) -> None:
    async def scenario(host: Host) -> int:
        child = "setsid sh -c 'echo $$; touch left; exec sleep 1000'"
        ending = await host.run(Work(shell=f"{child} & while [ ! -e left ]; do sleep 0.01; done"))
        assert ending.outcome is Outcome.SUCCEEDED
        return int(ending.output)

    pid = run_scenario("uvloop", make_process_executor(tmp_path), scenario)

    assert is_running(pid)
    assert end_orphans(store_id_of(tmp_path)).keys == (AttemptKey(EXECUTION_ID, "task-1", 1),)
    assert not is_running(pid)


def test_remains_of_a_resumed_attempt_are_killed_and_it_is_lost(
    begin: Begin, tmp_path: Path
) -> None:
    process, _ = begin("echo; exec sleep 1000")
    key = AttemptKey(EXECUTION_ID, "load", 2)

    async def scenario(host: Host) -> Ending:
        host.resume(Work(shell="true"), key=key)
        ending = await host.ending(key)
        assert not is_running(process.pid)
        return ending

    ending = run_scenario("uvloop", make_process_executor(tmp_path), scenario)

    assert ending.outcome is Outcome.LOST
    assert ending.reason == "its executor has ended; its remaining processes have been killed"


def test_an_attempt_without_processes_is_lost_and_others_continue(
    begin: Begin, tmp_path: Path
) -> None:
    process, _ = begin("echo; exec sleep 1000")
    gone = [AttemptKey(EXECUTION_ID, "load", number) for number in (1, 3)]

    async def scenario(host: Host) -> list[Ending]:
        for key in gone:
            host.resume(Work(shell="true"), key=key)
        return [await host.ending(key) for key in gone]

    endings = run_scenario("uvloop", make_process_executor(tmp_path), scenario)

    assert [ending.outcome for ending in endings] == [Outcome.LOST] * 2
    assert process.poll() is None


def test_attempt_resumed_while_others_are_swept_for_is_swept_for_next(tmp_path: Path) -> None:
    first, second = (AttemptKey(EXECUTION_ID, "load", number) for number in (1, 2))

    async def scenario(host: Host) -> list[Ending]:
        host.resume(Work(shell="true"), key=first)
        await asyncio.sleep(0)  # The sweep for the first begins.
        host.resume(Work(shell="true"), key=second)
        return [await host.ending(first), await host.ending(second)]

    endings = run_scenario("uvloop", make_process_executor(tmp_path), scenario)

    assert [ending.outcome for ending in endings] == [Outcome.LOST] * 2


def test_close_waits_for_what_is_being_resumed(tmp_path: Path) -> None:
    key = AttemptKey(EXECUTION_ID, "load", 1)

    async def scenario(host: Host) -> list[Ending]:
        host.resume(Work(shell="true"), key=key)
        await host.executor.close()
        return host.endings[key]

    [ending] = run_scenario("uvloop", make_process_executor(tmp_path), scenario)

    assert ending.outcome is Outcome.LOST
