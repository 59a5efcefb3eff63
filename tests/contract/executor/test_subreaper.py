"""Remaining processes of an attempt without sandbox and cgroup, found by descent."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

import pytest

from contract.executor.executor_host import (
    EXECUTION_ID,
    LIMIT_S,
    Host,
    Scenario,
    is_running,
    kill_leftovers,
    make_process_executor,
    make_warden_executor,
    run_scenario,
    wait_until,
)
from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.work import ResourceLimits, Work
from rota.core.timing.instants import Duration
from rota.executor.kernel import subreaper
from rota.executor.kernel.environment_reader import EnvironmentReader
from rota.executor.kernel.procfs import children_of, status_of
from rota.executor.kernel.subreaper import Subreaper, end_descendants

T = TypeVar("T")

SLEEP = "echo $$; exec sleep 1000"
SLEEPS = "(trap '' TERM; exec sleep 1000) > /dev/null 2>&1 & echo; wait"
WAYS_OUT = {
    "own session": f"setsid sh -c '{SLEEP}' & wait",
    "own session, no environment": f"setsid env -i sh -c '{SLEEP}' & wait",
    "no parent": f"(setsid sh -c '{SLEEP}' &); sleep 1000",
    "no parent, no environment": f"(setsid env -i sh -c '{SLEEP}' &); sleep 1000",
    "below one that is gone": '(setsid env -i sh -c \'setsid sh -c "echo \\$\\$; exec sleep 1000" &'
    " wait' &); sleep 1000",
    "stopped": "(setsid sh -c 'echo $$; kill -STOP $$' &); sleep 1000",
}


class Bench:
    """A process executor in a folder of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, scenario: Scenario[T], *, is_subreaper: bool = True) -> T:
        """Return what *scenario* returns, after closing the executor."""
        make = make_process_executor(self._directory, is_subreaper=is_subreaper)
        return run_scenario("asyncio", make, scenario)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path)
    kill_leftovers(tmp_path)


@pytest.mark.parametrize("is_subreaper", [True, False])
@pytest.mark.parametrize("shell", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_escaped_processes_have_ended_when_the_end_is_reported(
    bench: Bench, shell: str, is_subreaper: bool
) -> None:
    async def scenario(host: Host) -> tuple[int, bool]:
        key = host.launch(Work(shell=shell))
        pid = int(await host.output(key, containing=b"\n"))
        host.stop(key, grace=Duration(0))
        await host.ending(key)
        return pid, is_running(pid)

    pid, got_away = bench.run(scenario, is_subreaper=is_subreaper)

    if got_away:
        os.kill(pid, 9)
    assert got_away == (not is_subreaper)


ASLEEP = "until grep -qx sleep /proc/$!/comm; do :; done"
NAMED = "printf '%b' \"$0\" > /proc/$$/comm; : > ready$1; read -r line < never"
LEFT = {
    "one": (f"sleep 1000 & {ASLEEP}", "a process that it left running was killed: sleep"),
    "by a failure": (
        f"sleep 1000 & {ASLEEP}; exit 3",
        "a process that it left running was killed: sleep",
    ),
    "a daemon": (
        f"setsid env -i sleep 1000 & {ASLEEP}",
        "a process that it left running was killed: sleep",
    ),
    "below others": (
        (
            f"sh -c 'sleep 1000 & {ASLEEP}; sleep 1000 & {ASLEEP}; : > ready; wait' &"
            " until [ -e ready ]; do :; done"
        ),
        "3 processes that it left running were killed: sleep (2), sh",
    ),
    "with strange names": (
        f"mkfifo never; sh -c '{NAMED}' 'a) b, \\033[1m' & until [ -e ready ]; do :; done",
        r"a process that it left running was killed: 'a) b, \x1b[1m'",
    ),
    "with many names": (
        (
            f"mkfifo never; for n in 1 2 3 4 5 6; do sh -c '{NAMED}' p$n $n & done;"
            " for n in 1 2 3 4 5 6; do until [ -e ready$n ]; do :; done; done"
        ),
        "6 processes that it left running were killed: p1, p2, p3, p4, p5 and others",
    ),
    "none": ("sleep 0 & wait; true", ""),
}


@pytest.mark.parametrize(("shell", "note"), LEFT.values(), ids=LEFT.keys())
def test_processes_that_a_program_left_running_are_named(
    bench: Bench, shell: str, note: str
) -> None:
    async def scenario(host: Host) -> Ending:
        return await host.run(Work(shell=shell))

    assert bench.run(scenario).left_running == note


def test_the_warden_reports_which_processes_were_left_running(tmp_path: Path) -> None:
    shell, note = LEFT["one"]

    async def scenario(host: Host) -> Ending:
        return await host.run(Work(shell=shell))

    ending = run_scenario("uvloop", make_warden_executor(tmp_path), scenario)

    assert ending.left_running == note


def test_of_very_many_processes_left_running_some_are_counted(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        return await host.run(Work(shell=f"for n in $(seq 110); do sleep 1000 & done; {ASLEEP}"))

    note = bench.run(scenario).left_running

    assert note.startswith("more than 100 processes that it left running were killed: s")  # sh, too
    assert note.endswith(" and others")


def test_processes_of_a_stopped_attempt_are_not_called_left_running(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, Ending]:
        stopped = host.launch(Work(shell=f"trap 'exit 0' TERM; {SLEEPS}"))
        late = host.launch(Work(shell=SLEEPS, timeout=Duration(1)))
        await host.output(stopped, containing=b"\n")
        host.stop(stopped)
        return await host.ending(stopped), await host.ending(late)

    endings = bench.run(scenario)

    assert [ending.outcome for ending in endings] == [Outcome.CANCELLED, Outcome.TIMED_OUT]
    assert [ending.left_running for ending in endings] == ["", ""]


def test_escaped_processes_run_while_the_attempt_runs(bench: Bench) -> None:
    async def scenario(host: Host) -> bool:
        key = host.launch(Work(shell=WAYS_OUT["no parent, no environment"]))
        pid = int(await host.output(key, containing=b"\n"))
        await host.run(Work(shell="true"))
        was_running = is_running(pid)
        host.stop(key, grace=Duration(0))
        await host.ending(key)
        assert not is_running(pid)
        return was_running

    assert bench.run(scenario)


def test_an_unmarked_orphan_ends_with_the_last_attempt_that_may_have_started_it(
    bench: Bench,
) -> None:
    async def scenario(host: Host) -> tuple[bool, bool]:
        other = host.launch(Work(shell="echo up; sleep 1000"))
        await host.output(other, containing=b"up")
        stranger = await host.run(Work(shell=f"(setsid env -i sh -c '{SLEEP}' &); sleep 0.1"))
        pid = int(stranger.output)
        first = is_running(pid)
        host.stop(other, grace=Duration(0))
        await host.ending(other)
        return first, is_running(pid)

    assert bench.run(scenario) == (True, False)


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="no bash, which controls jobs")
def test_remaining_processes_are_found_by_their_session(bench: Bench) -> None:
    job = f"set -m; (env -i sh -c '{SLEEP}' &); sleep 0.1"

    async def scenario(host: Host) -> bool:
        other = host.launch(Work(shell="echo up; sleep 1000"))
        await host.output(other, containing=b"up")
        ending = await host.run(Work(argv=("/bin/bash", "-c", job)))
        return is_running(int(ending.output))

    assert not bench.run(scenario)


def test_families_are_ended_whole_in_one_go() -> None:
    child = "setsid sh -c 'echo $$; exec sleep 1000'"
    parent = subprocess.Popen(("sh", "-c", f"{child} & wait"), stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())

    end_descendants([parent.pid])

    assert not is_running(pid)
    parent.communicate()


def test_orphan_of_a_limited_attempt_outlives_others(bench: Bench) -> None:
    async def scenario(host: Host) -> bool:
        work = Work(shell=WAYS_OUT["no parent, no environment"], limits=ResourceLimits(pids=50))
        other = host.launch(Work(shell="echo up; sleep 1000"))
        await host.output(other, containing=b"up")
        key = host.launch(work)
        pid = int(await host.output(key, containing=b"\n"))
        host.stop(other, grace=Duration(0))
        await host.ending(other)
        was_running = is_running(pid)
        host.stop(key, grace=Duration(0))
        await host.ending(key)
        assert not is_running(pid)
        return was_running

    assert bench.run(scenario)


def test_family_that_forks_in_sessions_of_its_own_is_outrun(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given less room than the family needs, so that it takes several rounds.
    monkeypatch.setattr(subreaper, "_HELD_MAX", 20)
    forks = 'if [ $0 -gt 0 ]; then for i in 1 2; do setsid sh -c "$1" $(($0 - 1)) "$1" & done; fi;'
    bomb = f"{forks} echo x; exec sleep 1000"

    async def scenario(host: Host) -> list[int]:
        key = host.launch(Work(argv=("sh", "-c", bomb, "6", bomb)))
        await host.output(key, containing=b"x", count=100)
        host.stop(key, grace=Duration(0))
        ending = await host.ending(key)
        assert ending.outcome is Outcome.CANCELLED
        return children_of(os.getpid())

    before = set(children_of(os.getpid()))
    left = bench.run(scenario)

    assert set(left) <= before


def test_orphans_are_waited_for_while_the_attempt_runs(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        key = host.launch(Work(shell="(setsid sh -c 'echo $$' &); sleep 1000"))
        pid = int(await host.output(key, containing=b"\n"))
        await wait_until(lambda: status_of(pid) is None)
        host.stop(key, grace=Duration(0))
        await host.ending(key)

    bench.run(scenario)


def test_children_of_other_parts_of_the_program_are_left_alone(bench: Bench) -> None:
    earlier = subprocess.Popen(("sleep", "1000"))

    async def scenario(host: Host) -> bool:
        await host.run(Work(shell="true"))
        was_running = is_running(earlier.pid)
        earlier.kill()
        await wait_until(lambda: not is_running(earlier.pid))
        await host.run(Work(shell="true"))
        return was_running

    was_running = bench.run(scenario)

    assert was_running
    assert earlier.wait() == -9


@pytest.mark.parametrize("is_spared", [True, False])
def test_spared_child_is_not_waited_for(is_spared: bool) -> None:
    adopted = Subreaper()
    child = subprocess.Popen(("sh", "-c", "exit 3"))
    if is_spared:
        adopted.spare(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    adopted.look()

    adopted.close()
    # Popen assumes success if other code has waited for its child.
    assert child.wait() == (3 if is_spared else 0)


def test_an_orphan_that_cannot_be_read_does_not_stop_the_loop() -> None:
    released, ended = Event(), list[int]()
    key = AttemptKey(EXECUTION_ID, "task", 1)

    def hang(pid: int) -> dict[str, str]:
        released.wait(LIMIT_S)
        ended.append(pid)
        return {}

    adopted = Subreaper(EnvironmentReader(hang))
    adopted.tree(os.getppid(), key)
    orphans = [
        subprocess.Popen(("sleep", "1000"), start_new_session=True, env={}) for _ in range(10)
    ]
    try:
        found = adopted.orphans_of(key)
        waited_for = list(ended)
    finally:
        released.set()
        adopted.kill([each.pid for each in orphans]).result(LIMIT_S)
        adopted.close()

    assert waited_for == []
    assert sorted(found) == sorted(each.pid for each in orphans)
    assert [each.wait(LIMIT_S) for each in orphans] == [-9] * 10


def test_an_environment_is_not_read_while_no_thread_can_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: Thread) -> None:
        raise RuntimeError(f"can't start {thread.name}")

    reader = EnvironmentReader(lambda pid: {"PID": str(pid)})
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        refused = reader.read(7)

    assert refused is None
    assert reader.read(7) == {"PID": "7"}


def test_an_attempt_whose_orphans_use_up_all_threads_ends_with_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario(host: Host) -> bool:
        await host.run(Work(shell="true"))  # Of most threads the first use starts them.
        key = host.launch(Work(shell=WAYS_OUT["no parent"]))
        pid = int(await host.output(key, containing=b"\n"))
        monkeypatch.setattr(Thread, "start", refuse)
        host.stop(key, grace=Duration(0))
        await host.ending(key)
        monkeypatch.undo()
        return is_running(pid)

    assert not bench.run(scenario)
