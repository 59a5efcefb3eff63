"""``python -m bench.peers``: rota and other schedulers, in turns.

    python -m bench.peers                        all systems
    python -m bench.peers celery taskiq          rota and two other systems
    python -m bench.peers --rounds 1 --part 10   a tenth of everything, to check that it works
    python -m bench.peers --only chain restart   two scenarios on all systems

Redis and PostgreSQL must be installed, and npm for Restate; the packages of each system are
installed automatically into ``build/bench-peers``. The results are written to
``bench/results/peers.jsonl`` and ``peers.md``. A system that cannot be installed is skipped; the
report has the reason, and the exit status is 1.
"""

import argparse
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.machine import busy, look
from bench.peers.comparison import ROTA, write_comparison
from bench.peers.environments import versions_of
from bench.peers.programs import NotInstalled
from bench.peers.systems import SYSTEMS
from bench.peers.turns import Seen, rota_turn, turn
from bench.processes import end_on_term
from bench.report import RESULTS

COUNTS = {
    "throughput": 5_000,
    "start": 250,
    "timers": 1_000,
    "timers-at-once": 500,
    "chain": 20,
    "processes": 1_000,
    "restart": 20,
}
LOG_LINES = 20


def main() -> None:
    """Let systems take turns, and write the results."""
    end_on_term()
    chosen = _arguments()
    counts = {
        name: max(10, count // chosen.part) for name, count in COUNTS.items() if name in chosen.only
    }
    chosen.results.mkdir(parents=True, exist_ok=True)
    seen: list[Seen] = []
    missing: dict[str, str] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        machine = look(Path(folder))
        print(f"busy {busy():.2f}")
        for number in range(chosen.rounds):
            for name in [each for each in (*ROTA, *chosen.systems) if each not in missing]:
                where = Path(folder, f"{name}-{number}")
                try:
                    for each in _turn(name, counts, number, where):
                        print(_line(each), flush=True)
                        seen.append(each)
                        with (chosen.results / "peers.jsonl").open("ab") as file:
                            file.write(msgspec.json.encode(each) + b"\n")
                except NotInstalled as error:
                    print(f"SKIPPED {name}: {error}", file=sys.stderr)
                    missing[name] = f"not measured: {error}"
                except (TimeoutError, subprocess.SubprocessError) as error:
                    traceback.print_exc()
                    print(_ends_of_logs(where), file=sys.stderr)
                    failed[name] = f"failed in round {number}: {str(error).rstrip('.')}"
    versions = {name: versions_of(SYSTEMS[name]) for name in chosen.systems if name not in missing}
    troubles = missing | failed
    path = write_comparison(machine, seen, versions, chosen.results, troubles=troubles)
    print(f"{path} has the ratios")
    if troubles:
        raise SystemExit(f"not measured, or only in part: {', '.join(sorted(troubles))}")


def _turn(name: str, counts: dict[str, int], number: int, folder: Path) -> Iterator[Seen]:
    if name in SYSTEMS:
        return turn(SYSTEMS[name], counts, number, folder)
    return rota_turn(int(name.removeprefix("rota-")), counts, number, folder)


def _ends_of_logs(folder: Path) -> str:
    """Return the last lines of a system's logs, whose folder is removed after the run."""
    lines: list[str] = []
    for path in sorted(folder.glob("*.log")):
        text = path.read_text(errors="replace")
        lines += [f"--- {path.name}", *text.splitlines()[-LOG_LINES:]]
    return "\n".join(lines)


def _line(seen: Seen) -> str:
    if seen.ms:
        ordered = sorted(seen.ms)
        figures = f"p50 {ordered[len(ordered) // 2]:.2f} ms, most {ordered[-1]:.2f} ms"
    else:
        figures = f"{seen.per_s:.0f}/s"
    where = f"round {seen.round}  {seen.system:<14} {seen.scenario:<15}"
    cpu = f", CPU {seen.cpu_ms:.2f} ms each" if seen.cpu_ms else ""
    return f"{where} {figures}{cpu}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    parser.add_argument(
        "systems",
        nargs="*",
        metavar="SYSTEM",
        help=f"some of {', '.join(SYSTEMS)}; default: all",
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each system; default: 3")
    parser.add_argument("--part", type=int, default=1, help="divisor of all numbers of runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="default: bench/results")
    parser.add_argument(
        "--only", nargs="+", choices=COUNTS, default=[*COUNTS], metavar="SCENARIO",
        help=f"some of {', '.join(COUNTS)}; default: all",
    )  # fmt: skip
    chosen = parser.parse_args()
    unknown = [each for each in chosen.systems if each not in SYSTEMS]
    if unknown:
        parser.error(f"there is no system {unknown[0]}; the systems are {', '.join(SYSTEMS)}")
    chosen.systems = chosen.systems or [*SYSTEMS]
    return chosen


if __name__ == "__main__":
    main()
