"""Isolation by a sandbox: every probe succeeds where the sandbox is off."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from contract.executor.executor_host import Host, kill_leftovers, wait_until
from contract.executor.sandbox_host import DEFAULT, OFF, STRICT, Bench
from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.work import Bind, ResourceLimits, Sandbox, Work
from rota.core.timing.instants import SECOND, Duration
from rota.executor.attempt_settings import AttemptSettings
from rota.executor.launch.sandbox import ARRANGED, PRIVATE, Rooms, outermost, wrapping

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="no bubblewrap: apt-get install bubblewrap"
)

SECRET = "the combination is 1 2 3 4 5"

every_profile = pytest.mark.parametrize(
    ("sandbox", "gets_out"),
    [(OFF, True), (DEFAULT, False), (STRICT, False)],
    ids=["none", "default", "strict"],
)


HOST = """
import asyncio, sys
from contract.executor.executor_host import Host, make_process_executor
from pathlib import Path
from rota.core.model.work import Sandbox, Work

async def main():
    host = Host(make_process_executor(Path(sys.argv[1])))
    sandbox = Sandbox(profile=sys.argv[2])
    key = host.launch(Work(shell=f"echo up; exec sleep {sys.argv[3]}", sandbox=sandbox))
    print((await host.output(key, containing=b"up")).decode(), end="", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


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


@pytest.mark.parametrize("place", ["/home", "/root", "/run", "/var/tmp"])
@pytest.mark.parametrize(("sandbox", "gets_out"), [(OFF, True), (DEFAULT, False), (STRICT, False)])
def test_folders_of_users_and_services_are_not_seen(
    bench: Bench, sandbox: Sandbox, gets_out: bool, place: str
) -> None:
    if os.stat(place).st_dev == os.stat("/proc").st_dev or not os.access(place, os.W_OK):
        pytest.skip(f"cannot write to {place}")
    with tempfile.TemporaryDirectory(dir=place, prefix="rota-test-") as seen:
        os.chmod(seen, 0o755)
        output = bench.output_of(sandbox, f"test -e {seen} && echo it is there; true")

    assert ("it is there" in output) == gets_out


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
        sandbox=replace(sandbox, binds=(bind,)),
    )
    ending = bench.ending_of(work)

    assert ending.output.startswith(b"given")
    assert (bound / "out").exists() == is_writable


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_what_is_memory_has_a_size(bench: Bench, sandbox: Sandbox, place: str) -> None:
    fill = f"head -c 3000000 /dev/zero > {place}/x; stat -c %s {place}/x"

    work = Work(shell=fill, sandbox=sandbox)
    output = bench.ending_of(
        work, settings=AttemptSettings(sandbox_tmp_bytes=1 << 20)
    ).output.decode()

    assert "No space left on device" in output
    assert output.endswith(f"{1 << 20}\n")


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
def test_no_memory_without_a_size_can_be_written_to(bench: Bench, sandbox: Sandbox) -> None:
    write = 'for folder; do touch "$folder/x" && echo "$folder"; done 2>/dev/null'
    everywhere = "find / -path /proc -prune -o -type d -writable -print0"

    output = bench.output_of(
        sandbox, f"{everywhere} 2>/dev/null | xargs -0 sh -c '{write}' sh; true"
    )

    assert set(output.split()) == {"/tmp", "/dev/shm"}


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
def test_the_environment_of_a_task_has_no_effect_outside(
    bench: Bench, tmp_path: Path, sandbox: Sandbox
) -> None:
    # The dynamic loader obeys these as it obeys LD_PRELOAD, in whatever is started with them.
    loud = (("LD_DEBUG", "libs"), ("LD_DEBUG_OUTPUT", str(tmp_path / "loaded")))

    output = bench.output_of(sandbox, "echo $LD_DEBUG", env=loud)

    assert output.endswith("libs\n")
    assert list(tmp_path.glob("loaded*")) == []


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
def test_the_temporary_folder_of_the_node_is_not_that_of_a_sandbox(
    bench: Bench, sandbox: Sandbox
) -> None:
    environ = {"PATH": os.environ["PATH"], "TMPDIR": "/var/tmp/of-the-node"}

    ending = bench.ending_of(
        Work(shell="echo ${TMPDIR-none} $HOME", sandbox=sandbox), environ=environ
    )

    assert ending.output == b"none /tmp\n"


def test_the_environment_of_a_task_is_not_in_arguments(bench: Bench) -> None:
    async def scenario(host: Host) -> list[int]:
        work = Work(shell="echo up; sleep 60", env=(("WORD", SECRET),), sandbox=STRICT)
        key = host.launch(work)
        await host.output(key, containing=b"up")
        return processes_with(SECRET)

    assert bench.run(scenario) == []


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
@pytest.mark.parametrize(
    "name", ["data", "in data", "above data", "link", "engine", "above engine", "proc", "root"]
)
def test_what_is_never_bound_is_refused(
    bench: Bench, tmp_path: Path, sandbox: Sandbox, name: str
) -> None:
    engine, link = tmp_path / "engine" / "any-name", tmp_path / "link"
    engine.parent.mkdir()
    engine.touch()
    link.symlink_to(bench.directory / "output")
    sources = {
        "data": bench.directory,
        "in data": bench.directory / "output",
        "above data": bench.directory.parent,
        "link": link,
        "engine": engine,
        "above engine": engine.parent,
        "proc": "/proc/1",
        "root": "/",
    }
    bind = Bind(str(sources[name]), "/tmp/bound")
    environ = {"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{engine}"}

    work = Work(argv=("true",), sandbox=replace(sandbox, binds=(bind,)))
    ending = bench.ending_of(work, environ=environ)

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason.startswith(f"{bind.source!r} is never bound: ")


def wrapped(folder: Path, lines: str) -> dict[str, str]:
    """Return an environment whose bwrap is a script; its *lines* call ``$bwrap``, the real one."""
    program = folder / "programs" / "bwrap"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nbwrap={shutil.which('bwrap')}\n{lines}\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/usr/bin:/bin"}


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
def test_a_task_cannot_exchange_the_source_of_a_bind_after_its_check(
    bench: Bench, tmp_path: Path, sandbox: Sandbox
) -> None:
    srv, private = tmp_path / "srv", tmp_path / "private"
    for folder in (srv / "x", private):
        folder.mkdir(parents=True)
        (folder / "file").write_text(folder.name)
    exchange = f"mv {srv}/x {srv}/y; ln -s {private} {srv}/x"
    environ = wrapped(tmp_path, f'[ "$1" = --args ] && {{ {exchange}; }}\nexec $bwrap "$@"')

    bind = Bind(str(srv / "x"), "/tmp/bound", is_writable=True)
    work = Work(shell="cat bound/file", sandbox=replace(sandbox, binds=(bind,)))
    ending = bench.ending_of(work, environ=environ)

    assert (srv / "x").is_symlink()
    assert (ending.outcome, ending.output) == (Outcome.FAILED, b"")
    assert "were exchanged" in ending.reason


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
@pytest.mark.parametrize("point", ["/tmp/bound", "/tmp/bound/below"])
def test_a_sandbox_with_other_mounts_than_those_that_were_checked_is_not_used(
    bench: Bench, tmp_path: Path, sandbox: Sandbox, point: str
) -> None:
    srv, private = tmp_path / "srv", tmp_path / "private"
    (srv / "below").mkdir(parents=True)
    private.mkdir()
    more = f'a=$1 b=$2; shift 2; set -- "$a" "$b" --bind {private} {point} "$@"'
    environ = wrapped(tmp_path, f'[ "$1" != --args ] || {{ {more}; }}\nexec $bwrap "$@"')

    bind = Bind(str(srv), "/tmp/bound", is_writable=True)
    work = Work(shell=f"touch {point}/made", sandbox=replace(sandbox, binds=(bind,)))
    ending = bench.ending_of(work, environ=environ)

    assert (ending.outcome, list(private.iterdir())) == (Outcome.FAILED, [])
    assert "were exchanged" in ending.reason


@pytest.mark.parametrize("sandbox", [DEFAULT, STRICT], ids=["default", "strict"])
def test_a_link_into_the_mounts_of_another_process_is_no_source(
    bench: Bench, tmp_path: Path, sandbox: Sandbox
) -> None:
    """Such a process chooses the paths that its mounts seem to have."""
    srv = tmp_path / "srv"
    (srv / "evil").mkdir(parents=True)
    mount = f"mount --rbind / {srv}/evil && echo up && exec sleep 60"
    holder = subprocess.Popen(
        ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount),
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        (srv / "link").symlink_to(f"/proc/{holder.pid}/root{srv}/evil")
        bind = Bind(str(srv / "link"), "/tmp/x", is_writable=True)
        ending = bench.ending_of(Work(shell="ls /tmp/x", sandbox=replace(sandbox, binds=(bind,))))
    finally:
        holder.kill()
        holder.communicate()

    assert (ending.outcome, ending.output) == (Outcome.FAILED, b"")
    assert "it leads into the mounts of another process" in ending.reason


def test_nothing_is_made_outside_through_a_link_in_the_target(bench: Bench, tmp_path: Path) -> None:
    srv, outside = tmp_path / "srv", tmp_path / "outside"
    srv.mkdir()
    outside.mkdir()
    (srv / "link").symlink_to(f"/oldroot{outside}")
    rooms = "/srv" if Path("/srv").is_dir() else "/opt"
    link = Path(rooms) / f"rota-{os.getpid()}"
    link.symlink_to(f"/oldroot{outside}")
    try:
        endings = [
            bench.ending_of(
                Work(argv=("true",), sandbox=replace(sandbox, binds=(Bind(str(srv), target),)))
            )
            for sandbox, target in (
                (DEFAULT, f"{link}/made"),
                (DEFAULT, f"{rooms}/missing"),
                (STRICT, "/usr/missing"),
                (STRICT, "/bin/made"),
            )
        ]
    finally:
        link.unlink()

    assert [each.outcome for each in endings] == [Outcome.FAILED] * 4
    assert list(outside.iterdir()) == []
    assert all("cannot be the target" in each.reason for each in endings), endings


def test_an_existing_folder_of_the_machine_may_be_a_target(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "bound").mkdir()
    (tmp_path / "bound" / "in").touch()
    sandbox = replace(DEFAULT, binds=(Bind(str(tmp_path / "bound"), "/mnt"),))

    assert bench.ending_of(Work(argv=("test", "-e", "/mnt/in"), sandbox=sandbox)).exit_code == 0


def test_without_binds_of_descriptors_nothing_that_a_task_could_exchange_is_bound(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "srv" / "x").mkdir(parents=True)
    old = '[ "$1" = --help ] && exit\nexec $bwrap "$@"'
    environ = wrapped(tmp_path, old)
    permitted = (f"{tmp_path}/srv:rw",)

    def ended(source: str) -> Ending:
        sandbox = replace(STRICT, binds=(Bind(f"{tmp_path}/{source}", "/bound"),))
        work = Work(argv=("true",), sandbox=sandbox)

        async def scenario(host: Host) -> Ending:
            return await host.ending(host.launch(work, permitted=permitted))

        return bench.run(scenario, environ=environ)

    assert ended("srv").outcome is Outcome.SUCCEEDED
    below = ended("srv/x")
    assert (below.outcome, below.is_permanent) == (Outcome.FAILED, True)
    assert "could be exchanged" in below.reason


@pytest.mark.parametrize("target", ["/tmp", "/tmp/.rota-result", "/dev", "/proc/self"])
def test_a_bind_over_the_private_folder_is_refused_also_in_a_saved_job(
    bench: Bench, tmp_path: Path, target: str
) -> None:
    bind = Bind(str(tmp_path), target, is_writable=True)

    ending = bench.ending_of(Work(argv=("true",), sandbox=replace(STRICT, binds=(bind,))))

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert "cannot be the target of a bind" in ending.reason


def test_reports_are_only_in_the_memory_that_was_asked_for(bench: Bench, tmp_path: Path) -> None:
    """Nothing is written to a folder of the machine that covers the private folder."""
    srv = tmp_path / "srv"
    srv.mkdir()
    cover = f"--bind {srv} /tmp --dir /tmp/{ARRANGED}"
    insert = f'a=$1 b=$2; shift 2; set -- "$a" "$b" {cover} "$@"'
    environ = wrapped(tmp_path, f'[ "$1" != --args ] || {{ {insert}; }}\nexec $bwrap "$@"')

    async def scenario(host: Host) -> Ending:
        return await host.ending(host.launch(Work(shell="true", sandbox=STRICT), results=b"[1]"))

    ending = bench.run(scenario, environ=environ)

    assert ending.outcome is Outcome.FAILED
    assert list(srv.rglob("*")) == []


def test_a_folder_of_the_machine_is_not_taken_for_that_of_a_sandbox(bench: Bench) -> None:
    """Any task may make a folder of that name in the machine's /tmp.

    About half of the attempts are looked at before their sandbox is arranged.
    """
    decoy = Path(PRIVATE, ARRANGED)
    work = Work(shell="echo 1 > $ROTA_RESULT", sandbox=STRICT)

    async def scenario(host: Host) -> list[bytes]:
        return [(await host.run(work)).result for _ in range(12)]

    decoy.mkdir(exist_ok=True)
    try:
        results = bench.run(scenario)
        is_left = decoy.exists()
    finally:
        with suppress(FileNotFoundError):
            decoy.rmdir()

    assert results == [b"1"] * 12
    assert is_left


def test_another_path_of_an_engines_socket_is_refused(bench: Bench, tmp_path: Path) -> None:
    engine, alias = tmp_path / "engine.sock", tmp_path / "elsewhere" / "alias"
    alias.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(engine))
        os.link(engine, alias)
        environ = {"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{engine}"}

        work = Work(argv=("true",), sandbox=replace(STRICT, binds=(Bind(str(alias), "/tmp/e"),)))
        ending = bench.ending_of(work, environ=environ)

    assert "it leads to a container engine" in ending.reason


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
@pytest.mark.parametrize("kind", ["cgroup", "ipc", "mnt", "pid", "user", "uts"])
def test_a_sandbox_has_namespaces_of_its_own(
    bench: Bench, sandbox: Sandbox, gets_out: bool, kind: str
) -> None:
    output = bench.output_of(sandbox, f"readlink /proc/self/ns/{kind}")

    assert output.startswith(f"{kind}:[")
    assert (output.strip() == os.readlink(f"/proc/self/ns/{kind}")) == gets_out


@every_profile
def test_no_privilege_is_left_or_can_be_had(bench: Bench, sandbox: Sandbox, gets_out: bool) -> None:
    output = bench.output_of(sandbox, "grep -E 'NoNewPrivs|CapEff|Uid' /proc/self/status; id -u")

    status = dict(line.split(":\t") for line in output.splitlines() if ":\t" in line)
    is_unprivileged = status["Uid"].split() == ["65534"] * 4 and output.endswith("\n65534\n")
    assert (status["NoNewPrivs"] == "0") == gets_out
    assert (int(status["CapEff"], 16) == 0 and is_unprivileged) == (not gets_out)


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
    root = Path(__file__).resolve().parents[3]
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
def test_a_stopped_program_gets_sigterm_and_may_use_its_grace(
    bench: Bench, sandbox: Sandbox
) -> None:
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
        seconds = f"4000.{os.getpid()}"
        for _ in range(20):
            work = Work(argv=("sleep", seconds), sandbox=STRICT, stop_grace=Duration(60 * SECOND))
            keys.append(host.launch(work))
            await wait_until(lambda: bool(processes_with(seconds)))
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


def test_user_namespaces_that_an_old_bubblewrap_permits_are_reported(
    bench: Bench, tmp_path: Path
) -> None:
    bwrap, real = tmp_path / "bwrap", shutil.which("bwrap")
    unknown = "echo 'bwrap: Unknown option --disable-userns' >&2; exit 1"
    bwrap.write_text(
        f'#!/bin/sh\ncase "$*" in *--disable-userns*) {unknown};; esac\nexec {real} "$@"\n'
    )
    bwrap.chmod(0o755)

    ending = bench.ending_of(
        Work(argv=("true",), sandbox=STRICT, limits=ResourceLimits(memory=1 << 30)),
        environ={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )

    assert ending.outcome is Outcome.SUCCEEDED
    expected = "the task can make user namespaces: this node's bwrap cannot prevent that"
    assert expected in ending.unenforced


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
                sandbox=replace(STRICT, binds=(Bind("/no/such", "/x"),)),
            ),
            "cannot bind '/no/such': No such file or directory",
        ),
    ],
    ids=["program", "cwd", "bind"],
)
def test_what_is_missing_inside_is_named(bench: Bench, work: Work, reason: str) -> None:
    ending = bench.ending_of(work)

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason.removeprefix("cannot start in its sandbox: ") == reason


def test_unknown_profile_is_named(bench: Bench) -> None:
    ending = bench.ending_of(Work(argv=("true",), sandbox=Sandbox(profile="tight")))

    assert ending.reason == "there is no profile 'tight'; the profiles are none, default, strict"


# What is asked of bubblewrap.


def test_strict_shares_no_folder_of_the_machine_but_the_system() -> None:
    options = wrapping(
        Work(sandbox=STRICT),
        options=(),
        rooms=Rooms(hidden=("/home", "/data"), resolver="/run/resolv.conf"),
        tmp_bytes=1 << 20,
        egress=None,
    )

    binds = (at for at, word in enumerate(options) if word.endswith(("bind", "bind-try")))
    shared = {options[at + 1] for at in binds}
    assert {path for path in shared if not path.startswith(("/usr", "/lib", "/etc"))} == {
        "/bin",
        "/sbin",
    }
    assert {"--die-with-parent", "--new-session", "--unshare-net", "--unshare-pid"} <= set(options)


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
