"""``python -m bench``: run scenarios, and write what they found.

    python -m bench                              all, on one node and on three
    python -m bench bulk start --nodes 3         two of them, on three
    python -m bench --quick                      a tenth of everything: does it work?
    python -m bench --rounds 5 bulk              five times, and the range in the report

Lines of JSON are appended to ``bench/results/results.jsonl``; ``report.md`` beside it, with plots,
is of this run alone.
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
    """Run what was asked for; print a line when each is done, and write the report."""
    end_on_term()
    chosen = _arguments()
    sizes = QUICK if chosen.quick else Sizes(history=chosen.history, jobs=chosen.jobs)
    chosen.results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rota-bench-", dir=chosen.folder) as folder:
        machine = look(Path(folder))
        print(heading(machine))
        rows: list[Row] = []
        failed: list[str] = []
        # Rounds outermost: what the machine does meanwhile then spoils a round, not a scenario.
        for _ in range(chosen.rounds):
            for name in chosen.scenarios or SCENARIOS:
                for size in chosen.nodes:
                    where = Path(folder, f"{name}-{size}")
                    try:
                        row = asyncio.run(run(SCENARIOS[name], size, sizes, where))
                    except Exception:  # Of an hour's run, the other scenarios are still wanted.
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
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {names}; or all")
    parser.add_argument("--nodes", type=_sizes, default=[1, 3], help="default: 1,3")
    parser.add_argument("--rounds", type=int, default=1, help="how often everything is run")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--history", type=int, default=Sizes().history, help="of `history`")
    parser.add_argument("--jobs", type=int, default=Sizes().jobs, help="of `jobs-1m`")
    parser.add_argument("--folder", type=Path, help="on which disk; default: that of /tmp")
    parser.add_argument("--results", type=Path, default=RESULTS, help="default: bench/results")
    chosen = parser.parse_args()
    unknown = [each for each in chosen.scenarios if each not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]}; there are {names}")
    return chosen


def _sizes(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
