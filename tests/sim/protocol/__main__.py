"""Run seeds: ``python -m sim.protocol 1000`` or ``python -m sim.protocol 1 --from 4711``."""

import argparse
import sys

from sim.protocol.faults import ALL
from sim.protocol.run import run
from sim.seeds import add_options, run_seeds


def main() -> int:
    """Run the seeds asked for; 1 if any broke a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    return run_seeds(run, options, again="python -m sim.protocol 1", faults=ALL)


if __name__ == "__main__":
    sys.exit(main())
