"""``python -m bench``: run scenarios, and write their results.

    python -m bench                              all scenarios, on one node and on three
    python -m bench bulk start --nodes 3         two scenarios, on three nodes
    python -m bench --quick                      a tenth of everything, to check that it works
    python -m bench --rounds 5 bulk              five rounds, with the range in the report

Lines of JSON are appended to ``bench/results/results.jsonl``. The file ``report.md`` beside it,
with plots, covers only this run.
"""

import argparse
import asyncio
import tempfile
import traceback
from pathlib import Path

import msgspec

from bench.machine import look
from bench.processes import end_on_term
from bench.report import RESULTS, heading, line, write_report
from bench.runner import Row, run
from bench.scenario import Sizes
from bench.scenarios import SCENARIOS

QUICK = Sizes(part=10, history=10_000, jobs=10_000)


def main() -> None:
    """Run the requested scenarios; print a line after each, and write the report."""
    end_on_term()
    chosen = _arguments()
    sizes = QUICK if chosen.quick else Sizes(history=chosen.history, jobs=chosen.jobs)
    chosen.results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rota-bench-", dir=chosen.folder) as folder:
        machine = look(Path(folder))
        print(heading(machine))
        rows: list[Row] = []
        failed: list[str] = []
        # Rounds are the outer loop: other work of the machine then affects one round of all
        # scenarios, not all rounds of one scenario.
        for _ in range(chosen.rounds):
            for name in chosen.scenarios or SCENARIOS:
                for size in chosen.nodes:
                    where = Path(folder, f"{name}-{size}")
                    try:
                        row = asyncio.run(run(SCENARIOS[name], size, sizes, where))
                    except Exception:  # A run may take an hour: the other scenarios continue.
                        traceback.print_exc()
                        failed.append(f"{name} on {size}")
                        continue
                    print(line(row), flush=True)
                    rows.append(row)
                    _keep(row, chosen.results / "results.jsonl")
    report = write_report(machine, rows, chosen.results)
    print(f"{report} has the figures and plots")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _keep(row: Row, path: Path) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.encode(row) + b"\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure rota on this machine."
    )
    names = ", ".join(SCENARIOS)
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"one of {names}; default: all"
    )
    parser.add_argument(
        "--nodes", type=_sizes, default=[1, 3], help="numbers of nodes; default: 1,3"
    )
    parser.add_argument("--rounds", type=int, default=1, help="number of rounds of everything")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument(
        "--history", type=int, default=Sizes().history, help="executions of `history`"
    )
    parser.add_argument("--jobs", type=int, default=Sizes().jobs, help="jobs of `jobs-1m`")
    parser.add_argument("--folder", type=Path, help="folder for the nodes' data; default: /tmp")
    parser.add_argument("--results", type=Path, default=RESULTS, help="default: bench/results")
    chosen = parser.parse_args()
    unknown = [each for each in chosen.scenarios if each not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]}; the scenarios are {names}")
    return chosen


def _sizes(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
