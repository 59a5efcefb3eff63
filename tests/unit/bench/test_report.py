"""Rows and reports of benchmarks."""

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from bench.costs import Costs
from bench.machine import Machine
from bench.plots import distribution, timeline
from bench.report import figure, heading, line, write_report
from bench.runner import BINS, Row, spread, worst
from bench.scenario import Sizes
from bench.scenarios import SCENARIOS

MACHINE = Machine(
    processor="a processor",
    cores=2,
    memory_gib=4.0,
    kernel="6.1",
    python="3.11.2",
    rota="0.1.0",
    commit="abc",
    etcd="3.4",
    filesystem="ext4",
    sync_ms=(0.2, 3.0),
)
COSTS = Costs(executions=10, seconds=2.0, cpu_ms={"node": 0.4}, counts={"syncs": 0.1})


def row(nodes: int = 1, per_s: float = 100.0, **more: object) -> Row:
    """Return the row of a scenario."""
    fields = {
        "scenario": "bulk",
        "nodes": nodes,
        "at": "2026-11-21T00:00:00Z",
        "took_s": 1.0,
        "busy": 0.1,
        "part": 1,
        "figures": {"per_s": per_s},
        "durability": "on this node's disk",
    }
    return Row(**fields | more)  # type: ignore[arg-type]  # of many types


def test_percentiles_of_samples_are_samples() -> None:
    samples = [float(each) for each in range(1_000, 0, -1)]

    found = spread(samples)

    assert found == {
        "count": 1_000,
        "p50_ms": 500.0,
        "p99_ms": 990.0,
        "p999_ms": 999.0,
        "max_ms": 1_000.0,
    }


def test_few_samples_have_no_percentiles_beyond_all_of_them() -> None:
    assert [*spread([1.0, 2.0, 3.0])] == ["count", "p50_ms", "max_ms"]


def test_a_scenario_without_samples_has_no_percentiles() -> None:
    assert spread([]) == {}


def test_the_worst_of_each_part_of_a_timeline_is_kept() -> None:
    points = [(each / 100, 1.0) for each in range(10_000)]
    points[5_000] = (50.0, 900.0)

    kept = worst(points)

    assert len(kept) <= BINS + 1
    assert [late for at, late in kept if 49.5 < at < 50.5 and late > 1.0] == [900.0]


def test_rounds_are_shown_as_the_median_and_the_range(tmp_path: Path) -> None:
    rows = [row(per_s=each) for each in (300.0, 100.0, 200.0)]

    report = write_report(MACHINE, rows, tmp_path).read_text()

    assert "| per_s | 200 (100 to 300) |" in report


def test_a_report_has_the_command_the_machine_and_the_durability(tmp_path: Path) -> None:
    report = write_report(MACHINE, [row(1), row(3)], tmp_path).read_text()

    assert "make bench SCENARIO=bulk NODES=1,3" in report
    assert heading(MACHINE) in report
    assert "on this node's disk" in report
    assert SCENARIOS["bulk"].about in report


def test_costs_are_in_the_line_and_in_the_report(tmp_path: Path) -> None:
    measured = row(costs=COSTS)

    report = write_report(MACHINE, [measured], tmp_path).read_text()

    assert "node_cpu_ms 0.4" in line(measured)
    assert "| CPU ms each, node | 0.4 |" in report
    assert "| syncs each | 0.1 |" in report


def test_a_disk_in_memory_is_reported() -> None:
    memory = msgspec.structs.replace(MACHINE, filesystem="tmpfs")

    assert "a sync costs nothing" in heading(memory)
    assert "a sync costs nothing" not in heading(MACHINE)


def test_plots_are_beside_the_report_that_shows_them(tmp_path: Path) -> None:
    samples = row(curve=[(0.0, 1.0), (1.0, 9.0)], timeline=[(0.0, 1.0), (9.0, 2.0)])

    report = write_report(MACHINE, [samples], tmp_path).read_text()

    shown = re.findall(r"!\[.*\]\((.*)\)", report)
    assert shown == ["bulk-distribution.svg", "bulk-timeline.svg"]
    assert all((tmp_path / each).exists() for each in shown)


@pytest.mark.parametrize(
    "plot",
    [
        distribution({"one <node>": [(0.0, 0.01), (0.5, 2.0), (1.0, 900.0)]}),
        timeline({"one <node>": [(0.0, 0.01), (5.0, 2.0), (20.0, 900.0)]}, {"kill -9": 5.0}),
    ],
)
def test_what_is_later_is_higher_in_a_plot(plot: str) -> None:
    drawing = ElementTree.fromstring(plot)

    polyline = drawing.find("{*}polyline")
    assert polyline is not None
    points = [each.split(",") for each in polyline.attrib["points"].split()]
    across, down = [float(x) for x, _ in points], [float(y) for _, y in points]
    assert across == sorted(across)
    assert down == sorted(down, reverse=True)
    assert "one <node>" in [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("value", "shown"), [(4.0, "4"), (12_345.6, "12,346"), (0.12345, "0.123"), (99.96, "100")]
)
def test_figures_have_three_digits(value: float, shown: str) -> None:
    assert figure(value) == shown


def test_a_tenth_of_little_is_still_enough_to_see_something() -> None:
    assert [Sizes(part=10).some(count) for count in (5_000, 50, 3)] == [500, 10, 3]


def test_every_scenario_is_in_the_page_about_performance() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "performance.md").read_text()

    assert [name for name in SCENARIOS if f"`{name}`" not in page] == []
