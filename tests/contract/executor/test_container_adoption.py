"""Containers of an executor that was killed: resumed, lost, or removed."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from contract.executor.container_host import (
    BUSYBOX,
    live_and_die,
    make_container_executor,
    order_of,
)
from contract.executor.executor_host import (
    EXECUTION_ID,
    Host,
    Scenario,
    now,
    run_scenario,
    store_id_of,
    wait_until,
)
from rota.core.model.attempt import AttemptKey, Ending, Outcome, Report
from rota.core.model.work import Bind, Work
from rota.core.timing.instants import SECOND, Duration
from rota.executor.container import end_containers
from rota.executor.container.creation import labels_of
from support.docker import Dockerd, needs_docker

pytestmark = needs_docker

T = TypeVar("T")

FIRST, SECOND_ONE = (AttemptKey(EXECUTION_ID, f"task-{number}", 1) for number in (1, 2))
PATIENT = Work(image=BUSYBOX, shell="echo up; exec sleep 60")


class Bench:
    """Successive lives of one executor, with a gate that containers wait for."""

    def __init__(self, dockerd: Dockerd, directory: Path) -> None:
        self.dockerd = dockerd
        self.directory = directory
        self.store_id = store_id_of(directory)
        self.gate = directory.with_name(f"{directory.name}-gate")
        self.gate.mkdir()
        self.reports: list[Report] = []

    def waits(self, then: str) -> Work:
        """Return work that prints "up", waits until the gate is open, and runs *then*."""
        image = replace(BUSYBOX, binds=(Bind(str(self.gate), "/gate"),))
        shell = f"echo up; while [ ! -e /gate/open ]; do sleep 0.05; done; {then}"
        return Work(image=image, shell=shell)

    def open_gate(self) -> None:
        """Let the containers continue."""
        (self.gate / "open").touch()

    def live_and_die(self, *works: Work) -> None:
        """Run a life that launches *works*, and kill it when they are up."""
        live_and_die(self.dockerd, self.directory, *works)

    def run(self, scenario: Scenario[T]) -> T:
        """Return what *scenario* returns in the next life."""
        make = make_container_executor(
            self.dockerd.host,
            self.directory,
            reported=lambda _, report: self.reports.append(report),
        )
        return run_scenario("asyncio", make, scenario)

    def containers(self, *filters: str) -> list[str]:
        """Return the ids of the containers of this executor."""
        return self.dockerd.containers(f"label=rota.store={self.store_id}", *filters)


@pytest.fixture
def bench(dockerd: Dockerd, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(dockerd, tmp_path)
    yield bench
    left = bench.containers()
    if left:
        dockerd.docker("rm", "--force", *left)
    assert left == []


def options_of(store_id: str, key: AttemptKey) -> list[str]:
    """Return the options of ``docker`` by which a container is that of *key* in *store_id*."""
    labels = labels_of(order_of(key, PATIENT), store_id)
    return [f"--label={name}={value}" for name, value in labels.items()]


def test_running_container_is_gone_on_with_from_its_first_output(bench: Bench) -> None:
    work = bench.waits("echo 70 > $ROTA_PROGRESS; echo down; exit 7")
    bench.live_and_die(work)

    async def scenario(host: Host) -> Ending:
        host.resume(work, key=FIRST)
        await host.output(FIRST, containing=b"up\n")
        bench.open_gate()
        return await host.ending(FIRST)

    before = now()
    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code, ending.output) == (Outcome.FAILED, 7, b"up\ndown\n")
    assert ending.started_at < before <= ending.finished_at
    assert bench.reports == [Report(percent=70)]


def test_a_container_that_ended_meanwhile_is_reported_with_its_outcome(bench: Bench) -> None:
    work = bench.waits("echo down")
    bench.live_and_die(work)
    bench.open_gate()
    bench.dockerd.docker("wait", *bench.containers())

    async def scenario(host: Host) -> Ending:
        host.resume(work, key=FIRST)
        host.stop(FIRST)  # Too late, which the executor has not noticed yet.
        return await host.ending(FIRST)

    before = now()
    ending = bench.run(scenario)

    assert (ending.outcome, ending.output) == (Outcome.SUCCEEDED, b"up\ndown\n")
    assert ending.finished_at < before


def test_container_that_is_gone_is_lost(bench: Bench) -> None:
    bench.live_and_die(PATIENT)
    bench.dockerd.docker("rm", "--force", *bench.containers())

    async def scenario(host: Host) -> Ending:
        host.resume(PATIENT, key=FIRST)
        return await host.ending(FIRST)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.exit_code) == (Outcome.LOST, -1)
    assert ending.reason == "its container does not exist any more"


def test_container_that_was_never_started_is_lost_and_removed(bench: Bench) -> None:
    bench.dockerd.docker("create", *options_of(bench.store_id, FIRST), "busybox")

    async def scenario(host: Host) -> tuple[Ending, list[str]]:
        host.resume(PATIENT, key=FIRST)
        return await host.ending(FIRST), bench.containers()

    ending, left = bench.run(scenario)

    assert (ending.outcome, ending.reason) == (Outcome.LOST, "its container was never started")
    assert left == []


def test_container_gone_on_with_can_be_stopped(bench: Bench) -> None:
    bench.live_and_die(PATIENT)

    async def scenario(host: Host) -> Ending:
        host.resume(PATIENT, key=FIRST)
        await host.output(FIRST, containing=b"up")
        host.stop(FIRST)
        return await host.ending(FIRST)

    ending = bench.run(scenario)

    assert (ending.outcome, ending.signal) == (Outcome.CANCELLED, 15)


def test_timeout_counts_from_the_start_in_the_earlier_life(bench: Bench) -> None:
    work = replace(PATIENT, timeout=Duration(3 * SECOND))
    bench.live_and_die(work)

    async def scenario(host: Host) -> Ending:
        host.resume(work, key=FIRST)
        return await host.ending(FIRST)

    begun = now()
    ending = bench.run(scenario)

    assert ending.outcome is Outcome.TIMED_OUT
    assert ending.started_at < begun
    assert ending.finished_at - ending.started_at >= 3 * SECOND


def test_containers_that_are_not_resumed_are_removed_and_no_others(bench: Bench) -> None:
    bench.live_and_die(bench.waits("exit 3"), PATIENT)
    other = bench.dockerd.docker(
        "run", "--detach", *options_of("other", SECOND_ONE), "busybox", "top"
    )

    async def scenario(host: Host) -> Ending:
        host.resume(bench.waits("exit 3"), key=FIRST)
        await wait_until(lambda: len(bench.containers()) == 1)
        bench.open_gate()
        return await host.ending(FIRST)

    ending = bench.run(scenario)

    assert ending.exit_code == 3
    assert other in bench.dockerd.containers()
    assert list((bench.directory / "containers" / "shared").iterdir()) == []
    bench.dockerd.docker("rm", "--force", other)


def test_what_runs_on_can_be_ended_without_an_executor(bench: Bench) -> None:
    bench.live_and_die(bench.waits("exit 3"), PATIENT)
    bench.open_gate()
    bench.dockerd.docker("wait", *bench.containers(f"label=rota.task={FIRST.task}"))

    ended = end_containers(bench.store_id, {"DOCKER_HOST": bench.dockerd.host})

    async def scenario(host: Host) -> tuple[Ending, Ending]:
        host.resume(bench.waits("exit 3"), key=FIRST)
        host.resume(PATIENT, key=SECOND_ONE)
        return await host.ending(FIRST), await host.ending(SECOND_ONE)

    first, second = bench.run(scenario)
    assert ended == [SECOND_ONE]
    assert (first.outcome, first.exit_code) == (Outcome.FAILED, 3)
    assert second.outcome is Outcome.LOST
