"""The turn of one system: it is started, run through the scenarios, and ended.

For the scenario `restart`, all processes of a system are killed, and started again with their data:
first the server, then the workers, as soon as the server accepts requests. Of rota, the nodes and
their wardens are killed, as the wardens would otherwise survive with Python workers; etcd, which
the nodes share, is not. The measured time includes all of this, and the start of the driver.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import msgspec

from bench.fleet import Fleet
from bench.peers.environments import programs_of
from bench.peers.programs import Running, kill, running, wait_port
from bench.peers.servers import Served
from bench.peers.systems import System
from bench.processes import cpu_of_ended_children_s, cpu_s, descendants

ROOT = Path(__file__).parents[2]
DRIVE_S = 400.0
WARM_UP = 200


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a system in a scenario.

    Attributes:
        system: The name of the system; ``rota-1`` and ``rota-3`` are rota on one and three nodes.
        scenario: The scenario, one of those in `bench.peers.apps.drive`.
        round: The number of the round.
        per_s: The rate in ``throughput`` and ``processes``.
        ms: In the other scenarios, every latency, lateness or time between starts.
        cpu_ms: The processor time per run of all its processes, including servers, but not of the
            driver, which makes the requests, and which for APScheduler does everything but
            PostgreSQL's part. 0 in ``restart``, which no process survives.
    """

    system: str
    scenario: str
    round: int
    per_s: float = 0.0
    ms: list[float] = []
    cpu_ms: float = 0.0


def rota_turn(size: int, counts: Mapping[str, int], number: int, folder: Path) -> Iterator[Seen]:
    """Yield the results of rota on *size* nodes."""
    folder.mkdir(parents=True)
    with Fleet(folder / "nodes", size) as fleet:
        environment = _environment(folder) | {"BENCH_URLS": ",".join(fleet.urls)}
        again = partial(_start_nodes_again, fleet)
        pids = partial(_pids_of, fleet)
        drive = _Drive(Path(sys.executable), "rota_app", environment, pids, again)
        drive.warm_up()
        for scenario, count in counts.items():
            yield drive.seen(f"rota-{size}", scenario, count, number)


def turn(system: System, counts: Mapping[str, int], number: int, folder: Path) -> Iterator[Seen]:
    """Yield the results of another system."""
    folder.mkdir(parents=True)
    programs = programs_of(system)
    with ExitStack() as undo:
        served = undo.enter_context(system.server(folder, programs))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **served.variables}
        _run_each(system.setup, programs, environment, folder)
        workers = [*map(undo.enter_context, _workers(system, programs, environment, folder))]
        for port in served.ports:
            wait_port(port)
        _run_each(system.setup_after, programs, environment, folder)
        rate = {"BENCH_STARTS_PER_S": str(system.starts_per_s)}
        drive_environment = _environment(folder) | served.variables | rate
        drive = _Drive(
            programs / "python", system.app, drive_environment,
            pids=lambda: [each.pid for each in (served.program, *workers)],
            start_again=partial(_start_again, served, workers),
        )  # fmt: skip
        drive.warm_up(system.count_of("throughput", WARM_UP))
        for scenario, count in counts.items():
            yield drive.seen(system.name, scenario, system.count_of(scenario, count), number)


def _workers(
    system: System, programs: Path, environment: dict[str, str], folder: Path
) -> Iterator[AbstractContextManager[Running]]:
    for place, argv in enumerate(system.workers):
        filled = command(argv, programs, environment)
        yield running(filled, folder / f"worker-{place}.log", environment, folder)


def _pids_of(fleet: Fleet) -> list[int]:
    return [pid for kind, pid in fleet.processes() if kind in ("node", "guard", "etcd")]


def _start_nodes_again(fleet: Fleet) -> float:
    """Kill all nodes and wardens and start them at once; return the time of the kill.

    Raises:
        TimeoutError: A process does not end.
        NodeNotStarted: Another program has taken the port of a node.
    """
    killed_at = time.time()
    kill(pid for kind, pid in fleet.processes() if kind != "etcd")
    fleet.kill(fleet.nodes)  # Reaps the nodes, which this process has started.
    fleet.launch(fleet.nodes)
    return killed_at


def _start_again(served: Served, workers: Sequence[Running]) -> float:
    """Kill server and workers and start them at once; return the time of the kill.

    Raises:
        TimeoutError: A process does not end, or the server does not accept requests.
    """
    killed_at = time.time()
    kill(each.pid for each in (served.program, *workers))
    for each in (served.program, *workers):
        each.reap()
    served.program.launch()
    served.wait()
    for worker in workers:
        worker.launch()
    return killed_at


def _run_each(
    commands: Iterable[Sequence[str]], programs: Path, environment: dict[str, str], folder: Path
) -> None:
    with (folder / "setup.log").open("ab") as log:
        for argv in commands:
            subprocess.run(
                command(argv, programs, environment),
                check=True, env=environment, cwd=folder, stdout=log, stderr=log,
            )  # fmt: skip


def command(argv: Sequence[str], programs: Path, variables: Mapping[str, str]) -> list[str]:
    """Return the command with the path of the system's program, and with variables filled in."""
    return [str(programs / argv[0]), *(each.format_map(variables) for each in argv[1:])]


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The figures that a driver prints; see `bench.peers.apps.drive`."""

    run: int
    per_s: float = 0.0
    ms: list[float] = []


class _Drive:
    """Runs the driver of a system, and measures the processor time of the system's processes.

    Args:
        python: The Python interpreter of the system's environment.
        app: The system's module in `bench.peers.apps`.
        environment: The environment variables of the driver.
        pids: Returns the numbers of the system's processes, without their children.
        start_again: Kills all processes, starts them again, and returns the time of the kill in
            seconds since 1970.
    """

    def __init__(
        self,
        python: Path,
        app: str,
        environment: Mapping[str, str],
        pids: Callable[[], Iterable[int]],
        start_again: Callable[[], float],
    ) -> None:
        self._python, self._app, self._environment = python, app, environment
        self._pids, self._start_again = pids, start_again

    def warm_up(self, count: int = WARM_UP) -> None:
        """Run some load that is not counted, so that all workers are started."""
        self.seen("", "throughput", count, 0)

    def seen(self, system: str, scenario: str, count: int, number: int) -> Seen:
        """Return the result of *scenario* with *count* runs, in the round *number*.

        Raises:
            CalledProcessError: The driver failed.
        """
        if scenario == "restart":
            killed_at = {"BENCH_KILLED_AT": repr(self._start_again())}
            found, cpu_s = self._found(scenario, count, killed_at), 0.0
        else:
            before = self._cpu_s()
            found = self._found(scenario, count, {})
            cpu_s = self._cpu_s() - before
        return Seen(
            system=system,
            scenario=scenario,
            round=number,
            per_s=found.per_s,
            ms=found.ms,
            cpu_ms=1e3 * cpu_s / found.run,
        )

    def _found(self, scenario: str, count: int, more: Mapping[str, str]) -> _Found:
        ran = subprocess.run(
            [
                *(str(self._python), "-m", "bench.peers.apps.drive"),
                *(self._app, scenario, str(count)),
            ],
            env={**self._environment, **more}, stdout=subprocess.PIPE, check=True, timeout=DRIVE_S,
        )  # fmt: skip
        return msgspec.json.decode(ran.stdout.splitlines()[-1], type=_Found)

    def _cpu_s(self) -> float:
        everything = {pid for root in self._pids() for pid in (root, *descendants(root))}
        return sum(cpu_s(pid) + cpu_of_ended_children_s(pid) for pid in everything)


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "BENCH_FOLDER": str(folder)}
