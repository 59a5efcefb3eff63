"""Scenarios of the bench on real nodes: each runs, and its row has the costs."""

from pathlib import Path

import pytest
from bench.runner import run
from bench.scenario import Sizes
from bench.scenarios import SCENARIOS

TINY = Sizes(part=1_000, history=10, jobs=100)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["posts", "start", "chain-10", "fan-100", "kill-all"])
async def test_a_scenario_runs_on_one_node_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    row = await run(SCENARIOS[name], 1, TINY, tmp_path / "bench")

    assert row.scenario == name
    assert row.nodes == 1
    assert row.figures.get("p50_ms", row.figures.get("per_s", 0.0)) > 0
    assert not (tmp_path / "bench").exists()


@pytest.mark.timeout(300)
async def test_what_is_counted_is_of_the_executions_alone(tmp_path: Path) -> None:
    row = await run(SCENARIOS["bulk"], 1, Sizes(part=100), tmp_path / "bench")

    assert row.costs is not None
    assert row.costs.executions == 400
    # Triggered, started, finished; in bulk, some of it in one decision.
    assert 1 <= row.costs.counts["decisions"] <= 3.5
    assert 0 < row.costs.counts["syncs"] < 1
    assert row.costs.counts["frames"] == 0
    assert set(row.memory_mib) == {"node", "guard", "warden"}
