"""Runs of many seeds, in several processes, and their report."""

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pool
from time import perf_counter

from rota.core.timing.instants import HOUR, Duration


@dataclass(slots=True)
class Result:
    """The result of a seed's run.

    Attributes:
        plan: Parameters of its world.
        violation: The broken rule; empty if none.
        counts: Faults and other events, by kind.
        trace: A digest of all events, in order.
    """

    seed: int
    plan: object
    violation: str
    counts: Counter[str]
    simulated: Duration
    trace: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select seeds to *parser*."""
    parser.add_argument("count", type=int)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=5, help="violations")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--plans", action="store_true", help="print the plan of each seed")


def run_seeds(
    run: Callable[[int], Result],
    options: argparse.Namespace,
    *,
    again: str,
    faults: Collection[str],
) -> int:
    """Run the seeds that *options* select, and print their results.

    Args:
        run: Runs one seed; it is pickled for other processes.
        options: See `add_options`.
        again: The command that repeats a seed, without its number.
        faults: The counts that are faults.

    Returns:
        1 if any seed broke a rule, else 0.
    """
    totals: Counter[str] = Counter()
    done, broken, simulated, began = 0, 0, 0, perf_counter()
    seeds = range(options.first, options.first + options.count)
    with _results(run, seeds, options.workers) as results:
        for result in results:
            done += 1
            totals.update(result.counts)
            simulated += result.simulated
            if options.plans or result.violation:
                print(f"seed {result.seed}, trace {result.trace}: {result.plan}", flush=True)
            if result.violation:
                broken += 1
                print(f"  broken: {result.violation}")
                print(f"  again: {again} --from {result.seed}", flush=True)
                if broken >= options.stop_after:
                    break
    took = perf_counter() - began
    print(f"{done} seeds, {broken} broken; {simulated / HOUR:.2f} h simulated in {took:.0f} s")
    met = {what: count for what, count in totals.items() if what in faults}
    print(f"{sum(met.values()):,} faults: {_listed(met)}")
    print(f"under them: {_listed(totals - Counter(met))}")
    return 1 if broken else 0


@contextmanager
def _results(
    run: Callable[[int], Result], seeds: range, workers: int
) -> Generator[Iterator[Result], None, None]:
    """Run seeds in *workers* processes, and yield their results in order."""
    if workers == 1:
        yield map(run, seeds)
        return
    with Pool(workers) as pool:
        yield pool.imap(run, seeds)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
