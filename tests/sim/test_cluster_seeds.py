"""Whole nodes in a simulated cluster: every seed that finds a known mistake, and some others.

The others are new with every commit (`sim.fresh`). And a seed is a run: the
same on every machine, whatever Python's hashes are.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.cluster.run import run
from sim.fresh import fresh_seeds

HERE = Path(__file__).parent
FRESH = 2
"""Up to seven seconds of a core each; `make sim` runs as many as one likes."""


@pytest.fixture(autouse=True)
def _nodes_log_nothing() -> Iterator[None]:
    # A node under faults warns thousands of times, and formatting that costs a third of a run.
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def found_seeds() -> list[int]:
    """Return the seeds of seeds.txt."""
    lines = (HERE / "cluster/seeds.txt").read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line[:1].isdigit()]


@pytest.mark.parametrize("seed", found_seeds())
def test_a_seed_that_once_found_a_bug_breaks_no_rule(seed: int) -> None:
    assert run(seed).violation == ""


@pytest.mark.parametrize("seed", fresh_seeds(FRESH))
def test_fresh_seeds_break_no_rule(seed: int) -> None:
    assert run(seed).violation == ""


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("focus", ["reruns", "hooks", "access"])
def test_seeds_with_a_focus_break_no_rule(focus: str, seed: int) -> None:
    assert run(seed, focus=focus).violation == ""


def test_the_trace_of_a_seed_does_not_depend_on_hashes() -> None:
    program = (
        "import logging; logging.disable(); from sim.cluster.run import run; "
        "print([run(seed).trace for seed in (5,)])"
    )

    traces = {
        subprocess.run(
            [sys.executable, "-P", "-c", program],
            env={**os.environ, "PYTHONPATH": "src:tests", "PYTHONHASHSEED": hash_seed},
            cwd=HERE.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }

    assert len(traces) == 1
