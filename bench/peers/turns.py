"""One system's turn: started, driven through the scenarios, ended."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.fleet import Fleet
from bench.peers.environments import programs_of
from bench.peers.programs import running, wait_port
from bench.peers.systems import System
from bench.processes import cpu_of_ended_children_s, cpu_s, descendants

ROOT = Path(__file__).parents[2]
DRIVE_S = 400.0
WARM_UP = 200


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a system did in a scenario.

    Attributes:
        system: ``rota-1`` and ``rota-3`` are rota on so many nodes.
        scenario: Of `bench.peers.apps.drive`.
        round: Which.
        per_s: Of ``throughput`` and ``processes``.
        ms: Of the others: every latency, lateness or hop.
        cpu_ms: Of all its processes, servers too, for each thing that was run; not the driver's,
            which is the asking side, and of APScheduler everything but PostgreSQL.
    """

    system: str
    scenario: str
    round: int
    per_s: float = 0.0
    ms: list[float] = []
    cpu_ms: float = 0.0


def rota_turn(size: int, counts: Mapping[str, int], number: int, folder: Path) -> Iterator[Seen]:
    """Yield what rota does on *size* nodes."""
    folder.mkdir(parents=True)
    with Fleet(folder / "nodes", size) as fleet:
        environment = _environment(folder) | {"BENCH_URLS": ",".join(fleet.urls)}
        pids = [pid for kind, pid in fleet.processes() if kind in ("node", "guard", "etcd")]
        drive = _Drive(Path(sys.executable), "rota_app", environment, pids)
        drive.warm_up()
        for scenario, count in counts.items():
            yield drive.seen(f"rota-{size}", scenario, count, number)


def turn(system: System, counts: Mapping[str, int], number: int, folder: Path) -> Iterator[Seen]:
    """Yield what another system does."""
    folder.mkdir(parents=True)
    programs = programs_of(system)
    with ExitStack() as undo:
        served = undo.enter_context(system.server(folder, programs))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **served.variables}
        _run_each(system.setup, programs, environment, folder)
        pids = [served.pid]
        for place, argv in enumerate(system.workers):
            worker = running(
                command(argv, programs, environment), folder / f"worker-{place}.log",
                environment, folder,
            )  # fmt: skip
            pids.append(undo.enter_context(worker).pid)
        for port in served.ports:
            wait_port(port)
        _run_each(system.setup_after, programs, environment, folder)
        rate = {"BENCH_STARTS_PER_S": str(system.starts_per_s)}
        drive_environment = _environment(folder) | served.variables | rate
        drive = _Drive(programs / "python", system.app, drive_environment, pids)
        drive.warm_up(system.count_of("throughput", WARM_UP))
        for scenario, count in counts.items():
            yield drive.seen(system.name, scenario, system.count_of(scenario, count), number)


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
    """Return what to run: of the system's programs, with variables filled in."""
    return [str(programs / argv[0]), *(each.format_map(variables) for each in argv[1:])]


class _Drive:
    """Runs the driver of a system, and counts what its other processes use meanwhile."""

    def __init__(
        self, python: Path, app: str, environment: dict[str, str], pids: Sequence[int]
    ) -> None:
        self._python, self._app = python, app
        self._environment, self._pids = environment, pids

    def warm_up(self, count: int = WARM_UP) -> None:
        """Have all workers started, and what they need loaded: none of that is counted."""
        self.seen("", "throughput", count, 0)

    def seen(self, system: str, scenario: str, count: int, number: int) -> Seen:
        """Return what comes of *scenario* with so many runs, in the round *number*.

        Raises:
            CalledProcessError: The driver failed.
        """
        before = self._cpu_s()
        ran = subprocess.run(
            [
                *(str(self._python), "-m", "bench.peers.apps.drive"),
                *(self._app, scenario, str(count)),
            ],
            env=self._environment, stdout=subprocess.PIPE, check=True, timeout=DRIVE_S,
        )  # fmt: skip
        found = json.loads(ran.stdout.splitlines()[-1])
        each = 1e3 * (self._cpu_s() - before) / found["run"]
        return Seen(
            system=system,
            scenario=scenario,
            round=number,
            per_s=found.get("per_s", 0.0),
            ms=found.get("ms", []),
            cpu_ms=each,
        )

    def _cpu_s(self) -> float:
        everything = {pid for root in self._pids for pid in (root, *descendants(root))}
        return sum(cpu_s(pid) + cpu_of_ended_children_s(pid) for pid in everything)


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "BENCH_FOLDER": str(folder)}
