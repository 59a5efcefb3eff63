"""Run seeds: ``python -P -m sim.cluster 1000`` or ``python -P -m sim.cluster 1 --from 4711``."""

import argparse
import asyncio
import logging
import sys
from collections import Counter
from time import perf_counter

from rota.core.instants import HOUR
from sim.cluster.run import run
from sim.loop import current_gate


def main() -> int:
    """Run the seeds asked for; 1 if any broke a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=5, help="violations")
    parser.add_argument("--plans", action="store_true", help="print the plan of each seed")
    parser.add_argument("--log", action="store_true", help="show what nodes log")
    options = parser.parse_args()
    show_log() if options.log else logging.disable()
    totals: Counter[str] = Counter()
    simulated, broken, began = 0, 0, perf_counter()
    done = 0
    for seed in range(options.first, options.first + options.count):
        result = run(seed)
        done += 1
        totals.update(result.counts)
        simulated += result.simulated
        if options.plans or result.violation:
            print(f"seed {seed}, trace {result.trace}: {result.plan}", flush=True)
        if result.violation:
            broken += 1
            print(f"  broken: {result.violation}")
            print(f"  again: python -P -m sim.cluster 1 --from {seed}", flush=True)
            if broken >= options.stop_after:
                break
    took = perf_counter() - began
    print(f"{done} seeds, {broken} broken; {simulated / HOUR:.2f} h simulated in {took:.0f} s")
    print(", ".join(f"{count} {what}" for what, count in sorted(totals.items())))
    return 1 if broken else 0


def show_log() -> None:
    """Print what nodes log, with the virtual time and the node's life."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        gate = current_gate()
        time_s = asyncio.get_running_loop().time()
        facts = {key: value for key, value in vars(record).items() if key not in _ORDINARY}
        return f"{time_s:10.4f} {gate.name if gate else '-'} {record.getMessage()} {facts or ''}"


_ORDINARY = vars(logging.makeLogRecord({})).keys()


if __name__ == "__main__":
    sys.exit(main())
