"""The process executor beyond the common contract: groups, streams, folders, files."""

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    LOOPS,
    TOKEN,
    Host,
    Scenario,
    is_running,
    kill_leftovers,
    make_process_executor,
    now,
    run_scenario,
    store_id_of,
    wait_until,
)
from rota.core.model.attempt import OUTPUT_TAIL_BYTES, AttemptKey, Ending, Order, Outcome
from rota.core.model.work import Work
from rota.core.timing.instants import (
    HOUR,
    MILLISECOND,
    SECOND,
    Duration,
    Instant,
    format_instant,
    later,
)
from rota.executor.attempt_settings import AttemptSettings

T = TypeVar("T")

ENDLESS = "while :; do sleep 0.02; done"
ESCAPE = (  # A child leaves the group, and only then the leader ends.
    "setsid sh -c 'touch left; exec {}' & while [ ! -e left ]; do sleep 0.01; done"
)


class Bench:
    """A process executor in a folder of its own, on one kind of loop."""

    def __init__(self, loop: str, directory: Path) -> None:
        self.directory = directory
        self._loop = loop

    def run(self, scenario: Scenario[T], **options: int) -> T:
        """Return what *scenario* returns, after closing the executor."""
        return run_scenario(self._loop, make_process_executor(self.directory, **options), scenario)

    def ending_of(self, work: Work, **options: int) -> Ending:
        """Return how an attempt at *work* ends."""

        async def scenario(host: Host) -> Ending:
            return await host.run(work)

        return self.run(scenario, **options)

    def output_files(self) -> list[Path]:
        """Return the files that hold output."""
        return [path for path in (self.directory / "output").rglob("*") if path.is_file()]


@pytest.fixture(params=LOOPS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(request.param, tmp_path / "executor")
    kill_leftovers(tmp_path / "executor")


# What cannot start.


def test_command_not_found_fails_with_its_name(bench: Bench) -> None:
    ending = bench.ending_of(Work(argv=("no-such-program", "x")))

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason == "there is no program 'no-such-program' in PATH on node node-a"


def test_program_without_permission_fails_with_its_name(bench: Bench, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")

    ending = bench.ending_of(Work(argv=(str(program),)))

    assert ending.reason == f"cannot start '{program}' on node node-a: Permission denied"


def test_script_with_a_missing_interpreter_says_so(bench: Bench, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)

    ending = bench.ending_of(Work(argv=(str(program),)))

    assert ending.reason.endswith("the interpreter in its first line is missing")


def test_a_line_whose_command_is_not_found_says_so(bench: Bench) -> None:
    without_cwd, with_cwd, of_program = (
        bench.ending_of(work)
        for work in (
            Work(shell="./program"),
            Work(shell="./program", cwd="/etc"),
            Work(argv=("/bin/sh", "-c", "exit 127")),
        )
    )

    said = "exited with code 127: a command was not found"
    assert without_cwd.reason == f"{said}, and the task has no cwd"
    assert with_cwd.reason == said
    assert of_program.reason == "exited with code 127"


def test_missing_working_directory_fails_with_its_name(bench: Bench, tmp_path: Path) -> None:
    cwd = f"{tmp_path}/missing"

    ending = bench.ending_of(Work(argv=("true",), cwd=cwd))

    assert ending.outcome is Outcome.FAILED
    assert ending.reason == f"there is no folder '{cwd}' (cwd) on node node-a"


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Work(), "a process task needs exactly one of argv and shell"),
        (Work(argv=("true",), shell="true"), "a process task needs exactly one of argv and shell"),
        (Work(shell="true", cwd="here"), "the working directory 'here' is not an absolute path"),
        (
            Work(shell="true", cwd="/etc/passwd"),
            "'/etc/passwd' (cwd) is not a folder on node node-a",
        ),
        (Work(argv=("/no/such",)), "there is no program '/no/such' on node node-a"),
        (
            Work(argv=("./no-such",), cwd="/etc"),
            "there is no program './no-such' in '/etc' on node node-a",
        ),
        (
            Work(argv=("./no-such",)),
            (
                "there is no program './no-such' in its empty folder, as the task has no cwd, "
                "on node node-a; set cwd, or give the absolute path of the program"
            ),
        ),
        (
            Work(argv=("./no-such",), cwd="/no/such"),
            "there is no folder '/no/such' (cwd) on node node-a",
        ),
        (Work(argv=("echo", "a\0b")), "cannot start 'echo': embedded null byte"),
        (
            Work(argv=("true",), env=(("A=B", "c"),)),
            "cannot start 'true': illegal environment variable name",
        ),
        (
            Work(argv=("echo", "x" * 3_000_000)),
            "cannot start 'echo': its arguments and environment are too long",
        ),
    ],
    ids=[
        *("nothing", "both", "relative cwd", "cwd a file", "no file", "no file in cwd"),
        *("no cwd", "neither cwd nor file", "nul", "env", "too long"),
    ],
)
def test_impossible_work_fails_with_a_reason(bench: Bench, work: Work, reason: str) -> None:
    ending = bench.ending_of(work)

    assert (ending.outcome, ending.reason) == (Outcome.FAILED, reason)
    assert list((bench.directory / "work").iterdir()) == []


# What a process sees.


def test_environment_is_minimal_and_names_the_attempt(bench: Bench) -> None:
    env = (
        ("GREETING", "hello"),
        ("HOME", "/elsewhere"),
        ("ROTA_TOKEN", "forged"),
        ("ROTA_STORE_ID", "x"),
    )

    ending = bench.ending_of(Work(argv=("env",), env=env))

    folder = f"{bench.directory}/work/1"
    assert dict(line.split("=", 1) for line in ending.output.decode().splitlines()) == {
        "PATH": os.environ["PATH"],
        "HOME": "/elsewhere",
        "LANG": "C.UTF-8",
        "GREETING": "hello",
        "ROTA_NODE_ID": "node-a",
        "ROTA_STORE_ID": store_id_of(bench.directory),
        "ROTA_EXECUTION_ID": EXECUTION_ID,
        "ROTA_IDEMPOTENCY_KEY": EXECUTION_ID,
        "ROTA_TASK": "task-1",
        "ROTA_ATTEMPT": "1",
        "ROTA_TOKEN": str(TOKEN),
        "ROTA_FIRE_TIME": "2027-01-01T05:00:00.000000Z",
        "ROTA_PROGRESS": f"{folder}/.rota-progress",
        "ROTA_CHECKPOINT": f"{folder}/.rota-checkpoint",
        "ROTA_RESULT": f"{folder}/.rota-result",
    }


def test_a_task_has_its_job_and_the_address_of_its_node(tmp_path: Path) -> None:
    async def scenario(host: Host) -> bytes:
        order = Order(
            key=AttemptKey(EXECUTION_ID, "main", 1),
            token=TOKEN,
            work=Work(shell="echo $ROTA_NAMESPACE $ROTA_JOB $ROTA_URL $ROTA_CA"),
            fire_at=FIRE_AT,
            job="billing/report",
        )
        host.executor.launch(order)
        return (await host.ending(order.key)).output

    settings = AttemptSettings(url="https://127.0.0.1:7400", ca="/ca.crt")
    make = make_process_executor(tmp_path / "executor", settings=settings)

    printed = run_scenario("asyncio", make, scenario)
    assert printed == b"billing report https://127.0.0.1:7400 /ca.crt\n"


def test_private_folder_is_empty_and_goes_with_the_attempt(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, Path]:
        ending = await host.run(Work(shell="ls -A; mkdir -p a/b; echo x > a/b/c; pwd"))
        folder = Path(ending.output.decode().strip())
        await wait_until(lambda: not folder.exists())
        return ending, folder

    ending, folder = bench.run(scenario)

    assert ending.output == f"{folder}\n".encode()
    assert folder.parent == bench.directory / "work"


def test_private_folder_serves_again_only_if_nothing_was_put_there(bench: Bench) -> None:
    async def scenario(host: Host) -> list[bytes]:
        shells = ("pwd; ls -A", "pwd; ls -A; touch .left", "pwd; ls -A")
        return [(await host.run(Work(shell=shell))).output for shell in shells]

    first, second, third = bench.run(scenario)

    work = f"{bench.directory}/work"
    assert (first, second, third) == tuple(f"{work}/{name}\n".encode() for name in (1, 1, 2))


def test_private_folders_of_a_previous_life_are_removed(bench: Bench) -> None:
    left = bench.directory / "work" / "left"
    (left / "deep").mkdir(parents=True)

    async def scenario(host: Host) -> None:
        await wait_until(lambda: not left.exists())

    bench.run(scenario)


def test_given_working_directory_is_used_and_stays(bench: Bench, tmp_path: Path) -> None:
    ending = bench.ending_of(Work(shell="pwd", cwd=str(tmp_path)))

    assert ending.output == f"{tmp_path}\n".encode()
    assert tmp_path.exists()


def test_descriptors_of_the_node_are_not_inherited(bench: Bench, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)

        ending = bench.ending_of(Work(argv=("ls", "-l", "/proc/self/fd")))

    descriptors = [line.split()[-3:] for line in ending.output.decode().splitlines()[1:]]
    assert [number for number, _, _ in descriptors] == ["0", "1", "2", "3"]
    assert descriptors[0][2] == "/dev/null"
    assert descriptors[1][2] == descriptors[2][2]
    assert descriptors[3][2].startswith("/proc/")  # What ls itself opened.


def test_process_leads_a_session_and_a_group_of_its_own(bench: Bench) -> None:
    ending = bench.ending_of(Work(shell="echo $$; cut -d' ' -f5,6 /proc/$$/stat"))

    pid, group, session = ending.output.split()
    assert pid == group == session


def test_large_input_is_read_whole(bench: Bench) -> None:
    ending = bench.ending_of(Work(argv=("md5sum",), stdin="rota\n" * 250_000))

    assert ending.output == b"6497bcdfbc42bc6a9e1a51fcd3c9dcce  -\n"


def test_unread_input_delays_no_other_attempt(bench: Bench) -> None:
    ending = bench.ending_of(Work(argv=("true",), stdin="x" * 1_250_000))

    assert (ending.outcome, ending.reason) == (Outcome.SUCCEEDED, "")


def test_error_output_is_part_of_the_output(bench: Bench) -> None:
    ending = bench.ending_of(Work(shell="echo one; echo two >&2; echo three"))

    assert ending.output == b"one\ntwo\nthree\n"


# How it ends.


def test_a_signal_is_distinct_from_an_exit_code(bench: Bench) -> None:
    ending = bench.ending_of(Work(shell="kill -SEGV $$"))

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.FAILED, -1, 11)
    assert ending.reason == "ended by signal 11 (SIGSEGV)"


def test_timeout_kills_what_ignores_term(bench: Bench) -> None:
    ending = bench.ending_of(
        Work(
            shell=f"trap '' TERM; echo up; {ENDLESS}",
            timeout=Duration(200 * MILLISECOND),
            stop_grace=Duration(100 * MILLISECOND),
        )
    )

    assert (ending.outcome, ending.signal, ending.output) == (Outcome.TIMED_OUT, 9, b"up\n")
    assert ending.reason == (
        "still running after its timeout of 200ms; killed, as it had not ended 100ms after TERM"
    )


def test_stopped_task_may_use_its_grace(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(shell=f"trap 'echo bye; exit 0' TERM; echo up; {ENDLESS}"))
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code) == (Outcome.CANCELLED, 0)
    assert ending.output.endswith(b"bye\n")


def test_child_may_use_the_grace_though_its_shell_died_of_term(bench: Bench) -> None:
    child = f"trap 'sleep 0.1; echo bye; exit 0' TERM; echo up; {ENDLESS}"

    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(shell=f"({child}) & wait"))
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 15)
    assert ending.output.endswith(b"bye\n")


def test_stop_without_grace_kills_at_once(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(shell=f"trap '' TERM; echo up; {ENDLESS}"))
        await host.output(key, containing=b"up")
        host.stop(key)
        host.executor.stop(key, grace=Duration(0))
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 9)


def test_stop_right_after_launch_cancels(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(argv=("sleep", "60")))
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert ending.outcome is Outcome.CANCELLED
    assert ending.reason.startswith("stopped")


def test_attempt_that_ended_before_the_stop_is_what_it_was(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(shell="echo $$; exec sleep 0.05"))
        block_until_ended(int(await host.output(key, containing=b"\n")))
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code) == (Outcome.SUCCEEDED, 0)


def test_whole_group_ends_with_a_stopped_attempt(bench: Bench) -> None:
    nested = "sleep 1000 & echo $!; sh -c 'sleep 1000 & echo $!; wait' & wait"

    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(shell=nested))
        pids = [int(pid) for pid in (await host.output(key, containing=b"\n", count=2)).split()]
        host.stop(key)
        await host.ending(key)
        await wait_until(lambda: not any(is_running(pid) for pid in pids))
        return await host.ending(key)

    ending = bench.run(scenario)

    assert ending.outcome is Outcome.CANCELLED


def test_child_left_behind_in_the_group_is_killed_and_delays_nothing(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        ending = await host.run(Work(shell="trap '' TERM; sleep 1000 & echo $!"))
        await wait_until(lambda: not is_running(int(ending.output)))
        return ending

    ending = bench.run(scenario)

    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.finished_at - ending.started_at < 5 * SECOND


def test_child_that_left_the_group_and_holds_the_output_delays_it_briefly(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, Duration]:
        began_at = now()
        ending = await host.run(Work(shell=ESCAPE.format("sleep 1000")))
        return ending, Duration(now() - began_at)

    ending, took = bench.run(scenario)

    assert ending.outcome is Outcome.SUCCEEDED
    assert took < 5 * SECOND


def test_child_that_left_the_group_and_never_stops_writing_delays_it_briefly(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        return await host.run(Work(shell=ESCAPE.format("yes")))

    ending = bench.run(scenario, output_bytes_max=100_000)

    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.output_bytes > 0


def test_close_kills_what_ignores_term_within_its_own_grace(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, int]:
        key = host.launch(Work(shell=f"trap '' TERM; echo $$; {ENDLESS}"))
        pid = int(await host.output(key, containing=b"\n"))
        await host.executor.close(Duration(50 * MILLISECOND))
        return await host.ending(key), pid

    ending, pid = bench.run(scenario)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 9)
    assert not is_running(pid)


# Output.


def test_small_output_touches_no_file(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, bool]:
        key = host.launch(Work(argv=("head", "-c", str(OUTPUT_TAIL_BYTES), "/dev/zero")))
        return await host.ending(key), await host.executor.output(key) is None

    ending, is_none = bench.run(scenario)

    assert ending.output == bytes(OUTPUT_TAIL_BYTES)
    assert is_none
    assert bench.output_files() == []


def test_large_output_is_read_back_after_the_end_and_by_the_next_life(bench: Bench) -> None:
    text = "".join(f"{number}\n" for number in range(100_000)).encode()

    async def scenario(host: Host) -> tuple[AttemptKey, bytes]:
        key = host.launch(Work(argv=("seq", "0", "99999")))
        await host.ending(key)
        return key, await read_all(host, key)

    async def next_life(host: Host) -> bytes:
        return await read_all(host, key)

    key, at_once = bench.run(scenario)
    later_on = bench.run(next_life)

    assert at_once == text
    assert later_on == text


def test_output_beyond_the_limit_is_cut_with_a_mark(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, bytes]:
        key = host.launch(Work(argv=("seq", "0", "99999")))
        ending = await host.ending(key)
        return ending, await read_all(host, key)

    ending, kept = bench.run(scenario, output_bytes_max=100_000)

    text = "".join(f"{number}\n" for number in range(100_000)).encode()
    assert kept[:100_000] == text[:100_000]
    assert kept[100_000:].decode() == (
        "\n[rota: output cut here, the limit of 100000 bytes is reached; "
        "the last 4096 bytes are in the attempt's record]\n"
    )
    assert ending.output == text[-OUTPUT_TAIL_BYTES:]
    assert (ending.output_bytes, ending.reason) == (len(text), "")


def test_output_of_exactly_the_limit_is_not_cut(bench: Bench) -> None:
    async def scenario(host: Host) -> bytes:
        key = host.launch(Work(argv=("head", "-c", "100000", "/dev/zero")))
        await host.ending(key)
        return await read_all(host, key)

    assert bench.run(scenario, output_bytes_max=100_000) == bytes(100_000)


def test_a_gigabyte_is_drained_counted_and_not_kept(bench: Bench) -> None:
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    ending = bench.ending_of(Work(shell="yes rota | head -c 1000000000"))

    memory_after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (file,) = bench.output_files()
    assert (ending.outcome, ending.output_bytes) == (Outcome.SUCCEEDED, 1_000_000_000)
    assert ending.output == b"\n" + b"rota\n" * 819
    assert (10 << 20) < file.stat().st_size < (10 << 20) + 200
    assert memory_after - memory_before < 50_000  # KiB.


def test_a_slow_follower_gets_the_whole_output_and_delays_no_attempt(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, bytes]:
        key = host.launch(Work(shell="cat; seq 0 99999; seq 0 99999", stdin="begin\n"))
        output = await host.executor.output(key)
        assert output is not None
        followed = b""
        async for part in output.follow():
            followed += part
            await host.ending(key)
        return await host.ending(key), followed

    ending, followed = bench.run(scenario)

    text = "".join(f"{number}\n" for number in range(100_000)).encode()
    assert followed == b"begin\n" + text + text
    assert ending.output_bytes == len(followed)


def test_following_crosses_from_memory_into_the_file(bench: Bench) -> None:
    async def scenario(host: Host) -> bytes:
        gate = bench.directory / "gate"
        waiting = f"while [ ! -e {gate} ]; do sleep 0.01; done"
        key = host.launch(Work(shell=f"echo begin; {waiting}; seq 0 9999"))
        output = await host.executor.output(key)
        assert output is not None
        followed = b""
        async for part in output.follow():
            followed += part
            gate.touch()
        return followed

    text = "".join(f"{number}\n" for number in range(10_000)).encode()
    assert bench.run(scenario) == b"begin\n" + text


def test_full_disk_cuts_the_output_and_fails_nothing(bench: Bench) -> None:
    # Given a disk that takes a megabyte of each file.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def scenario(host: Host) -> tuple[Ending, bytes]:
        key = host.launch(Work(argv=("seq", "0", "499999")))
        ending = await host.ending(key)
        await wait_until(lambda: b"[rota: " in bench.output_files()[0].read_bytes())
        return ending, await read_all(host, key)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        ending, kept = bench.run(scenario)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    text = "".join(f"{number}\n" for number in range(500_000)).encode()
    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.reason == "its output is kept only in part: File too large"
    assert (ending.output, ending.output_bytes) == (text[-OUTPUT_TAIL_BYTES:], len(text))
    assert len(kept) == 1 << 20
    assert kept.endswith(b"[rota: output cut here, File too large; " + kept.rpartition(b"; ")[2])


def test_disk_without_any_room_leaves_the_record_alone(bench: Bench) -> None:
    # Given that writing the file of the attempt always fails with ENOSPC.
    for hour in (now(), later(now(), HOUR)):
        folder = bench.directory / "output" / format_instant(hour)[:13]
        folder.mkdir(parents=True)
        (folder / f"{EXECUTION_ID}.task-1.1").symlink_to("/dev/full")

    async def scenario(host: Host) -> tuple[Ending, bytes]:
        key = host.launch(Work(argv=("seq", "0", "99999")))
        output = await host.executor.output(key)
        assert output is not None
        followed = b"".join([part async for part in output.follow()])
        return await host.ending(key), followed

    ending, followed = bench.run(scenario)

    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.reason == "its output is kept only in part: No space left on device"
    assert len(ending.output) == OUTPUT_TAIL_BYTES
    assert b"[rota: output cut here, No space left on device; " in followed


def test_old_outputs_expire_and_those_being_written_stay(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[int, int, list[Path]]:
        old = host.launch(Work(argv=("seq", "0", "9999")))
        await host.ending(old)
        running = host.launch(Work(shell="seq 0 9999; exec sleep 60"))
        await host.output(running, containing=b"\n9999\n")
        early = await host.executor.expire(later(now(), Duration(-HOUR)))
        late = await host.executor.expire(later(now(), HOUR))
        assert await host.executor.output(old) is None
        return early, late, bench.output_files()

    early, late, left = bench.run(scenario)

    assert (early, late) == (0, 1)
    assert [path.name for path in left] == [f"{EXECUTION_ID}.task-2.1"]


def test_outputs_above_the_total_expire(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[int, int]:
        for _ in range(3):
            await host.run(Work(argv=("head", "-c", "100000", "/dev/zero")))
        return await host.executor.expire(Instant(0)), await host.executor.expire(Instant(0))

    async def next_life(host: Host) -> int:
        return await host.executor.expire(Instant(0))

    assert bench.run(scenario, output_bytes_total_max=150_000) == (2, 0)
    assert bench.run(next_life, output_bytes_total_max=50_000) == 1


def block_until_ended(pid: int) -> None:
    """Return when *pid* has ended, without giving the loop a turn to hear of it."""
    while is_running(pid):
        time.sleep(0.001)


async def read_all(host: Host, key: AttemptKey) -> bytes:
    output = await host.executor.output(key)
    assert output is not None
    assert output.is_complete
    return b"".join([part async for part in output.follow()])
