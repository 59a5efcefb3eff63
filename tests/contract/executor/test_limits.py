"""Enforcement of resource limits, and the report of limits that cannot be enforced."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from contract.executor.executor_host import (
    EXECUTION_ID,
    Host,
    is_running,
    kill_leftovers,
    make_process_executor,
    run_scenario,
    store_id_of,
    wait_until,
)
from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.work import ResourceLimits, Sandbox, Work
from rota.core.timing.instants import SECOND, Duration
from rota.executor.kernel import cgroups
from rota.executor.kernel.cgroups import CONTROLLERS, Cgroups, settings
from rota.executor.kernel.limits import Limiter

MIB = 1 << 20
HOG = "head -c 268435456 /dev/zero | tail"  # A line without an end: tail holds all of it.
BOMB = "i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; echo all; exit 0"
AWAY = "setsid env -i sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & wait"


def missing_here() -> dict[str, str]:
    """Return why which controller cannot be had here."""
    probe = Cgroups("rota-probe-of-tests")
    probe.close()
    return probe.missing


MISSING = missing_here()
needs_cgroups = pytest.mark.skipif(bool(MISSING), reason=f"no cgroups can be made here: {MISSING}")
every_sandbox = pytest.mark.parametrize(
    "sandbox",
    [
        Sandbox(),
        pytest.param(
            Sandbox(profile="strict"),
            marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap"),
        ),
    ],
    ids=["none", "strict"],
)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    kill_leftovers(tmp_path)


def ending_of(directory: Path, work: Work) -> Ending:
    async def scenario(host: Host) -> Ending:
        return await host.run(work)

    return run_scenario("asyncio", make_process_executor(directory), scenario)


# What is held to.


@needs_cgroups
@pytest.mark.parametrize(("memory", "is_held"), [(0, False), (32 * MIB, True)])
@every_sandbox
def test_memory_hog_is_ended_and_said_to_be_out_of_memory(
    directory: Path, sandbox: Sandbox, memory: int, is_held: bool
) -> None:
    work = Work(shell=HOG, sandbox=sandbox, limits=ResourceLimits(memory=memory, pids=50))

    ending = ending_of(directory, work)

    assert (ending.outcome is Outcome.FAILED) == is_held
    assert ending.is_out_of_memory == is_held
    assert ending.reason.startswith("out of memory: it reached its limit of 33554432") == is_held


@needs_cgroups
def test_memory_is_counted_for_all_processes_together(directory: Path) -> None:
    parts = " & ".join(["head -c 16777216 /dev/zero | tail"] * 3)

    ending = ending_of(
        directory, Work(shell=f"{parts} & wait; exit 0", limits=ResourceLimits(memory=256 * MIB))
    )

    assert ending.usage is not None
    assert 16 * MIB < ending.usage.memory_peak < 256 * MIB
    assert not ending.is_out_of_memory


@needs_cgroups
@pytest.mark.parametrize(("pids", "is_held"), [(0, False), (50, True)])
@every_sandbox
def test_fork_bomb_stops_at_the_limit_and_nothing_of_it_is_left(
    directory: Path, sandbox: Sandbox, pids: int, is_held: bool
) -> None:
    work = Work(shell=BOMB, sandbox=sandbox, limits=ResourceLimits(pids=pids, cpu=2.0))

    ending = ending_of(directory, work)

    assert (b"fork" in ending.output) == is_held
    assert (ending.outcome is Outcome.FAILED) == is_held


@needs_cgroups
@every_sandbox
def test_limit_of_processes_is_what_the_task_may_have_itself(
    directory: Path, sandbox: Sandbox
) -> None:
    shell = "(sleep 0.1 & sleep 0.1 & sleep 0.1 & wait)"

    enough = ending_of(directory, Work(shell=shell, sandbox=sandbox, limits=ResourceLimits(pids=5)))
    too_few = ending_of(
        directory, Work(shell=shell, sandbox=sandbox, limits=ResourceLimits(pids=3))
    )

    assert enough.outcome is Outcome.SUCCEEDED
    assert too_few.outcome is Outcome.FAILED


@needs_cgroups
def test_program_that_wants_more_processor_is_throttled(directory: Path) -> None:
    async def scenario(host: Host) -> None:
        key = host.launch(Work(shell="while :; do :; done", limits=ResourceLimits(cpu=0.1)))
        await wait_until(lambda: throttled_count(directory, key) > 0)

    run_scenario("asyncio", make_process_executor(directory), scenario)


@needs_cgroups
@pytest.mark.parametrize(
    ("limits", "is_held"), [(ResourceLimits(), False), (ResourceLimits(pids=50), True)]
)
def test_whole_cgroup_ends_with_its_attempt(
    directory: Path, limits: ResourceLimits, is_held: bool
) -> None:
    async def scenario(host: Host) -> int:
        key = host.launch(Work(shell=AWAY, limits=limits))
        pid = int(await host.output(key, containing=b"\n"))
        host.stop(key, grace=Duration(0))
        await host.ending(key)
        return pid

    pid = run_scenario("asyncio", make_process_executor(directory), scenario)

    was_running = is_running(pid)
    if was_running:  # Found by nothing any more.
        kill_group(pid)
    assert was_running == (not is_held)


@needs_cgroups
def test_processes_left_in_the_cgroup_are_named(directory: Path) -> None:
    asleep = "until grep -qx sleep /proc/$!/comm; do :; done"
    work = Work(
        shell=f"setsid env -i sleep 1000 & {asleep}; exit 3", limits=ResourceLimits(pids=50)
    )

    ending = ending_of(directory, work)

    assert ending.exit_code == 3
    assert ending.left_running == "a process that it left running was killed: sleep"


@needs_cgroups
def test_members_are_stopped_and_killed_where_the_kernel_does_not_do_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a machine with version 1 alone.
    hierarchies = [mount for mount in cgroups.mounts() if mount.version == 1]
    monkeypatch.setattr(cgroups, "mounts", lambda: iter(hierarchies))
    if not any("pids" in mount.controllers for mount in hierarchies):
        pytest.skip("no version 1 here")

    async def scenario(host: Host) -> int:
        key = host.launch(Work(shell=AWAY, limits=ResourceLimits(pids=50)))
        pid = int(await host.output(key, containing=b"\n"))
        host.stop(key, grace=Duration(0))
        await host.ending(key)
        return pid

    pid = run_scenario("asyncio", make_process_executor(directory), scenario)

    assert not is_running(pid)


@needs_cgroups
def test_nothing_is_left_of_cgroups(directory: Path) -> None:
    async def scenario(host: Host) -> list[Path]:
        for _ in range(3):
            await host.run(
                Work(shell="true", limits=ResourceLimits(cpu=1, memory=64 * MIB, pids=9))
            )
        return [path for folder in groups_of(directory) for path in folder.glob(f"{EXECUTION_ID}*")]

    left = run_scenario("asyncio", make_process_executor(directory), scenario)

    assert left == []
    assert groups_of(directory) == []


@needs_cgroups
def test_groups_of_an_earlier_life_are_ended_and_removed(tmp_path: Path) -> None:
    name = f"rota-test-{tmp_path.name}"
    earlier = Cgroups(name)
    left, failed = earlier.make("left", ResourceLimits(pids=10))
    assert left is not None
    assert failed == {}

    later = Cgroups(name)
    later.close()

    assert groups_named(name) == []


def test_no_program_but_that_of_the_task_gets_its_variables(
    directory: Path, tmp_path: Path
) -> None:
    """A library of LD_PRELOAD in another one would run before the limits are in force."""
    variables = (("LD_DEBUG", "files"), ("LD_DEBUG_OUTPUT", f"{tmp_path}/loaded"))
    work = Work(argv=("/bin/true",), env=variables, limits=ResourceLimits(pids=9))

    assert ending_of(directory, work).outcome is Outcome.SUCCEEDED

    loaded = "".join(path.read_text() for path in tmp_path.glob("loaded.*"))
    assert re.findall("transferring control: (.*)", loaded) == ["/bin/true"]


# Reports.


def test_unenforced_limits_are_reported_and_memory_is_limited_for_each_process(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "mounts", lambda: iter(()))
    work = Work(shell=HOG, limits=ResourceLimits(cpu=0.5, memory=32 * MIB, pids=50))

    ending = ending_of(directory, work)

    why = "no cgroup controller for it is mounted"
    assert set(ending.unenforced) == {
        f"the limit of processors is not enforced: {why}",
        f"the limit of processes is not enforced: {why}",
        f"the limit of memory applies to each process alone, not to all of them together: {why}",
    }
    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, 1)
    assert b"memory exhausted" in ending.output


def test_folder_that_may_not_be_written_is_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a hierarchy in which no group can be made: it is no cgroup at all.
    mount = cgroups.Mount(Path("/proc"), "/", 1, frozenset(CONTROLLERS))
    monkeypatch.setattr(cgroups, "mounts", lambda: iter((mount,)))

    ending = ending_of(directory, Work(shell="echo ran", limits=ResourceLimits(pids=50)))

    assert (ending.outcome, ending.output) == (Outcome.SUCCEEDED, b"ran\n")
    [unenforced] = ending.unenforced
    assert unenforced.startswith("the limit of processes is not enforced: /proc/")


def test_without_limits_no_limit_is_reported_as_unenforced(directory: Path) -> None:
    ending = ending_of(directory, Work(shell="true"))

    assert ending.unenforced == ()


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Work(argv=("no-such",)), "there is no program 'no-such' in PATH on node node-a"),
        (
            Work(argv=("./no-such",), cwd="/etc"),
            "there is no program './no-such' in '/etc' on node node-a",
        ),
        (
            Work(argv=("./no-such",), cwd="/no/such"),
            "there is no folder '/no/such' (cwd) on node node-a",
        ),
    ],
    ids=["program", "program in cwd", "cwd"],
)
def test_what_is_missing_is_named_behind_limits_too(
    directory: Path, work: Work, reason: str
) -> None:
    ending = ending_of(directory, replace(work, limits=ResourceLimits(pids=9)))

    assert ending.reason == reason


def test_time_on_the_processor_is_counted(directory: Path) -> None:
    burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"

    idle = ending_of(directory, Work(shell="true"))
    ending = ending_of(directory, Work(shell=f"({burn})"))

    assert idle.usage is not None
    assert ending.usage is not None
    assert idle.usage.cpu < ending.usage.cpu < 60 * SECOND


# What is written where.


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            1,
            {
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "50000",
                "memory.limit_in_bytes": "67108864",
                "memory.memsw.limit_in_bytes": "67108864",
                "pids.max": "20",
            },
        ),
        (
            2,
            {
                "cpu.max": "50000 100000",
                "memory.max": "67108864",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
                "pids.max": "20",
            },
        ),
    ],
)
def test_limits_in_the_files_of_either_version(version: int, expected: dict[str, str]) -> None:
    limits = ResourceLimits(cpu=0.5, memory=64 * MIB, pids=20)

    written = {
        file: value
        for controller in CONTROLLERS
        for file, value, _ in settings(controller, version, limits)
    }

    assert written == expected


def test_share_of_a_processor_is_not_below_what_the_kernel_takes() -> None:
    assert settings("cpu", 2, ResourceLimits(cpu=0.001)) == [("cpu.max", "1000 100000", True)]


def groups_named(beginning: str) -> list[Path]:
    return [
        path
        for mount in cgroups.mounts()
        for path in mount.path.rglob(f"{beginning}*")
        if path.is_dir()
    ]


def groups_of(directory: Path) -> list[Path]:
    """Return the folders for the attempts of an executor in *directory*."""
    return groups_named(Limiter(store_id_of(directory)).name)


def throttled_count(directory: Path, key: AttemptKey) -> int:
    name = f"{key.execution_id}.{key.task}.{key.number}"
    stats = [path / name / "cpu.stat" for path in groups_of(directory)]
    lines = [line for path in stats if path.exists() for line in path.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("nr_throttled "))


def kill_group(pid: int) -> None:
    os.killpg(pid, 9)
