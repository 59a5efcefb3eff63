"""Workers of the Python executor: failure, remains, usage and reuse."""

import ast
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    LOOPS,
    TOKEN,
    Host,
    is_running,
    kill_leftovers,
    now,
    wait_until,
)
from contract.executor.python_host import CALLED, ONE, Bench, Json, call
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.model.work import Call, ResourceLimits, Work
from rota.core.timing.instants import SECOND, Duration
from rota.executor.python.pool import Bounds
from rota.executor.python.worker_protocol import PROGRAM


@pytest.fixture(params=LOOPS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(request.param, tmp_path / "executor")
    kill_leftovers(tmp_path / "executor")


# -- workers that die ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "exit_code", "number", "reason"),
    [
        (
            call("functions:die", 3),
            3,
            0,
            "its worker exited with code 3 before the function had returned",
        ),
        (
            call("functions:die", 0),
            0,
            0,
            "its worker exited with code 0 before the function had returned",
        ),
        (call("functions:die_of", 11), -1, 11, "its worker was ended by signal 11"),
        (call("functions:die_of", 9), -1, 9, "its worker was ended by signal 9"),
    ],
    ids=["exit", "exit 0", "segmentation fault", "killed"],
)
def test_a_worker_that_ends_fails_its_attempt_and_no_other(
    bench: Bench, work: Work, exit_code: int, number: int, reason: str
) -> None:
    first, second = bench.endings_of(work, call("functions:call_count"), bounds=ONE)

    assert (first.outcome, first.exit_code, first.signal) == (Outcome.FAILED, exit_code, number)
    assert first.reason == reason
    assert (second.outcome, second.result) == (Outcome.SUCCEEDED, b"1")


def test_call_that_a_dead_worker_has_not_read_goes_to_another(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, Ending]:
        first = await host.run(call("functions:pid"))
        os.kill(int(first.result), signal.SIGKILL)
        os.waitid(os.P_PID, int(first.result), os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        return first, await host.run(call("functions:pid"))  # The loop has not noticed it yet.

    first, second = bench.run(scenario, bounds=ONE)

    assert second.outcome is Outcome.SUCCEEDED
    assert first.result != second.result


@pytest.mark.parametrize("text", ["rubbish that is long", "\0\0\0\2{}", "\0\0\0\5[1,2]"])
def test_function_that_meddles_with_the_socket_fails_alone(bench: Bench, text: str) -> None:
    first, second = bench.endings_of(
        call("functions:meddle", text), call("functions:echo"), bounds=ONE
    )

    assert (first.outcome, first.signal) == (Outcome.FAILED, 9)
    assert second.outcome is Outcome.SUCCEEDED


def test_function_that_forks_and_returns_twice_ends_once(bench: Bench) -> None:
    first, second = bench.endings_of(
        call("functions:fork_and_return"), call("functions:fork_and_return"), bounds=ONE
    )

    assert first.result == second.result == b'"parent"'
    assert first.output == b""


def test_attempt_of_an_earlier_life_is_lost(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = AttemptKey(EXECUTION_ID, "task", 1)
        work = call("functions:pid")
        host.executor.resume(Order(key=key, token=TOKEN, work=work, fire_at=FIRE_AT))
        assert key not in host.endings
        return await host.ending(key)

    ending = bench.run(scenario)

    assert ending.outcome is Outcome.LOST
    assert "ended with the executor" in ending.reason


# -- what attempts leave behind --------------------------------------------------------------------


@pytest.mark.parametrize("own_session", [False, True])
def test_process_left_behind_ends_with_its_attempt(bench: Bench, *, own_session: bool) -> None:
    async def scenario(host: Host) -> tuple[list[int], bool, int]:
        ending = await host.run(
            call("functions:leave_child", "sleep", "60", own_session=own_session)
        )
        child, worker = json.loads(ending.result)
        is_left = is_running(child)
        return [child, worker], is_left, int((await host.run(call("functions:pid"))).result)

    (_, worker), is_left, worker_after = bench.run(scenario, bounds=ONE)

    assert not is_left
    assert worker != worker_after


def test_daemon_left_behind_ends_with_its_attempt(bench: Bench) -> None:
    async def scenario(host: Host) -> bool:
        ending = await host.run(call("functions:daemon"))
        return is_running(int(ending.result))

    assert not bench.run(scenario)


def test_daemon_ends_with_a_worker_that_is_killed(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "daemon"

    ending = bench.stopped(
        call("functions:daemon_and", "ignore", str(file)), grace=Duration(SECOND // 10)
    )

    assert ending.signal == 9
    assert not is_running(int(file.read_text()))


def test_a_daemon_ends_with_a_worker_that_crashes(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "daemon"

    async def scenario(host: Host) -> bool:
        await host.run(call("functions:daemon_and", "die", str(file)))
        return is_running(int(file.read_text()))

    assert not bench.run(scenario)


@pytest.mark.parametrize(
    "what", ["", "alarm", "streams", "umask", "recursion", "handler", "ignored", "mask"]
)
def test_state_of_the_process_is_restored_after_a_call(bench: Bench, what: str) -> None:
    assert_next_call_is_as_the_first(bench, what, is_same_worker=True)


def test_what_a_module_sets_at_its_import_stays(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(
        "import signal, sys\nsys.setrecursionlimit(4321)\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "def state():\n    return [sys.getrecursionlimit(), signal.getsignal(signal.SIGUSR1)]\n"
    )
    state = Work(executor="python", call=Call(function="deep:state", path=(str(tmp_path),)))

    first, second = bench.endings_of(state, state, bounds=ONE)

    assert json.loads(first.result) == json.loads(second.result) == [4321, 1]


@pytest.mark.parametrize("what", ["nice", "limit", "processors", "descriptors"])
def test_a_worker_whose_state_cannot_be_restored_is_replaced(bench: Bench, what: str) -> None:
    assert_next_call_is_as_the_first(bench, what, is_same_worker=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_a_worker_with_another_user_is_replaced(bench: Bench) -> None:
    assert_next_call_is_as_the_first(bench, "user", is_same_worker=False)


def assert_next_call_is_as_the_first(bench: Bench, what: str, *, is_same_worker: bool) -> None:
    before, changed, after, pid = bench.endings_of(
        call("functions:process_state"),
        call("functions:change_process", what) if what else call("functions:pid"),
        call("functions:process_state"),
        call("functions:pid"),
        bounds=ONE,
    )

    assert (after.outcome, after.output) == (Outcome.SUCCEEDED, b"written\n"), after
    assert json.loads(after.result) == json.loads(before.result)
    assert (changed.result == pid.result) == is_same_worker


def test_thread_left_behind_ends_its_worker_unless_it_is_a_daemon(bench: Bench) -> None:
    workers = bench.results_of(
        call("functions:leave_thread", is_daemon=True),
        call("functions:leave_thread", is_daemon=False),
        call("functions:pid"),
        bounds=ONE,
    )

    assert workers[0] == workers[1] != workers[2]


# -- what is used ----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["spin", "spin_in_child"])
def test_time_on_processors_is_that_of_the_call(bench: Bench, function: str) -> None:
    _, long, short = bench.endings_of(
        call("functions:pid"),
        call(f"functions:{function}", 200),
        call("functions:pid"),
        bounds=ONE,
    )

    assert long.usage is not None
    assert short.usage is not None
    assert long.usage.cpu >= 200_000
    assert short.usage.cpu < 100_000


def test_peak_of_memory_is_that_of_the_call(bench: Bench) -> None:
    _, large, small = bench.endings_of(
        call("functions:pid"),
        call("functions:allocate", 64),
        call("functions:pid"),
        bounds=ONE,
    )

    assert large.usage is not None
    assert small.usage is not None
    assert large.usage.memory_peak >= 64 << 20
    assert small.usage.memory_peak < 64 << 20


def test_the_memory_limit_is_enforced_and_reported_as_out_of_memory(bench: Bench) -> None:
    limits = ResourceLimits(memory=64 << 20)
    within, beyond = bench.endings_of(
        replace(call("functions:allocate", 8), limits=limits),
        replace(call("functions:allocate", 200), limits=limits),
    )

    assert (within.outcome, within.is_out_of_memory) == (Outcome.SUCCEEDED, False)
    assert (beyond.outcome, beyond.is_out_of_memory) == (Outcome.FAILED, True)


# -- which worker ----------------------------------------------------------------------------------


def test_worker_serves_one_attempt_after_the_other(bench: Bench) -> None:
    counts = bench.results_of(*[call("functions:call_count")] * 5, bounds=ONE)

    assert counts == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "change",
    [
        {"env": (("COLOUR", "red"),)},
        {"cwd": "/"},
        {"limits": ResourceLimits(pids=500)},
        {"call": Call(function="functions:call_count", path=(CALLED, "/"))},
    ],
    ids=["env", "cwd", "limits", "path"],
)
def test_worker_serves_one_environment_only(bench: Bench, change: dict[str, Json]) -> None:
    work = Work(executor="python", call=Call(function="functions:call_count", path=(CALLED,)))

    counts = bench.results_of(work, replace(work, **change), work)

    assert counts == [1, 1, 2]


def test_blocking_functions_do_not_starve_others(bench: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def scenario(host: Host) -> list[Ending]:
        waiting = [host.launch(call("functions:wait_for", str(go))) for _ in range(3)]
        await host.run(call("functions:append", "x", str(go)))
        return [await host.ending(key) for key in waiting]

    endings = bench.run(scenario, bounds=Bounds(ready_max=1, patience_s=0.01))

    assert len({ending.result for ending in endings}) == 3


def test_attempts_beyond_the_bound_wait_in_order(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "order"

    async def scenario(host: Host) -> None:
        for key in [host.launch(call("functions:append", f"{n} ", str(file))) for n in range(9)]:
            await host.ending(key)

    bench.run(scenario, bounds=Bounds(ready_max=1, workers_max=1, patience_s=0.001))

    assert file.read_text().split() == [str(number) for number in range(9)]


def test_timeout_counts_from_the_start_of_the_call(bench: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def scenario(host: Host) -> tuple[Ending, Ending]:
        first = host.launch(call("functions:wait_for", str(go)))
        second = host.launch(call("functions:pid", timeout_ms=50))
        third = host.launch(call("functions:last", timeout_ms=1))
        host.stop(third)
        await host.ending(third)
        began_at = now()
        await wait_until(lambda: now() - began_at > 100_000)
        go.touch()
        return await host.ending(first), await host.ending(second)

    first, second = bench.run(scenario, bounds=ONE)

    assert (first.outcome, second.outcome) == (Outcome.SUCCEEDED, Outcome.SUCCEEDED)
    assert second.started_at >= first.finished_at


def test_attempt_that_waits_can_be_stopped(bench: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def scenario(host: Host) -> tuple[Ending, Ending]:
        first = host.launch(call("functions:wait_for", str(go)))
        second = host.launch(call("functions:append", "x", str(go)))
        host.stop(second)
        stopped = await host.ending(second)
        assert not go.exists()
        go.touch()
        return await host.ending(first), stopped

    first, second = bench.run(scenario, bounds=ONE)

    assert first.outcome is Outcome.SUCCEEDED
    assert (second.outcome, second.reason) == (Outcome.CANCELLED, "stopped before it started")


def test_idle_worker_makes_room_for_another_environment(bench: Bench) -> None:
    other = replace(call("functions:call_count"), env=(("COLOUR", "red"),))

    counts = bench.results_of(
        call("functions:call_count"), other, call("functions:call_count"), bounds=ONE
    )

    assert counts == [1, 1, 1]


def test_environment_without_workers_gets_the_next_that_is_free(
    bench: Bench, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    other = replace(call("functions:append", "x", str(tmp_path / "other")), env=(("A", "b"),))

    async def scenario(host: Host) -> list[AttemptKey]:
        first = host.launch(call("functions:wait_for", str(go)))
        second = host.launch(other)
        later = [host.launch(call("functions:append", "x", str(go))) for _ in range(3)]
        go.touch()
        for key in (first, second, *later):
            await host.ending(key)
        return list(host.endings)

    keys = bench.run(scenario, bounds=Bounds(ready_max=1, workers_max=1, patience_s=0.001))

    assert [key.task for key in keys[:2]] == ["task-1", "task-2"]


@pytest.mark.parametrize(
    ("bounds", "function"),
    [
        (Bounds(ready_max=1, calls_max=2), "pid"),
        (Bounds(ready_max=1, growth_bytes_max=20 << 20), "leak"),
    ],
    ids=["calls", "memory"],
)
def test_worker_is_replaced_when_it_is_worn(bench: Bench, bounds: Bounds, function: str) -> None:
    arguments = [30] if function == "leak" else []

    pids = bench.results_of(*[call(f"functions:{function}", *arguments)] * 3, bounds=bounds)

    assert pids[0] == pids[1] != pids[2]


def test_worker_is_replaced_when_it_is_old(bench: Bench) -> None:
    pids = bench.results_of(*[call("functions:pid")] * 2, bounds=Bounds(ready_max=1, age_s=0))

    assert pids[0] != pids[1]


def test_worker_without_calls_ends(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        pid = int((await host.run(call("functions:pid"))).result)
        await wait_until(lambda: not is_running(pid))

    bench.run(scenario, bounds=Bounds(ready_max=1, idle_s=0.02))

    assert bench.is_swept()


def test_closing_ends_all_workers(bench: Bench) -> None:
    pids = bench.results_of(call("functions:pid"))

    assert not is_running(pids[0])


def test_program_of_workers_is_understood_by_python_3_9() -> None:
    text = Path(PROGRAM).read_text(encoding="utf-8")

    tree = ast.parse(text, feature_version=(3, 9))

    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert "rota" not in imported
