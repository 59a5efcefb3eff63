"""Measure the cost of access and of TLS between nodes: ``python -m bench.secure``.

    python -m bench.secure             `posts` on three nodes, five rounds
    python -m bench.secure bulk        another scenario of `bench.scenarios`

Each round runs the scenario on open nodes, and on nodes that require a token and have TLS between
them, so that other work of the machine affects both. The API has no TLS in either case, as behind a
proxy. The result is the ratio of the medians. Nothing is compared with a bound: the share of TLS
depends on the processor.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import median

from bench.machine import look
from bench.processes import end_on_term
from bench.report import figure, heading
from bench.runner import Row, run
from bench.scenario import Sizes
from bench.scenarios import SCENARIOS

NODES = 3


def main() -> None:
    """Measure, and print each round and the ratio."""
    end_on_term()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenario", nargs="?", default="posts", choices=("posts", "bulk"))
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    measured: dict[bool, list[Row]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        print(heading(look(Path(folder))))
        for _ in range(chosen.rounds):
            for is_secure, rows in measured.items():
                scenario, place = SCENARIOS[chosen.scenario], Path(folder, "cluster")
                rows.append(asyncio.run(run(scenario, NODES, Sizes(), place, is_secure=is_secure)))
                print(_line(rows[-1], is_secure=is_secure), flush=True)
    rates = {is_secure: median(map(_rate, rows)) for is_secure, rows in measured.items()}
    print(
        f"{chosen.scenario} with keys and TLS between nodes: {figure(rates[True])} a second, "
        f"without: {figure(rates[False])}; ratio {rates[True] / rates[False]:.2f}"
    )


def _rate(row: Row) -> float:
    return row.figures["per_s"]


def _line(row: Row, *, is_secure: bool) -> str:
    mode = "keys and TLS" if is_secure else "open"
    node_ms = row.costs.cpu_ms["node"] if row.costs else 0.0
    return (
        f"{row.scenario} {mode:<12}  {figure(_rate(row))} a second  "
        f"node CPU {figure(node_ms)} ms each  busy {row.busy:.2f}"
    )


if __name__ == "__main__":
    main()
