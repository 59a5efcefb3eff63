"""The report: a page of Markdown with the figures, the machine and the method, and its plots."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from bench.machine import Machine
from bench.plots import distribution, timeline
from bench.runner import Row
from bench.scenarios import SCENARIOS

RESULTS = Path(__file__).parent / "results"
"""The default folder of reports, which git ignores; git tracks only the summaries by date."""
BUSY = 0.1
"""The share of the processors used by others above which figures are unreliable."""
Group = Sequence[Row]
"""The rounds of one scenario on one number of nodes."""


def heading(machine: Machine) -> str:
    """Return a description of the machine, in a few sentences."""
    p50, p99 = machine.sync_ms
    etcd = f", etcd {machine.etcd}" if machine.etcd else ""
    warning = "" if machine.filesystem != "tmpfs" else " This is memory: a sync costs nothing here!"
    return (
        f"rota {machine.rota} ({machine.commit or 'no commit'}), Python {machine.python}{etcd}, "
        f"Linux {machine.kernel}, {machine.processor}, {machine.cores} cores shared by nodes, etcd "
        f"and load generator, {machine.memory_gib:g} GiB. Disk: {machine.filesystem}, an append of "
        f"512 B and fdatasync takes {p50:.2f} ms at the median, {p99:.2f} at p99.{warning}"
    )


def line(row: Row) -> str:
    """Return a line about a finished scenario."""
    figures = dict(row.figures)
    if row.costs is not None:
        figures |= {f"{kind}_cpu_ms": ms for kind, ms in row.costs.cpu_ms.items() if ms >= 0.001}
    shown = "  ".join(f"{name} {figure(value)}" for name, value in figures.items())
    return f"{row.scenario:<20} nodes {row.nodes}  {shown}  busy {row.busy:.2f}"


def figure(value: float) -> str:
    """Return a figure with three significant digits; whole numbers have all digits."""
    if value == int(value) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def write_report(machine: Machine, rows: Sequence[Row], folder: Path) -> Path:
    """Write ``report.md`` and its plots into *folder*; return the path of the report."""
    groups: defaultdict[str, defaultdict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row.scenario][row.nodes].append(row)
    parts = ["# Performance of rota on this machine", heading(machine), *_method(rows)]
    for name, by_size in groups.items():
        parts += [f"## {name}", SCENARIOS[name].about]
        parts += [f"```\nmake bench SCENARIO={name} NODES={','.join(map(str, by_size))}\n```"]
        parts += [_table(by_size.values())]
        parts += [f"![{each.stem}]({each.name})" for each in _plots(name, by_size.values(), folder)]
    report = folder / "report.md"
    report.write_text("\n\n".join(parts) + "\n")
    return report


def _method(rows: Iterable[Row]) -> list[str]:
    durability = {row.nodes: row.durability for row in rows}
    return [
        "Every scenario ran on fresh nodes with default settings, after a warm-up that is not "
        "counted. A write is answered when it is durable: "
        + "; ".join(f"{_nodes(size)}: {how}" for size, how in sorted(durability.items()))
        + ". Latencies count from the time at which a request was due, lateness from the fire "
        "time; percentiles are exact. CPU is the processor time per execution, of all processes of "
        "a kind together. `busy` is the share of the processors that other programs used before; "
        f"above {BUSY:g}, the figures are unreliable, because the machine did other work. For "
        "several rounds: median (minimum to maximum)."
    ]


def _table(groups: Iterable[Group]) -> str:
    columns = [(_nodes(rows[0].nodes), _facts(rows)) for rows in groups]
    names = dict.fromkeys(name for _, facts in columns for name in facts)
    lines = ["| | " + " | ".join(title for title, _ in columns) + " |"]
    lines += ["|---" * (len(columns) + 1) + "|"]
    for name in names:
        lines += [f"| {name} | " + " | ".join(facts.get(name, "") for _, facts in columns) + " |"]
    return "\n".join(lines)


def _nodes(size: int) -> str:
    return "one node" if size == 1 else f"{size} nodes"


def _facts(rows: Group) -> dict[str, str]:
    """Return all figures of a scenario, over its rounds."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        figures = dict(row.figures)
        if row.costs is not None:
            figures |= {f"CPU ms each, {kind}": ms for kind, ms in row.costs.cpu_ms.items() if ms}
            figures |= {f"{name} each": each for name, each in row.costs.counts.items() if each}
        figures |= {f"MiB, {kind}": mib for kind, mib in row.memory_mib.items()}
        figures |= {"busy": row.busy}
        if row.part > 1:
            figures |= {"usual size divided by": row.part}
        for name, value in figures.items():
            values[name].append(value)
    return {name: _range(found) for name, found in values.items()}


def _range(found: Sequence[float]) -> str:
    middle = figure(median(found))
    if len(found) == 1:
        return middle
    return f"{middle} ({figure(min(found))} to {figure(max(found))})"


def _plots(name: str, groups: Iterable[Group], folder: Path) -> list[Path]:
    """Write the plots of a scenario, from the last round; return their paths."""
    last = {_nodes(rows[-1].nodes): rows[-1] for rows in groups}
    curves = {title: row.curve for title, row in last.items() if row.curve}
    times = {title: row.timeline for title, row in last.items() if row.timeline}
    marks = {mark: at for row in last.values() for mark, at in row.marks.items()}
    drawn: dict[str, str] = {}
    if curves:
        drawn[f"{name}-distribution.svg"] = distribution(curves)
    if times:
        drawn[f"{name}-timeline.svg"] = timeline(times, marks)
    for file, plot in drawn.items():
        (folder / file).write_text(plot)
    return [folder / file for file in drawn]
