"""The simulated protocol: every seed that once found a mistake, and some others.

Some are always the same, some are new with every commit (`sim.fresh`). And a seed is a run: the
same on every machine, whatever Python's hashes are.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.fresh import fresh_seeds
from sim.protocol.run import run

HERE = Path(__file__).parent
SEEDS_A_TEST = 10
SEEDS = 30
"""About fifteen seconds of a core."""
FRESH = 8


def found_seeds() -> list[int]:
    """Return the seeds of seeds.txt."""
    lines = (HERE / "protocol/seeds.txt").read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("seed", found_seeds())
def test_a_seed_that_once_found_a_bug_breaks_no_rule(seed: int) -> None:
    assert run(seed).violation == ""


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_seeds_break_no_rule(first: int) -> None:
    found = {seed: run(seed).violation for seed in range(first, first + SEEDS_A_TEST)}

    assert not {seed: violation for seed, violation in found.items() if violation}


@pytest.mark.parametrize("seed", fresh_seeds(FRESH))
def test_fresh_seeds_break_no_rule(seed: int) -> None:
    assert run(seed).violation == ""


def test_the_trace_of_a_seed_does_not_depend_on_hashes() -> None:
    program = "from sim.protocol.run import run; print([run(seed).trace for seed in (3, 4)])"

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
