"""New seeds for each commit, the same in all runs of the tests of that commit."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FIRST = 1_000_000
"""Lower seeds are for runs by hand."""


def fresh_seeds(count: int) -> range:
    """Return *count* seeds that follow from the commit; none where there is no git."""
    try:
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return range(0)
    first = FIRST + int(head.stdout[:8], 16)
    return range(first, first + count)
