"""The container executor beyond the common contract, with a real engine."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from contract.executor.container_host import BUSYBOX, make_container_executor
from contract.executor.executor_host import (
    EXECUTION_ID,
    FIRE_AT,
    TOKEN,
    Host,
    Scenario,
    now,
    run_scenario,
    store_id_of,
    wait_until,
)
from rota.core.model.attempt import OUTPUT_TAIL_BYTES, AttemptKey, Ending, Order, Outcome, Report
from rota.core.model.work import Bind, Image, ResourceLimits, Work
from rota.core.timing.instants import SECOND, Duration
from rota.executor.attempt_settings import USUAL, AttemptSettings
from rota.executor.container.engine import Container, Engine
from rota.executor.container.init_process import InitProcess
from rota.executor.container.shared_folder import SharedFolder
from support.docker import Dockerd, needs_docker
from support.registry import STALLED, serving

pytestmark = needs_docker

T = TypeVar("T")

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"
PATIENT = Work(image=BUSYBOX, shell="echo up; exec sleep 60")


class Bench:
    """A container executor in a folder of its own, and what was reported to it."""

    def __init__(self, dockerd: Dockerd, directory: Path) -> None:
        self.dockerd = dockerd
        self.directory = directory
        self.reports: list[Report] = []

    def run(
        self,
        scenario: Scenario[T],
        *,
        host: str = "",
        call_s: float = 20.0,
        output_bytes_max: int = 10 << 20,
        settings: AttemptSettings = USUAL,
    ) -> T:
        """Return what *scenario* returns, after closing the executor."""
        make = make_container_executor(
            host or self.dockerd.host,
            self.directory,
            reported=lambda _, report: self.reports.append(report),
            call_s=call_s,
            output_bytes_max=output_bytes_max,
            settings=settings,
        )
        return run_scenario("asyncio", make, scenario)

    def ending_of(
        self, work: Work, *, host: str = "", call_s: float = 20.0, settings: AttemptSettings = USUAL
    ) -> Ending:
        """Return how an attempt at *work* ends."""

        async def scenario(host: Host) -> Ending:
            return await host.run(work)

        return self.run(scenario, host=host, call_s=call_s, settings=settings)

    def output_of(self, work: Work) -> str:
        """Return what a successful attempt at *work* writes."""
        ending = self.ending_of(work)
        assert ending.outcome is Outcome.SUCCEEDED, ending
        return ending.output.decode()

    def containers(self) -> list[str]:
        """Return the ids of the containers of this executor."""
        return self.dockerd.containers(f"label=rota.store={store_id_of(self.directory)}")


@pytest.fixture
def bench(dockerd: Dockerd, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(dockerd, tmp_path.with_name(f"{tmp_path.name}-data"))
    yield bench
    left = bench.containers()
    if left:
        dockerd.docker("rm", "--force", *left)
    assert left == []


# -- what is run ---------------------------------------------------------------------------------


def test_root_in_a_container_has_no_capability_and_can_get_none(bench: Bench) -> None:
    output = bench.output_of(
        Work(image=BUSYBOX, shell="id -u; grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
    )

    uid, *lines = output.splitlines()
    status = dict(line.split(":\t") for line in lines)
    assert (uid, status.pop("NoNewPrivs")) == ("0", "1")
    assert {int(mask, 16) for mask in status.values()} == {0}


def test_a_container_without_limits_has_those_of_its_node(bench: Bench) -> None:
    work = Work(image=BUSYBOX, shell="for i in $(seq 40); do sleep 60 & done 2>&1; echo all")

    ending = bench.ending_of(work, settings=AttemptSettings(container_pids=20))

    assert b"can't fork" in ending.output


def test_a_limit_of_its_own_takes_the_place_of_the_nodes(bench: Bench) -> None:
    work = Work(
        image=BUSYBOX,
        shell="for i in $(seq 40); do sleep 1 & done 2>&1; echo all",
        limits=ResourceLimits(pids=60),
    )

    ending = bench.ending_of(
        work, settings=AttemptSettings(container_pids=20, container_memory=64 << 20)
    )

    assert ending.output == b"all\n"


@pytest.mark.parametrize("name", ["data", "engine", "above", "proc"])
def test_what_is_never_bound_is_not_bound_to_a_container(bench: Bench, name: str) -> None:
    sources = {
        "data": bench.directory,
        "engine": bench.dockerd.host.removeprefix("unix://"),
        "above": bench.directory.parent,
        "proc": "/proc/1",
    }
    bind = Bind(str(sources[name]), "/bound")

    ending = bench.ending_of(Work(image=replace(BUSYBOX, binds=(bind,)), argv=("true",)))

    assert ending.outcome is Outcome.FAILED
    assert ending.reason.startswith(f"{bind.source!r} is never bound: ")


def test_the_network_of_another_container_is_not_shared(bench: Bench) -> None:
    ending = bench.ending_of(Work(image=replace(BUSYBOX, network="container:x"), argv=("true",)))

    assert ending.reason == (
        "the network 'container:x' belongs to another container; name one of the engine's networks"
    )


def test_image_runs_its_own_command(bench: Bench) -> None:
    assert bench.output_of(Work(image=BUSYBOX)) == "by itself\n"


def test_argv_takes_the_place_of_all_that_the_image_runs(bench: Bench) -> None:
    bench.dockerd.build("entered", 'FROM busybox\nENTRYPOINT ["echo", "entered"]\n')
    image = replace(BUSYBOX, name="entered")

    output = bench.output_of(Work(image=image, argv=("printf", "%s|", "a b", "$HOME")))

    assert output == "a b|$HOME|"


def test_a_container_has_its_attempt_in_environment_and_labels(bench: Bench) -> None:
    async def scenario(host: Host) -> dict[str, str]:
        key = host.launch(Work(image=BUSYBOX, shell="env; exec sleep 60", env=(("MINE", "x y"),)))
        output = await host.output(key, containing=b"ROTA_TOKEN")
        for line in output.decode().splitlines():
            name, _, seen[name] = line.partition("=")
        [container] = bench.containers()
        labels: dict[str, str] = bench.dockerd.inspect(container)["Config"]["Labels"]
        return labels

    seen: dict[str, str] = {}
    labels = bench.run(scenario)

    assert seen["MINE"] == "x y"
    assert seen["ROTA_TOKEN"] == labels["rota.token"] == str(TOKEN)
    assert seen["ROTA_IDEMPOTENCY_KEY"] == seen["ROTA_EXECUTION_ID"] == EXECUTION_ID
    assert labels["rota.execution"] == EXECUTION_ID
    assert (seen["ROTA_TASK"], labels["rota.task"]) == ("task-1", "task-1")
    assert (seen["ROTA_ATTEMPT"], labels["rota.attempt"]) == ("1", "1")
    assert (seen["ROTA_NODE_ID"], labels["rota.store"]) == ("node-a", store_id_of(bench.directory))
    assert "ROTA_STORE_ID" not in seen  # By it a sweep of processes would end what is adopted.


def test_user_and_working_directory_are_those_asked_for(bench: Bench) -> None:
    image = replace(BUSYBOX, user="someone")

    work = Work(image=image, shell="id -u; pwd", cwd="/tmp")

    assert bench.output_of(work) == "1234\n/tmp\n"


def test_long_input_arrives_whole_and_ends(bench: Bench) -> None:
    work = Work(image=BUSYBOX, argv=("wc", "-c"), stdin="x" * 1_000_000)

    assert bench.output_of(work).strip() == "1000000"


def test_unread_input_is_no_error_and_keeps_no_connection(bench: Bench) -> None:
    before = len(os.listdir("/proc/self/fd"))

    ending = bench.ending_of(Work(image=BUSYBOX, argv=("true",), stdin="x" * 1_000_000))

    assert (ending.outcome, ending.reason) == (Outcome.SUCCEEDED, "")
    assert len(os.listdir("/proc/self/fd")) == before


def test_output_is_kept_byte_for_byte_up_to_its_limit(bench: Bench) -> None:
    async def scenario(host: Host) -> tuple[Ending, bytes]:
        key = host.launch(Work(image=BUSYBOX, shell="printf '\\377\\000'; seq 1 5000"))
        ending = await host.ending(key)
        output = await host.executor.output(key)
        assert output is not None
        return ending, await output.read(0)

    ending, kept = bench.run(scenario, output_bytes_max=8192)

    text = b"\xff\x00" + "".join(f"{number}\n" for number in range(1, 5001)).encode()
    assert ending.output == text[-OUTPUT_TAIL_BYTES:]
    assert ending.output_bytes == len(text)
    assert kept[:8192] == text[:8192]
    assert kept[8192:].startswith(b"\n[rota: output cut here, the limit of 8192 bytes is reached")


def test_output_of_both_streams_is_taken(bench: Bench) -> None:
    output = bench.output_of(Work(image=BUSYBOX, shell="echo out; echo err >&2"))

    assert sorted(output.split()) == ["err", "out"]


def test_container_that_closes_its_streams_is_waited_for(bench: Bench) -> None:
    ending = bench.ending_of(Work(image=BUSYBOX, shell="exec >&- 2>&-; sleep 0.5; exit 4"))

    assert (ending.exit_code, ending.reason) == (4, "exited with code 4")


def test_progress_checkpoint_and_result_are_reported(bench: Bench) -> None:
    image = replace(BUSYBOX, user="someone")
    shell = """
        echo 40 > $ROTA_PROGRESS; printf seen > $ROTA_CHECKPOINT
        echo '{"rows": 3}' > $ROTA_RESULT
    """

    ending = bench.ending_of(Work(image=image, shell=shell))

    assert bench.reports == [Report(percent=40, checkpoint=b"seen")]
    assert json.loads(ending.result) == {"rows": 3}
    assert list((bench.directory / "containers" / "shared").iterdir()) == []


def test_a_container_of_any_user_reads_the_results_of_needed_tasks(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        order = Order(
            key=AttemptKey(EXECUTION_ID, "load", 1),
            token=TOKEN,
            work=Work(image=replace(BUSYBOX, user="someone"), shell="cat $ROTA_RESULTS"),
            fire_at=FIRE_AT,
            results=b'{"extract":[1]}',
        )
        host.executor.launch(order)
        return await host.ending(order.key)

    ending = bench.run(scenario)

    assert ending.output == b'{"extract":[1]}'


def test_progress_is_reported_while_the_attempt_runs(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        host.launch(Work(image=BUSYBOX, shell="echo 10 > $ROTA_PROGRESS; exec sleep 60"))
        await wait_until(lambda: bench.reports == [Report(percent=10)])

    bench.run(scenario)


def test_an_invalid_result_is_reported_and_does_not_undo_the_work(bench: Bench) -> None:
    ending = bench.ending_of(Work(image=BUSYBOX, shell="echo '{' > $ROTA_RESULT"))

    assert (ending.outcome, ending.result) == (Outcome.SUCCEEDED, b"")
    assert ending.reason.startswith("its result is not JSON")


def test_an_engine_without_the_node_s_files_runs_an_attempt_that_reports_progress(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a folder that the engine does not find, as if this were in a container itself.
    async def make_nothing(folder: SharedFolder, checkpoint: bytes) -> None:
        del folder, checkpoint

    monkeypatch.setattr(SharedFolder, "make", make_nothing)
    image = replace(BUSYBOX, user="someone")

    output = bench.output_of(Work(image=image, shell="echo 5 > $ROTA_PROGRESS; cat $ROTA_PROGRESS"))

    assert output == "5\n"
    assert bench.reports == []


# -- what it is kept from ------------------------------------------------------------------------


def test_memory_above_the_limit_ends_the_attempt_as_out_of_memory(bench: Bench) -> None:
    limits = ResourceLimits(memory=20 << 20)

    ending = bench.ending_of(Work(image=BUSYBOX, shell="tail /dev/zero", limits=limits))

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.FAILED, 137, 9)
    assert ending.is_out_of_memory
    assert ending.reason == (
        "out of memory: it reached its limit of 20971520 bytes; ended by signal 9 (SIGKILL)"
    )


def test_kill_of_its_own_is_not_taken_for_a_lack_of_memory(bench: Bench) -> None:
    ending = bench.ending_of(
        Work(image=BUSYBOX, shell="kill -9 $$", limits=ResourceLimits(memory=20 << 20))
    )

    assert (ending.signal, ending.is_out_of_memory) == (9, False)
    assert ending.reason == "ended by signal 9 (SIGKILL)"


def test_processes_above_the_limit_are_not_started(bench: Bench) -> None:
    shell = "for n in $(seq 40); do sleep 60 & done; echo all"

    ending = bench.ending_of(Work(image=BUSYBOX, shell=shell, limits=ResourceLimits(pids=20)))

    assert ending.outcome is Outcome.FAILED
    assert b"can't fork" in ending.output


def test_share_of_a_processor_is_set(bench: Bench) -> None:
    files = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max"
    work = Work(image=BUSYBOX, shell=f"cat {files} 2>&-; true", limits=ResourceLimits(cpu=0.5))

    assert bench.output_of(work).split()[0] == "50000"


def test_no_new_privileges_and_an_init_are_given(bench: Bench) -> None:
    work = Work(image=BUSYBOX, shell="grep NoNewPrivs /proc/self/status; cat /proc/1/comm")

    output = bench.output_of(work).split()

    assert output[:2] == ["NoNewPrivs:", "1"]
    assert output[2] not in ("sh", "cat")


@pytest.mark.parametrize(("network", "interfaces"), [("none", "lo"), ("bridge", "eth0 lo")])
def test_network_is_the_one_asked_for(bench: Bench, network: str, interfaces: str) -> None:
    image = replace(BUSYBOX, network=network)

    output = bench.output_of(Work(image=image, argv=("ls", "/sys/class/net")))

    assert " ".join(output.split()) == interfaces


def test_bind_is_written_to_only_if_it_may_be(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "word").write_text("hello")
    (tmp_path / "out").mkdir()
    binds = (Bind(f"{tmp_path}/in", "/in"), Bind(f"{tmp_path}/out", "/out", is_writable=True))
    work = Work(image=replace(BUSYBOX, binds=binds), shell="cp /in/word /out/word; touch /in/x")

    ending = bench.ending_of(work)

    assert (tmp_path / "out" / "word").read_text() == "hello"
    assert ending.exit_code == 1
    assert b"Read-only file system" in ending.output


def test_usage_is_reported(bench: Bench) -> None:
    shell = (
        "head -c 8000000 /dev/zero > /dev/null; head -c 8000000 /dev/zero | tail -c 7000000 | wc"
    )

    # The engine looks once a second, and later on a busy machine.
    lasting = (Work(image=BUSYBOX, shell=f"{shell}; sleep {life_s}") for life_s in (4, 8, 12))
    ending = next(found for each in lasting if (found := bench.ending_of(each)).usage is not None)

    assert ending.usage is not None
    assert 0 < ending.usage.cpu < 20 * SECOND
    assert 7_000_000 < ending.usage.memory_peak < 1 << 30
    assert ending.unenforced == ()


# -- what cannot be run --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Work(shell="true"), "a container task needs an image"),
        (Work(image=BUSYBOX, argv=("a",), shell="b"), "at most one of argv and shell"),
        (Work(image=BUSYBOX, cwd="tmp"), "'tmp' is not an absolute path"),
        (Work(image=Image(name="UPPER case")), "did not create a container: invalid reference"),
        (Work(image=replace(BUSYBOX, user="unknown")), "did not start a container: .*user"),
        (
            Work(image=replace(BUSYBOX, binds=(Bind("/no/such/folder", "/x"),))),
            "did not create a container: .*/no/such/folder",
        ),
        (Work(image=replace(BUSYBOX, network="nowhere")), "did not start a .*network nowhere"),
        (
            Work(image=Image(name="no-such", pull="never")),
            "'no-such' is not on the engine's machine .* 'never'; run `docker pull no-such` there",
        ),
        (
            Work(image=Image(name="127.0.0.1:1/no-such")),
            "did not pull the image '127.0.0.1:1/no-such': .*connection refused",
        ),
    ],
)
def test_what_cannot_be_run_says_why_and_leaves_nothing(
    bench: Bench, work: Work, reason: str
) -> None:
    ending = bench.ending_of(work)

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.FAILED, -1, 0)
    assert re.search(reason, ending.reason), ending.reason
    assert list((bench.directory / "containers" / "shared").iterdir()) == []


def test_program_that_is_not_in_the_image_is_named(bench: Bench) -> None:
    ending = bench.ending_of(Work(image=BUSYBOX, argv=("no-such-program",)))

    assert ending.exit_code == 127
    assert b"no-such-program" in ending.output


def test_engine_that_is_not_there_is_named(bench: Bench) -> None:
    ending = bench.ending_of(Work(image=BUSYBOX), host="unix:///no/such.sock")

    assert ending.outcome is Outcome.FAILED
    assert ending.reason.startswith(
        "the container engine at unix:///no/such.sock cannot be reached: "
    )


def test_host_that_names_no_engine_is_refused(bench: Bench) -> None:
    ending = bench.ending_of(Work(image=BUSYBOX), host="/var/run/docker.sock")

    assert ending.reason.startswith("'/var/run/docker.sock' does not name a container engine")


def test_missing_library_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiodocker", None)

    ending = bench.ending_of(Work(image=BUSYBOX))

    assert ending.reason.endswith("pip install 'rota[node,docker]'")


def test_bug_that_one_attempt_meets_ends_that_one_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an unexpected exception in an attempt that has just been started.
    inspect = Engine.inspect

    async def break_once(engine: Engine, container_id: str) -> Container:
        monkeypatch.setattr(Engine, "inspect", inspect)
        raise ZeroDivisionError(container_id)

    async def scenario(host: Host) -> tuple[Ending, list[str], Ending]:
        other = host.launch(PATIENT)
        await host.output(other, containing=b"up")
        [running] = bench.containers()
        monkeypatch.setattr(Engine, "inspect", break_once)
        ending = await host.run(PATIENT)
        left = [container for container in bench.containers() if container != running]
        host.stop(other)
        return ending, left, await host.ending(other)

    ending, left, other = bench.run(scenario)

    assert ending.outcome is Outcome.FAILED
    assert ending.reason.startswith("the container executor has a bug: ")
    assert left == []
    assert (other.outcome, other.signal) == (Outcome.CANCELLED, 15)


# -- images --------------------------------------------------------------------------------------


def test_missing_image_is_fetched_once_and_then_used(bench: Bench, tmp_path: Path) -> None:
    with serving(bench.dockerd, "busybox", tmp_path / "registry") as name:
        image = Image(name=f"{name}:missing", network="none")
        first = bench.output_of(Work(image=image))
    again = bench.output_of(Work(image=image))

    assert (first, again) == ("by itself\n", "by itself\n")


def test_image_to_be_pulled_always_needs_its_registry(bench: Bench, tmp_path: Path) -> None:
    with serving(bench.dockerd, "busybox", tmp_path / "registry") as name:
        image = Image(name=f"{name}:always", pull="always", network="none")
        first = bench.output_of(Work(image=image))
    again = bench.ending_of(Work(image=image))

    assert first == "by itself\n"
    assert again.reason.startswith(f"the container engine did not pull the image '{image.name}'")


def test_pull_that_takes_long_can_be_stopped(bench: Bench, tmp_path: Path) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(image=Image(name=f"{name}:{STALLED}")))
        await wait_until((tmp_path / "registry" / "asked").exists)
        host.stop(key)
        return await host.ending(key)

    with serving(bench.dockerd, "busybox", tmp_path / "registry") as name:
        ending = bench.run(scenario)

    assert (ending.outcome, ending.reason) == (Outcome.CANCELLED, "stopped before it started")


# -- how it is ended -----------------------------------------------------------------------------


def test_container_that_ignores_term_is_killed_after_its_grace(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(
            Work(image=BUSYBOX, shell=STUBBORN, stop_grace=Duration(300_000)),
        )
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code, ending.signal) == (Outcome.CANCELLED, 137, 9)
    assert ending.reason == (
        "stopped on request; killed, as it had not ended 300ms after the signal to stop"
    )


def test_grace_that_runs_becomes_shorter_and_never_longer(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(image=BUSYBOX, shell=STUBBORN))
        await host.output(key, containing=b"up")
        for grace in (600 * SECOND, 200_000, 300 * SECOND):
            host.stop(key, grace=Duration(grace))
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 9)


def test_stop_that_comes_after_the_end_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    image = replace(BUSYBOX, binds=(Bind(str(tmp_path), "/gate"),))
    shell = "echo up; while [ ! -e /gate/open ]; do sleep 0.05; done"

    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(image=image, shell=shell))
        await host.output(key, containing=b"up")
        (tmp_path / "open").touch()
        # The loop gets no turn to hear of the end.
        bench.dockerd.docker("wait", *bench.containers())
        host.stop(key)
        return await host.ending(key)

    assert bench.run(scenario).outcome is Outcome.SUCCEEDED


def test_container_that_ends_in_its_grace_with_success_is_cancelled(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        shell = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
        key = host.launch(Work(image=BUSYBOX, shell=shell))
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code) == (Outcome.CANCELLED, 0)
    assert ending.output == b"up\nbye\n"


def test_signal_that_the_image_wants_is_the_one_sent(bench: Bench) -> None:
    bench.dockerd.build("polite", "FROM busybox\nSTOPSIGNAL SIGUSR1\n")

    async def scenario(host: Host) -> Ending:
        shell = "trap 'exit 7' USR1; trap '' TERM; echo up; while :; do sleep 0.1; done"
        key = host.launch(Work(image=replace(BUSYBOX, name="polite"), shell=shell))
        await host.output(key, containing=b"up")
        host.stop(key)
        return await host.ending(key)

    assert bench.run(scenario).exit_code == 7


def test_a_container_killed_from_outside_has_failed(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(PATIENT)
        await host.output(key, containing=b"up")
        await asyncio.to_thread(bench.dockerd.docker, "kill", *bench.containers())
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.signal) == (Outcome.FAILED, 9)


def test_a_container_removed_before_its_inspection_has_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a container that is removed before the engine is asked for its exit code.
    inspect = Engine.inspect

    async def remove_and_inspect(engine: Engine, container_id: str) -> Container:
        container = await inspect(engine, container_id)
        if not container.state.running:
            await engine.remove(container_id)
        return await inspect(engine, container_id)

    monkeypatch.setattr(Engine, "inspect", remove_and_inspect)

    ending = bench.ending_of(Work(image=BUSYBOX))

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert ending.reason == "its container has ended, and the engine does not report how"


# -- an engine that hangs or ends ----------------------------------------------------------------


def test_engine_that_hangs_is_named_when_nothing_was_started(bench: Bench) -> None:
    with bench.dockerd.paused():
        ending = bench.ending_of(Work(image=BUSYBOX), call_s=0.3)

    assert ending.outcome is Outcome.FAILED
    assert ending.reason.endswith("did not describe itself in time")


def test_a_container_is_killed_and_reported_while_the_engine_hangs(bench: Bench) -> None:
    async def scenario(host: Host) -> Ending:
        key = host.launch(PATIENT)
        await host.output(key, containing=b"up")
        with bench.dockerd.paused():
            host.executor.stop(key, grace=Duration(0))
            return await host.ending(key)

    ending = bench.run(scenario, call_s=0.5)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 9)
    assert ending.reason == "stopped on request; killed at once"
    assert ending.output == b"up\n"


def test_an_end_is_not_reported_before_the_engine_confirms_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an engine whose processes are not on this machine.
    def find_none(pid: int, container_id: str) -> None:
        del pid, container_id

    monkeypatch.setattr(InitProcess, "find", find_none)

    async def scenario(host: Host) -> tuple[Ending, Duration]:
        key = host.launch(PATIENT)
        await host.output(key, containing=b"up")
        with bench.dockerd.paused():
            host.executor.stop(key, grace=Duration(0))
            await host.run(Work(image=BUSYBOX))  # Fails, as long after as a call may take.
            assert key not in host.endings
            woken_at = now()
        ending = await host.ending(key)
        return ending, Duration(ending.finished_at - woken_at)

    ending, after = bench.run(scenario, call_s=0.5)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 9)
    assert after >= 0


def test_a_start_without_an_answer_is_undone_before_it_is_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given that the engine hangs from the instant at which it is asked to start the container.
    start = Engine.start

    async def hang_and_start(engine: Engine, container_id: str) -> None:
        bench.dockerd.pause()
        hung.set()
        await start(engine, container_id)

    monkeypatch.setattr(Engine, "start", hang_and_start)
    monkeypatch.setattr("rota.executor.container.engine.START_S", 0.3)
    hung = asyncio.Event()

    async def scenario(host: Host) -> tuple[Ending, Duration]:
        key = host.launch(PATIENT)
        await hung.wait()
        try:
            await host.run(Work(image=BUSYBOX))  # Fails, as long after as a call may take.
            assert key not in host.endings
        finally:
            bench.dockerd.wake()
        woken_at = now()
        ending = await host.ending(key)
        return ending, Duration(ending.finished_at - woken_at)

    ending, after = bench.run(scenario, call_s=1.0)

    assert ending.outcome is Outcome.FAILED
    assert ending.reason.endswith("did not start a container in time")
    assert after >= 0


def test_engine_that_is_started_again_loses_neither_output_nor_end(
    bench: Bench, tmp_path: Path
) -> None:
    image = replace(BUSYBOX, binds=(Bind(str(tmp_path), "/gate"),))
    shell = "echo up; while [ ! -e /gate/open ]; do sleep 0.05; done; echo down; exit 5"

    async def scenario(host: Host) -> Ending:
        key = host.launch(Work(image=image, shell=shell))
        await host.output(key, containing=b"up")
        bench.dockerd.kill()
        await asyncio.to_thread(bench.dockerd.start)
        (tmp_path / "open").touch()
        return await host.ending(key)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, 5)
    assert ending.output == b"up\ndown\n"
