"""What a sandbox keeps an attempt from: every probe gets out where the sandbox is off."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from contract.executor_host import (
    Host,
    Scenario,
    kill_leftovers,
    make_process_executor,
    run_scenario,
    wait_until,
)
from rota.core.attempt import AttemptKey, Bind, Ending, Limits, Outcome, Sandbox, Work
from rota.core.instants import SECOND, Duration
from rota.executor.sandbox import Proven, Rooms, outermost, wrapped

T = TypeVar("T")

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="no bubblewrap: apt-get install bubblewrap"
)

SECRET = "the combination is 1 2 3 4 5"
OFF, DEFAULT, STRICT = (Sandbox(profile=profile) for profile in ("none", "default", "strict"))
NO_NETWORK = Sandbox(profile="strict", has_network=False)

every_profile = pytest.mark.parametrize(
    ("sandbox", "gets_out"),
    [(OFF, True), (DEFAULT, False), (STRICT, False)],
    ids=["none", "default", "strict"],
)


HOST = """
import asyncio, sys
from contract.executor_host import Host, make_process_executor
from pathlib import Path
from rota.core.attempt import Sandbox, Work

async def main():
    host = Host(make_process_executor(Path(sys.argv[1])))
    sandbox = Sandbox(profile=sys.argv[2])
    key = host.launch(Work(shell=f"echo up; exec sleep {sys.argv[3]}", sandbox=sandbox))
    print((await host.output(key, containing=b"up")).decode(), end="", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


class Bench:
    """A process executor in a folder of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    # Any: options of `ProcessExecutor`, of several types.
    def run(self, scenario: Scenario[T], **options: Any) -> T:
        """Return what *scenario* returns, after closing the executor."""
        return run_scenario("asyncio", make_process_executor(self.directory, **options), scenario)

    def ending_of(self, work: Work, **options: Any) -> Ending:
        """Return how an attempt at *work* ends."""

        async def scenario(host: Host) -> Ending:
            return await host.run(work)

        return self.run(scenario, **options)

    def output_of(self, sandbox: Sandbox, shell: str, **more: Any) -> str:
        """Return what a shell line in *sandbox* writes."""
        return self.ending_of(Work(shell=shell, sandbox=sandbox, **more)).output.decode()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path / "executor")
    kill_leftovers(tmp_path / "executor")


@dataclass(frozen=True)
class Neighbour:
    """Another attempt on the same node.

    Attributes:
        key: Which.
        pid: Of its shell.
        folder: Its private folder, with a file ``secret`` in it.
    """

    key: AttemptKey
    pid: int
    folder: Path


async def neighbour(host: Host) -> Neighbour:
    """Start an attempt with a secret in its environment and in its folder."""
    key = host.launch(
        Work(shell='echo "$WORD" > secret; echo $$ $PWD; sleep 1000', env=(("WORD", SECRET),))
    )
    pid, folder = (await host.output(key, containing=b"\n")).decode().split()
    return Neighbour(key, int(pid), Path(folder))


# Files.


@every_profile
def test_data_directory_cannot_be_read(bench: Bench, sandbox: Sandbox, gets_out: bool) -> None:
    secret = bench.directory / "store" / "secret"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)

    output = bench.output_of(sandbox, f"cat {secret}")

    assert (SECRET in output) == gets_out


@every_profile
def test_hidden_folder_cannot_be_read(
    bench: Bench, tmp_path: Path, sandbox: Sandbox, gets_out: bool
) -> None:
    hidden = Path(__file__).parent  # Not in /tmp, which is private anyway.

    ending = bench.ending_of(Work(argv=("cat", __file__), sandbox=sandbox), hidden=(hidden,))

    assert (ending.outcome is Outcome.SUCCEEDED) == gets_out


@every_profile
def test_files_of_other_attempts_cannot_be_read(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    async def scenario(host: Host) -> Ending:
        other = await neighbour(host)
        return await host.run(Work(shell=f"cat {other.folder}/secret", sandbox=sandbox))

    ending = bench.run(scenario)

    assert (SECRET.encode() in ending.output) == gets_out


@pytest.mark.parametrize(
    ("sandbox", "gets_out"), [(OFF, True), (DEFAULT, True), (STRICT, False)], ids=str
)
def test_strict_sees_the_system_only(bench: Bench, sandbox: Sandbox, gets_out: bool) -> None:
    output = bench.output_of(sandbox, "ls -A / /var /etc/shadow 2>&1; true")

    assert ("/var:" in output and "etc/shadow:" not in output) == gets_out


@every_profile
def test_temporary_files_of_the_machine_are_not_seen(
    bench: Bench, tmp_path: Path, sandbox: Sandbox, gets_out: bool
) -> None:
    seen = tmp_path / "seen"
    seen.touch()

    ending = bench.ending_of(Work(argv=("test", "-e", str(seen)), sandbox=sandbox))

    assert (ending.outcome is Outcome.SUCCEEDED) == gets_out


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
def test_private_folder_is_home_and_tmp_and_the_only_place_to_write(
    bench: Bench, sandbox: Sandbox
) -> None:
    places = "$PWD $HOME /tmp / /usr /etc /var /home /run"
    touch = f"for place in {places}; do touch $place/x 2>/dev/null && echo $place; done"

    output = bench.output_of(sandbox, f"ls -A; pwd; {touch}; ls -A")

    assert output.split() == ["/tmp", "/tmp", "/tmp", "/tmp", "x"]


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
@pytest.mark.parametrize("is_writable", [False, True])
def test_bind_is_seen_and_written_only_if_it_may_be(
    bench: Bench, tmp_path: Path, sandbox: Sandbox, is_writable: bool
) -> None:
    bound = tmp_path / "bound"
    bound.mkdir()
    (bound / "in").write_text("given")
    bind = Bind(str(bound), "/tmp/bound", is_writable=is_writable)

    work = Work(
        shell="cat in; echo taken > out",
        cwd="/tmp/bound",
        sandbox=Sandbox(profile=sandbox.profile, binds=(bind,)),
    )
    ending = bench.ending_of(work)

    assert ending.output.startswith(b"given")
    assert (bound / "out").exists() == is_writable


# Processes.


@every_profile
def test_environment_of_others_cannot_be_read(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    async def scenario(host: Host) -> Ending:
        await neighbour(host)
        words = "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^WORD="
        return await host.run(Work(shell=words, sandbox=sandbox))

    ending = bench.run(scenario)

    assert (SECRET.encode() in ending.output) == gets_out


@every_profile
def test_processes_of_others_cannot_be_seen_and_signalled(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    async def scenario(host: Host) -> tuple[Ending, bool]:
        other = await neighbour(host)
        probe = await host.run(
            Work(shell=f"test -d /proc/{other.pid} && kill -9 {other.pid}", sandbox=sandbox)
        )
        if probe.outcome is Outcome.SUCCEEDED:
            await host.ending(other.key)
        return probe, other.key in host.endings

    probe, was_killed = bench.run(scenario)

    assert (probe.outcome is Outcome.SUCCEEDED, was_killed) == (gets_out, gets_out)


@every_profile
def test_no_privilege_is_left_or_can_be_had(bench: Bench, sandbox: Sandbox, gets_out: bool) -> None:
    output = bench.output_of(sandbox, "grep -E 'NoNewPrivs|CapEff|Uid' /proc/self/status; id -u")

    status = dict(line.split(":\t") for line in output.splitlines() if ":\t" in line)
    is_nobody = status["Uid"].split() == ["65534"] * 4 and output.endswith("\n65534\n")
    assert (status["NoNewPrivs"] == "0") == gets_out
    assert (int(status["CapEff"], 16) == 0 and is_nobody) == (not gets_out)


@pytest.mark.parametrize(
    ("sandbox", "gets_out"),
    [(OFF, True), (DEFAULT, True), (STRICT, False)],
    ids=["none", "default", "strict"],
)
def test_strict_permits_no_user_namespace_in_which_it_would_be_root(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    ending = bench.ending_of(
        Work(argv=("unshare", "--user", "--map-root-user", "id", "-u"), sandbox=sandbox)
    )

    assert (ending.output == b"0\n") == gets_out
    assert ending.unenforced == ()


# The network.


@pytest.mark.parametrize(
    ("sandbox", "gets_out"),
    [
        (Sandbox(profile="none", has_network=False), True),
        (STRICT, True),
        (NO_NETWORK, False),
        (Sandbox(profile="default", has_network=False), False),
    ],
    ids=["none", "strict with network", "strict", "default"],
)
@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="no bash, which opens sockets")
def test_loopback_of_the_machine_cannot_be_reached(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        ending = bench.ending_of(
            Work(argv=("/bin/bash", "-c", f"echo > /dev/tcp/127.0.0.1/{port}"), sandbox=sandbox)
        )

    assert (ending.outcome is Outcome.SUCCEEDED) == gets_out
    is_told = "it has the network: the profile 'none' cannot take it away" in ending.unenforced
    assert is_told == (sandbox.profile == "none")


# Its end.

AWAY = (  # Out of the group, the session, the environment and from the parent, deaf to signals.
    """(setsid env -i sh -c 'trap "" TERM HUP INT; while :; do sleep {}; done' >&- 2>&- &)"""
)


@pytest.mark.parametrize(
    ("sandbox", "options", "gets_out"),
    [
        (OFF, {}, True),
        (OFF, {"is_subreaper": True}, False),
        (DEFAULT, {}, False),
        (STRICT, {}, False),
    ],
    ids=["none", "none, but adopted", "default", "strict"],
)
def test_nothing_outlives_the_deadline(
    bench: Bench, sandbox: Sandbox, options: dict[str, bool], gets_out: bool
) -> None:
    seconds = f"1000.{os.getpid()}"

    async def scenario(host: Host) -> list[int]:
        shell = f"trap '' TERM; {AWAY.format(seconds)}; echo up; while :; do sleep 1; done"
        key = host.launch(Work(shell=shell, sandbox=sandbox))
        await host.output(key, containing=b"up")
        await wait_until(lambda: bool(processes_with(f"sleep\0{seconds}\0")))
        host.stop(key, grace=Duration(0))
        await host.ending(key)
        return processes_with(seconds)

    left = bench.run(scenario, **options)

    kill_all(left)
    assert bool(left) == gets_out


@every_profile
def test_end_of_the_program_is_the_end_of_all_that_it_started(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    seconds = f"2000.{os.getpid()}"

    async def scenario(host: Host) -> tuple[Ending, list[int]]:
        waiting = f"until pgrep -fx 'sleep {seconds}' > /dev/null; do sleep 0.01; done"
        ending = await host.run(Work(shell=f"{AWAY.format(seconds)}; {waiting}", sandbox=sandbox))
        return ending, processes_with(seconds)

    ending, left = bench.run(scenario)

    kill_all(left)
    assert ending.outcome is Outcome.SUCCEEDED
    assert bool(left) == gets_out


@every_profile
def test_killed_host_takes_its_sandboxes_along(
    tmp_path: Path, sandbox: Sandbox, gets_out: bool
) -> None:
    seconds = f"3000.{os.getpid()}"
    root = Path(__file__).resolve().parents[2]
    host = subprocess.Popen(
        (sys.executable, "-P", "-c", HOST, str(tmp_path), sandbox.profile, seconds),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root}/src:{root}/tests"},
    )
    assert host.stdout is not None
    assert host.stdout.readline() == b"up\n"
    host.kill()
    host.communicate()

    if gets_out:
        assert processes_with(seconds)
        kill_all(processes_with(seconds))
    else:
        asyncio.run(wait_until(lambda: not processes_with(seconds)))


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
def test_stopped_program_hears_term_and_may_use_its_grace(bench: Bench, sandbox: Sandbox) -> None:
    async def scenario(host: Host) -> Ending:
        shell = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done"
        key = host.launch(Work(shell=shell, sandbox=sandbox))
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code) == (Outcome.CANCELLED, 3)
    assert ending.output.endswith(b"bye\n")


def test_stop_while_the_sandbox_is_arranged_needs_no_grace(bench: Bench) -> None:
    async def scenario(host: Host) -> list[Ending]:
        keys: list[AttemptKey] = []
        for _ in range(20):
            work = Work(argv=("sleep", "60"), sandbox=STRICT, stop_grace=Duration(60 * SECOND))
            keys.append(host.launch(work))
            await wait_until(lambda: bool(processes_with(str(bench.directory))))
            host.stop(keys[-1])
        return [await host.ending(key) for key in keys]

    endings = bench.run(scenario)

    assert {ending.outcome for ending in endings} == {Outcome.CANCELLED}


def test_usage_counts_what_ran_inside(bench: Bench) -> None:
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"

    ending = bench.ending_of(Work(shell=burn, sandbox=STRICT), is_subreaper=True)
    idle = bench.ending_of(Work(shell="true", sandbox=STRICT), is_subreaper=True)

    assert ending.usage is not None
    assert idle.usage is not None
    assert ending.usage.cpu > 3 * idle.usage.cpu > 0


# Where there is none.


def test_without_bubblewrap_nothing_is_run(bench: Bench, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    work = Work(argv=("/usr/bin/touch", str(ran)), sandbox=STRICT)

    ending = bench.ending_of(work, environ={"PATH": str(tmp_path)})

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason == (
        "the profile 'strict' needs bubblewrap, and there is no bwrap in the node's PATH; "
        "install bubblewrap on this node"
    )
    assert not ran.exists()


def test_where_bubblewrap_does_not_work_it_says_why(bench: Bench, tmp_path: Path) -> None:
    # Given a bubblewrap that fails as it does where user namespaces are forbidden.
    why = "bwrap: No permissions to create new namespace"
    bwrap = tmp_path / "bwrap"
    bwrap.write_text(f"#!/bin/sh\necho {why} >&2\nexit 1\n")
    bwrap.chmod(0o755)

    ending = bench.ending_of(
        Work(argv=("true",), sandbox=DEFAULT), environ={"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )

    assert ending.outcome is Outcome.FAILED
    assert ending.reason == (
        f"the profile 'default' does not work on this node: {why}; see docs/reference/sandbox.md"
    )


def test_what_an_old_bubblewrap_cannot_forbid_is_told(bench: Bench, tmp_path: Path) -> None:
    bwrap, real = tmp_path / "bwrap", shutil.which("bwrap")
    unknown = "echo 'bwrap: Unknown option --disable-userns' >&2; exit 1"
    bwrap.write_text(
        f'#!/bin/sh\ncase "$*" in *--disable-userns*) {unknown};; esac\nexec {real} "$@"\n'
    )
    bwrap.chmod(0o755)

    ending = bench.ending_of(
        Work(argv=("true",), sandbox=STRICT, limits=Limits(memory=1 << 30)),
        environ={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )

    assert ending.outcome is Outcome.SUCCEEDED
    assert "it can make user namespaces: bwrap here cannot prevent that" in ending.unenforced


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Work(argv=("no-such",), sandbox=STRICT), "execvp no-such: No such file or directory"),
        (
            Work(argv=("true",), cwd="/var", sandbox=STRICT),
            "Can't chdir to /var: No such file or directory",
        ),
        (
            Work(
                argv=("true",),
                sandbox=Sandbox(profile="strict", binds=(Bind("/no/such", "/x"),)),
            ),
            "Can't find source path /no/such: No such file or directory",
        ),
    ],
    ids=["program", "cwd", "bind"],
)
def test_what_is_missing_inside_is_named(bench: Bench, work: Work, reason: str) -> None:
    ending = bench.ending_of(work)

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason == f"cannot start in its sandbox: {reason}"


def test_unknown_profile_is_named(bench: Bench) -> None:
    ending = bench.ending_of(Work(argv=("true",), sandbox=Sandbox(profile="tight")))

    assert ending.reason == "there is no profile 'tight'; there are none, default, strict"


# What is asked of bubblewrap.


def test_strict_shares_no_folder_of_the_machine_but_the_system() -> None:
    argv = wrapped(
        ("true",),
        Work(sandbox=NO_NETWORK),
        bubblewrap=Proven("bwrap"),
        rooms=Rooms(hidden=("/home", "/data"), resolver="/run/resolv.conf"),
        folder="/data/folders/1",
        info_fd=7,
    )

    shared = {argv[at + 1] for at, word in enumerate(argv) if word.endswith(("bind", "bind-try"))}
    assert {path for path in shared if not path.startswith(("/usr", "/lib", "/etc"))} == {
        "/bin",
        "/sbin",
        "/data/folders/1",
    }
    assert {"--die-with-parent", "--new-session", "--unshare-net", "--unshare-pid"} <= set(argv)
    assert argv[-2:] == ("--", "true")


def test_hidden_folders_hide_what_is_below_them() -> None:
    paths = ["/run", "/home/someone", "/home", "/homes", "/tmp/data", "/tmp", "/run/rota"]

    assert outermost(paths) == ("/home", "/homes", "/run")


def processes_with(text: str) -> list[int]:
    """Return the processes that have *text* in an argument, not those of this test."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text.encode() in arguments and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, 9)
