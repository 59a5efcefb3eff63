"""Run seeds: ``python -P -m sim.cluster 1000`` or ``python -P -m sim.cluster 1 --from 4711``."""

import argparse
import asyncio
import logging
import sys
from functools import partial

from sim.cluster.faults import APART, ASKED_FOR, FAULTS, MENDING, RARE
from sim.cluster.plan import ASKED_FOR as FOCUSES_ASKED_FOR
from sim.cluster.plan import FOCUSES
from sim.cluster.run import run
from sim.loop import current_gate
from sim.seeds import add_options, run_seeds


def main() -> int:
    """Run the seeds asked for; 1 if any broke a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument(
        "--focus", choices={**FOCUSES, **FOCUSES_ASKED_FOR}, help="what all worlds are about"
    )
    parser.add_argument("--log", action="store_true", help="show what nodes log")
    options = parser.parse_args()
    show_log() if options.log else logging.disable()
    again = "python -P -m sim.cluster 1"
    if options.focus:
        again += f" --focus {options.focus}"
    faults = {*FAULTS, *RARE, *APART, *ASKED_FOR, MENDING}
    return run_seeds(partial(run, focus=options.focus), options, again=again, faults=faults)


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
