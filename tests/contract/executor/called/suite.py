"""Functions that the suite of all executors calls in a Python worker."""

import sys
import time


def end(exit_code: int, output: str) -> None:
    """Write *output* and end with *exit_code*."""
    sys.stdout.write(output)
    if exit_code:
        sys.exit(exit_code)


def last(output: str) -> None:
    """Write *output* and take a minute."""
    sys.stdout.write(output)
    sys.stdout.flush()
    time.sleep(60)
