"""What a node does about the processes of its previous life."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from contract.executor_host import (
    EXECUTION_ID,
    Host,
    is_running,
    kill_leftovers,
    make_process_executor,
    run_scenario,
    store_id_of,
)
from rota.core.attempt import AttemptKey, Outcome, Work
from rota.executor.orphans import end_orphans

Begin: TypeAlias = Callable[[str], tuple[subprocess.Popen[bytes], list[int]]]

NODE = """
import asyncio, sys
from contract.executor_host import Host, make_process_executor
from pathlib import Path
from rota.core.attempt import Work

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


def test_child_without_our_environment_dies_with_its_group(begin: Begin, tmp_path: Path) -> None:
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
from rota.executor.orphans import end_orphans
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
    root = Path(__file__).resolve().parents[2]
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
