"""Run seeds: ``python -m sim.protocol 1000`` or ``python -m sim.protocol 1 --from 4711``."""

import argparse
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from multiprocessing import Pool
from time import perf_counter

from rota.core.instants import HOUR
from sim.protocol.run import Result, run


def main() -> int:
    """Run the seeds asked for; 1 if any broke a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=5, help="violations")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    simulated, broken, began = 0, 0, perf_counter()
    done = 0
    seeds = range(options.first, options.first + options.count)
    with results_of(seeds, options.workers) as results:
        for result in results:
            done += 1
            totals.update(result.counts)
            simulated += result.simulated
            if result.violation:
                broken += 1
                print(f"seed {result.seed}: {result.violation}\n  {result.plan}")
                print(f"  again: python -m sim.protocol 1 --from {result.seed}", flush=True)
                if broken >= options.stop_after:
                    break
    took = perf_counter() - began
    print(f"{done} seeds, {broken} broken; {simulated / HOUR:.1f} h simulated in {took:.0f} s")
    print(", ".join(f"{count:,} {what}" for what, count in sorted(totals.items())))
    return 1 if broken else 0


@contextmanager
def results_of(seeds: range, workers: int) -> Generator[Iterator[Result], None, None]:
    """Run seeds in so many processes, and yield their results in order."""
    if workers == 1:
        yield map(run, seeds)
        return
    with Pool(workers) as pool:
        yield pool.imap(run, seeds, chunksize=4)


if __name__ == "__main__":
    sys.exit(main())
